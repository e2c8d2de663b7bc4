//! Patterns of sources on another host that must be known as names before the sync begins: with `-R`, whose
//! names are made of them, and with `-s`, whose patterns match hidden names too.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use fobs::options::{Carrier, Location};
use fobs::{EntryKind, Error, ErrorKind, Result, Session, matches_component};

use super::{there, usage};
use crate::args::sync::SyncArgs;

/// Most names that the patterns of a line may stand for, and most directories that are listed for it.
const NAMES_MAX: usize = 100_000;
const LISTED_MAX: usize = 10_000;

/// The sources with what their patterns stand for in their place, and their words. A pattern that matches
/// nothing is a name, which the sync does not find.
///
/// # Errors
/// What keeps the directories from being listed; `Usage` for patterns that stand for too much.
pub fn expanded(
    args: &SyncArgs,
    sources: Vec<Location>,
    words: &[OsString],
) -> Result<(Vec<Location>, Vec<OsString>)> {
    let is_relative = args.chosen.sync.relative == Some(true) && args.chosen.sync.files_from.is_none();
    let is_secluded = args.has("secluded-args");
    let (mut all, mut named) = (Vec::new(), Vec::new());
    for (source, word) in sources.into_iter().zip(words) {
        let found = match &source {
            Location::Remote(remote)
                if (is_relative || is_secluded)
                    && remote.carrier == Carrier::Ssh
                    && is_wild(&remote.path) =>
            {
                if remote.path.starts_with(b"~") {
                    let shown = word.to_string_lossy();
                    return Err(usage(format!(
                        "'{shown}': with -R or -s no pattern is looked up in another user's home; write its path"
                    )));
                }
                there::ask(args, remote, |session| {
                    let mut search = Search { session, shows_hidden: is_secluded, listed: 0 };
                    search.expand(&remote.path)
                })?
            }
            _ => Vec::new(),
        };
        let Location::Remote(remote) = &source else {
            all.push(source);
            named.push(word.clone());
            continue;
        };
        if found.is_empty() {
            named.push(word.clone());
            all.push(source);
            continue;
        }
        if all.len() + found.len() > NAMES_MAX {
            return Err(too_much(&remote.path));
        }
        named.extend(found.iter().cloned().map(OsString::from_vec));
        all.extend(
            found.into_iter().map(|path| Location::Remote(fobs::options::Remote { path, ..remote.clone() })),
        );
    }
    Ok((all, named))
}

/// The paths that one stands for: itself, or what a pattern that is no name there matches.
///
/// # Errors
/// What keeps directories from being listed; `Usage` for a pattern that stands for too much.
pub fn named(session: &Session, path: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut search = Search { session, shows_hidden: false, listed: 0 };
    if !is_wild(path) || search.known(session.stat_link(path))?.is_some() {
        return Ok(vec![path.to_vec()]);
    }
    search.expand(path)
}

fn is_wild(path: &[u8]) -> bool {
    path.iter().any(|byte| b"*?[".contains(byte))
}

struct Search<'a> {
    session: &'a Session,
    shows_hidden: bool,
    listed: usize,
}

impl Search<'_> {
    /// What a path stands for, in order; its `/./` stays where it is.
    fn expand(&mut self, pattern: &[u8]) -> Result<Vec<Vec<u8>>> {
        let is_rooted = pattern.starts_with(b"/");
        let mut found = vec![if is_rooted { b"/".to_vec() } else { Vec::new() }];
        let mut is_sure = true;
        for component in pattern.split(|&byte| byte == b'/').filter(|component| !component.is_empty()) {
            let mut next = Vec::new();
            for above in found {
                if !is_wild(component) {
                    next.push(joined(&above, component));
                    continue;
                }
                let names = if is_sure || self.is_directory(&above)? {
                    self.names(&above, component)?
                } else {
                    Vec::new()
                };
                next.extend(names.iter().map(|name| joined(&above, name)));
                if next.len() > NAMES_MAX {
                    return Err(too_much(pattern));
                }
            }
            is_sure &= !is_wild(component);
            found = next;
        }
        let last = pattern.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let mut kept = Vec::new();
        for mut path in found {
            if last.is_empty() {
                if self.is_directory(&path)? {
                    path.push(b'/');
                    kept.push(path);
                }
            } else if is_wild(last) || self.known(self.session.stat_link(&path))?.is_some() {
                kept.push(path);
            }
        }
        Ok(kept)
    }

    /// The names in a directory that match; none where it is not there or cannot be read, as in a shell.
    fn names(&mut self, directory: &[u8], component: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.listed += 1;
        if self.listed > LISTED_MAX {
            return Err(too_much(component));
        }
        let place = if directory.is_empty() { b"." } else { directory };
        let entries = self.known(self.session.list_links(place))?.unwrap_or_default();
        let is_meant = |name: &[u8]| {
            let is_hidden = name.starts_with(b".") && !component.starts_with(b".");
            (self.shows_hidden || !is_hidden) && matches_component(component, name)
        };
        let mut names: Vec<Vec<u8>> =
            entries.into_iter().map(|entry| entry.name).filter(|name| is_meant(name)).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn is_directory(&self, path: &[u8]) -> Result<bool> {
        let found = self.known(self.session.stat(path))?;
        Ok(found.is_some_and(|entry| entry.kind == EntryKind::Directory))
    }

    /// What is there; none where nothing is, or it cannot be looked at.
    fn known<T>(&self, found: Result<T>) -> Result<Option<T>> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind.leaves_channel() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory {
        b"" | b"/" => [directory, name].concat(),
        _ => [directory, b"/", name].concat(),
    }
}

fn too_much(pattern: &[u8]) -> Error {
    let shown = String::from_utf8_lossy(pattern).into_owned();
    Error::new(ErrorKind::Usage, format!("'{shown}' stands for too many names; name their directory"))
}
