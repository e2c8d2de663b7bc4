//! Moves large data sets between hosts over encrypted UDP, verifies every byte, and explains what limited the
//! speed.
//!
//! A [`Transfer`] copies files between this host and another one; a server (`fobs-daemon`) answers transfers
//! of other hosts. Any number of both may run in one process, each in threads of its own and cancelled on its
//! own.
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
//! A [`Session`] is opened once for many transfers, from memory and into it. [`doctor::Checkup`] says before
//! a copy what will limit it, [`explain`] after one what did. [`filter`] has rsync's rules, and [`clean`]
//! removes what interrupted transfers left:
//!
//! ```
//! use fobs::clean::{CleanOptions, clean};
//! use fobs::filter::{Action, Filter};
//! use fobs::options::sync::SyncOptions;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut filter = Filter::default();
//! filter.add_pattern(Action::Exclude, b"*.tmp")?;
//! let sync = SyncOptions { filter: filter.rules(), ..SyncOptions::default() };
//! assert_eq!(sync.filter.rules, [b"- *.tmp"]);
//!
//! let mut found = Vec::new();
//! let options = CleanOptions { dry_run: true, ..CleanOptions::default() };
//! clean(&std::env::current_dir()?, options, &mut |leftover| found.push(leftover))?;
//! assert!(found.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! A request goes from [`Transfer`] or [`Session`] to the client, over the control channel to the server of
//! the other end, and is judged there. Then both hand their halves to `fobs-engine`. A connection that breaks
//! is made again by the client, and the transfer goes on.
//!
//! ```text
//!   transfer         the handle of a transfer
//!   object/          many transfers over one session, from and to memory; files at the server by name
//!   client, server   the two ends of a session; session is what both have in common
//!   pipe/            programs at both ends: descriptors, commands, meetings by name
//!   stream/          one of them is this process: reading and writing, waiting and polling
//!   direct           small objects in the messages of the control channel
//!   restrict         what `fobs server --restrict` allows
//!   examine/         what an end finds out of itself
//!   doctor/          what will limit a transfer: facts of both ends and of the path, findings, verdict
//!   watch/           programs of another make, recorded as a transfer of ours is
//! ```
//!
//! What a request is, is in `fobs-model`; how files become chunks, in `fobs-store`; how messages travel, in
//! `fobs-channel`; what drives packets and streams, in `fobs-engine`. What is public here without a line of
//! documentation of its own is for the daemon, which listens where this crate only answers: it must not know
//! listeners, nor a command line.

#![forbid(unsafe_code)]

pub mod doctor;
pub mod watch;

#[doc(hidden)]
pub mod client;
#[doc(hidden)]
pub mod direct;
#[doc(hidden)]
pub mod examine;
mod late_lanes;
mod object;
#[doc(hidden)]
pub mod pipe;
#[doc(hidden)]
pub mod restrict;
#[doc(hidden)]
pub mod server;
#[doc(hidden)]
pub mod session;
mod stream;
mod transfer;

pub use client::pipe::{PipeEnds, PipeManner, Piped, pipe};
pub use examine::walls_here;
pub use fobs_channel::control::ssh::{FarRequest, copy_between};
pub use fobs_channel::keygen::{KeygenOutcome, comment_here, keygen, show_key};
pub use fobs_channel::program::program_hash;
pub use fobs_channel::secure::authorized_keys::key_options;
pub use fobs_channel::state::{directory as state_directory, make_private, sockets as sockets_directory};
pub use fobs_engine::Steering;
pub use fobs_explain as explain;
pub use fobs_explain::{Explanation, Recorder};
pub use fobs_filter as filter;
pub use fobs_model::cancel::CancelToken;
pub use fobs_model::error::{Error, ErrorKind, Result, SyncEnd};
pub use fobs_model::event::{
    EntryFacts, Event, EventSink, FileError, OtherEntries, Outcome, Progress, Summary,
};
pub use fobs_model::listing::{Entry, EntryKind, FileStamp, Link};
pub use fobs_model::message::pipe::{PipeEnd, PipeRequest};
pub use fobs_model::name::{BackupSuffix, BadName, RelPath};
pub use fobs_model::options::{
    Access, AccountMap, AddressFamily, Carrier, Chatter, Chmod, CongestionControl, FileSystems, Follow,
    IdMapping, JudgeMethod, Location, NewKeys, PickedNames, Preserve, Priority, Privileges, PushBinary,
    Remote, Restriction, Rights, ServeOptions, ShellGrammar, SignedTicket, SshOptions, SshWords,
    SymbolicLinks, Taken, TransferOptions, Unkept,
};
pub use fobs_model::public_key::PublicKey;
pub use fobs_model::walls::Walls;
pub use fobs_model::{cause, deltas, error, event, json, location, mode, options, route, storage};
pub use fobs_store::SourcesHere;
pub use fobs_store::{
    Account, NameCharsets, become_user, clean, expand_here, matches_component, pieces, run_as,
};
pub use fobs_sys::named;
pub use object::{Call, FreeRoom, HashedFile, Onto, Session, SessionBuilder};
pub use server::{StdioError, serve_stdio};
#[cfg(feature = "tokio")]
pub use stream::AsyncStream;
pub use stream::{Stream, StreamBuilder};
pub use transfer::{Transfer, TransferBuilder};
