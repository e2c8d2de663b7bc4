//! Names of hosts that this user has written down: in the files of ssh, and in those of this program.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::Candidate;
use crate::config;

/// Most bytes of one file, files, and names that are looked at.
const FILE_BYTES_MAX: u64 = 4 << 20;
const FILES_MAX: usize = 64;
const NAMES_MAX: usize = 5000;
/// The longest name of a host (RFC 1035).
const NAME_BYTES_MAX: usize = 255;
/// What the files of ssh begin with.
const SYSTEM: &str = "/etc/ssh";

/// Hosts as the beginning of a location: `host:`, `user@host:`, `fobs://host/`, `ssh://host/`.
pub fn places(words: &[OsString], typed: &[u8]) -> Vec<Candidate> {
    let Ok(typed) = std::str::from_utf8(typed) else { return Vec::new() };
    let known = Known::of(words);
    if let Some(rest) = typed.strip_prefix("ssh://") {
        return written(known.ssh.iter(), rest, |name| format!("ssh://{name}/"));
    }
    if typed.contains('/') && !typed.starts_with("fobs://") {
        return Vec::new();
    }
    let daemons = known.daemons.iter().map(|name| format!("fobs://{name}/"));
    let daemons = daemons.filter(|place| place.starts_with(typed)).map(Candidate::new);
    if typed.starts_with("fobs:") {
        return daemons.collect();
    }
    written(known.ssh.iter(), typed, |name| format!("{name}:")).into_iter().chain(daemons).collect()
}

/// Hosts as `fobs config` and `-J` take them.
pub fn bare(words: &[OsString], typed: &[u8]) -> Vec<Candidate> {
    let Ok(typed) = std::str::from_utf8(typed) else { return Vec::new() };
    // `-J` takes several.
    let (earlier, last) =
        typed.rsplit_once(',').map_or(("", typed), |(_, last)| (&typed[..typed.len() - last.len()], last));
    written(Known::of(words).ssh.iter(), last, |name| format!("{earlier}{name}"))
}

/// The hosts that begin as `typed` does after its `user@`, each written as `form` says.
fn written<'a>(
    hosts: impl Iterator<Item = &'a String>,
    typed: &str,
    form: impl Fn(&str) -> String,
) -> Vec<Candidate> {
    let (user, begun) = match typed.rsplit_once('@') {
        Some((user, begun)) => (format!("{user}@"), begun),
        None => (String::new(), typed),
    };
    hosts
        .filter(|name| name.starts_with(begun))
        .map(|name| Candidate::new(form(&format!("{user}{name}"))))
        .collect()
}

/// What is written down.
#[derive(Debug, Default, PartialEq, Eq)]
struct Known {
    /// For ssh.
    ssh: BTreeSet<String>,
    /// Daemons, with their port where it is not the usual one.
    daemons: BTreeSet<String>,
}

impl Known {
    fn of(words: &[OsString]) -> Known {
        let home = std::env::home_dir().unwrap_or_default();
        let named = option_value(words, &["-F", "--ssh-config"]).map(PathBuf::from);
        let mut known = Known::default();
        let own = home.join(".ssh");
        let system = Path::new(SYSTEM);
        let mut reader =
            Reader { home: home.clone(), left: FILES_MAX, known_hosts: Vec::new(), found: BTreeSet::new() };
        match &named {
            Some(file) => reader.config(file, &own),
            None => {
                reader.config(&own.join("config"), &own);
                reader.config(&system.join("ssh_config"), system);
            }
        }
        let files = [own.join("known_hosts"), system.join("ssh_known_hosts")];
        for file in files.into_iter().chain(std::mem::take(&mut reader.known_hosts)) {
            reader.found.extend(text(&file).lines().flat_map(of_known_hosts));
        }
        known.ssh = reader.found;
        let pinned = option_value(words, &["--known-hosts"]).map(PathBuf::from);
        if let Some(file) = pinned.or_else(|| config::directory().map(|base| base.join("known_hosts"))) {
            known.daemons.extend(text(&file).lines().filter_map(of_pins));
        }
        for pattern in config::hosts() {
            let (names, name) = match (pattern.strip_prefix("fobs://"), pattern.strip_prefix("ssh://")) {
                (Some(name), _) => (&mut known.daemons, name),
                (None, Some(name)) => (&mut known.ssh, name),
                (None, None) => (&mut known.ssh, pattern.as_str()),
            };
            names.extend(plain(name));
        }
        known
    }
}

