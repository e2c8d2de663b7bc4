//! `append-only`: what has a name keeps it, the server's clock and umask count, and an interrupted transfer
//! of the same key goes on.

use super::stage::{BASE, Stage, Standing, standing};
use crate::served::content;
use fobs::{Transfer, keygen};
use fobs_model::cancel::CancelToken;
use fobs_model::error::ErrorKind;
use fobs_model::event::{Event, EventSink, Summary};
use fobs_model::options::{Location, TransferOptions};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

fn appending() -> Stage {
    let stage = Stage::new(false);
    stage.fresh();
    stage.served.authorize_client_with("append-only");
    stage
}

/// Every way in which a client stores files.
fn ways(stage: &Stage) -> Vec<(&'static str, TransferOptions)> {
    vec![
        ("cp -r", stage.copy()),
        ("cp -rp", TransferOptions { preserve: true, ..stage.copy() }),
        ("cp -r --fsync", TransferOptions { fsync: true, ..stage.copy() }),
        ("cp -r --no-partial", TransferOptions { no_partial: true, ..stage.copy() }),
        ("sync -a", stage.sync(&|_| ())),
        (
            "sync -aHXAS",
            stage.sync(&|sync| {
                let preserve = &mut sync.preserve;
                (preserve.hard_links, preserve.xattrs, preserve.acls, preserve.sparse) =
                    (true, true, true, true);
                (preserve.owner, preserve.group) = (true, true);
            }),
        ),
    ]
}

#[test]
fn what_has_a_name_stays_to_the_last_bit() {
    let stage = appending();
    let (base, source) = (stage.base(), stage.source());
    let prepare = |stage: &Stage| {
        stage.fresh();
        // A name of each kind is taken, by something of another kind or content.
        fs::write(base.join("same"), "first").unwrap();
        fs::set_permissions(base.join("same"), Permissions::from_mode(0o640)).unwrap();
        symlink("secret", base.join("new")).unwrap();
        fs::write(base.join("link"), "no link").unwrap();
        fs::set_permissions(base.join("dir"), Permissions::from_mode(0o750)).unwrap();
        fs::write(base.join("dir/inner"), "no other").unwrap();
        fs::create_dir(base.join("taken")).unwrap();
        fs::write(source.join("taken"), "a file for a directory").unwrap();
        fs::hard_link(source.join("same"), source.join("second")).unwrap();
        fs::set_permissions(source.join("dir"), Permissions::from_mode(0o777)).unwrap();
    };
    let unchanged = |before: &Standing, what: &str| {
        for (path, was) in before {
            let now = standing(path);
            let (now, was) = (&now[path], was);
            // A directory's time and links change with the names in it.
            if path.is_dir() {
                assert_eq!((now.0, now.3), (was.0, was.3), "{what}: {}", path.display())
            } else {
                assert_eq!(now, was, "{what}: {}", path.display())
            }
        }
    };
    for (way, options) in ways(&stage) {
        prepare(&stage);
        let before = stage.standing();
        let (outcome, told) = stage.push(options);
        let errors = outcome.unwrap().errors;
        for name in ["same", "new", "link", "dir/inner", "taken"] {
            let named = errors.iter().find(|error| error.path == name.as_bytes());
            let message = &named.unwrap_or_else(|| panic!("{way}: {name} is not reported: {told:?}")).message;
            assert!(message.contains("name was taken"), "{way}: {message}");
        }
        unchanged(&before, way);
        assert!(crate::served::temporary_files(&base).is_empty(), "{way}");
    }
    prepare(&stage);
    let session = stage.session();
    for (name, data) in [("same", &b"other"[..]), ("same", &[7; 100_000]), ("new", b"other"), ("link", b"x")]
    {
        let error = session.send(format!("{BASE}/{name}"), data).unwrap_err();
        assert!(error.message.contains("name was taken"), "{name}: {error}");
    }
    fs::write(base.join("fetched"), "here already").unwrap();
    let before = stage.standing();
    let error = session.call().fetch(BASE, &stage.ticket()).unwrap_err();
    assert!(error.message.contains("name was taken"), "{error}");
    for name in ["same", "dir", "taken", "new"] {
        assert_eq!(session.remove(format!("{BASE}/{name}")).unwrap_err().kind, ErrorKind::Denied);
    }
    session.make_directory(format!("{BASE}/dir")).unwrap();
    session.make_directory(format!("{BASE}/same")).unwrap_err();
    unchanged(&before, "objects and names");
}

