//! Direct-execution simulation (`seeds/001` section 4.1): what a classifier is worth on a link that is faster than ours.
//!
//! A physical transfer has real windows with real losses. Each that ends tells a virtual transfer that one window of its own
//! has passed: the virtual clock, window and response function are simulated, the losses and what the classifier makes of
//! them are real. One virtual transfer spares the losses that the classifier puts down to the receiver, its twin spares none.

use fobs_proto::congestion::response::{LOW_WINDOW, fobs_window};
use fobs_proto::loss_cause::Verdict;
use fobs_proto::loss_cause::paper::LOSS_RATE_MIN;
use serde::Serialize;

use crate::{Cause, Classifier, Random, Window};

/// The virtual link; by default the one of RFC 3649: 10 Gbit/s, 100 ms, packets of 1500 bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Bits per second.
    pub rate_bps: f64,
    /// Round trip, seconds.
    pub rtt_s: f64,
    /// Bytes of a packet.
    pub packet_bytes: f64,
}

impl Default for Link {
    fn default() -> Link {
        Link { rate_bps: 10e9, rtt_s: 0.1, packet_bytes: 1500.0 }
    }
}

impl Link {
    /// The window that fills the link, packets.
    fn window_max(&self) -> f64 {
        self.rate_bps * self.rtt_s / (8.0 * self.packet_bytes)
    }
}

/// The physical transfer: so many windows, with losses like the recorded ones, so often that the long-term loss is `loss_rate`;
/// the others lose nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Physical {
    /// Share of all packets that is lost in the long term; `None` plays the recorded windows in their order, once.
    pub loss_rate: Option<f64>,
    /// Windows, unless the recorded ones are played.
    pub windows: u32,
    /// What draws them.
    pub seed: u64,
}

/// Why nothing was simulated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DirectError {
    /// There is nothing to draw from.
    #[error("no recorded window has a loss; give files with windows that lost packets")]
    NoLoss,
    /// The recorded windows are too clean.
    #[error(
        "a loss rate of {asked} cannot be made of recorded windows that lose {recorded:.6} of their packets; ask for less, or \
         record windows with more loss"
    )]
    TooClean {
        /// What was asked for.
        asked: f64,
        /// What the recorded windows lose on average.
        recorded: f64,
    },
}

/// A row of the paper's Table 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Row {
    /// Long-term loss of the physical transfer.
    pub loss_rate: f64,
    /// Windows of it.
    pub windows: u32,
    /// Windows with losses: congestion events.
    pub events: u32,
    /// Events with enough loss for a diagnosis ([`LOSS_RATE_MIN`]).
    pub in_range: u32,
    /// Of those: put down to the receiver, to the network, to neither.
    pub receiver: u32,
    /// See `receiver`.
    pub network: u32,
    /// See `receiver`.
    pub inconclusive: u32,
    /// Events in range that the network made, as far as labels say.
    pub labelled_network: u32,
    /// Average throughput of the virtual transfer that spares, bits per second.
    pub with_bps: f64,
    /// And of its twin that spares none.
    pub without_bps: f64,
    /// And of a third that spares what the receiving host counted itself; `None` if not every event has a count.
    pub ledger_bps: Option<f64>,
}

/// Lets the physical transfer drive both virtual ones.
///
/// # Errors
///
/// [`DirectError`], where the recorded windows do not have the losses that are asked for.
pub fn simulate(
    recorded: &[Window],
    physical: &Physical,
    link: &Link,
    classifier: &mut Classifier,
) -> Result<Row, DirectError> {
    let lossy: Vec<&Window> = recorded.iter().filter(|window| window.signature.lost() > 0).collect();
    if lossy.is_empty() {
        return Err(DirectError::NoLoss);
    }
    // Recorded windows of one file have one length: a clean one between them has it, too.
    let packets = lossy[0].signature.packets();
    let mut row = Row::default();
    let (mut with, mut without, mut ledger) = (Virtual::new(), Virtual::new(), Virtual::new());
    let mut counted = true;
    let mut pass = |window: Option<&Window>| {
        let Some(window) = window else {
            row.windows += 1;
            with.pass(packets, 0, link);
            without.pass(packets, 0, link);
            ledger.pass(packets, 0, link);
            return;
        };
        let lost = window.signature.lost();
        let spared = row.count(window, classifier) == Verdict::Receiver;
        with.pass(window.signature.packets(), if spared { 0 } else { lost }, link);
        without.pass(window.signature.packets(), lost, link);
        let host = window.host_lost.map(|host| u32::try_from(host).unwrap_or(u32::MAX));
        counted &= host.is_some();
        ledger.pass(window.signature.packets(), lost.saturating_sub(host.unwrap_or(0)), link);
    };
    match physical.loss_rate {
        None => {
            for window in recorded {
                pass((window.signature.lost() > 0).then_some(window));
            }
        }
        Some(asked) => {
            let mean =
                lossy.iter().map(|window| window.signature.loss_rate()).sum::<f64>() / lossy.len() as f64;
            let often = asked / mean;
            if often.is_nan() || often > 1.0 {
                return Err(DirectError::TooClean { asked, recorded: mean });
            }
            let mut random = Random::new(physical.seed);
            for _ in 0..physical.windows {
                let event = random.chance(often);
                pass(event.then(|| lossy[random.below(lossy.len())]));
            }
        }
    }
    row.loss_rate = without.loss_rate();
    (row.with_bps, row.without_bps) = (with.throughput_bps(), without.throughput_bps());
    row.ledger_bps = counted.then(|| ledger.throughput_bps());
    Ok(row)
}

