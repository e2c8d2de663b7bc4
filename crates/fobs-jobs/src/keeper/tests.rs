//! Keepers over a program of the test's own: a script that does what the job's second word says.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::job::{JobId, Phase, Spec};
use crate::store::Submitted;

/// As `fobs cp --json SCRIPT`.
const PROGRAM: &str = "#!/bin/sh\nshift 2\neval \"$1\"\n";
const DONE: &str = "echo '{\"v\":1,\"event\":\"done\",\"bytes\":3,\"files\":1,\"errors\":[]}'";
/// Everything here takes far less.
const PATIENCE: Duration = Duration::from_secs(60);

struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    fn new() -> Home {
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("program");
        fs::write(&program, PROGRAM).expect("own directory");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("own file");
        Home { directory }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn open(&self, boot: &str) -> Keeper {
        let config = KeeperConfig {
            boot: Some(boot.to_owned()),
            ..KeeperConfig::new(self.path("state"), self.path("program"))
        };
        // The thread of the one before may hold the state for a moment.
        let begin = Instant::now();
        loop {
            match Keeper::open(config.clone()) {
                Ok((keeper, _)) => return keeper,
                Err(StoreError::Taken(_)) if begin.elapsed() < PATIENCE => {
                    thread::sleep(Duration::from_millis(10))
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn run(&self, boot: &str) -> Keeper {
        let keeper = self.open(boot);
        let own = keeper.clone();
        thread::spawn(move || own.run());
        keeper
    }

    fn spec(&self, script: &str) -> Spec {
        let path = std::env::var_os("PATH").expect("a path");
        let directory = self.directory.path().as_os_str().to_owned();
        Spec {
            environment: vec![("PATH".to_owned(), path.into())],
            ..Spec::new(vec!["cp".into(), script.into()], directory.into())
        }
    }
}

fn submit(keeper: &Keeper, spec: &Spec) -> JobId {
    match keeper.submit(spec.clone()).expect("room") {
        Submitted::New(id) | Submitted::Known(id) => id,
    }
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "in time: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[track_caller]
fn until_phase(keeper: &Keeper, id: JobId, phase: Phase) -> JobView {
    until(phase.name(), || keeper.job(id).expect("there").standing.phase == phase);
    keeper.job(id).expect("there")
}

fn count(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[test]
fn a_job_runs_in_its_directory_and_ends_once() {
    let home = Home::new();
    let keeper = home.run("a");
    let notify =
        ["sh", "-c", "echo \"$FOBS_JOB_ID $FOBS_JOB_PHASE\" >> told"].map(crate::job::Word::from).to_vec();
    let spec = Spec { notify, ..home.spec(&format!("echo x >> ran; {DONE}")) };
    let id = submit(&keeper, &spec);
    let view = until_phase(&keeper, id, Phase::Done);
    assert_eq!((view.attempts.len(), view.standing.runs, view.standing.exit_code), (1, 1, Some(0)));
    assert_eq!(view.attempts[0].bytes, 3);
    until("told", || count(&home.path("told")) == 1);
    assert_eq!(fs::read_to_string(home.path("told")).expect("told"), "1 done\n");
    assert_eq!(count(&home.path("ran")), 1);
    let metrics = keeper.metrics().expect("read");
    let of = format!("{{user=\"{}\",label=\"\"", rustix::process::getuid().as_raw());
    for line in [
        "fobs_jobs{phase=\"done\"} 1\n".to_owned(),
        format!("fobs_jobs_submitted_total{of}}} 1\n"),
        format!("fobs_jobs_ended_total{of},phase=\"done\"}} 1\n"),
        format!("fobs_jobs_moved_bytes_total{of}}} 3\n"),
        format!("fobs_jobs_wait_seconds_count{of}}} 1\n"),
    ] {
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    let failing = submit(&keeper, &home.spec("echo why >&2; exit 4"));
    let view = until_phase(&keeper, failing, Phase::Failed);
    assert_eq!(view.standing.exit_code, Some(4));
    assert!(keeper.log(failing).expect("read").iter().any(|line| line.text == "why"));
    let gone = Spec { directory: "/no/such/directory".into(), ..spec };
    let gone = submit(&keeper, &gone);
    let view = until_phase(&keeper, gone, Phase::Failed);
    assert!(view.standing.message.expect("a reason").contains("cannot start"));
    keeper.end();
}

#[test]
fn what_is_handed_in_for_a_user_has_the_umask_of_the_keepers_start() {
    let home = Home::new();
    let keeper = home.open("a");
    keeper.core().umask = 0o027;
    let mut program = keeper.program();
    // The script runs what stands third.
    let said = program.args(["1", "2", "umask"]).output().expect("a shell");
    let said = String::from_utf8(said.stdout).expect("text");
    assert_eq!(said, "0027\n");
}

#[test]
fn a_keeper_that_ends_takes_nothing() {
    let home = Home::new();
    let keeper = home.run("a");
    let id = submit(&keeper, &home.spec(DONE));
    until_phase(&keeper, id, Phase::Done);
    keeper.end();
    let refused = keeper.submit(home.spec(DONE)).expect_err("it ends");
    assert!(matches!(refused, OrderError::Ending), "{refused}");
    assert!(matches!(keeper.change(id, Change::Retry), Err(OrderError::Ending)));
}

#[test]
fn an_attempt_outlives_its_keeper_and_is_adopted() {
    let home = Home::new();
    let keeper = home.run("a");
    let id = submit(
        &keeper,
        &home.spec(&format!("echo x >> ran; while [ ! -e go ]; do sleep 0.05; done; {DONE}")),
    );
    until("it runs", || count(&home.path("ran")) == 1);
    let process = until_phase(&keeper, id, Phase::Running).attempts[0].process;
    // Its threads go on in this process; the state is another keeper's from here on.
    let directory = home.path("state");
    let copy = home.path("copy");
    fs::create_dir(&copy).expect("own");
    keeper.end();
    for entry in fs::read_dir(&directory).expect("own").flatten().filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), copy.join(entry.file_name())).expect("room");
    }
    std::os::unix::fs::symlink(directory.join("run"), copy.join("run")).expect("own");
    let config = KeeperConfig { boot: Some("a".to_owned()), ..KeeperConfig::new(copy, home.path("program")) };
    let (next, said) = Keeper::open(config).expect("a state");
    assert_eq!(said, ["1 transfers of an earlier keeper still run, and are watched"]);
    let own = next.clone();
    thread::spawn(move || own.run());
    assert_eq!(next.job(id).expect("there").attempts[0].process, process);
    fs::write(home.path("go"), "").expect("own");
    let view = until_phase(&next, id, Phase::Done);
    assert_eq!((view.attempts.len(), count(&home.path("ran"))), (1, 1));
    next.end();
}

#[test]
fn orders_reach_attempts_that_run() {
    let home = Home::new();
    let keeper = home.run("a");
    let script = format!("echo x >> ran; trap 'exit 20' INT; while [ ! -e go ]; do sleep 0.05; done; {DONE}");
    let id = submit(&keeper, &home.spec(&script));
    until("it runs", || count(&home.path("ran")) == 1);
    keeper.change(id, Change::Pause).expect("it runs");
    let view = until_phase(&keeper, id, Phase::Paused);
    assert_eq!(view.why.as_deref(), Some("paused; fobs jobs resume lets it go on"));
    keeper.change(id, Change::Resume).expect("it rests");
    until("it runs again", || count(&home.path("ran")) == 2);
    keeper.change(id, Change::Cancel).expect("it runs");
    until_phase(&keeper, id, Phase::Cancelled);
    keeper.change(id, Change::Pause).expect_err("it is over");
    fs::write(home.path("go"), "").expect("own");
    keeper.change(id, Change::Retry).expect("it is over");
    let view = until_phase(&keeper, id, Phase::Done);
    assert_eq!((view.attempts.len(), count(&home.path("ran"))), (3, 3));
    keeper.end();
}

#[test]
fn a_full_disk_refuses_what_is_new_and_loses_no_end() {
    let home = Home::new();
    let keeper = home.run("a");
    let id = submit(
        &keeper,
        &home.spec(&format!("echo x >> ran; while [ ! -e go ]; do sleep 0.05; done; {DONE}")),
    );
    until("it runs", || count(&home.path("ran")) == 1);
    until_phase(&keeper, id, Phase::Running);
    keeper.core().store.bound_pages(Some(1));
    // Larger than what is left of the last page.
    let large = Spec { name: "n".repeat(200), ..home.spec(&"true;".repeat(8000)) };
    let refused = keeper.submit(large.clone()).expect_err("no room");
    assert!(matches!(refused, OrderError::Store(StoreError::Full(_))), "{refused}");
    fs::write(home.path("go"), "").expect("own");
    until("its end is seen", || keeper.core().live.is_empty());
    assert_eq!(
        keeper.job(id).expect("there").standing.phase,
        Phase::Done,
        "also where it is not written yet"
    );
    keeper.core().store.bound_pages(None);
    submit(&keeper, &large);
    until("it is written", || {
        keeper.core().store.job(id).is_ok_and(|record| record.standing.phase == Phase::Done)
    });
    keeper.end();
}

#[test]
fn the_next_start_of_the_host_begins_cut_attempts_again() {
    let home = Home::new();
    let first = home.run("a");
    let mut ids = BTreeMap::new();
    for number in 0..3 {
        let script = format!("echo x >> ran{number}; [ -e go ] || exec sleep 600; {DONE}");
        ids.insert(number, submit(&first, &home.spec(&script)));
    }
    first.set_limits(crate::schedule::Limits { total: 3, per_host: 3, per_source: 3 }).expect("in bounds");
    until("all run", || (0..3).all(|number| count(&home.path(&format!("ran{number}"))) == 1));
    until("all are written", || {
        let core = first.core();
        ids.values()
            .all(|id| core.store.last_attempt(*id).expect("read").is_some_and(|one| one.process.is_some()))
    });
    let copy = home.path("copy");
    fs::create_dir(&copy).expect("own");
    {
        let core = first.core();
        for entry in
            fs::read_dir(home.path("state")).expect("own").flatten().filter(|entry| entry.path().is_file())
        {
            fs::copy(entry.path(), copy.join(entry.file_name())).expect("room");
        }
        drop(core);
    }
    fs::write(home.path("go"), "").expect("own");
    let config = KeeperConfig { boot: Some("b".to_owned()), ..KeeperConfig::new(copy, home.path("program")) };
    let (next, said) = Keeper::open(config).expect("a state");
    assert_eq!(said, ["3 transfers of an earlier keeper have ended, and are seen to"]);
    let own = next.clone();
    thread::spawn(move || own.run());
    for (number, id) in &ids {
        let view = until_phase(&next, *id, Phase::Done);
        assert_eq!(view.standing.failures, 0, "no failure of its own");
        assert_eq!(count(&home.path(&format!("ran{number}"))), 2);
    }
    next.end();
    // The processes of the first start are still there: this host never went down.
    for id in ids.values() {
        first.change(*id, Change::Cancel).expect("it runs");
        until_phase(&first, *id, Phase::Cancelled);
    }
    first.end();
}
