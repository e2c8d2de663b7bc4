//! Where the sending thread's time went: all of it, each moment once.
//!
//! The sender knows what it waited for. Whose fault that was, both ends' threads tell: a wait for the source is the
//! disk's as far as the reader was blocked, and the CPU's as far as it ran or wanted to run. A wait for the pacer or the
//! window is the network's, unless an end could not keep up in the same time, which looks to the sender like a slow path.

use super::journal::{At, Journal};
use super::sample::{ReceiverSample, SenderSample, Work};
use fobs_proto::session::Wait;
use serde::Serialize;

/// A receiving thread that was ready to run without a CPU for this share of an interval was starved: what it did late, the
/// sender saw as delay. With a quota of a fifth of a core: 0.4 to 0.96 while it binds, measured; with both ends and an emulator
/// on two cores mostly below 0.1, and up to 0.37 while those are overloaded, when the path still sets the rate.
const RECEIVER_STARVED: f64 = 0.4;
/// Likewise for a sender that falls behind its pace.
const SENDER_STARVED: f64 = 0.2;
/// Below this share, waiting for a CPU is ordinary and made up for by the pacer.
const DELAY_NOTICED: f64 = 0.1;
/// A sender that sends at this share of the rate that it means to keep is not held up by waiting for a CPU: the pacer makes
/// up for it.
const ON_PACE: f64 = 0.9;
/// A receiving thread that waits for packets for less than this share of an interval is saturated.
const SATURATED: f64 = 0.05;
/// A socket that drops more than this share of what arrives limits the rate: the response of any controller to such a loss
/// is felt.
const DROPS_FELT: f64 = 1e-3;
/// A receiver that waited for a CPU for more than this share of an interval may itself be what lengthened the round trip.
const DELAY_DOUBTFUL: f64 = 0.1;
/// How long after a drop a controller still sends slower because of it.
const DROPS_LINGER_US: u64 = 1_000_000;

/// What the time of a transfer goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The source: the sender's disk, or whatever writes into a stream.
    Reading,
    /// Hashing (and compressing) at the sender.
    Hashing,
    /// Sealing and sending.
    Sealing,
    /// The sender's threads wanted a CPU and had none.
    SenderCpu,
    /// Keeping to the rate that the user set.
    RateCap,
    /// Keeping to the rate that the deadline needs.
    Deadline,
    /// Keeping to the controller's rate.
    Pacing,
    /// A full window, or silence.
    CongestionWindow,
    /// The sender's own socket was full.
    LocalSocket,
    /// Keeping to what the receiver takes out of its socket.
    ReceiverDrain,
    /// The receiver's threads were busy, or wanted a CPU and had none.
    ReceiverCpu,
    /// The receiver's socket overflowed.
    ReceiverSocket,
    /// The destination: the receiver's disk, or whatever reads from a stream.
    Writing,
    /// The destination again: until the receiver's disk has what was written (`--fsync`).
    Syncing,
    /// The first and the last words.
    Control,
}

/// Every stage, in the order of a byte's way.
pub const STAGES: [Stage; 15] = [
    Stage::Reading,
    Stage::Hashing,
    Stage::Sealing,
    Stage::SenderCpu,
    Stage::RateCap,
    Stage::Deadline,
    Stage::Pacing,
    Stage::CongestionWindow,
    Stage::LocalSocket,
    Stage::ReceiverDrain,
    Stage::ReceiverCpu,
    Stage::ReceiverSocket,
    Stage::Writing,
    Stage::Syncing,
    Stage::Control,
];

impl Stage {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Reading => "reading",
            Stage::Hashing => "hashing",
            Stage::Sealing => "sealing and sending",
            Stage::SenderCpu => "waiting for a CPU (sender)",
            Stage::RateCap => "rate cap",
            Stage::Deadline => "deadline",
            Stage::Pacing => "pacing",
            Stage::CongestionWindow => "congestion window",
            Stage::LocalSocket => "sender's socket",
            Stage::ReceiverDrain => "receiver drain",
            Stage::ReceiverCpu => "receiver CPU",
            Stage::ReceiverSocket => "receiver socket",
            Stage::Writing => "writing",
            Stage::Syncing => "syncing",
            Stage::Control => "control",
        }
    }
}

