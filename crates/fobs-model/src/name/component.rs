//! One name in one directory.

use rustix::io::Errno;
use thiserror::Error;

/// Longest file name on Linux, bytes.
pub const NAME_LEN_MAX: usize = 255;

/// A name that stays in its directory: not empty, no `/`, no NUL, neither `.` nor `..`, at most
/// [`NAME_LEN_MAX`] bytes of any other kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Component<'a>(&'a [u8]);

/// Likewise, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentBuf(Vec<u8>);

/// Why bytes are no name, or none that a peer may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadName {
    /// It would name the directory itself.
    #[error("it is empty")]
    Empty,
    /// It would leave the directory, or name it.
    #[error("it is '.' or '..'")]
    Dots,
    /// It would be a path.
    #[error("it contains '/'")]
    Slash,
    /// No file can have such a name.
    #[error("it contains a NUL byte")]
    Nul,
    /// No file can have such a name.
    #[error("it is longer than {NAME_LEN_MAX} bytes")]
    TooLong,
    /// Journals and unfinished files have such names.
    #[error("fobs gives such names to files of its own")]
    Ours,
}

impl From<BadName> for Errno {
    fn from(bad: BadName) -> Errno {
        match bad {
            BadName::TooLong => Errno::NAMETOOLONG,
            BadName::Empty | BadName::Dots | BadName::Slash | BadName::Nul | BadName::Ours => Errno::INVAL,
        }
    }
}

impl<'a> Component<'a> {
    /// Checks a name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(name: &'a [u8]) -> Result<Component<'a>, BadName> {
        match name {
            b"" => Err(BadName::Empty),
            b"." | b".." => Err(BadName::Dots),
            _ if name.contains(&b'/') => Err(BadName::Slash),
            _ if name.contains(&0) => Err(BadName::Nul),
            _ if name.len() > NAME_LEN_MAX => Err(BadName::TooLong),
            _ => Ok(Component(name)),
        }
    }

    /// Its bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// A copy of its own.
    pub fn to_buf(self) -> ComponentBuf {
        ComponentBuf(self.0.to_vec())
    }
}

impl ComponentBuf {
    /// Checks a name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(name: Vec<u8>) -> Result<ComponentBuf, BadName> {
        Component::new(&name)?;
        Ok(ComponentBuf(name))
    }

    /// The name, borrowed.
    pub fn as_component(&self) -> Component<'_> {
        Component(&self.0)
    }

    /// Its bytes, owned.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_stay_in_their_directory_are_components() {
        let longest = [b'n'; NAME_LEN_MAX + 1];
        for good in [&b"a"[..], b"...", b"-rf", b" ", b"a\nb", b"\xff", b"..a", &longest[1..]] {
            assert_eq!(Component::new(good).map(Component::as_bytes), Ok(good));
        }
        for (bad, why) in [
            (&b""[..], BadName::Empty),
            (b".", BadName::Dots),
            (b"..", BadName::Dots),
            (b"/", BadName::Slash),
            (b"a/b", BadName::Slash),
            (b"../x", BadName::Slash),
            (b"a\0", BadName::Nul),
            (&longest, BadName::TooLong),
        ] {
            assert_eq!(Component::new(bad), Err(why));
            assert_eq!(ComponentBuf::new(bad.to_vec()), Err(why));
        }
    }
}
