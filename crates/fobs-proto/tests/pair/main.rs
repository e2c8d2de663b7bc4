//! The sender and the receiver against each other, in virtual time over a network that does what a script says.
//!
//! `world` checks the rules at every step of every run; the other files say what the network does.
//! A failure of the swarm prints its seed; `FOBS_SEED=<seed> cargo test -p fobs-proto --test pair swarm` runs that one again.
//! `FOBS_GOLDEN=write cargo test -p fobs-proto --test pair auto` writes the table of `auto` anew, `... controllers` that of the
//! family.

mod auto;
mod controllers;
mod golden;
mod hostile;
mod model;
mod path;
mod rng;
mod scripted;
mod swarm;
mod world;
