//! The socket of a running copy.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, thread};

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use fobs::{make_private, sockets_directory};

use super::{Answer, Ask, LINE_BYTES_MAX, SUFFIX};

/// How long a user may take over a question or an answer: both are one line.
const PATIENCE: Duration = Duration::from_secs(2);

/// Pause after a connection could not be taken: the reason may last.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);

/// The socket, until it is dropped.
#[derive(Debug)]
pub struct Seat(PathBuf);

impl Seat {
    /// Opens this process's socket, on which `answer` answers. `None` where there is no place for one: the
    /// copy goes on without.
    pub fn take(answer: impl Fn(Ask) -> Answer + Send + 'static) -> Option<Seat> {
        Seat::take_in(&sockets_directory(), answer)
    }

    fn take_in(directory: &Path, answer: impl Fn(Ask) -> Answer + Send + 'static) -> Option<Seat> {
        make_private(directory)?;
        let path = directory.join(format!("{}{SUFFIX}", std::process::id()));
        // Of a process that had this number before.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).ok()?;
        let seat = Seat(path);
        // Ends with the process; a question that comes too late finds no socket.
        let serve = move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // Out of descriptors, or the one who asks is gone: not at once again.
                    thread::sleep(ACCEPT_PAUSE);
                    continue;
                };
                // One that does not ask hurts nobody but itself.
                let _ = serve_one(stream, &answer);
            }
        };
        thread::Builder::new().name("fobs-status".to_owned()).spawn(serve).ok()?;
        Some(seat)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // It may be gone with its directory, at a logout.
        let _ = fs::remove_file(&self.0);
    }
}

fn serve_one(mut stream: UnixStream, answer: &impl Fn(Ask) -> Answer) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let user = socket_peercred(&stream)?.uid;
    let answer = if !(user.is_root() || user == geteuid()) {
        Answer::Refused("this copy is another user's".to_owned())
    } else {
        let mut line = String::new();
        BufReader::new((&stream).take(LINE_BYTES_MAX)).read_line(&mut line)?;
        match serde_json::from_str(&line) {
            Ok(ask) => answer(ask),
            Err(error) => Answer::Refused(format!("this copy does not understand that ({error})")),
        }
    };
    let mut text = serde_json::to_vec(&answer).map_err(io::Error::from)?;
    text.push(b'\n');
    stream.write_all(&text)
}

#[cfg(test)]
mod tests {
    use super::super::ask::ask_at;
    use super::super::{Change, Snapshot};
    use super::*;

    #[test]
    fn a_seat_answers_its_user_and_goes_with_its_copy() {
        let home = tempfile::tempdir().expect("a directory");
        let directory = home.path().join("fobs");
        let seat = Seat::take_in(&directory, |ask| match ask {
            Ask::Status => Answer::Status(Box::new(Snapshot { id: 7, ..Snapshot::default() })),
            Ask::Change(change) if change == Change::Pause.to_string() => Answer::Changed,
            Ask::Change(change) => Answer::Refused(change),
        })
        .expect("a fresh directory");
        let path = seat.0.clone();
        let Ok(Answer::Status(status)) = ask_at(&path, &Ask::Status) else { panic!("a status") };
        assert_eq!(status.id, 7);
        assert_eq!(ask_at(&path, &Ask::Change("pause".to_owned())).expect("an answer"), Answer::Changed);
        let mut stranger = UnixStream::connect(&path).expect("it listens");
        stranger.write_all(b"{\"colour\": 1}\n").expect("it reads");
        let mut said = String::new();
        stranger.read_to_string(&mut said).expect("it answers");
        assert!(said.contains("does not understand"), "{said}");
        drop(seat);
        assert!(!path.exists());
        ask_at(&path, &Ask::Status).expect_err("it is gone");
    }

    #[test]
    fn a_directory_that_others_can_enter_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().expect("a directory");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
        assert!(Seat::take_in(home.path(), |_| Answer::Changed).is_none());
    }
}
