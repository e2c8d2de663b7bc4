//! Copies between two daemons by a client that holds no data.

use super::{builder, open};
use crate::served::{Served, content, wait_for};
use fobs::Session;
use fobs_model::error::ErrorKind;
use fobs_model::listing::{Entry, EntryKind};
use fobs_model::name::RelPath;
use fobs_model::options::sync::{Enter, SyncOptions};
use fobs_model::options::{PickedNames, Preserve, SignedTicket, TransferOptions};
use fobs_model::public_key::PublicKey;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
/// No holder is named.
const ANYBODY: Option<PublicKey> = None;

/// A source with some files, and a destination that fetches. Neither knows the other's key.
fn daemons() -> (Served, Served) {
    let (source, destination) = (Served::start(|_| ()), Served::start(|options| options.third_party = true));
    fs::create_dir(source.root().join("set")).unwrap();
    fs::write(source.root().join("set/one"), content(3 << 20)).unwrap();
    fs::write(source.root().join("set/two"), content(1000)).unwrap();
    fs::write(source.root().join("secret"), content(1000)).unwrap();
    (source, destination)
}

fn ticket(source: &Served, names: &[&str], size: u64) -> SignedTicket {
    open(source).call().ticket(names, size, MINUTE, ANYBODY).unwrap()
}

fn refused(session: &Session, ticket: &SignedTicket, why: &str) {
    let error = session.call().fetch("", ticket).unwrap_err();
    assert!(error.kind == ErrorKind::Denied && error.message.contains(why), "{error} has no {why:?}");
}

#[test]
fn a_destination_pulls_with_a_ticket_and_only_once() {
    let (source, destination) = daemons();
    let session = open(&destination);
    let signed = ticket(&source, &["set"], 4 << 20);
    let mut files = session.call().fetch("here", &signed).unwrap();
    files.sort_by(|one, other| one.name.cmp(&other.name));
    let names: Vec<_> = files.iter().map(|file| file.name.as_slice()).collect();
    assert_eq!(names, [b"set/one", b"set/two"]);
    let data = content(3 << 20);
    assert_eq!(files[0].root.unwrap(), *blake3::hash(&data).as_bytes());
    assert!(fs::read(destination.root().join("here/set/one")).unwrap() == data);
    // The source notes the end of the transfer when its own part of it is over.
    wait_for(|| (source.handle.sessions() == 0).then_some(()));
    refused(&session, &signed, "used already");
}

#[test]
fn an_altered_ticket_is_refused_by_both_ends() {
    let (source, destination) = daemons();
    let session = open(&destination);
    let signed = ticket(&source, &["set"], 4 << 20);
    let other = ticket(&source, &["secret"], 4 << 20);
    // The payload of one with the signature of the other.
    let (payload, _) = other.text.split_once('.').unwrap();
    let (_, signature) = signed.text.split_once('.').unwrap();
    let forged = SignedTicket { text: format!("{payload}.{signature}"), ..signed.clone() };
    refused(&session, &forged, "not signed");
    // A destination that looks away: the source finds it itself.
    let looking_away = TransferOptions { ticket: Some(forged), ..source.options() };
    let error = builder(&source).options(looking_away).open().and_then(|own| own.recv("secret", 5000));
    let error = error.unwrap_err();
    assert!(error.kind == ErrorKind::Denied && error.message.contains("not signed"), "{error}");
}

#[test]
fn an_expired_ticket_is_refused() {
    let (source, destination) = daemons();
    let brief = Duration::from_secs(1);
    let signed = open(&source).call().ticket(&["set"], 4 << 20, brief, ANYBODY).unwrap();
    std::thread::sleep(Duration::from_millis(2100));
    refused(&open(&destination), &signed, "expired");
}

#[test]
fn a_ticket_gives_no_more_than_its_paths_and_bytes() {
    let (source, destination) = daemons();
    let session = open(&destination);
    refused(&session, &ticket(&source, &["set"], 2 << 20), "more bytes");
    assert!(!destination.root().join("set/one").exists());
    // Its holder, whose key the source does not know, asks for something else.
    let key = source.directory("stranger").join("key");
    fobs::keygen(Some(&key)).unwrap();
    let signed = ticket(&source, &["set/two"], 5000);
    let options =
        || TransferOptions { ticket: Some(signed.clone()), identity: Some(key.clone()), ..source.options() };
    for name in ["secret", "set/../secret", "../x", "set/one", "set", ""] {
        let error = builder(&source).options(options()).open().unwrap().recv(name, 1 << 30).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied, "{name}: {error}");
    }
    let own = builder(&source).options(options()).open().unwrap();
    assert_eq!(own.send("set/two", b"x").unwrap_err().kind, ErrorKind::Denied, "the other direction");
    assert_eq!(own.list("set").unwrap_err().kind, ErrorKind::Denied, "a request of another kind");
    let own = builder(&source).options(options()).open().unwrap();
    assert_eq!(own.recv("set/two", 5000).unwrap(), content(1000));
    assert_eq!(own.recv("set/two", 5000).unwrap_err().kind, ErrorKind::Denied, "a second time");
}

