//! Paths within a transfer (protocol 7.2): their rules, splitting them, and showing them.

pub use fobs_model::name::PATH_LEN_MAX;
use fobs_model::name::{BadName, Component, RelPath};
pub use fobs_model::text::show;

/// Whether `path` may appear in a record: see [`RelPath`].
pub fn check(path: &[u8]) -> Result<(), &'static str> {
    RelPath::check(path)
}

/// The path of the directory that `path` lies in (empty at the top), and the last component.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// Likewise, with the last component as a name that a call may take.
///
/// # Errors
/// What is wrong with the name; `Empty` for the empty path.
pub fn split_name(path: &[u8]) -> Result<(&[u8], Component<'_>), BadName> {
    let (parent, name) = split(path);
    Component::new(name).map(|name| (parent, name))
}

/// The first component of `path`, and what follows it with its slash.
pub fn split_first(path: &[u8]) -> (&[u8], &[u8]) {
    path.split_at(path.iter().position(|&byte| byte == b'/').unwrap_or(path.len()))
}

/// `directory/name`, or `name` where the directory is the empty path.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + 1 + name.len());
    path.extend_from_slice(directory);
    if !directory.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Whether `path` lies strictly below `directory`.
pub fn is_inside(path: &[u8], directory: &[u8]) -> bool {
    if directory.is_empty() {
        !path.is_empty()
    } else {
        path.strip_prefix(directory).is_some_and(|rest| rest.first() == Some(&b'/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_apart_and_joining_agree() {
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
        assert_eq!(
            split_name(b"a/b").map(|(parent, name)| (parent, name.as_bytes())),
            Ok((&b"a"[..], &b"b"[..]))
        );
        assert!(split_name(b"").is_err() && split_name(b"a/..").is_err());
        assert_eq!(split_first(b"a/b/c"), (&b"a"[..], &b"/b/c"[..]));
        assert_eq!(split_first(b"a"), (&b"a"[..], &b""[..]));
        assert_eq!(join(b"", b"c"), b"c");
        assert_eq!(join(b"a/b", b"c"), b"a/b/c");
    }

    #[test]
    fn inside_means_strictly_below() {
        assert!(is_inside(b"a/b", b"a"));
        assert!(is_inside(b"a", b""));
        assert!(!is_inside(b"", b""));
        assert!(!is_inside(b"a", b"a"));
        assert!(!is_inside(b"ab", b"a"));
    }
}
