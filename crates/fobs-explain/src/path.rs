//! What the sender measured of the path in a stretch of time: queue, delivery rate, losses, order, way back.
//!
//! Without a queue, bursts of loss that do not depend on the rate (a radio link) look like a policer's.

use super::figures::{median, ratio, ratio_of, seconds, share};
use super::interval::{Began, Interval, delivered, is_whole, low_rtt};
use super::kind::{PathKind, Signs, likeliest, probabilities};
use super::rates::Rates;
use super::windows::{PACKETS_MEASURED, QUEUED_MIN, drift, follows, measured};
use fobs_model::sample::SenderSample;
use fobs_model::units::{ACK_DELAY_MAX, Wait};
use std::borrow::Borrow;

/// A queue stands if the newest round trip exceeds the smallest by this much, microseconds, and by one part
/// in [`QUEUE_SHARE`] of it. On emulated paths the two differ by 0.1 to 0.3 ms without a queue, by 2 ms or
/// more with one.
const QUEUE_US: u64 = 500;
const QUEUE_SHARE: u64 = 50;
/// Fewest packets of a queue.
const QUEUE_PACKETS: f64 = 1.0;
/// Share of the packets that come behind later ones from which on that is how the path is, and no exception,
/// and the part of the longest such delay by which the least of an interval may differ from the least ever.
const SHUFFLED: f64 = 0.02;
const SHUFFLED_PART: u64 = 2;
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
/// They are more even than chance below the reciprocal of that.
const EVEN: f64 = 1.0 / UNEVEN;
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

/// What the sender measured of the path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PathProfile {
    /// Its likeliest kind.
    pub(super) kind: PathKind,
    /// Probability of each kind, in the order of [`PathKind::ALL`].
    pub(super) probabilities: [f64; PathKind::ALL.len()],
    /// What else shows it.
    pub(super) signs: Signs,
    /// Share of the time in which a queue stood.
    pub(super) queued: f64,
    /// Share of the packets that were lost.
    pub(super) loss: f64,
    /// Index of dispersion of the losses over time: 1 if chance spread them, 0 if too few to tell.
    pub(super) uneven: f64,
    /// Share of the losses that came while more was sent than the median delivery rate.
    pub(super) excess: f64,
    /// What it delivered.
    pub(super) rates: Rates,
    /// What was delivered in all of that time, whatever limited: it carries that much, datagram bits per
    /// second.
    pub(super) delivered_bps: f64,
    /// Median of the intervals' smallest round trips, milliseconds.
    pub(super) base_ms: f64,
}

impl PathProfile {
    /// Measures the path by the intervals in which it held the rate down (`charge`, of `all`), which
    /// began so, after this path.
    pub(super) fn of(
        all: &[Interval],
        charge: &[&Interval],
        began: Began,
        before: Option<&PathProfile>,
    ) -> PathProfile {
        let rates = |intervals: &[&Interval]| {
            let mut rates: Vec<f64> = intervals.iter().map(|i| delivered(i)).collect();
            rates.sort_by(f64::total_cmp);
            rates
        };
        let whole: Vec<&Interval> = all.iter().filter(|i| is_whole(i)).collect();
        let best_bps = best_of(&whole);
        let charge: Vec<&Interval> = charge.iter().copied().filter(|i| is_whole(i)).collect();
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
        // A slow copy may have had its few losses during the ramp-up: then those are judged.
        let lossy = if lost > 0.0 { steady } else { &charge[..] };
        let loss = if lost > 0.0 { ratio(lost, sent) } else { ratio(lost_ever, sent_ever) };
        let felt = felt_rates(&charge);
        let felt = &felt[charge.len() - lossy.len()..];
        let excess = excess(felt, lossy, typical_bps);
        let uneven = unevenness(lossy, loss);

        let late: f64 = steady.iter().map(|i| i.sender.packets_late as f64).sum();
        let is_late = late > 0.0 && late >= LATE_EXPLAINS * lost;
        let with_rate = loss >= LOSS_FELT
            && !is_late
            && (uneven >= UNEVEN
                || faster_loses(felt, lossy) >= FASTER_LOSES
                || capped(&charge, typical_bps));
        // What piled up before these intervals and came in them is no rate of the path either.
        let most_sent = most_sent(all, steady.iter().copied());
        let typical = mean_rate(steady).min(most_sent);
        let late = others(&steady[steady.len() / 2..]);
        let room = ratio_of(best_bps, typical);
        // A bunch of losses beside as many packets that were only late tells of neither chance nor rate.
        let loss_felt = if is_late && uneven >= UNEVEN { 0.0 } else { loss };
        let rose = rose_where_lost(lossy);
        let signs = Signs { queued, loss: loss_felt, with_rate, room, rose, ..others(steady) };
        let signs = match began {
            Began::WorsePath => signs.after(before, typical, &late),
            Began::Otherwise | Began::BetterPath => signs,
        };
        let lows: Vec<f64> = steady.iter().map(|i| low_rtt(i) as f64 / 1e3).collect();
        let base_ms = median(&lows).unwrap_or(0.0);
        let probabilities = probabilities(&signs);
        let (kind, _) = likeliest(&probabilities);
        PathProfile {
            kind,
            probabilities,
            signs,
            queued,
            loss,
            uneven,
            excess,
            rates: Rates::of(typical_bps.min(most_sent), typical, best_bps),
            delivered_bps: 0.0,
            base_ms,
        }
    }

