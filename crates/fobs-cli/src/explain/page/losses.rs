//! Losses over time, counted where the lost packets were sent.
//!
//! A loss is known a round trip after its packet left. Divided by what left meanwhile, the last losses of a
//! copy would be a share of the few packets of its end.

use fobs::explain::{At, SenderSample};

/// A stretch between two samples.
struct Stretch {
    /// Its ends, microseconds of the sender's clock.
    from_us: f64,
    until_us: f64,
    sent: f64,
    lost: f64,
}

/// The share of the packets of each stretch between two samples that was lost: seconds and 0 to 1. `count` is
/// the counter of losses.
pub(super) fn where_sent(samples: &[At<SenderSample>], count: fn(&SenderSample) -> u64) -> Vec<(f64, f64)> {
    let mut stretches: Vec<Stretch> = Vec::with_capacity(samples.len());
    for pair in samples.windows(2) {
        let (before, now) = (&pair[0].what, &pair[1].what);
        let since = now.since(before);
        if since.time_us == 0 {
            continue;
        }
        let (from_us, until_us) = (before.time_us as f64, now.time_us as f64);
        stretches.push(Stretch { from_us, until_us, sent: since.packets_sent as f64, lost: 0.0 });
        let rtt_us = now.rtt_us as f64;
        place(&mut stretches, from_us - rtt_us, until_us - rtt_us, count(&since) as f64);
    }
    let share = |it: &Stretch| if it.sent > 0.0 { (it.lost / it.sent).min(1.0) } else { 0.0 };
    stretches.iter().map(|it| (it.until_us / 1e6, share(it))).collect()
}

/// Adds losses of packets that left between `from_us` and `until_us`, to each stretch by what was sent in it
/// then; to the newest stretch before with packets, where nothing was.
fn place(stretches: &mut [Stretch], from_us: f64, until_us: f64, lost: f64) {
    if lost <= 0.0 {
        return;
    }
    let sent_then = |it: &Stretch| {
        let overlap = (it.until_us.min(until_us) - it.from_us.max(from_us)).max(0.0);
        it.sent * overlap / (it.until_us - it.from_us)
    };
    let all: f64 = stretches.iter().rev().take_while(|it| it.until_us > from_us).map(sent_then).sum();
    if all >= lost {
        for it in stretches.iter_mut().rev().take_while(|it| it.until_us > from_us) {
            it.lost += lost * sent_then(it) / all;
        }
        return;
    }
    // More was lost than left then: the timer that declared it waits longer than a round trip, or the first
    // sample came after its packets.
    let newest_first = stretches.iter().rposition(|it| it.from_us < until_us).map_or(0, |newest| newest + 1);
    let (before, after) = stretches.split_at_mut(newest_first);
    let mut left = lost;
    for it in before.iter_mut().rev().chain(after) {
        let room = (it.sent - it.lost).clamp(0.0, left);
        it.lost += room;
        left -= room;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples 100 ms apart with these packets sent and lost between them, over a round trip of 200 ms.
    fn samples(counts: &[(u64, u64)]) -> Vec<At<SenderSample>> {
        let mut sample = SenderSample { rtt_us: 200_000, ..SenderSample::default() };
        let mut all = vec![At { at_us: 0, what: sample.clone() }];
        for (sent, lost) in counts {
            sample.time_us += 100_000;
            sample.packets_sent += sent;
            sample.packets_lost += lost;
            all.push(At { at_us: sample.time_us, what: sample.clone() });
        }
        all
    }

    fn shares(counts: &[(u64, u64)]) -> Vec<f64> {
        where_sent(&samples(counts), |sample| sample.packets_lost)
            .into_iter()
            .map(|(_, share)| share)
            .collect()
    }

    #[test]
    fn losses_at_the_end_are_shares_of_what_was_sent_then() {
        // Ten packets of the last thousand are lost; they are declared when two copies leave.
        let shares = shares(&[(1000, 0), (1000, 0), (1000, 0), (0, 0), (10, 10), (2, 0)]);
        assert!((shares[2] - 0.01).abs() < 1e-9, "{shares:?}");
        assert!(shares.iter().all(|share| *share <= 0.011), "{shares:?}");
    }

    #[test]
    fn every_loss_is_placed_once() {
        for counts in [
            vec![(100, 0), (100, 0), (100, 7), (100, 3), (50, 20)],
            vec![(10, 0), (0, 0), (0, 0), (0, 0), (1, 9)],
            vec![(5, 5), (0, 0)],
        ] {
            let lost: f64 = counts.iter().map(|(_, lost)| *lost as f64).sum();
            let placed: f64 =
                shares(&counts).iter().zip(&counts).map(|(share, (sent, _))| share * *sent as f64).sum();
            assert!((placed - lost).abs() < 1e-6, "{placed} of {lost}: {counts:?}");
        }
    }

    #[test]
    fn counters_of_any_size_give_shares() {
        for share in shares(&[(0, u64::MAX / 2), (u64::MAX / 2, 1), (0, 0)]) {
            assert!((0.0..=1.0).contains(&share), "{share}");
        }
    }
}
