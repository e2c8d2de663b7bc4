//! Random loss in front of the queue.

use super::draw::Draw;
use super::spec::{Bernoulli, GilbertElliott, Loss};

/// A loss model and its state.
#[derive(Debug, Clone)]
pub struct LossModel {
    model: Option<Loss>,
    state: ChannelState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChannelState {
    Good,
    Bad,
}

impl LossModel {
    /// Starts in the good state.
    pub fn new(model: Option<Loss>) -> LossModel {
        LossModel { model, state: ChannelState::Good }
    }

    /// Whether the next packet is lost.
    pub fn takes(&mut self, draw: &mut Draw) -> bool {
        match self.model {
            None => false,
            Some(Loss::Bernoulli(Bernoulli(share))) => draw.chance(share.fraction()),
            Some(Loss::GilbertElliott(model)) => {
                let lost = draw.chance(self.loss_here(&model));
                self.step(&model, draw);
                lost
            }
        }
    }

    fn loss_here(&self, model: &GilbertElliott) -> f64 {
        match self.state {
            ChannelState::Good => model.loss_good.fraction(),
            ChannelState::Bad => model.loss_bad.fraction(),
        }
    }

    fn step(&mut self, model: &GilbertElliott, draw: &mut Draw) {
        let (leave, other) = match self.state {
            ChannelState::Good => (model.good_to_bad, ChannelState::Bad),
            ChannelState::Bad => (model.bad_to_good, ChannelState::Good),
        };
        if draw.chance(leave.fraction()) {
            self.state = other;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::draw::Purpose;
    use crate::link::spec::Way;
    use crate::units::Share;

    const PACKETS: usize = 1_000_000;

    fn losses(model: Loss) -> Vec<bool> {
        let mut draw = Draw::new(1, Way::Forward, Purpose::Loss);
        let mut state = LossModel::new(Some(model));
        (0..PACKETS).map(|_| state.takes(&mut draw)).collect()
    }

    fn runs(losses: &[bool]) -> usize {
        losses.windows(2).filter(|pair| !pair[0] && pair[1]).count()
    }

    fn share(value: f64) -> Share {
        Share::new(value).expect("share")
    }

    #[test]
    fn bernoulli_losses_are_independent() {
        let losses = losses(Loss::Bernoulli(Bernoulli(share(0.1))));
        let lost = losses.iter().filter(|&&lost| lost).count();
        // Standard deviations: 300 losses, about 270 runs.
        assert!((98_500..101_500).contains(&lost), "{lost}");
        assert!((88_500..91_500).contains(&runs(&losses)), "{}", runs(&losses));
    }

    #[test]
    fn gilbert_elliott_loses_its_mean_in_bursts() {
        let model = Loss::GilbertElliott(GilbertElliott {
            good_to_bad: share(0.01),
            bad_to_good: share(0.25),
            loss_good: share(0.0),
            loss_bad: share(1.0),
        });
        let losses = losses(model);
        let lost = losses.iter().filter(|&&lost| lost).count() as f64 / PACKETS as f64;
        assert!((lost / model.mean() - 1.0).abs() < 0.03, "{lost}");
        let burst = lost * PACKETS as f64 / runs(&losses) as f64;
        assert!((burst - 4.0).abs() < 0.15, "mean burst {burst}, a bad state lasts four packets");
    }

    #[test]
    fn no_model_loses_nothing() {
        let mut draw = Draw::new(1, Way::Forward, Purpose::Loss);
        let mut none = LossModel::new(None);
        assert!((0..1000).all(|_| !none.takes(&mut draw)));
    }
}