#[test]
fn the_servers_clock_and_umask_count() {
    for (way, index) in ["cp -rp", "sync -aHXAS"].into_iter().zip(0..) {
        let stage = appending();
        fs::remove_dir_all(stage.base()).unwrap();
        fs::create_dir(stage.base()).unwrap();
        let source = stage.source();
        let times = [SystemTime::UNIX_EPOCH, SystemTime::now() + Duration::from_secs(1 << 33)];
        for (name, time) in ["same", "new"].into_iter().zip(times) {
            fs::set_permissions(source.join(name), Permissions::from_mode(0o7777)).unwrap();
            fs::File::open(source.join(name)).unwrap().set_modified(time).unwrap();
        }
        fs::set_permissions(source.join("dir"), Permissions::from_mode(0o7777)).unwrap();
        fs::File::open(source.join("dir")).unwrap().set_modified(times[0]).unwrap();
        fs::File::open(&source).unwrap().set_modified(times[1]).unwrap();
        let options = ways(&stage).into_iter().find(|(name, _)| *name == way).unwrap().1;
        // The kernel's clock ticks every 4 ms or more.
        let begin = SystemTime::now() - Duration::from_millis(20);
        let (outcome, told) = stage.push(options);
        let end = SystemTime::now() + Duration::from_millis(20);
        assert!(outcome.unwrap().errors.is_empty(), "{told:?}");
        for name in ["", "same", "new", "dir", "dir/inner", "link"] {
            let meta = fs::symlink_metadata(stage.base().join(name)).unwrap();
            let stored = meta.modified().unwrap();
            assert!((begin..=end).contains(&stored), "{way} {index}: {name} of {stored:?}");
            if !meta.is_symlink() {
                let plain = if name.is_empty() { 0o777 } else { 0o777 & !umask() };
                assert_eq!(meta.mode() & 0o7000, 0, "{way}: {name}");
                assert_eq!(meta.mode() & 0o777 & !plain, 0, "{way}: {name} {:o}", meta.mode());
            }
        }
    }
}

fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap();
    u32::from_str_radix(line.trim(), 8).unwrap()
}

#[test]
fn of_clients_that_take_one_name_at_once_one_gets_it() {
    let stage = appending();
    for round in 0..20 {
        let name = format!("{BASE}/round-{round}");
        let stored = AtomicUsize::new(usize::MAX);
        let sessions: Vec<_> = (0..4).map(|_| stage.session()).collect();
        std::thread::scope(|scope| {
            for (number, session) in sessions.iter().enumerate() {
                let (name, stored) = (&name, &stored);
                scope.spawn(move || match session.send(name, &vec![number as u8; 5_000]) {
                    Ok(_) => {
                        assert_eq!(stored.swap(number, Ordering::SeqCst), usize::MAX, "two were told yes")
                    }
                    Err(error) => assert!(
                        error.message.contains("name was taken") || error.message.contains("another copy"),
                        "{error}"
                    ),
                });
            }
        });
        let winner = stored.into_inner();
        assert_ne!(winner, usize::MAX, "nobody stored round {round}");
        assert_eq!(fs::read(stage.served.root().join(&name)).unwrap(), vec![winner as u8; 5_000]);
    }
}

/// Cancels a copy once this many bytes of it are verified.
struct CancelAt(u64, CancelToken);

impl EventSink for CancelAt {
    fn event(&self, event: Event) {
        if let Event::Progress(progress) = event
            && progress.bytes >= self.0
        {
            self.1.cancel();
        }
    }
}

