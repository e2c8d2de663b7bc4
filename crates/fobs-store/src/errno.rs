//! Errors of the kernel as sentences.

use std::io;

use fobs_filter::path;
use rustix::io::Errno;

/// One sentence: `cannot <what> '<path>': <why>; <what to do>`.
pub(super) fn sentence(what: &str, path: &[u8], errno: Errno) -> String {
    let shown = path::show(path);
    let advice = match errno {
        Errno::ACCESS | Errno::PERM => "change its permissions or its directory's",
        Errno::NOENT => "check the path",
        Errno::NOSPC => "make room and copy it again",
        Errno::DQUOT => "the quota is used up: make room and copy it again",
        Errno::FBIG => "raise the limit of file sizes (ulimit -f), or choose a file system for larger files",
        Errno::ROFS => "choose a place that can be written",
        Errno::NAMETOOLONG => "give it a shorter name",
        Errno::XDEV | Errno::LOOP => {
            return format!(
                "cannot {what} '{shown}': it leads through a symbolic link (of another user, or one that leads \
                 out) or a '..' that is not followed"
            );
        }
        // Ours where what was looked at is not there any more, or the kernel's.
        Errno::STALE => {
            "another program exchanged it meanwhile, or its file server lost it: copy it again, or see who else \
             may write in its directory"
        }
        Errno::NOTDIR => "a part of the path is not a directory",
        Errno::IO => "check the disk",
        Errno::MFILE | Errno::NFILE => "raise the limit of open files (ulimit -n)",
        Errno::NOSYS => "FOBS needs Linux 5.6 or newer",
        _ => return format!("cannot {what} '{shown}': {}", reason(errno)),
    };
    format!("cannot {what} '{shown}': {}; {advice}", reason(errno))
}

/// The reason in glibc's English words, whatever library and locale this runs with: the other end, such as
/// the Python package, reads the number off them.
pub(super) fn reason(errno: Errno) -> String {
    let known = REASONS.iter().find(|(known, _)| *known == errno).map(|(_, text)| (*text).to_owned());
    known.unwrap_or_else(|| {
        let text = io::Error::from(errno).to_string();
        match text.find(" (os error") {
            Some(end) => text[..end].to_owned(),
            None => text,
        }
    })
}

/// What musl or a locale may say otherwise.
const REASONS: &[(Errno, &str)] = &[
    (Errno::ACCESS, "Permission denied"),
    (Errno::BUSY, "Device or resource busy"),
    (Errno::DQUOT, "Disk quota exceeded"),
    (Errno::EXIST, "File exists"),
    (Errno::FBIG, "File too large"),
    (Errno::INVAL, "Invalid argument"),
    (Errno::IO, "Input/output error"),
    (Errno::ISDIR, "Is a directory"),
    (Errno::LOOP, "Too many levels of symbolic links"),
    (Errno::MFILE, "Too many open files"),
    (Errno::NAMETOOLONG, "File name too long"),
    (Errno::NFILE, "Too many open files in system"),
    (Errno::NODEV, "No such device"),
    (Errno::NOENT, "No such file or directory"),
    (Errno::NOMEM, "Cannot allocate memory"),
    (Errno::NOSPC, "No space left on device"),
    (Errno::NOTDIR, "Not a directory"),
    (Errno::NOTEMPTY, "Directory not empty"),
    (Errno::NXIO, "No such device or address"),
    (Errno::OPNOTSUPP, "Operation not supported"),
    (Errno::PERM, "Operation not permitted"),
    (Errno::ROFS, "Read-only file system"),
    (Errno::STALE, "Stale file handle"),
    (Errno::TXTBSY, "Text file busy"),
    (Errno::XDEV, "Invalid cross-device link"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_the_words_of_glibc_everywhere() {
        for &(errno, text) in REASONS {
            assert_eq!(reason(errno), text);
            if cfg!(target_env = "gnu") {
                assert_eq!(
                    io::Error::from(errno).to_string(),
                    format!("{text} (os error {})", errno.raw_os_error())
                );
            }
        }
        assert!(sentence("read", b"x", Errno::IO).starts_with("cannot read 'x': Input/output error; "));
    }
}
