//! The protocol in virtual time: one program, because each would be linked by itself. A room by its name:
//! `cargo test -p fobs-sim --test sim swarm::`.

mod bursts;
mod deadline;
mod history;
mod lane_worlds;
mod lanes;
mod loss_cause;
mod neighbours;
mod packet_size;
mod physics;
mod rate_changes;
mod scenarios;
mod scripted;
mod short_paths;
mod silence;
mod strange;
mod streams;
mod support;
mod swarm;
mod waste;
mod way_back;
