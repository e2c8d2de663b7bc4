//! `fobs submit`: a command line is checked, and handed to the keeper.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fobs::options::{Carrier, Location, Remote, TransferOptions};
use fobs::{Error, ErrorKind, Result};
use fobs_jobs::{JobId, Spec, SpecError, Url, Word};
use serde_json::json;

use super::{print, print_json, reach, size, ssh};
use crate::args::submit::SubmitArgs;
use crate::args::{self, Cli};
use crate::config::{self, Refusal};
use crate::times::ms;
use crate::{exit, location, output, resolve, usage};

/// Variables of the submitter's environment that a job keeps, beside those that begin with [`PREFIXES`].
const VARIABLES: &[&str] = &[
    "CVSIGNORE",
    "HOME",
    "KRB5CCNAME",
    "LANG",
    "LOGNAME",
    "PATH",
    "SHELL",
    "SSH_AUTH_SOCK",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];
/// Beginnings of further ones.
const PREFIXES: &[&str] = &["FOBS_", "LC_", "RSYNC_"];
/// The name of this host among destinations.
const HERE: &str = "this host";

/// Hands a job in; returns the exit code.
pub fn run(args: &SubmitArgs) -> u8 {
    let done = checked(args).and_then(|(spec, notes)| {
        let client = reach::client()?;
        let taken = reach::again(&client, |client| client.submit(&spec))?;
        notes.iter().for_each(|sentence| output::note(sentence));
        if args.json {
            return print_json(&json!({"id": taken.id, "new": taken.new}));
        }
        print(&format!("{}\n", taken.id))
    });
    match done {
        Ok(()) => exit::SUCCESS,
        Err(error) => {
            output::complain(&error);
            error.kind.exit_code()
        }
    }
}

/// The job, and what its submitter should know.
fn checked(args: &SubmitArgs) -> Result<(Spec, Vec<String>)> {
    let words: Vec<OsString> = ["fobs".into()].into_iter().chain(args.words.iter().cloned()).collect();
    let cli = parse(words)?;
    let work = Work::of(&cli)?;
    let directory = std::env::current_dir();
    let directory = directory.map_err(|error| {
        Error::new(ErrorKind::NoSource, format!("the current directory cannot be found: {error}"))
    })?;
    let own: Vec<Word> =
        args.words.iter().filter(|word| *word != "--json").map(|word| word.clone().into()).collect();
    let spec = Spec {
        name: args.name.clone(),
        label: args.label.clone(),
        priority: args.priority,
        environment: environment(std::env::vars_os()),
        umask: own_umask(),
        // Absolute, for a keeper that runs elsewhere.
        room: work.room(&directory).map(|path| path.into_os_string().into()),
        bytes: if args.every.is_none() { work.bytes(&directory) } else { None },
        destinations: work.destinations(),
        sources: work.sources(&directory),
        after: args.after.iter().copied().map(JobId).collect(),
        at_ms: args.at.map(ms),
        between: args.between,
        every_ms: args.every.map(|every| u64::try_from(every.as_millis()).unwrap_or(u64::MAX)),
        deadline_ms: args.deadline.map(ms),
        retries: args.retries,
        notify: notify(args.notify.as_deref())?,
        key: args.key.clone(),
        ..Spec::new(own, directory.into_os_string().into())
    };
    spec.check().map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))?;
    let notes = ssh::try_all(&work.over_ssh(), &work.options.ssh);
    Ok((spec, notes))
}

/// What the keeper does with a job that another client hands in: as [`run`] with its own environment, which
/// is used where the client sends none.
///
/// # Errors
/// Why the words are no job.
pub fn examine(spec: &mut Spec) -> std::result::Result<(), SpecError> {
    let refused = |error: Error| SpecError(error.to_string());
    let words = spec.words.iter().map(|word| word.as_os_str().to_owned());
    let cli = parse(["fobs".into()].into_iter().chain(words).collect()).map_err(refused)?;
    let work = Work::of(&cli).map_err(refused)?;
    let directory = PathBuf::from(spec.directory.as_os_str());
    spec.destinations = work.destinations();
    spec.room = work.room(&directory).map(|path| path.into_os_string().into());
    spec.bytes = if spec.every_ms.is_none() { work.bytes(&directory) } else { None };
    if spec.sources.is_empty() {
        spec.sources = work.sources(&directory);
    }
    if spec.environment.is_empty() {
        spec.environment = environment(std::env::vars_os());
    }
    Ok(())
}

