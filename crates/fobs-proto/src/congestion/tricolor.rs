//! The papers' aggressive controller (`seeds/004` section 2.2.2): three states, Green, Yellow and Red, each
//! with its own bounds, steps and ways out; a decision after each block. It takes what is free while little
//! is lost, and tolerates some loss.
//!
//! The paper gives the structure and no figures. These are chosen to meet its results (92.6 to 93% of the
//! link with 1.15 to 1.6% lost, section 4): a block may lose 2% before anything happens. All are shares of
//! what the path has been seen to deliver.

use super::opening::Opening;
use super::rate::{bounded, safety_window};
use super::{AckSample, Controller, LossEpisode, Outcome};
use crate::{Rate, Timestamp};
use std::time::Duration;

/// System conditions (`seeds/004` section 2.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Color {
    /// Excellent.
    Green,
    /// Moderate.
    Yellow,
    /// Poor.
    Red,
}

/// A state's rules: rates and steps are shares of the link, losses shares of a block's packets.
#[derive(Debug)]
struct Rules {
    rate_min: f64,
    rate_max: f64,
    /// Step up, and the largest loss of a block that it follows,
    up: (f64, f64),
    /// and step down, and the loss beyond which it follows.
    down: (f64, f64),
    /// Blocks in a row, and largest loss of each, that lead to the better state.
    better: (u32, f64),
    /// After one block that lost more than this: the worse state.
    worse: f64,
}

/// Negligible loss; loss that the paper's controller tolerated; "massive" loss.
const NEGLIGIBLE: f64 = 0.005;
const MODERATE: f64 = 0.02;
const MASSIVE: f64 = 0.10;

const GREEN: Rules = Rules {
    rate_min: 0.5,
    rate_max: 1.2,
    up: (0.05, NEGLIGIBLE),
    down: (0.0, 1.0),
    better: (u32::MAX, 0.0),
    worse: MODERATE,
};
const YELLOW: Rules = Rules {
    rate_min: 0.2,
    rate_max: 1.0,
    up: (0.02, NEGLIGIBLE),
    down: (0.02, MODERATE),
    better: (2, NEGLIGIBLE),
    worse: MASSIVE,
};
const RED: Rules = Rules {
    rate_min: 0.02,
    rate_max: 0.5,
    up: (0.05, MODERATE),
    down: (0.10, MASSIVE),
    better: (1, MODERATE),
    worse: 1.0,
};

impl Color {
    fn rules(self) -> &'static Rules {
        match self {
            Color::Green => &GREEN,
            Color::Yellow => &YELLOW,
            Color::Red => &RED,
        }
    }

    fn better(self) -> Color {
        if self == Color::Red { Color::Yellow } else { Color::Green }
    }
}

/// The highest delivery rate decays by this share per block, so that a slower path shows.
const LINK_DECAY: f64 = 0.99;

/// The controller.
#[derive(Debug)]
pub struct Tricolor {
    opening: Option<Opening>,
    color: Color,
    rate: Rate,
    /// The highest recent delivery rate.
    link: Rate,
    /// Blocks in a row that speak for the better state.
    good: u32,
    /// When rate and state were set: only blocks that began later count.
    since: Timestamp,
    min_rtt: Duration,
}

impl Tricolor {
    /// A controller that knows nothing of the path; it needs no packet size.
    pub fn new(_packet_len: u16) -> Tricolor {
        let opening = Opening::new();
        Tricolor {
            color: Color::Green,
            rate: opening.rate(),
            link: opening.rate(),
            opening: Some(opening),
            good: 0,
            since: Timestamp::ZERO,
            min_rtt: Duration::ZERO,
        }
    }

    fn decide(&mut self, loss: f64) {
        let rules = self.color.rules();
        let link = self.link.as_bytes() as f64;
        self.good = if loss <= rules.better.1 { self.good + 1 } else { 0 };
        let mut rate = self.rate.as_bytes() as f64;
        if loss <= rules.up.1 {
            rate += rules.up.0 * link;
        } else if loss > rules.down.1 {
            rate -= rules.down.0 * link;
        }
        let next = if loss > MASSIVE {
            Color::Red
        } else if loss > rules.worse {
            Color::Yellow
        } else if self.good >= rules.better.0 {
            self.color.better()
        } else {
            self.color
        };
        if next != self.color {
            self.color = next;
            self.good = 0;
        }
        let bounds = self.color.rules();
        self.rate = bounded(rate.clamp(bounds.rate_min * link, bounds.rate_max * link));
    }
}

