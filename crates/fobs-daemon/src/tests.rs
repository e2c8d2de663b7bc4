//! Whole transfers of the public API against peers that break the rules, or are older.

mod hostile_client;
mod hostile_pipe;
mod hostile_server;
mod key_schedules;
mod listener;
mod memory;
mod objects;
mod replay;
mod rights;
mod secrets;
mod threads;
