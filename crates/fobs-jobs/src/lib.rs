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
pub mod dial;
pub mod front;
pub mod job;
pub mod keeper;
pub mod schedule;
mod secret;
pub mod store;
pub mod token;
pub mod words;

pub use client::{Client, ClientError};
pub use dial::{Fingerprint, Trust, Url};
pub use job::{Ending, JobId, Outlook, Owner, Phase, RatePoint, Spec, SpecError, Window, Word};
pub use keeper::{
    Change, Examine, Figures, JobView, Keeper, KeeperConfig, LAUNCH_BYTES_MAX, Launch, OrderError, Serves,
    TokenRefusal, room_at,
};
pub use schedule::{Action, After, Begin, Halt, Limits, Moment, Over, Reason, Schedule};
pub use store::{Attempt, Keep, Line, Record, Standing, Store, StoreError, Submitted};
pub use token::{Scope, Secret, Token};
