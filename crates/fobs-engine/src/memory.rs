//! What is remembered between transfers: paths to peers, losses of known cause, and versions of files that
//! were sent.

pub mod history;
pub mod lessons;
pub mod versions;
