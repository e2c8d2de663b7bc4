//! Removing what interrupted transfers left: journals, and files under temporary names.

use std::path::Path;

use fobs_model::error::{Error, ErrorKind, Result};

pub use crate::{Fate, Leftover, LeftoverKind};

/// Where and how to clean.
#[derive(Debug, Clone, Copy, Default)]
pub struct CleanOptions {
    /// Directories below too.
    pub recursive: bool,
    /// Only report.
    pub dry_run: bool,
}

/// Finds what transfers left in `directory`, removes what no running transfer uses, and reports each to
/// `each`. A partial file goes with its journal, in whatever directory it is.
///
/// # Errors
/// `NoSource` if `directory` cannot be read. What cannot be removed is reported, and the others go on.
pub fn clean(directory: &Path, options: CleanOptions, each: &mut dyn FnMut(Leftover)) -> Result<()> {
    crate::search(directory, options.recursive, !options.dry_run, each).map_err(|errno| {
        let message = format!("cannot look into '{}': {}", directory.display(), std::io::Error::from(errno));
        Error::new(ErrorKind::NoSource, message)
    })
}

#[cfg(test)]
mod tests;
