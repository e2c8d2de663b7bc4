//! A record as intervals between samples, each with what held the controller's rate down in it.

use super::figures::{around, ratio_of, seconds, share};
use super::journal::At;
use super::names::Stage;
use super::silence;
use super::trace::Trace;
use fobs_model::sample::{ReceiverSample, SenderSample};
use fobs_model::units::Wait;

/// Share of an interval for which a receiving thread waits for a CPU from which on its lateness looks like
/// delay of the path to the sender. Measured: 0.4 to 0.96 with a quota of a fifth of a core while it binds;
/// mostly below 0.1, and up to 0.37 under overload, with both ends and an emulator on two cores while the
/// path sets the rate.
const RECEIVER_STARVED: f64 = 0.4;
/// Share of the CPU time that it could have had, run or waited away, that a thread that is short of it uses.
const CPU_NEEDED: f64 = 0.2;
/// Likewise for a sender that falls behind its pacing rate.
const SENDER_STARVED: f64 = 0.2;
/// A sender at this share of its pacing rate is not held up by waiting for a CPU: the pacer catches up.
const ON_PACE: f64 = 0.9;
/// A receiving thread that waits for packets for less than this share of an interval is saturated.
const SATURATED: f64 = 0.05;
/// Share of the packets dropped by the socket from which on any controller's response limits the rate.
const DROPS_FELT: f64 = 1e-3;
/// A receiver that waits for a CPU for more than this share of an interval may itself have lengthened the
/// round trip.
const DELAY_DOUBTFUL: f64 = 0.1;
/// A receiver that stood still for this share of an interval and the samples around it shows nothing of the
/// path: a stopped process, a virtual machine that was not scheduled.
pub(super) const STOOD_FELT: f64 = 0.05;
/// How long after a drop a controller still sends slower because of it, microseconds.
const DROPS_LINGER_US: u64 = 1_000_000;

/// Shorter intervals are too short to measure a rate, microseconds.
const INTERVAL_MIN_US: u64 = 50_000;

/// What holds the controller's rate down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brake {
    /// The path.
    Network,
    /// An end that is too slow, by the stage that its time belongs to.
    Host(Stage),
}

/// What happened between two samples of the sender, and at the receiver in about the same time.
#[derive(Debug, Clone)]
pub(super) struct Interval {
    /// Its beginning and end by the sender's clock, seconds.
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) sender: SenderSample,
    pub(super) receiver: Option<ReceiverSample>,
    /// Share of the packets of the last second that the receiver's socket dropped.
    drops: f64,
    /// Whether the sender kept its pacing rate.
    pub(super) on_pace: bool,
    /// Time of a full packet at the highest rate of the whole record, microseconds.
    pub(super) packet_us: f64,
    /// Share of the time in which the receiver stood still.
    pub(super) paused: f64,
    /// What held the controller's rate down.
    pub(super) brake: Brake,
    /// Share of the last measured round trip that a queue on the way back took, 0 to 1.
    pub(super) queued_back: f64,
}

impl Interval {
    /// What this interval alone shows about the brake; `None` if nothing.
    ///
    /// A controller stays slow for a while after the cause is gone, so without new evidence the last brake
    /// counts.
    fn evidence(&self) -> Option<Brake> {
        let mut doubtful = false;
        if let Some(receiver) = &self.receiver {
            // What a pause does to delays and losses is no evidence of anything else.
            if self.paused >= STOOD_FELT {
                return None;
            }
            // What waits for the receiver waits in its socket: a queue on the way there, by the stamps of
            // arrival, is the path's.
            let delayed =
                if self.queued_there() { 0.0 } else { share(receiver.cpu.delay_us, receiver.time_us) };
            let saturated = receiver.time_us > 0 && share(receiver.wait_us, receiver.time_us) < SATURATED;
            // A thread that mostly rests is not held up by waiting: its packets come one by one.
            let run_us = receiver.cpu.run_us;
            let needed = share(run_us, run_us.saturating_add(receiver.wait_us)) >= CPU_NEEDED;
            if (delayed >= RECEIVER_STARVED && needed) || saturated {
                return Some(Brake::Host(Stage::ReceiverCpu));
            }
            doubtful = delayed >= DELAY_DOUBTFUL;
        }
        if self.drops >= DROPS_FELT {
            return Some(Brake::Host(Stage::ReceiverSocket));
        }
        if !self.on_pace && self.starved() >= SENDER_STARVED {
            return Some(Brake::Host(Stage::SenderCpu));
        }
        (!doubtful && (self.queued() || self.lossy())).then_some(Brake::Network)
    }
}

