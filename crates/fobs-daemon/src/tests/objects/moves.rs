//! Names for what has one, copies, walks, links and stamps over a session.

use super::{connections, open};
use crate::served::Served;
pub use fobs::{Onto, Session};
use fobs_model::error::ErrorKind;
use fobs_model::listing::EntryKind;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

fn put(served: &Served, name: &str, content: &[u8], mode: u32) {
    let path = served.root().join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_rename_keeps_everything_but_the_name() {
    let served = Served::start(|_| ());
    let session = open(&served);
    put(&served, "a", b"a", 0o600);
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::options().append(true).open(served.root().join("a")).unwrap().set_modified(old).unwrap();
    fs::create_dir_all(served.root().join("d/sub")).unwrap();
    symlink("nowhere", served.root().join("link")).unwrap();
    let inode = fs::metadata(served.root().join("a")).unwrap().ino();
    session.rename("a", "d/b", Onto::Nothing).unwrap();
    let there = fs::metadata(served.root().join("d/b")).unwrap();
    assert_eq!((there.ino(), there.mode() & 0o777, there.modified().unwrap()), (inode, 0o600, old));
    session.rename("d", "e", Onto::Nothing).unwrap();
    session.rename("link", "e/link", Onto::Nothing).unwrap();
    assert!(served.root().join("e/sub").is_dir() && served.root().join("e/link").is_symlink());
    let kind = |outcome: fobs_model::error::Result<()>| outcome.unwrap_err().kind;
    assert_eq!(kind(session.rename("none", "x", Onto::Anything)), ErrorKind::NoSource);
    assert_eq!(kind(session.rename("e", "e/sub/x", Onto::Anything)), ErrorKind::Usage);
    assert_eq!(kind(session.rename("e", "/", Onto::Anything)), ErrorKind::Destination);
    assert_eq!(kind(session.rename("e/b", "none/b", Onto::Anything)), ErrorKind::NoSource);
    assert_eq!(kind(session.rename("e/b", "e", Onto::Anything)), ErrorKind::Destination);
    assert!(kind(session.rename("e/b", "../b", Onto::Anything)) == ErrorKind::Denied);
    session.rename("e/b", "e/b", Onto::Anything).unwrap();
    assert_eq!(session.recv("e/b", 10).unwrap(), b"a");
}

#[test]
fn of_eight_renames_to_one_name_one_succeeds() {
    let served = Served::start(|_| ());
    for number in 0..8 {
        put(&served, &format!("{number}"), format!("{number}").as_bytes(), 0o644);
    }
    let won: Vec<usize> = std::thread::scope(|scope| {
        let each = (0..8).map(|number| {
            let served = &served;
            scope.spawn(move || {
                let session = open(served);
                match session.rename(format!("{number}"), "one", Onto::Nothing) {
                    Ok(()) => Some(number),
                    Err(error) => {
                        assert_eq!(error.kind, ErrorKind::Destination, "{error}");
                        None
                    }
                }
            })
        });
        let each: Vec<_> = each.collect();
        each.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    let [winner] = won[..] else { panic!("{won:?}") };
    assert_eq!(fs::read(served.root().join("one")).unwrap(), format!("{winner}").as_bytes());
    assert_eq!(fs::read_dir(served.root()).unwrap().count(), 8);
}

#[test]
fn a_copy_is_made_at_the_server() {
    let served = Served::start(|_| ());
    let session = open(&served);
    let content: Vec<u8> = (0..3_000_001_u32).map(|at| (at % 251) as u8).collect();
    put(&served, "a", &content, 0o4640);
    let entry = session.copy("a", "b", Onto::Nothing).unwrap();
    assert_eq!((entry.size, entry.mode, entry.name), (content.len() as u64, 0o640, b"b".to_vec()));
    assert!(fs::read(served.root().join("b")).unwrap() == content);
    let kind = |outcome: fobs_model::error::Result<fobs_model::listing::Entry>| outcome.unwrap_err().kind;
    assert_eq!(kind(session.copy("a", "b", Onto::Nothing)), ErrorKind::Destination);
    put(&served, "b", b"other", 0o600);
    session.copy("b", "a", Onto::Anything).unwrap();
    assert_eq!(fs::read(served.root().join("a")).unwrap(), b"other");
    assert_eq!(kind(session.copy("a", "a", Onto::Anything)), ErrorKind::Usage);
    assert_eq!(fs::read(served.root().join("a")).unwrap(), b"other");
    session.make_directory("d").unwrap();
    assert_eq!(kind(session.copy("d", "e", Onto::Anything)), ErrorKind::Usage);
    assert_eq!(kind(session.copy("a", "d", Onto::Anything)), ErrorKind::Destination);
    assert_eq!(kind(session.copy("none", "e", Onto::Anything)), ErrorKind::NoSource);
    assert_eq!(fs::read_dir(served.root()).unwrap().count(), 3, "nothing unfinished is left");
}

#[test]
fn a_walk_enters_no_link_and_says_where_they_lead() {
    let served = Served::start(|_| ());
    let session = open(&served);
    fs::create_dir_all(served.root().join("t/a/b/c")).unwrap();
    put(&served, "t/a/b/file", b"four", 0o644);
    symlink("..", served.root().join("t/a/up")).unwrap();
    symlink("b/file", served.root().join("t/a/to")).unwrap();
    symlink("none", served.root().join("t/a/dangling")).unwrap();
    let names = |depth| {
        let mut names: Vec<_> = session.walk("t", depth).unwrap().into_iter().collect();
        names.sort_by(|a, b| a.name.cmp(&b.name));
        names
    };
    let found = names(u32::MAX);
    let shown: Vec<&[u8]> = found.iter().map(|entry| entry.name.as_slice()).collect();
    let expected: [&[u8]; 7] = [b"a", b"a/b", b"a/b/c", b"a/b/file", b"a/dangling", b"a/to", b"a/up"];
    assert_eq!(shown, expected);
    let link = |at: usize| found[at].link.as_ref().unwrap();
    assert!(found[4].kind == EntryKind::Link && link(4).leads_to.is_none() && link(4).text == b"none");
    let to = link(5).leads_to.as_ref().unwrap();
    assert_eq!((to.kind, to.size), (EntryKind::File, 4));
    assert_eq!(link(6).leads_to.as_ref().unwrap().kind, EntryKind::Directory);
    assert_eq!(names(1).len(), 1);
    assert_eq!(names(2).len(), 5);
    let listed = session.list_links("t/a").unwrap();
    assert_eq!(listed.iter().filter(|entry| entry.link.is_some()).count(), 3);
    assert!(session.list("t/a").unwrap().iter().all(|entry| entry.link.is_none()), "where nobody asked");
    let one = session.stat_link("t/a/to").unwrap();
    assert_eq!((one.kind, one.link.unwrap().text), (EntryKind::Link, b"b/file".to_vec()));
    assert_eq!(session.stat_link("t/a/").unwrap().kind, EntryKind::Directory);
    assert_eq!(session.stat_link("").unwrap().kind, EntryKind::Directory);
    assert_eq!(session.stat_link("t/none").unwrap_err().kind, ErrorKind::NoSource);
}

#[test]
fn names_are_given_where_both_directories_may_be_written() {
    let served = Served::start(|_| ());
    fs::create_dir_all(served.root().join("a/b")).unwrap();
    put(&served, "a/file", b"x", 0o644);
    put(&served, "file", b"x", 0o644);
    let as_key = |options: &str| -> Session {
        served.authorize_client_with(options);
        open(&served)
    };
    let denied = |outcome: fobs_model::error::Result<()>| outcome.unwrap_err().kind == ErrorKind::Denied;
    for options in ["read-only", "append-only"] {
        let session = as_key(options);
        assert!(denied(session.rename("a/file", "a/new", Onto::Nothing)), "{options}");
    }
    let session = as_key("read-only");
    assert!(denied(session.rename("a/file", "a/new", Onto::Anything)) && denied(session.touch("a/file")));
    assert!(denied(session.copy("a/file", "a/new", Onto::Anything).map(drop)));
    let session = as_key("write-only");
    assert!(denied(session.copy("a/file", "a/new", Onto::Anything).map(drop)), "it would show what is there");
    assert!(denied(session.walk("a", 9).map(drop)) && denied(session.stat_link("a/file").map(drop)));
    assert!(denied(session.rename("a/file", "a/new", Onto::Anything)), "it could take what others stored");
    let session = as_key("read-write,path=\"a\"");
    session.rename("a/file", "a/new", Onto::Anything).unwrap();
    assert!(denied(session.rename("a/new", "new", Onto::Anything)));
    assert!(denied(session.rename("file", "a/stolen", Onto::Anything)));
    assert!(denied(session.copy("file", "a/stolen", Onto::Anything).map(drop)));
    assert!(denied(session.rename("a", "b", Onto::Anything)), "its directory belongs to the one above");
    session.rename("a/new", "a/b/new", Onto::Anything).unwrap();
    assert!(served.root().join("a/b/new").exists() && served.root().join("file").exists());
}

#[test]
fn a_range_of_another_file_than_was_opened_is_an_error() {
    let served = Served::start(|_| ());
    let session = open(&served);
    for len in [1000, 200_000] {
        put(&served, "file", &vec![1; len], 0o644);
        let stamp = session.stat("file").unwrap().stamp();
        let read = |stamp| {
            let mut buffer = vec![0; len];
            session.call().stamp(stamp).read_range("file", 0, &mut buffer)
        };
        assert_eq!(read(stamp).unwrap(), len);
        put(&served, "new", &vec![2; len], 0o644);
        fs::rename(served.root().join("new"), served.root().join("file")).unwrap();
        let error = read(stamp).unwrap_err();
        assert!(error.kind == ErrorKind::FileIo && error.message.contains("changed"), "{error}");
        let stamp = session.stat("file").unwrap().stamp();
        fs::write(served.root().join("file"), b"short").unwrap();
        assert_eq!(read(stamp).unwrap_err().kind, ErrorKind::FileIo);
    }
    let old = session.stat("file").unwrap().modified();
    session.touch("file").unwrap();
    assert!(session.stat("file").unwrap().modified() >= old);
}

#[test]
fn requests_pass_a_transfer_that_runs() {
    let served = Served::start(|_| ());
    let session = open(&served);
    put(&served, "file", b"x", 0o644);
    let options = fobs_model::options::TransferOptions { rate_limit: Some(800_000), ..served.options() };
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| session.call().options(options).send("slow", &[7; 400_000]));
        std::thread::sleep(Duration::from_millis(800));
        assert_eq!(session.stat("file").unwrap().size, 1);
        session.rename("file", "new", Onto::Nothing).unwrap();
        assert!(!slow.is_finished(), "it takes four seconds");
        slow.join().unwrap().unwrap();
    });
    assert_eq!(session.stat("new").unwrap().size, 1);
    assert_eq!(connections(&served), 2);
}
