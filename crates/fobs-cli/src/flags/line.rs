//! The table as a command line: what the parser is given, and what becomes of what was typed.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::builder::{
    OsStringValueParser, PathBufValueParser, PossibleValue, PossibleValuesParser, StringValueParser,
    TypedValueParser, ValueParser,
};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use fobs::options::Carrier;
use fobs::options::flag::{About, CommandName, Names, Rank, Side, Standing, Use};
use fobs::{Error, ErrorKind, Result};

use super::value::{Form, Reading, form};
use super::{Chosen, Row, Shape, rows};

/// What was typed: what it says together, each option by itself, and the other words.
#[derive(Debug, Default)]
pub struct Line {
    /// What the options say together.
    pub chosen: Chosen,
    /// Each, in the order in which they take effect.
    pub given: Vec<Given>,
    /// Locations.
    pub paths: Vec<OsString>,
}

/// An option that was given.
#[derive(Debug)]
pub struct Given {
    /// Which.
    pub about: &'static About,
    /// As another host is given it.
    word: Vec<u8>,
}

/// Whether a program is sent to a host that has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// As the user says when asked.
    Asked,
    /// It is.
    Given,
    /// It is not.
    Refused,
}

impl Line {
    /// A command with its options.
    pub fn arguments(command: CommandName, to: Command) -> Command {
        let names: Vec<&str> = rows(command).map(|row| row.about().name).collect();
        let args = rows(command).flat_map(|row| arguments_of(command, row, &names));
        to.args(args.collect::<Vec<_>>())
    }

    /// What was typed for a command.
    pub fn read(command: CommandName, matches: &ArgMatches) -> Line {
        let mut found: Vec<(usize, Row, Act)> = Vec::new();
        for row in rows(command) {
            found.extend(acts(row, matches).into_iter().map(|(at, act)| (at, row, act)));
        }
        found.sort_by_key(|(at, _, _)| *at);
        let mut line = Line::default();
        for (_, row, act) in found {
            match &act {
                Act::Count(count) => row.count(&mut line.chosen, *count),
                Act::Value(reading) => row.apply(&mut line.chosen, reading),
            }
            if matches!(act, Act::Count(0)) {
                line.given.retain(|given| given.about.name != row.about().name);
            }
            line.given.extend(given(command, row, &act));
        }
        if let Ok(Some(paths)) = matches.try_get_many::<OsString>("paths") {
            line.paths = paths.cloned().collect();
        }
        line
    }

    /// Whether an option was given.
    pub fn has(&self, name: &str) -> bool {
        self.given.iter().any(|given| given.about.name == name)
    }

    /// Whether a program may be sent to a host that has none.
    pub fn consent(&self) -> Consent {
        match (self.has("no-push-binary"), self.has("push-binary")) {
            (true, _) => Consent::Refused,
            (_, true) => Consent::Given,
            _ => Consent::Asked,
        }
    }

    /// Refuses options that the carrier would silently ignore.
    ///
    /// # Errors
    /// `Usage`, with what to use instead.
    pub fn check(&self, command: CommandName, carrier: Carrier) -> Result<()> {
        let of_other = |given: &&Given| given.about.carrier.is_some_and(|only| only != carrier);
        let Some(given) = self.given.iter().find(of_other) else { return Ok(()) };
        let flag = shown(command, given.about);
        let reason = match carrier {
            Carrier::Ssh => {
                let option = rows(command).find(|row| row.about().name == "ssh-option");
                let option = option.map(|row| shown(command, row.about())).unwrap_or_default();
                format!(
                    "is for daemons (fobs://); over SSH, ssh checks the host's key: use {option} \
                     UserKnownHostsFile=FILE"
                )
            }
            Carrier::Daemon => {
                "is for copies over SSH, and fobs:// does not run ssh: leave it out".to_owned()
            }
        };
        Err(Error::new(ErrorKind::Usage, format!("{flag} {reason}")))
    }

    /// The options that count where the sources are, for another host that runs the copy; those that say how
    /// to reach hosts count here.
    pub fn far_words(&self) -> Vec<Vec<u8>> {
        let through_here = self.chosen.program.through_here;
        let counts = |given: &&Given| {
            given.about.side != Side::Here && !(through_here && given.about.name == "transport")
        };
        let words = self.given.iter().filter(counts).map(|given| given.word.clone());
        words.chain(through_here.then(|| b"--transport=ssh".to_vec())).collect()
    }
}

/// An option as a message of a command names it: by its letter where it has one.
fn shown(command: CommandName, about: &About) -> String {
    match (about.on(command).and_then(|it| it.letter), about.long()) {
        (Some(letter), _) => format!("-{letter}"),
        (None, long) => format!("--{}", long.unwrap_or(about.name)),
    }
}

/// What was done with an option.
enum Act {
    /// It was given so often; never is its `--no-` form.
    Count(u8),
    Value(Reading),
}

fn off_id(about: &About) -> String {
    format!("no-{}", about.name)
}

