//! `fobs jobs room` and `fobs jobs examine`: how much room there is where a job is to write, and what its
//! words are about. A keeper asks in the job's environment, and as its user.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use fobs::options::{Location, Remote, TransferOptions};
use fobs::{EntryKind, Error, ErrorKind, Result, Session};
use fobs_jobs::Spec;
use serde_json::json;

use super::print_json;
use super::submit::{self, parse};
use super::work::{Work, WorkKind};
use crate::args::jobs::RoomArgs;

/// Levels of a tree that is there which are counted, as many as a copy makes room for.
const DEPTH_MAX: u32 = 100;

/// Prints it.
///
/// # Errors
/// What keeps this program from that host, and where it does not say.
pub fn run(args: &RoomArgs) -> Result<()> {
    let words: Vec<OsString> = ["fobs".into()].into_iter().chain(args.words.iter().cloned()).collect();
    let work = Work::of(&parse(words)?)?;
    let remote = match &work.destination {
        Location::Remote(remote) => remote,
        Location::Local(path) => return here(path),
        Location::Stdio => return Err(Error::new(ErrorKind::Usage, "standard output has no room")),
    };
    if remote.path.starts_with(b"~") {
        let message =
            format!("{} is asked for the room of its own user alone, not of another home", remote.host);
        return Err(Error::new(ErrorKind::Usage, message));
    }
    let options = TransferOptions { sync: None, ..work.options.clone() };
    // A name may be a file: so it does not begin where it would have to be a directory.
    let at = Remote { path: Vec::new(), ..remote.clone() };
    let session = Session::builder(at).options(options).open()?;
    let room = session.room(&remote.path)?;
    // What is there is counted only where it matters: that may be a large tree.
    let sources = work.sources_here(Path::new("")).filter(|_| work.kind == WorkKind::Copy);
    let there = match sources {
        Some(sources) if args.need > room.free_bytes => there(&session, &remote.path, &sources).ok(),
        _ => None,
    };
    print_json(&json!({"disk": room.disk, "free_bytes": room.free_bytes, "there_bytes": there}))
}

/// Prints it for this host, as its user may look at it.
fn here(path: &Path) -> Result<()> {
    let directory = std::env::current_dir();
    let path = directory.map(|directory| directory.join(path)).unwrap_or_else(|_| path.to_owned());
    let (disk, free_bytes) = fobs_jobs::room_at(&path).ok_or_else(|| {
        let message = format!("cannot look at the room of {}", path.display());
        Error::new(ErrorKind::Destination, message)
    })?;
    print_json(&json!({"disk": disk, "free_bytes": free_bytes}))
}

/// Prints what the words of a job are about, as `fobs submit` finds it.
///
/// # Errors
/// Why they are no job.
pub fn examine(words: &[OsString]) -> Result<()> {
    let directory = std::env::current_dir();
    let directory = directory.map_err(|error| {
        Error::new(ErrorKind::NoSource, format!("the current directory cannot be found: {error}"))
    })?;
    let words = words.iter().map(|word| word.clone().into()).collect();
    let mut spec = Spec::new(words, directory.into_os_string().into());
    submit::examine(&mut spec).map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))?;
    // The keeper, which asks, has the environment already.
    spec.environment.clear();
    print_json(&serde_json::to_value(&spec).unwrap_or_default())
}

/// Bytes of what is at the destination under the names of the sources.
fn there(session: &Session, destination: &[u8], sources: &[PathBuf]) -> Result<u64> {
    let found = |name: &[u8]| match session.stat(name) {
        Ok(entry) => Ok(Some(entry)),
        Err(error) if error.says_missing() => Ok(None),
        Err(error) => Err(error),
    };
    let Some(top) = found(destination)? else { return Ok(0) };
    let mut bytes = 0_u64;
    for source in sources {
        let name = match source.file_name() {
            Some(name) if top.kind == EntryKind::Directory => below(destination, name.as_encoded_bytes()),
            _ => destination.to_vec(),
        };
        let size = match found(&name)? {
            Some(entry) if entry.kind == EntryKind::File => entry.size,
            Some(entry) if entry.kind == EntryKind::Directory => {
                let inside = session.walk(&name, DEPTH_MAX)?;
                inside.iter().filter(|entry| entry.kind == EntryKind::File).map(|entry| entry.size).sum()
            }
            _ => 0,
        };
        bytes = bytes.saturating_add(size);
    }
    Ok(bytes)
}

/// A name in a directory, which may be the one where names begin.
fn below(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory.last() {
        None => name.to_vec(),
        Some(b'/') => [directory, name].concat(),
        Some(_) => [directory, b"/", name].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_below_a_directory_has_one_slash_before_it() {
        assert_eq!(
            [below(b"", b"a"), below(b"/", b"a"), below(b"x", b"a"), below(b"x/", b"a")],
            [b"a".to_vec(), b"/a".to_vec(), b"x/a".to_vec(), b"x/a".to_vec()]
        );
    }
}
