//! Stretches in which nothing came back: an outage of the path, or a receiver that stood still.

use super::figures::{around, ratio_of, share};
use super::journal::{At, Journal};
use super::names::Stage;
use super::trace::Trace;
use fobs_model::sample::SenderSample;
use fobs_model::units::Wait;

/// Shortest silence that counts, microseconds: three samples, beyond the 0.2 s for which TCP waits at least
/// before it repeats something over the control channel.
const SILENCE_MIN_US: u64 = 300_000;
/// And shortest silence in round trips.
const SILENCE_ROUND_TRIPS: u64 = 3;
/// Share of an interval for which the sender waited for the path: without that it had nothing to hear of.
const WAITED: f64 = 0.5;
/// Share of a silence in which the receiver stood still, so that this explains it.
const STOOD: f64 = 0.3;
/// Packets that arrive in a silence from which on the way there was open.
const ARRIVED_MIN: u64 = 50;
/// Share of the earlier delivery rate at which the path counts as back.
const BACK: f64 = 0.7;
/// Intervals before a silence whose median is the earlier rate.
const BEFORE: usize = 10;
/// Longest recovery that is counted to a silence, as a multiple of its length.
const RECOVERY_MAX: u64 = 3;

/// For each interval between the sender's samples: the stage to which a silence in it belongs.
pub(super) fn outages(trace: &Trace) -> Vec<Option<Stage>> {
    let journal = &trace.journal;
    // A program of another make that waits for an answer has nothing unacknowledged: the far end thinks.
    let waits: &[Wait] = if trace.head.is_of_another() {
        &[Wait::Pacer, Wait::Window, Wait::Streams]
    } else {
        &[Wait::Pacer, Wait::Window, Wait::Answers, Wait::Streams]
    };
    let is_silent = |step: &SenderSample| is_silent(step, waits);
    let samples = journal.sender();
    let steps: Vec<SenderSample> = samples.windows(2).map(|pair| pair[1].what.since(&pair[0].what)).collect();
    let mut found = vec![None; steps.len()];
    let mut at = 0;
    while at < steps.len() {
        if !is_silent(&steps[at]) {
            at += 1;
            continue;
        }
        let end = at + steps[at..].iter().take_while(|step| is_silent(step)).count();
        let length: u64 = steps[at..end].iter().fold(0, |sum, step| sum.saturating_add(step.time_us));
        let rtt = steps[at].rtt_min_us.saturating_mul(SILENCE_ROUND_TRIPS);
        // Before anything came the path is only being tried.
        let heard_before = samples[at].what.bytes_delivered() > 0;
        // And a silence that never ends is that of the last answers.
        if heard_before && end < steps.len() && length >= SILENCE_MIN_US.max(rtt) {
            let receiver =
                around(journal.receiver(), samples[at].at_us, samples[end].at_us).unwrap_or_default();
            if arrived_within(journal, samples[at].at_us, samples[end].at_us) >= ARRIVED_MIN {
                // The data came: it is the acks that did not.
                at = end;
                continue;
            }
            let stage =
                if share(receiver.stood_us, length) >= STOOD { Stage::ReceiverPaused } else { Stage::Outage };
            let back = end + recovery(samples, &steps, at, end);
            found[at..back].fill(Some(stage));
            at = back;
        } else {
            at = end;
        }
    }
    found
}

/// Packets that arrived between the receiver's first and last sample within a stretch of time.
fn arrived_within(journal: &Journal, from_us: u64, to_us: u64) -> u64 {
    let mut within = journal.receiver().iter().filter(|at| at.at_us > from_us && at.at_us < to_us);
    let first = within.next();
    let last = within.next_back();
    first.zip(last).map_or(0, |(first, last)| last.what.packets.saturating_sub(first.what.packets))
}

/// Whether the sender waited for the path, by these waits, and nothing came.
fn is_silent(step: &SenderSample, waits: &[Wait]) -> bool {
    let waited = waits.iter().fold(0u64, |sum, &wait| sum.saturating_add(step.waits.us(wait)));
    step.bytes_delivered() == 0 && share(waited, step.time_us) >= WAITED
}

