//! Errors of the kernel as sentences.

use std::io;

use fobs_filter::path;
use rustix::io::Errno;

/// One sentence: `cannot <what> '<path>': <why>; <what to do>`.
pub(super) fn sentence(what: &str, path: &[u8], errno: Errno) -> String {
    let shown = path::show(path);
    if matches!(errno, Errno::XDEV | Errno::LOOP) {
        return format!(
            "cannot {what} '{shown}': it leads through a symbolic link (of another user, or one that leads \
             out) or a '..' that is not followed"
        );
    }
    let advice = known(errno).map_or(ADVICE, |(_, _, advice)| advice);
    format!("cannot {what} '{shown}': {}; {advice}", reason(errno))
}

/// The reason in glibc's English words, whatever library and locale this runs with: the other end, such as
/// the Python package, reads the number off them.
pub(super) fn reason(errno: Errno) -> String {
    known(errno).map(|(_, text, _)| (*text).to_owned()).unwrap_or_else(|| {
        let text = io::Error::from(errno).to_string();
        match text.find(" (os error") {
            Some(end) => text[..end].to_owned(),
            None => text,
        }
    })
}

fn known(errno: Errno) -> Option<&'static (Errno, &'static str, &'static str)> {
    KNOWN.iter().find(|(known, _, _)| *known == errno)
}

/// What to do about an error that is not in the table.
const ADVICE: &str = "see what the kernel's log says of its file system (dmesg), or choose another place";

/// What musl or a locale may say otherwise, and what to do about it.
const KNOWN: &[(Errno, &str, &str)] = &[
    (Errno::ACCESS, "Permission denied", "change its permissions or its directory's"),
    (Errno::BUSY, "Device or resource busy", "see what is mounted there or uses it, or choose another name"),
    (Errno::DQUOT, "Disk quota exceeded", "the quota is used up: make room and copy it again"),
    (Errno::EXIST, "File exists", "something has that name: move it away, or choose another name"),
    (
        Errno::FBIG,
        "File too large",
        "raise the limit of file sizes (ulimit -f), or choose a file system for larger files",
    ),
    // What ext4 with folded case and NTFS say of a name that is no UTF-8.
    (
        Errno::ILSEQ,
        "Invalid or incomplete multibyte or wide character",
        "the file system takes no name in this encoding: rename it",
    ),
    // What exFAT and NTFS say of a colon, a question mark, a dot or a space at the end of a name.
    (
        Errno::INVAL,
        "Invalid argument",
        "its file system may not take such a name, as those of Windows, or such a value: rename it, or choose \
         another place",
    ),
    (Errno::IO, "Input/output error", "check the disk"),
    (Errno::ISDIR, "Is a directory", "a directory has that name: move it away, or choose another name"),
    (Errno::LOOP, "Too many levels of symbolic links", "see where the link leads"),
    (Errno::MFILE, "Too many open files", "raise the limit of open files (ulimit -n)"),
    (Errno::NAMETOOLONG, "File name too long", "give it a shorter name"),
    (Errno::NFILE, "Too many open files in system", "raise the limit of open files (ulimit -n)"),
    (Errno::NODEV, "No such device", "see that its device is connected and mounted"),
    (Errno::NOENT, "No such file or directory", "check the path"),
    (Errno::NOMEM, "Cannot allocate memory", "free memory on that host and copy it again"),
    (Errno::NOSPC, "No space left on device", "make room and copy it again"),
    (Errno::NOSYS, "Function not implemented", "FOBS needs Linux 5.6 or newer"),
    (Errno::NOTDIR, "Not a directory", "a part of the path is not a directory"),
    (Errno::NOTEMPTY, "Directory not empty", "see what is in that directory, or choose another name"),
    (
        Errno::NXIO,
        "No such device or address",
        "see that its device is connected and that a program reads it",
    ),
    (Errno::OPNOTSUPP, "Operation not supported", "the file system has no such thing: choose another place"),
    (Errno::PERM, "Operation not permitted", "change its permissions or its directory's"),
    (Errno::ROFS, "Read-only file system", "choose a place that can be written"),
    // Ours where what was looked at is not there any more, or the kernel's.
    (
        Errno::STALE,
        "Stale file handle",
        "another program exchanged it meanwhile, or its file server lost it: copy it again, or see who else \
         may write in its directory",
    ),
    (Errno::TXTBSY, "Text file busy", "a program runs from it: end that and copy it again"),
    (Errno::XDEV, "Invalid cross-device link", "name a place on the same file system"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_the_words_of_glibc_everywhere() {
        for &(errno, text, advice) in KNOWN {
            assert_eq!(reason(errno), text);
            assert!(!advice.is_empty(), "{text}");
            if cfg!(target_env = "gnu") {
                assert_eq!(
                    io::Error::from(errno).to_string(),
                    format!("{text} (os error {})", errno.raw_os_error())
                );
            }
        }
        assert!(sentence("read", b"x", Errno::IO).starts_with("cannot read 'x': Input/output error; "));
    }

    #[test]
    fn every_sentence_says_what_to_do() {
        for number in 1..134 {
            let said = sentence("write", b"x", Errno::from_raw_os_error(number));
            let does = said.split_once("; ").map_or("", |(_, does)| does);
            assert!(!does.is_empty() || said.contains("is not followed"), "{said}");
        }
    }
}
