//! Bytes that wait in a link's queue or are in service: of all flows, and of each flow's data.

use crate::packet::{FlowId, Packet, Way};

/// The bytes. A flow has a place once its first packet waits.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    all: u64,
    /// Data only: a flow's acks wait on other links, or are another queue on the same one.
    data: Vec<u64>,
}

impl Backlog {
    pub(super) fn add(&mut self, packet: &Packet) {
        self.all += u64::from(packet.len);
        if packet.way == Way::Data {
            let flow = usize::from(packet.flow);
            if self.data.len() <= flow {
                self.data.resize(flow + 1, 0);
            }
            self.data[flow] += u64::from(packet.len);
        }
    }

    /// A packet that was added leaves the queue, wherever it goes.
    pub(super) fn remove(&mut self, packet: &Packet) {
        self.all -= u64::from(packet.len);
        if packet.way == Way::Data {
            self.data[usize::from(packet.flow)] -= u64::from(packet.len);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.all
    }

    pub(super) fn of(&self, flow: FlowId) -> u64 {
        self.data.get(usize::from(flow)).copied().unwrap_or_default()
    }
}
