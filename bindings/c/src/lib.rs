//! The C ABI: sessions, objects, files by name and byte streams (include/fobs.h).
//!
//! Handles are numbers that are never used twice, so that a wrong one is found; pointers are followed only as
//! far as the caller says. A panic becomes `FOBS_INTERNAL`.
//!
//! ```text
//!   handles   what a number stands for
//!   calls     a call's arguments, its outcome, and the last error of a thread
//! ```

#![deny(unsafe_code)]

mod calls;
mod handles;

pub use calls::*;
