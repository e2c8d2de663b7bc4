//! What the network did to the controller's rate, from what the sender saw of it.
//!
//! | kind | queue | loss |
//! |---|---|---|
//! | narrow | stands: the round trip is longer than the path's own | whatever the queue cannot hold |
//! | policed | none | comes and goes with the rate: unevenly spread over the packets, or all of what was sent beyond it |
//! | lossy | none | at any rate: as chance spreads it |
//! | untried | none | none: the rate was still being looked for, or held for some other reason |
//!
//! Loss in bursts that have nothing to do with the rate (a radio link) cannot be told from a policer's here, unless it comes
//! with a queue.

use super::interval::{Interval, share};
use serde::Serialize;

/// A queue stands where the newest round trip exceeds the smallest by this much, µs, and by [`QUEUE_SHARE`] of it. Without
/// a queue the two differ by 0.1 to 0.3 ms on emulated paths; behind a queue `auto` keeps 2 ms or more.
const QUEUE_US: u64 = 500;
const QUEUE_SHARE: u64 = 50;
/// A queue in this share of the time is the path's bottleneck; in less it is a passing burst.
const QUEUE_STANDS: f64 = 0.4;
/// Losses below this share of the packets are no reason for any rate.
const LOSS_FELT: f64 = 5e-4;
/// A stretch of time in which so many losses are to be expected, were they spread evenly over the packets: enough to tell whether
/// they are.
const STRETCH_LOSSES: f64 = 5.0;
/// Fewer stretches than this tell nothing.
const STRETCHES_MIN: usize = 5;
/// From this variance over the expected one on, losses come and go. Even losses have 1 (a binomial's index of dispersion; over 2.7
/// in 3% of the cases with five stretches, in 0.4% with ten). Measured: at most 1.7 with random loss, at least 3.5 behind policers.
const UNEVEN: f64 = 2.7;
/// Share by which the expectation itself may be wrong, because news of a loss comes a round trip late.
const MISFIT: f64 = 0.15;
/// Standard deviations by which the loss of the faster third of the intervals must exceed that of the slower third to be no
/// chance: one in 30,000.
const FASTER_LOSES: f64 = 4.0;
/// What exceeds what is usually delivered by this much is too much for a policer.
const EXCESS: f64 = 1.03;
/// So much more than what is usually delivered was sent that losses at any rate, of a few percent, do not hide what became of it.
const OVERSHOOT: f64 = 1.3;
/// Not more than usual, whatever was sent: the bucket of a policer lets a little more pass at first.
const NO_MORE: f64 = 1.1;

/// What kind of path it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathKind {
    /// Its rate was reached.
    Narrow,
    /// It drops what exceeds a rate, without a queue.
    Policed,
    /// It loses packets at any rate.
    Lossy,
    /// Nothing tells that its rate was reached.
    Untried,
}

/// What is known of the path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathProfile {
    /// What kind it was.
    pub kind: PathKind,
    /// Share of the time in which a queue stood.
    pub queued: f64,
    /// Share of the packets that were lost.
    pub loss: f64,
    /// How unevenly the losses are spread over the packets: 1 where chance alone spread them; 0 where that cannot be told.
    pub uneven: f64,
    /// Share of the losses that came while more was sent than is usually delivered.
    pub excess: f64,
    /// What it delivered in the middle of the time, datagram bits per second.
    pub typical_bps: f64,
    /// The most that it delivered in any interval, datagram bits per second.
    pub best_bps: f64,
}

impl PathProfile {
    /// Reads the intervals in which the network was in charge of the rate (`charge`, of all).
    pub(super) fn of(all: &[Interval], charge: &[&Interval]) -> PathProfile {
        let rates = |intervals: &[&Interval]| {
            let mut rates: Vec<f64> = intervals.iter().map(|i| delivered(i)).collect();
            rates.sort_by(f64::total_cmp);
            rates
        };
        let whole: Vec<&Interval> = all.iter().filter(|i| i.sender.time_us >= INTERVAL_MIN_US).collect();
        let best_bps = rates(&whole).last().copied().unwrap_or(0.0);
        let charge: Vec<&Interval> =
            charge.iter().copied().filter(|i| i.sender.time_us >= INTERVAL_MIN_US).collect();
        // The opening finds out how much is too much, and loses accordingly.
        let steady = &charge[(charge.len() / 4).min(OPENING)..];
        let sorted = rates(steady);
        let typical_bps = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);

        // Sums are of floats: the figures may be a peer's word.
        let time = |i: &&Interval| i.sender.time_us as f64;
        let all_time: f64 = steady.iter().map(time).sum();
        let queued_time: f64 = steady.iter().filter(|i| i.queued()).map(time).sum();
        let queued = ratio(queued_time, all_time);
        let ((lost, sent), (lost_ever, sent_ever)) = (sums(steady), sums(&charge));
        // A slow copy may have met its few losses at the beginning.
        let loss = if lost > 0.0 { ratio(lost, sent) } else { ratio(lost_ever, sent_ever) };
        let felt = felt_rates(&charge);
        let felt = &felt[charge.len() - steady.len()..];
        let excess = excess(felt, steady, typical_bps);
        let uneven = unevenness(steady, loss);

