//! What was probably meant by a word that the parser does not know. clap's own guesses go by letters alone:
//! it offers `--deadline` for `--delete`.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use crate::args::Cli;
use crate::spelling::{nearest, nearest_of_many};

/// Options of other programs, and what they are here.
const OPTIONS: &[(&str, &[&str], &str)] = &[
    (
        "cp",
        &["-a", "--archive"],
        "-rp copies a tree with modes and times, and fobs sync -a what rsync -a does",
    ),
    ("cp", &["-R"], "it is -r here"),
    ("cp", &["--resume", "--continue"], "the same command again goes on where it was broken off"),
];

/// Names under which other programs have a subcommand.
const COMMANDS: &[(&str, &str)] = &[("copy", "cp"), ("scp", "cp"), ("rsync", "sync"), ("mirror", "sync")];

/// The tip for an error of the parser, if there is one; `command` is the subcommand it is about.
pub fn of(error: &clap::Error, command: Option<&str>) -> Option<String> {
    match error.kind() {
        ErrorKind::UnknownArgument => {
            option(&Cli::command(), command?, text(error, ContextKind::InvalidArg)?)
        }
        ErrorKind::InvalidSubcommand => subcommand(text(error, ContextKind::InvalidSubcommand)?),
        _ => None,
    }
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

fn option(program: &Command, command: &str, typed: &str) -> Option<String> {
    let known = OPTIONS.iter().find(|(of, names, _)| *of == command && names.contains(&typed));
    if let Some((.., tip)) = known {
        return Some((*tip).to_owned());
    }
    // These two do one thing in two ways; letters of the other commands have nothing to do with theirs.
    let copies = ["sync", "cp"];
    let others = copies.into_iter().filter(|other| copies.contains(&command) && *other != command);
    let has = |name: &&str| program.find_subcommand(name).is_some_and(|other| has_option(other, typed));
    if let Some(other) = others.into_iter().find(has) {
        return Some(format!("fobs {other} has it"));
    }
    let meant = nearest_of_many(typed.strip_prefix("--")?, longs(program.find_subcommand(command)?))?;
    Some(format!("did you mean '--{meant}'?"))
}

fn longs(command: &Command) -> impl Iterator<Item = &str> {
    command.get_arguments().filter(|argument| !argument.is_hide_set()).filter_map(clap::Arg::get_long)
}

fn has_option(command: &Command, typed: &str) -> bool {
    match typed.strip_prefix("--") {
        Some(long) => longs(command).any(|known| known == long),
        None => typed.strip_prefix('-').and_then(|rest| rest.chars().next()).is_some_and(|letter| {
            command.get_arguments().any(|known| !known.is_hide_set() && known.get_short() == Some(letter))
        }),
    }
}

fn subcommand(typed: &str) -> Option<String> {
    let program = Cli::command();
    let names = program.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name);
    let synonym = COMMANDS.iter().find(|(name, _)| *name == typed).map(|(_, meant)| *meant);
    let meant = synonym.or_else(|| nearest(typed, names.chain(["help"])))?;
    Some(format!("did you mean '{meant}'?"))
}
