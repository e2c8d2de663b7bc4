//! Filter rules on the command line of `fobs sync`: their order counts across options.

use std::ffi::OsString;

use clap::builder::OsStringValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, ValueHint};

/// The rules, in the order in which they are given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleWords(pub Vec<(RuleOption, OsString)>);

/// The option that a rule came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleOption {
    Filter,
    Exclude,
    Include,
    ExcludeFrom,
    IncludeFrom,
}

/// Options, value names and help.
const OPTIONS: [(RuleOption, &str, &str, &str); 5] = [
    (RuleOption::Filter, "filter", "RULE", "Add a filter rule, as in '- *.o' or 'protect /keep'"),
    (RuleOption::Exclude, "exclude", "PATTERN", "Leave out names that match"),
    (RuleOption::Include, "include", "PATTERN", "Do not leave out names that match"),
    (
        RuleOption::ExcludeFrom,
        "exclude-from",
        "FILE",
        "Leave out names that match a pattern in FILE ('-': standard input)",
    ),
    (RuleOption::IncludeFrom, "include-from", "FILE", "Do not leave out names that match a pattern in FILE"),
];

impl Args for RuleWords {
    fn augment_args(command: Command) -> Command {
        command.args(OPTIONS.map(|(option, long, value, help)| {
            let mut arg = Arg::new(long)
                .long(long)
                .value_name(value)
                .help(help)
                .action(ArgAction::Append)
                .allow_hyphen_values(true)
                .value_parser(OsStringValueParser::new());
            if option == RuleOption::Filter {
                arg = arg.short('f');
            }
            if value == "FILE" {
                arg = arg.value_hint(ValueHint::FilePath);
            }
            arg
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RuleWords {
    fn from_arg_matches(matches: &ArgMatches) -> Result<RuleWords, Error> {
        let mut words = RuleWords::default();
        words.update_from_arg_matches(matches).map(|()| words)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        let mut placed = Vec::new();
        for (option, long, _, _) in OPTIONS {
            let values = matches.get_many::<OsString>(long).into_iter().flatten();
            let places = matches.indices_of(long).into_iter().flatten();
            placed.extend(places.zip(values).map(|(at, value)| (at, option, value.clone())));
        }
        placed.sort_by_key(|(at, _, _)| *at);
        self.0 = placed.into_iter().map(|(_, option, value)| (option, value)).collect();
        Ok(())
    }
}
