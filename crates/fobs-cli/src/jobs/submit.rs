//! `fobs submit`: a command line is checked, and handed to the keeper.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use fobs::{Error, ErrorKind, Result};
use fobs_jobs::{JobId, Spec, SpecError, Url, Word};
use serde_json::json;

use super::place::Choice;
use super::work::Work;
use super::{print, print_json, reach, ssh};
use crate::args::Cli;
use crate::args::submit::SubmitArgs;
use crate::config::{self, Refusal};
use crate::times::ms;
use crate::{exit, output, usage};

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

/// Hands a job in; returns the exit code.
pub fn run(args: &SubmitArgs) -> u8 {
    let done = checked(args).and_then(|(spec, notes)| {
        let client = reach::client(Choice::of(args.system))?;
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
        room_there: work.room_there().map(Word::from),
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
    spec.room_there = work.room_there().map(Word::from);
    spec.bytes = if spec.every_ms.is_none() { work.bytes(&directory) } else { None };
    if spec.sources.is_empty() {
        spec.sources = work.sources(&directory);
    }
    if spec.environment.is_empty() {
        spec.environment = environment(std::env::vars_os());
    }
    Ok(())
}

pub fn parse(words: Vec<OsString>) -> Result<Cli> {
    config::parse_words(words).map_err(|refusal| match refusal {
        Refusal::Parser(error) => Error::new(ErrorKind::Usage, usage::sentence(&error)),
        Refusal::Configuration(error) => error,
    })
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
}
