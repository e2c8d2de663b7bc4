//! The FOBS engine and public API: sessions, threads, storage, security.
//!
//! ```text
//!   client, server, daemon   the two ends of a session, and the listener
//!   session                  what both ends have in common
//!   cancel                   the token that cancels a transfer or a server
//!   control/                 the control channel: messages over ssh or TLS
//!   secure/                  keys of people and hosts, and of packets
//!   storage/                 files to chunks and chunks to files
//!   state                    where what is remembered lies
//!   history                  what is remembered of the paths to peers
//!   lessons                  and of the losses on them: windows of known cause, and models made of them
//!   explain/                 why a transfer was slow: samples of both ends, time budget, verdict
//!   engine/                  threads that drive the machines of `fobs-proto` over `fobs-sys`
//! ```
//!
//! A caller makes [`options::Location`]s and [`options::TransferOptions`], calls [`copy`], and hears [`event::Event`]s.

pub mod cause;
pub mod control;
pub mod error;
pub mod event;
pub mod explain;
pub mod mode;
pub mod options;
pub mod secure;
pub mod storage;

mod cancel;
mod client;
mod daemon;
mod engine;
mod history;
mod keygen;
mod lessons;
mod server;
mod session;
mod state;

pub use cancel::CancelToken;
pub use client::copy;
pub use daemon::serve;
pub use error::{Error, ErrorKind, Result};
pub use keygen::{KeygenOutcome, keygen};
pub use server::serve_stdio;
