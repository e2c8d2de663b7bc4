//! The client keys that a server accepts and their rights: lines of `[options] fobs-ed25519 BASE64
//! [comment]`.
//!
//! Options are comma-separated: one of `read-only` (the default), `read-write`, `write-only`; and
//! `path="sub/dir"`, which may be repeated and limits the key to these subtrees of the root. A bad line
//! refuses the whole file; the error has its number.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::identity::{KEY_TYPE, PublicKey, shell_quoted};
use super::read_bounded;
use crate::direction::TransferDirection;
use crate::error::{Error, ErrorKind, Result};

/// Largest file that is read, bytes: some ten thousand keys.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The keys of one file and what each may do.
#[derive(Debug, Clone, Default)]
pub struct AuthorizedKeys {
    rights: HashMap<PublicKey, Rights>,
}

impl AuthorizedKeys {
    /// Reads the file. An error of kind `Denied` names the file, and the line if one is bad; a file that
    /// anyone but its owner can write, or whose owner is neither this user nor root, is refused.
    pub fn load(path: &Path) -> Result<AuthorizedKeys> {
        let refuse = |why: String| {
            let message = format!("cannot use the authorized keys in {}: {why}", path.display());
            Error::new(ErrorKind::Denied, message)
        };
        let file = File::open(path)
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

    /// The rights of this key; `None` if it is not in the file.
    pub fn lookup(&self, key: &PublicKey) -> Option<Rights> {
        self.rights.get(key).cloned()
    }
}

/// The rights of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// The directions in which it may move data.
    pub direction: DirectionRights,
    /// The subtrees of the root that it may access, relative and normalised; empty means all of the root.
    pub paths: Vec<Vec<u8>>,
}

/// The directions in which a key may move data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectionRights {
    /// Pull only: the default.
    ReadOnly,
    /// Pull and push.
    ReadWrite,
    /// Push only.
    WriteOnly,
}

impl DirectionRights {
    /// The option that gives it.
    pub fn name(self) -> &'static str {
        match self {
            DirectionRights::ReadOnly => "read-only",
            DirectionRights::ReadWrite => "read-write",
            DirectionRights::WriteOnly => "write-only",
        }
    }

    fn from_name(name: &[u8]) -> Option<DirectionRights> {
        [DirectionRights::ReadOnly, DirectionRights::ReadWrite, DirectionRights::WriteOnly]
            .into_iter()
            .find(|rights| rights.name().as_bytes() == name)
    }

    fn allows(self, direction: TransferDirection) -> bool {
        match self {
            DirectionRights::ReadOnly => direction == TransferDirection::Pull,
            DirectionRights::ReadWrite => true,
            DirectionRights::WriteOnly => direction == TransferDirection::Push,
        }
    }
}

impl Rights {
    /// Whether a transfer of this path (raw bytes, relative to the root) in this direction is allowed. Only
    /// the name is checked; the storage ensures that no link leads out of the tree.
    pub fn allows(&self, direction: TransferDirection, path: &[u8]) -> std::result::Result<(), Denial> {
        if !self.direction.allows(direction) {
            return Err(Denial::Direction { wanted: direction, given: self.direction });
        }
        let denied = || Denial::Path { path: path.to_vec() };
        let wanted = normalised(path).ok_or_else(denied)?;
        let inside = |subtree: &Vec<u8>| {
            subtree.is_empty()
                || wanted
                    .strip_prefix(subtree.as_slice())
                    .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        if self.paths.is_empty() || self.paths.iter().any(inside) { Ok(()) } else { Err(denied()) }
    }
}

/// Why a request exceeds the rights of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// The direction is not allowed.
    Direction {
        /// The direction requested.
        wanted: TransferDirection,
        /// The directions allowed.
        given: DirectionRights,
    },
    /// The path is outside the key's subtrees, or leaves the root.
    Path {
        /// The path requested, raw bytes.
        path: Vec<u8>,
    },
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denial::Direction { wanted, given } => {
                let verb = match wanted {
                    TransferDirection::Push => "write to",
                    TransferDirection::Pull => "read from",
                };
                write!(
                    f,
                    "this key may not {verb} this server: its rights are {}; ask whoever runs it",
                    given.name()
                )
            }
            Denial::Path { path } => write!(
                f,
                "this key has no right to {:?}: it is outside what the key may see; ask whoever runs the server",
                String::from_utf8_lossy(path)
            ),
        }
    }
}

impl From<Denial> for Error {
    fn from(denial: Denial) -> Error {
        Error::new(ErrorKind::Denied, denial.to_string())
    }
}

/// A line that cannot be parsed, numbered from 1.
#[derive(Debug, PartialEq, Eq)]
struct BadLine {
    line: usize,
    why: String,
}

