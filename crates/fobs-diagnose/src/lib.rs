//! Loss signatures that were recorded: read, classified, scored; models trained from them.
//!
//! ```text
//!   window    recorded windows: JSON lines, gzipped or not
//!   model     models as files, and the shipped ones
//!   classify  a window's probability and verdict, by the paper's method or ours
//!   splice    windows in which receiver and network both lost
//!   score     tables and the acceptance bars
//!   train     a model from labelled windows, and how it does on windows it has not seen
//!   direct    what a classifier is worth to a virtual transfer that recorded windows drive
//! ```
//!
//! A crate of its own: the engine needs a model and the classifier (which is in `fobs-proto`), the command needs the
//! rest, and neither needs linear algebra and gzip for what the other does. Everything random comes from a seed.

#![forbid(unsafe_code)]

pub mod classify;
pub mod direct;
pub mod model;
pub mod score;
pub mod splice;
pub mod train;
pub mod window;

pub use classify::{Classifier, Method};
pub use fobs_rng::Rng as Random;
pub use window::{Cause, ReadError, Window};
