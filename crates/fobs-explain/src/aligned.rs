//! A record with its samples in their time: without the lateness of the messages that brought the far end's,
//! without losses that were undone later, and with the far sender's missing ones made up from what the
//! receiver saw, also those after its last one.

use super::journal::{At, Journal};
use fobs_model::sample::{ReceiverSample, SenderSample};

/// Receiver's samples between two of the sender's from which on some of the latter are missing: both take the
/// same number a second.
const MISSING_FROM: usize = 4;

/// The record of `journal`, so aligned.
pub(super) fn aligned(journal: &Journal) -> Journal {
    let (sent, received) = (journal.sender(), journal.receiver());
    let late = Lateness::of(sent, |sample| sample.time_us);
    let late_there = Lateness::of(received, |sample| sample.time_us);
    let mut sender = on_time(sent, &late, &late_there);
    let receiver = on_time(received, &late_there, &late);
    // A loss that was undone never was.
    let mut least = u64::MAX;
    for sample in sender.iter_mut().rev() {
        least = least.min(sample.what.packets_lost);
        sample.what.packets_lost = least;
    }
    journal.with_samples(filled(sender, &receiver), receiver)
}

/// How late one end's samples are, and by what more than its clock their times differ.
struct Lateness {
    /// When each came, and how long after its own time, microseconds.
    came: Vec<(u64, u64)>,
    /// The least of that from each on.
    least_from: Vec<u64>,
}

impl Lateness {
    fn of<T>(samples: &[At<T>], time_us: fn(&T) -> u64) -> Lateness {
        let came: Vec<(u64, u64)> =
            samples.iter().map(|at| (at.at_us, at.at_us.saturating_sub(time_us(&at.what)))).collect();
        let mut least = u64::MAX;
        let mut least_from: Vec<u64> = came
            .iter()
            .rev()
            .map(|(_, late)| {
                least = least.min(*late);
                least
            })
            .collect();
        least_from.reverse();
        Lateness { came, least_from }
    }

    /// The least from a time on: it grows by pauses between two sessions, and by drift of the clock.
    fn at(&self, at_us: u64) -> Option<u64> {
        let place = self.came.partition_point(|(came, _)| *came <= at_us).saturating_sub(1);
        self.least_from.get(place).copied()
    }
}

/// Samples at the times at which they would have arrived without delay: a message comes late, never early.
/// Least lateness from each sample on counts, since clocks drift and sessions have pauses between them; the
/// last ones may all be late, beyond what the other end's samples show as such a pause.
fn on_time<T: Clone>(samples: &[At<T>], own: &Lateness, other: &Lateness) -> Vec<At<T>> {
    let mut on_time = samples.to_vec();
    let mut least: Option<(u64, Option<u64>)> = None;
    for ((sample, (came, late)), from) in on_time.iter_mut().zip(&own.came).zip(&own.least_from) {
        let there = other.at(*came);
        let paused = least
            .and_then(|(before, there_then)| Some(before.saturating_add(there?.saturating_sub(there_then?))));
        let counts = paused.map_or(*from, |most| most.min(*from));
        if paused.is_none_or(|most| *late <= most) {
            least = Some((*late, there));
        }
        sample.at_us = came.saturating_sub(late - counts.min(*late));
    }
    on_time
}

/// The sender's samples, with one made up at each of the receiver's where several are missing.
fn filled(sender: Vec<At<SenderSample>>, receiver: &[At<ReceiverSample>]) -> Vec<At<SenderSample>> {
    let mut filled: Vec<At<SenderSample>> = Vec::with_capacity(sender.len());
    for sample in sender {
        if let Some(before) = filled.last().cloned() {
            filled.extend(between(&before, &sample, receiver));
        }
        filled.push(sample);
    }
    let end = beyond(&filled, receiver);
    filled.extend(end);
    filled
}

/// The sender's samples after its last one, which an outage of the control connection kept from arriving: the
/// time goes where it went before, and what arrived was sent.
fn beyond(sender: &[At<SenderSample>], receiver: &[At<ReceiverSample>]) -> Vec<At<SenderSample>> {
    let (Some(first), Some(last)) = (sender.first(), sender.last()) else { return Vec::new() };
    let missing = receiver.partition_point(|r| r.at_us <= last.at_us);
    let before = last.what.since(&first.what);
    let (time_us, bytes) = (before.time_us, before.bytes_delivered());
    if receiver.len() < missing + MISSING_FROM || missing == 0 || time_us == 0 || bytes == 0 {
        return Vec::new();
    }
    let (mut newest, mut found) = (last.clone(), Vec::new());
    for pair in receiver[missing - 1..].windows(2) {
        let took_us = pair[1].at_us.saturating_sub(newest.at_us);
        let arrived = pair[1].what.bytes.saturating_sub(pair[0].what.bytes);
        let step = before.part(took_us as f64 / time_us as f64, arrived as f64 / bytes as f64);
        newest = At { at_us: pair[1].at_us, what: step.after(&newest.what) };
        found.push(newest.clone());
    }
    found
}