/// Seconds for each stage; together the time of the transfer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Budget {
    seconds: [f64; STAGES.len()],
}

impl Budget {
    /// The budget of a record.
    pub fn of(journal: &Journal) -> Budget {
        let mut budget = Budget::default();
        intervals(journal).iter().for_each(|interval| budget.add(interval));
        budget
    }

    /// Seconds of one stage.
    pub fn seconds(&self, stage: Stage) -> f64 {
        self.seconds[stage as usize]
    }

    /// Seconds of all stages.
    pub fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }

    /// Share of the time, 0 to 1.
    pub fn share(&self, stage: Stage) -> f64 {
        let total = self.total();
        if total > 0.0 { self.seconds(stage) / total } else { 0.0 }
    }

    fn put(&mut self, stage: Stage, seconds: f64) {
        self.seconds[stage as usize] += seconds;
    }

    fn add(&mut self, interval: &Interval) {
        let (sender, waits) = (&interval.sender, &interval.sender.waits);
        let all = seconds(sender.time_us);
        let waited: f64 = Wait::ALL.map(|wait| seconds(waits.us(wait))).iter().sum();
        let starved = share(sender.cpu.delay_us, sender.time_us);
        // A thread that wants a CPU may be waiting or at work by its own account: what it was kept comes off both alike.
        let kept = if starved >= DELAY_NOTICED && !interval.on_pace { starved } else { 0.0 };
        self.put(Stage::SenderCpu, all * kept);
        // An account that claims more waiting than there was time is cut to size.
        let scale = if waited > all && waited > 0.0 { all / waited } else { 1.0 } * (1.0 - kept);
        let time = |wait: Wait| seconds(waits.us(wait)) * scale;

        self.put(Stage::Sealing, (all - waited).max(0.0) * (1.0 - kept));
        self.put(Stage::RateCap, time(Wait::Cap));
        self.put(Stage::Deadline, time(Wait::Deadline));
        self.put(Stage::ReceiverDrain, time(Wait::Drain));
        self.put(Stage::LocalSocket, time(Wait::Socket));
        // The last answer waits for the last file to be synced.
        let receiver = interval.receiver.as_ref();
        let syncing = receiver.map_or(0.0, |it| share(it.writer.syncing_us, it.time_us));
        self.put(Stage::Syncing, time(Wait::Answers) * syncing);
        self.put(Stage::Control, time(Wait::Answers) * (1.0 - syncing));
        self.put_work(time(Wait::Source), &sender.reader, [Stage::Reading, Stage::SenderCpu, Stage::Hashing]);
        match &interval.receiver {
            Some(receiver) => self.put_work(
                time(Wait::Storage),
                &receiver.writer,
                [Stage::Writing, Stage::ReceiverCpu, Stage::ReceiverCpu],
            ),
            None => self.put(Stage::Writing, time(Wait::Storage)),
        }
        let paced = (time(Wait::Pacer), time(Wait::Window));
        match interval.brake {
            Brake::Network => {
                self.put(Stage::Pacing, paced.0);
                self.put(Stage::CongestionWindow, paced.1);
            }
            Brake::Host(stage) => self.put(stage, paced.0 + paced.1),
        }
    }

    /// Divides a wait for a thread that works on chunks by what kept that thread: what it works on (blocked, and copying in the
    /// kernel), want of a CPU, its own computing.
    fn put_work(&mut self, time: f64, work: &Work, [io, starved, computing]: [Stage; 3]) {
        let cpu = work.user_us.saturating_add(work.system_us);
        // The division into user and system is known from the end of a chunk on.
        let user = if cpu > 0 { work.user_us as f64 / cpu as f64 } else { 0.0 };
        let (blocked, run, delay) =
            (work.blocked_us() as f64, work.cpu.run_us as f64, work.cpu.delay_us as f64);
        let all = blocked + run + delay;
        if all <= 0.0 {
            return self.put(io, time);
        }
        let syncing = (work.syncing_us as f64).min(blocked);
        self.put(Stage::Syncing, time * syncing / all);
        self.put(io, time * (blocked - syncing + run * (1.0 - user)) / all);
        self.put(starved, time * delay / all);
        self.put(computing, time * run * user / all);
    }
}