impl Interval {
    /// Share of the time for which the sending thread waited for a CPU; none if it needed little of it.
    pub(super) fn starved(&self) -> f64 {
        let sender = &self.sender;
        let waited = Wait::ALL.iter().fold(0u64, |sum, wait| sum.saturating_add(sender.waits.us(*wait)));
        let needed = share(sender.cpu.run_us, sender.cpu.run_us.saturating_add(waited));
        if needed >= CPU_NEEDED { share(sender.cpu.delay_us, sender.time_us) } else { 0.0 }
    }
}

/// The record as intervals between the sender's samples.
pub(super) fn intervals(trace: &Trace) -> Vec<Interval> {
    let journal = &trace.journal;
    let samples = journal.sender();
    let mut found = Vec::with_capacity(samples.len());
    let mut brake = Brake::Network;
    let mut queued_back = 0.0;
    let silences = silence::outages(trace);
    let packet_us = packet_time_us(samples);
    for (place, pair) in samples.windows(2).enumerate() {
        let [from, to] = pair else { continue };
        let recent = samples
            .partition_point(|s| s.at_us.saturating_add(DROPS_LINGER_US) < to.at_us)
            .min(samples.len() - 1);
        let last_second = to.what.since(&samples[recent].what);
        let sender = to.what.since(&from.what);
        let pacing_bps = from.what.pacing_bps.min(to.what.pacing_bps) as f64;
        let sent_bps = sender.bytes_sent as f64 * 8.0 / seconds(sender.time_us.max(1));
        // The receiver's own count is the newer one.
        let receiver = around(journal.receiver(), from.at_us, to.at_us);
        let seen = receiver.as_ref().map_or(0.0, |r| share(r.socket_drops, r.packets));
        let mut interval = Interval {
            from_s: seconds(from.what.time_us),
            to_s: seconds(to.what.time_us),
            on_pace: pacing_bps > 0.0 && sent_bps >= ON_PACE * pacing_bps,
            sender,
            drops: share(last_second.socket_drops, last_second.packets_sent).max(seen),
            packet_us,
            paused: receiver.as_ref().map_or(0.0, |r| share(r.stood_us, r.time_us)),
            receiver,
            brake,
            queued_back,
        };
        // Without acks nothing is measured: what was queued there stays until it has been delivered. Of
        // another program no delay of one way is known.
        if interval.sender.rtt_low_us > 0 && !trace.head.is_of_another() {
            queued_back = back_share(&interval.sender);
            interval.queued_back = queued_back;
        }
        brake = interval.evidence().unwrap_or(brake);
        interval.brake = match silences.get(place) {
            Some(Some(stage)) => Brake::Host(*stage),
            _ => brake,
        };
        found.push(interval);
    }
    found
}

/// Share of the round trips of a sample that lies beyond the shortest one and arose on the way back.
fn back_share(sender: &SenderSample) -> f64 {
    let there = sender.rtt_min_us.saturating_add(sender.forward_low_us);
    share(sender.rtt_low_us.saturating_sub(there), sender.rtt_low_us)
}

/// Time of a full packet at the highest rate of a record, microseconds.
pub(super) fn packet_time_us(samples: &[At<SenderSample>]) -> f64 {
    let per_us = samples.windows(2).map(|pair| pair[1].what.since(&pair[0].what)).map(|step| {
        let long = step.time_us >= INTERVAL_MIN_US;
        if long { step.bytes_delivered() as f64 / step.time_us as f64 } else { 0.0 }
    });
    let best = per_us.fold(0.0, f64::max);
    let bytes =
        samples.last().map_or(0.0, |s| ratio_of(s.what.bytes_sent as f64, s.what.packets_sent as f64));
    ratio_of(bytes, best)
}

/// Smallest round trip of the interval, microseconds; the newest in traces of older programs.
pub(super) fn low_rtt(interval: &Interval) -> u64 {
    if interval.sender.rtt_low_us > 0 { interval.sender.rtt_low_us } else { interval.sender.rtt_us }
}

/// Whether an interval is long enough to measure a rate.
pub(super) fn is_whole(interval: &Interval) -> bool {
    interval.sender.time_us >= INTERVAL_MIN_US
}

pub(super) fn delivered(interval: &Interval) -> f64 {
    interval.sender.bytes_delivered() as f64 * 8e6 / interval.sender.time_us.max(1) as f64
}

/// Why a segment began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Began {
    /// The transfer began, or another party limits it.
    Otherwise,
    /// The path took a step for the worse.
    WorsePath,
    /// The path took a step for the better.
    BetterPath,
}