    /// Whether the delivery rate is that of the path: a queue of this transfer's own stood, and all the while
    /// the same rate was delivered.
    pub(super) fn shows_its_rate(&self) -> bool {
        let unsteady = self.signs.unsteady.max(self.signs.competed);
        self.signs.queued >= QUEUE_OWN && unsteady <= STEADY && self.signs.drift <= DRIFT_OWN
    }

    /// How the losses lie in time, to end a sentence with.
    pub(super) fn pattern_of_losses(&self) -> &'static str {
        if self.uneven == 0.0 {
            // Fewer stretches with losses than it takes to tell.
            "are too few to say whether they come evenly or in bunches"
        } else if self.uneven < EVEN {
            "come more evenly than by chance"
        } else if self.uneven < UNEVEN {
            "come as by chance"
        } else {
            "come in bunches"
        }
    }

    /// The profile of a path that took a step for the worse.
    pub(super) fn changed(self) -> PathProfile {
        let mut probabilities = self.probabilities;
        let place = |kind| PathKind::ALL.iter().position(|other| *other == kind).unwrap_or(0);
        let from = place(self.kind);
        probabilities.swap(from, place(PathKind::Changed));
        PathProfile { kind: PathKind::Changed, probabilities, ..self }
    }
}

impl Signs {
    /// After a step for the worse the copy has to find its rate again: an unsteady one until then is no sign
    /// of others, unlike one of the `late` half, or a queue that moves without its packets. They took what
    /// the path carried before.
    fn after(self, before: Option<&PathProfile>, typical_bps: f64, late: &Signs) -> Signs {
        let room = before.map_or(0.0, |before| ratio_of(before.rates.carried(), typical_bps));
        Signs { room, follows: None, unsteady: late.unsteady, ..self }
    }
}

/// Intervals of the ramp-up.
const OPENING: usize = 2;
/// A queue that stands for this share of the time, and a delivery rate that varies by less than that: the
/// path's own rate.
const QUEUE_OWN: f64 = 0.4;
const STEADY: f64 = 0.05;
/// Most that a queue of one's own moves beyond what was sent: it may overflow.
const DRIFT_OWN: f64 = 0.1;
/// Late packets, as a share of those that stayed lost, from which on the path reorders and loses nothing.
const LATE_EXPLAINS: f64 = 1.0;
/// Ratio of what a TCP window lets pass in a round trip to what was delivered from which on it is not filled:
/// beyond what the kernel's smoothed round trip may hide.
const WINDOW_UNFILLED: f64 = 1.4;
/// By how much the kernel's smoothed round trip varies without a queue, microseconds. Measured: up to 1 ms in
/// front of a policer, where acks are held back now and then.
const TCP_NOISE_US: u64 = 1_000;
/// States of `auto` beside flows that fill queues; the last one in traces of older programs.
const COMPETES: &[&str] = &["as cubic", "as bbr", "persists"];

