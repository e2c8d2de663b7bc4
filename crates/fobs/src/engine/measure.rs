//! The samples that both ends take of themselves, ten a second: the input of `--explain`.

use super::meter::{CpuMeter, WorkMeter};
use crate::explain::{ReceiverSample, SenderSample, SenderWaits, StreamsSample};
use fobs_proto::Timestamp;
use fobs_proto::sender::Sender;
use fobs_proto::session::{Wait, WaitTimes};
use std::sync::Arc;
use std::time::Duration;

/// Time between two samples: a short transfer takes a second or two.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// How long every second sample goes to the peer; then one in [`PEER_EVERY`] does, so that a path of 1 Mbit/s
/// has room.
const PEER_BRISK: Duration = Duration::from_secs(10);
const PEER_EVERY: Duration = Duration::from_secs(1);

/// When samples are due.
#[derive(Debug)]
pub(super) struct Due {
    next: Timestamp,
    next_to_peer: Timestamp,
}

impl Due {
    pub(super) fn new() -> Due {
        Due { next: Timestamp::ZERO, next_to_peer: Timestamp::ZERO }
    }

    pub(super) fn at(&self) -> Timestamp {
        self.next
    }

    /// Whether a sample is due now, and whom it is for.
    pub(super) fn poll(&mut self, now: Timestamp) -> Option<Audience> {
        if now < self.next {
            return None;
        }
        self.next = now + SAMPLE_EVERY;
        if now < self.next_to_peer {
            return Some(Audience::Here);
        }
        let brisk = now < Timestamp::ZERO + PEER_BRISK;
        self.next_to_peer = now + if brisk { 2 * SAMPLE_EVERY } else { PEER_EVERY };
        Some(Audience::Both)
    }
}

/// Which ends get a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    Here,
    Both,
}

/// Measures the sending thread.
pub(super) struct SenderMeter {
    pub(super) due: Due,
    pub(super) reader: Arc<WorkMeter>,
    cpu: CpuMeter,
    waits: WaitTimes,
    cap_bps: u64,
}

impl SenderMeter {
    /// A meter of the calling thread.
    pub(super) fn new(reader: Arc<WorkMeter>, cap_bps: u64) -> SenderMeter {
        let cpu = CpuMeter::of_this_thread();
        SenderMeter { due: Due::new(), reader, cpu, waits: WaitTimes::default(), cap_bps }
    }

    /// From now on samples say that this is the user's cap, bits per second.
    pub(super) fn set_cap(&mut self, cap_bps: u64) {
        self.cap_bps = cap_bps;
    }

    pub(super) fn waited(&mut self, why: Wait, time: Duration) {
        self.waits[why] += time;
    }

    pub(super) fn sample(&self, now: Timestamp, machine: &Sender, streams: StreamsSample) -> SenderSample {
        let (stats, rtt) = (machine.stats(), machine.rtt());
        let window = machine.controller().congestion_window();
        SenderSample {
            time_us: now.as_micros(),
            waits: SenderWaits::from(self.waits),
            cpu: self.cpu.read().unwrap_or_default(),
            reader: self.reader.read(now),
            packets_sent: stats.packets_sent,
            packets_lost: stats.packets_lost.saturating_sub(stats.packets_late),
            packets_marked: u64::from(stats.packets_marked),
            packets_refused: stats.packets_refused,
            socket_drops: u64::from(stats.socket_drops),
            bytes_sent: stats.bytes_sent,
            bytes_acked: stats.bytes_acked,
            rtt_us: rtt.latest().map_or(0, micros),
            rtt_min_us: rtt.min_ever().map_or(0, micros),
            pacing_bps: machine.pacing_rate().map_or(0, |rate| rate.as_bytes().saturating_mul(8)),
            cap_bps: self.cap_bps,
            window_bytes: window,
            state: machine.controller().state().to_owned(),
            bytes_framed: stats.bytes_framed,
            bytes_frames_delivered: stats.bytes_frames_delivered,
            streams,
        }
    }
}

/// Measures the receiving thread.
pub(super) struct ReceiverMeter {
    pub(super) due: Due,
    pub(super) writer: Arc<WorkMeter>,
    cpu: CpuMeter,
    wait_us: u64,
}

impl ReceiverMeter {
    /// A meter of the calling thread.
    pub(super) fn new(writer: Arc<WorkMeter>) -> ReceiverMeter {
        ReceiverMeter { due: Due::new(), writer, cpu: CpuMeter::of_this_thread(), wait_us: 0 }
    }

    pub(super) fn waited(&mut self, time: Duration) {
        self.wait_us += micros(time);
    }

    /// The thread's figures; the caller adds those of the socket and the machine.
    pub(super) fn sample(&self, now: Timestamp) -> ReceiverSample {
        ReceiverSample {
            time_us: now.as_micros(),
            wait_us: self.wait_us,
            cpu: self.cpu.read().unwrap_or_default(),
            writer: self.writer.read(now),
            ..ReceiverSample::default()
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
