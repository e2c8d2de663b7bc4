//! Making an identity.

use crate::secure::identity::{Identity, default_identity_path};
use fobs_model::error::Result;
use fobs_model::rights::Access;
use fobs_model::text::printable;
use nix::unistd::{User, geteuid};
use std::path::{Path, PathBuf};

/// Longest comment, characters: as much of it as a log shows.
const COMMENT_CHARS_MAX: usize = 64;

/// An identity in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeygenOutcome {
    /// The file with the private key.
    pub path: PathBuf,
    /// The public key, as in a line of authorized keys.
    pub public_line: String,
    /// `SHA256:...`
    pub fingerprint: String,
}

impl KeygenOutcome {
    /// The line for a server's authorized keys: with this right, where none lets the key pull only, and a
    /// comment, which names the key in the server's log.
    pub fn authorized_line(&self, right: Option<Access>, comment: &str) -> String {
        // A comment of several lines would be several keys.
        let comment = printable(comment, COMMENT_CHARS_MAX);
        let words = [right.map_or("", Access::name), &self.public_line, comment.trim()];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// `user@host` of this process, for the comment of a key.
pub fn comment_here() -> String {
    let named = |name: &str| std::env::var(name).ok().filter(|user| !user.is_empty());
    let by_number = || User::from_uid(geteuid()).ok().flatten().map(|user| user.name);
    let user = by_number().or_else(|| named("USER")).unwrap_or_else(|| geteuid().to_string());
    match std::fs::read_to_string("/proc/sys/kernel/hostname") {
        Ok(host) => format!("{user}@{}", host.trim()),
        Err(_) => user,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::authorized_keys::parse;
    use crate::secure::identity::PublicKey;

    #[test]
    fn every_line_that_is_printed_parses_to_what_it_says() {
        let public = Identity::generate().public();
        let (public_line, fingerprint) = (public.to_string(), public.fingerprint());
        let made = KeygenOutcome { path: PathBuf::new(), public_line, fingerprint };
        for (comment, name) in [
            ("ann@laptop", "ann@laptop"),
            ("  two  words ", "two words"),
            ("", ""),
            ("a\nread-write fobs-ed25519 AAAA\u{1b}[2J", "aread-write fobs-ed25519 AAAA[2J"),
            ("# no", "# no"),
            (&comment_here(), &comment_here()),
        ] {
            for right in [None, Some(Access::AppendOnly), Some(Access::ReadWrite)] {
                let line = made.authorized_line(right, comment);
                let keys = parse(line.as_bytes()).unwrap_or_else(|bad| panic!("{line:?}: {bad:?}"));
                let found = keys.lookup(&PublicKey::parse(&made.public_line).unwrap()).unwrap();
                assert_eq!(found.rights.access(), right.unwrap_or(Access::ReadOnly), "{line}");
                assert_eq!(found.name, name, "{line}");
            }
        }
        assert!(comment_here().contains('@'));
    }
}
