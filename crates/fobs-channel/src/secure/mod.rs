//! Keys: how they follow from a secret ([`schedule`]), packet protection ([`datagram`], [`replay`]), streams
//! ([`stream`], [`stream_keys`]), key pairs of hosts and users ([`identity`]), the client keys that a server
//! accepts ([`authorized_keys`]) and the server keys that a client expects ([`known_hosts`]).
//!
//! It uses no sockets and no sessions. Its files are small and are read whole, with a bound.

pub mod authorized_keys;
pub mod cipher;
pub mod datagram;
pub mod identity;
pub mod known_hosts;
mod labels;
mod packet_key;
pub mod replay;
pub mod schedule;
pub mod stream;
pub mod stream_keys;
pub mod ticket;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use fobs_model::error::{Error, ErrorKind, Result};

/// `$XDG_CONFIG_HOME/fobs`, or `~/.config/fobs`. A relative `XDG_CONFIG_HOME` is ignored, as the XDG base
/// directory specification asks.
pub fn config_directory() -> Result<PathBuf> {
    std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".config")))
        .map(|base| base.join("fobs"))
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Usage,
                "no place for keys: neither XDG_CONFIG_HOME nor HOME is set; set one, or name the key files",
            )
        })
}

/// Makes the directory that will hold `path`, for this user alone, if it is missing.
pub(crate) fn make_private_parent(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;

    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !parent.exists() => {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)
        }
        _ => Ok(()),
    }
}

/// Random bytes that nobody can guess, from the operating system.
///
/// # Panics
/// If the operating system provides no randomness.
pub fn random_bytes<const LEN: usize>() -> [u8; LEN] {
    let mut bytes = [0; LEN];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// Reads a whole file; `FileTooLarge` above `limit` bytes.
fn read_bounded(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    // Room for all of it at once: the file may hold a key, and a vector that grows leaves parts behind in
    // memory.
    let expected = file.metadata()?.len().min(limit) as usize;
    let mut bytes = Vec::with_capacity(expected + 1);
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}
