//! The record of one transfer, of bounded size: samples of both ends, judged windows of losses, remedies.

use fobs_model::cause::{LossWindow, Remedy};
pub use fobs_model::measured::Measured;
use fobs_model::mode::ModeChange;
use fobs_model::route::WayChange;
use fobs_model::sample::{ReceiverSample, SenderSample};
use serde::{Deserialize, Serialize};

/// Most samples of each end: at ten a second, more than three minutes without any being left out.
pub const SAMPLES_MAX: usize = 2048;
/// Most judged windows of losses.
pub const LOSSES_MAX: usize = 1024;
/// Most remedies: each kind is tried a few times at most.
pub const REMEDIES_MAX: usize = 64;
/// Most changes of the controller's mode; of more, the first are kept.
pub const MODES_MAX: usize = 256;
/// Most changes of the way that are kept; trials of another way grow rarer and rarer.
pub const WAYS_MAX: usize = 256;

/// A measurement and when it arrived at the end that keeps the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct At<T> {
    /// Microseconds since the session began, by that end's clock.
    pub at_us: u64,
    /// The measurement.
    #[serde(flatten)]
    pub what: T,
}

/// The record of one transfer.
///
/// Beyond [`SAMPLES_MAX`] samples every second one is dropped, and new ones are kept at twice the distance,
/// so a record of any length covers the whole transfer. Sums stay exact because samples are counters. Judged
/// windows are thinned likewise beyond [`LOSSES_MAX`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Journal {
    sender: Series<SenderSample>,
    receiver: Series<ReceiverSample>,
    losses: Series<LossWindow>,
    remedies: Vec<At<Remedy>>,
    modes: Vec<At<ModeChange>>,
    ways: Vec<At<WayChange>>,
}

impl Journal {
    /// An empty record.
    pub fn new() -> Journal {
        Journal::default()
    }

    /// Adds a measurement; remedies and modes beyond their limits are dropped.
    pub fn push(&mut self, measured: At<Measured>) {
        let at_us = measured.at_us;
        match measured.what {
            Measured::Sender(what) => self.sender.push(At { at_us, what }, SAMPLES_MAX),
            Measured::Receiver(what) => self.receiver.push(At { at_us, what }, SAMPLES_MAX),
            Measured::Loss(what) => self.losses.push(At { at_us, what }, LOSSES_MAX),
            Measured::Remedy(what) if self.remedies.len() < REMEDIES_MAX => {
                self.remedies.push(At { at_us, what });
            }
            Measured::Mode(what) if self.modes.len() < MODES_MAX => self.modes.push(At { at_us, what }),
            Measured::Way(what) if self.ways.len() < WAYS_MAX => self.ways.push(At { at_us, what }),
            Measured::Remedy(_) | Measured::Mode(_) | Measured::Way(_) => {}
        }
    }

    /// The same record with other samples.
    pub(super) fn with_samples(
        &self,
        sender: Vec<At<SenderSample>>,
        receiver: Vec<At<ReceiverSample>>,
    ) -> Journal {
        Journal {
            sender: Series { kept: sender, ..self.sender },
            receiver: Series { kept: receiver, ..self.receiver },
            ..self.clone()
        }
    }

    /// Samples of the sending end, in order.
    pub fn sender(&self) -> &[At<SenderSample>] {
        &self.sender.kept
    }

    /// Samples of the receiving end, in order.
    pub fn receiver(&self) -> &[At<ReceiverSample>] {
        &self.receiver.kept
    }

    /// Judged windows, in order.
    pub fn losses(&self) -> &[At<LossWindow>] {
        &self.losses.kept
    }

    /// Remedies, in order.
    pub fn remedies(&self) -> &[At<Remedy>] {
        &self.remedies
    }

    /// Changes of the controller's mode, in order.
    pub fn modes(&self) -> &[At<ModeChange>] {
        &self.modes
    }

