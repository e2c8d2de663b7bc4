//! What was probably meant by a word that the parser does not know. clap's own guesses go by letters alone:
//! it offers `--deadline` for `--delete`.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command, CommandFactory};

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
    (
        "cp",
        &["--resume", "--continue", "--partial"],
        "the same command again goes on where it was broken off",
    ),
    ("cp", &["-f", "--force"], "a file that exists is replaced, without it"),
    ("cp", &["-z", "-Z"], "it is -C here"),
    ("cp", &["-c", "--cipher"], "the cipher is the faster one of both hosts' CPUs"),
    ("cp", &["-B"], "-o BatchMode=yes is what scp's -B is"),
    (
        "cp",
        &["--bwlimit", "--limit-rate", "--bandwidth", "--bandwidth-limit", "--max-rate", "--speed"],
        "it is --rate here, as in --rate 100Mbit",
    ),
    ("keygen", &["-t", "--type", "-b"], "every key is an Ed25519 one"),
    ("keygen", &["-f", "--file", "-o", "--output"], "it is --out here"),
    ("keygen", &["-C"], "it is --comment here"),
    ("keygen", &["-N", "-P", "--passphrase"], "a key has no passphrase: its file is for its owner alone"),
    (
        "serve",
        &["-p", "--port", "--bind", "--address", "--host"],
        "it is --listen here, as in --listen 45600",
    ),
    ("serve", &["-d", "--dir", "--directory", "--path"], "it is --root here"),
    ("serve", &["--keys", "--authorized"], "it is --authorized-keys here"),
    ("serve", &["--rate", "--bwlimit"], "a limit stands in the line of a key, as in rate=500Mbit"),
    (
        "serve",
        &["--read-write", "--write-only", "--append-only", "--write"],
        "rights stand in the line of a key",
    ),
];

/// Options by which other programs are tuned.
const TUNING: &[&str] = &[
    "--parallel",
    "--streams",
    "--transfers",
    "--checkers",
    "--threads",
    "--jobs",
    "--connections",
    "--window",
];

/// Names under which other programs have a subcommand, of ours or of one of its own.
const COMMANDS: &[(Option<&str>, &[&str], &str)] = &[
    (None, &["copy", "scp"], "did you mean 'cp'?"),
    (None, &["rsync", "mirror"], "did you mean 'sync'?"),
    (Some("jobs"), &["list", "ls", "status", "queue", "ps"], "fobs jobs alone lists them"),
    (Some("jobs"), &["submit", "add", "new", "run", "start"], "fobs submit hands one in"),
    (Some("jobs"), &["kill", "stop", "rm", "delete", "remove"], "did you mean 'cancel'?"),
];

/// The tip for an error of the parser, if there is one; `command` is the subcommand it is about.
pub fn of(error: &clap::Error, command: Option<&str>) -> Option<String> {
    match error.kind() {
        ErrorKind::UnknownArgument => {
            option(&Cli::command(), command?, text(error, ContextKind::InvalidArg)?)
        }
        ErrorKind::InvalidSubcommand => subcommand(command, text(error, ContextKind::InvalidSubcommand)?),
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
    if TUNING.contains(&typed) {
        return Some("fobs finds streams, windows and threads by itself".to_owned());
    }
    if typed.strip_prefix('-').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit())) {
        return Some("no number here is below zero".to_owned());
    }
    // These two do one thing in two ways; letters of the other commands have nothing to do with theirs.
    let copies = ["sync", "cp"];
    let others = copies.into_iter().filter(|other| copies.contains(&command) && *other != command);
    let has = |name| Some((name, the_option(program.find_subcommand(name)?, typed)?));
    if let Some((other, meant)) = others.into_iter().find_map(has) {
        return Some(if typed.starts_with("--") {
            format!("fobs {other} has it")
        } else {
            format!("fobs {other} has it, as --{meant}")
        });
    }
    let meant = nearest_of_many(typed.strip_prefix("--")?, longs(program.find_subcommand(command)?))?;
    Some(format!("did you mean '--{meant}'?"))
}

fn longs(command: &Command) -> impl Iterator<Item = &str> {
    command.get_arguments().filter(|argument| !argument.is_hide_set()).filter_map(clap::Arg::get_long)
}

/// The long name of the option that a word is.
fn the_option<'a>(command: &'a Command, typed: &str) -> Option<&'a str> {
    match typed.strip_prefix("--") {
        Some(long) => longs(command).find(|known| *known == long),
        None => {
            let letter = typed.strip_prefix('-')?.chars().next()?;
            let known = command.get_arguments().filter(|known| !known.is_hide_set());
            known.filter(|known| known.get_short() == Some(letter)).find_map(clap::Arg::get_long)
        }
    }
}

/// What was meant by a long option behind one dash, of which a parser makes letters and a value: `-port 22`.
pub fn one_dash(words: &[OsString]) -> Option<String> {
    let program = Cli::command();
    let name = words.get(1)?.to_str()?;
    let command = program.find_subcommand(name).filter(|command| !command.is_hide_set())?;
    let takes = |arg: &clap::Arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let by_long = |name: &str| command.get_arguments().find(|known| known.get_long() == Some(name));
    let by_letter = |letter| command.get_arguments().find(|known| known.get_short() == Some(letter));
    // Behind an option that takes a value, a word is that.
    let is_value = |before: &OsString| {
        let long = before.to_str().and_then(|before| before.strip_prefix("--"));
        long.and_then(by_long).is_some_and(takes)
    };
    let options = words[1..].windows(2).take_while(|pair| pair[1] != "--").filter(|pair| !is_value(&pair[0]));
    let mut typed = options.filter_map(|pair| pair[1].to_str()?.strip_prefix('-'));
    typed.find_map(|rest| {
        let meant = rest.split('=').next().filter(|name| name.len() > 2)?;
        let is_option = by_long(meant).is_some_and(|known| !known.is_hide_set());
        // `-stats` is five letters of rsync's.
        let are_switches = meant.chars().all(|letter| by_letter(letter).is_some_and(|known| !takes(known)));
        let told = format!(
            "'-{rest}' begins with one '-', and so is letters: type --{rest}; see 'fobs {name} --help'"
        );
        (is_option && !are_switches).then_some(told)
    })
}

/// What was meant by a subcommand, of one that has some or of the program.
fn subcommand(command: Option<&str>, typed: &str) -> Option<String> {
    let program = Cli::command();
    let inner = command.and_then(|name| program.find_subcommand(name)).filter(|it| it.has_subcommands());
    let above = inner.map(Command::get_name);
    let synonym = COMMANDS.iter().find(|(of, names, _)| *of == above && names.contains(&typed));
    if let Some((.., tip)) = synonym {
        return Some((*tip).to_owned());
    }
    let all = inner.unwrap_or(&program).get_subcommands().filter(|command| !command.is_hide_set());
    let meant = nearest(typed, all.map(Command::get_name).chain(["help"]))?;
    Some(format!("did you mean '{meant}'?"))
}
