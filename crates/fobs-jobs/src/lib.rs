//! Transfers that are handed in and kept: their state in SQLite, the order in which they run, and the keeper
//! that runs them.
//!
//! A job is a command line of `fobs cp` or `fobs sync` with the directory it was typed in ([`Spec`]). The
//! [`Schedule`] is a machine without a clock: it is given the time and says which jobs begin and which are
//! stopped. The [`Store`] keeps jobs and attempts over the end of any process.
//!
//! The crate knows nothing of packets, sessions or locations.

#![forbid(unsafe_code)]

pub mod api;
pub mod client;
pub mod front;
pub mod job;
pub mod keeper;
pub mod schedule;
mod secret;
pub mod store;
pub mod words;

pub use client::{Client, ClientError};
pub use job::{Ending, JobId, Outlook, Phase, RatePoint, Spec, Window, Word};
pub use keeper::{Change, Figures, JobView, Keeper, KeeperConfig, OrderError};
pub use schedule::{Action, After, Begin, Halt, Limits, Moment, Over, Reason, Schedule};
pub use store::{Attempt, Keep, Line, Record, Standing, Store, StoreError, Submitted};