/// Who kept the controller's rate down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brake {
    Network,
    Host(Stage),
}

/// What happened between two samples of the sender, and at the receiver in about the same time.
#[derive(Debug, Clone)]
pub(super) struct Interval {
    pub(super) sender: SenderSample,
    pub(super) receiver: Option<ReceiverSample>,
    /// Share of the packets that the receiver's socket dropped, lately.
    drops: f64,
    /// The sender kept the rate that it meant to keep.
    on_pace: bool,
    /// Who is in charge of the controller's rate.
    pub(super) brake: Brake,
}

impl Interval {
    /// Who slows the controller down, as far as this interval shows it.
    ///
    /// A controller that was slowed down stays so for a while without further evidence: whoever did it is in charge until the
    /// evidence speaks of another.
    fn evidence(&self) -> Option<Brake> {
        let mut doubtful = false;
        if let Some(receiver) = &self.receiver {
            let delayed = share(receiver.cpu.delay_us, receiver.time_us);
            let saturated = receiver.time_us > 0 && share(receiver.wait_us, receiver.time_us) < SATURATED;
            if delayed >= RECEIVER_STARVED || saturated {
                return Some(Brake::Host(Stage::ReceiverCpu));
            }
            doubtful = delayed >= DELAY_DOUBTFUL;
        }
        if self.drops >= DROPS_FELT {
            return Some(Brake::Host(Stage::ReceiverSocket));
        }
        if !self.on_pace && share(self.sender.cpu.delay_us, self.sender.time_us) >= SENDER_STARVED {
            return Some(Brake::Host(Stage::SenderCpu));
        }
        (!doubtful && (self.queued() || self.lossy())).then_some(Brake::Network)
    }
}

/// The record as intervals between the sender's samples.
pub(super) fn intervals(journal: &Journal) -> Vec<Interval> {
    let samples = journal.sender();
    let mut found = Vec::with_capacity(samples.len());
    let mut brake = Brake::Network;
    for pair in samples.windows(2) {
        let [from, to] = pair else { continue };
        let since = samples
            .partition_point(|s| s.at_us.saturating_add(DROPS_LINGER_US) < to.at_us)
            .min(samples.len() - 1);
        let lately = to.what.since(&samples[since].what);
        let sender = to.what.since(&from.what);
        let meant_bps = from.what.pacing_bps.min(to.what.pacing_bps) as f64;
        let sent_bps = sender.bytes_sent as f64 * 8.0 / seconds(sender.time_us.max(1));
        // The receiver's own count is the newer one.
        let receiver = around(journal.receiver(), from.at_us, to.at_us);
        let seen = receiver.as_ref().map_or(0.0, |r| share(r.socket_drops, r.packets));
        let mut interval = Interval {
            on_pace: meant_bps > 0.0 && sent_bps >= ON_PACE * meant_bps,
            sender,
            drops: share(lately.socket_drops, lately.packets_sent).max(seen),
            receiver,
            brake,
        };
        brake = interval.evidence().unwrap_or(brake);
        interval.brake = brake;
        found.push(interval);
    }
    found
}

/// What the receiver did from its last sample before `from_us` to its first one after `to_us`.
fn around(samples: &[At<ReceiverSample>], from_us: u64, to_us: u64) -> Option<ReceiverSample> {
    let first = samples.partition_point(|s| s.at_us <= from_us).saturating_sub(1);
    let last = samples.partition_point(|s| s.at_us < to_us).min(samples.len().checked_sub(1)?);
    // At the ends of the record: the nearest two that there are.
    let (first, last) = if first < last { (first, last) } else { (last.checked_sub(1)?, last) };
    Some(samples[last].what.since(&samples[first].what))
}

pub(super) fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// A part of a whole, 0 to 1.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) }
}
