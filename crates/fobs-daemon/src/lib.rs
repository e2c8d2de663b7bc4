//! The daemon: a server that listens, knows clients by their keys, and answers each in a thread of its own.
//!
//! [`serve`] runs one until it is cancelled. A [`Server`] is the same in two steps, bound and then
//! [run](Server::run), with a [`ServerHandle`] that ends it and reads its figures.
//!
//! ```no_run
//! use fobs::{CancelToken, ServeOptions};
//!
//! # fn main() -> fobs::Result<()> {
//! let mut options = ServeOptions::new("/srv/data".into(), "/etc/fobs/authorized_keys".into());
//! options.read_only = true;
//! fobs_daemon::serve(&options, &CancelToken::new())?;
//! # Ok(())
//! # }
//! ```
//!
//! A connection waits in the lobby without a thread until its client speaks. Then it has a thread, and a
//! place among strangers that a newer one may take. The TLS handshake shows its key; one that is authorised
//! waits for a session, fairly among keys. From there [`fobs::server`] answers it, in threads that reach the
//! root and nothing else, and what happens becomes a line of the log and a counter.
//!
//! ```text
//!   server             the serving thread: accepts, admits, drains
//!   listen, lobby      connections that are accepted and not answered yet
//!   places, seats, strangers, network, attempts   who may hold how many, by address
//!   admission          sessions, and the queue for them
//!   visit, who         one client's connection, and what is known of it
//!   streams            connections that belong to a session that runs
//!   idle               connections that rest between two transfers
//!   tickets, fetch     copies between two daemons
//!   memory, descriptors   what this process may use
//!   log, asked, deletions, tally, metrics   what is written and counted of it
//! ```
//!
//! It must not know what a transfer does: that is the same as over ssh.

#![forbid(unsafe_code)]

mod admission;
mod asked;
mod attempts;
mod deletions;
mod descriptors;
mod fetch;
mod idle;
mod listen;
mod lobby;
mod log;
mod memory;
mod metrics;
mod network;
mod places;
mod register;
mod seats;
mod server;
mod strangers;
mod streams;
mod tally;
pub(crate) mod tickets;
mod visit;
mod who;

pub use server::{Server, ServerHandle, serve};

#[cfg(test)]
extern crate self as fobs_daemon;

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(any(test, feature = "hostile"))]
#[doc(hidden)]
pub mod hostile;
#[cfg(test)]
#[path = "../tests/served/mod.rs"]
mod served;
#[cfg(test)]
mod tests;
