//! What both ends of a transfer measure of themselves, as the engine's threads do for `--explain`.

use super::FobsFlow;
use crate::host::CpuConfig;
use crate::time::{MS, Nanos};
use fobs_proto::receiver::ReceiverStats;
use fobs_proto::recovery::Spread;
use fobs_proto::sender::SenderStats;
use fobs_proto::session::{Wait, WaitTimes};
use std::time::Duration;

/// Waits of a sending thread so far.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    times: WaitTimes,
    /// What it waits for at present, and since when.
    now: Option<(Wait, Nanos)>,
}

impl Waiting {
    /// It begins to wait.
    pub(super) fn begin(&mut self, why: Wait, now: Nanos) {
        self.now = Some((why, now));
    }

    /// It runs, or would if it had its CPU.
    pub(super) fn end(&mut self, now: Nanos) {
        if let Some((why, since)) = self.now.take() {
            self.times[why] += Duration::from_nanos(now - since);
        }
    }

    /// All waits until now.
    pub(super) fn times(&self, now: Nanos) -> WaitTimes {
        let mut times = self.times;
        if let Some((why, since)) = self.now {
            times[why] += Duration::from_nanos(now.saturating_sub(since));
        }
        times
    }
}

/// A thread that works on chunks: with a device, and computing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Worked {
    /// Reading or writing.
    pub device: Nanos,
    /// Hashing.
    pub computing: Nanos,
}

/// A thread's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// On its CPU.
    pub ran: Nanos,
    /// Kept from it by competitors.
    pub off: Nanos,
    /// Its host stood still.
    pub stood: Nanos,
}

/// What the sending end measured.
#[derive(Debug, Clone, PartialEq)]
pub struct SenderMeasures {
    /// What its thread waited for.
    pub waits: WaitTimes,
    /// Its sending thread.
    pub thread: ThreadTime,
    /// Its reading thread.
    pub reader: Worked,
    /// The machine's counters.
    pub stats: SenderStats,
    /// Newest and smallest round trip.
    pub rtt: (Option<Duration>, Option<Duration>),
    /// Round trips, and delays on the way there, of about the last 0.1 s.
    pub delays: (Option<Spread>, Option<Spread>),
    /// Pacing rate, bytes per second.
    pub pacing: Option<u64>,
    /// Congestion window, bytes.
    pub window: u64,
    /// The controller's state.
    pub state: &'static str,
}

/// What the receiving end measured.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiverMeasures {
    /// Its receiving thread.
    pub thread: ThreadTime,
    /// Its writing thread.
    pub writer: Worked,
    /// The machine's counters.
    pub stats: ReceiverStats,
    /// Datagrams that its socket had no room for.
    pub socket_drops: u64,
    /// Size of that socket's buffer, bytes.
    pub buffer: u64,
    /// Chunks complete and not stored.
    pub backlog: u16,
}

/// Shortest stall that the engine notices between two samples.
const STOOD_MIN: Nanos = 25 * MS;

/// Time of the noticed stalls of a host until now.
pub(super) fn stood(cpu: &CpuConfig, now: Nanos) -> Nanos {
    let noticed = cpu.stalls.iter().filter(|(from, until)| until - from >= STOOD_MIN);
    noticed.map(|(from, until)| (*until).min(now).saturating_sub(*from)).sum()
}

impl FobsFlow {
    pub(crate) fn measures(&self, now: Nanos) -> (SenderMeasures, ReceiverMeasures) {
        (self.sending.measures(now), self.receiving.measures(now))
    }
}
