//! The server keys that a client expects: lines of `[host]:port fobs-ed25519 BASE64`, pinned on first use.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::identity::{PublicKey, shell_quoted};
use super::{config_directory, make_private_parent, read_bounded};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_sys::named;

/// Largest file that is read, bytes: some fifty thousand servers.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The result of comparing a server's key with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// It is the pinned one.
    Known,
    /// The server was not in the file; its key is pinned now, which the user should be told.
    PinnedNow,
}

/// A file of pinned keys.
#[derive(Debug, Clone)]
pub struct KnownHosts {
    path: PathBuf,
}

impl KnownHosts {
    /// The file at `path`, which need not exist yet.
    pub fn at(path: impl Into<PathBuf>) -> KnownHosts {
        KnownHosts { path: path.into() }
    }

    /// The user's own file, `$XDG_CONFIG_HOME/fobs/known_hosts`.
    pub fn default_location() -> Result<KnownHosts> {
        Ok(KnownHosts::at(config_directory()?.join("known_hosts")))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Compares a server's key with the pinned one, and pins it if none is. A key that differs is an error of
    /// kind `Denied` that names both and how to accept the new one. Several threads and processes may do this
    /// at once: a server's key is pinned once.
    pub fn check(&self, host: &str, port: u16, key: &PublicKey) -> Result<Pin> {
        let name = host_name(host, port)?;
        if self.knows(&name, key)? { Ok(Pin::Known) } else { self.pin(&name, key) }
    }

    /// Likewise, but a server that is not in the file is refused with `Denied`, and nothing is pinned.
    pub fn check_known(&self, host: &str, port: u16, key: &PublicKey) -> Result<()> {
        if self.knows(&host_name(host, port)?, key)? {
            return Ok(());
        }
        let (file, key) = (self.path.display(), key.fingerprint());
        let message = format!(
            "{host} is not in {file}, and new keys are refused; if its key is {key}, connect once without that option"
        );
        Err(Error::new(ErrorKind::Denied, message))
    }

    fn knows(&self, name: &str, key: &PublicKey) -> Result<bool> {
        // Reading first finds an existing pin even if the file cannot be written.
        match named::open(&self.path) {
            Ok(file) => {
                let content = self.read_locked(&file, FlockOperation::LockShared)?;
                Ok(self.find(&content, name, key)? == Found::Same)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.unusable(&error)),
        }
    }

    fn pin(&self, name: &str, key: &PublicKey) -> Result<Pin> {
        make_private_parent(&self.path).map_err(|error| self.unusable(&error))?;
        let mut file = named::read_and_append(&self.path, 0o600).map_err(|error| self.unusable(&error))?;
        // Read again under the lock: another process may have pinned this server meanwhile.
        let content = self.read_locked(&file, FlockOperation::LockExclusive)?;
        if self.find(&content, name, key)? == Found::Same {
            return Ok(Pin::Known);
        }
        let separator = if content.last().is_none_or(|byte| *byte == b'\n') { "" } else { "\n" };
        file.write_all(format!("{separator}{name} {key}\n").as_bytes())
            .and_then(|()| file.sync_data())
            .map_err(|error| self.unusable(&error))?;
        Ok(Pin::PinnedNow)
    }

    /// The lock ends with the file's descriptor; it is held for one read and at most one write.
    fn read_locked(&self, file: &File, lock: FlockOperation) -> Result<Vec<u8>> {
        flock(file, lock).map_err(|error| self.unusable(&error.into()))?;
        read_bounded(file, FILE_BYTES_MAX).map_err(|error| self.unusable(&error))
    }

    /// Several lines may name one server, while its key is replaced: any of them is accepted.
    pub fn find(&self, content: &[u8], name: &str, key: &PublicKey) -> Result<Found> {
        let mut changed = None;
        for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let (pinned_name, pinned) = parse_line(line).ok_or_else(|| self.bad_line(index + 1))?;
            if pinned_name != name {
                continue;
            }
            if pinned == *key {
                return Ok(Found::Same);
            }
            changed.get_or_insert((index + 1, pinned));
        }
        match changed {
            Some((line, pinned)) => Err(self.changed(name, line, &pinned, key)),
            None => Ok(Found::Nothing),
        }
    }

    fn changed(&self, name: &str, line: usize, pinned: &PublicKey, shown: &PublicKey) -> Error {
        Error::new(
            ErrorKind::Denied,
            format!(
                "the key of {name} has changed: line {line} of {} pins {}, the server shows {}, so somebody may be in \
                 between; if you know that the server has a new key, forget the old one with: sed -i {line}d {}",
                self.path.display(),
                pinned.fingerprint(),
                shown.fingerprint(),
                shell_quoted(&self.path),
            ),
        )
    }

    /// A line that cannot be parsed may be a pin, so it is not skipped.
    fn bad_line(&self, line: usize) -> Error {
        Error::new(
            ErrorKind::Denied,
            format!(
                "cannot check the server's key: line {line} of {} is not of the form [host]:port fobs-ed25519 BASE64; \
                 mend or remove it",
                self.path.display()
            ),
        )
    }

    fn unusable(&self, error: &io::Error) -> Error {
        Error::new(
            ErrorKind::Denied,
            format!(
                "cannot check the server's key in {}: {error}; see to the file or name another",
                self.path.display()
            ),
        )
    }
}

/// What is known of a server.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// It has this key.
    Same,
    /// Nothing.
    Nothing,
}

fn parse_line(line: &[u8]) -> Option<(&str, PublicKey)> {
    let (name, key) = std::str::from_utf8(line).ok()?.split_once(|c: char| c.is_ascii_whitespace())?;
    let (_, port) = name.strip_prefix('[')?.rsplit_once("]:")?;
    port.parse::<u16>().ok()?;
    Some((name, PublicKey::parse(key).ok()?))
}