    /// Changes of the way that data takes, in order.
    pub fn ways(&self) -> &[At<WayChange>] {
        &self.ways
    }

    /// Everything, in order of time.
    pub fn all(&self) -> Vec<At<Measured>> {
        let mut all: Vec<At<Measured>> = Vec::new();
        all.extend(
            self.sender().iter().map(|s| At { at_us: s.at_us, what: Measured::Sender(s.what.clone()) }),
        );
        all.extend(
            self.receiver().iter().map(|s| At { at_us: s.at_us, what: Measured::Receiver(s.what.clone()) }),
        );
        all.extend(self.losses().iter().map(|s| At { at_us: s.at_us, what: Measured::Loss(s.what.clone()) }));
        all.extend(
            self.remedies().iter().map(|s| At { at_us: s.at_us, what: Measured::Remedy(s.what.clone()) }),
        );
        all.extend(self.modes().iter().map(|s| At { at_us: s.at_us, what: Measured::Mode(s.what.clone()) }));
        all.extend(self.ways().iter().map(|s| At { at_us: s.at_us, what: Measured::Way(s.what.clone()) }));
        all.sort_by_key(|measured| measured.at_us);
        all
    }
}

/// Entries in order, thinned when they become too many.
#[derive(Debug, Clone, PartialEq)]
struct Series<T> {
    kept: Vec<At<T>>,
    /// Least distance of two entries, µs; 0 until the first thinning.
    spacing_us: u64,
}

impl<T> Default for Series<T> {
    fn default() -> Self {
        Series { kept: Vec::new(), spacing_us: 0 }
    }
}

impl<T> Series<T> {
    fn push(&mut self, entry: At<T>, count_max: usize) {
        // The newest is always kept; the one before it goes if it lies too close to its predecessor.
        if let [.., before, last] = &self.kept[..]
            && last.at_us.saturating_sub(before.at_us) < self.spacing_us
        {
            self.kept.pop();
        }
        self.kept.push(entry);
        if self.kept.len() > count_max {
            self.thin();
        }
    }

    fn thin(&mut self) {
        let span_us = match &self.kept[..] {
            [first, .., last] => last.at_us.saturating_sub(first.at_us),
            _ => 0,
        };
        let last = self.kept.len() - 1;
        let mut place = 0..;
        self.kept.retain(|_| place.next().is_some_and(|place| place % 2 == 0 || place == last));
        // Their average distance now.
        self.spacing_us = span_us / self.kept.len().max(1) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_us: u64) -> At<Measured> {
        At { at_us, what: Measured::Sender(SenderSample { time_us: at_us, ..SenderSample::default() }) }
    }

    #[test]
    fn a_record_of_any_length_is_bounded_and_covers_everything() {
        let mut journal = Journal::new();
        let (count, distance) = (40_000u64, 100_000);
        for place in 0..count {
            journal.push(sample(place * distance));
            assert!(journal.sender().len() <= SAMPLES_MAX);
            assert_eq!(
                journal.sender().last().map(|s| s.at_us),
                Some(place * distance),
                "the newest is there"
            );
        }
        let kept = journal.sender();
        assert_eq!(kept[0].at_us, 0);
        assert!(kept.len() > SAMPLES_MAX / 4, "{} are few", kept.len());
        let widest = kept.windows(2).map(|pair| pair[1].at_us - pair[0].at_us).max();
        let even = count * distance / kept.len() as u64;
        assert!(widest.is_some_and(|widest| widest <= 4 * even), "{widest:?} where {even} is even");
    }

    #[test]
    fn a_short_record_is_kept_as_it_is() {
        let mut journal = Journal::new();
        for place in 0..SAMPLES_MAX as u64 {
            journal.push(sample(place));
        }
        assert_eq!(journal.sender().len(), SAMPLES_MAX);
        assert_eq!(journal.all().len(), SAMPLES_MAX);
    }
}
