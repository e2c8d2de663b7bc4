//! Which argument of a command is being written.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::{Arg, Command, ValueHint};

/// What may stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A source or a destination.
    Place,
    /// A host.
    Host,
    /// The number of a running copy.
    Copy,
    /// The number of a job.
    Job,
    /// A change of it.
    Change,
    /// A manual page.
    Page,
    /// A file of this host.
    File,
    /// A directory of this host.
    Directory,
    /// One of these words.
    Word(Vec<String>),
    /// What only the user knows: a number, a pattern.
    Anything,
    /// An option or a subcommand, which the script completes.
    Nothing,
}

/// What `typed` is the beginning of, after `before`.
pub fn wanted(command: &Command, before: &[OsString], typed: &[u8]) -> Wanted {
    let (mut arguments, mut awaiting, mut options_ended) = (0, None, false);
    for word in before {
        if awaiting.take().is_some() {
            continue;
        }
        match word.as_bytes() {
            b"--" if !options_ended => options_ended = true,
            [b'-', _, ..] if !options_ended => awaiting = awaits(command, word.as_bytes()),
            _ => arguments += 1,
        }
    }
    match awaiting {
        Some(option) => return value_of(option),
        None if typed.starts_with(b"-") && !options_ended => return Wanted::Nothing,
        None => {}
    }
    match (command.get_name(), arguments) {
        ("cp" | "sync", _) | ("doctor", 0) => Wanted::Place,
        ("config", 0) => Wanted::Host,
        ("ctl", 0) => Wanted::Copy,
        ("ctl", _) => Wanted::Change,
        ("man", 0) => Wanted::Page,
        ("submit", 0) => Wanted::Word(["cp", "sync"].map(str::to_owned).into()),
        ("jobs", 0) => {
            let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
            Wanted::Word(shown.map(|command| command.get_name().to_owned()).collect())
        }
        ("jobs", _) => match before.iter().find_map(|word| command.find_subcommand(word)) {
            Some(one) if one.get_positionals().next().is_some() => Wanted::Job,
            _ => Wanted::Nothing,
        },
        _ => command.get_positionals().nth(arguments).map_or(Wanted::Nothing, value_of),
    }
}

/// Where the first word is that is neither an option nor a value of one.
pub fn first_argument(command: &Command, before: &[OsString]) -> Option<usize> {
    let mut awaiting = None;
    for (place, word) in before.iter().enumerate() {
        if awaiting.take().is_some() {
            continue;
        }
        match word.as_bytes() {
            b"--" => return (place + 1 < before.len()).then_some(place + 1),
            [b'-', _, ..] => awaiting = awaits(command, word.as_bytes()),
            _ => return Some(place),
        }
    }
    None
}

/// Whether an option may stand after `before`: neither a value nor an argument behind `--`.
pub fn is_option(command: &Command, before: &[OsString]) -> bool {
    wanted(command, before, b"-") == Wanted::Nothing
}

/// What an option or an argument takes. The scripts of the parser break names at their blanks.
fn value_of(option: &Arg) -> Wanted {
    let values = option.get_possible_values();
    match option.get_value_hint() {
        _ if !values.is_empty() => {
            let shown = values.iter().filter(|value| !value.is_hide_set());
            Wanted::Word(shown.map(|value| value.get_name().to_owned()).collect())
        }
        ValueHint::Hostname => Wanted::Host,
        ValueHint::DirPath => Wanted::Directory,
        ValueHint::FilePath | ValueHint::AnyPath | ValueHint::ExecutablePath => Wanted::File,
        ValueHint::CommandName | ValueHint::CommandString => Wanted::Nothing,
        _ => Wanted::Anything,
    }
}

/// The option whose value the next word is.
fn awaits<'a>(command: &'a Command, word: &[u8]) -> Option<&'a Arg> {
    let text = std::str::from_utf8(word).ok()?;
    let takes = |arg: &&Arg| {
        let fewest = arg.get_num_args().map_or(1, |count| count.min_values());
        arg.get_action().takes_values() && fewest > 0
    };
    if let Some(long) = text.strip_prefix("--") {
        let named = |arg: &&Arg| {
            arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|names| names.contains(&long))
        };
        return command.get_arguments().find(named).filter(takes);
    }
    let letters = text.get(1..)?;
    let (at, option) = letters.char_indices().find_map(|(at, letter)| {
        let named = |arg: &&Arg| arg.get_short() == Some(letter);
        Some((at + letter.len_utf8(), command.get_arguments().find(named).filter(takes)?))
    })?;
    (at == letters.len()).then_some(option)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_value_of_an_option_is_no_location() {
        let mut program = Cli::command();
        program.build();
        for (line, expected) in [
            ("cp", Wanted::Place),
            ("cp -r a", Wanted::Place),
            ("cp -P", Wanted::Anything),
            ("cp -rP", Wanted::Anything),
            ("cp -P22", Wanted::Place),
            ("cp -P 22", Wanted::Place),
            ("cp --rate", Wanted::Anything),
            ("cp --rate=1M", Wanted::Place),
            ("cp -J", Wanted::Host),
            ("cp -i", Wanted::File),
            ("serve --root", Wanted::Directory),
            ("cp --priority", Wanted::Word(["scavenger", "fair", "greedy"].map(str::to_owned).into())),
            ("cp -- -P", Wanted::Place),
            ("sync -a --exclude", Wanted::Anything),
            ("sync -a", Wanted::Place),
            ("doctor", Wanted::Place),
            ("doctor host:", Wanted::Nothing),
            ("ctl", Wanted::Copy),
            ("ctl 4711", Wanted::Change),
            ("config --why", Wanted::Host),
            ("man", Wanted::Page),
            ("submit --name x", Wanted::Word(["cp", "sync"].map(str::to_owned).into())),
            ("submit --name", Wanted::Anything),
            ("jobs cancel", Wanted::Job),
            ("jobs wait 7", Wanted::Job),
            ("jobs limits", Wanted::Nothing),
            ("serve", Wanted::Nothing),
            ("explain", Wanted::File),
            (
                "completions",
                Wanted::Word(["bash", "elvish", "fish", "powershell", "zsh"].map(str::to_owned).into()),
            ),
            ("completions bash", Wanted::Nothing),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let command = program.find_subcommand(&words[0]).expect("a command");
            assert_eq!(wanted(command, &words[1..], b""), expected, "{line}");
            let of_option = matches!(expected, Wanted::Place | Wanted::Copy) && !line.contains(" -- ");
            if of_option {
                assert_eq!(wanted(command, &words[1..], b"-"), Wanted::Nothing, "{line} -");
            }
        }
    }
}