/// Signs beside queue and loss.
fn others(steady: &[&Interval]) -> Signs {
    let time = |i: &&&Interval| i.sender.time_us as f64;
    let all_time: f64 = steady.iter().map(|i| i.sender.time_us as f64).sum();
    let competed: f64 =
        steady.iter().filter(|i| COMPETES.contains(&i.sender.state.as_str())).map(|i| time(&i)).sum();
    let received = |of: fn(&fobs_model::sample::ReceiverSample) -> u64| -> f64 {
        steady.iter().filter_map(|i| i.receiver.as_ref()).map(|r| of(r) as f64).sum()
    };
    let behind_us = steady.iter().filter_map(|i| i.receiver.as_ref()).map(|r| r.behind_max_us).max();
    let windows = measured(steady);
    let queued: Vec<f64> = windows.iter().filter(|w| w.queued).map(|w| w.delivered_bps).collect();
    let arrivals = unsteady_arrivals(steady);
    let standing: f64 = steady.iter().filter(|i| i.queued_there()).map(|i| i.sender.time_us as f64).sum();
    let base = steady.iter().map(|i| low_rtt(i)).filter(|us| *us > 0).min().unwrap_or(0) as f64;
    let grown: Vec<f64> =
        steady.iter().map(|i| (low_rtt(i) as f64 - i.sender.rtt_min_us as f64).max(0.0)).collect();
    let there: Vec<f64> = steady.iter().map(|i| i.sender.forward_low_us as f64).collect();
    let growth = median(&grown).unwrap_or(0.0);
    let held: Vec<f64> = steady.iter().map(|i| i.held_us() as f64).collect();
    let back = (growth - median(&there).unwrap_or(0.0) - median(&held).unwrap_or(0.0)).max(0.0);
    let all_rates: Vec<f64> = windows.iter().map(|w| w.delivered_bps).collect();
    // Acks for each packet at both ends: the receiver's samples overlap, which leaves the ratio as it is.
    // Traces of older programs count no acks.
    let total = |of: fn(&SenderSample) -> u64| -> f64 { steady.iter().map(|i| of(&i.sender) as f64).sum() };
    let arrived = total(|s| s.bytes_acked) * ratio_of(total(|s| s.packets_sent), total(|s| s.bytes_sent));
    let came = ratio_of(total(|s| s.acks), arrived);
    let sent = ratio_of(received(|r| r.acks), received(|r| r.packets));
    let (paced, windowed) = (total(|s| s.waits.us(Wait::Pacer)), total(|s| s.waits.us(Wait::Window)));
    let counted = steady.iter().any(|i| i.sender.acks > 0 && i.sender.rtt_low_us > 0);
    Signs {
        unsteady: if queued.len() >= QUEUED_MIN { spread(&queued).min(arrivals) } else { 0.0 },
        drift: drift(&windows),
        follows: follows(&windows),
        queued_there: ratio(standing, all_time),
        unfilled: ratio(steady.iter().filter(|i| is_unfilled(i)).map(|i| time(&i)).sum(), all_time),
        varies: if all_rates.len() >= QUEUED_MIN { spread(&all_rates) } else { 1.0 },
        competed: ratio(competed, all_time),
        reordered: ratio(received(|r| r.reordered), received(|r| r.packets)),
        behind_ms: behind_us.unwrap_or(0) as f64 / 1e3,
        way_back: if counted { ratio(back, growth) } else { 0.0 },
        way_back_growth: if counted && base > 0.0 { back / base } else { 0.0 },
        way_back_ms: if counted { back / 1e3 } else { 0.0 },
        acks_lost: if counted { ratio((sent - came).max(0.0), sent) } else { 0.0 },
        windowed: ratio(windowed, windowed + paced),
        ..Signs::default()
    }
}