/// Pushes the client's files, and cancels that once `bytes` are verified.
fn interrupted(stage: &Stage, options: TransferOptions, bytes: u64) {
    let cancel = CancelToken::new();
    let events = Arc::new(CancelAt(bytes, cancel.clone()));
    let from = Location::Local(stage.source().join(""));
    let started = Transfer::builder([from], stage.served.remote(BASE))
        .options(TransferOptions { rate_limit: Some(80_000_000), ..options })
        .events(events)
        .cancel_token(cancel)
        .start();
    assert_eq!(started.unwrap().wait().unwrap_err().kind, ErrorKind::Interrupted);
}

/// Small files, links and one large file, which comes last.
fn large_source(stage: &Stage) {
    let source = stage.source();
    fs::write(source.join("zz-large"), content(24 << 20)).unwrap();
    fs::write(source.join("aa"), content(100_000)).unwrap();
    fs::hard_link(source.join("aa"), source.join("ab")).unwrap();
    symlink("aa", source.join("ac")).unwrap();
}

fn resumed(stage: &Stage, options: TransferOptions) -> Summary {
    interrupted(stage, options.clone(), 12 << 20);
    let (outcome, told) = stage.push(options);
    let done = outcome.unwrap();
    assert!(done.errors.is_empty(), "{told:?}");
    for name in ["zz-large", "aa", "ab", "same", "new", "dir/inner"] {
        let (sent, stored) = (stage.source().join(name), stage.base().join(name));
        assert!(fs::read(stored).unwrap() == fs::read(sent).unwrap(), "{name}");
    }
    done
}

#[test]
fn an_interrupted_push_of_the_same_key_goes_on() {
    let stage = Stage::new(false);
    for right in ["write-only", "append-only"] {
        for (way, options) in ways(&stage) {
            if options.no_partial || options.fsync {
                continue;
            }
            stage.served.authorize_client_with(right);
            stage.fresh();
            fs::remove_dir_all(stage.base()).unwrap();
            fs::create_dir(stage.base()).unwrap();
            large_source(&stage);
            let done = resumed(&stage, options);
            assert!(done.resumed_bytes >= 4 << 20, "{right}, {way}: {}", done.resumed_bytes);
        }
    }
}

#[test]
fn a_journal_of_another_key_tells_nothing() {
    for (right, stays) in [("write-only", false), ("append-only", true)] {
        let stage = Stage::new(false);
        stage.fresh();
        fs::remove_dir_all(stage.base()).unwrap();
        fs::create_dir(stage.base()).unwrap();
        large_source(&stage);
        let other = keygen(Some(&stage.served.directory("keys").join("other"))).unwrap();
        let mine = fobs_channel::keygen::show_key(Some(&stage.served.client_key())).unwrap().public_line;
        stage.served.authorize(&format!("read-write {}\n{right} {mine}\n", other.public_line));
        let options = stage.copy();
        let others = TransferOptions { identity: Some(other.path), ..options.clone() };
        interrupted(&stage, others.clone(), 12 << 20);
        let left = |stage: &Stage| crate::served::temporary_files(&stage.base());
        let before = left(&stage);
        assert!(before.len() >= 2, "a journal and a partial file: {before:?}");

        let (outcome, told) = stage.push(options);
        let done = outcome.unwrap();
        assert_eq!(done.resumed_bytes, 0, "{right}");
        let taken = done.errors.iter().all(|error| error.message.contains("name was taken"));
        assert!(taken, "{right}: {told:?}");
        assert_eq!(left(&stage) == before, stays, "{right}: {before:?} {:?}", left(&stage));
        if stays {
            // Its own key still goes on, but for what the appender has taken.
            assert!(stage.push(others).0.unwrap().resumed_bytes > 0);
        }
        assert!(fs::read(stage.base().join("zz-large")).unwrap() == content(24 << 20), "{right}");
    }
}
