//! The survey's threads (protocol 7.8): `fobs-walk` lists at the sender, `fobs-survey` decides at the
//! receiver.

mod answer;
mod docket;
mod list;

use fobs_model::error::{Error, ErrorKind};

pub(super) use answer::Answering;
pub(super) use docket::Docket;
pub(super) use list::Listing;

/// Most batches that are listed and not decided (protocol 7.8): enough for the longest path, few enough that
/// a receiver which does not decide costs the sender no memory worth speaking of.
const BATCHES_MAX: usize = 32;

/// The peer violated the protocol.
fn violation(what: &str) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!(
            "the other side's part of the survey makes no sense: {what}; use the same version of fobs on both sides"
        ),
    )
}
