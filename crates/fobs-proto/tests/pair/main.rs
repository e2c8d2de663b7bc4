//! The sender and the receiver against each other, in virtual time over a network that does what a script says.
//!
//! A failure prints its seed; `FOBS_SEED=<seed> cargo test -p fobs-proto --test pair swarm` runs that one again.

mod path;
mod rng;
mod scripted;
mod world;
mod auto;
