//! Moves large data sets between hosts over encrypted UDP, verifies every byte, and explains what limited the
//! speed.
//!
//! A [`Transfer`] copies files between this host and another one; a [`Server`] answers transfers of other
//! hosts. Any number of both may run in one process, each in threads of its own and cancelled on its own.
//!
//! ```no_run
//! use fobs::{Carrier, Event, Location, Remote, Transfer, TransferOptions};
//! use std::sync::Arc;
//!
//! # fn main() -> fobs::Result<()> {
//! let source = Location::Remote(Remote {
//!     carrier: Carrier::Daemon,
//!     user: None,
//!     host: "data.example.org".to_owned(),
//!     port: None,
//!     path: b"survey".to_vec(),
//! });
//! let options = TransferOptions { recursive: true, ..TransferOptions::default() };
//! let transfer = Transfer::builder([source], Location::Local("/data".into()))
//!     .options(options)
//!     .events(Arc::new(|event: Event| {
//!         if let Event::Notice(line) = event {
//!             eprintln!("{line}");
//!         }
//!     }))
//!     .start()?;
//! let summary = transfer.wait()?;
//! println!("{} bytes in {:.1} s", summary.bytes, summary.seconds);
//! for failed in &summary.errors {
//!     eprintln!("{}", failed.message);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The example `copy` (`cargo run -p fobs --example copy`) has a server and a transfer in one process.
//!
//! ```text
//!   transfer                 the handle of a transfer
//!   object/                  many transfers over one session, from and to memory
//!   listing                  files at the server, by name
//!   direct                   small objects in the messages of the control channel
//!   client, server, daemon   the two ends of a session, and the listener
//!   session                  what both ends have in common
//!   door/                    where the TCP streams of a session come from
//!   clean                    removing what interrupted transfers left
//!   location                 sources and destinations as text
//!   cancel                   the token that cancels a transfer or a server
//!   control/                 the control channel: messages over ssh or TLS
//!   secure/                  keys of users and hosts, and of packets
//!   name/                    names that come from outside, as types
//!   storage/                 files to chunks and chunks to files
//!   state, history, lessons  what is kept between transfers: paths to peers, and losses of known cause
//! doctor/                  what will limit a transfer: facts of both ends and of the path, findings, verdict
//!   explain/                 why a transfer was slow: samples of both ends, time budget, verdict
//!   engine/                  threads that drive the machines of `fobs-proto` over `fobs-sys`
//! ```

#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as fobs;

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(any(test, feature = "hostile"))]
#[doc(hidden)]
pub mod hostile;

pub mod cause;
pub mod clean;
pub mod doctor;
pub mod error;
pub mod event;
pub mod explain;
pub mod location;
pub mod mode;
pub mod options;
pub mod route;

mod budget;
mod cancel;
mod client;
mod confine;
mod control;
mod daemon;
mod direct;
mod direction;
mod door;
mod engine;
mod examine;
mod filter_rules;
mod history;
mod host_facts;
mod keygen;
mod lessons;
mod listing;
mod measured;
mod name;
mod object;
mod program;
mod public_key;
mod restrict;
mod rights;
mod sample;
mod secure;
mod server;
mod session;
mod shape;
mod special;
mod state;
mod steer;
mod storage;
mod text;
mod transfer;
mod walls;

#[cfg(test)]
#[path = "../tests/served/mod.rs"]
mod served;
#[cfg(test)]
mod tests;

pub use cancel::CancelToken;
pub use control::ssh::{FarRequest, copy_between};
pub use daemon::{Server, ServerHandle, serve};
pub use engine::Steering;
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, EventSink, FileError, OtherEntries, Outcome, Progress, Summary};
pub use examine::walls_here;
pub use explain::{Explanation, Recorder};
pub use keygen::{KeygenOutcome, comment_here, keygen, show_key};
pub use listing::{Entry, EntryKind, FileStamp, Link};
pub use name::{BackupSuffix, BadName, RelPath};
pub use object::{Call, HashedFile, Onto, Session, SessionBuilder};
pub use options::{
    Access, AddressFamily, Carrier, CongestionControl, JudgeMethod, Location, NewKeys, Priority, Privileges,
    PushBinary, Remote, Restriction, Rights, ServeOptions, SignedTicket, SshOptions, SshWords,
    TransferOptions,
};
pub use options::{Chmod, FileSystems, IdMapping, Preserve, SymbolicLinks, Unkept};
pub use program::program_hash;
pub use public_key::PublicKey;
pub use secure::authorized_keys::key_options;
pub use server::{StdioError, serve_stdio};
pub use storage::expand_here;
pub use storage::filter;
pub use storage::pieces;
pub use storage::{create_named, open_named};
pub use transfer::{Transfer, TransferBuilder};
pub use walls::Walls;
