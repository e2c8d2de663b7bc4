//! The control channel (protocol 2): messages over ssh or TLS, and the keys beside them.
//!
//! [`ControlChannel`](control::ControlChannel) is one end of a channel, made by [`control::ssh`] or
//! [`control::tls`]. A message leaves by its [`ControlWriter`](control::ControlWriter) as a frame, and comes
//! out of the other end's [`ControlReader`](control::ControlReader). Keys of packets and streams follow from
//! the channel's secret by [`secure::schedule`].
//!
//! ```text
//!   control      messages over a stream that is private and authenticated
//!   secure       keys of users and hosts, of packets and of streams; tickets
//!   keygen       makes and shows a user's key
//!   program      which program this is, for a host that is sent one
//!   state        where this user's state is kept
//! ```
//!
//! It does not know what messages mean, nor what is stored.

#![forbid(unsafe_code)]

pub mod control;
pub mod keygen;
pub mod program;
pub mod secure;
pub mod state;