/// The value of the last of these options, as it was typed.
fn option_value(words: &[OsString], names: &[&str]) -> Option<OsString> {
    let pairs = words.iter().zip(words.iter().skip(1));
    let split =
        pairs.filter(|(word, _)| names.iter().any(|name| *word == name)).map(|(_, value)| value.clone());
    let joined = words.iter().filter_map(|word| {
        let (name, value) = word.to_str()?.split_once('=')?;
        names.contains(&name).then(|| OsString::from(value))
    });
    split.chain(joined).last()
}

/// Reads ssh's configuration and what it includes.
struct Reader {
    home: PathBuf,
    /// Files that may still be read.
    left: usize,
    /// Files of hosts' keys that it names.
    known_hosts: Vec<PathBuf>,
    found: BTreeSet<String>,
}

impl Reader {
    /// One file; names in it that are relative are those of `base`.
    fn config(&mut self, file: &Path, base: &Path) {
        let Some(left) = self.left.checked_sub(1) else { return };
        self.left = left;
        for line in text(file).lines() {
            let (keyword, rest) = keyword(line);
            let values = rest.split_whitespace().map(|value| value.trim_matches('"'));
            match keyword.to_ascii_lowercase().as_str() {
                "host" => self.found.extend(values.filter_map(plain)),
                "userknownhostsfile" | "globalknownhostsfile" => {
                    let files: Vec<PathBuf> = values.map(|value| self.path(value, base)).collect();
                    self.known_hosts.extend(files);
                    self.known_hosts.truncate(FILES_MAX);
                }
                "include" => {
                    for value in values {
                        let pattern = self.path(value, base).into_os_string().into_encoded_bytes();
                        for path in fobs::expand_here(&[pattern]).unwrap_or_default() {
                            use std::os::unix::ffi::OsStrExt;
                            self.config(Path::new(OsStr::from_bytes(&path)), base);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn path(&self, value: &str, base: &Path) -> PathBuf {
        match value.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => base.join(value),
        }
    }
}

/// `Keyword value` or `Keyword = value`.
fn keyword(line: &str) -> (&str, &str) {
    let line = line.trim();
    let (keyword, rest) =
        line.split_once(|letter: char| letter.is_whitespace() || letter == '=').unwrap_or((line, ""));
    (keyword, rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '='))
}

/// The hosts of a line of ssh's known_hosts. Hashed names say nothing.
fn of_known_hosts(line: &str) -> impl Iterator<Item = String> {
    let line = line.trim();
    let line = if line.starts_with('#') { "" } else { line };
    let mut fields = line.split_whitespace();
    let first = fields.next().unwrap_or_default();
    let names = match first {
        "@revoked" => "",
        marker if marker.starts_with('@') => fields.next().unwrap_or_default(),
        names => names,
    };
    names.split(',').filter_map(|name| match name.strip_prefix('[').and_then(|rest| rest.split_once("]:")) {
        Some((host, _)) => plain(host),
        None => plain(name),
    })
}

/// The daemon of a line of this program's known_hosts.
fn of_pins(line: &str) -> Option<String> {
    let name = line.split_whitespace().next()?.strip_prefix('[')?;
    let (host, port) = name.split_once("]:")?;
    let port: u16 = port.parse().ok()?;
    let host = plain(host)?;
    Some(if port == fobs::options::DEFAULT_TCP_PORT { host } else { format!("{host}:{port}") })
}

/// A name that can be typed; no pattern, and an IPv6 address in brackets.
fn plain(name: &str) -> Option<String> {
    let usual = |letter: char| letter.is_alphanumeric() || "-_.:%".contains(letter);
    if name.is_empty() || name.starts_with('-') || name.len() > NAME_BYTES_MAX || !name.chars().all(usual) {
        return None;
    }
    Some(if name.contains(':') { format!("[{name}]") } else { name.to_owned() })
}

/// The beginning of a file; nothing of one that is none, or that cannot be read.
fn text(file: &Path) -> String {
    let is_file = std::fs::metadata(file).is_ok_and(|facts| facts.is_file());
    let mut bytes = Vec::new();
    if let (true, Ok(file)) = (is_file, fobs::named::open(file)) {
        // What could be read of it counts.
        let _ = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    text.lines().take(NAMES_MAX).fold(String::new(), |all, line| all + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_known_hosts_name_hosts() {
        for (line, expected) in [
            ("alpha ssh-ed25519 AAAA", vec!["alpha"]),
            ("alpha,192.0.2.1 ssh-ed25519 AAAA", vec!["alpha", "192.0.2.1"]),
            ("[beta.example.org]:2222 ssh-rsa AAAA", vec!["beta.example.org"]),
            ("@cert-authority *.example.org ssh-rsa AAAA", vec![]),
            ("@cert-authority gate ssh-rsa AAAA", vec!["gate"]),
            ("@revoked bad ssh-rsa AAAA", vec![]),
            ("|1|abc=|def= ssh-ed25519 AAAA", vec![]),
            ("fe80::1 ssh-ed25519 AAAA", vec!["[fe80::1]"]),
            ("# alpha ssh-rsa", vec![]),
            ("", vec![]),
            ("a\x1b[2Jb ssh-rsa AAAA", vec![]),
        ] {
            assert_eq!(of_known_hosts(line).collect::<Vec<_>>(), expected, "{line}");
        }
        for (line, expected) in [
            ("[archive]:45600 fobs-ed25519 AAAA", Some("archive")),
            ("[archive]:7 fobs-ed25519 AAAA", Some("archive:7")),
            ("[fe80::1]:45600 fobs-ed25519 AAAA", Some("[fe80::1]")),
            ("archive fobs-ed25519 AAAA", None),
        ] {
            assert_eq!(of_pins(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn hosts_of_ssh_are_read_with_what_is_included() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("more")).expect("a directory");
        let config = "Host alpha beta *.example.org !gamma\n  HostName 192.0.2.7\nInclude more/*.conf\n\
                      Include config\nhost=delta\n UserKnownHostsFile \"kept\"\n";
        std::fs::write(at("config"), config).expect("a file of ours");
        std::fs::write(at("more/one.conf"), "Host epsilon\n").expect("a file of ours");
        let mut reader = Reader {
            home: directory.path().to_owned(),
            left: FILES_MAX,
            known_hosts: Vec::new(),
            found: BTreeSet::new(),
        };
        reader.config(&at("config"), directory.path());
        assert_eq!(
            Vec::from_iter(&reader.found),
            ["alpha", "beta", "delta", "epsilon"],
            "it includes itself"
        );
        assert!(reader.known_hosts.contains(&at("kept")));
        let typed = |text: &str| {
            let found = written(reader.found.iter(), text, |name| format!("{name}:"));
            found.into_iter().map(|it| String::from_utf8(it.text).expect("text")).collect::<Vec<_>>()
        };
        assert_eq!(typed("ann@e"), ["ann@epsilon:"]);
        assert_eq!(typed("be"), ["beta:"]);
    }

    #[test]
    fn the_file_that_the_line_names_is_read() {
        let words: Vec<OsString> = ["fobs", "cp", "-F", "one", "--ssh-config=two"].map(OsString::from).into();
        assert_eq!(option_value(&words, &["-F", "--ssh-config"]), Some("two".into()));
        assert_eq!(option_value(&words, &["--known-hosts"]), None);
    }
}
