//! An option as data: its names, its value, its texts, and what it does to what a caller chooses.
//!
//! Each option of `fobs cp` and `fobs sync` is one row, with the type that it changes: what it does to a
//! [`TransferOptions`] is said here, and programs and libraries take it from here by name; what it does to
//! the program alone is a row of the same form in `fobs-cli`. Nothing here reads a command line: how a value
//! is written is its reader's, so a program takes `1Gbit` where a library takes bits per second.

mod copying;
mod reaching;
mod sending;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::{Carrier, MinRate, TransferOptions};

pub use copying::{RESUMING, STORING, TAKING};
pub use reaching::REACHING;
pub use sending::SENDING;

/// A row of the table: an option that changes a `T`.
#[derive(Debug)]
pub struct Flag<T: 'static> {
    /// What is said of it.
    pub about: About,
    /// What it takes, and what it does.
    pub takes: Takes<T>,
}

/// What is said of an option.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// Its long name; one letter if it has none.
    pub name: &'static str,
    /// Other long names.
    pub also: &'static [&'static str],
    /// The name of its value in the help.
    pub value: &'static str,
    /// Its line of help.
    pub help: &'static str,
    /// What its long help has beyond that.
    pub detail: &'static str,
    /// The commands that take it.
    pub on: &'static [Use],
    /// Its name for callers of the library.
    pub library: Option<&'static str>,
    /// Which ends of a transfer must know it.
    pub side: Side,
    /// The feature that the other end must have for it.
    pub feature: Option<&'static str>,
    /// The only carrier that has a use for it.
    pub carrier: Option<Carrier>,
    /// What it stands for where it is not given, if the help shows that as a value.
    pub default: Option<&'static str>,
    /// Options that it cannot be given with.
    pub conflicts: &'static [&'static str],
    /// Options that it takes back.
    pub overrides: &'static [&'static str],
    /// Options on the command line to which its default in a configuration gives way.
    pub yields: &'static [&'static str],
    /// Where its text stands.
    pub rank: Rank,
    /// Whether it does what it says.
    pub standing: Standing,
}

/// A command that takes an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// Which.
    pub command: CommandName,
    /// The option's letter there.
    pub letter: Option<char>,
    /// Its line of help there, where that is another.
    pub help: Option<&'static str>,
    /// Whether a configuration can set it.
    pub configurable: bool,
    /// Whether it has a form with `--no-` there that takes it back.
    pub negated: bool,
}

/// The commands that call another host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandName {
    /// `fobs cp`
    Cp,
    /// `fobs sync`
    Sync,
    /// `fobs doctor`
    Doctor,
    /// `fobs pipe`
    Pipe,
}

/// `fobs cp` takes it.
pub const CP: Use = Use::of(CommandName::Cp);
/// `fobs sync` takes it.
pub const SYNC: Use = Use::of(CommandName::Sync);
/// `fobs sync` takes it as rsync does: it is about one run, and `--no-` takes it back.
pub const RSYNC: Use = SYNC.of_one_run().negated();
/// `fobs doctor` takes it.
pub const DOCTOR: Use = Use::of(CommandName::Doctor);
/// `fobs pipe` takes it.
pub const PIPE: Use = Use::of(CommandName::Pipe);

/// Which ends of a transfer must know an option. One that only this end must know is not handed to another
/// host that runs a copy for this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// This one: it is about how the other is reached, or what is shown.
    Here,
    /// The end that sends.
    Sender,
    /// The end that receives.
    Receiver,
    /// Both.
    Both,
}

/// Where the text of an option stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// In every help.
    Shown,
    /// In the long help.
    Long,
    /// Nowhere.
    Hidden,
}

/// Whether an option does what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    Done,
    /// It is taken and does nothing, for this reason.
    Taken(&'static str),
    /// It is refused, for this reason.
    Refused(&'static str),
}

/// What an option takes, and what it does to a `T`.
#[derive(Debug)]
pub enum Takes<T: 'static> {
    /// Nothing: it is on, or off.
    Switch(fn(&mut T, bool)),
    /// Nothing, and how often it is given counts; zero is off.
    Count(fn(&mut T, u8)),
    /// Bits per second.
    Rate(fn(&mut T, u64)),
    /// Bytes.
    Size(Sizes, fn(&mut T, u64)),
    /// A whole number from the first to the second.
    Number(u64, u64, fn(&mut T, u64)),
    /// A time to wait, within [`TIMEOUT_RANGE`](super::TIMEOUT_RANGE).
    Time(fn(&mut T, Duration)),
    /// A rate and the time over which its mean counts.
    MinRate(fn(&mut T, MinRate)),
    /// A point in time.
    Moment(fn(&mut T, SystemTime)),
    /// The first and the last of some UDP ports.
    Ports(fn(&mut T, (u16, u16))),
    /// A path, or something else of any bytes.
    Path(Names, fn(&mut T, PathBuf)),
    /// Paths or words of any bytes, one each time it is given; they may begin with a hyphen.
    Words(Names, fn(&mut T, OsString)),
    /// A text.
    Text(Names, fn(&mut T, String)),
    /// Texts, one each time it is given.
    Texts(fn(&mut T, String)),
    /// One of these names, each with a line of help.
    OneOf(fn() -> Vec<(&'static str, &'static str)>, Read<T>),
    /// A text of a form of its own.
    Form(Read<T>),
    /// Texts of a form of its own, one each time it is given; they may begin with a hyphen.
    Forms(Read<T>),
}

