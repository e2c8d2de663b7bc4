//! Policy that the engine and the simulator share: what is decided around the sender and the receiver machines.
//!
//! Like the machines it is sans-I/O: time and measurements come in as arguments, decisions go out as values.

mod wait;

pub use wait::{Wait, WaitTimes};