fn parse(words: Vec<OsString>) -> Result<Cli> {
    config::parse_words(words).map_err(|refusal| match refusal {
        Refusal::Parser(error) => Error::new(ErrorKind::Usage, usage::sentence(&error)),
        Refusal::Configuration(error) => error,
    })
}

/// What the words of a job are about.
struct Work {
    sources: Vec<Location>,
    destination: Location,
    options: TransferOptions,
    kind: WorkKind,
}

/// What it does with what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkKind {
    /// Writes all of its sources.
    Copy,
    /// Writes what differs, which nobody knows before.
    Sync,
}

impl Work {
    fn of(cli: &Cli) -> Result<Work> {
        let usage = |why: &str| Error::new(ErrorKind::Usage, why.to_owned());
        let (paths, options, kind) = match &cli.command {
            args::Command::Cp(copy) => (&copy.paths, resolve::copy(copy)?.options, WorkKind::Copy),
            args::Command::Sync(sync) => (&sync.paths, resolve::transfer(&sync.chosen)?, WorkKind::Sync),
            _ => {
                return Err(usage(
                    "a job is a cp or a sync, which go on where they stopped: fobs submit cp SRC DST",
                ));
            }
        };
        let [sources @ .., destination] = paths.as_slice() else {
            return Err(usage("a job needs a source and a destination"));
        };
        let sources = sources.iter().map(|source| location::parse(source)).collect::<Result<Vec<_>>>()?;
        let destination = location::parse(destination)?;
        if sources.is_empty() {
            return Err(usage("a job needs a source and a destination"));
        }
        if sources.iter().chain([&destination]).any(|location| *location == Location::Stdio) {
            return Err(usage("a job has no standard input and output: name files in place of '-'"));
        }
        let reads_stdin = args_of(cli).iter().any(|word| reads_stdin(word));
        if reads_stdin {
            return Err(usage("a job has no standard input: name a file in place of '-'"));
        }
        Ok(Work { sources, destination, options, kind })
    }

    fn remotes(&self) -> impl Iterator<Item = &Remote> {
        self.sources.iter().chain([&self.destination]).filter_map(|location| match location {
            Location::Remote(remote) => Some(remote),
            Location::Local(_) | Location::Stdio => None,
        })
    }

    fn over_ssh(&self) -> Vec<Remote> {
        let mut hosts = BTreeSet::new();
        let over_ssh = self.remotes().filter(|remote| remote.carrier == Carrier::Ssh);
        over_ssh.filter(|remote| hosts.insert((remote.host.clone(), remote.port))).cloned().collect()
    }

    /// Where it writes, of this host.
    fn room(&self, directory: &Path) -> Option<PathBuf> {
        match &self.destination {
            Location::Local(path) => Some(directory.join(path)),
            Location::Remote(_) | Location::Stdio => None,
        }
    }

    /// How much it writes there: what is there by its names is thought to be the same, and takes no room.
    fn bytes(&self, directory: &Path) -> Option<u64> {
        let room = self.room(directory).filter(|_| self.kind == WorkKind::Copy)?;
        let local = |source: &Location| match source {
            Location::Local(path) => Some(directory.join(path)),
            Location::Remote(_) | Location::Stdio => None,
        };
        let sources = self.sources.iter().map(local).collect::<Option<Vec<PathBuf>>>()?;
        let there = |source: &PathBuf| match source.file_name() {
            Some(name) if room.is_dir() => room.join(name),
            _ => room.clone(),
        };
        let there: Vec<PathBuf> = sources.iter().map(there).filter(|path| path.exists()).collect();
        Some(size::of(&sources)?.saturating_sub(size::of(&there)?))
    }

    fn destinations(&self) -> Vec<String> {
        match &self.destination {
            Location::Remote(remote) => vec![remote.host.clone()],
            Location::Local(_) | Location::Stdio => vec![HERE.to_owned()],
        }
    }