/// Reads a text into a `T`, or says what to write instead.
pub type Read<T> = fn(&mut T, &str) -> Result<(), String>;

/// Which sizes are possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The smallest, bytes.
    pub least: u64,
    /// The largest, bytes.
    pub most: u64,
    /// What is said of others.
    pub wrong: &'static str,
}

/// What a value names, so that a shell can complete it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A program.
    Program,
    /// A host.
    Host,
    /// None of these.
    Other,
}

impl Use {
    const fn of(command: CommandName) -> Use {
        Use { command, letter: None, help: None, configurable: true, negated: false }
    }

    /// It has this letter.
    pub const fn letter(mut self, letter: char) -> Use {
        self.letter = Some(letter);
        self
    }

    /// Its help is another.
    pub const fn help(mut self, help: &'static str) -> Use {
        self.help = Some(help);
        self
    }

    /// No configuration can set it: what it does would surprise in any other run.
    pub const fn of_one_run(mut self) -> Use {
        self.configurable = false;
        self
    }

    /// A configuration can set it, whatever it is.
    pub const fn configurable(mut self) -> Use {
        self.configurable = true;
        self
    }

    /// `--no-` takes it back.
    pub const fn negated(mut self) -> Use {
        self.negated = true;
        self
    }
}

impl About {
    /// The long name, if it has one.
    pub fn long(&self) -> Option<&'static str> {
        (self.name.len() > 1).then_some(self.name)
    }

    /// How a command takes it, if it does.
    pub fn on(&self, command: CommandName) -> Option<&'static Use> {
        self.on.iter().find(|it| it.command == command)
    }
}

impl<T> Flag<T> {
    /// A row without help, for `fobs cp` and `fobs sync`.
    pub const fn new(name: &'static str, value: &'static str, takes: Takes<T>) -> Flag<T> {
        let about = About {
            name,
            also: &[],
            value,
            help: "",
            detail: "",
            on: &[CP, SYNC],
            library: None,
            side: Side::Here,
            feature: None,
            carrier: None,
            default: None,
            conflicts: &[],
            overrides: &[],
            yields: &[],
            rank: Rank::Shown,
            standing: Standing::Done,
        };
        Flag { about, takes }
    }

    /// A row of something that is on or off.
    pub const fn switch(name: &'static str, set: fn(&mut T, bool)) -> Flag<T> {
        Flag::new(name, "", Takes::Switch(set))
    }

    /// Its line of help.
    pub const fn help(mut self, help: &'static str) -> Flag<T> {
        self.about.help = help;
        self
    }

    /// What its long help has beyond that.
    pub const fn detail(mut self, detail: &'static str) -> Flag<T> {
        self.about.detail = detail;
        self
    }

    /// The commands that take it.
    pub const fn on(mut self, on: &'static [Use]) -> Flag<T> {
        self.about.on = on;
        self
    }

    /// Other long names.
    pub const fn also(mut self, also: &'static [&'static str]) -> Flag<T> {
        self.about.also = also;
        self
    }

    /// Its name for callers of the library.
    pub const fn library(mut self, name: &'static str) -> Flag<T> {
        self.about.library = Some(name);
        self
    }

    /// Which ends must know it.
    pub const fn side(mut self, side: Side) -> Flag<T> {
        self.about.side = side;
        self
    }

    /// The feature that the other end must have.
    pub const fn feature(mut self, feature: &'static str) -> Flag<T> {
        self.about.feature = Some(feature);
        self
    }

    /// The only carrier that has a use for it.
    pub const fn carrier(mut self, carrier: Carrier) -> Flag<T> {
        self.about.carrier = Some(carrier);
        self
    }

    /// The value that it has where it is not given.
    pub const fn default(mut self, text: &'static str) -> Flag<T> {
        self.about.default = Some(text);
        self
    }

    /// What it cannot be given with.
    pub const fn conflicts(mut self, others: &'static [&'static str]) -> Flag<T> {
        self.about.conflicts = others;
        self
    }

    /// What it takes back.
    pub const fn overrides(mut self, others: &'static [&'static str]) -> Flag<T> {
        self.about.overrides = others;
        self
    }

    /// What its default in a configuration gives way to.
    pub const fn yields(mut self, others: &'static [&'static str]) -> Flag<T> {
        self.about.yields = others;
        self
    }

    /// Where its text stands.
    pub const fn rank(mut self, rank: Rank) -> Flag<T> {
        self.about.rank = rank;
        self
    }

    /// Whether it does what it says.
    pub const fn standing(mut self, standing: Standing) -> Flag<T> {
        self.about.standing = standing;
        self
    }
}

/// All rows that change a [`TransferOptions`].
pub fn of_transfers() -> impl Iterator<Item = &'static Flag<TransferOptions>> {
    [TAKING, STORING, RESUMING, REACHING, SENDING].into_iter().flatten()
}