impl Row {
    /// Counts an event and says what it is put down to.
    fn count(&mut self, window: &Window, classifier: &mut Classifier) -> Verdict {
        let verdict = classifier.classify(&window.signature).verdict;
        self.windows += 1;
        self.events += 1;
        if window.signature.loss_rate() >= LOSS_RATE_MIN {
            self.in_range += 1;
            self.labelled_network += u32::from(window.cause == Some(Cause::Net));
            match verdict {
                Verdict::Receiver => self.receiver += 1,
                Verdict::Network => self.network += 1,
                Verdict::Inconclusive => self.inconclusive += 1,
            }
        }
        verdict
    }
}

/// A virtual transfer.
#[derive(Debug)]
struct Virtual {
    /// The window that passes next, packets.
    window: f64,
    /// Packets of the physical transfer, and those of them whose loss counts.
    sent: f64,
    lost: f64,
    bits: f64,
    seconds: f64,
}

impl Virtual {
    fn new() -> Virtual {
        Virtual { window: LOW_WINDOW, sent: 0.0, lost: 0.0, bits: 0.0, seconds: 0.0 }
    }

    /// A window has passed, virtual and physical; the next one follows from it and from all losses so far.
    fn pass(&mut self, packets: u32, lost: u32, link: &Link) {
        let bits = self.window * link.packet_bytes * 8.0;
        let rate = (bits / link.rtt_s).min(link.rate_bps);
        self.bits += bits;
        self.seconds += bits / rate;
        self.sent += f64::from(packets);
        self.lost += f64::from(lost);
        self.window = match self.loss_rate() {
            0.0 => link.window_max(),
            loss => fobs_window(self.window, loss).clamp(1.0, link.window_max()),
        };
    }

    fn loss_rate(&self) -> f64 {
        if self.sent > 0.0 { self.lost / self.sent } else { 0.0 }
    }

    fn throughput_bps(&self) -> f64 {
        if self.seconds > 0.0 { self.bits / self.seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Method;
    use fobs_proto::congestion::response::highspeed_window;
    use fobs_proto::loss_cause::Signature;

    fn window(runs: &[(u64, u64)]) -> Window {
        Window {
            signature: Signature::from_gaps(70_000, 1, runs.iter().copied()).unwrap(),
            cause: Some(Cause::Cpu),
            scenario: String::new(),
            run: 0,
            host_lost: None,
        }
    }

    fn classifier() -> Classifier {
        Classifier::shipped(Method::Signature)
    }

    /// Two stalls of the receiver: long runs.
    fn stalls() -> Window {
        window(&[(20_000, 180), (30_000, 170)])
    }

    #[test]
    fn the_twin_that_spares_nothing_follows_the_response_function() {
        let physical = Physical { loss_rate: Some(3.5e-4), windows: 20_000, seed: 1 };
        let row = simulate(&[stalls()], &physical, &Link::default(), &mut classifier()).unwrap();
        assert!((row.loss_rate / 3.5e-4 - 1.0).abs() < 0.1, "{row:?}");
        let expected = highspeed_window(row.loss_rate) * 1500.0 * 8.0 / 0.1;
        // The first windows pass before the long-term loss is known.
        assert!(row.without_bps > expected * 0.9 && row.without_bps < expected * 3.0, "{row:?}, {expected}");
    }

    #[test]
    fn what_is_put_down_to_the_receiver_costs_nothing() {
        let physical = Physical { loss_rate: Some(3.5e-4), windows: 5000, seed: 2 };
        let row = simulate(&[stalls()], &physical, &Link::default(), &mut classifier()).unwrap();
        assert_eq!((row.events, row.in_range), (row.receiver, row.receiver), "{row:?}");
        assert!(row.with_bps > 9.9e9, "{row:?}");
    }

    #[test]
    fn losses_that_nobody_can_tell_are_the_networks_for_both_twins() {
        let single = window(&[(20_000, 1)]);
        let physical = Physical { loss_rate: Some(1e-6), windows: 5000, seed: 3 };
        let row = simulate(&[single], &physical, &Link::default(), &mut classifier()).unwrap();
        assert_eq!((row.in_range, row.receiver), (0, 0), "{row:?}");
        assert_eq!(row.with_bps, row.without_bps);
    }

    #[test]
    fn recorded_windows_are_played_in_their_order() {
        let physical = Physical { loss_rate: None, windows: 0, seed: 0 };
        let recorded = [stalls(), window(&[]), window(&[])];
        let row = simulate(&recorded, &physical, &Link::default(), &mut classifier()).unwrap();
        assert_eq!((row.windows, row.events), (3, 1));
        assert_eq!(row.loss_rate, 350.0 / 210_000.0);
        assert_eq!(row.ledger_bps, None);
    }

    #[test]
    fn what_the_host_counted_is_spared_and_nothing_more() {
        let counted = |host_lost| Window { host_lost: Some(host_lost), ..stalls() };
        let physical = Physical { loss_rate: Some(3.5e-4), windows: 2000, seed: 4 };
        let row = |window| simulate(&[window], &physical, &Link::default(), &mut classifier()).unwrap();
        assert!(row(counted(350)).ledger_bps.unwrap() > 9.9e9);
        let none = row(counted(0));
        assert_eq!(none.ledger_bps, Some(none.without_bps));
    }

    #[test]
    fn losses_that_cannot_be_had_are_refused() {
        let asked = |rate, recorded: &[Window]| {
            let physical = Physical { loss_rate: Some(rate), windows: 10, seed: 0 };
            simulate(recorded, &physical, &Link::default(), &mut classifier())
        };
        assert_eq!(asked(1e-4, &[window(&[])]), Err(DirectError::NoLoss));
        assert!(matches!(asked(0.5, &[stalls()]), Err(DirectError::TooClean { .. })));
        assert!(matches!(asked(f64::NAN, &[stalls()]), Err(DirectError::TooClean { .. })));
    }
}
