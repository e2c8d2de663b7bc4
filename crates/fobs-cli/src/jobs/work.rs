//! What the words of a job are about: where its data comes from, where it goes, and how much it is.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fobs::options::{Carrier, Location, Remote, TransferOptions};
use fobs::{Error, ErrorKind, Result};

use super::size;
use crate::args::{self, Cli};
use crate::{location, resolve};

/// The name of this host among destinations.
const HERE: &str = "this host";

/// What the words of a job are about.
pub struct Work {
    pub sources: Vec<Location>,
    pub destination: Location,
    pub options: TransferOptions,
    pub kind: WorkKind,
    /// The destination as it was typed.
    typed: OsString,
}

/// What it does with what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    /// Writes all of its sources.
    Copy,
    /// Writes what differs, which nobody knows before.
    Sync,
}

impl Work {
    pub fn of(cli: &Cli) -> Result<Work> {
        let usage = |why: &str| Error::new(ErrorKind::Usage, why.to_owned());
        let (paths, options, kind) = match &cli.command {
            args::Command::Cp(copy) => (&copy.paths, resolve::copy(copy)?.options, WorkKind::Copy),
            args::Command::Sync(sync) => (&sync.paths, resolve::transfer(&sync.chosen)?, WorkKind::Sync),
            _ => {
                return Err(usage(
                    "a job is a cp or a sync, which go on where they stopped: fobs submit cp SRC DST",
                ));
            }
        };
        let [sources @ .., destination] = paths.as_slice() else {
            return Err(usage("a job needs a source and a destination"));
        };
        let sources = sources.iter().map(|source| location::parse(source)).collect::<Result<Vec<_>>>()?;
        let typed = destination.clone();
        let destination = location::parse(destination)?;
        if sources.is_empty() {
            return Err(usage("a job needs a source and a destination"));
        }
        if sources.iter().chain([&destination]).any(|location| *location == Location::Stdio) {
            return Err(usage("a job has no standard input and output: name files in place of '-'"));
        }
        let reads_stdin = args_of(cli).iter().any(|word| reads_stdin(word));
        if reads_stdin {
            return Err(usage("a job has no standard input: name a file in place of '-'"));
        }
        Ok(Work { sources, destination, options, kind, typed })
    }

    fn remotes(&self) -> impl Iterator<Item = &Remote> {
        self.sources.iter().chain([&self.destination]).filter_map(|location| match location {
            Location::Remote(remote) => Some(remote),
            Location::Local(_) | Location::Stdio => None,
        })
    }

    pub fn over_ssh(&self) -> Vec<Remote> {
        let mut hosts = BTreeSet::new();
        let over_ssh = self.remotes().filter(|remote| remote.carrier == Carrier::Ssh);
        over_ssh.filter(|remote| hosts.insert((remote.host.clone(), remote.port))).cloned().collect()
    }

    /// Where it writes, of this host.
    pub fn room(&self, directory: &Path) -> Option<PathBuf> {
        match &self.destination {
            Location::Local(path) => Some(directory.join(path)),
            Location::Remote(_) | Location::Stdio => None,
        }
    }

    /// Where it writes, of another host: as it was typed.
    pub fn room_there(&self) -> Option<OsString> {
        matches!(self.destination, Location::Remote(_)).then(|| self.typed.clone())
    }

    /// How much it writes. On this host what is there by its names is thought to be the same, and takes no
    /// room; another host is asked for that once it matters.
    pub fn bytes(&self, directory: &Path) -> Option<u64> {
        let sources = self.sources_here(directory).filter(|_| self.kind == WorkKind::Copy)?;
        let all = size::of(&sources)?;
        let Some(room) = self.room(directory) else { return Some(all) };
        let there = |source: &PathBuf| match source.file_name() {
            Some(name) if room.is_dir() => room.join(name),
            _ => room.clone(),
        };
        let there: Vec<PathBuf> = sources.iter().map(there).filter(|path| path.exists()).collect();
        Some(all.saturating_sub(size::of(&there)?))
    }

    /// Its sources, where all of them are on this host.
    pub fn sources_here(&self, directory: &Path) -> Option<Vec<PathBuf>> {
        let local = |source: &Location| match source {
            Location::Local(path) => Some(directory.join(path)),
            Location::Remote(_) | Location::Stdio => None,
        };
        self.sources.iter().map(local).collect()
    }

    pub fn destinations(&self) -> Vec<String> {
        match &self.destination {
            Location::Remote(remote) => vec![remote.host.clone()],
            Location::Local(_) | Location::Stdio => vec![HERE.to_owned()],
        }
    }

    /// Hosts, or disks of this one.
    pub fn sources(&self, directory: &Path) -> Vec<String> {
        let name = |source: &Location| match source {
            Location::Remote(remote) => Some(remote.host.clone()),
            // What is not there yet may be when the job begins: it has no disk then.
            Location::Local(path) => {
                std::fs::metadata(directory.join(path)).ok().map(|found| format!("disk {}", found.dev()))
            }
            Location::Stdio => None,
        };
        let names: BTreeSet<String> = self.sources.iter().filter_map(name).collect();
        names.into_iter().collect()
    }
}

/// The options of the command as they were typed.
fn args_of(cli: &Cli) -> Vec<String> {
    let line = match &cli.command {
        args::Command::Cp(copy) => &**copy as &crate::flags::Line,
        args::Command::Sync(sync) => sync,
        _ => return Vec::new(),
    };
    line.far_words().iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Whether an option reads standard input, as `--files-from=-` does.
fn reads_stdin(word: &str) -> bool {
    word.strip_prefix("--")
        .and_then(|word| word.split_once('='))
        .is_some_and(|(name, value)| value == "-" && (name.ends_with("-from") || name == "password-file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_standard_input_is_known() {
        for (word, reads) in
            [("--files-from=-", true), ("--exclude-from=-", true), ("--exclude=-", false), ("-r", false)]
        {
            assert_eq!(reads_stdin(word), reads, "{word}");
        }
    }
}
