//! What stands at a path, as the rules of a sync see it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::dirlinks::not_followed;
use super::{READ, Row, RowKind, Target};
use crate::at;
use crate::at::open_beneath;
use crate::attributes::{Applier, Attributes, Collector, HOLD, Handle, Xattr, device_len, is_acl};
use crate::beneath::{Links, kind};
use crate::held::{Movable, WRITTEN_BY_OTHERS, is_trusted};
use crate::record::{Device, Meta, SpecialKind};
use crate::stamp::name_count;
use crate::survey::lister::checksum;
use crate::survey::sync::{Hands, There, ThereKind, Wanted, WantedKind};
use crate::view::View;
use crate::walk::leads_out;
use fobs_filter::path;
use fobs_filter::path::{PATH_LEN_MAX, show};
use fobs_model::error::{Error, ErrorKind};
use fobs_model::name::Component;

/// What an entry is to be.
pub(in crate::survey) fn wanted<'a>(row: &'a Row, applier: &Applier) -> Wanted<'a> {
    let (owner, group) = row.attributes.as_ref().map_or((None, None), |attributes| applier.owner(attributes));
    let meta = match row.kind {
        // Where times are not kept, they are compared all the same.
        RowKind::File => Meta { mtime_s: row.identity.mtime_s, mtime_ns: row.identity.mtime_ns, ..row.meta },
        _ => row.meta,
    };
    Wanted {
        kind: match &row.kind {
            RowKind::Directory | RowKind::DirectoryEnd | RowKind::PartEnd => WantedKind::Directory,
            RowKind::Symlink { target } => WantedKind::Symlink(target),
            RowKind::Special { kind, device } => WantedKind::Special(*kind, *device),
            _ => WantedKind::File,
        },
        size: row.identity.size,
        meta,
        owner,
        group,
        checksum: row.checksum,
        leads_out: matches!(&row.kind, RowKind::Symlink { target } if leads_out(&row.path, target)),
    }
}

/// What stands at a path, compared with what an entry is to have beside mode and time.
pub(super) fn look(
    view: &mut View,
    collector: &Collector,
    path: &[u8],
    wanted: Option<&Attributes>,
    movable: Movable,
) -> Option<(There, Stat)> {
    let stat = view.stat(path).ok()?;
    let place = view.place(path).into_owned();
    let seen = seen(view, collector, path, &stat)?;
    let stands = match kind(&seen) {
        FileType::RegularFile => ThereKind::File,
        FileType::Directory => ThereKind::Directory,
        FileType::Symlink if kind(&stat) == FileType::RegularFile => {
            ThereKind::Symlink(noted_target(view, path)?)
        }
        FileType::Symlink => {
            let (parent, name) = path::split_name(&place).ok()?;
            ThereKind::Symlink(at::read_link(&*view.hold(parent).ok()?, name).ok()?)
        }
        file_type => ThereKind::Special(
            special(file_type)?,
            Device { major: fs::major(seen.st_rdev), minor: fs::minor(seen.st_rdev) },
        ),
    };
    let mut there = There {
        kind: stands,
        size: u64::try_from(seen.st_size).unwrap_or(0),
        meta: view.meta_before(path, &seen),
        owner: seen.st_uid,
        group: seen.st_gid,
        checksum: None,
        acl_differs: false,
        xattrs_differ: false,
        atime_differs: false,
        hands: hands(&stat, movable),
    };
    compare_attributes(view, collector, path, wanted, (&mut there, &seen));
    Some((there, stat))
}

/// The status of what stands there, as it is noted with it where that counts.
fn seen(view: &mut View, collector: &Collector, path: &[u8], stat: &Stat) -> Option<Stat> {
    if !collector.preserve.fake_super {
        return Some(*stat);
    }
    let held = view.open(path, HOLD).ok()?;
    collector.seen(Handle::Held(held.as_fd()), stat).ok()
}

/// The target of a link for which a file stands.
fn noted_target(view: &mut View, path: &[u8]) -> Option<Vec<u8>> {
    let file = view.open(path, READ).ok()?;
    let mut target = vec![0; PATH_LEN_MAX];
    let len = rustix::io::pread(&file, &mut target[..], 0).ok()?;
    target.truncate(len);
    Some(target)
}

/// Likewise of a directory, which is sent what it has beside mode and time at its end only. Its ACL counts
/// with the mode that it had before it was entered.
pub(super) fn look_at_end(
    view: &mut View,
    collector: &Collector,
    path: &[u8],
    wanted: Option<&Attributes>,
    before: &mut There,
) {
    if let Ok(stat) = view.stat(path)
        && before.kind == ThereKind::Directory
    {
        compare_attributes(view, collector, path, wanted, (before, &stat));
    }
}

