//! From the arguments of `fobs sync` to the options of the `fobs` crate, by rsync's rules of combination.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fobs::filter::{Action, Filter, Separator};
use fobs::options::sync::{
    Absent, BASES_MAX, Compare, Delete, DeleteWhen, Enter, Present, Report, SyncOptions, SyncRules,
};
use fobs::{
    BackupSuffix, Chmod, Error, ErrorKind, FileSystems, IdMapping, Preserve, RelPath, Result, SymbolicLinks,
    Unkept,
};

use crate::args::sync::{Directories, Recursion, RuleOption, Switches, SyncArgs};

/// Most characters of a refused name in a message.
const NAME_SHOWN_MAX: usize = 200;
/// Largest file of names or rules, bytes.
const FILE_MAX: u64 = 256 << 20;

/// Resolves the options of a sync; reads the files that they name.
///
/// # Errors
/// `Usage` for options that are not built, do not go together or name files that cannot be read.
pub fn resolve(args: &SyncArgs) -> Result<SyncOptions> {
    if let Some(why) = &args.refused.0 {
        return Err(usage(why.clone()));
    }
    let given = &args.switches;
    check(args)?;
    let names = args.files_from.as_deref().map(|file| names_from(file, separator(given))).transpose()?;
    let directories = entered(given, names.is_some());
    let delete = deletion(args, directories)?;
    let backup = backup_suffix(args)?;
    let chmod = chmod(&args.chmod)?;
    let mut filter = filter(args)?;
    if let (Some(suffix), Some(_), false) = (&backup, delete, given.delete_excluded) {
        // As rsync: backups are not deleted.
        let rule = [b"P *", suffix.as_bytes()].concat();
        filter
            .add_rule(&rule, &mut |_| Err(io::ErrorKind::Unsupported.into()))
            .map_err(|why| usage(why.to_string()))?;
    }
    Ok(SyncOptions {
        preserve: Preserve { chmod, ..preserve(given) },
        directories,
        filter: filter.rules(),
        names,
        rules: SyncRules {
            compare: compare(given),
            modify_window: args.modify_window.unwrap_or(0),
            present: match (given.ignore_existing, given.update) {
                (true, _) => Present::Left,
                (false, true) => Present::UpdatedUnlessNewer,
                (false, false) => Present::Updated,
            },
            absent: if given.existing { Absent::LeftOut } else { Absent::Made },
            // A backup changes its directory's time again and again.
            omit_directory_times: given.omit_directory_times || backup.is_some(),
            omit_link_times: given.omit_link_times,
            makes_way: delete.is_some(),
        },
        delete,
        backup,
        remove_source_files: given.remove_source_files,
        link_dest: args.link_dest.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect(),
        dry_run: given.dry_run,
        only_delete: false,
        report: match (given.itemize, given.verbose) {
            (2.., _) => Report::All,
            (0, 0) => Report::Nothing,
            _ => Report::Changed,
        },
    })
}

/// Refuses what cannot be combined.
fn check(args: &SyncArgs) -> Result<()> {
    let given = &args.switches;
    if given.whole_file == Some(false) {
        return Err(usage("--no-whole-file is not built: changed files are sent whole"));
    }
    if given.one_file_system > 1 {
        return Err(usage(
            "-xx is not built: directories on which a file system is mounted are made; give -x once",
        ));
    }
    if args.files_from.is_some() && args.paths.len() != 2 {
        return Err(usage(
            "--files-from needs one source, the directory in which the names lie, and a destination",
        ));
    }
    if args.link_dest.len() > BASES_MAX {
        return Err(usage(format!("--link-dest names more than {BASES_MAX} directories: give fewer")));
    }
    let modes = [given.delete_before, given.delete_during, given.delete_after];
    if modes.iter().filter(|on| **on).count() > 1 {
        return Err(usage(
            "--delete-before, --delete-during and --delete-after exclude each other: give one of them",
        ));
    }
    Ok(())
}

/// Which directories are entered. `-a` does not recurse with `--files-from`, which makes directories instead.
fn entered(given: &Switches, has_names: bool) -> Enter {
    match (given.recursion, given.directories) {
        (Recursion::On, _) => Enter::All,
        (Recursion::Implied, _) if !has_names => Enter::All,
        (_, Directories::On) => Enter::Made,
        (_, Directories::Implied) if has_names => Enter::Made,
        _ => Enter::None,
    }
}

fn deletion(args: &SyncArgs, directories: Enter) -> Result<Option<Delete>> {
    let given = &args.switches;
    let when = match (given.delete_before, given.delete_after) {
        (true, _) => Some(DeleteWhen::Before),
        (_, true) => Some(DeleteWhen::After),
        _ if given.delete || given.delete_during || given.delete_excluded => Some(DeleteWhen::During),
        _ => None,
    };
    if when.is_some() && directories == Enter::None {
        return Err(usage("--delete needs -r (or -a) or -d: without, no directory's contents are known"));
    }
    Ok(when.map(|when| Delete { when, max: args.max_delete }))
}

