//! The options of `fobs cp`, `fobs sync` and `fobs doctor`: one table, a row for each.
//!
//! A row says an option's names, value and help, which command takes it, and what it does. Rows about a
//! transfer are those of `fobs::options::flag`; here are those about this program alone, and what both
//! become: arguments of the parser with help, man page and completions ([`line`]), keys of the configuration
//! (`config/keys.rs`), and the words that another host is given ([`Line::far_words`]).

mod line;
mod program;
mod refused;
pub mod sync;
mod taken;
pub mod there;
mod value;
pub mod words;

use std::ffi::OsStr;

use fobs::options::TransferOptions;
use fobs::options::flag::{
    About, CommandName, Flag, Names, REACHING, RESUMING, Rank, SENDING, STORING, Standing, TAKING, Takes,
};

pub use line::{Consent, Line};
pub use program::ProgramWords;
use sync::SyncWords;
use value::Reading;

/// What the options of a command line say together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chosen {
    /// About the transfer; [`Chosen::transfer`] makes the whole of them.
    pub options: TransferOptions,
    /// About what a sync does.
    pub sync: SyncWords,
    /// About this program.
    pub program: ProgramWords,
    /// `-l`, `--bwlimit`: the highest rate, or none.
    pub limit: Option<Limit>,
    /// The first option that is refused, and why.
    pub refused: Option<String>,
}

impl Chosen {
    /// The user's highest rate by whichever option, bits per second.
    pub fn rate_limit(&self) -> Option<u64> {
        self.limit.map_or(self.options.rate_limit, |limit| limit.bits_per_second)
    }
}

/// A highest rate that is not that of `--cc fixed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Bits per second, or no limit.
    pub bits_per_second: Option<u64>,
}

/// A row, by what it changes.
#[derive(Debug, Clone, Copy)]
pub enum Row {
    /// A transfer, as the library has it.
    Transfer(&'static Flag<TransferOptions>),
    /// This program.
    Program(&'static Flag<Chosen>),
}

/// What an option takes, for its readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Nothing.
    Switch,
    /// Nothing, and it is counted.
    Count,
    /// One value.
    Value,
    /// A value each time it is given.
    List,
}

impl Row {
    /// What is said of it.
    pub fn about(self) -> &'static About {
        match self {
            Row::Transfer(flag) => &flag.about,
            Row::Program(flag) => &flag.about,
        }
    }

    /// What it takes.
    pub fn shape(self) -> Shape {
        match self {
            Row::Transfer(flag) => shape(&flag.takes),
            Row::Program(flag) => shape(&flag.takes),
        }
    }

    /// What its value names.
    pub fn names(self) -> Names {
        match self {
            Row::Transfer(flag) => value::form(&flag.takes).names,
            Row::Program(flag) => value::form(&flag.takes).names,
        }
    }

    /// Whether a default in a configuration has a meaning for a command.
    pub fn is_configurable(self, command: CommandName) -> bool {
        let about = self.about();
        let of_use = about.on(command).is_some_and(|it| it.configurable);
        of_use && about.long().is_some() && about.rank != Rank::Hidden && about.standing == Standing::Done
    }

    /// What giving it so often does; none is off.
    fn count(self, to: &mut Chosen, count: u8) {
        match self {
            Row::Transfer(flag) => set_count(&flag.takes, &mut to.options, count),
            Row::Program(flag) => set_count(&flag.takes, to, count),
        }
        if let (Standing::Refused(why), true) = (self.about().standing, count > 0) {
            self.refuse(to, why);
        }
    }

    /// Reads a value.
    ///
    /// # Errors
    /// A sentence with what to write instead.
    fn read(self, word: &OsStr) -> Result<Reading, String> {
        match self {
            Row::Transfer(flag) => value::read(&flag.takes, |it| &mut it.options, word),
            Row::Program(flag) => value::read(&flag.takes, |it| it, word),
        }
    }

    /// Does what a value says.
    fn apply(self, to: &mut Chosen, reading: &Reading) {
        reading.apply(to);
        if let Standing::Refused(why) = self.about().standing {
            self.refuse(to, why);
        }
    }

    fn refuse(self, to: &mut Chosen, why: &str) {
        let about = self.about();
        let letter = about.on.iter().find_map(|it| it.letter);
        let name = match (about.long(), letter) {
            (Some(long), Some(letter)) => format!("--{long} (-{letter})"),
            (Some(long), None) => format!("--{long}"),
            (None, _) => format!("-{}", about.name),
        };
        to.refused.get_or_insert_with(|| format!("{name} is not built: {why}"));
    }
}

fn shape<T>(takes: &Takes<T>) -> Shape {
    match takes {
        Takes::Switch(_) => Shape::Switch,
        Takes::Count(_) => Shape::Count,
        Takes::Words(..) | Takes::Texts(_) | Takes::Forms(_) => Shape::List,
        _ => Shape::Value,
    }
}

fn set_count<T>(takes: &Takes<T>, to: &mut T, count: u8) {
    match takes {
        Takes::Switch(set) => set(to, count > 0),
        Takes::Count(set) => set(to, count),
        _ => {}
    }
}

/// The rows of a command, in the order of its help.
pub fn rows(command: CommandName) -> impl Iterator<Item = Row> {
    let transfer = |rows: &'static [Flag<TransferOptions>]| rows.iter().map(Row::Transfer).collect();
    let program = |rows: &'static [Flag<Chosen>]| rows.iter().map(Row::Program).collect();
    let groups: Vec<Vec<Row>> = match command {
        CommandName::Cp => vec![
            transfer(TAKING),
            program(program::SAYING),
            transfer(STORING),
            transfer(RESUMING),
            transfer(REACHING),
            program(program::HERE),
            transfer(SENDING),
            program(program::TELLING),
        ],
        CommandName::Sync => vec![
            program(sync::CHOOSING),
            program(sync::LEAVING),
            program(sync::CONTINUING),
            program(sync::DELETING),
            program(sync::ATTRIBUTES),
            transfer(STORING),
            program(sync::RUNNING),
            program(program::SAYING),
            program(program::NAMES),
            program(sync::RULES),
            program(sync::VALUES),
            transfer(SENDING),
            transfer(REACHING),
            program(program::TELLING),
            program(taken::TAKEN),
            program(refused::REFUSED),
        ],
        CommandName::Doctor => vec![transfer(SENDING), transfer(REACHING)],
        CommandName::Pipe => vec![
            program(program::SAYING),
            transfer(STORING),
            transfer(REACHING),
            transfer(SENDING),
            program(program::TELLING),
        ],
    };
    groups.into_iter().flatten().filter(move |row| row.about().on(command).is_some())
}

#[cfg(test)]
mod tests;
