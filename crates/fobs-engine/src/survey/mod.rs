//! The survey's threads (protocol 7.8): `fobs-walk` lists at the sender, `fobs-survey` decides at the
//! receiver, and `fobs-basis` lists there what of the files to come it has (7.9).

mod answer;
mod basis;
mod docket;
mod list;

use fobs_model::error::{Error, ErrorKind};

pub(super) use answer::{Answering, Inbox};
pub(super) use basis::NamingBases;
pub(super) use docket::Docket;
pub(super) use list::Listing;

/// Most batches that are listed and not decided (protocol 7.8): enough for the longest path, few enough that
/// a receiver which does not decide costs the sender no memory worth speaking of.
const BATCHES_MAX: usize = 32;

/// The peer violated the protocol.
pub(super) fn violation(what: &str) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!(
            "the other side's part of the survey makes no sense: {what}; use the same version of fobs on both sides"
        ),
    )
}