        let kind = if queued >= QUEUE_STANDS {
            PathKind::Narrow
        } else if loss < LOSS_FELT {
            // A queue now and then, and nothing else to explain the rate.
            if queued >= QUEUE_STANDS / 2.0 { PathKind::Narrow } else { PathKind::Untried }
        } else if uneven >= UNEVEN
            || faster_loses(felt, steady) >= FASTER_LOSES
            || capped(&charge, typical_bps)
        {
            PathKind::Policed
        } else {
            PathKind::Lossy
        };
        PathProfile { kind, queued, loss, uneven, excess, typical_bps, best_bps }
    }
}

/// Intervals of the opening.
const OPENING: usize = 2;
/// Shorter intervals tell no rate.
const INTERVAL_MIN_US: u64 = 50_000;

impl Interval {
    /// Whether a queue stood.
    pub(super) fn queued(&self) -> bool {
        let (rtt, least) = (self.sender.rtt_us, self.sender.rtt_min_us);
        rtt.saturating_sub(least) >= QUEUE_US.max(least / QUEUE_SHARE)
    }

    /// Whether packets were lost or marked to a degree that is felt.
    pub(super) fn lossy(&self) -> bool {
        let felt = self.sender.packets_lost.saturating_add(self.sender.packets_marked);
        felt > 0 && ratio(felt as f64, self.sender.packets_sent as f64) >= LOSS_FELT
    }
}

fn delivered(interval: &Interval) -> f64 {
    interval.sender.bytes_acked as f64 * 8e6 / interval.sender.time_us.max(1) as f64
}

/// Losses and packets sent.
fn sums(intervals: &[&Interval]) -> (f64, f64) {
    let lost = intervals.iter().map(|i| i.sender.packets_lost as f64).sum();
    let sent = intervals.iter().map(|i| i.sender.packets_sent as f64).sum();
    (lost, sent)
}

/// Bits per second at which each interval's losses were sent: losses show a round trip after they were sent, so the
/// interval before counts, too.
fn felt_rates(intervals: &[&Interval]) -> Vec<f64> {
    let sent = |i: &Interval| i.sender.bytes_sent as f64 * 8e6 / i.sender.time_us.max(1) as f64;
    let mut before = 0.0;
    let felt = intervals.iter().map(|i| {
        let now = sent(i);
        now.max(std::mem::replace(&mut before, now))
    });
    felt.collect()
}

fn excess(felt: &[f64], intervals: &[&Interval], typical_bps: f64) -> f64 {
    let in_excess = felt.iter().zip(intervals).filter(|(rate, _)| **rate >= EXCESS * typical_bps);
    let lost: f64 = in_excess.map(|(_, i)| i.sender.packets_lost as f64).sum();
    ratio(lost, sums(intervals).0)
}

/// Index of dispersion of the losses over stretches of time.
fn unevenness(intervals: &[&Interval], loss: f64) -> f64 {
    let (mut stretches, mut sum) = (0usize, 0.0);
    let (mut expected, mut found) = (0.0, 0.0);
    let mut before = intervals.first().map_or(0.0, |i| i.sender.packets_sent as f64);
    for interval in intervals {
        // What is lost in this interval was sent a round trip before.
        let late = share(interval.sender.rtt_us, interval.sender.time_us);
        let now = interval.sender.packets_sent as f64;
        expected += loss * (now * (1.0 - late) + before * late);
        found += interval.sender.packets_lost as f64;
        before = now;
        if expected >= STRETCH_LOSSES {
            stretches += 1;
            sum += (found - expected).powi(2) / (expected + (MISFIT * expected).powi(2));
            (expected, found) = (0.0, 0.0);
        }
    }
    if stretches < STRETCHES_MIN { 0.0 } else { sum / (stretches - 1) as f64 }
}

/// By how many standard deviations of chance the loss of the faster third of the intervals exceeds that of the slower third.
fn faster_loses(felt: &[f64], intervals: &[&Interval]) -> f64 {
    let mut order: Vec<usize> = (0..intervals.len()).collect();
    order.sort_by(|a, b| felt[*a].total_cmp(&felt[*b]));
    let third = intervals.len() / 3;
    let pick = |places: &[usize]| sums(&places.iter().map(|place| intervals[*place]).collect::<Vec<_>>());
    let (slow, fast) = (pick(&order[..third]), pick(&order[order.len() - third..]));
    let both = ratio(slow.0 + fast.0, slow.1 + fast.1);
    let deviation = (both * (1.0 - both) * (1.0 / slow.1.max(1.0) + 1.0 / fast.1.max(1.0))).sqrt();
    if deviation > 0.0 { (ratio(fast.0, fast.1) - ratio(slow.0, slow.1)) / deviation } else { 0.0 }
}

/// Whether there was a time in which far more was sent than is usually delivered, no more was delivered, and no queue grew: at
/// least half of the excess was lost.
fn capped(intervals: &[&Interval], typical_bps: f64) -> bool {
    intervals.iter().any(|i| {
        let sent = i.sender.bytes_sent as f64 * 8e6 / i.sender.time_us.max(1) as f64;
        let lost = ratio(i.sender.packets_lost as f64, i.sender.packets_sent as f64);
        !i.queued()
            && sent >= OVERSHOOT * typical_bps
            && delivered(i) <= NO_MORE * typical_bps
            && lost >= (1.0 - typical_bps / sent) / 2.0
    })
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}
