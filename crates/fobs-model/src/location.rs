//! Sources and destinations as text: `host:path`, `ssh://`, `fobs://`, a local path, or `-`.
//!
//! The rules are those of scp. Paths are raw bytes. `fobs+ssh://` and `fobsssh://` are what fsspec has for
//! ssh: their path begins at the root.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};
use crate::options::{Carrier, Location, Remote};

mod foreign;

use foreign::foreign;

/// Parses one source or destination of the command line.
///
/// # Errors
/// `Usage`, with a sentence that names the argument and shows a valid form.
pub fn parse(argument: &OsStr) -> Result<Location> {
    let bytes = argument.as_bytes();
    let parsed = match bytes {
        b"" => Err("the name is empty; give a path or host:path".to_owned()),
        b"-" => return Ok(Location::Stdio),
        _ => match (scheme(bytes), foreign(bytes), host_colon(bytes)) {
            (Some((carrier, begin, rest)), ..) => url(carrier, begin, rest),
            (None, Some(refusal), _) => Err(refusal),
            (None, None, Some(colon)) => host_and_path(&bytes[..colon], &bytes[colon + 1..]),
            (None, None, None) => return Ok(Location::Local(PathBuf::from(argument))),
        },
    };
    parsed.map(Location::Remote).map_err(|why| usage(format!("{}: {why}", argument.to_string_lossy())))
}

/// Parses a host alone: `[user@]host`, with a colon or without, or a URL whose path does not matter.
///
/// # Errors
/// As [`parse`].
pub fn host(argument: &OsStr) -> Result<Remote> {
    if let Some(why) = foreign::password_of_a_host(argument.as_bytes()) {
        return Err(usage(format!("{}: {why}", argument.to_string_lossy())));
    }
    match parse(argument)? {
        Location::Remote(remote) => Ok(remote),
        Location::Local(path) if !path.as_os_str().as_bytes().contains(&b'/') => {
            let named = host_and_path(argument.as_bytes(), b"");
            named.map_err(|why| usage(format!("{}: {why}", argument.to_string_lossy())))
        }
        Location::Local(_) | Location::Stdio => {
            let name = argument.to_string_lossy();
            Err(usage(format!("{name} is no host: give host:, user@host or fobs://host")))
        }
    }
}

/// What to add to an error where a name that was taken for `host:path` is that of a file, as `exists` tells.
pub fn mistaken(arguments: &[OsString], exists: impl Fn(&OsStr) -> bool) -> Option<String> {
    let is_here = |argument: &&OsString| {
        let is_remote = scheme(argument.as_bytes()).is_none() && host_colon(argument.as_bytes()).is_some();
        is_remote && exists(argument)
    };
    let name = arguments.iter().find(is_here)?.to_string_lossy();
    Some(format!("if the file '{name}' on this host is meant, write './{name}'"))
}

/// The last component of a source or destination: what a line about it has room for.
pub fn file_name(argument: &OsStr) -> Vec<u8> {
    let path = match parse(argument) {
        Ok(Location::Local(path)) => path.into_os_string().into_vec(),
        Ok(Location::Remote(remote)) => remote.path,
        Ok(Location::Stdio) => b"-".to_vec(),
        Err(_) => Vec::new(),
    };
    let mut components = path.rsplit(|&byte| byte == b'/');
    components.find(|name| !matches!(*name, b"" | b"." | b"..")).unwrap_or_default().to_vec()
}

/// Checks that a sync is between this host and one other host.
///
/// # Errors
/// `Usage`, with what to do instead.
pub fn check_pair(sources: &[Location], destination: &Location) -> Result<()> {
    check_route(sources, destination)?;
    let remotes: Vec<&Remote> = sources.iter().filter_map(remote).collect();
    if remote(destination).is_some() && !remotes.is_empty() {
        return Err(usage("a sync between two other hosts is not supported: run fobs on one of them"));
    }
    if remotes.iter().any(|other| !same_host(remotes[0], other)) {
        return Err(usage("the sources are on different hosts: run one sync per host"));
    }
    Ok(())
}

