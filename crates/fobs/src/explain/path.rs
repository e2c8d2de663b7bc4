//! The kind of path, from the round trips and losses that the sender measured.
//!
//! | kind | queue | loss |
//! |---|---|---|
//! | narrow | stands: the round trip is longer than the path's own | whatever the queue cannot hold |
//! | policed | none | comes with the rate: unevenly spread, or all of what was sent beyond a rate |
//! | lossy | none | at any rate, as chance spreads it |
//! | untried | none | none: the rate was ramping up, or held for another reason |
//!
//! Without a queue, bursts of loss that do not depend on the rate (a radio link) look like a policer's.

use super::interval::{Interval, share};

/// A queue stands if the newest round trip exceeds the smallest by this much, microseconds, and by one part
/// in [`QUEUE_SHARE`] of it. On emulated paths the two differ by 0.1 to 0.3 ms without a queue, by 2 ms or
/// more with one.
const QUEUE_US: u64 = 500;
const QUEUE_SHARE: u64 = 50;
/// A queue in this share of the time is the path's bottleneck; in less it is a transient burst.
const QUEUE_STANDS: f64 = 0.4;
/// Losses below this share of the packets limit no controller's rate.
const LOSS_FELT: f64 = 5e-4;
/// Losses that are expected in one stretch of time if they are spread evenly: enough to test whether they
/// are.
const STRETCH_LOSSES: f64 = 5.0;
/// Fewest stretches that the test needs.
const STRETCHES_MIN: usize = 5;
/// Losses are uneven from this index of dispersion on (variance over that of a binomial, which has 1, and
/// exceeds 2.7 in 3% of the cases with five stretches, in 0.4% with ten). Measured: at most 1.7 with random
/// loss, at least 3.5 behind policers.
const UNEVEN: f64 = 2.7;
/// Relative error of the expected losses, because a loss is detected a round trip late.
const MISFIT: f64 = 0.15;
/// Standard deviations by which the loss of the faster third of the intervals exceeds that of the slower
/// third by chance once in 30,000 cases.
const FASTER_LOSES: f64 = 4.0;
/// Ratio to the median delivery rate from which on a policer drops.
const EXCESS: f64 = 1.03;
/// Ratio of sent to median delivered rate at which random loss of a few percent does not hide a policer.
const OVERSHOOT: f64 = 1.3;
/// Ratio to the median delivery rate that counts as no more than usual: a policer's bucket lets a little more
/// pass.
const NO_MORE: f64 = 1.1;

/// The kind of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathKind {
    /// Its rate was reached.
    Narrow,
    /// It drops what exceeds a rate, without a queue.
    Policed,
    /// It loses packets at any rate.
    Lossy,
    /// No sign that its rate was reached.
    Untried,
}

/// What the sender measured of the path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PathProfile {
    /// Its kind.
    pub(super) kind: PathKind,
    /// Share of the time in which a queue stood.
    pub(super) queued: f64,
    /// Share of the packets that were lost.
    pub(super) loss: f64,
    /// Index of dispersion of the losses over time: 1 if chance spread them, 0 if too few to tell.
    pub(super) uneven: f64,
    /// Share of the losses that came while more was sent than the median delivery rate.
    pub(super) excess: f64,
    /// Median delivery rate, datagram bits per second.
    pub(super) typical_bps: f64,
    /// Highest delivery rate of any interval, datagram bits per second.
    pub(super) best_bps: f64,
}

impl PathProfile {
    /// Measures the path by the intervals in which it held the rate down (`charge`, of `all`).
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
        // The ramp-up overshoots, and loses accordingly.
        let steady = &charge[(charge.len() / 4).min(OPENING)..];
        let sorted = rates(steady);
        let typical_bps = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);

        // Sums are of floats: a peer may send any figures.
        let time = |i: &&Interval| i.sender.time_us as f64;
        let all_time: f64 = steady.iter().map(time).sum();
        let queued_time: f64 = steady.iter().filter(|i| i.queued()).map(time).sum();
        let queued = ratio(queued_time, all_time);
        let ((lost, sent), (lost_ever, sent_ever)) = (sums(steady), sums(&charge));
        // A slow copy may have had its few losses during the ramp-up.
        let loss = if lost > 0.0 { ratio(lost, sent) } else { ratio(lost_ever, sent_ever) };
        let felt = felt_rates(&charge);
        let felt = &felt[charge.len() - steady.len()..];
        let excess = excess(felt, steady, typical_bps);
        let uneven = unevenness(steady, loss);

        let kind = if queued >= QUEUE_STANDS {
            PathKind::Narrow
        } else if loss < LOSS_FELT {
            // A queue at times, and nothing else that explains the rate.
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

/// Intervals of the ramp-up.
const OPENING: usize = 2;
/// Shorter intervals are too short to measure a rate, microseconds.
const INTERVAL_MIN_US: u64 = 50_000;

impl Interval {
    /// Whether a queue stood.
    pub(super) fn queued(&self) -> bool {
        let (rtt, least) = (self.sender.rtt_us, self.sender.rtt_min_us);
        rtt.saturating_sub(least) >= QUEUE_US.max(least / QUEUE_SHARE)
    }

    /// Whether enough packets were lost or marked to limit the rate.
    pub(super) fn lossy(&self) -> bool {
        let felt = self.sender.packets_lost.saturating_add(self.sender.packets_marked);
        felt > 0 && ratio(felt as f64, self.sender.packets_sent as f64) >= LOSS_FELT
    }
}

fn delivered(interval: &Interval) -> f64 {
    interval.sender.bytes_delivered() as f64 * 8e6 / interval.sender.time_us.max(1) as f64
}

/// Losses and packets sent.
fn sums(intervals: &[&Interval]) -> (f64, f64) {
    let lost = intervals.iter().map(|i| i.sender.packets_lost as f64).sum();
    let sent = intervals.iter().map(|i| i.sender.packets_sent as f64).sum();
    (lost, sent)
}

/// Bits per second at which each interval's losses were sent: a loss is detected a round trip later, so the
/// interval before counts as well.
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

/// Standard deviations by which the loss of the faster third of the intervals exceeds that of the slower
/// third.
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

/// Whether in some interval far more was sent than is usually delivered, no more was delivered, no queue
/// grew, and at least half of the excess was lost.
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
