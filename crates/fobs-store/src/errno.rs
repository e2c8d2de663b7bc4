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
        Errno::STALE => {
            return format!(
                "cannot {what} '{shown}': another program exchanged it meanwhile; copy it again, or see who else \
                 may write in its directory"
            );
        }
        Errno::NOTDIR => "a part of the path is not a directory",
        Errno::IO => "check the disk",
        Errno::MFILE | Errno::NFILE => "raise the limit of open files (ulimit -n)",
        Errno::NOSYS => "FOBS needs Linux 5.6 or newer",
        _ => return format!("cannot {what} '{shown}': {}", reason(errno)),
    };
    format!("cannot {what} '{shown}': {}; {advice}", reason(errno))
}

/// The system's text for an error, without the number.
pub(super) fn reason(errno: Errno) -> String {
    let text = io::Error::from(errno).to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
