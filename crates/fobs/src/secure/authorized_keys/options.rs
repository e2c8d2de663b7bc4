//! The options before a key: `read-write,path="sub/dir",sessions=2,rate=1Gbit,open-files=128`.

use super::limits::{KeyLimits, parse_count, parse_rate};
use super::{DirectionRights, KEY_TYPE, Rights};
use crate::options::Privileges;

/// What may stand there, for messages.
const KNOWN: &str =
    "read-only, read-write, write-only, privileged, path=\"sub/dir\", sessions=N, rate=RATE and open-files=N";

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
    let (mut direction, mut paths, mut limits) = (None, Vec::new(), KeyLimits::default());
    let mut privileges = Privileges::Withheld;
    let mut rest = options;
    while !rest.is_empty() {
        let (option, after) = next_option(rest)?;
        match option.value {
            None if option.name == b"privileged" => privileges = Privileges::OfTheUser,
            None => {
                let rights = DirectionRights::from_name(option.name).ok_or_else(|| unknown(option.name))?;
                if direction.replace(rights).is_some() {
                    return Err(
                        "read-only, read-write and write-only exclude each other; keep one".to_owned()
                    );
                }
            }
            Some(value) => match option.name {
                b"path" => paths.push(normalised(&value).ok_or_else(|| {
                    format!("path {:?} leaves the root; it must lie below", String::from_utf8_lossy(&value))
                })?),
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
    let direction = direction.unwrap_or(DirectionRights::ReadOnly);
    if direction == DirectionRights::ReadOnly && privileges == Privileges::OfTheUser {
        return Err("privileged is about what is written; add read-write or write-only".to_owned());
    }
    Ok((Rights { direction, privileges, paths }, limits))
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
        _ => {
            let end = after.iter().position(|byte| *byte == b',').unwrap_or(after.len());
            (after[..end].to_vec(), &after[end..])
        }
    };
    Ok((RawOption { name, value: Some(value) }, after))
}

fn unknown(name: &[u8]) -> String {
    format!("option {:?} is unknown; there are {KNOWN}", String::from_utf8_lossy(name))
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

/// A path below the root without empty and `.` components and slashes at the ends; `None` if it has a `..` or
/// a NUL. The root itself is empty.
pub(crate) fn normalised(path: &[u8]) -> Option<Vec<u8>> {
    let mut components = Vec::new();
    for component in path.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => return None,
            name if name.contains(&0) => return None,
            name => components.push(name),
        }
    }
    Some(components.join(&b'/'))
}
