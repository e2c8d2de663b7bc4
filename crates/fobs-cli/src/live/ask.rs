//! Asking running copies.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fobs::{Error, ErrorKind, Result};

use super::{Answer, Ask, LINE_BYTES_MAX, SUFFIX, Snapshot, directories};

/// How long a copy may take to answer: it may be short of CPU.
const PATIENCE: Duration = Duration::from_secs(3);
/// Most copies that are asked at once.
const COPIES_MAX: usize = 1000;

/// How all copies stand that this user may see. Sockets that nobody listens on are removed.
pub fn all() -> Vec<Snapshot> {
    let mut copies: Vec<Snapshot> = sockets()
        .filter_map(|path| match ask_at(&path, &Ask::Status) {
            Ok(Answer::Status(snapshot)) => Some(*snapshot),
            Ok(_) => None,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // Of a copy that was killed.
                let _ = fs::remove_file(&path);
                None
            }
            Err(_) => None,
        })
        .collect();
    copies.sort_by_key(|copy| copy.id);
    copies
}

/// Asks one copy.
///
/// # Errors
/// `NoSource` where no such copy runs, `Denied` where it is another user's.
pub fn ask(id: u32, question: &Ask) -> Result<Answer> {
    let name = format!("{id}{SUFFIX}");
    let Some(path) = sockets().find(|path| path.file_name().is_some_and(|file| file == &*name)) else {
        let message = format!("no copy with the number {id} runs here; fobs top --once lists those that do");
        return Err(Error::new(ErrorKind::NoSource, message));
    };
    ask_at(&path, question).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => Error::new(
            ErrorKind::Denied,
            format!("the copy {id} is another user's; only they and root may change it"),
        ),
        _ => Error::new(
            ErrorKind::NoSource,
            format!("the copy {id} does not answer: {error}; it may just have ended"),
        ),
    })
}

/// Asks at a socket.
pub(super) fn ask_at(path: &Path, question: &Ask) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut text = serde_json::to_vec(question).map_err(io::Error::from)?;
    text.push(b'\n');
    stream.write_all(&text)?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::from)
}

fn sockets() -> impl Iterator<Item = PathBuf> {
    let entries =
        directories().into_iter().flat_map(|directory| fs::read_dir(directory).into_iter().flatten());
    let is_socket = |path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with(SUFFIX));
    entries.flatten().map(|entry| entry.path()).filter(is_socket).take(COPIES_MAX)
}
