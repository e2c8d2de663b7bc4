//! The extension module `fobs._fobs`: sessions and jobs. The package around it (`python/fobs`) has the names
//! that users see.
//!
//! ```text
//!   session   what opens a session and starts jobs over it; copies without one
//!   job       one call that runs in a thread of its own
//!   lent      a Python buffer that a job reads or fills
//!   parts     a part of a remote file, into a local file that several jobs fill
//!   values    results as Python objects
//! ```
//!
//! Nothing here starts a thread before it is asked to, and no thread but the caller's touches Python objects.

#![deny(unsafe_code)]

mod job;
mod lent;
mod parts;
mod session;
mod values;

/// Sessions and jobs.
#[pyo3::pymodule(gil_used = false)]
mod _fobs {
    #[pymodule_export]
    use super::job::Job;
    #[pymodule_export]
    use super::parts::{hash_pieces, join_pieces, root_of};
    #[pymodule_export]
    use super::session::{Core, copy};

    /// The version of the crate and of the command that belongs to it.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