/// Checks that a copy goes from some host to another one.
///
/// # Errors
/// `Usage`, with what to do instead.
pub fn check_route(sources: &[Location], destination: &Location) -> Result<()> {
    let remotes: Vec<&Remote> = sources.iter().filter_map(remote).collect();
    let is_daemon = |remote: &&Remote| remote.carrier == Carrier::Daemon;
    if sources.len() > 1 && sources.contains(&Location::Stdio) {
        return Err(usage(
            "'-' (standard input) cannot be copied together with other sources: run one copy for each",
        ));
    }
    match destination {
        Location::Remote(to) if !remotes.is_empty() => {
            match remotes.into_iter().chain([to]).find(is_daemon) {
                Some(_) => Err(usage(
                    "a copy between two other hosts needs ssh to both, and fobs:// has none: run fobs on one of them",
                )),
                None => Ok(()),
            }
        }
        Location::Remote(_) => Ok(()),
        _ if remotes.is_empty() => Err(usage(
            "source and destination are both on this host: use cp, or name the other host as in host:path",
        )),
        _ if remotes.len() < sources.len() => {
            Err(usage("some sources are on this host and some on another: use cp for the local ones"))
        }
        Location::Stdio if sources.len() > 1 => Err(usage(
            "only one source can be written to '-' (standard output): give a directory or one source",
        )),
        _ => Ok(()),
    }
}

fn usage(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, message)
}

fn remote(location: &Location) -> Option<&Remote> {
    match location {
        Location::Remote(remote) => Some(remote),
        Location::Local(_) | Location::Stdio => None,
    }
}

/// Whether two locations are on one host, by the same way and as the same user.
pub fn same_host(a: &Remote, b: &Remote) -> bool {
    (a.carrier, &a.user, &a.host, a.port) == (b.carrier, &b.user, &b.host, b.port)
}

/// Where the path of a URL begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// Where the user's names do.
    Home,
    /// At the root.
    Root,
}

/// The carrier of a URL's scheme, where its path begins, and the text after `://`.
fn scheme(bytes: &[u8]) -> Option<(Carrier, Begin, &[u8])> {
    const SCHEMES: &[(&[u8], Carrier, Begin)] = &[
        (b"ssh://", Carrier::Ssh, Begin::Home),
        (b"scp://", Carrier::Ssh, Begin::Home),
        (b"fobs://", Carrier::Daemon, Begin::Home),
        (b"fobs+ssh://", Carrier::Ssh, Begin::Root),
        (b"fobsssh://", Carrier::Ssh, Begin::Root),
    ];
    SCHEMES.iter().find_map(|(prefix, carrier, begin)| Some((*carrier, *begin, bytes.strip_prefix(*prefix)?)))
}

/// An option whose `-` a word processor has made another dash, where `exists` knows no file of that name.
pub fn mistyped_option(arguments: &[OsString], exists: impl Fn(&OsStr) -> bool) -> Option<String> {
    // Hyphens, dashes and the sign of subtraction.
    let is_dash = |letter: char| ('\u{2010}'..='\u{2015}').contains(&letter) || letter == '\u{2212}';
    let meant = |argument: &&OsString| {
        let text = argument.to_str()?;
        let rest = text.trim_start_matches(|letter| is_dash(letter) || letter == '-');
        let dashes = &text[..text.len() - rest.len()];
        let is_option = rest.starts_with(|letter: char| letter.is_ascii_alphanumeric());
        let mistyped = dashes.contains(is_dash) && is_option && !exists(argument);
        let count = if rest.len() == 1 { 1 } else { 2 };
        mistyped.then(|| format!("'{text}' begins with a dash that is no '-': type {}{rest}", &"--"[..count]))
    };
    arguments.iter().find_map(|argument| meant(&argument))
}

