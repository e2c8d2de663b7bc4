//! What travels between hosts or is shown to people, as data: no file is opened here, no socket, no thread.
//!
//! [`TransferOptions`](options::TransferOptions) is what a caller chooses, [`Message`](message::Message) what
//! the two ends of a session tell each other, [`Event`](event::Event) what a caller hears, and
//! [`Error`](error::Error) how anything ends that fails.
//!
//! A request enters as text or as a frame of JSON and becomes one of these types at that place, which checks
//! it: a name is a [`Component`](name::Component), a choice is within its bounds, a count is one that a
//! [`MemoryBudget`](budget::MemoryBudget) allows. A [`Permit`](permit::Permit) judges what the request does.
//!
//! ```text
//!   options      what a caller chooses; location is sources and destinations as text
//!   message      what a control channel carries; filter_rules, shape, special, steer are parts of it
//!   rights       what a key may do
//!   permit       what a request does, and whether its client may do that
//!   name         names that come from outside, as types
//!   event        what a caller hears; error, cause, deltas, mode, route, listing are parts of it
//!   sample       what each end measures of itself; measured is one of these, or a judgement
//!   host_facts   what an end finds out of itself, walls among it
//!   budget       what a request may make a server keep
//!   cancel       the token that ends a transfer or a server
//!   units        bounds of the core that crates above share
//!   words        figures in sentences
//!   json         figures and paths for people's programs
//!   text         a peer's text and figures, as people may see them
//! ```
//!
//! It must not know how anything is done: by which sockets, files or threads.

#![forbid(unsafe_code)]

pub mod budget;
pub mod bytes;
pub mod cancel;
pub mod cause;
pub mod deltas;
pub mod direction;
pub mod error;
pub mod event;
pub mod filter_rules;
pub mod host_facts;
pub mod json;
pub mod listing;
pub mod location;
pub mod measured;
pub mod message;
pub mod mode;
pub mod name;
pub mod options;
pub mod permit;
pub mod public_key;
pub mod rights;
pub mod route;
pub mod sample;
pub mod shape;
pub mod special;
pub mod steer;
pub mod storage;
pub mod text;
pub mod units;
pub mod walls;
pub mod words;