fn compare_attributes(
    view: &mut View,
    collector: &Collector,
    path: &[u8],
    wanted: Option<&Attributes>,
    (there, stat): (&mut There, &Stat),
) {
    let Some(wanted) = wanted.and_then(|wanted| wanted.xattrs.as_ref()) else { return };
    let held = view.open(path, HOLD).ok();
    let found =
        held.and_then(|held| collector.found_attributes(Handle::Held(held.as_fd()), stat).ok().flatten());
    let mut found = found.and_then(|found| found.xattrs).unwrap_or_default();
    if there.kind == ThereKind::Directory {
        found.iter_mut().for_each(|xattr| xattr.take_mode(there.meta.mode));
    }
    // What the receiver leaves alone makes no difference.
    let kept = collector.kept();
    let wanted: Vec<Xattr> = wanted
        .iter()
        .filter(|xattr| !xattr.is_of_file() || kept.have(&xattr.name) != Ok(false))
        .cloned()
        .collect();
    let wanted = &wanted[..];
    // As rsync: without -A an ACL is one of the others.
    let acls = collector.preserve.acls;
    there.acl_differs = acls && differ(wanted, &found, is_acl);
    there.xattrs_differ = differ(wanted, &found, |name| !(acls && is_acl(name)));
    // As rsync compares times: whole seconds.
    let accessed = |all: &[Xattr]| {
        all.iter().find(|xattr| !xattr.is_of_file()).and_then(|xattr| xattr.value.first_chunk::<8>().copied())
    };
    there.atime_differs = accessed(wanted).is_some_and(|time| accessed(&found) != Some(time));
}

impl Target {
    /// A device there counts as a file where it is to be written as one (`--write-devices`).
    pub(super) fn take_device_for_file(&mut self, row: &Row, there: &mut There) {
        let is_asked = self.options.rules.writes_devices && self.applier.may_open_devices;
        let is_device = matches!(&there.kind, ThereKind::Special(kind, _) if kind.is_device());
        if !is_asked || !is_device || row.kind != RowKind::File {
            return;
        }
        let opened = self.view.as_mut().and_then(|view| view.open(&row.path, READ).ok());
        if let Some(size) = opened.and_then(|device| device_len(&device).ok()) {
            (there.kind, there.size) = (ThereKind::File, size);
        }
    }
}

impl Target {
    /// Why no directory of this path replaces what is none.
    pub(super) fn keeps_way(&mut self, path: &[u8]) -> Option<String> {
        self.implied.has(path).then(|| not_followed(path))
    }

    /// Why nothing can be stored: a directory is to have the name of a destination that is none. As rsync:
    /// that is no entry of a tree, which makes way for another.
    pub(in crate::survey) fn obstacle(&mut self, row: &Row) -> Option<Error> {
        let is_destination = self.view.as_ref().is_some_and(|view| view.is_named(&row.path));
        if !is_destination || row.kind != RowKind::Directory {
            return None;
        }
        let stat = self.view.as_mut()?.stat(&row.path).ok()?;
        (kind(&stat) != FileType::Directory && !self.is_dangling(&row.path)).then(|| {
            let path = show(&row.path);
            let why = format!(
                "cannot replace the destination by the directory '{path}': it is no directory; name another path"
            );
            Error::new(ErrorKind::Destination, why)
        })
    }

    /// Whether a path is a link that leads to nothing, which is no destination yet.
    fn is_dangling(&mut self, path: &[u8]) -> bool {
        let Some(view) = &mut self.view else { return false };
        let place = view.place(path).into_owned();
        let found = path::split_name(&place).map_err(Errno::from).and_then(|(parent, name)| {
            let directory = view.hold(parent)?;
            let leads_to =
                open_beneath(&*directory, name.as_bytes(), OFlags::PATH, Mode::empty(), Links::Inside);
            Ok((kind(&at::stat(&*directory, name)?), leads_to.err()))
        });
        found == Ok((FileType::Symlink, Some(Errno::NOENT)))
    }
}

/// Who may have put a file there, or written it.
fn hands(stat: &Stat, from: Movable) -> Hands {
    match name_count(stat) {
        _ if kind(stat) != FileType::RegularFile => Hands::Ours,
        _ if !is_trusted(stat) || stat.st_mode & WRITTEN_BY_OTHERS != 0 => Hands::Others,
        2.. => Hands::Linked,
        _ if from == Movable::ByOthers => Hands::Moved,
        _ => Hands::Ours,
    }
}

/// Whether the extended attributes of such names differ.
fn differ(wanted: &[Xattr], found: &[Xattr], is_meant: impl Fn(&[u8]) -> bool) -> bool {
    let of = |all: &[Xattr]| {
        let of_kind = |xattr: &&Xattr| xattr.is_of_file() && is_meant(&xattr.name);
        let mut some: Vec<Xattr> = all.iter().filter(of_kind).cloned().collect();
        some.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        some
    };
    of(wanted) != of(found)
}

fn special(file_type: FileType) -> Option<SpecialKind> {
    match file_type {
        FileType::Fifo => Some(SpecialKind::Fifo),
        FileType::Socket => Some(SpecialKind::Socket),
        FileType::CharacterDevice => Some(SpecialKind::CharacterDevice),
        FileType::BlockDevice => Some(SpecialKind::BlockDevice),
        _ => None,
    }
}

/// The content of a file.
pub(super) fn checksum_in(view: &mut View, path: &[u8]) -> Option<[u8; 32]> {
    let file = view.open(path, READ).ok()?;
    checksum(file, view.looked()).ok()
}

/// `NOTEMPTY` if a directory has entries.
pub(super) fn is_empty(parent: &OwnedFd, name: Component<'_>) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let directory = open_beneath(parent, name.as_bytes(), flags, Mode::empty(), Links::Refuse)?;
    for entry in fs::Dir::new(directory)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Err(Errno::NOTEMPTY);
        }
    }
    Ok(())
}