/// Intervals after a silence until the earlier rate is back, and what was lost in it has been detected.
fn recovery(samples: &[At<SenderSample>], steps: &[SenderSample], from: usize, end: usize) -> usize {
    let rate = |step: &SenderSample| step.bytes_delivered() as f64 / step.time_us.max(1) as f64;
    let mut before: Vec<f64> = steps[from.saturating_sub(BEFORE)..from].iter().map(rate).collect();
    before.sort_by(f64::total_cmp);
    let Some(earlier) = before.get(before.len() / 2) else { return 0 };
    let length_us: u64 = steps[from..end].iter().fold(0, |sum, step| sum.saturating_add(step.time_us));
    let mut left = length_us.saturating_mul(RECOVERY_MAX);
    let slow = steps[end..].iter().take_while(|step| {
        left = left.saturating_sub(step.time_us.max(1));
        left > 0 && rate(step) < BACK * earlier
    });
    let slow = slow.count();
    // No more was lost in the silence than what was in flight: later losses are others.
    let mut in_flight = in_flight(&samples[from].what) + sum(&steps[from..end], |step| step.packets_sent);
    in_flight -= sum(&steps[from..end + slow], |step| step.packets_lost);
    let losses = steps[end + slow..].iter().take_while(|step| {
        let detected = step.packets_lost > 0 && in_flight > 0.0 && left > 0;
        left = left.saturating_sub(step.time_us.max(1));
        in_flight -= step.packets_lost as f64;
        detected
    });
    slow + losses.count()
}

/// Packets in flight at a sample.
fn in_flight(sample: &SenderSample) -> f64 {
    let sent = sample.packets_sent as f64;
    let arrived = ratio_of(sample.bytes_delivered() as f64 * sent, sample.bytes_sent as f64);
    (sent - sample.packets_lost as f64 - arrived).max(0.0)
}

fn sum(steps: &[SenderSample], of: fn(&SenderSample) -> u64) -> f64 {
    steps.iter().map(|step| of(step) as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{PACKET, STEP_US, send, trace_of};

    fn stages(silent: std::ops::Range<u64>, stood: bool) -> Vec<Option<Stage>> {
        let trace = trace_of("auto", |step, s, r| {
            s.waits.add_us(Wait::Window, STEP_US);
            let packets = if silent.contains(&step) { 1 } else { 100 };
            let lost = if silent.contains(&step) { 1 } else { 0 };
            send(s, packets, lost);
            r.stood_us += if stood && silent.contains(&step) { STEP_US } else { 0 };
        });
        outages(&trace)
    }

    #[test]
    fn silences_are_told_from_pauses_of_the_receiver() {
        let found = stages(10..20, false);
        assert_eq!(found[10..20], vec![Some(Stage::Outage); 10]);
        assert!(found[..10].iter().chain(&found[20..]).all(Option::is_none), "{found:?}");
        assert_eq!(stages(10..20, true)[10..20], vec![Some(Stage::ReceiverPaused); 10]);
    }

    #[test]
    fn another_program_that_waits_for_an_answer_is_no_outage() {
        let of = |wait, transport: &str| {
            let mut trace = trace_of("cubic", |step, s, _| {
                s.waits.add_us(wait, STEP_US);
                let packets = if (10..20).contains(&step) { 1 } else { 100 };
                send(s, packets, packets % 100);
            });
            trace.head.transport = transport.to_owned();
            outages(&trace)[12]
        };
        assert_eq!(of(Wait::Answers, "tcp"), None, "nothing of it is on the path");
        assert_eq!(of(Wait::Window, "tcp"), Some(Stage::Outage));
        assert_eq!(of(Wait::Answers, "udp"), Some(Stage::Outage));
    }

    /// The rate is back at once, and the 300 packets that the silence lost are sent again then.
    #[test]
    fn losses_of_a_silence_belong_to_it() {
        let trace = trace_of("cubic", |step, s, _| {
            s.waits.add_us(Wait::Window, STEP_US);
            match step {
                // Sent, and not heard of again.
                9 => {
                    send(s, 300, 0);
                    s.bytes_acked -= 300 * PACKET;
                }
                10..20 => send(s, 1, 1),
                20 | 21 => send(s, 300, 150),
                22.. => send(s, 300, 2),
                _ => send(s, 160, 0),
            }
        });
        let found = outages(&trace);
        assert_eq!((found[19], found[21]), (Some(Stage::Outage), Some(Stage::Outage)), "{found:?}");
        assert!(found[22..].iter().all(Option::is_none), "later losses are others: {found:?}");
    }

    #[test]
    fn short_silences_and_those_at_the_ends_are_none() {
        for silent in [4..6, 0..8, 20..30] {
            assert!(stages(silent.clone(), false).iter().all(Option::is_none), "{silent:?}");
        }
    }
}