/// What to add to an error about a source that is not there: braces are the shell's, of this host.
pub fn unexpanded(arguments: &[OsString]) -> Option<String> {
    let braced = arguments.iter().find(|argument| {
        let bytes = argument.as_bytes();
        let open = bytes.iter().position(|&byte| byte == b'{');
        let close = bytes.iter().rposition(|&byte| byte == b'}');
        let inside = |(open, close): (usize, usize)| bytes.get(open..close).unwrap_or_default();
        let inside = open.zip(close).map(inside).unwrap_or_default();
        inside.contains(&b',') || inside.windows(2).any(|pair| pair == b"..")
    })?;
    let shown = braced.to_string_lossy();
    Some(format!(
        "braces are not expanded on the other host: without quotes, the shell here expands '{shown}'"
    ))
}

/// Position of the colon between host and path; `None` for a local path. As in scp, a name is local with a
/// slash before the colon or with a colon at its start; an address in brackets may contain colons.
fn host_colon(bytes: &[u8]) -> Option<usize> {
    if bytes.first() == Some(&b':') {
        return None;
    }
    let mut bracketed = bytes.first() == Some(&b'[');
    for (index, &byte) in bytes.iter().enumerate() {
        let next = bytes.get(index + 1);
        match byte {
            b'@' if next == Some(&b'[') => bracketed = true,
            b']' if bracketed && next == Some(&b':') => return Some(index + 1),
            b':' if !bracketed => return Some(index),
            b'/' => return None,
            _ => {}
        }
    }
    None
}

/// Parses `[user@]host` or `[user@][v6]`, with the path after the colon.
fn host_and_path(authority: &[u8], path: &[u8]) -> std::result::Result<Remote, String> {
    let (user, host) = split_user(authority);
    let host = host.strip_prefix(b"[").and_then(|inner| inner.strip_suffix(b"]")).unwrap_or(host);
    Ok(Remote {
        carrier: Carrier::Ssh,
        user: user.map(|user| checked_user(user.to_vec())).transpose()?,
        host: checked_host(host)?,
        port: None,
        path: below_home(path.to_vec()),
    })
}

/// Parses `[user@]host[:port][/path]`, the text after the scheme.
fn url(carrier: Carrier, begin: Begin, rest: &[u8]) -> std::result::Result<Remote, String> {
    let slash = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
    let (authority, path) = (&rest[..slash], rest.get(slash + 1..).unwrap_or_default());
    let (user, host_port) = split_user(authority);
    let (host, port) = split_port(host_port)?;
    let path = percent_decode(path)?;
    let (user, path) = match (carrier, user) {
        (Carrier::Ssh, user) => {
            let user = user.map(|user| checked_user(percent_decode(user)?)).transpose()?;
            let path = match begin {
                Begin::Home => below_home(path),
                Begin::Root => [b"/", &path[leading_slashes(&path)..]].concat(),
            };
            (user, path)
        }
        (Carrier::Daemon, None) => (None, path[leading_slashes(&path)..].to_vec()),
        (Carrier::Daemon, Some(_)) => {
            return Err("fobs:// takes no user name: the key identifies the user (-i FILE)".to_owned());
        }
    };
    Ok(Remote { carrier, user, host: checked_host(&zone_decode(host)?)?, port, path })
}

/// Splits at the last `@`, as scp does; an empty user name counts as none.
fn split_user(authority: &[u8]) -> (Option<&[u8]>, &[u8]) {
    match authority.iter().rposition(|&byte| byte == b'@') {
        Some(0) => (None, &authority[1..]),
        Some(at) => (Some(&authority[..at]), &authority[at + 1..]),
        None => (None, authority),
    }
}

