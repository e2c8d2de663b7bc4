//! Switches of `fobs sync`: what is taken and kept, what is deleted, and how it runs.

use std::ffi::OsString;

use fobs::options::flag::{Flag, RSYNC, SYNC, Side, Takes};
use fobs::options::sync::{Absent, Delta, SYNC2};
use fobs::{FileSystems, Follow, IdMapping, SymbolicLinks};

use super::{Directories, Recursion, RuleOption};
use crate::flags::Chosen;

type Row = Flag<Chosen>;

/// What is taken of the sources, and what is kept of it.
pub const CHOOSING: &[Row] = &[
    Row::switch("archive", archive)
        .help("Recurse and keep almost everything: -rlptgoD")
        .on(&[RSYNC.letter('a')]),
    Row::switch("recursive", |it, on| it.sync.recursion = if on { Recursion::On } else { Recursion::Off })
        .help("Recurse into directories")
        .on(&[RSYNC.letter('r')]),
    Row::switch("relative", |it, on| it.sync.relative = Some(on))
        .help("Keep the whole paths of the sources, or what follows /./ in them; --files-from does so by itself")
        .on(&[RSYNC.letter('R')]),
    Row::switch("old-args", |it, on| it.sync.old_args = Some(on))
        .help("Read paths on another host as a shell there would: quotes, and several sources in one")
        .on(&[RSYNC]),
    Row::switch("implied-dirs", |it, on| it.sync.choices.rules.leaves_implied = !on)
        .help("With --no-implied-dirs: leave directories above a name as they are at the destination")
        .also(&["i-d"])
        .on(&[RSYNC]),
    Row::switch("dirs", |it, on| it.sync.directories = if on { Directories::On } else { Directories::Off })
        .help("Transfer directories without recursing")
        .on(&[RSYNC.letter('d')]),
    Row::switch("links", links).help("Copy symbolic links as links").on(&[RSYNC.letter('l')]),
    Row::switch("hard-links", |it, on| it.sync.choices.preserve.hard_links = on)
        .help("Keep hard links")
        .on(&[RSYNC.letter('H')]),
    Row::switch("perms", |it, on| it.sync.choices.preserve.modes = on)
        .help("Keep permissions")
        .on(&[RSYNC.letter('p')]),
    Row::switch("times", |it, on| it.sync.choices.preserve.times = on)
        .help("Keep modification times")
        .on(&[RSYNC.letter('t')]),
    Row::switch("omit-dir-times", |it, on| it.sync.choices.rules.omit_directory_times = on)
        .help("Leave directories out of --times")
        .on(&[RSYNC.letter('O')]),
    Row::switch("omit-link-times", |it, on| it.sync.choices.rules.omit_link_times = on)
        .help("Leave symbolic links out of --times")
        .on(&[RSYNC.letter('J')]),
    Row::switch("owner", |it, on| it.sync.choices.preserve.owner = on)
        .help("Keep the owner (as root)")
        .on(&[RSYNC.letter('o')]),
    Row::switch("group", |it, on| it.sync.choices.preserve.group = on)
        .help("Keep the group")
        .on(&[RSYNC.letter('g')]),
    Row::switch("D", |it, on| {
        let kept = &mut it.sync.choices.preserve;
        (kept.devices, kept.specials) = (on, on);
    })
    .help("The same as --devices --specials")
    .on(&[RSYNC.letter('D')]),
    Row::switch("devices", |it, on| it.sync.choices.preserve.devices = on)
        .help("Keep device files (as root)")
        .on(&[RSYNC]),
    Row::switch("specials", |it, on| it.sync.choices.preserve.specials = on)
        .help("Keep fifos and sockets")
        .on(&[RSYNC]),
    Row::switch("drop-D", |it, on| it.sync.drops_devices = on)
        .help("Make no devices, fifos and sockets where this end receives")
        .on(&[RSYNC]),
    Row::switch("acls", |it, on| {
        let kept = &mut it.sync.choices.preserve;
        kept.acls = on;
        kept.modes |= on;
    })
    .help("Keep ACLs (implies --perms)")
    .on(&[RSYNC.letter('A')]),
    Row::new(
        "xattrs",
        "",
        Takes::Count(|it, count| {
            let kept = &mut it.sync.choices.preserve;
            (kept.xattrs, kept.xattr_notes) = (count > 0, count > 1);
        }),
    )
    .help("Keep extended attributes; twice: those of --fake-super too")
        .on(&[RSYNC.letter('X')]),
    Row::switch("numeric-ids", |it, on| {
        it.sync.choices.preserve.ids = if on { IdMapping::Numbers } else { IdMapping::Names };
    })
    .help("Keep numbers of users and groups instead of names")
    .on(&[RSYNC]),
    Row::switch("sparse", |it, on| it.sync.choices.preserve.sparse = on)
        .help("Make runs of zeros holes")
        .on(&[RSYNC.letter('S')]),
    Row::new(
        "one-file-system",
        "",
        Takes::Count(|it, count| {
            it.sync.choices.preserve.file_systems = match count {
                0 => FileSystems::All,
                1 => FileSystems::One,
                _ => FileSystems::OneWithoutMounts,
            };
        }),
    )
    .help("Do not cross file systems; twice: leave out directories on which another is mounted")
    .on(&[RSYNC.letter('x')]),
    Row::switch("update", |it, on| it.sync.update = on)
        .help("Skip files that are newer at the destination")
        .on(&[RSYNC.letter('u')]),
    Row::switch("checksum", |it, on| it.sync.checksum = on)
        .help("Compare contents, not times and sizes")
        .on(&[RSYNC.letter('c')]),
    Row::switch("ignore-times", |it, on| it.sync.ignore_times = on)
        .help("Send files of equal size and time too")
        .on(&[RSYNC.letter('I')]),
    Row::switch("size-only", |it, on| it.sync.size_only = on).help("Skip files of equal size").on(&[RSYNC]),
    Row::switch("existing", |it, on| {
        it.sync.choices.rules.absent = if on { Absent::LeftOut } else { Absent::Made };
    })
    .help("Make nothing new at the destination")
    .also(&["ignore-non-existing"])
    .on(&[RSYNC]),
    Row::switch("ignore-existing", |it, on| it.sync.ignore_existing = on)
        .help("Update nothing that exists at the destination")
        .on(&[RSYNC]),
];

