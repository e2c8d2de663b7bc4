//! What a sync says, as the options ask for it.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use fobs::SymbolicLinks;
use fobs::event::{LeftOut, Likeness};
use fobs::options::Location;
use fobs::options::sync::Report;

use super::figures::{Human, Run};
use super::format::{Format, Line};
use super::made::Making;
use crate::args::sync::SyncArgs;
use crate::flags::sync::{Recursion, SyncWords};
use crate::location;

/// What is printed.
#[derive(Debug)]
pub struct Wording {
    /// Of an entry; none where no lines are printed.
    pub format: Option<Format>,
    /// Lines of entries that the destination has as they are, too.
    pub all: bool,
    /// Entries are listed (`--list-only`).
    pub lists: bool,
    /// Where links lead to is listed.
    pub shows_links: bool,
    /// Both ends are this host.
    pub is_here: bool,
    pub deletions: bool,
    /// What the rules leave out is said, by which one.
    pub leaves_out: u8,
    /// Whether contents are compared.
    pub compares_content: bool,
    /// Likewise of links that lead out of the tree.
    pub unsafe_links: bool,
    /// Sources that are removed are said.
    pub removals: bool,
    /// Least size of files.
    pub size_min: Option<u64>,
    /// The second letters of `-i` of what is left out with a line that says so.
    pub left_out: Vec<char>,
    pub quiet: bool,
    /// Level of the summary.
    pub stats: u8,
    /// The summary says what deltas did even if they found nothing: they were asked for by `--basis`.
    pub tells_deltas: bool,
    /// 1: files, 2: the whole.
    pub progress: u8,
    pub human: Human,
    /// The line before all others.
    pub header: Option<&'static str>,
    /// Lines are printed as they come, and not in rsync's order.
    pub is_live: bool,
    pub run: Run,
    /// What stands before a path where the sender names it.
    pub above: Vec<u8>,
    pub keeps_groups: bool,
    /// What stands before and behind the name of a backup, where each is named (`--info=backup`).
    pub backups: Option<(Vec<u8>, Vec<u8>)>,
    /// Of the destination, where it is said that it was made.
    pub making: Option<Making>,
    pub log_file: Option<PathBuf>,
    pub log_format: Option<Format>,
}

