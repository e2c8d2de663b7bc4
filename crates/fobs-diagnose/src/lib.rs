//! Loss windows and models as files, and the training of a model after a copy.
//!
//! ```text
//!   window      recorded windows of losses: JSON lines, gzipped or not
//!   model       models as files, the shipped ones, and the judge of a live transfer made of one
//!   learn       a model for one pair of hosts, from the windows of its own transfers
//!   regression  the fit of one sub-cause to its windows
//!   splice      windows in which both the receiver and the network lost packets
//!   congestion  shipped windows of congestion, which a trained model is tested on
//!   random      random numbers from a seed
//! ```
//!
//! The classifier itself is in `fobs-proto`. What only researchers use (scoring, training from scratch,
//! generated windows) is in the laboratory, `lab/src/diagnose/`. Everything random comes from a seed.

#![forbid(unsafe_code)]

pub mod congestion;
pub mod learn;
pub mod model;
pub mod regression;
pub mod splice;
pub mod window;

pub use fobs_rng::Rng as Random;
pub use window::{Cause, ReadError, Window};