/// Links that are not taken, and directories.
pub const LEAVING: &[Row] = &[
    Row::switch("copy-links", |it, on| follow(it, on, Follow::All))
        .help("Copy what symbolic links lead to")
        .on(&[RSYNC.letter('L')])
        .side(Side::Sender)
        .feature(SYNC2),
    Row::switch("copy-dirlinks", |it, on| follow(it, on, Follow::Directories))
        .help("Copy directories that symbolic links lead to")
        .on(&[RSYNC.letter('k')])
        .side(Side::Sender)
        .feature(SYNC2),
    Row::switch("keep-dirlinks", |it, on| it.sync.choices.rules.keeps_dirlinks = on)
        .help("Store into a directory of the destination that a link of its own leads to, in place of the link")
        .on(&[RSYNC.letter('K')])
        .side(Side::Receiver)
        .feature(SYNC2),
    Row::switch("copy-unsafe-links", |it, on| follow(it, on, Follow::LeadingOut))
        .help("Copy what symbolic links lead to that lead out of the tree")
        .on(&[RSYNC])
        .side(Side::Sender)
        .feature(SYNC2),
    Row::switch("safe-links", |it, on| it.sync.choices.rules.safe_links = on)
        .help("Leave out symbolic links that lead out of the tree")
        .on(&[RSYNC])
        .side(Side::Receiver)
        .feature(SYNC2),
    Row::switch("open-noatime", |it, on| it.sync.choices.preserve.open_noatime = on)
        .help("Read the sources without giving them a new access time, where their owner or root does")
        .on(&[RSYNC])
        .side(Side::Sender)
        .feature(SYNC2),
    Row::switch("munge-links", |it, on| it.sync.choices.preserve.munge_links = on)
        .help("Pulled links are stored so that they lead nowhere; pushed ones are sent as they were before that")
        .on(&[RSYNC]),
    Row::switch("delete-missing-args", |it, on| it.sync.choices.deletes_missing = on)
        .help("A source or a name of --files-from that does not exist is deleted at the destination")
        .on(&[RSYNC])
        .side(Side::Both)
        .feature(SYNC2),
    Row::switch("ignore-missing-args", |it, on| it.sync.choices.ignores_missing = on)
        .help("A source or a name of --files-from that does not exist is no failure")
        .on(&[RSYNC])
        .side(Side::Sender)
        .feature(SYNC2),
    Row::switch("prune-empty-dirs", |it, on| it.sync.choices.prune_empty = on)
        .help("Leave out directories in which there is nothing else")
        .on(&[RSYNC.letter('m')])
        .side(Side::Sender)
        .feature(SYNC2),
];