impl Wording {
    /// What `%o` is of what is moved.
    pub fn operation(&self) -> &'static str {
        if self.run.is_push { "send" } else { "recv" }
    }

    /// As the switches say.
    pub fn of(args: &SyncArgs, is_terminal: bool) -> Wording {
        let (said, given) = (&args.chosen.program, &args.chosen.sync);
        let level = |name| said.told.level(name, said.verbose);
        let given_format = given.out_format.as_deref().map(|text| Format::parse(text.as_bytes()));
        let progress = level("progress").max(u8::from(given.progress));
        let names = level("name").max(u8::from(progress == 1 && !said.told.says("name")));
        let format = match (given_format, given.itemize, names) {
            (Some(format), _, _) => Some(format),
            (None, 1.., _) => Some(Format::parse(b"%i %n%L")),
            (None, 0, 1..) => Some(Format::parse(b"%n%L")),
            (None, 0, 0) => None,
        };
        let has_changes = format.as_ref().is_some_and(|format| format.has(b"i"));
        let log_file = given.log_file.clone();
        let log_format = given.log_format.as_deref().map_or(&b"%i %n%L"[..], OsStrExt::as_bytes);
        let log_format = Some(log_format).filter(|text| !text.is_empty() && log_file.is_some());
        let is_dry = given.choices.dry_run || super::lists_only(args);
        let run = Run { is_push: is_push(args), is_dry };
        let stats = match (given.stats, said.told.says("stats")) {
            (true, _) => 2.max(level("stats")),
            (false, true) => level("stats"),
            (false, false) => said.verbose.min(1),
        };
        // The other end of a push is not told of --progress, and says it there.
        let says_names = level("name") > 0 || given.progress && (!run.is_push || is_here(args));
        let says_made = (has_changes || says_names) && !super::lists_only(args);
        Wording {
            making: says_made.then(|| making(args, run)),
            all: given.itemize > 1 && has_changes || names > 1,
            lists: super::lists_only(args),
            shows_links: given.choices.preserve.links == SymbolicLinks::Kept,
            is_here: is_here(args),
            deletions: level("del") > 0,
            leaves_out: level("skip"),
            compares_content: given.checksum,
            unsafe_links: given.choices.rules.safe_links && level("symsafe") > 0,
            removals: level("remove") > 0,
            size_min: given.choices.rules.size_min,
            left_out: if level("nonreg") > 0 { left_out(args) } else { Vec::new() },
            quiet: said.quiet,
            stats,
            tells_deltas: given.choices.basis.is_some(),
            progress,
            human: given.human,
            header: (level("flist") > 0 || given.progress && !said.told.says("flist"))
                .then(|| header(args, run)),
            is_live: is_terminal || given.is_live || progress > 0,
            run,
            above: above(args, run),
            keeps_groups: given.choices.preserve.group,
            backups: backups(given).filter(|_| level("backup") > 0 && !is_dry),
            log_file,
            log_format: log_format.map(Format::parse),
            format,
        }
    }

    /// The line of a backup that is made of what an entry replaces.
    pub fn backed_up(&self, line: &Line<'_>) -> Option<Vec<u8>> {
        let (before, behind) = self.backups.as_ref()?;
        let replaces = line.changes.starts_with(['<', '>', 'c', 'h']) && !line.changes.contains('+');
        let name = line.path;
        let text = || [b"backed up ", name, b" to ", &before[..], name, &behind[..]].concat();
        (replaces && !line.directory).then(text)
    }

    /// The line of an entry that a rule leaves out.
    pub fn left_out_by(&self, line: &Line<'_>) -> Option<Vec<u8>> {
        let name = line.path.strip_suffix(b"/").unwrap_or(line.path);
        if name.is_empty() {
            return None;
        }
        let said = match line.facts.left_out? {
            LeftOut::Unsafe if self.unsafe_links => {
                let target = line.target.unwrap_or_default();
                return Some([b"ignoring unsafe symlink \"", name, b"\" -> \"", target, b"\""].concat());
            }
            LeftOut::Silently | LeftOut::Unsafe => return None,
            _ if self.leaves_out == 0 => return None,
            LeftOut::Absent => {
                let kind: &[u8] = if line.directory { b"directory" } else { b"file" };
                return Some([b"not creating new ", kind, b" \"", name, b"\""].concat());
            }
            LeftOut::Exists(_) if self.leaves_out == 1 => " exists",
            LeftOut::Exists(likeness) => match likeness {
                Likeness::Unknown => " exists",
                Likeness::OtherType => " exists (type change)",
                Likeness::OtherContent if self.compares_content => " exists (sum change)",
                Likeness::OtherContent => " exists (file change)",
                Likeness::OtherAttributes => " exists (attr change)",
                Likeness::Same => " exists (uptodate)",
            },
            LeftOut::Newer => " is newer",
            LeftOut::BySize if self.size_min.is_some_and(|min| line.facts.size < min) => " is under min-size",
            LeftOut::BySize => " is over max-size",
        };
        Some([name, said.as_bytes()].concat())
    }

    /// Whether its lines say what changes.
    pub fn is_itemized(&self) -> bool {
        self.format.as_ref().is_some_and(|format| format.has(b"i"))
    }

    /// Whether an entry has a line, as rsync decides it.
    pub fn shows(&self, line: &Line<'_>) -> bool {
        let is_changed = !line.facts.unchanged;
        if line.facts.left_out.is_some() && !self.lists {
            return false;
        }
        if self.all || self.lists {
            return true;
        }
        if self.is_itemized() {
            return is_changed;
        }
        is_changed && (line.directory || !line.changes.starts_with('.'))
    }

    /// What has to be reported for that.
    pub fn report(&self) -> Report {
        if self.all
            || self.lists
            || self.stats > 0
            || self.progress > 0
            || !self.left_out.is_empty()
            || self.leaves_out > 0
            || self.unsafe_links
        {
            Report::All
        } else if self.format.is_some() || self.deletions || self.log_file.is_some() {
            Report::Changed
        } else {
            Report::Nothing
        }
    }
}