#[test]
fn a_source_gives_no_ticket_beyond_the_rights_of_its_client() {
    let source = Served::start(|_| ());
    source.authorize_client_with("read-only,path=\"set\"");
    let session = open(&source);
    for names in [&["../x"][..], &["set/../../x"], &["secret"], &[""], &["set", "secret"], &["/"]] {
        let error = session.call().ticket(names, 1, MINUTE, ANYBODY).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied, "{names:?}: {error}");
    }
    session.call().ticket(&["set/x"], 1, MINUTE, ANYBODY).unwrap();
}

#[test]
fn a_destination_fetches_only_where_it_may() {
    let (source, destination) = daemons();
    let signed = ticket(&source, &["set/two"], 5000);
    destination.authorize_client_with("read-only");
    refused(&open(&destination), &signed, "may not have the server fetch");
    destination.authorize_client_with("read-write,path=\"own\"");
    for place in ["", "other", "own/../other", "../x"] {
        let error = open(&destination).call().fetch(place, &signed).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied, "{place}: {error}");
    }
    let cautious = Served::start(|_| ());
    refused(&open(&cautious), &signed, "--third-party");
    fs::create_dir(destination.root().join("own")).unwrap();
    open(&destination).call().fetch("own/x", &signed).unwrap();
}

#[test]
fn a_ticket_is_good_for_its_holder_and_from_its_issuer() {
    let (source, destination) = daemons();
    // The client's key stands for a stranger's: the destination comes with its own.
    let stranger = fobs_channel::keygen::show_key(Some(&source.client_key())).unwrap().public_line;
    let stranger = PublicKey::parse(&stranger).unwrap();
    let bound = open(&source).call().ticket(&["set/two"], 5000, MINUTE, Some(stranger)).unwrap();
    refused(&open(&destination), &bound, "another key");
    let mut elsewhere = ticket(&source, &["set/two"], 5000);
    elsewhere.port = destination.address().port();
    refused(&open(&destination), &elsewhere, "another key than the one that signed");
}

fn fetch_picked(
    destination: &Served,
    names: &[&str],
    ticket: &SignedTicket,
) -> fobs_model::error::Result<Vec<Entry>> {
    let names = names.iter().map(|name| RelPath::new(name.as_bytes().to_vec()).unwrap()).collect();
    // Without times a second fetch finds the file there only when both were made in one second.
    let preserve = Preserve { times: true, ..Preserve::default() };
    let picked = PickedNames { names, preserve, ..PickedNames::default() };
    open(destination).call().picked(picked).fetch("here", ticket)
}

#[test]
fn picked_names_come_as_of_a_sync_each_with_its_fate() {
    let (source, destination) = daemons();
    symlink("../secret", source.root().join("set/link")).unwrap();
    fs::create_dir(destination.root().join("here")).unwrap();
    fs::write(destination.root().join("here/mine"), b"mine").unwrap();
    let whole = ticket(&source, &["set/"], 4 << 20);
    let found = fetch_picked(&destination, &["two", "link", "absent"], &whole).unwrap();
    let here = destination.root().join("here");
    assert_eq!(fs::read_link(here.join("link")).unwrap().to_str(), Some("../secret"));
    assert!(fs::read(here.join("two")).unwrap() == content(1000) && !here.join("one").exists());
    assert_eq!(fs::read(here.join("mine")).unwrap(), b"mine", "nothing is deleted");
    let of = |kind| found.iter().filter(move |entry| entry.kind == kind).map(|entry| entry.name.as_slice());
    assert_eq!(of(EntryKind::File).collect::<Vec<_>>(), [b"two"]);
    // What limited it, and what did not come.
    assert_eq!(of(EntryKind::Other).collect::<Vec<_>>(), [&b""[..], b"absent"]);
    assert!(found.iter().filter(|entry| entry.kind == EntryKind::Other).all(|entry| entry.link.is_some()));
    // Once more: it is there.
    let whole = ticket(&source, &["set/"], 4 << 20);
    let found = fetch_picked(&destination, &["two"], &whole).unwrap();
    assert!(found.iter().all(|entry| entry.kind != EntryKind::File), "{found:?}");
}

#[test]
fn names_are_picked_only_of_the_directory_of_a_ticket() {
    let (source, destination) = daemons();
    let other = ticket(&source, &["set", "secret"], 4 << 20);
    let error = fetch_picked(&destination, &["two"], &other).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Usage, "{error}");
    assert!(error.message.contains("for that alone"), "{error}");
    let of_a_file = ticket(&source, &["secret"], 4 << 20);
    fetch_picked(&destination, &["two"], &of_a_file).unwrap_err();
    symlink("..", source.root().join("set/up")).unwrap();
    let whole = ticket(&source, &["set/"], 4 << 20);
    let _ = fetch_picked(&destination, &["up/secret"], &whole);
    assert!(!destination.root().join("here/up/secret").exists());
}

#[test]
fn a_sync_with_a_ticket_removes_no_source() {
    let (source, _) = daemons();
    let signed = ticket(&source, &["set/"], 4 << 20);
    let scratch = tempfile::tempdir().unwrap();
    let sync = SyncOptions { directories: Enter::All, remove_source_files: true, ..SyncOptions::default() };
    let options = TransferOptions {
        ticket: Some(signed),
        sync: Some(Arc::new(sync)),
        recursive: true,
        ..source.options()
    };
    let to = fobs::Location::Local(scratch.path().to_path_buf());
    let started = fobs::Transfer::builder(vec![source.remote("set/")], to).options(options).start();
    let error = started.and_then(|transfer| transfer.wait()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert!(source.root().join("set/two").exists());
}
