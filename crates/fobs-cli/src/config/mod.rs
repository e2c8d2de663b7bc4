//! Defaults for options from files and the environment (docs/guide.md "Configuration").
//!
//! Settings become arguments in front of the user's, so that the command line's own parser checks them, too.
//! `file` parses a file, `keys` says which keys exist, `hosts` chooses blocks, `sources` reads all places in
//! their order of precedence, `show` is `fobs config`.

mod file;
mod hosts;
mod keys;
mod show;
mod sources;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches, Parser};
use fobs::options::TransferOptions;
use fobs::options::flag::CommandName;
use fobs::{Error, ErrorKind};

use crate::args::{self, Cli};
use crate::flags::Shape;
use crate::{output, resolve, usage};
use hosts::Target;
use keys::Key;
use sources::{Places, Setting};

pub use show::run;

/// Options that only the default of `--cc` knows.
const OF_AUTO: &[&str] = &["priority", "deadline"];

/// Why a command line cannot be run.
#[derive(Debug)]
pub enum Refusal {
    /// What the parser says, a request for help included.
    Parser(clap::Error),
    /// A word that the parser would read otherwise than it is meant, or a mistake in the configuration.
    Configuration(Error),
}

/// Parses the command line of this process, with the defaults of this host and user.
///
/// # Errors
/// The first mistake in it or in the configuration.
pub fn parse() -> Result<Cli, Refusal> {
    parse_with(std::env::args_os().collect(), &Places::of_this_process, &|notice| output::note(notice))
}

/// Parses a command line that another process will run, with the defaults of this host and user.
///
/// # Errors
/// As [`parse`].
pub fn parse_words(words: Vec<OsString>) -> Result<Cli, Refusal> {
    parse_with(words, &Places::of_this_process, &|_| ())
}

/// The options of a transfer that a line has, with the defaults of this host and user; `None` where it has
/// none or cannot be run.
pub fn options_of(words: Vec<OsString>) -> Option<TransferOptions> {
    let cli = parse_with(words, &Places::of_this_process, &|_| ()).ok()?;
    let chosen = match &cli.command {
        args::Command::Cp(copy) => &copy.chosen,
        args::Command::Sync(sync) => &sync.chosen,
        args::Command::Doctor(doctor) => &doctor.way.0.chosen,
        args::Command::Pipe(pipe) => &pipe.way.0.chosen,
        _ => return None,
    };
    resolve::transfer(chosen).ok()
}

/// The directory of the user's configuration.
pub fn directory() -> Option<PathBuf> {
    sources::base().map(|base| base.join("fobs"))
}

/// The hosts that have blocks of their own; patterns too.
pub fn hosts() -> Vec<String> {
    let sources = Places::of_this_process().read(&keys::all(), |_| Ok(()));
    sources.map_or_else(|_| Vec::new(), |sources| sources.patterns().map(str::to_owned).collect())
}

fn parse_with(
    mut words: Vec<OsString>,
    places: &dyn Fn() -> Places,
    tell: &dyn Fn(&str),
) -> Result<Cli, Refusal> {
    usage::refuse_misread(&words).map_err(Refusal::Configuration)?;
    if let [_, command, letter] = words.as_mut_slice()
        && command == "sync"
        && letter == "-h"
    {
        *letter = format!("--{}", args::sync::HELP_ALONE).into();
    }
    let named = words.get(1).and_then(|word| word.to_str());
    let Some(&(name, command)) = keys::COMMANDS.iter().find(|(name, _)| Some(*name) == named) else {
        return Cli::try_parse_from(words).map_err(Refusal::Parser);
    };
    let program = definition();
    let typed = program.clone().try_get_matches_from(&words).map_err(Refusal::Parser)?;
    let defaults = defaults(&program, (name, command), &typed, places).map_err(Refusal::Configuration)?;
    let (before, after) = (defaults.before.concat(), defaults.after.concat());
    let mut all = words.clone();
    let end = all.iter().position(|word| word == "--").unwrap_or(all.len());
    all.splice(end..end, after.into_iter().map(OsString::from));
    all.splice(2..2, before.into_iter().map(OsString::from));
    let matches = program.clone().try_get_matches_from(all);
    if !matches.as_ref().is_ok_and(|matches| is_quiet(matches, name)) {
        defaults.notices.iter().for_each(|notice| tell(notice));
    }
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = cli.map_err(|error| Refusal::Configuration(defaults.blame(&sentence(&error))))?;
    let alone = Cli::from_arg_matches(&typed).map_err(Refusal::Parser)?;
    match (contradiction(&cli), contradiction(&alone)) {
        (Some(why), None) => Err(Refusal::Configuration(defaults.blame(&why.message))),
        _ => Ok(cli),
    }
}

/// Whether only errors are to be printed.
fn is_quiet(matches: &ArgMatches, command: &str) -> bool {
    let quiet = matches.subcommand_matches(command).map(|matches| matches.try_get_one::<bool>("quiet"));
    matches!(quiet, Some(Ok(Some(true))))
}

/// The definition of the command line, with a hidden `--no-KEY` for each key: it ignores the default.
fn definition() -> Command {
    let mut program = Cli::command();
    for &(name, command_name) in keys::COMMANDS {
        program = program.mut_subcommand(name, |command| {
            let taken = |long: &str| command.get_arguments().any(|known| known.get_long() == Some(long));
            let without = keys::of(command_name)
                .into_iter()
                .filter(|key| !taken(&negated(key)))
                .map(|key| Arg::new(negated(&key)).long(negated(&key)).action(ArgAction::SetTrue).hide(true))
                .collect::<Vec<_>>();
            command.args(without)
        });
    }
    program
}

