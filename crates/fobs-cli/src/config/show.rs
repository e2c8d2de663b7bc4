//! `fobs config`: the files, and each effective value with its origin.

use std::io::{self, Write};

use fobs::{Error, ErrorKind, Result};

use super::file::Value;
use super::hosts::Target;
use super::keys::{self, Key};
use super::sources::{Places, fits};
use super::{check, definition};
use crate::args::config::ConfigArgs;
use crate::flags::Shape;

/// Runs `fobs config`.
///
/// # Errors
/// `Usage` for a mistake in the configuration or the host, `FileIo` if the answer cannot be printed.
pub fn run(args: &ConfigArgs) -> Result<()> {
    let places = Places::of_this_process();
    let text = match (args.path, &args.host) {
        (true, _) => files(&places),
        (false, None) => values(&places, &Target::default())?,
        (false, Some(host)) => values(&places, &Target::of_host(host)?)?,
    };
    match io::stdout().write_all(text.as_bytes()) {
        // A closed pipe is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::new(ErrorKind::FileIo, format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// The files, the one with the highest precedence first.
fn files(places: &Places) -> String {
    let line = |path: &std::path::Path| {
        let state = if path.exists() { "" } else { "  (does not exist)" };
        format!("{}{state}\n", path.display())
    };
    places.files().map(line).collect()
}

/// A line for each key: its name, its value, its origin.
pub fn values(places: &Places, target: &Target) -> Result<String> {
    let program = definition();
    let keys = keys::all();
    let sources = places.read(&keys, |words| check(&program, words))?;
    let effective = sources.effective(target);
    let mut rows = Vec::new();
    for key in keys.iter().filter(|key| fits(key, target.carrier)) {
        let setting = effective.iter().find(|setting| setting.key == key.name);
        rows.push(match setting {
            Some(setting) => [key.name.to_owned(), shown(&setting.value), setting.origin.to_string()],
            None => [key.name.to_owned(), default(key), "default".to_owned()],
        });
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let line = |[name, value, origin]: &[String; 3]| format!("{name:first$}  {value:second$}  {origin}\n");
    Ok(rows.iter().map(line).collect())
}

/// A value as a configuration file has it.
fn shown(value: &Value) -> String {
    match value {
        Value::Flag(flag) => flag.to_string(),
        Value::Number(number) => number.clone(),
        Value::Text(text) => format!("{text:?}"),
        Value::List(texts) => format!("{texts:?}"),
    }
}

fn default(key: &Key) -> String {
    match (key.kind, key.default) {
        (Shape::Switch, _) => "false".to_owned(),
        (Shape::Count, _) => "0".to_owned(),
        (_, Some(value)) => format!("{value:?}"),
        (Shape::List, None) => "[]".to_owned(),
        (Shape::Value, None) => "-".to_owned(),
    }
}
