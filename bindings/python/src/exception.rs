//! Errors as exceptions. The package makes the types of them.

use fobs::Error;
use pyo3::prelude::*;

/// The exception of the package for an error.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let made = py
        .import("fobs._errors")
        .and_then(|module| module.getattr("from_code")?.call1((error.kind.code(), &error.message)));
    made.map_or_else(|broken| broken, PyErr::from_value)
}