/// The long name of the option that ignores a key's default: `no-rate`, and `partial` for `no-partial`.
fn negated(key: &Key) -> String {
    key.name.strip_prefix("no-").map_or_else(|| format!("no-{}", key.name), str::to_owned)
}

/// The arguments that settings become.
#[derive(Debug, Default)]
struct Defaults {
    /// In front of the user's, which replace them.
    before: Vec<Vec<String>>,
    /// Behind the user's: items of lists, of which the first counts.
    after: Vec<Vec<String>>,
    /// What they were made from.
    settings: Vec<Setting>,
    /// What to tell the user beside.
    notices: Vec<String>,
}

impl Defaults {
    /// An error of the whole command that it would not have without its defaults.
    fn blame(&self, why: &str) -> Error {
        let named = |setting: &Setting| format!("{} ({})", setting.key, setting.origin);
        let all = self.settings.iter().map(named).collect::<Vec<_>>().join(", ");
        Error::new(ErrorKind::Usage, format!("{why}; defaults in effect: {all}"))
    }
}

fn defaults(
    program: &Command,
    (name, command_name): (&str, CommandName),
    typed: &ArgMatches,
    places: &dyn Fn() -> Places,
) -> fobs::Result<Defaults> {
    let (Some(command), Some(matches)) = (program.find_subcommand(name), typed.subcommand_matches(name))
    else {
        return Ok(Defaults::default());
    };
    let sources = places().read(&keys::all(), |words| check(program, words))?;
    let target = match matches.try_get_one::<OsString>("host") {
        Ok(Some(host)) => Target::of_host(host)?,
        _ => {
            let locations = matches.try_get_many::<OsString>("paths").ok().flatten().into_iter().flatten();
            Target::of_locations(locations.map(OsString::as_os_str))
        }
    };
    let mut defaults = Defaults { notices: sources.notices().cloned().collect(), ..Defaults::default() };
    let keys = keys::of(command_name);
    for setting in sources.effective(&target) {
        let Some(key) = keys.iter().find(|key| key.name == setting.key) else { continue };
        let words = key.arguments(&setting.value).unwrap_or_default();
        if words.is_empty() || !sources::fits(key, target.carrier) || is_displaced(key, command, matches) {
            continue;
        }
        match key.kind {
            Shape::List => defaults.after.push(words),
            Shape::Switch | Shape::Count | Shape::Value => defaults.before.push(words),
        }
        defaults.settings.push(setting.clone());
    }
    Ok(defaults)
}

/// Whether the command line itself decides about a key.
fn is_displaced(key: &Key, command: &Command, matches: &ArgMatches) -> bool {
    let is_typed = |id: &str| {
        matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    // The parser knows a conflict from the side that declares it.
    let conflicts = |one: &Arg, other: &Arg| command.get_arg_conflicts_with(one).contains(&other);
    let is_excluded = || {
        let Some(own) = command.get_arguments().find(|argument| argument.get_id() == key.name) else {
            return false;
        };
        let mut typed = command.get_arguments().filter(|other| is_typed(other.get_id().as_str()));
        typed.any(|other| conflicts(own, other) || conflicts(other, own))
            || key.yields.iter().any(|other| is_typed(other))
            || OF_AUTO.contains(&key.name) && is_typed("cc") && !is_auto(matches)
    };
    let replaced = key.kind != Shape::List && is_typed(key.name);
    replaced || is_typed(&negated(key)) || is_excluded()
}

fn is_auto(matches: &ArgMatches) -> bool {
    matches.get_raw("cc").and_then(|mut words| words.next_back()).is_some_and(|cc| cc == "auto")
}

/// The parser's own check of a value.
fn check(program: &Command, words: &[String]) -> Result<(), String> {
    let long = words.first().and_then(|word| word.strip_prefix("--"));
    let long = long.map(|word| word.split_once('=').map_or(word, |(name, _)| name));
    let knows = |command| keys::of(command).iter().any(|key| Some(key.name) == long);
    let known = keys::COMMANDS.iter().filter(|(_, command)| knows(*command));
    for command in known.filter_map(|(name, _)| program.find_subcommand(name)) {
        // Any locations will do.
        let is_of_host = matches!(command.get_name(), "doctor" | "pipe");
        let locations: &[&str] = if is_of_host { &["b:"] } else { &["a", "b:"] };
        let words = words.iter().map(String::as_str);
        let line = [command.get_name()].into_iter().chain(words).chain(locations.iter().copied());
        command.clone().try_get_matches_from(line).map_err(|error| sentence(&error))?;
    }
    Ok(())
}

/// The parser's message without its reference to the help.
fn sentence(error: &clap::Error) -> String {
    let whole = usage::sentence(error);
    whole.rsplit_once("; see '").map_or(whole.clone(), |(before, _)| before.to_owned())
}

/// What is wrong with the command as a whole.
fn contradiction(cli: &Cli) -> Option<Error> {
    match &cli.command {
        args::Command::Cp(copy) => resolve::copy(copy).err(),
        args::Command::Sync(sync) => resolve::transfer(&sync.chosen).err(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