/// Files that are continued, and files of rules.
pub const CONTINUING: &[Row] = &[
    Row::switch("append", |it, on| it.sync.choices.rules.appends = on)
        .help("Update only files that are shorter than their source; all of them is verified")
        .also(&["append-verify"])
        .on(&[RSYNC])
        .side(Side::Receiver)
        .feature(SYNC2),
    Row::switch("cvs-exclude", |it, on| it.sync.cvs_exclude = on)
        .help("Leave out what CVS leaves out, and what .cvsignore files name")
        .on(&[RSYNC.letter('C')]),
    Row::new("F", "", Takes::Count(directory_filter))
        .help("Obey .rsync-filter files, as --filter=': .rsync-filter'; -FF leaves them out")
        .on(&[SYNC.of_one_run().letter('F')]),
];

/// What is deleted, or kept of what is replaced.
pub const DELETING: &[Row] = &[
    Row::switch("delete", |it, on| it.sync.delete = on)
        .help("Delete from the destination what the sources do not have")
        .on(&[RSYNC]),
    Row::switch("delete-before", |it, on| it.sync.delete_before = on)
        .help("Delete before the transfer")
        .on(&[RSYNC]),
    Row::switch("delete-during", |it, on| it.sync.delete_during = on)
        .help("Delete during the transfer (the default)")
        .also(&["del"])
        .on(&[RSYNC]),
    Row::switch("delete-after", |it, on| it.sync.delete_after = on)
        .help("Delete after the transfer")
        .also(&["delete-delay"])
        .on(&[RSYNC]),
    Row::switch("delete-excluded", |it, on| it.sync.delete_excluded = on)
        .help("Delete what is excluded too")
        .on(&[RSYNC]),
    Row::switch("force", |it, on| it.sync.force = on)
        .help("Delete a directory with entries where something else has its name in the source")
        .on(&[RSYNC]),
    Row::switch("ignore-errors", |it, on| it.sync.choices.rules.despite_errors = on)
        .help("Delete although the sources could not be read whole")
        .on(&[RSYNC])
        .side(Side::Receiver)
        .feature(SYNC2),
    Row::switch("mkpath", |it, on| it.sync.choices.make_path = on)
        .help("Create missing directories above the destination")
        .on(&[RSYNC])
        .side(Side::Receiver)
        .feature(SYNC2),
    Row::switch("backup", |it, on| it.sync.backup = on)
        .help("Keep what is replaced or deleted under another name")
        .on(&[RSYNC.letter('b')]),
    Row::switch("executability", |it, on| it.sync.choices.rules.executability = on)
        .help("Keep whether files are executable, where --perms does not keep all")
        .on(&[RSYNC.letter('E')])
        .side(Side::Receiver)
        .feature(SYNC2),
    Row::switch("inplace", |it, on| it.sync.choices.rules.in_place = on)
        .help("Write what is new into the files that are there, so that they keep their inodes and links")
        .on(&[RSYNC])
        .side(Side::Receiver)
        .feature(SYNC2),
    Row::switch("partial", |it, on| it.options.no_partial = !on)
        .help("Keep what an interrupted transfer has stored (the default)")
        .on(&[RSYNC]),
    Row::switch("remove-source-files", |it, on| it.sync.choices.remove_source_files = on)
        .help("Remove from the source what the destination has at the end, but no directories")
        .on(&[RSYNC]),
];

