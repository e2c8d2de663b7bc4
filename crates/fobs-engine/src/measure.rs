//! The samples that both ends take of themselves, ten a second: the input of `--explain`.

use super::meter::{CpuMeter, WorkMeter};
use fobs_model::sample::{Cpu, ReceiverSample, SenderSample, SenderWaits, StreamsSample};
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

/// A thread that wakes this long after its wait was to end was late; what is beyond it may be no wait of its
/// own. Under load a wake-up is late by 4 ms, rarely by more.
const WAKE_LATE: Duration = Duration::from_millis(10);
/// Time without account between two samples from which on the thread stood still. Measured: under 5 ms with
/// both ends on two busy cores.
const STOOD_MIN: Duration = Duration::from_millis(25);

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

/// Finds out whether the thread's process, or its host, stood still: stopped, swapped out, a virtual machine
/// that was not scheduled. Such time is neither waiting as planned nor running nor being ready to run.
#[derive(Debug, Default)]
struct StandstillMeter {
    /// Waiting since the last sample, no longer than it was asked for.
    waited: Duration,
    /// Time and account of the thread at the last sample.
    last: Option<(Timestamp, Cpu)>,
    stood: Duration,
}

impl StandstillMeter {
    /// What counts as waiting of a wait that was to last `planned` and lasted `took`.
    fn wait(&mut self, planned: Duration, took: Duration) -> Duration {
        let counts = took.min(planned + WAKE_LATE);
        self.waited += counts;
        counts
    }

    /// Closes the stretch since the last sample; the sum so far.
    fn sample(&mut self, now: Timestamp, cpu: Option<Cpu>) -> Duration {
        // Without the scheduler's account nothing can be said.
        let Some(cpu) = cpu else { return self.stood };
        if let Some((then, before)) = self.last {
            let since = |now: u64, before: u64| Duration::from_micros(now.saturating_sub(before));
            let busy = since(cpu.run_us, before.run_us) + since(cpu.delay_us, before.delay_us);
            let left = (now - then).saturating_sub(self.waited).saturating_sub(busy);
            self.stood += if left >= STOOD_MIN { left } else { Duration::ZERO };
        }
        self.waited = Duration::ZERO;
        self.last = Some((now, cpu));
        self.stood
    }
}

/// Measures the sending thread.
pub(super) struct SenderMeter {
    pub(super) due: Due,
    pub(super) reader: Arc<WorkMeter>,
    cpu: CpuMeter,
    waits: WaitTimes,
    standstill: StandstillMeter,
    cap: Cap,
}

/// A cap on the rate, bits per second; 0 for none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cap {
    /// That is in force.
    pub(super) bps: u64,
    /// That the far end's daemon gives its client.
    pub(super) far_bps: u64,
}

impl SenderMeter {
    /// A meter of the calling thread.
    pub(super) fn new(reader: Arc<WorkMeter>, cap: Cap) -> SenderMeter {
        let cpu = CpuMeter::of_this_thread();
        SenderMeter {
            due: Due::new(),
            reader,
            cpu,
            waits: WaitTimes::default(),
            standstill: StandstillMeter::default(),
            cap,
        }
    }

    /// Waits so far.
    pub(super) fn waits(&self) -> WaitTimes {
        self.waits
    }

    /// From now on samples say that this is the user's cap, bits per second.
    pub(super) fn set_cap(&mut self, cap_bps: u64) {
        self.cap.bps = cap_bps;
    }

    /// The thread waited for so long instead of as long as planned.
    pub(super) fn waited(&mut self, why: Wait, planned: Duration, took: Duration) {
        self.waits[why] += self.standstill.wait(planned, took);
    }

    pub(super) fn sample(
        &mut self,
        now: Timestamp,
        machine: &Sender,
        streams: StreamsSample,
    ) -> SenderSample {
        let (stats, rtt, delays) = (machine.stats(), machine.rtt(), machine.delays());
        let (round, forward) = (delays.rtt(now).unwrap_or_default(), delays.forward(now).unwrap_or_default());
        let cpu = self.cpu.read();
        let window = machine.controller().congestion_window();
        SenderSample {
            time_us: now.as_micros(),
            waits: SenderWaits::from(self.waits),
            cpu: cpu.unwrap_or_default(),
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
            rtt_low_us: round.low_us,
            rtt_high_us: round.high_us,
            forward_low_us: forward.low_us,
            forward_high_us: forward.high_us,
            acks: stats.acks,
            packets_late: stats.packets_late,
            stood_us: micros(self.standstill.sample(now, cpu)),
            unseen_us: 0,
            pacing_bps: machine.pacing_rate().map_or(0, |rate| rate.as_bytes().saturating_mul(8)),
            cap_bps: self.cap.bps,
            cap_far_bps: if self.cap.far_bps == self.cap.bps { self.cap.far_bps } else { 0 },
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
    standstill: StandstillMeter,
    wait_us: u64,
}

impl ReceiverMeter {
    /// A meter of the calling thread.
    pub(super) fn new(writer: Arc<WorkMeter>) -> ReceiverMeter {
        ReceiverMeter {
            due: Due::new(),
            writer,
            cpu: CpuMeter::of_this_thread(),
            standstill: StandstillMeter::default(),
            wait_us: 0,
        }
    }

    /// As [`SenderMeter::waited`].
    pub(super) fn waited(&mut self, planned: Duration, took: Duration) {
        self.wait_us += micros(self.standstill.wait(planned, took));
    }

    /// The thread's figures; the caller adds those of the socket and the machine.
    pub(super) fn sample(&mut self, now: Timestamp) -> ReceiverSample {
        let cpu = self.cpu.read();
        ReceiverSample {
            time_us: now.as_micros(),
            wait_us: self.wait_us,
            cpu: cpu.unwrap_or_default(),
            stood_us: micros(self.standstill.sample(now, cpu)),
            writer: self.writer.read(now),
            ..ReceiverSample::default()
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
