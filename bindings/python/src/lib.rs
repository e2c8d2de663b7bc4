//! The extension module `fobs._fobs`: sessions and jobs. The package around it (`python/fobs`) has the names
//! that users see.
//!
//! ```text
//!   session   what opens a session and starts jobs over it
//!   stream    byte streams to programs
//!   copies    copies without one
//!   named     options by name, names of a tree, patterns
//!   job       one call that runs
//!   shared    what its thread writes down for it
//!   queue     the calls of a session, one after the other
//!   waker     tells a thread or an event loop which jobs have ended
//!   lent      memory of Python that a job reads or fills
//!   parts     a part of a remote file, into a local file that several jobs fill
//!   values    results as Python objects
//! ```
//!
//! Nothing here starts a thread before it is asked to, and no thread but the caller's touches Python objects.
//! No call of Python waits in here or runs code of Python, exceptions of the package included: at its end the
//! interpreter unwinds threads that do, and Rust's frames do not stand that.

#![deny(unsafe_code)]

mod copies;
mod job;
mod lent;
mod named;
mod parts;
mod queue;
mod session;
mod shared;
mod stream;
mod values;
mod waker;

/// Sessions and jobs.
#[pyo3::pymodule(gil_used = false)]
mod _fobs {
    #[pymodule_export]
    use super::copies::copy;
    #[pymodule_export]
    use super::job::Job;
    #[pymodule_export]
    use super::named::left_out;
    #[pymodule_export]
    use super::parts::{hash_pieces, join_pieces, root_of};
    #[pymodule_export]
    use super::session::Core;
    #[pymodule_export]
    use super::stream::RawStream;
    #[pymodule_export]
    use super::waker::Waker;

    /// The version of the crate and of the command that belongs to it.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
