//! This program as a file.

use std::fs::File;
use std::io;

use fobs_model::error::{Error, ErrorKind, Result};

/// The BLAKE3 hash of the program that runs, hex.
///
/// # Errors
/// `FileIo` where it cannot be read.
pub fn program_hash() -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    let hashed = File::open("/proc/self/exe").and_then(|mut file| io::copy(&mut file, &mut hasher));
    match hashed {
        Ok(_) => Ok(hasher.finalize().to_hex().to_string()),
        Err(error) => Err(Error::new(ErrorKind::FileIo, format!("cannot read this program: {error}"))),
    }
}
