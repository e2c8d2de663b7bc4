//! A server that says hello and nothing more, in every state in which a client waits for it outside of a
//! transfer's data.

use super::Awaited;
use crate::client::copy;
use crate::client::line::Caller;
use crate::client::manner::Manner;
use crate::client::pipe::{PipeManner, pipe};
use fobs_channel::control::frame::encode;
use fobs_channel::control::{features, program};
use fobs_engine::Steering;
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind};
use fobs_model::event::{Event, EventSink};
use fobs_model::message::{Bytes, FileRequest, Hello, Message, PipeRequest, SecretText};
use fobs_model::options::{Carrier, Location, Remote, SshOptions, TransferOptions};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(1);
/// Far longer than it takes on a busy machine, and far shorter than the server is silent.
const AT_MOST: Duration = Duration::from_secs(60);
/// As large as no request carries it.
const LARGE: usize = 1 << 20;

struct Nobody;

impl EventSink for Nobody {
    fn event(&self, _: Event) {}
}

/// A program in place of ssh whose far side greets and then stays silent, longer than any test waits.
fn silent_program(place: &Path) -> TransferOptions {
    let hello = Hello { protocol: 1, newest: None, program: program(), fast_aes: true, features: features() };
    fs::write(place.join("hello"), encode(&Message::Hello(hello)).expect("a short message")).expect("a file");
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' -G '*) echo hostname 127.0.0.1; exit;; esac\ncat '{}'\nexec sleep 600\n",
        place.join("hello").display()
    );
    let program = place.join("ssh");
    fs::write(&program, script).expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("own file");
    let ssh = SshOptions { program: Some(program), ..SshOptions::default() };
    TransferOptions { timeout: TIMEOUT, opening: Some(AT_MOST), ssh, ..TransferOptions::default() }
}

fn remote(path: &[u8]) -> Remote {
    Remote {
        carrier: Carrier::Ssh,
        user: None,
        host: "127.0.0.1".to_owned(),
        port: None,
        path: path.to_vec(),
    }
}

/// The request about files that follows in a list of all: the compiler asks for those that are missing.
fn after(request: Option<&FileRequest>) -> Option<FileRequest> {
    let path = || Bytes(b"name".to_vec());
    Some(match request {
        None => FileRequest::List { path: path(), links: false },
        Some(FileRequest::List { .. }) => FileRequest::Stat { path: path(), links: true },
        Some(FileRequest::Stat { .. }) => FileRequest::Walk { path: path(), depth: 3 },
        Some(FileRequest::Walk { .. }) => FileRequest::Rename { path: path(), to: path(), replace: true },
        Some(FileRequest::Rename { .. }) => FileRequest::Copy { path: path(), to: path(), replace: false },
        Some(FileRequest::Copy { .. }) => FileRequest::Touch { path: path() },
        Some(FileRequest::Touch { .. }) => FileRequest::Remove { path: path(), tree: true },
        Some(FileRequest::Remove { .. }) => FileRequest::MakeDirectory { path: path(), parents: true },
        Some(FileRequest::MakeDirectory { .. }) => {
            FileRequest::Ticket { paths: vec![path()], size: 1, life_s: 1, holder: None }
        }
        Some(FileRequest::Ticket { .. }) => FileRequest::Fetch {
            path: path(),
            ticket: SecretText::new("ticket".to_owned()),
            host: "host".to_owned(),
            port: 1,
            key: Bytes(vec![1; 32]),
            picked: None,
        },
        Some(FileRequest::Fetch { .. }) => FileRequest::Hash { paths: vec![path()], piece: 1 << 20 },
        Some(FileRequest::Hash { .. }) => FileRequest::Room { path: path() },
        Some(FileRequest::Room { .. } | FileRequest::Unknown) => return None,
    })
}

/// How each wait of this kind ends, by name.
fn ends_of(awaited: Awaited, place: &Path, options: &TransferOptions) -> Vec<(String, Error)> {
    let (events, cancel): (Arc<dyn EventSink>, _) = (Arc::new(Nobody), CancelToken::new());
    let copied = |from, to| {
        let outcome = copy(&[from], &to, options, events.clone(), &cancel, Steering::new());
        vec![(format!("{awaited:?}"), outcome.expect_err("nobody answers"))]
    };
    let file = |len: usize| {
        let path = place.join("file");
        fs::write(&path, vec![7; len]).expect("a file");
        Location::Local(path)
    };
    match awaited {
        Awaited::Paths => copied(Location::Remote(remote(b"*.dat")), Location::Local(place.to_path_buf())),
        Awaited::Answer => copied(file(LARGE), Location::Remote(remote(b"there"))),
        Awaited::Stored => copied(file(5), Location::Remote(remote(b"there"))),
        Awaited::Pipe => {
            let steering = [Steering::new(), Steering::new()];
            let manner = PipeManner {
                options,
                sending: &events,
                receiving: &events,
                steering: &steering,
                cancel: &cancel,
            };
            let ends = || Err(Error::internal("it is not joined"));
            let outcome = pipe(&remote(b""), PipeRequest::command(b"cat".to_vec()), ends, manner);
            vec![("pipe".to_owned(), outcome.expect_err("nobody answers"))]
        }
        Awaited::Entries => {
            let requests = std::iter::successors(after(None), |request| after(Some(request)));
            let steering = Steering::new();
            let manner = Manner { options, events: &events, cancel: &cancel, steering: &steering };
            requests
                .map(|request| {
                    let outcome = Caller::new(remote(b"")).ask(&request, manner);
                    (request.describe(), outcome.expect_err("nobody answers"))
                })
                .collect()
        }
    }
}

#[test]
fn a_silent_server_ends_every_wait_of_a_client() {
    let ends = Vec::from_iter(Awaited::ALL.iter().map(|&awaited| {
        std::thread::spawn(move || {
            let place = tempfile::tempdir().expect("a directory");
            let options = silent_program(place.path());
            let began = Instant::now();
            let ends = ends_of(awaited, place.path(), &options);
            (ends, began.elapsed())
        })
    }));
    for ended in ends {
        let (ends, took) = ended.join().expect("it ends");
        for (what, error) in &ends {
            assert_eq!(error.kind, ErrorKind::Timeout, "{what}: {error}");
        }
        let count = u32::try_from(ends.len()).expect("few");
        assert!(count > 0 && took >= TIMEOUT * count && took < AT_MOST * count, "{took:?} for {count}");
    }
}

/// Files below `directory` that receive a message by themselves.
fn receivers(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("our own sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            receivers(&path, found);
        } else if fs::read_to_string(&path).is_ok_and(|text| text.contains("reader.recv")) {
            found.push(path.file_name().map_or_else(String::new, |name| name.display().to_string()));
        }
    }
}

#[test]
fn no_other_file_of_the_client_waits_for_messages() {
    let mut found = Vec::new();
    receivers(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/client"), &mut found);
    found.retain(|name| name != "tests.rs");
    assert_eq!(found, ["hearing.rs"]);
}
