//! The FOBS protocol and all its decisions, as machines without I/O.
//!
//! ```text
//!   object/   what is moved: index arithmetic, bitmaps, range sets
//!   wire/     headers and acks as bytes; never panics on any input
//!   recovery/ what the path does: RTT, losses, delivery rate, packet size
//!   loss_cause/ why packets were lost: the network, or a receiver without CPU
//!   congestion/ how fast: one trait, one file per controller
//!   math      floating-point functions that are the same on every host
//!   order     the orders in which packets may leave
//!   pacing    when the next burst may leave
//!   sender/   the machine that decides which packet leaves when
//!   receiver/ the machine that decides what is new and what to report
//!   session/  policy around the machines that the engine and the simulator share
//! ```
//!
//! Machines take `now` as an argument, are told things by `handle_*` and asked by `poll_*`. They emit
//! descriptors (header and range of the object), never payload: the driver gathers, encrypts, sends, hashes
//! and stores. What is deliberately absent: sockets, files, threads, clocks, random numbers, payload bytes,
//! `unsafe`. Sections of `docs/protocol.md` are cited as `protocol 4.2`.

#![forbid(unsafe_code)]

pub mod congestion;
pub mod loss_cause;
pub mod math;
pub mod object;
mod order;
pub mod pacing;
pub mod receiver;
pub mod recovery;
pub mod sender;
pub mod session;
pub mod time;
pub mod units;
pub mod wire;

pub use time::Timestamp;
pub use units::Rate;

/// Number of one transmission; never reused in its direction (protocol 3.4).
pub type PacketNumber = u64;
/// Number of a chunk in its object (protocol 1.3).
pub type ChunkId = u32;
