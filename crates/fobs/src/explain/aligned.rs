//! A record with its samples in their time: without the lateness of the messages that brought the far end's,
//! without losses that were undone later, and with the far sender's missing ones made up from what the
//! receiver saw.

use super::journal::{At, Journal};
use super::sample::{ReceiverSample, SenderSample};

/// Receiver's samples between two of the sender's from which on some of the latter are missing: both take the
/// same number a second.
const MISSING_FROM: usize = 4;

/// The record of `journal`, so aligned.
pub(super) fn aligned(journal: &Journal) -> Journal {
    let mut sender = on_time(journal.sender(), |sample| sample.time_us);
    let receiver = on_time(journal.receiver(), |sample| sample.time_us);
    // A loss that was undone never was.
    let mut least = u64::MAX;
    for sample in sender.iter_mut().rev() {
        least = least.min(sample.what.packets_lost);
        sample.what.packets_lost = least;
    }
    journal.with_samples(filled(sender, &receiver), receiver)
}

/// Samples at the times at which they would have arrived without delay: a message comes late, never early.
/// The least lateness from each sample on counts, since clocks drift and sessions have pauses between them.
fn on_time<T: Clone>(samples: &[At<T>], time_us: fn(&T) -> u64) -> Vec<At<T>> {
    let mut on_time = samples.to_vec();
    let mut lateness = u64::MAX;
    for sample in on_time.iter_mut().rev() {
        lateness = lateness.min(sample.at_us.saturating_sub(time_us(&sample.what)));
        sample.at_us = sample.at_us.min(time_us(&sample.what).saturating_add(lateness));
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
    filled
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
    use crate::explain::Measured;

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
    fn a_loss_that_was_undone_never_was() {
        let losses = [(100, 0), (200, 50), (300, 10), (400, 30)];
        let found = aligned(&journal(losses.map(|(time, lost)| (time, sent(time, lost, 0)))));
        let lost: Vec<u64> = found.sender().iter().map(|sample| sample.what.packets_lost).collect();
        assert_eq!(lost, [0, 10, 10, 30]);
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