fn parse(content: &[u8]) -> std::result::Result<AuthorizedKeys, BadLine> {
    let mut keys = AuthorizedKeys::default();
    for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let bad = |why: String| BadLine { line: index + 1, why };
        let (key, rights) = parse_line(line).map_err(bad)?;
        if keys.rights.insert(key, rights).is_some() {
            return Err(bad(
                "this key has a line already; which one counts is not guessed, remove one".to_owned()
            ));
        }
    }
    Ok(keys)
}

fn parse_line(line: &[u8]) -> std::result::Result<(PublicKey, Rights), String> {
    let is_key = |text: &[u8]| {
        text.strip_prefix(KEY_TYPE.as_bytes())
            .is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
    };
    let (options, key) = if is_key(line) { (&b""[..], line) } else { line.split_at(options_len(line)?) };
    let key = key.trim_ascii_start();
    // Comments may have any bytes; a lossy conversion changes no valid key.
    let key = PublicKey::parse(&String::from_utf8_lossy(key)).map_err(|error| error.message)?;
    Ok((key, parse_options(options)?))
}

/// Length of the options: up to the first white space outside quotes.
fn options_len(line: &[u8]) -> std::result::Result<usize, String> {
    let mut quoted = false;
    let mut escaped = false;
    for (index, byte) in line.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            byte if byte.is_ascii_whitespace() && !quoted => return Ok(index),
            _ => {}
        }
    }
    Err(if quoted {
        "a quote is not closed".to_owned()
    } else {
        format!("there is no key; expected [options] {KEY_TYPE} BASE64 [comment]")
    })
}

fn parse_options(options: &[u8]) -> std::result::Result<Rights, String> {
    let mut direction = None;
    let mut paths = Vec::new();
    let mut rest = options;
    while !rest.is_empty() {
        let after = if let Some(value) = rest.strip_prefix(b"path=") {
            let (path, after) = quoted_value(value)?;
            paths.push(normalised(&path).ok_or_else(|| {
                format!("path {:?} leaves the root; it must lie below", String::from_utf8_lossy(&path))
            })?);
            after
        } else {
            let end = rest.iter().position(|byte| *byte == b',').unwrap_or(rest.len());
            let rights = DirectionRights::from_name(&rest[..end]).ok_or_else(|| {
                format!(
                    "option {:?} is unknown; there are read-only, read-write, write-only and path=\"sub/dir\"",
                    String::from_utf8_lossy(&rest[..end])
                )
            })?;
            if direction.replace(rights).is_some() {
                return Err("read-only, read-write and write-only exclude each other; keep one".to_owned());
            }
            &rest[end..]
        };
        rest = match after {
            [] => after,
            [b','] => return Err("an option is missing after the last comma".to_owned()),
            [b',', next @ ..] => next,
            _ => return Err("a comma is missing after path=\"...\"".to_owned()),
        };
    }
    Ok(Rights { direction: direction.unwrap_or(DirectionRights::ReadOnly), paths })
}

/// The content of a quoted string (a backslash makes the next byte plain) and what follows it.
fn quoted_value(text: &[u8]) -> std::result::Result<(Vec<u8>, &[u8]), String> {
    let Some(text) = text.strip_prefix(b"\"") else {
        return Err("path needs quotes: path=\"sub/dir\"".to_owned());
    };
    let mut value = Vec::new();
    let mut bytes = text.iter().enumerate();
    while let Some((index, byte)) = bytes.next() {
        match byte {
            b'"' => return Ok((value, &text[index + 1..])),
            b'\\' => value.extend(bytes.next().map(|(_, byte)| *byte)),
            byte => value.push(*byte),
        }
    }
    Err("a quote is not closed".to_owned())
}

