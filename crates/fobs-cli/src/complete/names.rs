//! Names of files, here and on another host.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use fobs::options::{Carrier, Location, NewKeys, PushBinary, Remote, ShellGrammar, TransferOptions};
use fobs::{CancelToken, Entry, EntryKind, Session, location};

use super::Candidate;
use crate::{config, live};

/// Most entries of a directory that are looked at.
const ENTRIES_MAX: usize = 10_000;
/// Longest wait for another host: who presses a key waits for it.
const WAIT: Duration = Duration::from_secs(3);
/// What ssh must not do meanwhile: ask, wait, or note a host that is new.
const UNATTENDED: &[&str] = &["BatchMode=yes", "ConnectTimeout=3", "StrictHostKeyChecking=yes"];
/// How long a connection is kept for the next key that is pressed.
const KEPT: &str = "ControlPersist=60";

/// Files of this host.
pub fn here(typed: &[u8]) -> Vec<Candidate> {
    if typed.starts_with(b"fobs://") || typed.starts_with(b"ssh://") {
        return Vec::new();
    }
    let (directory, begun) = split(typed);
    let read = match (directory.strip_prefix(b"~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(OsStr::from_bytes(rest)),
        _ if directory.is_empty() => PathBuf::from("."),
        _ => PathBuf::from(OsStr::from_bytes(directory)),
    };
    let entries = fs::read_dir(&read).into_iter().flatten().flatten().take(ENTRIES_MAX);
    let names = entries.map(|entry| entry.file_name().into_vec()).filter(|name| is_meant(name, begun));
    let with_end = |name: Vec<u8>| {
        let is_directory =
            fs::metadata(read.join(OsStr::from_bytes(&name))).is_ok_and(|facts| facts.is_dir());
        whole(directory, &name, is_directory)
    };
    names.map(with_end).collect()
}

/// Files of the host that the location names; `None` where it names none yet.
pub fn over_there(words: &[OsString], typed: &[u8]) -> Option<Vec<Candidate>> {
    let is_url = typed.starts_with(b"fobs://") || typed.starts_with(b"ssh://");
    let (directory, begun) = match typed.iter().rposition(|byte| *byte == b'/') {
        Some(last) => typed.split_at(last + 1),
        None => typed.split_at(typed.iter().position(|byte| *byte == b':')? + 1),
    };
    if is_url && directory.iter().filter(|byte| **byte == b'/').count() < 3 {
        return None;
    }
    let Ok(Location::Remote(remote)) = location::parse(OsStr::from_bytes(directory)) else { return None };
    let begun_name = begun.to_vec();
    let entries = listed(words, directory, remote);
    let shown = |entry: &Entry| {
        let name = if is_url { escaped(&entry.name) } else { entry.name.clone() };
        let target = entry.link.as_ref().and_then(|link| link.leads_to.as_deref());
        let is_directory = target.unwrap_or(entry).kind == EntryKind::Directory;
        is_meant(&name, &begun_name).then(|| whole(directory, &name, is_directory))
    };
    Some(entries.iter().take(ENTRIES_MAX).filter_map(shown).collect())
}

/// What another host has in a directory; nothing where it cannot be asked in time.
fn listed(words: &[OsString], directory: &[u8], remote: Remote) -> Vec<Entry> {
    let cancel = CancelToken::new();
    let (tell, told) = channel();
    let options = options(words, directory, &remote);
    let asking = cancel.clone();
    let ask = move || -> fobs::Result<Vec<Entry>> {
        let session = Session::builder(remote).options(options).cancel_token(asking).open()?;
        // An older program does not tell of links.
        session.list_links("").or_else(|_| session.list(""))
    };
    let asked = std::thread::Builder::new().name("fobs-list".to_owned()).spawn(move || {
        // Nobody waits any more where this fails.
        let _ = tell.send(ask().unwrap_or_default());
    });
    let entries = asked.ok().and_then(|_| told.recv_timeout(WAIT).ok());
    cancel.cancel();
    entries.unwrap_or_default()
}

/// The options of the line so far, with the configuration, and without anything that asks or stays.
fn options(words: &[OsString], directory: &[u8], remote: &Remote) -> TransferOptions {
    let line = words.iter().cloned().chain([OsString::from_vec(directory.to_vec())]);
    let mut options = config::options_of(line.collect()).unwrap_or_default();
    options.new_keys = NewKeys::Refused;
    options.timeout = WAIT;
    let ssh = &mut options.ssh;
    ssh.push = PushBinary::Never;
    if remote.carrier == Carrier::Ssh && ssh.grammar == ShellGrammar::Ssh {
        let own = UNATTENDED.iter().copied().map(str::to_owned).chain(shared(
            &ssh.options,
            ssh.config_file.as_ref(),
            remote,
        ));
        // ssh takes the first of a name.
        ssh.options.splice(0..0, own);
    }
    options
}

/// Options with which one connection serves several keys; none where the user's own are for that.
fn shared(given: &[String], config: Option<&PathBuf>, remote: &Remote) -> Vec<String> {
    let is_theirs = given.iter().any(|option| option.to_ascii_lowercase().starts_with("control"));
    let Some(directory) = (!is_theirs).then(live::private_directory).flatten() else { return Vec::new() };
    let mut command = Command::new("ssh");
    if let Some(file) = config {
        command.arg("-F").arg(file);
    }
    let user = remote.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
    command
        .arg("-G")
        .arg("--")
        .arg(format!("{user}{}", remote.host))
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let said = command.output().map(|output| output.stdout).unwrap_or_default();
    let theirs = String::from_utf8_lossy(&said)
        .lines()
        .any(|line| line.strip_prefix("controlpath ").is_some_and(|path| path != "none"));
    if theirs {
        return Vec::new();
    }
    let path = format!("ControlPath={}/%C", directory.display());
    ["ControlMaster=auto".to_owned(), path, KEPT.to_owned()].into()
}

/// The directory with its `/`, and the beginning of a name in it.
fn split(typed: &[u8]) -> (&[u8], &[u8]) {
    typed.split_at(typed.iter().rposition(|byte| *byte == b'/').map_or(0, |last| last + 1))
}

/// Hidden names only where their dot is typed.
fn is_meant(name: &[u8], begun: &[u8]) -> bool {
    name.starts_with(begun) && (!name.starts_with(b".") || begun.starts_with(b"."))
}

fn whole(directory: &[u8], name: &[u8], is_directory: bool) -> Candidate {
    Candidate::new([directory, name, if is_directory { b"/" } else { b"" }].concat())
}

/// A name as it stands in a URL.
fn escaped(name: &[u8]) -> Vec<u8> {
    let as_written = |&byte: &u8| match byte {
        b'%' | b' ' | b'?' | b'#' => format!("%{byte:02X}").into_bytes(),
        byte => vec![byte],
    };
    name.iter().flat_map(as_written).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(found: Vec<Candidate>) -> Vec<String> {
        let mut texts: Vec<String> =
            found.into_iter().map(|it| String::from_utf8(it.text).expect("text")).collect();
        texts.sort();
        texts
    }

    #[test]
    fn names_here_end_where_directories_begin() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["sets", "set two"] {
            fs::create_dir(directory.path().join(name)).expect("a directory");
        }
        for name in ["setup", ".setting", "other"] {
            fs::write(directory.path().join(name), "").expect("a file");
        }
        let base = directory.path().to_str().expect("a plain name");
        let found = texts(here(format!("{base}/set").as_bytes()));
        assert_eq!(found, [format!("{base}/set two/"), format!("{base}/sets/"), format!("{base}/setup")]);
        assert_eq!(texts(here(format!("{base}/.").as_bytes())), [format!("{base}/.setting")]);
        assert!(here(format!("{base}/none/").as_bytes()).is_empty() && here(b"fobs://h/").is_empty());
    }

    #[test]
    fn a_location_without_a_host_is_nothing_over_there() {
        for typed in ["", "plain", "dir/file", "./a:b", "fobs://", "fobs://host", "ssh://host", "http://h/x"]
        {
            assert_eq!(over_there(&[], typed.as_bytes()), None, "{typed}");
        }
    }

    #[test]
    fn names_in_a_url_are_read_back() {
        let name = "50% of it? #1";
        let url = [b"fobs://h/", &escaped(name.as_bytes())[..]].concat();
        let Ok(Location::Remote(remote)) = location::parse(OsStr::from_bytes(&url)) else {
            panic!("a place")
        };
        assert_eq!(remote.path, name.as_bytes());
    }
}
