//! The sending end of streams.

use super::Sending;
use crate::check::rule;
use crate::net::Net;
use crate::object::Cut;
use crate::time::{Nanos, stamp};
use fobs_proto::sender::{FrameOut, TransmitFrame};
use fobs_proto::session::{Directive, StreamsOpen, TransportPolicy, TransportSeen};
use fobs_proto::wire::{Ack, FRAME_HEADER_LEN, Frame};

impl Sending {
    /// The policy looks at the machine, and says by which way packets leave.
    pub(in crate::flow::fobs) fn direct(
        &mut self,
        net: &mut Net,
        policy: &mut TransportPolicy,
        streams: StreamsOpen,
    ) -> Directive {
        let now = stamp(net.now);
        let directive = policy.observe(&TransportSeen::of(&self.machine, now, self.newest_datagram, streams));
        if directive.route != self.machine.route() {
            self.machine.set_route(now, directive.route);
            self.wake_soon(net);
        }
        directive
    }

    /// The next frame; otherwise when there may be one.
    pub(in crate::flow::fobs) fn poll_frame(
        &mut self,
        net: &mut Net,
        cut: &Cut,
    ) -> Result<FrameOut, Option<Nanos>> {
        let frame = match self.machine.poll_frame(stamp(net.now)) {
            TransmitFrame::Frame(frame) => frame,
            TransmitFrame::WaitUntil(at) => {
                rule!(net, at > stamp(net.now), "no wait for the past", "a frame at {at:?}");
                return Err(Some(at.as_nanos()));
            }
            TransmitFrame::Wait => return Err(None),
        };
        self.began.get_or_insert(net.now);
        // As the receiver would read it.
        let mut record = vec![0; FRAME_HEADER_LEN + frame.len as usize];
        frame.header.encode(&mut record);
        let read = Frame::decode(&record);
        let understood = matches!(read, Ok(Frame::Data(header, _)) if header == frame.header);
        rule!(net, understood, "our own frames can be read", "{frame:?}: {read:?}");
        self.audit.check_frame(net, cut, self.pushed, &frame);
        if let Some(trace) = &mut self.trace {
            trace.on_framed(net, cut, &frame);
        }
        Ok(frame)
    }

    /// A report reaches the sender.
    pub(in crate::flow::fobs) fn on_report(&mut self, net: &mut Net, frame: Option<u64>, ack: Option<&Ack>) {
        let now = stamp(net.now);
        self.newest_ack = Some(now);
        if let Some(id) = frame {
            self.machine.handle_frame_delivered(now, id);
            self.audit.on_frame_delivered(id);
            if let Some(trace) = &mut self.trace {
                trace.on_frame_delivered(id);
            }
        }
        if let Some(ack) = ack {
            self.audit.on_credit(ack.chunk_limit);
            for &(low, high) in &ack.ranges {
                self.ledger.on_acked(net, low, high);
                if let Some(trace) = &mut self.trace {
                    trace.on_acked(low, high);
                }
            }
            self.machine.handle_stream_ack(now, ack);
        }
        self.wake_soon(net);
    }

    /// A frame's stream has ended.
    pub(in crate::flow::fobs) fn on_frame_lost(&mut self, net: &mut Net, id: u64) {
        self.machine.handle_frame_lost(stamp(net.now), id);
        self.audit.on_frame_lost(id);
        self.wake_soon(net);
    }

    /// A frame has been in flight for long.
    pub(in crate::flow::fobs) fn on_frame_late(&mut self, net: &mut Net, id: u64) {
        self.machine.handle_frame_late(stamp(net.now), id);
    }
}
