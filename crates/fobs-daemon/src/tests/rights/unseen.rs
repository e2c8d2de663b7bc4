//! What a client that may only write learns does not depend on what it may not see: the same push into
//! places that differ tells it the same.

use super::stage::{BASE, SECRETS, Stage};
use fobs_model::options::TransferOptions;
use fobs_model::options::sync::{Compare, Report};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What stands in a place before the push: names of the push and others.
type Prepare = fn(&Path, &Path);

/// Places that a look would tell apart.
const PLACES: [(&str, Prepare); 6] = [
    ("nothing", |_, _| ()),
    ("the same, with the same times", |base, source| {
        for name in ["same", "new"] {
            fs::copy(source.join(name), base.join(name)).unwrap();
            set_time(&base.join(name), fs::metadata(source.join(name)).unwrap().modified().unwrap());
        }
        symlink("same", base.join("link")).unwrap();
    }),
    ("other content of the same length and time", |base, source| {
        fs::write(base.join("same"), "EQUAL").unwrap();
        set_time(&base.join("same"), fs::metadata(source.join("same")).unwrap().modified().unwrap());
    }),
    ("newer ones", |base, _| {
        fs::write(base.join("new"), "much newer").unwrap();
        set_time(&base.join("new"), SystemTime::now() + Duration::from_secs(1000));
    }),
    ("links in place of files", |base, _| {
        symlink("../../elsewhere", base.join("same")).unwrap();
        fs::create_dir(base.join("dir")).unwrap();
    }),
    ("what only others have", |base, _| {
        fs::create_dir_all(base.join("dir/hidden")).unwrap();
        fs::write(base.join("secret"), "one").unwrap();
        fs::write(base.join("dir/deep"), "two").unwrap();
    }),
];

fn set_time(path: &Path, time: SystemTime) {
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// How the client pushes.
fn ways(stage: &Stage) -> Vec<(&'static str, TransferOptions)> {
    vec![
        ("cp -r", stage.copy()),
        ("cp -rp", TransferOptions { preserve: true, ..stage.copy() }),
        ("sync -a", stage.sync(&|_| ())),
        ("sync -aii", stage.sync(&|sync| sync.report = Report::All)),
        (
            "sync -aIi",
            stage.sync(&|sync| {
                (sync.rules.compare, sync.report) = (Compare::Nothing, Report::Changed);
            }),
        ),
        ("sync -aHii", stage.sync(&|sync| (sync.preserve.hard_links, sync.report) = (true, Report::All))),
        (
            "sync -aii --modify-window",
            stage.sync(&|sync| {
                (sync.rules.modify_window, sync.report) = (1_000_000, Report::All);
            }),
        ),
    ]
}

/// Pushes into a place; what the client was told.
fn told(stage: &Stage, prepare: Prepare, options: TransferOptions) -> Vec<String> {
    stage.fresh();
    fs::remove_dir_all(stage.base()).unwrap();
    fs::create_dir(stage.base()).unwrap();
    prepare(&stage.base(), &stage.source());
    let (outcome, mut told) = stage.push(options);
    let done = outcome.unwrap();
    told.push(format!("{} files, {} bytes, {} resumed", done.files, done.bytes, done.resumed_bytes));
    told.push(format!("{:?} {:?}", done.others, done.errors));
    told
}

#[test]
fn a_writer_is_told_the_same_whatever_is_there() {
    let stage = Stage::new(false);
    for right in ["write-only".to_owned(), format!("write-only,path=\"{BASE}\"")] {
        stage.served.authorize_client_with(&right);
        for (way, options) in ways(&stage) {
            let expected = told(&stage, PLACES[0].1, options.clone());
            let is_said = expected.iter().any(|line| line.contains("nothing is compared"));
            assert_eq!(is_said, way.starts_with("sync"), "{expected:?}");
            assert!(
                expected.iter().any(|line| line.contains("4 files") || line.contains("3 files")),
                "{way}"
            );
            for (place, prepare) in &PLACES[1..] {
                assert_eq!(told(&stage, *prepare, options.clone()), expected, "{way} over {place}");
                for name in ["same", "new", "dir/inner"] {
                    let (sent, stored) = (stage.source().join(name), stage.base().join(name));
                    assert_eq!(
                        fs::read(stored).unwrap(),
                        fs::read(sent).unwrap(),
                        "{way} over {place}: {name}"
                    );
                }
            }
        }
    }
}

#[test]
fn an_appender_is_told_the_same_whatever_else_is_there() {
    let stage = Stage::new(false);
    stage.served.authorize_client_with("append-only");
    for (way, options) in ways(&stage) {
        let expected = told(&stage, PLACES[0].1, options.clone());
        let (place, prepare) = PLACES[PLACES.len() - 1];
        assert_eq!(told(&stage, prepare, options), expected, "{way} over {place}");
    }
}

#[test]
fn a_failure_does_not_say_what_is_in_the_way() {
    let stage = Stage::new(false);
    let directory: Prepare = |base, _| fs::create_dir_all(base.join("same/deep")).unwrap();
    let file: Prepare = |base, _| fs::write(base.join("dir"), "secret").unwrap();
    let fifo: Prepare = |base, _| {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, base.join("dir"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    for right in ["write-only", "append-only"] {
        stage.served.authorize_client_with(right);
        for (way, options) in ways(&stage) {
            for (place, prepare) in [("a directory", directory), ("a file", file), ("a fifo", fifo)] {
                let told = told(&stage, prepare, options.clone());
                let failed: Vec<_> = told.iter().filter(|line| line.starts_with("failed")).collect();
                assert_eq!(failed.len(), 1, "{way} over {place} with {right}: {told:?}");
                for word in ["directory of that name", "Is a directory", "Not a directory", "regular"] {
                    assert!(!failed[0].contains(word), "{way} over {place} with {right}: {failed:?}");
                }
                for secret in SECRETS {
                    assert!(!told.join("\n").contains(secret), "{way} over {place} with {right}: {told:?}");
                }
            }
            let told = (told(&stage, file, options.clone()), told(&stage, fifo, options));
            assert_eq!(told.0, told.1, "{way} with {right}");
        }
    }
}

#[test]
fn a_destination_that_cannot_be_used_is_not_described() {
    let stage = Stage::new(false);
    for right in ["write-only", "append-only"] {
        stage.served.authorize_client_with(right);
        stage.fresh();
        let session = stage.session();
        let refused = |name: &str| {
            let error = session.send(format!("{BASE}/{name}"), b"x").unwrap_err();
            error.message.replace(&format!("/{name}'"), "/it'")
        };
        // A file where a directory would have to be, nothing, and a directory for an object.
        let sentences = ["secret/x", "none/x", "dir"].map(refused);
        assert!(sentences[0].contains("not for this key to know"), "{sentences:?}");
        assert!(sentences.iter().all(|sentence| *sentence == sentences[0]), "{right}: {sentences:?}");
        // A directory that exists is no news; a file in its place is only in the way.
        session.make_directory(format!("{BASE}/dir")).unwrap();
    }
}
