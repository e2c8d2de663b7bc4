//! Patterns and home directories in the paths of a request, expanded where the files are, as scp has its
//! server do.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

use nix::unistd::User;
use rustix::fs::{Dir, OFlags};

use super::beneath::Base;
use fobs_filter::glob::{Glob, PATTERN_LEN_MAX, Start, is_wild};
use fobs_filter::path::show;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_sys::confine::{Errand, outside};

/// Most paths that the patterns of one request may stand for: what one session may name.
const PATHS_MAX: usize = 100_000;
/// Most bytes of them, with those of JSON around each: as base64 they fit in one message (protocol 2.1).
const BYTES_MAX: usize = 512 << 10;
const BYTES_AROUND: usize = 8;
/// Most names that are read of directories for it.
const NAMES_READ_MAX: usize = 4_000_000;

/// Whether the other host may have to expand this path.
pub fn needs_expansion(path: &[u8]) -> bool {
    is_wild(path) || tilde(path).is_some()
}

/// Whether `path` may be what `pattern` stands for. A client believes nothing else: names decide where files
/// are stored.
pub fn may_stand_for(pattern: &[u8], path: &[u8]) -> bool {
    if pattern == path {
        return true;
    }
    let (pattern, home) = match tilde(pattern) {
        Some((_, rest)) => (rest, true),
        None => (pattern, false),
    };
    let (wanted, found) = (components(pattern), components(path));
    let Some(extra) = found.len().checked_sub(wanted.len()) else { return false };
    let is_rooted = pattern.starts_with(b"/") == path.starts_with(b"/");
    let (above, found) = found.split_at(extra);
    let is_placed = if home { !above.contains(&&b".."[..]) } else { extra == 0 && is_rooted };
    is_placed && wanted.iter().zip(found).all(|(wanted, found)| matches(wanted, found))
}

/// What paths of this host stand for: of a copy that another host has started here.
///
/// # Errors
/// As [`expand`].
pub fn expand_here(paths: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let mut expanded = Expanded::default();
    paths.iter().try_for_each(|path| expanded.add(path, expand(&Base::Ambient, path)?))?;
    Ok(expanded.paths)
}

/// What the paths of one request stand for, together within the bounds of one.
#[derive(Debug, Default)]
pub struct Expanded {
    /// In order.
    pub paths: Vec<Vec<u8>>,
    bytes: usize,
}

impl Expanded {
    /// Adds what `pattern` stands for.
    ///
    /// # Errors
    /// `Usage` where all together are too much.
    pub fn add(&mut self, pattern: &[u8], found: Vec<Vec<u8>>) -> Result<()> {
        self.bytes += found.iter().map(|path| path.len() + BYTES_AROUND).sum::<usize>();
        if self.paths.len() + found.len() > PATHS_MAX || self.bytes > BYTES_MAX {
            return Err(too_much(pattern));
        }
        self.paths.extend(found);
        Ok(())
    }
}

/// The paths that `path` stands for, in order: itself where it exists, what a pattern matches otherwise.
///
/// # Errors
/// `NoSource` where it matches nothing, `Usage` where it matches too much.
pub fn expand(base: &Base, path: &[u8]) -> Result<Vec<Vec<u8>>> {
    if base.open(path, OFlags::PATH).is_ok() {
        return Ok(vec![path.to_vec()]);
    }
    let path = at_home(base, path)?;
    if !is_wild(&path) || base.open(&path, OFlags::PATH).is_ok() {
        return Ok(vec![path]);
    }
    let mut search = Search { base, names_left: NAMES_READ_MAX, pattern: &path };
    let start = if path.starts_with(b"/") { b"/".to_vec() } else { Vec::new() };
    let mut found = vec![start];
    for component in components(&path) {
        found = search.step(found, component)?;
    }
    if path.ends_with(b"/") {
        found.retain(|found| base.open(found, OFlags::PATH | OFlags::DIRECTORY).is_ok());
        found.iter_mut().for_each(|found| found.push(b'/'));
    }
    if found.is_empty() {
        let message = format!("nothing matches '{}'; check the pattern", show(&path));
        return Err(Error::new(ErrorKind::NoSource, message));
    }
    Ok(found)
}

/// The path that a destination stands for: itself, where it exists or a pattern matches nothing.
///
/// # Errors
/// `Usage` for a pattern that matches several.
pub fn expand_one(base: &Base, path: &[u8]) -> Result<Vec<u8>> {
    match expand(base, path) {
        Ok(found) => match <[Vec<u8>; 1]>::try_from(found) {
            Ok([only]) => Ok(only),
            Err(found) => {
                let (path, count) = (show(path), found.len());
                let message = format!("'{path}' stands for {count} paths there; name one");
                Err(Error::new(ErrorKind::Usage, message))
            }
        },
        Err(error) if error.kind == ErrorKind::NoSource => Ok(path.to_vec()),
        Err(error) => Err(error),
    }
}