/// How it runs, and what it prints.
pub const RUNNING: &[Row] = &[
    Row::switch("whole-file", |it, on| {
        it.sync.choices.delta = if on { Delta::Never } else { Delta::Always };
    })
    .help("Send changed files whole: --delta=never, and --no-whole-file --delta=always")
    .on(&[RSYNC.letter('W')]),
    Row::switch("repair", |it, on| {
        it.sync.checksum = on;
        it.sync.choices.delta = if on { Delta::Always } else { Delta::Auto };
    })
    .help("Compare contents, and send only what differs of them: --checksum --delta=always")
    .on(&[SYNC.of_one_run()]),
    Row::switch("fuzzy", |it, on| it.sync.choices.fuzzy = on)
        .help("Make the delta of a new file of one beside it, of the same size and time or a similar name")
        .on(&[RSYNC.letter('y')]),
    Row::switch("track-renames", |it, on| it.sync.track_renames = Some(on))
        .help("Make a new file of one at the destination that has its size and time, wherever that is; a push with \
               --delete does so by itself in trees of at most 100,000 names")
        .on(&[SYNC]),
    Row::switch("from0", |it, on| it.sync.from0 = on)
        .help("Lines of --files-from and of filter files end in a zero byte")
        .on(&[RSYNC.letter('0')]),
    Row::switch("dry-run", |it, on| it.sync.choices.dry_run = on)
        .help("Show what would be done, and change nothing")
        .on(&[RSYNC.letter('n')]),
    Row::new("itemize-changes", "", Takes::Count(|it, count| it.sync.itemize = count))
        .help("Print what changes about each entry; -ii also what does not")
        .on(&[RSYNC.letter('i')]),
    Row::switch("stats", |it, on| it.sync.stats = on)
        .help("Print figures of the transfer at its end")
        .on(&[RSYNC]),
    Row::new(
        "human-readable",
        "",
        Takes::Count(|it, count| it.sync.human = if count > 0 { count + 1 } else { 0 }),
    )
    .help("Print figures with units of 1000; -hh of 1024; alone, -h is this help")
    .on(&[RSYNC.letter('h')]),
    Row::switch("list-only", |it, on| it.sync.list_only = on)
        .help("List the sources, and transfer nothing; also where no destination is given")
        .on(&[RSYNC]),
    Row::switch("progress", |it, on| it.sync.progress = on)
        .help("Print a line for each file that is there, and how far the whole is")
        .on(&[RSYNC]),
    Row::switch("P", |it, on| {
        it.options.no_partial = !on;
        it.sync.progress = on;
    })
    .help("The same as --partial --progress")
    .on(&[RSYNC.letter('P')]),
];

fn directory_filter(it: &mut Chosen, count: u8) {
    let rules = [": .rsync-filter", "- .rsync-filter"].into_iter().take(usize::from(count));
    it.sync.rules.extend(rules.map(|rule| (RuleOption::Filter, OsString::from(rule))));
}

fn archive(it: &mut Chosen, on: bool) {
    if it.sync.recursion != Recursion::On || !on {
        it.sync.recursion = if on { Recursion::Implied } else { Recursion::Off };
    }
    links(it, on);
    let kept = &mut it.sync.choices.preserve;
    (kept.modes, kept.times, kept.owner, kept.group) = (on, on, on, on);
    (kept.devices, kept.specials) = (on, on);
}

/// All counts before the others.
fn follow(it: &mut Chosen, on: bool, which: Follow) {
    let follow = &mut it.sync.choices.preserve.follow;
    *follow = match (on, *follow) {
        (true, Follow::All) => Follow::All,
        (true, _) => which,
        (false, now) if now == which => Follow::None,
        (false, now) => now,
    };
}

fn links(it: &mut Chosen, on: bool) {
    it.sync.choices.preserve.links = if on { SymbolicLinks::Kept } else { SymbolicLinks::LeftOut };
}
