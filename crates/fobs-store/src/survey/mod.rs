//! The survey (protocol 7.8): the sender lists its entries, the receiver says of each whether to send it.
//!
//! A [`Row`] describes an entry, a [`Choice`] answers it. A [`Lister`] makes the rows, [`Compare`] the
//! choices: `rules` decides for `cp` and `sync` for `sync` from what is known, without I/O; `target`
//! does the I/O around `sync`, and `unseen` answers who may not learn what is there.

mod choice;
mod compare;
mod itemize;
mod listed_names;
mod lister;
mod path_questions;
mod pruned;
mod row;
mod rules;
pub(crate) mod sync;
mod target;
mod unseen;

pub use choice::{CHOICES_LEN, Changes, Choice, Decision};
pub use compare::Compare;
pub use itemize::{ItemKind, Way};
pub use lister::{Batch, Checksums, Decided, Listed, Lister, ListingForm, Next, Parts};
pub use path_questions::{PathQuestions, QUESTIONS_MAX};
#[cfg(test)]
pub(crate) use row::RowKind;
pub use row::{BATCH_ROWS_MAX, BatchWriter, Row, decode_batch};
pub use rules::{Append, CompareBy, Rules};
