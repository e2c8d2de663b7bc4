//! From the arguments of `fobs sync` to the options of the `fobs` crate, by rsync's rules of combination.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use fobs::filter::{Action, Filter, FilterError, Separator};
use fobs::options::sync::{
    BASES_MAX, BasisUse, Compare, Delete, DeleteWhen, Delta, Enter, Present, Renames, SyncOptions, SyncRules,
};
use fobs::{BackupSuffix, Chmod, Error, ErrorKind, Preserve, RelPath, Result, SyncEnd};

use super::charset;
use super::name_list::{Ending, NameList};
use super::wording::{Wording, drops_devices, is_push};
use crate::args::sync::SyncArgs;
use crate::flags::sync::{Directories, Recursion, RuleOption, SyncWords};

/// What CVS leaves out, and the places of other systems of versions, as rsync(1) lists them.
const CVS: &str = "RCS SCCS CVS CVS.adm RCSLOG cvslog.* tags TAGS .make.state .nse_depinfo *~ #* .#* ,* _$* *$ \
                   *.old *.bak *.BAK *.orig *.rej .del-* *.a *.olb *.o *.obj *.so *.exe *.Z *.elc *.ln core .svn/ \
                   .git/ .hg/ .bzr/";
/// The rule for files of names that CVS leaves out.
const CVS_FILES: &[u8] = b":C .cvsignore";
/// Most characters of a refused name in a message.
const NAME_SHOWN_MAX: usize = 200;
/// Where updates wait that are delayed.
const DELAYED: &[u8] = b".~tmp~";
/// Largest file of names or rules, bytes.
const FILE_MAX: u64 = 256 << 20;

/// Resolves the options of a sync; reads the files that they name. With them come the places below the source
/// in which the names of `--files-from` begin.
///
/// # Errors
/// `Usage` for options that are not built, do not go together or name files that cannot be read.
pub fn resolve(args: &SyncArgs) -> Result<(SyncOptions, Vec<Vec<u8>>)> {
    if let Some(why) = &args.chosen.refused {
        return Err(usage(why.clone()));
    }
    let given = &args.chosen.sync;
    check(args)?;
    let listed = given.files_from.as_deref().map(|file| names_from(args, file)).transpose()?;
    let directories = entered(args, listed.is_some());
    let delete = deletion(given, directories)?;
    let backup = backup_suffix(given)?;
    let aside = given.choices.backup_dir.clone();
    let mut filter = filter(given)?;
    protect_aside(&mut filter, aside.as_ref(), delete.is_some())?;
    if let (Some(suffix), Some(_), false, None) = (&backup, delete, given.delete_excluded, &aside) {
        // As rsync: backups are not deleted.
        let rule = [b"P *", suffix.as_bytes()].concat();
        filter
            .add_rule(&rule, &mut |_| Err(io::ErrorKind::Unsupported.into()))
            .map_err(|why| usage(why.to_string()))?;
    }
    let choices = given.choices.clone();
    let lists = super::lists_only(args);
    let track_renames = renames(args, delete);
    let delta = match (choices.basis_use, choices.delta) {
        // Of what is there nothing is sent.
        (BasisUse::Copied, Delta::Auto) => Delta::Always,
        (_, delta) => delta,
    };
    let mut preserve = Preserve { chmod: chmod(&given.chmod)?, ..choices.preserve };
    if drops_devices(args) {
        (preserve.devices, preserve.specials) = (false, false);
    }
    let mut options = SyncOptions {
        preserve: if lists { Preserve { modes: true, times: true, ..preserve } } else { preserve },
        dry_run: choices.dry_run || lists,
        directories,
        filter: filter.rules(),
        rules: SyncRules {
            compare: compare(given),
            present: match (given.ignore_existing, given.update) {
                (true, _) => Present::Left,
                (false, true) => Present::UpdatedUnlessNewer,
                (false, false) => Present::Updated,
            },
            // A backup changes its directory's time again and again.
            omit_directory_times: choices.rules.omit_directory_times || backup.is_some() && aside.is_none(),
            makes_way: delete.is_some() || given.force,
            ..choices.rules
        },
        delete,
        backup,
        backup_dir: aside,
        copy_as: given.copy_as.clone(),
        missing_max: given.max_delete.filter(|_| choices.deletes_missing && delete.is_none()),
        partial_dir: partial_dir(given),
        delay_updates: given.delay_updates,
        temp_dir: given.temp_dir.clone().map(OsString::into_vec),
        delta,
        track_renames,
        report: Wording::of(args, false).report(),
        ..choices
    };
    let places = listed.map_or_else(Vec::new, |list| places_of(list, given, &mut options));
    Ok((options, places))
}

