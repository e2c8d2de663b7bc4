//! The options before a key: `read-write,path="sub/dir",sessions=2,rate=1Gbit,open-files=128`.

use super::KEY_TYPE;
use super::limits::{KeyLimits, parse_count, parse_rate};
use fobs_model::error::Error;
use fobs_model::options::Privileges;
use fobs_model::rights::{Access, PipeCommand, PipeNames, Rights};

/// What may stand there beside an access, as it is written, and what it says.
const OTHERS: &[(&str, &str)] = &[
    ("privileged", "files may get owners, set-id bits, devices and any attributes"),
    ("path=\"sub/dir\"", "only there; may be given more than once"),
    (
        "pipe=\"COMMAND\"",
        "run this command of fixed words for fobs pipe; %k is the name that the client gives",
    ),
    ("pipe-names", "join its programs to those of other keys by name (fobs pipe)"),
    ("sessions=N", "at most N copies at once"),
    ("rate=RATE", "at most this rate over all its copies, as in 500Mbit"),
    ("open-files=N", "at most N file descriptors of the daemon"),
];

/// The options that may stand before a key, as they are written, each with what it lets the key do.
pub fn key_options() -> impl Iterator<Item = (&'static str, &'static str)> {
    Access::ALL.iter().copied().map(|access| (access.name(), access.summary())).chain(OTHERS.iter().copied())
}

/// Length of the options: up to the first white space outside quotes.
pub(super) fn options_len(line: &[u8]) -> Result<usize, String> {
    let mut quoted = false;
    let mut escaped = false;
    for (index, byte) in line.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            byte if byte.is_ascii_whitespace() && !quoted => return Ok(index),
            _ => {}
        }
    }
    Err(if quoted {
        "a quote is not closed".to_owned()
    } else {
        format!("there is no key; expected [options] {KEY_TYPE} BASE64 [comment]")
    })
}

/// The rights and limits that the options give.
pub(super) fn parse_options(options: &[u8]) -> Result<(Rights, KeyLimits), String> {
    let (mut access, mut paths, mut limits) = (None, Vec::new(), KeyLimits::default());
    let (mut pipe, mut names) = (None, PipeNames::Refused);
    let mut privileges = Privileges::Withheld;
    let mut rest = options;
    while !rest.is_empty() {
        let (option, after) = next_option(rest)?;
        match option.value {
            None if option.name == b"privileged" => privileges = Privileges::OfTheUser,
            None if option.name == b"pipe-names" => names = PipeNames::Allowed,
            None => {
                let named = Access::from_name(option.name).ok_or_else(|| unknown(option.name))?;
                if access.replace(named).is_some() {
                    let names = listed(Access::ALL.iter().map(|access| access.name()));
                    return Err(format!("{names} exclude each other; keep one"));
                }
            }
            Some(value) => match option.name {
                b"path" => paths.push(value),
                b"pipe" => once("pipe", &mut pipe, PipeCommand::read(&value).map_err(why))?,
                b"sessions" => once("sessions", &mut limits.sessions, parse_count(&value))?,
                b"rate" => once("rate", &mut limits.rate_bps, parse_rate(&value))?,
                b"open-files" => once("open-files", &mut limits.open_files, parse_count(&value))?,
                name => return Err(unknown(name)),
            },
        }
        rest = match after {
            [] => after,
            [b','] => return Err("an option is missing after the last comma".to_owned()),
            [b',', next @ ..] => next,
            _ => return Err("a comma is missing after a quoted value".to_owned()),
        };
    }
    limits.check()?;
    let rights = Rights::new(access.unwrap_or(Access::ReadOnly)).with_privileges(privileges);
    let rights = paths.iter().try_fold(rights.map_err(why)?, |rights, path| rights.with_path(path));
    Ok((rights.map_err(why)?.with_pipe(pipe).with_pipe_names(names), limits))
}

/// One option: `NAME` or `NAME=VALUE`.
struct RawOption<'a> {
    name: &'a [u8],
    value: Option<Vec<u8>>,
}

/// The first option and what follows it.
fn next_option(text: &[u8]) -> Result<(RawOption<'_>, &[u8]), String> {
    let end = text.iter().position(|byte| matches!(byte, b',' | b'=')).unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    let Some(after) = after.strip_prefix(b"=") else { return Ok((RawOption { name, value: None }, after)) };
    let (value, after) = match after {
        [b'"', quoted @ ..] => quoted_value(quoted)?,
        _ if name == b"path" => return Err("path needs quotes: path=\"sub/dir\"".to_owned()),
        _ if name == b"pipe" => return Err("pipe needs quotes: pipe=\"zfs receive tank/%k\"".to_owned()),
        _ => {
            let end = after.iter().position(|byte| *byte == b',').unwrap_or(after.len());
            (after[..end].to_vec(), &after[end..])
        }
    };
    Ok((RawOption { name, value: Some(value) }, after))
}

fn unknown(name: &[u8]) -> String {
    let known = listed(key_options().map(|(syntax, _)| syntax));
    format!("option {:?} is unknown; there are {known}", String::from_utf8_lossy(name))
}

fn why(error: Error) -> String {
    error.message
}

/// `a, b and c`.
fn listed(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<_> = names.collect();
    match names.as_slice() {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        few => few.join(", "),
    }
}

fn once<T>(name: &str, place: &mut Option<T>, value: Result<T, String>) -> Result<(), String> {
    let value = value.map_err(|why| format!("{name}: {why}"))?;
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{name} is given twice; keep one")),
    }
}

/// The content of a string after its first quote (a backslash makes the next byte plain), and what follows.
fn quoted_value(text: &[u8]) -> Result<(Vec<u8>, &[u8]), String> {
    let mut value = Vec::new();
    let mut bytes = text.iter().enumerate();
    while let Some((index, byte)) = bytes.next() {
        match byte {
            b'"' => return Ok((value, &text[index + 1..])),
            b'\\' => value.extend(bytes.next().map(|(_, byte)| *byte)),
            byte => value.push(*byte),
        }
    }
    Err("a quote is not closed".to_owned())
}