/// A path below the root without empty and `.` components and slashes at the ends; `None` if it has a `..` or
/// a NUL. The root itself is empty.
fn normalised(path: &[u8]) -> Option<Vec<u8>> {
    let mut components = Vec::new();
    for component in path.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => return None,
            name if name.contains(&0) => return None,
            name => components.push(name),
        }
    }
    Some(components.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::super::identity::Identity;
    use super::*;

    fn key() -> PublicKey {
        Identity::generate().public()
    }

    fn one(options: &str) -> std::result::Result<Rights, String> {
        let key = key();
        let line = format!("{options}{}{key} somebody's laptop", if options.is_empty() { "" } else { " " });
        parse(line.as_bytes()).map(|keys| keys.lookup(&key).unwrap()).map_err(|bad| bad.why)
    }

    #[test]
    fn a_key_may_only_read_by_default() {
        let rights = one("").unwrap();
        assert_eq!(rights, Rights { direction: DirectionRights::ReadOnly, paths: vec![] });
        assert_eq!(rights.allows(TransferDirection::Pull, b"any/thing"), Ok(()));
        let denial = rights.allows(TransferDirection::Push, b"any/thing").unwrap_err();
        assert_eq!(
            denial,
            Denial::Direction { wanted: TransferDirection::Push, given: DirectionRights::ReadOnly }
        );
        assert!(Error::from(denial).message.contains("read-only"));
    }

    #[test]
    fn directions() {
        for (options, pull, push) in
            [("read-only", true, false), ("read-write", true, true), ("write-only", false, true)]
        {
            let rights = one(options).unwrap();
            assert_eq!(rights.allows(TransferDirection::Pull, b"x").is_ok(), pull, "{options}");
            assert_eq!(rights.allows(TransferDirection::Push, b"x").is_ok(), push, "{options}");
        }
    }

    #[test]
    fn paths_limit_what_a_key_sees() {
        let rights = one(r#"path="data/run 7",read-write,path="/in\"box/""#).unwrap();
        assert_eq!(rights.paths, [b"data/run 7".to_vec(), b"in\"box".to_vec()]);
        for inside in ["data/run 7", "data/run 7/", "/data//run 7/./x", "in\"box/a/b"] {
            assert_eq!(rights.allows(TransferDirection::Push, inside.as_bytes()), Ok(()), "{inside}");
        }
        for outside in [
            "",
            "/",
            ".",
            "data",
            "data/run 70",
            "data/run",
            "other",
            "data/run 7/../x",
            "../data/run 7",
            "in\"box/\0",
        ] {
            let denial = rights.allows(TransferDirection::Pull, outside.as_bytes()).unwrap_err();
            assert_eq!(denial, Denial::Path { path: outside.as_bytes().to_vec() }, "{outside}");
        }
    }

    #[test]
    fn no_right_reaches_above_the_root() {
        for options in ["", "path=\".\"", "path=\"\""] {
            let rights = one(options).unwrap();
            assert!(rights.allows(TransferDirection::Pull, b"").is_ok());
            assert!(rights.allows(TransferDirection::Pull, b"a/../../b").is_err());
            assert!(rights.allows(TransferDirection::Pull, b"..").is_err());
        }
    }

    #[test]
    fn bad_lines_are_named() {
        let key = key();
        for (line, why) in [
            (format!("no-write {key}"), "no-write"),
            (format!("read-only,write-only {key}"), "exclude"),
            (format!("read-only,read-only {key}"), "exclude"),
            (format!("path=data {key}"), "quotes"),
            (format!("path=\"data {key}"), "not closed"),
            (format!("path=\"a\"b {key}"), "comma"),
            (format!("path=\"../a\" {key}"), "leaves the root"),
            (format!("read-only, {key}"), "comma"),
            (format!(",read-only {key}"), "unknown"),
            (format!("read-only read-write {key}"), "type is unknown"),
            ("fobs-ed25519".to_owned(), "missing"),
            ("fobs-ed25519 AAAA".to_owned(), "32 bytes"),
            ("ssh-ed25519 AAAA me".to_owned(), "unknown"),
            ("nonsense".to_owned(), "there is no key"),
        ] {
            let bad = parse(format!("# comment\n\n  # more\r\n{line}\n").as_bytes()).unwrap_err();
            assert_eq!(bad.line, 4, "{line}");
            assert!(bad.why.contains(why), "{line}: {}", bad.why);
        }
        let bad = parse(format!("{key}\nread-write {key}\n").as_bytes()).unwrap_err();
        assert_eq!(bad.line, 2);
    }

    #[test]
    fn files_are_judged_before_they_are_believed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("authorized_keys");
        let error = AuthorizedKeys::load(&path).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied);

        let (known, stranger) = (key(), key());
        std::fs::write(&path, format!("# ours\nread-write {known} ann\n")).unwrap();
        for (mode, good) in [(0o600, true), (0o644, true), (0o664, false), (0o646, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            match AuthorizedKeys::load(&path) {
                Ok(keys) => {
                    assert!(good, "mode {mode:o}");
                    assert_eq!(keys.lookup(&known).unwrap().direction, DirectionRights::ReadWrite);
                    assert_eq!(keys.lookup(&stranger), None);
                }
                Err(error) => {
                    assert!(!good, "{error}");
                    assert!(error.message.contains("chmod go-w"), "{error}");
                }
            }
        }

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "\nmaybe").unwrap();
        let error = AuthorizedKeys::load(&path).unwrap_err();
        assert!(error.message.contains("authorized_keys: line 2:"), "{error}");
        assert!(AuthorizedKeys::load(directory.path()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_are_refused(content in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Err(bad) = parse(&content) {
                prop_assert!(bad.line >= 1);
            }
        }

        #[test]
        fn any_options_parse_or_are_refused(options in "(path=\"[a-z/.\\\\\"]{0,6}|read-only|,|\"| |\\\\){0,6}") {
            if let Ok(rights) = one(&options) {
                for path in rights.paths {
                    prop_assert_eq!(normalised(&path), Some(path));
                }
            }
        }
    }
}
