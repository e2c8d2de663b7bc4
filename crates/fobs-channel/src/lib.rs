//! The control channel (protocol 2): messages over ssh or TLS, and the keys beside them.
//!
//! [`ControlChannel`](control::ControlChannel) is one end of a channel, made by [`control::ssh`] or
//! [`control::tls`]. A message leaves by its [`ControlWriter`](control::ControlWriter) as a frame of JSON,
//! and comes out of the other end's [`ControlReader`](control::ControlReader) as a type; a frame that is too
//! long or no message ends the channel. Records of a stream travel beside messages (`lane`), and a channel
//! that is kept is lent to one transfer after the other (`lease`).
//!
//! Keys of packets and streams follow from the channel's secret by [`secure::schedule`]; users and servers
//! are known by their [`Identity`](secure::identity::Identity).
//!
//! ```text
//!   control      messages over a stream that is private and authenticated
//!   secure       keys of users and hosts, of packets and of streams; tickets; the file of authorised keys
//!   keygen       makes and shows a user's key
//!   program      which program this is, for a host that is sent one
//!   state        where this user's state is kept
//! ```
//!
//! It must not know what messages mean, nor what is stored. `secure` knows no socket and no session.

#![forbid(unsafe_code)]

pub mod control;
pub mod keygen;
pub mod program;
pub mod secure;
pub mod state;