/// What stands before and behind a backup's name.
fn backups(given: &SyncWords) -> Option<(Vec<u8>, Vec<u8>)> {
    let directory = given.choices.backup_dir.clone();
    let is_made = given.backup || directory.is_some();
    let usual: &[u8] = if directory.is_some() { b"" } else { b"~" };
    let behind = given.suffix.as_deref().map_or(usual, OsStrExt::as_bytes).to_vec();
    let before = directory.map_or_else(Vec::new, |mut directory| {
        if !directory.ends_with(b"/") {
            directory.push(b'/');
        }
        directory
    });
    is_made.then_some((before, behind))
}

/// Whether the sources are the contents of one directory without any: the destination, made in its image, is
/// all that is said to be made then.
fn is_alone(args: &SyncArgs) -> bool {
    let [source, destination] = args.paths.as_slice() else { return false };
    let is_bare = |path: &std::path::Path| path.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    let is_named_whole = !destination.as_encoded_bytes().ends_with(b"/");
    is_named_whole && matches!(location::parse(source), Ok(Location::Local(path)) if is_bare(&path))
}

fn making(args: &SyncArgs, run: Run) -> Making {
    Making {
        destination: destination(args),
        above: args.chosen.sync.choices.make_path,
        is_image: is_alone(args),
        is_dry: run.is_dry,
    }
}

/// The path of the destination, without what is at its end.
fn destination(args: &SyncArgs) -> Vec<u8> {
    let path = match args.paths.last().map(|last| location::parse(last)) {
        Some(Ok(Location::Remote(remote))) => remote.path,
        Some(Ok(Location::Local(path))) => path.into_os_string().into_vec(),
        _ => Vec::new(),
    };
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(path.len().min(1), |last| last + 1);
    path[..end].to_vec()
}

fn left_out(args: &SyncArgs) -> Vec<char> {
    if super::lists_only(args) {
        return Vec::new();
    }
    let kept = &args.chosen.sync.choices.preserve;
    let drops = drops_devices(args);
    let kinds = [
        ('L', kept.links == SymbolicLinks::Kept),
        ('D', kept.devices && !drops),
        ('S', kept.specials && !drops),
    ];
    kinds.into_iter().filter(|(_, is_kept)| !is_kept).map(|(letter, _)| letter).collect()
}

/// Whether this end makes no devices, as `--drop-D` asks of a receiver: as with rsync, it says nothing to the
/// other end.
pub fn drops_devices(args: &SyncArgs) -> bool {
    let last = args.paths.last().map(|path| location::parse(path));
    args.chosen.sync.drops_devices && matches!(last, Some(Ok(Location::Local(_))))
}

fn is_here(args: &SyncArgs) -> bool {
    args.paths.iter().all(|path| matches!(location::parse(path), Ok(Location::Local(_))))
}

/// Whether the sources are on this host.
pub fn is_push(args: &SyncArgs) -> bool {
    let last = args.paths.last().map(|path| location::parse(path));
    let first = args.paths.first().map(|path| location::parse(path));
    if args.paths.len() == 1 {
        return !matches!(first, Some(Ok(Location::Remote(_))));
    }
    !matches!(first, Some(Ok(Location::Remote(_)))) || matches!(last, Some(Ok(Location::Remote(_))))
}

/// The first line of rsync's: whether its list grows while it transfers.
fn header(args: &SyncArgs, run: Run) -> &'static str {
    let given = &args.chosen.sync;
    let is_recursive = match given.recursion {
        Recursion::Off => false,
        Recursion::Implied => given.files_from.is_none(),
        Recursion::On => true,
    };
    let waits = given.delete_before || given.delete_after || given.choices.prune_empty || given.delay_updates;
    let grows = is_recursive && !waits && !given.whole_list;
    match (grows, run.is_push) {
        (true, true) => "sending incremental file list",
        (true, false) => "receiving incremental file list",
        (false, true) => "building file list ... done",
        (false, false) => "receiving file list ... done",
    }
}

/// What stands before the paths of a push: the directory of its source.
fn above(args: &SyncArgs, run: Run) -> Vec<u8> {
    let [source, _] = args.paths.as_slice() else { return Vec::new() };
    if !run.is_push || args.chosen.sync.relative == Some(true) {
        return Vec::new();
    }
    let source = source.as_bytes();
    let source = source.strip_prefix(b"./").unwrap_or(source);
    let end = source.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    source[..end].to_vec()
}
