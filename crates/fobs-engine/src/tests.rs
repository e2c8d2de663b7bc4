//! Whole sessions in one process: real sockets, threads and files, and a meddler on both channels between
//! them.

mod channel;
mod content;
mod control;
mod datagrams;
mod deltas;
mod doors;
mod ends;
mod lane;
mod lanes;
mod late_lanes;
mod lies;
mod moves;
mod relay;
mod resume;
mod silence;
mod standstill;
mod storage;
mod streams;
pub(super) mod support;
