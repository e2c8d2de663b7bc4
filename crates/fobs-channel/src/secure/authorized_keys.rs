//! The client keys that a server accepts, their rights and their limits: lines of `[options] fobs-ed25519
//! BASE64 [comment]`.
//!
//! Options are comma-separated ([`key_options`]): an [`Access`](fobs_model::rights::Access), `privileged`,
//! `path="sub/dir"`, which may be repeated and limits the key to these subtrees of the root, and limits over
//! all sessions of the key. A bad line refuses the whole file; the error has its number.

mod limits;
mod options;

pub use self::limits::{DESCRIPTORS_PER_SESSION, KeyLimits};
pub use self::options::key_options;
use self::options::{options_len, parse_options};

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::identity::{KEY_TYPE, PublicKey, shell_quoted};
use super::read_bounded;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::rights::Rights;
use fobs_model::text::printable;

/// Largest file that is read, bytes: some ten thousand keys.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Longest part of a comment that names its key in the log, characters.
const NAME_CHARS_MAX: usize = 64;

/// The keys of one file and what each may do.
#[derive(Debug, Clone, Default)]
pub struct AuthorizedKeys {
    lines: HashMap<PublicKey, KeyLine>,
}

/// What the file says of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLine {
    /// What it may do.
    pub rights: Rights,
    /// How much of the server it may use at once.
    pub limits: KeyLimits,
    /// Its comment, printable and at most 64 characters long; for people.
    pub name: String,
}

impl AuthorizedKeys {
    /// Reads the file. An error of kind `Denied` names the file, and the line if one is bad; a file that
    /// anyone but its owner can write, or whose owner is neither this user nor root, is refused.
    pub fn load(path: &Path) -> Result<AuthorizedKeys> {
        let refuse = |why: String| {
            let message = format!("cannot use the authorized keys in {}: {why}", path.display());
            Error::new(ErrorKind::Denied, message)
        };
        let file = fobs_sys::named::open(path)
            .map_err(|error| refuse(format!("{error}; make the file, with one line per client key")))?;
        let metadata = file.metadata().map_err(|error| refuse(error.to_string()))?;
        if !metadata.is_file() {
            return Err(refuse("it is not a file".to_owned()));
        }
        if metadata.mode() & 0o022 != 0 {
            return Err(refuse(format!(
                "its mode is {:04o}, so others can let themselves in; run: chmod go-w {}",
                metadata.mode() & 0o7777,
                shell_quoted(path)
            )));
        }
        let user = rustix::process::geteuid().as_raw();
        if metadata.uid() != user && metadata.uid() != 0 {
            return Err(refuse(format!(
                "it belongs to user {}, who could let anyone in; run: chown {user} {}",
                metadata.uid(),
                shell_quoted(path)
            )));
        }
        let content = read_bounded(&file, FILE_BYTES_MAX).map_err(|error| refuse(error.to_string()))?;
        parse(&content).map_err(|bad| refuse(format!("line {}: {}", bad.line, bad.why)))
    }

    /// The line of this key; `None` if it is not in the file.
    pub fn lookup(&self, key: &PublicKey) -> Option<KeyLine> {
        self.lines.get(key).cloned()
    }
}

/// A line that cannot be parsed, numbered from 1.
#[derive(Debug, PartialEq, Eq)]
pub struct BadLine {
    line: usize,
    why: String,
}

/// The keys of a file; the first line that is none is the error.
pub fn parse(content: &[u8]) -> std::result::Result<AuthorizedKeys, BadLine> {
    let mut keys = AuthorizedKeys::default();
    for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let bad = |why: String| BadLine { line: index + 1, why };
        let (key, line) = parse_line(line).map_err(bad)?;
        if keys.lines.insert(key, line).is_some() {
            return Err(bad(
                "this key has a line already; which one counts is not guessed, remove one".to_owned()
            ));
        }
    }
    Ok(keys)
}

fn parse_line(line: &[u8]) -> std::result::Result<(PublicKey, KeyLine), String> {
    let is_key = |text: &[u8]| {
        text.strip_prefix(KEY_TYPE.as_bytes())
            .is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
    };
    let (options, key) = if is_key(line) { (&b""[..], line) } else { line.split_at(options_len(line)?) };
    let key = key.trim_ascii_start();
    // Comments may have any bytes; a lossy conversion changes no valid key.
    let text = String::from_utf8_lossy(key);
    let key = PublicKey::parse(&text).map_err(|error| error.message)?;
    let comment = text.split_whitespace().skip(2).collect::<Vec<_>>().join(" ");
    let (rights, limits) = parse_options(options)?;
    Ok((key, KeyLine { rights, limits, name: printable(&comment, NAME_CHARS_MAX) }))
}

#[cfg(test)]
mod tests;