/// Where the names of a list begin; without `-R` each name is a source by itself.
fn places_of(list: NameList<Vec<u8>>, given: &SyncWords, options: &mut SyncOptions) -> Vec<Vec<u8>> {
    if given.relative == Some(false) { list.into_paths() } else { list.into_options(options) }
}

/// What is looked for under another name.
fn renames(args: &SyncArgs, delete: Option<Delete>) -> Renames {
    match (args.chosen.sync.track_renames, delete) {
        (Some(true), _) => Renames::All,
        // A server that is pulled from would learn of files that it need not have sent.
        (None, Some(Delete { when: DeleteWhen::During | DeleteWhen::After, .. })) if is_push(args) => {
            Renames::WhereCheap
        }
        _ => Renames::Off,
    }
}

/// Refuses what cannot be combined.
fn check(args: &SyncArgs) -> Result<()> {
    let given = &args.chosen.sync;
    if given.files_from.is_some() && args.paths.len() != 2 && !super::lists_only(args) {
        return Err(usage(
            "--files-from needs one source, the directory in which the names lie, and a destination",
        ));
    }
    if given.choices.link_dest.len() > BASES_MAX {
        let option = given.choices.basis_use.option();
        return Err(usage(format!("{option} names more than {BASES_MAX} directories: give fewer")));
    }
    if given.choices.preserve.fake_super && given.choices.preserve.xattr_notes {
        return Err(usage("-XX copies what --fake-super notes: give -X once with it"));
    }
    let in_place = given.choices.rules.in_place || given.choices.rules.appends;
    if in_place && (given.delay_updates || given.partial_dir.is_some()) {
        let option = if given.delay_updates { "--delay-updates" } else { "--partial-dir" };
        return Err(usage(format!(
            "--inplace and --append cannot be given with {option}: what is written in place waits nowhere"
        )));
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
fn entered(args: &SyncArgs, has_names: bool) -> Enter {
    let given = &args.chosen.sync;
    let is_listed = super::lists_only(args) && given.directories == Directories::Implied;
    match (given.recursion, given.directories) {
        (Recursion::On, _) => Enter::All,
        (Recursion::Implied, _) if !has_names => Enter::All,
        (_, Directories::On) => Enter::Made,
        (_, Directories::Implied) if has_names || is_listed => Enter::Made,
        _ => Enter::None,
    }
}

fn deletion(given: &SyncWords, directories: Enter) -> Result<Option<Delete>> {
    let when = match (given.delete_before, given.delete_after) {
        (true, _) => Some(DeleteWhen::Before),
        (_, true) => Some(DeleteWhen::After),
        _ if given.delete || given.delete_during || given.delete_excluded => Some(DeleteWhen::During),
        _ => None,
    };
    if when.is_some() && directories == Enter::None {
        return Err(usage("--delete needs -r (or -a) or -d: without, no directory's contents are known"));
    }
    Ok(when.map(|when| Delete { when, max: given.max_delete }))
}

fn compare(given: &SyncWords) -> Compare {
    // The order of rsync's own quick check.
    match (given.checksum, given.size_only, given.ignore_times) {
        (true, _, _) => Compare::Content,
        (_, true, _) => Compare::Size,
        (_, _, true) => Compare::Nothing,
        _ => Compare::Time,
    }
}

fn backup_suffix(given: &SyncWords) -> Result<Option<BackupSuffix>> {
    let is_aside = given.choices.backup_dir.is_some();
    let usual = OsStr::new(if is_aside { "" } else { "~" });
    let suffix = given.suffix.as_deref().unwrap_or(usual).as_bytes();
    if (!given.backup || is_aside) && suffix.is_empty() {
        return Ok(None);
    }
    let suffix = BackupSuffix::new(suffix.to_vec()).map_err(|why| {
        usage(format!("--suffix is not possible: {why}; a backup lies beside its file, under another name"))
    })?;
    Ok((given.backup || is_aside).then_some(suffix))
}

/// What lies in a directory of backups within the destination is not deleted.
fn protect_aside(filter: &mut Filter, aside: Option<&Vec<u8>>, deletes: bool) -> Result<()> {
    let Some(directory) = aside.filter(|_| deletes) else { return Ok(()) };
    let parts: Vec<&[u8]> =
        directory.split(|&byte| byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    if directory.starts_with(b"/") || parts.contains(&&b".."[..]) || parts.is_empty() {
        return Ok(());
    }
    // What would be a pattern is meant as it is.
    let special = |byte: &u8| b"*?[\\".contains(byte);
    let plain: Vec<u8> = parts
        .join(&b'/')
        .iter()
        .flat_map(|byte| if special(byte) { vec![b'\\', *byte] } else { vec![*byte] })
        .collect();
    let rule = [b"P /", &plain[..], b"/"].concat();
    let added = filter.add_rule(&rule, &mut |_| Err(io::ErrorKind::Unsupported.into()));
    added.map_err(|why| usage(format!("--backup-dir: {why}")))
}

fn chmod(texts: &[String]) -> Result<Chmod> {
    match texts {
        [] => Ok(Chmod::default()),
        some => Chmod::parse(&some.join(","), crate::sync::umask()).map_err(usage),
    }
}

fn separator(given: &SyncWords) -> Separator {
    if given.from0 { Separator::Nul } else { Separator::Line }
}

fn filter(given: &SyncWords) -> Result<Filter> {
    let mut filter = Filter::new(separator(given), given.delete_excluded);
    for (option, word) in &given.rules {
        let word = &*charset::there(given.charsets.as_ref(), word.as_bytes())?;
        let mut unread = false;
        let added = match option {
            // The two that stand for more.
            RuleOption::Filter if word == b":C" => add_plain(&mut filter, CVS_FILES),
            RuleOption::Filter if word == b"-C" => {
                cvs_names().iter().try_for_each(|rule| add_plain(&mut filter, rule))
            }
            RuleOption::Filter => filter.add_rule(word, &mut |name| {
                read(Path::new(OsStr::from_bytes(name))).inspect_err(|_| unread = true)
            }),
            RuleOption::Exclude => filter.add_pattern(Action::Exclude, word),
            RuleOption::Include => filter.add_pattern(Action::Include, word),
            RuleOption::ExcludeFrom => filter.add_patterns(Action::Exclude, &patterns(given, word)?),
            RuleOption::IncludeFrom => filter.add_patterns(Action::Include, &patterns(given, word)?),
        };
        let refused = |why: FilterError| usage(why.to_string());
        added.map_err(|why| if unread { refused(why).ends_sync(SyncEnd::FileIo) } else { refused(why) })?;
    }
    if given.cvs_exclude {
        cvs_rules(&mut filter)?;
    }
    unfinished_rules(given, &mut filter)?;
    Ok(filter)
}

/// The patterns of a file, as the other host writes names.
fn patterns(given: &SyncWords, file: &[u8]) -> Result<Vec<u8>> {
    // As rsync, for which a list of names that cannot be read is a mistake of the line.
    let text = named(file).map_err(|error| error.ends_sync(SyncEnd::FileIo))?;
    charset::there(given.charsets.as_ref(), &text).map(Cow::into_owned)
}

/// The directory of unfinished files: one in each of the destination, or with an absolute path the same for
/// all.
fn partial_dir(given: &SyncWords) -> Option<Vec<u8>> {
    let named = given.partial_dir.as_deref().map(OsStr::as_bytes);
    let named = named.map(|name| name.strip_suffix(b"/").unwrap_or(name));
    let name = named.or(given.delay_updates.then_some(DELAYED));
    let mut parts = name?.split(|&byte| byte == b'/').filter(|part| !matches!(*part, b"" | b".")).peekable();
    let start: &[u8] = if name?.starts_with(b"/") { b"/" } else { b"" };
    parts.peek()?;
    let parts: Vec<&[u8]> = parts.collect();
    (!parts.contains(&&b".."[..])).then(|| [start, &parts.join(&b'/')].concat())
}

/// rsync leaves its directories of unfinished files out, behind all other rules.
fn unfinished_rules(given: &SyncWords, filter: &mut Filter) -> Result<()> {
    let partial = given.partial_dir.as_deref().map(OsStr::as_bytes);
    let usual = given.delay_updates.then_some(DELAYED);
    let Some(name) = partial.or(usual).map(|name| name.strip_suffix(b"/").unwrap_or(name)) else {
        return Ok(());
    };
    if name.starts_with(b"/") || matches!(name, b"" | b".") {
        return Ok(());
    }
    let rule = [b"-p ", name, b"/"].concat();
    let added = filter.add_rule(&rule, &mut |_| Err(io::ErrorKind::Unsupported.into()));
    added.map_err(|why| usage(format!("--partial-dir: {why}")))
}

/// What `-C` leaves out, behind all other rules: what a .cvsignore file names, what CVS leaves out, and what
/// the user's own file and variable name.
fn cvs_rules(filter: &mut Filter) -> Result<()> {
    let mut all = [CVS_FILES.to_vec()].into_iter().chain(cvs_names());
    all.try_for_each(|rule| add_plain(filter, &rule).map_err(|why| usage(format!("-C: {why}"))))
}

/// The rules for what CVS leaves out, and for what the user's own file and variable name.
fn cvs_names() -> Vec<Vec<u8>> {
    let own = std::env::home_dir().map(|home| home.join(".cvsignore"));
    let own = own.and_then(|file| read(&file).ok()).unwrap_or_default();
    let variable = std::env::var_os("CVSIGNORE").unwrap_or_default().into_vec();
    cvs_list(&own, &variable)
}

/// The same of these texts, in which a `!` clears what stands before it.
fn cvs_list(own: &[u8], variable: &[u8]) -> Vec<Vec<u8>> {
    let usual = CVS.split_ascii_whitespace().map(|word| format!("-p {word}").into_bytes());
    let mut rules: Vec<Vec<u8>> = usual.collect();
    for text in [own, variable] {
        for word in text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
            match word {
                b"!" => rules.clear(),
                word => rules.push([b"- ", word].concat()),
            }
        }
    }
    rules
}

/// Adds a rule that names no file.
fn add_plain(filter: &mut Filter, rule: &[u8]) -> std::result::Result<(), FilterError> {
    filter.add_rule(rule, &mut |_| Err(io::ErrorKind::Unsupported.into()))
}

/// The names in a file of `--files-from`: relative, without `.`, `..` and empty components.
fn names_from(args: &SyncArgs, file: &Path) -> Result<NameList<Vec<u8>>> {
    let separator = separator(&args.chosen.sync);
    let text = match super::names_there::read(args, file.as_os_str(), FILE_MAX)? {
        Some(text) => text,
        None => named(file.as_os_str().as_bytes())?,
    };
    let lines = text.split(|&byte| match separator {
        Separator::Line => matches!(byte, b'\n' | b'\r'),
        Separator::Nul => byte == 0,
    });
    let is_comment = |line: &[u8]| matches!(line, [b'#' | b';', ..]);
    let mut list = NameList::new();
    for line in lines.filter(|line| !line.is_empty() && !is_comment(line)) {
        let (above, rest) = halves(line);
        list.push(name(above)?.into_bytes(), name(rest)?, Ending::of(line));
    }
    Ok(list)
}

/// What lies before and behind the first `/./` of a name: the paths at the destination begin behind it.
fn halves(line: &[u8]) -> (&[u8], &[u8]) {
    let at = line.windows(3).position(|part| part == b"/./");
    at.map_or((&b""[..], line), |at| (&line[..at], &line[at + 3..]))
}

fn name(line: &[u8]) -> Result<RelPath> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in line.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            // As in rsync, what would lead above the source begins there.
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
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
        fobs::named::open(path)?.take(FILE_MAX).read_to_end(&mut text)?;
    }
    match text.len() as u64 {
        FILE_MAX => Err(io::Error::other("it is larger than 256 MiB")),
        _ => Ok(text),
    }
}

fn usage(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As rsync: the list of CVS alone is cleared, and the rules of .cvsignore files stay.
    #[test]
    fn a_mark_clears_the_list_of_cvs() {
        let usual = CVS.split_ascii_whitespace().count();
        for (own, variable, count, last) in [
            (&b""[..], &b""[..], usual, None),
            (b"a\n b\t", b"c", usual + 3, Some(&b"- c"[..])),
            (b"a ! b", b"c", 2, Some(b"- c")),
            (b"a !\n", b"c", 1, Some(b"- c")),
            (b"a", b"! c !x", 2, Some(b"- !x")),
            (b"a", b"c !", 0, None),
        ] {
            let list = cvs_list(own, variable);
            assert_eq!(list.len(), count, "{own:?} {variable:?}");
            let own_last = list.last().filter(|_| count != usual);
            assert_eq!(own_last.map(Vec::as_slice), last, "{own:?} {variable:?}");
        }
    }
}
