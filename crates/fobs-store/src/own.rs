//! Which files are ours: a name like those of `name::ours` and a mark, or a journal's content. A user's file
//! with such a name is a file like others.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, pread};

use super::at;
use super::at::{Links, open_beneath};
use super::stat::{Meta, kind};
use fobs_model::name::Component;
use fobs_model::name::ours::{is_journal, suffix_in};

/// The first bytes of a journal.
pub(crate) const MAGIC: [u8; 8] = *b"FOBSJRNL";

/// Mode of journals and of files until they are complete: for their owner only. The sticky bit is the mark;
/// no program sets it on a file, the kernel ignores it there, and it costs no call.
pub(super) const OWN_MODE: u32 = 0o1600;

/// Opens a file of ours, with `flags` that make it if it does not exist.
pub(super) fn open_own(directory: &OwnedFd, name: Component<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    let open =
        |mode| open_beneath(directory, name.as_bytes(), flags, Mode::from_raw_mode(mode), Links::Refuse);
    #[cfg(test)]
    if flags.contains(OFlags::CREATE) {
        super::faults::strike(super::faults::Call::MakeFile)?;
    }
    let opened = match open(OWN_MODE) {
        // A file system that has no such bit for files; what stays there is found by its journal alone.
        Err(Errno::INVAL | Errno::PERM | Errno::NOTSUP) => open(OWN_MODE & 0o777),
        opened => opened,
    };
    #[cfg(test)]
    if flags.contains(OFlags::CREATE) {
        super::recorder::made(&opened, directory, name, super::recorder::Made::File, || {
            at::found(at::hold(directory, name))
        });
    }
    opened
}

/// Whether a file carries the mark.
pub(super) fn is_marked(stat: &Stat) -> bool {
    kind(stat) == FileType::RegularFile && stat.st_mode & 0o7777 == OWN_MODE
}

/// What a peer asks for, without the mark where a name and it would make a file one of ours.
pub(super) fn without_mark(name: &[u8], meta: Meta) -> Meta {
    match suffix_in(name) {
        Some(_) if meta.mode == OWN_MODE => Meta { mode: OWN_MODE & 0o777, ..meta },
        _ => meta,
    }
}

/// Whether what has this name is a journal or an unfinished file of a copy, of this or another process.
/// Cheap for other names.
pub(super) fn is_own(directory: impl AsFd, name: &[u8]) -> bool {
    let looks_like_journal = is_journal(name);
    if name.first() != Some(&b'.') || !(looks_like_journal || suffix_in(name).is_some()) {
        return false;
    }
    let Ok(component) = Component::new(name) else { return false };
    match at::stat(&directory, component) {
        Ok(stat) if is_marked(&stat) => true,
        // Of a release before 0.3, or on a file system without the mark.
        Ok(stat) if looks_like_journal && kind(&stat) == FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
            open_beneath(&directory, name, flags, Mode::empty(), Links::Refuse)
                .is_ok_and(|file| has_magic(&file))
        }
        _ => false,
    }
}

/// Whether a file begins as journals do.
fn has_magic(file: &OwnedFd) -> bool {
    let mut magic = [0; MAGIC.len()];
    pread(file, &mut magic, 0).is_ok_and(|filled| magic[..filled] == MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_name_alone_makes_no_file_ours() {
        let top = tempfile::tempdir().expect("a directory");
        let directory = OwnedFd::from(File::open(top.path()).expect("own directory"));
        for name in
            [".config.fobs-backup", ".x.fobs-master", ".x.fobs-journal", ".fobs-0123456789abcdef.journal"]
        {
            write(top.path().join(name), "a user's").expect("a file");
            for mode in [0o644, 0o600, 0o755, 0o1644] {
                set_permissions(top.path().join(name), Permissions::from_mode(mode)).expect("own file");
                assert!(!is_own(&directory, name.as_bytes()), "{name} {mode:o}");
            }
        }
        std::os::unix::fs::symlink("a", top.path().join(".y.fobs-abc123")).expect("a link");
        assert!(!is_own(&directory, b".y.fobs-abc123"));
        assert!(!is_own(&directory, b".absent.fobs-abc123"));
    }

    #[test]
    fn the_mark_or_a_journals_content_makes_a_file_ours() {
        let top = tempfile::tempdir().expect("a directory");
        let directory = OwnedFd::from(File::open(top.path()).expect("own directory"));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        for name in [&b".x.fobs-abc123"[..], b".x.fobs-journal"] {
            open_own(&directory, Component::new(name).expect("a name"), flags).expect("a file");
            assert!(is_own(&directory, name));
        }
        open_own(&directory, Component::new(b"plain").expect("a name"), flags).expect("a file");
        assert!(!is_own(&directory, b"plain"), "another name");
        write(top.path().join(".old.fobs-journal"), b"FOBSJRNL and more").expect("a file");
        assert!(is_own(&directory, b".old.fobs-journal"));
    }
}
