//! `fobs config`: the files, and each effective value with its origin.

use std::io::{self, Write};

use fobs::{Error, ErrorKind, Result};
use rustix::fs::{Access, access};

use super::file::Value;
use super::hosts::Target;
use super::keys::{self, Key};
use super::sources::{Places, Setting, fits};
use super::{check, definition};
use crate::args::config::ConfigArgs;
use crate::flags::Shape;
use crate::output;

/// Runs `fobs config`.
///
/// # Errors
/// `Usage` for a mistake in the configuration or the host, `FileIo` if the answer cannot be printed.
pub fn run(args: &ConfigArgs) -> Result<()> {
    let places = Places::of_this_process();
    let text = if args.path {
        files(&places)
    } else {
        let target =
            args.host.as_ref().map_or_else(|| Ok(Target::default()), |host| Target::of_host(host))?;
        let rows = if args.why { Rows::All } else { Rows::Set };
        values(&places, &target, rows)?
    };
    if text.is_empty() {
        output::note("nothing is set; fobs config --why lists every key, fobs config --path the files");
    }
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
        let readable = path.metadata().and_then(|_| Ok(access(path, Access::READ_OK)?));
        format!("{}{}\n", path.display(), state(&readable))
    };
    places.files().map(line).collect()
}

/// What is to be said of a file that was looked at.
fn state(readable: &io::Result<()>) -> &'static str {
    match readable.as_ref().map_err(io::Error::kind) {
        Ok(()) => "",
        Err(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => "  (does not exist)",
        Err(_) => "  (may not be read)",
    }
}

/// Which keys are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Those that are set somewhere; without a host, also those that are set for some.
    Set,
    /// All.
    All,
}

/// A line for each key: its name, its value, its origin. Here, a variable that sets nothing is a mistake.
pub fn values(places: &Places, target: &Target, which: Rows) -> Result<String> {
    let program = definition();
    let keys = keys::all();
    let sources = places.read(&keys, |words| check(&program, words))?;
    if let Some(mistake) = sources.unknown().first() {
        return Err(Error::new(ErrorKind::Usage, mistake.clone()));
    }
    sources.notices().for_each(|notice| output::note(notice));
    let effective = sources.effective(target);
    let mut rows = Vec::new();
    for key in keys.iter().filter(|key| fits(key, target.carrier)) {
        let setting = effective.iter().find(|setting| setting.key == key.name);
        rows.extend(match setting {
            Some(setting) => Some(row(setting)),
            None => (which == Rows::All).then(|| [key.name.to_owned(), default(key), "default".to_owned()]),
        });
    }
    if which == Rows::Set && target.host.is_none() {
        rows.extend(sources.of_blocks().map(row));
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let line = |[name, value, origin]: &[String; 3]| format!("{name:first$}  {value:second$}  {origin}\n");
    Ok(rows.iter().map(line).collect())
}

fn row(setting: &Setting) -> [String; 3] {
    [setting.key.clone(), shown(&setting.value), setting.origin.to_string()]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_may_not_be_read_exists() {
        for (kind, said) in [
            (io::ErrorKind::NotFound, "  (does not exist)"),
            (io::ErrorKind::NotADirectory, "  (does not exist)"),
            (io::ErrorKind::PermissionDenied, "  (may not be read)"),
        ] {
            assert_eq!(state(&Err(kind.into())), said);
        }
        assert_eq!(state(&Ok(())), "");
    }
}
