//! What is remembered between transfers: paths to peers, and losses of known cause.

pub mod history;
pub mod lessons;
