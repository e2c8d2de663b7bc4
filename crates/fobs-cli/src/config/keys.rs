//! The keys of the configuration: the long options that can have a default, taken from the definition of the
//! command line, so that both have the same names and checks.

use clap::{Arg, ArgAction, Command, ValueHint};
use fobs::options::Carrier;

use super::file::Value;

/// Subcommands whose options can have defaults.
pub const COMMANDS: [&str; 3] = ["cp", "sync", "doctor"];

/// Options of one run: what they do would surprise in any other.
const ONE_RUN: [&str; 6] = ["json", "trace", "dir", "seconds", "help", "version"];

/// Options of `sync` that can have a default: the way to a host and how it is used. What a sync chooses,
/// keeps and deletes stands on its command line.
const OF_SYNC: [&str; 21] = [
    "cc",
    "compress",
    "deadline",
    "fobs-path",
    "fsync",
    "identity",
    "ipv4",
    "ipv6",
    "jump",
    "known-hosts",
    "memory",
    "min-rate",
    "port",
    "priority",
    "rate",
    "ssh",
    "ssh-config",
    "ssh-option",
    "timeout",
    "transport",
    "udp-ports",
];

/// Options that one carrier knows and the other refuses.
const OF_ONE_CARRIER: [(&str, Carrier); 6] = [
    ("known-hosts", Carrier::Daemon),
    ("ssh-config", Carrier::Ssh),
    ("jump", Carrier::Ssh),
    ("ssh-option", Carrier::Ssh),
    ("ssh", Carrier::Ssh),
    ("fobs-path", Carrier::Ssh),
];

/// Largest value of an option that is counted.
const COUNT_MAX: usize = 9;

/// How many changed letters make a name a misspelling of another.
const TYPING_ERRORS_MAX: usize = 2;

/// An option that can have a default.
#[derive(Debug, Clone)]
pub struct Key {
    /// Its long name.
    pub name: String,
    /// The id of its argument.
    pub id: String,
    /// Its type.
    pub kind: Kind,
    /// The only carrier that knows it; `None` for both.
    pub carrier: Option<Carrier>,
    /// What holds where nothing is set; `None` if the program decides.
    pub default: Option<String>,
    /// Whether its value is a path, so that `~/` at its start is the home directory.
    pub is_path: bool,
}

/// The type of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// On or off.
    Flag,
    /// How often a flag is given.
    Count,
    /// One value.
    Value,
    /// Any number of values.
    List,
}

/// All keys of the given subcommand, in the order of its help.
pub fn of(command: &Command) -> Vec<Key> {
    let all = command.get_arguments().filter(|argument| !argument.is_hide_set()).filter_map(key);
    let is_key = |key: &Key| command.get_name() != "sync" || OF_SYNC.contains(&key.name.as_str());
    all.filter(is_key).collect()
}

/// All keys of all subcommands, each once.
pub fn all(program: &Command) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for command in COMMANDS.iter().filter_map(|name| program.find_subcommand(name)) {
        for key in of(command) {
            if !keys.iter().any(|known| known.name == key.name) {
                keys.push(key);
            }
        }
    }
    keys
}

fn key(argument: &Arg) -> Option<Key> {
    let name = argument.get_long().filter(|name| !ONE_RUN.contains(name))?;
    let kind = match argument.get_action() {
        ArgAction::SetTrue => Kind::Flag,
        ArgAction::Count => Kind::Count,
        ArgAction::Append => Kind::List,
        _ => Kind::Value,
    };
    let defaults = argument.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
    let hint = argument.get_value_hint();
    Some(Key {
        name: name.to_owned(),
        id: argument.get_id().as_str().to_owned(),
        kind,
        carrier: OF_ONE_CARRIER.iter().find(|(of_one, _)| *of_one == name).map(|(_, carrier)| *carrier),
        default: defaults,
        is_path: matches!(hint, ValueHint::FilePath | ValueHint::DirPath | ValueHint::AnyPath),
    })
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
            (Kind::Flag | Kind::Count, Value::Flag(on)) => Ok(if *on { vec![flag] } else { Vec::new() }),
            (Kind::Flag, _) => wrong("true or false"),
            (Kind::Count, Value::Number(number)) => match number.parse::<usize>() {
                Ok(count) if count <= COUNT_MAX => Ok(vec![flag; count]),
                _ => Err(format!("{} takes a number from 0 to {COUNT_MAX}, not {number}", self.name)),
            },
            (Kind::Count, _) => wrong("a number"),
            (Kind::Value | Kind::List, Value::Text(text) | Value::Number(text)) => Ok(vec![set(text)]),
            (Kind::Value, _) => wrong("a text"),
            (Kind::List, Value::List(texts)) => Ok(texts.iter().map(set).collect()),
            (Kind::List, _) => wrong("a list of texts"),
        }
    }

    /// The value of a variable: lines are the items of a list.
    ///
    /// # Errors
    /// A sentence about a text of another form.
    pub fn value_of(&self, text: &str) -> Result<Value, String> {
        match (self.kind, text.to_ascii_lowercase().as_str()) {
            (Kind::Flag | Kind::Count, "true" | "yes" | "1") => Ok(Value::Flag(true)),
            (Kind::Flag | Kind::Count, "false" | "no" | "0") => Ok(Value::Flag(false)),
            (Kind::Flag, _) => Err(format!("{} takes true or false, not {text:?}", self.name)),
            (Kind::Count, _) => Ok(Value::Number(text.to_owned())),
            (Kind::Value, _) => Ok(Value::Text(text.to_owned())),
            (Kind::List, _) => Ok(Value::List(text.lines().map(str::to_owned).collect())),
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
    if ONE_RUN.contains(&name) {
        return format!("{name} cannot have a default: give --{name} to the command that it is for");
    }
    match nearest(name, keys.iter().map(|key| key.name.as_str())) {
        Some(meant) => format!("there is no key {name:?}; did you mean {meant:?}?"),
        None => format!("there is no key {name:?}; 'fobs config --why' lists them all"),
    }
}

/// The name that `typed` is probably a misspelling of.
pub fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = typed.to_ascii_lowercase().replace('_', "-");
    names
        .map(|name| (strsim::damerau_levenshtein(&plain, name), name))
        .filter(|(errors, name)| *errors <= TYPING_ERRORS_MAX && *errors < name.len().min(plain.len()))
        .min_by_key(|(errors, _)| *errors)
        .map(|(_, name)| name)
}
