//! Whole transfers of the public API against peers that break the rules.

mod hostile_client;
mod hostile_server;
mod memory;
mod replay;
