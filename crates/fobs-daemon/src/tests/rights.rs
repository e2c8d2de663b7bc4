//! The table of docs/security.md against the code, and rights that are played through a real daemon.

mod kept;
mod played;
mod stage;
mod tables;
mod unseen;
