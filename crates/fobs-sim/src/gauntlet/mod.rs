//! Random paths that nobody tuned for: cells drawn from one distribution, each played by every contestant.
//!
//! docs/simulator.md documents the distribution. Seeds below [`TRAINING_BELOW`] are for development; what is
//! asserted or reported comes from others.

mod build;
mod contestant;
mod draw;
mod kinds;
mod play;

pub use build::{Staged, stage};
pub use contestant::Contestant;
pub use draw::{Cell, Order, PACKETS_MAX, Quirk, RATES, draw};
pub use kinds::{Kind, draw_kind};
pub use play::{Beside, Outcomes, play, play_tuned, play_watched};

/// Seeds below this one are for development.
pub const TRAINING_BELOW: u64 = 1_000;
