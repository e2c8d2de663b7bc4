//! Files by name over a session: what is found and changed, the rights of keys, and escapes.

use super::{builder, connections, counter, open};
use crate::served::Served;
use fobs::Session;
use fobs_model::error::ErrorKind;
use fobs_model::listing::{Entry, EntryKind};
use fobs_model::message::Message;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

fn sorted(mut entries: Vec<Entry>) -> Vec<(String, EntryKind, u64)> {
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
        .into_iter()
        .map(|entry| (String::from_utf8(entry.name).unwrap(), entry.kind, entry.size))
        .collect()
}

#[test]
fn names_are_listed_looked_at_made_and_removed() {
    let served = Served::start(|_| ());
    let session = open(&served);
    session.make_directory("data").unwrap();
    session.make_directories("data/a/b/c").unwrap();
    session.make_directories("data/a/b/c").unwrap();
    session.send("data/file", b"seven..").unwrap();
    fs::set_permissions(served.root().join("data/file"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("file", served.root().join("data/link")).unwrap();
    let listed: Vec<_> =
        sorted(session.list("data").unwrap()).into_iter().map(|(name, kind, _)| (name, kind)).collect();
    let expected = [("a", EntryKind::Directory), ("file", EntryKind::File), ("link", EntryKind::Link)];
    assert_eq!(listed, expected.map(|(name, kind)| (name.to_owned(), kind)));
    let file = session.stat("data/file").unwrap();
    assert_eq!((file.size, file.mode, file.kind), (7, 0o640, EntryKind::File));
    let metadata = fs::metadata(served.root().join("data/file")).unwrap();
    assert_eq!(file.modified(), metadata.modified().ok());
    assert!(file.modified().unwrap() <= SystemTime::now());
    // A name stands for what its link leads to.
    let link = session.stat("data/link").unwrap();
    assert_eq!((link.size, link.kind), (7, EntryKind::File));
    assert_eq!(session.stat("").unwrap().kind, EntryKind::Directory);
    assert!(session.exists("data/a/b").unwrap() && !session.exists("data/none").unwrap());
    session.remove("data/link").unwrap();
    session.remove("data/a/b/c/").unwrap();
    session.remove("data/file").unwrap();
    assert_eq!(session.list("data/a/b").unwrap(), []);
    session.remove_tree("data").unwrap();
    assert!(!served.root().join("data").exists());
    assert_eq!(connections(&served), 1);
    // The last request is counted after it was answered.
    let counted = || counter(&served, "fobs_file_requests_total{outcome=\"ok\"}");
    let waits =
        (0..500).take_while(|_| counted() < 13).inspect(|_| std::thread::sleep(Duration::from_millis(10)));
    assert!(waits.count() < 500, "{} requests were counted", counted());
}

#[test]
fn room_is_that_of_the_nearest_directory_there() {
    let served = Served::start(|_| ());
    let session = open(&served);
    session.send("file", b"seven..").unwrap();
    let there = session.room("").unwrap();
    let stat = rustix::fs::statvfs(served.root()).unwrap();
    // Others write meanwhile; no file system grows beyond its size.
    assert!(there.free_bytes <= stat.f_blocks * stat.f_frsize);
    for name in ["file", "not/yet/made", "file/below", "/not/yet", "not/yet/"] {
        assert_eq!(session.room(name).unwrap().disk, there.disk, "{name}");
    }
    assert_eq!(session.room("../above").unwrap_err().kind, ErrorKind::Denied);
}

#[test]
fn failures_have_their_kinds_and_leave_the_session_usable() {
    let served = Served::start(|_| ());
    let session = open(&served);
    session.make_directories("full/inner").unwrap();
    session.send("file", b"x").unwrap();
    let kind = |outcome: fobs_model::error::Result<()>| outcome.unwrap_err().kind;
    assert_eq!(session.list("none").unwrap_err().kind, ErrorKind::NoSource);
    assert_eq!(session.list("file").unwrap_err().kind, ErrorKind::NoSource);
    assert_eq!(kind(session.remove("none")), ErrorKind::NoSource);
    assert_eq!(kind(session.remove_tree("none")), ErrorKind::NoSource);
    assert_eq!(kind(session.remove("full")), ErrorKind::Destination);
    assert_eq!(kind(session.make_directory("full")), ErrorKind::Destination);
    assert_eq!(kind(session.make_directory("none/deep")), ErrorKind::NoSource);
    assert_eq!(kind(session.make_directories("file/deep")), ErrorKind::Destination);
    for root in ["", "/", "."] {
        assert_eq!(kind(session.remove_tree(root)), ErrorKind::Destination, "{root:?}");
    }
    // No names of any key's rights.
    assert_eq!(session.stat("a\0b").unwrap_err().kind, ErrorKind::Denied);
    assert_eq!(session.stat([b'n'; 300]).unwrap_err().kind, ErrorKind::Usage);
    assert!(session.exists("full").unwrap());
    assert_eq!(connections(&served), 1);
}

#[test]
fn no_name_leads_out_of_the_root() {
    let served = Served::start(|_| ());
    let outside = served.directory("outside");
    fs::write(outside.join("secret"), b"secret").unwrap();
    symlink(&outside, served.root().join("out")).unwrap();
    symlink("../outside", served.root().join("up")).unwrap();
    let session = open(&served);
    for name in ["out/secret", "up/secret", "../outside/secret", "out", "up", "/../outside"] {
        assert_eq!(session.stat(name).unwrap_err().kind, ErrorKind::Denied, "{name}");
        assert!(session.list(name).is_err() && session.make_directory(format!("{name}/new")).is_err());
    }
    for name in ["out/secret", "up/secret", "../outside/secret"] {
        assert!(session.remove(name).is_err() && session.remove_tree(name).is_err(), "{name}");
    }
    // The link goes, and not what it leads to.
    session.make_directory("tree").unwrap();
    symlink(&outside, served.root().join("tree/out")).unwrap();
    session.remove_tree("tree").unwrap();
    session.remove_tree("out").unwrap();
    assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret");
}

#[test]
fn a_key_looks_where_it_reads_and_changes_where_it_writes() {
    let served = Served::start(|_| ());
    fs::create_dir_all(served.root().join("a/b")).unwrap();
    fs::create_dir_all(served.root().join("c")).unwrap();
    let as_key = |options: &str| -> Session {
        served.authorize_client_with(options);
        open(&served)
    };
    let denied = |outcome: fobs_model::error::Result<()>| outcome.unwrap_err().kind == ErrorKind::Denied;
    let session = as_key("read-only");
    assert_eq!(session.list("a").unwrap().len(), 1);
    assert!(denied(session.remove("a/b")) && denied(session.make_directory("a/n")));
    let session = as_key("write-only");
    assert!(denied(session.list("a").map(drop)) && denied(session.stat("a").map(drop)));
    session.make_directory("a/made").unwrap();
    assert!(denied(session.remove("a/made")) && denied(session.remove_tree("a")));
    let session = as_key("read-write,path=\"a\"");
    session.remove("a/made").unwrap();
    assert_eq!(session.list("a").unwrap().len(), 1);
    assert!(denied(session.list("c").map(drop)) && denied(session.list("").map(drop)));
    assert!(denied(session.remove_tree("c")) && denied(session.make_directories("new/deep")));
    assert!(denied(session.remove_tree("a")), "its directory belongs to the one above");
    assert!(denied(session.remove_tree("a/../c")));
    session.remove_tree("a/b").unwrap();
    // A key that is removed is refused at once.
    served.authorize("");
    assert!(denied(session.list("a").map(drop)));
    assert!(served.root().join("c").exists());
}

#[test]
fn a_read_only_server_changes_nothing() {
    let served = Served::start(|options| options.read_only = true);
    fs::write(served.root().join("file"), b"x").unwrap();
    let session = open(&served);
    assert!(session.exists("file").unwrap());
    assert_eq!(session.remove("file").unwrap_err().kind, ErrorKind::Denied);
    assert_eq!(session.make_directories("a/b").unwrap_err().kind, ErrorKind::Denied);
    assert!(served.root().join("file").exists());
}

#[test]
fn large_directories_come_in_parts_and_deep_trees_are_bounded() {
    let served = Served::start(|_| ());
    fs::create_dir(served.root().join("many")).unwrap();
    for number in 0..1234 {
        fs::write(served.root().join(format!("many/{number:04}")), b"").unwrap();
    }
    let session = open(&served);
    let listed = sorted(session.list("many").unwrap());
    assert_eq!(listed.len(), 1234);
    assert_eq!(listed[1233].0, "1233");
    session.remove_tree("many").unwrap();
    let deep = vec!["d"; 120].join("/");
    session.make_directories(&deep).unwrap();
    assert_eq!(session.remove_tree("d").unwrap_err().kind, ErrorKind::Usage);
    session.remove_tree(vec!["d"; 60].join("/")).unwrap();
    session.remove_tree("d").unwrap();
    let too_long = vec!["d"; 2049].join("/");
    assert_eq!(session.make_directories(&too_long).unwrap_err().kind, ErrorKind::Usage);
    assert_eq!(fs::read_dir(served.root()).unwrap().count(), 0);
}

#[test]
fn an_older_server_is_refused_by_name() {
    let served = Served::start(|_| ());
    let session = builder(&served).plays_old().open().unwrap();
    let error = session.list("").unwrap_err();
    assert_eq!(error.kind, ErrorKind::RemoteMissing);
    assert!(error.message.contains("older fobs"), "{error}");
    session.send("still", b"works").unwrap();
}

#[test]
fn a_connection_that_broke_at_rest_is_made_again() {
    let served = Served::start(|_| ());
    let session = open(&served);
    assert!(!session.exists("file").unwrap());
    session.hang_up();
    assert!(!session.exists("file").unwrap());
    assert_eq!(connections(&served), 2);
}

#[test]
fn an_answer_that_is_none_is_an_error() {
    let nonsense = Message::Answer { entries: Vec::new(), last: true };
    let error = super::hostile::with_answer(nonsense, |session| session.stat("file"));
    assert_eq!(error.kind, ErrorKind::Protocol);
    let error = super::hostile::with_answer(Message::Over, |session| session.list("file"));
    assert_eq!(error.kind, ErrorKind::Connect);
    let other = Message::DeletionsLeft { count: 1 };
    let error = super::hostile::with_answer(other, |session| session.list("file"));
    assert_eq!(error.kind, ErrorKind::Protocol);
}