impl Controller for Tricolor {
    fn name(&self) -> &'static str {
        "tricolor"
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.min_rtt = ack.min_rtt;
        if let Some(opening) = &mut self.opening {
            match opening.on_ack(ack) {
                Some(found) => {
                    self.opening = None;
                    (self.rate, self.link) = (found, found);
                    self.since = ack.now;
                }
                None => self.rate = opening.rate(),
            }
        } else if let Some(sample) = ack.rate {
            // A window can be read as faster than it was sent.
            self.link = self.link.max(sample.rate.min(self.rate));
        }
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        if let Some(opening) = &mut self.opening {
            opening.on_loss(loss);
            self.rate = opening.rate();
        }
    }

    fn on_block(&mut self, block: &Outcome) {
        if self.opening.is_some() || block.began < self.since || block.packets == 0 {
            return;
        }
        self.decide(block.loss());
        self.link = bounded(self.link.as_bytes() as f64 * LINK_DECAY);
        self.since = block.now;
    }

    fn congestion_window(&self) -> u64 {
        safety_window(self.rate, self.min_rtt)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn state(&self) -> &'static str {
        match (&self.opening, self.color) {
            (Some(_), _) => "opening",
            (None, Color::Green) => "green",
            (None, Color::Yellow) => "yellow",
            (None, Color::Red) => "red",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Acks;
    use super::*;

    const RTT: Duration = Duration::from_millis(50);
    const LINK: Rate = Rate::bits_per_second(100_000_000);

    struct Scene {
        tricolor: Tricolor,
        acks: Acks,
    }

    /// A path of 100 Mbit/s, found.
    fn found() -> Scene {
        let (mut tricolor, mut acks) = (Tricolor::new(1472), Acks::new(RTT));
        while tricolor.opening.is_some() {
            tricolor.on_ack(&acks.next(RTT / 10, tricolor.rate.min(LINK)));
        }
        Scene { tricolor, acks }
    }

    impl Scene {
        /// A block that lost this share; state and rate, the latter in percent of the link, after it.
        fn block(&mut self, loss: f64) -> (&'static str, u64) {
            self.tricolor.on_ack(&self.acks.next(RTT, LINK));
            self.tricolor.on_block(&self.acks.outcome(RTT / 2, loss));
            let percent = self.tricolor.rate.as_bytes() as f64 * 100.0 / LINK.as_bytes() as f64;
            (self.tricolor.state(), percent.round() as u64)
        }
    }

    #[test]
    fn negligible_loss_keeps_it_green_and_growing_up_to_its_bound() {
        let mut scene = found();
        assert_eq!(scene.tricolor.state(), "green");
        assert_eq!(scene.block(0.004), ("green", 105));
        assert_eq!(scene.block(0.015), ("green", 105), "some loss is lived with");
        for _ in 0..10 {
            scene.block(0.0);
        }
        assert_eq!(scene.block(0.0), ("green", 120), "its own maximum");
    }

    #[test]
    fn each_color_has_its_ways_out() {
        let mut scene = found();
        assert_eq!(scene.block(0.03).0, "yellow");
        assert_eq!(scene.block(0.03), ("yellow", 98), "a step down");
        assert_eq!(scene.block(0.01), ("yellow", 98));
        assert_eq!(scene.block(0.0).0, "yellow", "one good block is not enough");
        assert_eq!(scene.block(0.0).0, "green", "two are");
        assert_eq!(scene.block(0.5), ("red", 50), "massive loss from any state, and at once");
        assert_eq!(scene.block(0.2), ("red", 40));
        assert_eq!(scene.block(0.05), ("red", 40));
        assert_eq!(scene.block(0.01), ("yellow", 45));
        assert_eq!(scene.block(0.2).0, "red");
    }

    #[test]
    fn a_spike_of_loss_is_over_soon() {
        // `seeds/004` section 4: it "recovers quickly from spikes in the packet loss rate".
        let mut scene = found();
        scene.block(0.5);
        let blocks = (1..).find(|_| scene.block(0.0).1 >= 100);
        assert!(blocks.is_some_and(|n| n <= 12), "{blocks:?} blocks");
    }

    #[test]
    fn a_block_that_began_under_another_rate_does_not_count() {
        let mut scene = found();
        scene.block(0.0);
        let before = scene.tricolor.rate;
        scene.tricolor.on_block(&scene.acks.outcome(RTT, 0.5));
        assert_eq!((scene.tricolor.rate, scene.tricolor.state()), (before, "green"));
    }
}
