//! The keys of the configuration: the options of the table that can have a default, under their long names.

use fobs::options::Carrier;
use fobs::options::flag::{CommandName, Names};

use super::file::Value;
use crate::flags::{self, Row, Shape};
use crate::spelling::nearest;

/// Subcommands whose options can have defaults.
pub const COMMANDS: &[(&str, CommandName)] = &[
    ("cp", CommandName::Cp),
    ("sync", CommandName::Sync),
    ("doctor", CommandName::Doctor),
    ("pipe", CommandName::Pipe),
];

/// Options of one run that no row of the table is about.
const OF_ONE_RUN: &[&str] = &["dir", "seconds", "listen", "help", "version"];

/// Largest value of an option that is counted.
const COUNT_MAX: usize = 9;

/// An option that can have a default.
#[derive(Debug, Clone)]
pub struct Key {
    /// Its long name, which is the id of its argument.
    pub name: &'static str,
    /// Its type.
    pub kind: Shape,
    /// The only carrier that knows it; `None` for both.
    pub carrier: Option<Carrier>,
    /// What holds where nothing is set; `None` if the program decides.
    pub default: Option<&'static str>,
    /// Whether its value is a path, so that `~/` at its start is the home directory.
    pub is_path: bool,
    /// Options on the command line to which it gives way.
    pub yields: &'static [&'static str],
}

/// All keys of the given command, in the order of its help.
pub fn of(command: CommandName) -> Vec<Key> {
    flags::rows(command).filter(|row| row.is_configurable(command)).map(key).collect()
}

/// All keys of all commands, each once.
pub fn all() -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for key in COMMANDS.iter().flat_map(|(_, command)| of(*command)) {
        if !keys.iter().any(|known| known.name == key.name) {
            keys.push(key);
        }
    }
    keys
}

fn key(row: Row) -> Key {
    let about = row.about();
    Key {
        name: about.name,
        kind: row.shape(),
        carrier: about.carrier,
        default: about.default,
        is_path: matches!(row.names(), Names::File | Names::Directory),
        yields: about.yields,
    }
}

impl Key {
    /// The arguments that set it.
    ///
    /// # Errors
    /// A sentence about a value of another type.
    pub fn arguments(&self, value: &Value) -> Result<Vec<String>, String> {
        let flag = format!("--{}", self.name);
        let set = |text: &String| format!("{flag}={text}");
        let wrong = |wanted: &str| Err(format!("{} takes {wanted}, not {}", self.name, type_of(value)));
        match (self.kind, value) {
            (Shape::Switch | Shape::Count, Value::Flag(on)) => Ok(if *on { vec![flag] } else { Vec::new() }),
            (Shape::Switch, _) => wrong("true or false"),
            (Shape::Count, Value::Number(number)) => match number.parse::<usize>() {
                Ok(count) if count <= COUNT_MAX => Ok(vec![flag; count]),
                _ => Err(format!("{} takes a number from 0 to {COUNT_MAX}, not {number}", self.name)),
            },
            (Shape::Count, _) => wrong("a number"),
            (Shape::Value | Shape::List, Value::Text(text) | Value::Number(text)) => Ok(vec![set(text)]),
            (Shape::Value, _) => wrong("a text"),
            (Shape::List, Value::List(texts)) => Ok(texts.iter().map(set).collect()),
            (Shape::List, _) => wrong("a list of texts"),
        }
    }

    /// The value of a variable: lines are the items of a list.
    ///
    /// # Errors
    /// A sentence about a text of another form.
    pub fn value_of(&self, text: &str) -> Result<Value, String> {
        match (self.kind, text.to_ascii_lowercase().as_str()) {
            (Shape::Switch | Shape::Count, "true" | "yes" | "1") => Ok(Value::Flag(true)),
            (Shape::Switch | Shape::Count, "false" | "no" | "0") => Ok(Value::Flag(false)),
            (Shape::Switch, _) => Err(format!("{} takes true or false, not {text:?}", self.name)),
            (Shape::Count, _) => Ok(Value::Number(text.to_owned())),
            (Shape::Value, _) => Ok(Value::Text(text.to_owned())),
            (Shape::List, _) => Ok(Value::List(text.lines().map(str::to_owned).collect())),
        }
    }

    /// Its variable: `FOBS_ACK_EVERY`.
    pub fn variable(&self) -> String {
        format!("FOBS_{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Flag(_) => "true or false",
        Value::Number(_) => "a number",
        Value::Text(_) => "a text",
        Value::List(_) => "a list",
    }
}

/// Why `name` is no key, with the one that was probably meant.
pub fn unknown(name: &str, keys: &[Key]) -> String {
    let is_option = |name| {
        let mut rows = COMMANDS.iter().flat_map(|(_, command)| flags::rows(*command));
        rows.any(|row| row.about().long() == Some(name))
    };
    if OF_ONE_RUN.contains(&name) || is_option(name) {
        return format!("{name} cannot have a default: give --{name} to the command that it is for");
    }
    match nearest(name, keys.iter().map(|key| key.name)) {
        Some(meant) => format!("there is no key {name:?}; did you mean {meant:?}?"),
        None => format!("there is no key {name:?}; 'fobs config --why' lists them all"),
    }
}