    /// Hosts, or disks of this one.
    fn sources(&self, directory: &Path) -> Vec<String> {
        let name = |source: &Location| match source {
            Location::Remote(remote) => Some(remote.host.clone()),
            // What is not there yet may be when the job begins: it has no disk then.
            Location::Local(path) => {
                std::fs::metadata(directory.join(path)).ok().map(|found| format!("disk {}", found.dev()))
            }
            Location::Stdio => None,
        };
        let names: BTreeSet<String> = self.sources.iter().filter_map(name).collect();
        names.into_iter().collect()
    }
}

/// The options of the command as they were typed.
fn args_of(cli: &Cli) -> Vec<String> {
    let line = match &cli.command {
        args::Command::Cp(copy) => &**copy as &crate::flags::Line,
        args::Command::Sync(sync) => sync,
        _ => return Vec::new(),
    };
    line.far_words().iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Whether an option reads standard input, as `--files-from=-` does.
fn reads_stdin(word: &str) -> bool {
    word.strip_prefix("--")
        .and_then(|word| word.split_once('='))
        .is_some_and(|(name, value)| value == "-" && (name.ends_with("-from") || name == "password-file"))
}

fn environment(all: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, Word)> {
    let keeps = |name: &str| {
        !name.starts_with("FOBS_JOB_")
            && (VARIABLES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
    };
    let mut kept: Vec<(String, Word)> = all
        .filter_map(|(name, value)| Some((name.into_string().ok()?, Word::from(value))))
        .filter(|(name, _)| keeps(name))
        .collect();
    kept.sort_by(|one, other| one.0.cmp(&other.0));
    kept
}

/// The umask, which cannot be read without being set but from `/proc`.
fn own_umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok()).unwrap_or(0o077)
}

fn notify(text: Option<&str>) -> Result<Vec<Word>> {
    let Some(text) = text else { return Ok(Vec::new()) };
    if text.starts_with("http://") || text.starts_with("https://") {
        let url = Url::parse(text).map_err(|why| Error::new(ErrorKind::Usage, format!("--notify: {why}")))?;
        return Ok(vec![url.to_string().into()]);
    }
    let unreadable = || {
        let message =
            format!("--notify {text:?} is no command: give a program and its arguments, with quotes closed");
        Error::new(ErrorKind::Usage, message)
    };
    let words = shlex::split(text).filter(|words| !words.is_empty()).ok_or_else(unreadable)?;
    let program = OsStr::new(&words[0]);
    if !is_program(program) {
        let message = format!("--notify: {} is no program that is found; give its path", words[0]);
        return Err(Error::new(ErrorKind::Usage, message));
    }
    Ok(words.into_iter().map(Word::from).collect())
}

fn is_program(name: &OsStr) -> bool {
    if name.as_encoded_bytes().contains(&b'/') {
        return std::path::Path::new(name).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_keeps_what_it_needs_of_the_environment() {
        let all =
            [("HOME", "/h"), ("SECRET", "x"), ("FOBS_RATE", "5M"), ("FOBS_JOB_ID", "3"), ("LC_ALL", "C")];
        let kept = environment(all.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))));
        let names: Vec<&str> = kept.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["FOBS_RATE", "HOME", "LC_ALL"]);
    }

    #[test]
    fn a_command_is_words_and_no_shell() {
        let words = notify(Some("sh -c 'echo \"$FOBS_JOB_ID\"'")).expect("a command");
        assert_eq!(words, ["sh", "-c", "echo \"$FOBS_JOB_ID\""].map(Word::from));
        for text in ["", "  ", "sh 'open", "/no/such/program", "no-such-program-at-all x", "https://"] {
            notify(Some(text)).expect_err(text);
        }
        assert_eq!(notify(Some("https://host/x")), Ok(vec!["https://host/x".into()]));
        assert_eq!(notify(None), Ok(vec![]));
    }

    #[test]
    fn what_reads_standard_input_is_known() {
        for (word, reads) in
            [("--files-from=-", true), ("--exclude-from=-", true), ("--exclude=-", false), ("-r", false)]
        {
            assert_eq!(reads_stdin(word), reads, "{word}");
        }
    }
}
