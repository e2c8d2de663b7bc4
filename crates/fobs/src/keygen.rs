//! `fobs keygen`.

use crate::error::Result;
use crate::secure::identity::{Identity, default_identity_path};
use std::path::{Path, PathBuf};

/// A new identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeygenOutcome {
    /// Where the private half lies.
    pub path: PathBuf,
    /// The line for a server's authorized keys.
    pub public_line: String,
    /// `SHA256:...`
    pub fingerprint: String,
}

/// Makes an identity and saves it at `out`, or at the default place. Never overwrites one.
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