/// The path with a leading `~user` replaced by that user's home directory.
///
/// # Errors
/// `NoSource` for a user who does not exist.
pub fn at_home(base: &Base, path: &[u8]) -> Result<Vec<u8>> {
    // Below a served directory there are no homes.
    let (Base::Ambient, Some((user, rest))) = (base, tilde(path)) else { return Ok(path.to_vec()) };
    let name = std::str::from_utf8(user).ok().map(str::to_owned);
    let found =
        outside(Errand::Accounts, move || name.and_then(|name| User::from_name(&name).ok().flatten()));
    match found {
        Some(user) => Ok([&user.dir.into_os_string().into_vec()[..], rest].concat()),
        None if base.open(path, OFlags::PATH).is_ok() => Ok(path.to_vec()),
        None => {
            let (user, path) = (show(user), show(path));
            let message =
                format!("there is no user '{user}' there; write './{path}' if that is a file's own name");
            Err(Error::new(ErrorKind::NoSource, message))
        }
    }
}

/// `~user/rest` as user and `/rest`.
fn tilde(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let name = path.strip_prefix(b"~")?;
    let end = name.iter().position(|&byte| byte == b'/').unwrap_or(name.len());
    (end > 0).then(|| name.split_at(end))
}

fn components(path: &[u8]) -> Vec<&[u8]> {
    path.split(|&byte| byte == b'/').filter(|component| !component.is_empty()).collect()
}

/// Whether a pattern of one component matches a name. A dot at the start is matched by a dot only, as in a
/// shell.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let hidden = name.starts_with(b".") && !pattern.starts_with(b".");
    pattern == name || !hidden && matches_component(pattern, name)
}

/// Whether a pattern of one component matches a name, hidden or not.
pub fn matches_component(pattern: &[u8], name: &[u8]) -> bool {
    let special = matches!(name, b"." | b"..");
    let long = pattern.len() > PATTERN_LEN_MAX;
    let negated = pattern.windows(2).any(|pair| pair == b"[!");
    // The shell's `[!...]` is the other `[^...]`.
    let pattern = if negated { replaced(pattern) } else { pattern.to_vec() };
    !special && !long && Glob::new(&pattern).matches(&[name], Start::At(0), &mut 0)
}

fn replaced(pattern: &[u8]) -> Vec<u8> {
    let mut pattern = pattern.to_vec();
    for at in 1..pattern.len() {
        if pattern[at - 1] == b'[' && pattern[at] == b'!' {
            pattern[at] = b'^';
        }
    }
    pattern
}

struct Search<'a> {
    base: &'a Base,
    names_left: usize,
    pattern: &'a [u8],
}

impl Search<'_> {
    /// Everything that one more component leads to.
    fn step(&mut self, above: Vec<Vec<u8>>, component: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        for directory in above {
            for name in self.names(&directory, component)? {
                let path = joined(&directory, &name);
                bytes += path.len() + BYTES_AROUND;
                if found.len() >= PATHS_MAX || bytes > BYTES_MAX {
                    return Err(self.too_much());
                }
                found.push(path);
            }
        }
        Ok(found)
    }

    /// The names in a directory that a component matches, in order. What cannot be read matches nothing.
    fn names(&mut self, directory: &[u8], component: &[u8]) -> Result<Vec<Vec<u8>>> {
        if !is_wild(component) {
            let is_there = self.base.open(&joined(directory, component), OFlags::PATH).is_ok();
            return Ok(is_there.then(|| component.to_vec()).into_iter().collect());
        }
        let opened = self.base.open(directory, OFlags::RDONLY | OFlags::DIRECTORY);
        let Ok(reading) = opened.and_then(|directory: OwnedFd| Dir::new(directory)) else {
            return Ok(Vec::new());
        };
        let (mut names, mut bytes) = (Vec::new(), 0);
        for entry in reading {
            let Ok(entry) = entry else { break };
            self.names_left = self.names_left.checked_sub(1).ok_or_else(|| self.too_much())?;
            let name = entry.file_name().to_bytes();
            if matches(component, name) {
                bytes += name.len() + BYTES_AROUND;
                if bytes > BYTES_MAX {
                    return Err(self.too_much());
                }
                names.push(name.to_vec());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn too_much(&self) -> Error {
        too_much(self.pattern)
    }
}

fn too_much(pattern: &[u8]) -> Error {
    let pattern = show(pattern);
    let message = format!("'{pattern}' stands for too many paths; name their directory, with -r");
    Error::new(ErrorKind::Usage, message)
}

fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory {
        b"" | b"/" => [directory, name].concat(),
        _ => [directory, b"/", name].concat(),
    }
}

#[cfg(test)]
mod tests;
