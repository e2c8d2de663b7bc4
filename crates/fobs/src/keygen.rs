//! Making an identity.

use crate::error::Result;
use crate::secure::identity::{Identity, default_identity_path};
use std::path::{Path, PathBuf};

/// An identity in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeygenOutcome {
    /// The file with the private key.
    pub path: PathBuf,
    /// The line for a server's authorized keys.
    pub public_line: String,
    /// `SHA256:...`
    pub fingerprint: String,
}

/// The identity that exists at `path`, or at the default path.
///
/// # Errors
/// `Usage` without a default path, `Denied` for a file that cannot be read or is no identity.
pub fn show_key(path: Option<&Path>) -> Result<KeygenOutcome> {
    let path = match path {
        Some(path) => path.to_path_buf(),
        None => default_identity_path()?,
    };
    let public = Identity::load(&path)?.public();
    Ok(KeygenOutcome { path, public_line: public.to_string(), fingerprint: public.fingerprint() })
}

/// Makes an identity and saves it at `out`, or at the default path. Never overwrites a file.
///
/// # Errors
/// `Usage` without a default path, `Denied` if the file exists or cannot be written.
pub fn keygen(out: Option<&Path>) -> Result<KeygenOutcome> {
    let path = match out {
        Some(path) => path.to_path_buf(),
        None => default_identity_path()?,
    };
    let identity = Identity::generate();
    identity.save(&path)?;
    let public = identity.public();
    Ok(KeygenOutcome { path, public_line: public.to_string(), fingerprint: public.fingerprint() })
}