/// Parses `host`, `host:port`, `[v6]` or `[v6]:port`; returns the host without brackets.
fn split_port(host_port: &[u8]) -> std::result::Result<(&[u8], Option<u16>), String> {
    let (host, port) = match host_port.strip_prefix(b"[") {
        Some(inner) => {
            let end = inner.iter().position(|&byte| byte == b']').ok_or("the closing ']' is missing")?;
            match &inner[end + 1..] {
                b"" => (&inner[..end], None),
                [b':', port @ ..] => (&inner[..end], Some(port)),
                _ => return Err("after ']' only ':PORT' or a path may follow".to_owned()),
            }
        }
        None => match host_port.iter().position(|&byte| byte == b':') {
            Some(colon) if host_port[colon + 1..].contains(&b':') => {
                return Err("write an IPv6 address in brackets, as in [::1]".to_owned());
            }
            Some(colon) => (&host_port[..colon], Some(&host_port[colon + 1..])),
            None => (host_port, None),
        },
    };
    let port = port.map(|text| {
        let number =
            std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        number
            .and_then(|text| text.parse::<u16>().ok())
            .filter(|&port| port > 0)
            .ok_or_else(|| format!("{:?} is not a port (1 to 65535)", String::from_utf8_lossy(text)))
    });
    Ok((host, port.transpose()?))
}

/// A host that is safe as an argument of `ssh`.
fn checked_host(host: &[u8]) -> std::result::Result<String, String> {
    if host.is_empty() {
        return Err("the host name is missing: write host:path".to_owned());
    }
    checked_word(host.to_vec(), "host name")
}

fn checked_user(user: Vec<u8>) -> std::result::Result<String, String> {
    if user.is_empty() {
        return Err("the user name is missing: write user@host:path".to_owned());
    }
    checked_word(user, "user name")
}

fn checked_word(word: Vec<u8>, what: &str) -> std::result::Result<String, String> {
    let word = String::from_utf8(word).map_err(|_| format!("the {what} is not UTF-8"))?;
    if what == "user name" && word.contains(':') {
        return Err("a password cannot be part of the address: ssh asks for it, or uses a key".to_owned());
    }
    if word.starts_with('-') {
        return Err(format!("a {what} cannot start with '-': ssh would take it for an option"));
    }
    if word.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(format!("a {what} cannot contain white space or control characters"));
    }
    Ok(word)
}

/// Removes a leading `~` or `~/`: paths are relative to the home directory. A file named `~` is written
/// `./~`.
fn below_home(path: Vec<u8>) -> Vec<u8> {
    match path.as_slice() {
        b"~" => Vec::new(),
        [b'~', b'/', rest @ ..] => match &rest[leading_slashes(rest)..] {
            // A trailing slash means the contents of the directory.
            b"" => b"./".to_vec(),
            rest => rest.to_vec(),
        },
        _ => path,
    }
}

fn leading_slashes(path: &[u8]) -> usize {
    path.iter().take_while(|&&byte| byte == b'/').count()
}

fn percent_decode(text: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            decoded.push(*first);
            continue;
        }
        let pair = tail.get(..2).and_then(|pair| Some((hex_digit(pair[0])?, hex_digit(pair[1])?)));
        match pair {
            Some((0, 0)) => return Err("a path cannot contain %00".to_owned()),
            Some((high, low)) => decoded.push(high << 4 | low),
            None => {
                return Err("two hexadecimal digits must follow a '%'; write a '%' itself as %25".to_owned());
            }
        }
        rest = &tail[2..];
    }
    Ok(decoded)
}

/// The host of a URL: the zone of a link-local address follows `%25` (RFC 6874) or, as people type it, `%`.
fn zone_decode(host: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let Some(at) = host.iter().position(|&byte| byte == b'%') else { return Ok(host.to_vec()) };
    let (address, zone) = (&host[..at], &host[at + 1..]);
    match zone.strip_prefix(b"25") {
        Some(zone) if !zone.is_empty() => Ok([address, b"%", &percent_decode(zone)?].concat()),
        _ => Ok(host.to_vec()),
    }
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests;
