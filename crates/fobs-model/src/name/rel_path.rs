//! A path within a transfer (protocol 7.2).

use std::fmt;
use std::ops::Deref;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest path within a transfer and longest symlink target, bytes (protocol 7.2; Linux's `PATH_MAX`).
pub const PATH_LEN_MAX: usize = 4096;

/// A path that leads nowhere but below its beginning: relative, of any bytes but NUL, without empty, `.` or
/// `..` components, at most [`PATH_LEN_MAX`] bytes. The empty path is the beginning itself.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct RelPath(Vec<u8>);

impl RelPath {
    /// Checks a path.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(path: Vec<u8>) -> Result<RelPath, &'static str> {
        RelPath::check(&path)?;
        Ok(RelPath(path))
    }

    /// Whether `path` is one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(path: &[u8]) -> Result<(), &'static str> {
        if path.is_empty() {
            return Ok(());
        }
        if path.len() > PATH_LEN_MAX {
            return Err("a path is longer than 4096 bytes");
        }
        if path.contains(&0) {
            return Err("a path has a NUL byte in it");
        }
        let mut components = path.split(|&byte| byte == b'/');
        if components.any(|component| matches!(component, b"" | b"." | b"..")) {
            Err("a path has an empty, '.' or '..' component")
        } else {
            Ok(())
        }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its bytes, owned.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl Deref for RelPath {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// In a message: base64, because paths are of any bytes.
impl Serialize for RelPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RelPath, D::Error> {
        let text = String::deserialize(deserializer)?;
        let path = STANDARD.decode(text).map_err(serde::de::Error::custom)?;
        RelPath::new(path).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_relative_paths_pass() {
        for good in [&b""[..], b"a", b"a/b", b"...", b"-rf", b"a\nb/\xff", b".hidden", b"a/..b"] {
            assert_eq!(RelPath::new(good.to_vec()).as_deref(), Ok(good));
        }
        for bad in
            [&b"/"[..], b"/etc", b"..", b"a/../b", b"a/..", b".", b"a/.", b"./a", b"a//b", b"a/", b"a\0b"]
        {
            assert!(RelPath::new(bad.to_vec()).is_err(), "{}", String::from_utf8_lossy(bad));
        }
        assert!(RelPath::check(&[b'a'; PATH_LEN_MAX]).is_ok());
        assert!(RelPath::check(&[b'a'; PATH_LEN_MAX + 1]).is_err());
    }

    #[test]
    fn a_path_from_a_message_is_checked() {
        let path = RelPath::new(b"a/\xff".to_vec()).expect("a plain path");
        let text = serde_json::to_string(&path).expect("it has a form");
        assert_eq!(serde_json::from_str::<RelPath>(&text).expect("as it was written"), path);
        for bad in ["..", "/etc", "a/../../b"] {
            let text = format!("{:?}", STANDARD.encode(bad));
            assert!(serde_json::from_str::<RelPath>(&text).is_err(), "{bad}");
        }
    }
}