/// The highest rate of any stretch with enough packets, or of an interval that has as many; of a shorter
/// copy, its mean. What piled up just before, unseen, arrived in that time, too. Nor is what was held back on
/// its way and came at once a rate of the path: none is higher than what was sent a round trip before.
fn best_of(whole: &[&Interval]) -> f64 {
    let (mut best, mut took_us, mut bytes, mut packets) = (0.0f64, 0.0, 0.0, 0.0);
    let mut late_us = 0.0;
    for (place, interval) in whole.iter().enumerate() {
        let sent_bps = sent_before(&whole[..=place]);
        let sender = &interval.sender;
        let (own_us, own) = (sender.time_us as f64, sender.bytes_delivered() as f64);
        let arrived = ratio_of(own * sender.packets_sent as f64, sender.bytes_sent as f64);
        if packets == 0.0 {
            took_us = late_us;
        }
        (took_us, bytes, packets) = (took_us + own_us, bytes + own, packets + arrived);
        if arrived >= PACKETS_MEASURED {
            best = best.max(ratio_of(own * 8e6, own_us + late_us).min(sent_bps));
        }
        if packets >= PACKETS_MEASURED {
            best = best.max(ratio_of(bytes * 8e6, took_us).min(sent_bps));
            (bytes, packets) = (0.0, 0.0);
        }
        late_us = interval.late_us();
    }
    if best > 0.0 { best } else { mean_rate(whole) }
}

/// How far the queue rose where packets were lost, in packets; `None` where none were.
fn rose_where_lost(intervals: &[&Interval]) -> Option<f64> {
    let lossy = intervals.iter().filter(|i| i.sender.packets_lost > 0 && i.sender.rtt_low_us > 0);
    median(&lossy.map(|i| i.rose_packets()).collect::<Vec<f64>>())
}

/// Whether the window of a TCP stream lets far more pass in a round trip than was delivered.
fn is_unfilled(interval: &Interval) -> bool {
    let (window, rtt_us) = (interval.sender.window_bytes as f64, interval.sender.rtt_us as f64);
    interval.sender.streams.open > 0
        && ratio_of(window * 8e6, rtt_us) >= WINDOW_UNFILLED * delivered(interval)
}

/// The highest rate at which was sent what arrived in the last of these intervals: in it, in the one before,
/// or up to a round trip earlier.
fn sent_before(whole: &[&Interval]) -> f64 {
    let Some((last, earlier)) = whole.split_last() else { return 0.0 };
    let from_s = last.from_s - seconds(low_rtt(last).max(last.sender.rtt_us));
    let recent = earlier.iter().rev().enumerate().take_while(|(place, i)| *place == 0 || i.to_s > from_s);
    let rates = recent.map(|(_, i)| sent_bps(i));
    rates.fold(sent_bps(last), f64::max)
}

/// The highest rate at which was sent what arrived in any of these intervals, which are among all of them.
pub(super) fn most_sent<'a>(all: &[Interval], of: impl Iterator<Item = &'a Interval>) -> f64 {
    let all: Vec<&Interval> = all.iter().collect();
    let before = |i: &Interval| all.partition_point(|other| other.from_s <= i.from_s);
    of.map(|i| sent_before(&all[..before(i)])).fold(0.0, f64::max)
}

/// Rate at which was sent, bits per second.
fn sent_bps(interval: &Interval) -> f64 {
    interval.sender.bytes_sent as f64 * 8e6 / interval.sender.time_us.max(1) as f64
}

/// Mean delivery rate, bits per second.
pub(super) fn mean_rate<I: Borrow<Interval>>(intervals: &[I]) -> f64 {
    let total = |of: fn(&SenderSample) -> u64| -> f64 {
        intervals.iter().map(|i| of(&i.borrow().sender) as f64).sum()
    };
    ratio_of(total(SenderSample::bytes_delivered) * 8e6, total(|s| s.time_us))
}

/// Half the distance of the quartiles, as a part of the median.
fn spread(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |quarters: usize| sorted[(sorted.len() - 1) * quarters / 4];
    if at(2) > 0.0 { (at(3) - at(1)) / 2.0 / at(2) } else { 0.0 }
}