/// The option, and its `--no-` form.
fn arguments_of(command: CommandName, row: Row, names: &[&str]) -> Vec<Arg> {
    let about = row.about();
    let Some(usage) = about.on(command) else { return Vec::new() };
    let known = |others: &'static [&'static str]| others.iter().filter(|name| names.contains(name));
    let mut arg = Arg::new(about.name)
        .conflicts_with_all(known(about.conflicts))
        .overrides_with_all(known(about.overrides))
        .hide_short_help(about.rank == Rank::Long)
        .hide(about.rank == Rank::Hidden || about.standing != Standing::Done);
    if let Some(letter) = usage.letter {
        arg = arg.short(letter);
    }
    if let Some(long) = about.long() {
        arg = arg.long(long).visible_aliases(about.also.iter().copied());
    }
    arg = with_help(arg, about, usage);
    arg = match row.shape() {
        Shape::Switch => arg.action(ArgAction::SetTrue),
        Shape::Count => arg.action(ArgAction::Count),
        Shape::Value => with_value(arg.action(ArgAction::Set), row),
        Shape::List => with_value(arg.action(ArgAction::Append), row),
    };
    // As rsync, where a negative number means something of its own.
    let takes_value = matches!(row.shape(), Shape::Value | Shape::List);
    arg = arg.allow_negative_numbers(takes_value && command == CommandName::Sync);
    let mut args = vec![arg];
    if usage.negated {
        let letter = usage.letter.filter(|_| about.long().is_some()).map(String::from);
        let others = about.also.iter().copied().map(str::to_owned).chain(letter);
        let off = Arg::new(off_id(about)).long(off_id(about)).hide(true).action(ArgAction::SetTrue);
        args.push(off.aliases(others.map(|name| format!("no-{name}"))));
    }
    args
}

/// A command's own line of help goes without the details of another.
fn with_help(arg: Arg, about: &About, usage: &Use) -> Arg {
    let help = usage.help.unwrap_or(about.help);
    if about.detail.is_empty() || usage.help.is_some() {
        arg.help(help)
    } else {
        arg.help(help).long_help(format!("{help}\n\n{}", about.detail))
    }
}

fn with_value(arg: Arg, row: Row) -> Arg {
    let about = row.about();
    let Form { names, is_raw, may_be_hyphenated, one_of } = match row {
        Row::Transfer(flag) => form(&flag.takes),
        Row::Program(flag) => form(&flag.takes),
    };
    let read = move |word: &std::ffi::OsStr| row.read(word);
    let parser = if !one_of.is_empty() {
        let names = one_of.into_iter().map(|(name, help)| PossibleValue::new(name).help(help));
        ValueParser::new(PossibleValuesParser::new(names).try_map(move |name| read(name.as_ref())))
    } else if may_be_hyphenated && is_raw {
        ValueParser::new(OsStringValueParser::new().try_map(move |word| read(&word)))
    } else if is_raw {
        ValueParser::new(PathBufValueParser::new().try_map(move |path| read(path.as_os_str())))
    } else {
        ValueParser::new(StringValueParser::new().try_map(move |text| read(text.as_ref())))
    };
    let hint = match names {
        Names::File => ValueHint::FilePath,
        Names::Directory => ValueHint::DirPath,
        Names::Program => ValueHint::CommandName,
        Names::Host => ValueHint::Hostname,
        Names::Other => ValueHint::Unknown,
    };
    let arg = arg
        .value_name(about.value)
        .value_parser(parser)
        .value_hint(hint)
        .allow_hyphen_values(may_be_hyphenated);
    match about.default {
        Some(text) => arg.default_value(text),
        None => arg,
    }
}

/// Where an option was given, and how.
fn acts(row: Row, matches: &ArgMatches) -> Vec<(usize, Act)> {
    let about = row.about();
    let places = |id: &str| -> Vec<usize> {
        // The parser does not know an id that this command has no argument for.
        let is_known = matches.try_contains_id(id).is_ok_and(|is_given| is_given);
        if !is_known || matches.value_source(id) != Some(ValueSource::CommandLine) {
            return Vec::new();
        }
        matches.indices_of(id).into_iter().flatten().collect()
    };
    let at = places(about.name);
    let mut acts: Vec<(usize, Act)> = match row.shape() {
        Shape::Switch => at.last().map(|at| (*at, Act::Count(1))).into_iter().collect(),
        Shape::Count => {
            at.last().map(|at| (*at, Act::Count(matches.get_count(about.name)))).into_iter().collect()
        }
        Shape::Value | Shape::List => {
            let values = matches.get_many::<Reading>(about.name).into_iter().flatten();
            at.iter().copied().zip(values.map(|reading| Act::Value(reading.clone()))).collect()
        }
    };
    acts.extend(places(&off_id(about)).last().map(|at| (*at, Act::Count(0))));
    acts
}

/// An option as it was given; none for its `--no-` form, which takes it back.
fn given(command: CommandName, row: Row, act: &Act) -> Option<Given> {
    let about = row.about();
    let letter = about.on(command).and_then(|it| it.letter);
    let name = match (about.long(), letter) {
        (Some(long), _) => format!("--{long}"),
        (None, letter) => format!("-{}", letter.map(String::from).unwrap_or_default()),
    };
    let mut word = name.into_bytes();
    match act {
        Act::Count(0) => return None,
        Act::Count(_) => {}
        Act::Value(reading) => {
            if about.long().is_some() {
                word.push(b'=');
            }
            word.extend_from_slice(reading.text.as_bytes());
        }
    }
    Some(Given { about, word: OsString::from_vec(word).into_vec() })
}
