//! Where the streams of a session come from (protocol 11): the client dials, the server asks for that and
//! accepts. What the streams carry is the engine's business.
//!
//! ```text
//!   client     the client's door: the lane in the control channel, and what the dialer brings
//!   dial       connects in the background, with pauses that grow where that fails
//!   server     the server's door: the lane, and what its gate admitted
//!   gate       who may open a stream of a session: knows its secret, and an index once
//!   greeting   the first bytes of a stream, read within bounds of time and memory
//!   listen     the TCP port that a session over ssh has of its own
//! ```

mod client;
mod dial;
mod gate;
mod greeting;
mod listen;
mod server;

pub use client::ClientDoor;
pub use dial::{Dialer, Target};
pub use gate::{Gate, Refusal};
pub use greeting::Greeting;
pub use listen::Listening;
pub use server::ServerDoor;

#[cfg(test)]
mod tests;
