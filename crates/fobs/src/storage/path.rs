//! Paths within a transfer (protocol 7.2): their rules, splitting them, and showing them.

use std::fmt::Write;

/// Longest path within a transfer and longest symlink target, bytes (protocol 7.2; Linux's `PATH_MAX`).
pub const PATH_LEN_MAX: usize = 4096;

/// Whether `path` may appear in a record: relative, of any bytes but NUL, without empty, `.` or `..`
/// components, at most [`PATH_LEN_MAX`] bytes. The empty path is the destination itself.
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
    match components.any(|component| matches!(component, b"" | b"." | b"..")) {
        true => Err("a path has an empty, '.' or '..' component"),
        false => Ok(()),
    }
}

/// The path of the directory that `path` lies in (empty at the top), and the last component.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
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
    match directory.is_empty() {
        true => !path.is_empty(),
        false => path.strip_prefix(directory).is_some_and(|rest| rest.first() == Some(&b'/')),
    }
}

/// A path as one line of text: control characters and bytes that are not UTF-8 are escaped.
pub fn show(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character.is_control() {
                true => text.extend(character.escape_default()),
                false => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_relative_paths_pass() {
        for good in [&b""[..], b"a", b"a/b", b"...", b"-rf", b"a\nb/\xff", b".hidden", b"a/..b"] {
            assert_eq!(check(good), Ok(()), "{}", show(good));
        }
        for bad in
            [&b"/"[..], b"/etc", b"..", b"a/../b", b"a/..", b".", b"a/.", b"./a", b"a//b", b"a/", b"a\0b"]
        {
            assert!(check(bad).is_err(), "{}", show(bad));
        }
        assert!(check(&[b'a'; PATH_LEN_MAX]).is_ok());
        assert!(check(&[b'a'; PATH_LEN_MAX + 1]).is_err());
    }

    #[test]
    fn taking_apart_and_joining_agree() {
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
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

    #[test]
    fn names_are_shown_on_one_line() {
        assert_eq!(show("é\n\x1b[2J".as_bytes()), "é\\n\\u{1b}[2J");
        assert_eq!(show(b"a\xffb"), "a\\xffb");
    }
}