/// `[host]:port`, the host in lower case. Hosts that would not fit the line's format are refused.
fn host_name(host: &str, port: u16) -> Result<String> {
    let breaks_lines = |c: char| c.is_whitespace() || c.is_control() || c == '[' || c == ']';
    if host.is_empty() || host.contains(breaks_lines) {
        return Err(Error::new(ErrorKind::Usage, format!("{host:?} is no host name; check the spelling")));
    }
    Ok(format!("[{}]:{port}", host.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::super::identity::Identity;
    use super::*;

    fn key() -> PublicKey {
        Identity::generate().public()
    }

    fn in_directory(directory: &tempfile::TempDir) -> KnownHosts {
        KnownHosts::at(directory.path().join("config/fobs/known_hosts"))
    }

    #[test]
    fn first_use_pins_and_later_uses_know() {
        let directory = tempfile::tempdir().unwrap();
        let hosts = in_directory(&directory);
        let (key, other) = (key(), key());
        assert_eq!(hosts.check("Data.example.org", 45600, &key), Ok(Pin::PinnedNow));
        assert_eq!(hosts.check("data.example.org", 45600, &key), Ok(Pin::Known));
        assert_eq!(hosts.check("data.example.org", 45601, &other), Ok(Pin::PinnedNow), "a port is a server");
        assert_eq!(hosts.check("fe80::1%eth0", 45600, &other), Ok(Pin::PinnedNow));
        assert_eq!(hosts.check("fe80::1%eth0", 45600, &other), Ok(Pin::Known));
        let text = std::fs::read_to_string(hosts.path()).unwrap();
        assert!(text.starts_with(&format!("[data.example.org]:45600 {key}\n")), "{text}");
        assert_eq!(text.lines().count(), 3);
        assert_eq!(std::fs::metadata(hosts.path()).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(hosts.path().parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_changed_key_is_denied_with_all_that_a_person_needs() {
        let directory = tempfile::tempdir().unwrap();
        let hosts = in_directory(&directory);
        let (old, new) = (key(), key());
        hosts.check("other", 1, &new).unwrap();
        hosts.check("host", 45600, &old).unwrap();
        let before = std::fs::read(hosts.path()).unwrap();
        let error = hosts.check("host", 45600, &new).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied);
        let file = hosts.path().display().to_string();
        for part in ["[host]:45600", &old.fingerprint(), &new.fingerprint(), "line 2", &file, "sed -i 2d"] {
            assert!(error.message.contains(part), "{part} is missing: {error}");
        }
        assert_eq!(std::fs::read(hosts.path()).unwrap(), before, "a refusal changes nothing");
    }

    #[test]
    fn either_of_two_pinned_keys_will_do() {
        let directory = tempfile::tempdir().unwrap();
        let hosts = KnownHosts::at(directory.path().join("hosts"));
        let (old, new) = (key(), key());
        std::fs::write(hosts.path(), format!("# rolling over\n[h]:1 {old}\n\n[h]:1 {new} from June"))
            .unwrap();
        assert_eq!(hosts.check("h", 1, &new), Ok(Pin::Known));
        assert_eq!(hosts.check("h", 1, &old), Ok(Pin::Known));
        assert_eq!(hosts.check("g", 1, &old), Ok(Pin::PinnedNow), "after a line without an end");
        assert_eq!(hosts.check("g", 1, &old), Ok(Pin::Known));
        assert_eq!(hosts.check("h", 1, &new), Ok(Pin::Known));
    }

    #[test]
    fn lines_that_cannot_be_read_are_not_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let hosts = KnownHosts::at(directory.path().join("hosts"));
        let key = key();
        for line in ["garbage", &format!("h:1 {key}"), &format!("[h]:x {key}"), "[h]:1 fobs-ed25519 AAAA"] {
            std::fs::write(hosts.path(), format!("\n{line}\n")).unwrap();
            let error = hosts.check("h", 1, &key).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Denied);
            assert!(error.message.contains("line 2 of"), "{error}");
        }
    }

    #[test]
    fn host_names_cannot_break_lines() {
        let directory = tempfile::tempdir().unwrap();
        let hosts = in_directory(&directory);
        for host in ["", "a b", "a\nb", "a]:1 x", "[a"] {
            assert_eq!(hosts.check(host, 1, &key()).unwrap_err().kind, ErrorKind::Usage);
        }
        assert!(!hosts.path().exists());
    }

    #[test]
    fn a_pin_in_a_file_that_cannot_be_written_counts() {
        let directory = tempfile::tempdir().unwrap();
        let hosts = in_directory(&directory);
        let key = key();
        hosts.check("host", 1, &key).unwrap();
        std::fs::set_permissions(hosts.path(), std::fs::Permissions::from_mode(0o400)).unwrap();
        assert_eq!(hosts.check("host", 1, &key), Ok(Pin::Known));
    }

    #[test]
    fn concurrent_first_meetings_pin_one_line_each() {
        let directory = tempfile::tempdir().unwrap();
        let hosts = in_directory(&directory);
        let keys: Vec<PublicKey> = (0..10).map(|_| key()).collect();
        let pinned = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for (index, key) in keys.iter().enumerate() {
                        if hosts.check(&format!("host{index}"), 1, key).unwrap() == Pin::PinnedNow {
                            pinned.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(pinned.into_inner(), keys.len());
        assert_eq!(std::fs::read_to_string(hosts.path()).unwrap().lines().count(), keys.len());
    }
}