fn between(
    from: &At<SenderSample>,
    to: &At<SenderSample>,
    receiver: &[At<ReceiverSample>],
) -> Vec<At<SenderSample>> {
    let first = receiver.partition_point(|r| r.at_us <= from.at_us);
    let last = receiver.partition_point(|r| r.at_us < to.at_us);
    if last < first + MISSING_FROM {
        return Vec::new();
    }
    let start = &receiver[first.saturating_sub(1)].what;
    let end = &receiver[last.min(receiver.len() - 1)].what;
    let (whole, bytes) = (to.what.since(&from.what), end.bytes.saturating_sub(start.bytes) as f64);
    let span_us = to.at_us.saturating_sub(from.at_us) as f64;
    let made_up = receiver[first..last].iter().map(|at| {
        let of_time = at.at_us.saturating_sub(from.at_us) as f64 / span_us;
        let of_data =
            if bytes > 0.0 { at.what.bytes.saturating_sub(start.bytes) as f64 / bytes } else { 0.0 };
        At { at_us: at.at_us, what: whole.part(of_time.min(1.0), of_data.min(1.0)).after(&from.what) }
    });
    made_up.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measured;

    fn journal(entries: impl IntoIterator<Item = (u64, Measured)>) -> Journal {
        let mut journal = Journal::new();
        entries.into_iter().for_each(|(at_us, what)| journal.push(At { at_us, what }));
        journal
    }

    fn sent(time_us: u64, lost: u64, acked: u64) -> Measured {
        Measured::Sender(SenderSample {
            time_us,
            packets_lost: lost,
            bytes_acked: acked,
            ..SenderSample::default()
        })
    }

    #[test]
    fn late_messages_count_from_when_they_were_sent() {
        let late = [(100, 150), (200, 250), (300, 900), (400, 900), (500, 550)];
        let found = aligned(&journal(late.map(|(time, at)| (at, sent(time, 0, 0)))));
        let times: Vec<u64> = found.sender().iter().map(|sample| sample.at_us).collect();
        assert_eq!(times, [150, 250, 350, 450, 550]);
    }

    #[test]
    fn last_messages_that_are_all_late_count_from_when_they_were_sent() {
        let sent =
            [(100, 110), (200, 210), (300, 1500), (400, 1500)].map(|(time, at)| (at, sent(time, 0, 0)));
        let here = |time_us, at_us| {
            (at_us, Measured::Receiver(ReceiverSample { time_us, ..ReceiverSample::default() }))
        };
        let beside = (1..=14).map(|step: u64| here(100 * step, 100 * step));
        let found = aligned(&journal(sent.iter().cloned().chain(beside)));
        let times: Vec<u64> = found.sender().iter().take(4).map(|sample| sample.at_us).collect();
        assert_eq!(times, [110, 210, 310, 410]);
        // A pause between two sessions is one for both ends.
        let beside = [here(100, 100), here(200, 200), here(300, 1490), here(400, 1490)];
        let found = aligned(&journal(sent.into_iter().chain(beside)));
        let times: Vec<u64> = found.sender().iter().map(|sample| sample.at_us).collect();
        assert_eq!(times, [110, 210, 1400, 1500]);
    }

    #[test]
    fn a_loss_that_was_undone_never_was() {
        let losses = [(100, 0), (200, 50), (300, 10), (400, 30)];
        let found = aligned(&journal(losses.map(|(time, lost)| (time, sent(time, lost, 0)))));
        let lost: Vec<u64> = found.sender().iter().map(|sample| sample.what.packets_lost).collect();
        assert_eq!(lost, [0, 10, 10, 30]);
    }

    #[test]
    fn samples_of_the_sender_that_never_came_follow_what_arrived() {
        let sent = [(0, sent(0, 0, 0)), (500, sent(500, 0, 500))];
        let arrived = (0..=15).map(|step: u64| {
            let bytes = 100 * if step < 10 { step.min(5) } else { step - 5 };
            let sample = ReceiverSample { time_us: 100 * step, bytes, ..ReceiverSample::default() };
            (100 * step, Measured::Receiver(sample))
        });
        let found = aligned(&journal(sent.into_iter().chain(arrived)));
        let acked: Vec<u64> = found.sender().iter().map(|sample| sample.what.bytes_acked).collect();
        assert_eq!(acked, [0, 100, 200, 300, 400, 500, 500, 500, 500, 500, 500, 600, 700, 800, 900, 1000]);
        assert_eq!(found.sender().last().map(|sample| sample.what.time_us), Some(1500));
    }

    #[test]
    fn missing_samples_of_the_sender_follow_what_arrived() {
        let ends = [(0, sent(0, 0, 0)), (1000, sent(1000, 0, 600))];
        let arrived = (0..=10).map(|step: u64| {
            let bytes = 100 * step.saturating_sub(4);
            let sample = ReceiverSample { time_us: 100 * step, bytes, ..ReceiverSample::default() };
            (100 * step, Measured::Receiver(sample))
        });
        let found = aligned(&journal(ends.into_iter().chain(arrived)));
        let acked: Vec<u64> = found.sender().iter().map(|sample| sample.what.bytes_acked).collect();
        assert_eq!(acked, [0, 0, 0, 0, 0, 100, 200, 300, 400, 500, 600]);
        assert_eq!(found.sender()[3].what.time_us, 300);
    }
}