/// Relative spread of the rate at which packets arrived while a queue stood: acks that come in bunches tell
/// nothing of it. Without samples of the receiver nothing is known.
fn unsteady_arrivals(steady: &[&Interval]) -> f64 {
    let queued = steady.iter().filter(|i| i.queued()).filter_map(|i| i.receiver.as_ref());
    let rates =
        queued.filter(|r| r.time_us > 0 && r.packets > 0).map(|r| r.packets as f64 / r.time_us as f64);
    let rates: Vec<f64> = rates.collect();
    if rates.len() >= QUEUED_MIN { spread(&rates) } else { f64::INFINITY }
}

impl Interval {
    /// Whether a queue stood.
    pub(super) fn queued(&self) -> bool {
        // The smallest round trip of the interval: jitter leaves that as it is, a queue that stands does not.
        let (rtt, least) = (low_rtt(self), self.sender.rtt_min_us);
        let (grown, felt) = (rtt.saturating_sub(least), self.queue_felt_us());
        grown >= felt && (grown >= felt + self.held_us() || self.queued_there())
    }

    /// How late what arrived in it may have been seen, microseconds: while either end waited for a CPU, or
    /// because TCP's acks stand still behind a hole.
    fn late_us(&self) -> f64 {
        if self.sender.streams.open > 0 && self.sender.packets_lost > 0 {
            return self.sender.time_us as f64;
        }
        let receiver = self.receiver.as_ref().map_or(0, |r| r.cpu.delay_us.min(r.time_us));
        let sender = self.sender.cpu.delay_us.min(self.sender.time_us);
        sender.saturating_add(receiver).min(self.sender.time_us) as f64
    }

    /// How long the receiver may hold an ack back at this rate, microseconds.
    fn held_us(&self) -> u64 {
        let hold = u64::try_from(ACK_DELAY_MAX.as_micros()).unwrap_or(u64::MAX);
        self.sender.time_us.checked_div(self.sender.acks).map_or(0, |gap| gap.min(hold))
    }

    /// How far the queue rose above its emptiest on the way there, in packets at the delivery rate. Of TCP
    /// only round trips are known.
    fn rose_packets(&self) -> f64 {
        let sender = &self.sender;
        let bytes = ratio_of(sender.bytes_sent as f64, sender.packets_sent as f64);
        let rose_us = match sender.streams.open {
            0 => sender.forward_high_us,
            _ => {
                let rose_us = sender.rtt_high_us.max(sender.rtt_low_us).saturating_sub(sender.rtt_min_us);
                rose_us.saturating_sub(TCP_NOISE_US)
            }
        };
        ratio_of(rose_us as f64 / 8e6 * delivered(self), bytes)
    }

    /// Whether a queue stood on the way there, where the delay of that way alone is measured.
    pub(super) fn queued_there(&self) -> bool {
        self.sender.forward_low_us >= self.queue_felt_us()
    }

    /// Delay from which on a queue stands, microseconds: more than jitter, and than a full packet takes that
    /// comes after shorter ones.
    fn queue_felt_us(&self) -> u64 {
        let packets = (QUEUE_PACKETS * self.packet_us) as u64;
        QUEUE_US.max(self.sender.rtt_min_us / QUEUE_SHARE).max(packets).max(self.shuffled_us())
    }

    /// By how much delays vary where the path shuffles its packets, microseconds.
    fn shuffled_us(&self) -> u64 {
        let Some(receiver) = &self.receiver else { return 0 };
        let is_shuffled = share(receiver.reordered, receiver.packets) >= SHUFFLED;
        if is_shuffled { receiver.behind_max_us / SHUFFLED_PART } else { 0 }
    }

    /// Whether enough packets were lost or marked to limit the rate.
    pub(super) fn lossy(&self) -> bool {
        let felt = self.sender.packets_lost.saturating_add(self.sender.packets_marked);
        felt > 0 && ratio(felt as f64, self.sender.packets_sent as f64) >= LOSS_FELT
    }
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
    let mut before = 0.0;
    let felt = intervals.iter().map(|i| {
        let now = sent_bps(i);
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
        let sent = sent_bps(i);
        let lost = ratio(i.sender.packets_lost as f64, i.sender.packets_sent as f64);
        !i.queued()
            && sent >= OVERSHOOT * typical_bps
            && delivered(i) <= NO_MORE * typical_bps
            && lost >= (1.0 - typical_bps / sent) / 2.0
    })
}