fn preserve(given: &Switches) -> Preserve {
    Preserve {
        modes: given.perms,
        times: given.times,
        owner: given.owner,
        group: given.group,
        ids: if given.numeric_ids { IdMapping::Numbers } else { IdMapping::Names },
        links: if given.links { SymbolicLinks::Kept } else { SymbolicLinks::LeftOut },
        devices: given.devices,
        specials: given.specials,
        unkept: Unkept::LeftOut,
        hard_links: given.hard_links,
        xattrs: given.xattrs,
        acls: given.acls,
        sparse: given.sparse,
        file_systems: if given.one_file_system > 0 { FileSystems::One } else { FileSystems::All },
        ..Preserve::default()
    }
}

fn compare(given: &Switches) -> Compare {
    // The order of rsync's own quick check.
    match (given.checksum, given.size_only, given.ignore_times) {
        (true, _, _) => Compare::Content,
        (_, true, _) => Compare::Size,
        (_, _, true) => Compare::Nothing,
        _ => Compare::Time,
    }
}

fn backup_suffix(args: &SyncArgs) -> Result<Option<BackupSuffix>> {
    let suffix = args.suffix.as_deref().unwrap_or(OsStr::new("~")).as_bytes();
    if !args.switches.backup && suffix.is_empty() {
        return Ok(None);
    }
    let suffix = BackupSuffix::new(suffix.to_vec()).map_err(|why| {
        usage(format!("--suffix is not possible: {why}; a backup lies beside its file, under another name"))
    })?;
    Ok(args.switches.backup.then_some(suffix))
}

fn chmod(texts: &[String]) -> Result<Chmod> {
    match texts {
        [] => Ok(Chmod::default()),
        some => Chmod::parse(&some.join(","), crate::sync::umask()).map_err(usage),
    }
}

fn separator(given: &Switches) -> Separator {
    if given.from0 { Separator::Nul } else { Separator::Line }
}

fn filter(args: &SyncArgs) -> Result<Filter> {
    let mut filter = Filter::new(separator(&args.switches), args.switches.delete_excluded);
    for (option, word) in &args.rules.0 {
        let word = word.as_bytes();
        let added = match option {
            RuleOption::Filter => filter.add_rule(word, &mut |name| read(Path::new(OsStr::from_bytes(name)))),
            RuleOption::Exclude => filter.add_pattern(Action::Exclude, word),
            RuleOption::Include => filter.add_pattern(Action::Include, word),
            RuleOption::ExcludeFrom => filter.add_patterns(Action::Exclude, &named(word)?),
            RuleOption::IncludeFrom => filter.add_patterns(Action::Include, &named(word)?),
        };
        added.map_err(|why| usage(why.to_string()))?;
    }
    Ok(filter)
}

/// The names in a file of `--files-from`: relative, without `.` and empty components; `..` is refused.
fn names_from(file: &Path, separator: Separator) -> Result<Vec<RelPath>> {
    let text = named(file.as_os_str().as_bytes())?;
    let lines = text.split(|&byte| match separator {
        Separator::Line => matches!(byte, b'\n' | b'\r'),
        Separator::Nul => byte == 0,
    });
    let is_comment = |line: &[u8]| separator == Separator::Line && matches!(line, [b'#' | b';', ..]);
    lines.filter(|line| !line.is_empty() && !is_comment(line)).map(name).collect()
}

fn name(line: &[u8]) -> Result<RelPath> {
    let parts: Vec<&[u8]> =
        line.split(|&byte| byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    if parts.contains(&&b".."[..]) {
        let shown = String::from_utf8_lossy(line);
        return Err(usage(format!("--files-from names '{shown}': a name with '..' leaves the source")));
    }
    RelPath::new(parts.join(&b'/')).map_err(|why| {
        let shown: String = String::from_utf8_lossy(line).chars().take(NAME_SHOWN_MAX).collect();
        usage(format!("--files-from names '{shown}': {why}"))
    })
}

/// A file that an option names.
fn named(path: &[u8]) -> Result<Vec<u8>> {
    let path = Path::new(OsStr::from_bytes(path));
    read(path).map_err(|error| usage(format!("cannot read '{}': {error}", path.display())))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if path == Path::new("-") {
        io::stdin().lock().take(FILE_MAX).read_to_end(&mut text)?;
    } else {
        fobs::open_named(path)?.take(FILE_MAX).read_to_end(&mut text)?;
    }
    match text.len() as u64 {
        FILE_MAX => Err(io::Error::other("it is larger than 256 MiB")),
        _ => Ok(text),
    }
}

fn usage(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, message)
}
