//! `fobs submit` and `fobs jobs`: copies that a keeper runs, whatever happens to it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use super::case::Case;
use super::files::{hash, write_random};
use super::needs;
use super::net::Side;
use super::process::{Finished, Running};
use super::walls::Mounted;

/// Jobs of the run in which the keeper is killed again and again.
const JOBS: u64 = if cfg!(feature = "long") { 1000 } else { 100 };
/// How often it is killed.
const KILLS: u64 = if cfg!(feature = "long") { 50 } else { 8 };

pub fn fobs(case: &Case) -> Command {
    let mut command = case.fobs(Side::Client);
    command.current_dir(case.path("local"));
    command
}

pub fn run(case: &Case, words: &[&str]) -> Finished {
    case.run(fobs(case).args(words))
}

/// A keeper that answers.
pub fn keep(case: &Case, boot: &str) -> Running {
    let mut command = fobs(case);
    command.args(["jobs", "serve"]).env("FOBS_TEST_BOOT_ID", boot);
    let mut keeper = case.start(&mut command);
    let socket = case.path("home/fobs/jobs.socket");
    case.wait_for("the keeper answers", || {
        assert!(keeper.exited().is_none(), "the keeper ended: {}", keeper.stderr_so_far());
        std::os::unix::net::UnixStream::connect(&socket).is_ok()
    });
    keeper
}

pub fn kill(keeper: Running) {
    let pid = Pid::from_raw(i32::try_from(keeper.id()).expect("a number")).expect("a process");
    kill_process(pid, Signal::KILL).expect("ours");
    keeper.finish();
}

#[track_caller]
pub fn submit(case: &Case, words: &[&str]) -> String {
    let said = run(case, &[&["submit"], words].concat()).expect_success();
    String::from_utf8(said.stdout).expect("a number").trim().to_owned()
}

#[track_caller]
pub fn show(case: &Case, id: &str) -> Value {
    let said = run(case, &["jobs", "show", id, "--json"]).expect_success();
    serde_json::from_slice(&said.stdout).expect("one object")
}

pub fn phase(job: &Value) -> &str {
    job["standing"]["phase"].as_str().expect("a phase")
}

/// Ends what a job's attempt runs, as a host that goes down does.
pub fn kill_attempt(job: &Value) {
    let attempt = job["attempts"].as_array().and_then(|all| all.last()).expect("an attempt");
    let process = attempt["process"].as_i64().and_then(|process| i32::try_from(process).ok());
    let group = process.and_then(Pid::from_raw).expect("it runs");
    // It may have ended by now.
    let _ = kill_process_group(group, Signal::KILL);
}

/// A disk of the state alone, where root may mount one.
fn disk_of_state(case: &Case) -> Option<(Mounted, PathBuf)> {
    let state = case.path("home/.local/state/fobs/jobs");
    needs::Need::Root.is_given().then(|| (Mounted::in_memory(state.clone()), state))
}

/// Fills the disk of the state; what is handed in meanwhile is refused in a sentence, and the keeper goes on.
fn fill(case: &Case, state: &Path) {
    let filler = state.join("filler");
    let mut file = std::fs::File::create(&filler).expect("room for a name");
    // Ends with the first write that does not fit.
    while file.write_all(&[7; 64 << 10]).is_ok() {}
    while file.write_all(&[7; 64]).is_ok() {}
    drop(file);
    // Some fit into pages that the state has already.
    let refused = (0..64).find_map(|number| {
        let said = run(case, &["submit", "--label", "filler", "cp", "in0", &format!("none{number}")]);
        (said.code != Some(0)).then_some(said)
    });
    let refused = refused.expect("there is no room for 64 more").expect_code(4);
    assert!(refused.stderr.contains("no room for the state of jobs"), "{}", refused.stderr);
    std::fs::remove_file(&filler).expect("own file");
}

#[test]
fn jobs_end_once_each_while_their_keeper_is_killed() {
    let mut case = Case::alone("jobs_end_once_each_while_their_keeper_is_killed");
    case.deadline = Instant::now() + Duration::from_secs(if cfg!(feature = "long") { 7200 } else { 900 });
    let mut random = case.random();
    let source = |number: u64| case.local(format!("in{number}"));
    for number in 0..JOBS {
        write_random(&source(number), number * 37, &mut random);
    }
    let disk = disk_of_state(&case);
    let mut keeper = keep(&case, "one");
    run(&case, &["jobs", "limits", "--total", "8", "--per-host", "8", "--per-source", "8"]).expect_success();
    let kill_at: Vec<u64> = (0..KILLS).map(|_| random.below(JOBS)).collect();
    let mut ids = Vec::new();
    for number in 0..JOBS {
        let key = format!("key{number}");
        let (from, to) = (format!("in{number}"), format!("out{number}"));
        let words = ["--key", &key, "cp", &from, &to];
        ids.push(submit(&case, &words));
        if number == JOBS / 2
            && let Some((_, state)) = &disk
        {
            fill(&case, state);
        }
        for _ in kill_at.iter().filter(|at| **at == number) {
            std::thread::sleep(Duration::from_millis(random.below(300)));
            kill(keeper);
            keeper = keep(&case, "one");
            // What was handed in before is not handed in again.
            let again = usize::try_from(random.below(number + 1)).expect("small");
            let (key, from, to) = (format!("key{again}"), format!("in{again}"), format!("out{again}"));
            assert_eq!(submit(&case, &["--key", &key, "cp", &from, &to]), ids[again], "one job");
        }
    }
    let each: Vec<&str> = ids.iter().map(String::as_str).collect();
    run(&case, &[&["jobs", "wait"], each.as_slice()].concat()).expect_success();
    for number in 0..JOBS {
        assert_eq!(hash(&case.local(format!("out{number}"))), hash(&source(number)), "{number}");
    }
    let listed = run(&case, &["jobs", "--all", "--json"]).expect_success().events();
    let listed: Vec<&Value> = listed.iter().filter(|job| job["spec"]["label"] != "filler").collect();
    assert_eq!(listed.len() as u64, JOBS);
    for job in &listed {
        assert_eq!((phase(job), job["standing"]["runs"].as_u64()), ("done", Some(1)), "{job}");
    }
    kill(keeper);
}

#[test]
fn jobs_begin_by_priority_within_limits() {
    let mut case = Case::new("jobs_begin_by_priority_within_limits");
    case.deadline = Instant::now() + Duration::from_secs(300);
    let mut random = case.random();
    write_random(&case.local("first"), 6 << 20, &mut random);
    write_random(&case.local("in"), 10, &mut random);
    let keeper = keep(&case, "one");
    run(&case, &["jobs", "limits", "--total", "1"]).expect_success();
    let first = submit(&case, &["cp", "--rate", "8Mbit", "first", "out"]);
    case.wait_for("it runs", || phase(&show(&case, &first)) == "running");
    let mut wanted = Vec::new();
    for number in 0..12 {
        let priority = random.below(7) as i64 - 3;
        let (value, to) = (format!("--priority={priority}"), format!("out{number}"));
        wanted.push((-priority, submit(&case, &[&value, "cp", "in", &to])));
    }
    let first = show(&case, &first);
    assert_eq!(phase(&first), "running", "the others were all handed in while it ran: {first}");
    let ids: Vec<&str> = wanted.iter().map(|(_, id)| id.as_str()).collect();
    run(&case, &[&["jobs", "wait"], ids.as_slice()].concat()).expect_success();
    let began = |id: &String| show(&case, id)["standing"]["began_ms"].as_u64().expect("it began");
    let mut order = wanted.clone();
    order.sort_by_key(|(_, id)| began(id));
    wanted.sort_by_key(|(rank, id)| (*rank, id.parse::<u64>().expect("a number")));
    assert_eq!(order, wanted);
    kill(keeper);
}

#[test]
fn a_keeper_adopts_what_the_one_before_has_begun() {
    let case = Case::new("a_keeper_adopts_what_the_one_before_has_begun");
    write_random(&case.local("in"), 4 << 20, &mut case.random());
    let keeper = keep(&case, "one");
    let id = submit(&case, &["cp", "--rate", "8Mbit", "in", "out"]);
    case.wait_for("it runs", || show(&case, &id)["attempts"][0]["process"].is_i64());
    let process = show(&case, &id)["attempts"][0]["process"].clone();
    kill(keeper);
    let keeper = keep(&case, "one");
    run(&case, &["jobs", "wait", &id]).expect_success();
    let job = show(&case, &id);
    assert_eq!(job["attempts"].as_array().map(Vec::len), Some(1), "{job}");
    assert_eq!(job["attempts"][0]["process"], process);
    assert_eq!(hash(&case.local("out")), hash(&case.local("in")));
    kill(keeper);
}

#[test]
fn a_job_goes_on_after_the_host_went_down() {
    let case = Case::new("a_job_goes_on_after_the_host_went_down");
    write_random(&case.local("in"), 4 << 20, &mut case.random());
    let keeper = keep(&case, "one");
    let id = submit(&case, &["cp", "--rate", "8Mbit", "in", "out"]);
    case.wait_for("it runs", || show(&case, &id)["attempts"][0]["process"].is_i64());
    let job = show(&case, &id);
    kill(keeper);
    kill_attempt(&job);
    let keeper = keep(&case, "another");
    run(&case, &["jobs", "wait", &id]).expect_success();
    let job = show(&case, &id);
    assert_eq!(job["standing"]["failures"], 0, "{job}");
    assert_eq!(hash(&case.local("out")), hash(&case.local("in")));
    kill(keeper);
}

#[test]
fn a_submission_is_checked_and_its_key_is_one_job() {
    let case = Case::new("a_submission_is_checked_and_its_key_is_one_job");
    std::fs::write(case.local("in"), "x").expect("own directory");
    for (words, why) in [
        (&["cp", "--bogus", "in", "out"][..], "--bogus"),
        (&["cp", "in"], "needs a source and a destination"),
        (&["serve", "--root", "x"], "--authorized-keys"),
        (&["cp", "-", "nowhere:out"], "no standard input"),
        (&["--between", "20-06", "cp", "in", "out"], "20:00-06:00"),
        (&["--priority", "11", "cp", "in", "out"], "priority"),
        (&["--notify", "/no/such", "cp", "in", "out"], "no program"),
    ] {
        let refused = run(&case, &[&["submit"], words].concat()).expect_code(1);
        assert!(refused.stderr.contains(why), "{words:?}: {}", refused.stderr);
    }
    // Nothing was taken, so no keeper was needed.
    assert!(!case.path("home/fobs/jobs.socket").exists());
    let keeper = keep(&case, "one");
    let first = submit(&case, &["--key", "k", "cp", "in", "out"]);
    assert_eq!(submit(&case, &["--key", "k", "cp", "in", "out"]), first);
    let other = run(&case, &["submit", "--key", "k", "cp", "in", "elsewhere"]).expect_code(1);
    assert!(other.stderr.contains("stands for job"), "{}", other.stderr);
    let after = run(&case, &["submit", "--after", "77", "cp", "in", "out"]).expect_code(3);
    assert!(after.stderr.contains("no job 77"), "{}", after.stderr);
    run(&case, &["jobs", "wait", &first]).expect_success();
    let failing = submit(&case, &["cp", "not-there", "out"]);
    run(&case, &["jobs", "wait", &failing]).expect_code(3);
    kill(keeper);
}

#[test]
fn a_job_is_paused_resumed_and_cancelled() {
    let case = Case::new("a_job_is_paused_resumed_and_cancelled");
    write_random(&case.local("in"), 8 << 20, &mut case.random());
    let keeper = keep(&case, "one");
    let id = submit(&case, &["cp", "--rate", "8Mbit", "in", "out"]);
    case.wait_for("it runs", || phase(&show(&case, &id)) == "running");
    run(&case, &["jobs", "pause", &id]).expect_success();
    case.wait_for("it rests", || phase(&show(&case, &id)) == "paused");
    kill(keeper);
    let keeper = keep(&case, "another");
    assert_eq!(phase(&show(&case, &id)), "paused", "a pause outlives keeper and host");
    run(&case, &["jobs", "resume", &id]).expect_success();
    case.wait_for("it runs", || phase(&show(&case, &id)) == "running");
    run(&case, &["jobs", "cancel", &id]).expect_success();
    run(&case, &["jobs", "wait", &id]).expect_code(20);
    let listed = run(&case, &["jobs"]).expect_success();
    let listed = String::from_utf8(listed.stdout).expect("text");
    assert!(listed.contains("cancelled"), "{listed}");
    kill(keeper);
}

#[test]
fn a_keeper_is_started_on_demand() {
    let case = Case::new("a_keeper_is_started_on_demand");
    std::fs::write(case.local("in"), "x").expect("own directory");
    let none = run(&case, &["jobs"]).expect_success();
    assert!(none.stderr.contains("there are no jobs"), "{}", none.stderr);
    let id = submit(&case, &["cp", "in", "out"]);
    run(&case, &["jobs", "wait", &id]).expect_success();
    assert_eq!(std::fs::read(case.local("out")).expect("copied"), b"x");
    let state: PathBuf = case.path("home/.local/state/fobs/jobs");
    let note = std::fs::read_to_string(state.join("jobs.lock")).expect("held");
    let keeper = note.split_whitespace().nth(1).and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    let second = run(&case, &["jobs", "serve"]).expect_code(1);
    assert!(second.stderr.contains("another keeper"), "{}", second.stderr);
    kill_process(keeper.expect("its number"), Signal::TERM).expect("ours");
}

#[test]
fn another_users_jobs_are_not_shown() {
    if !needs::given("another_users_jobs_are_not_shown") {
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let case = Case::new("another_users_jobs_are_not_shown");
    let keeper = keep(&case, "one");
    let socket = case.path("home/fobs/jobs.socket");
    let ask = "import os,socket,sys\nos.setuid(65534)\ns=socket.socket(socket.AF_UNIX)\ntry:\n s.connect(sys.argv[1])\n\
               except PermissionError:\n print('closed'); sys.exit()\ns.sendall(b'GET /v1/jobs HTTP/1.1\\r\\nHost: \
               jobs\\r\\nConnection: close\\r\\n\\r\\n')\nprint(s.makefile().read())";
    let asked = |case: &Case| {
        let said = case.run(case.command(Side::Client, "python3").args(["-c", ask]).arg(&socket));
        String::from_utf8(said.expect_success().stdout).expect("text")
    };
    assert_eq!(asked(&case).trim(), "closed");
    // Also where a mistake has opened the way to it.
    case.open_to_every_user();
    for opened in [case.path("home"), case.path("home/fobs")] {
        std::fs::set_permissions(opened, PermissionsExt::from_mode(0o755)).expect("own");
    }
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666)).expect("own");
    let said = asked(&case);
    assert!(said.starts_with("HTTP/1.1 403") && said.contains("another user's"), "{said}");
    kill(keeper);
}

#[test]
fn a_keeper_is_asked_from_elsewhere_with_a_token() {
    let case = Case::new("a_keeper_is_asked_from_elsewhere_with_a_token");
    std::fs::write(case.local("in"), "x").expect("own directory");
    let keeper = case.start(fobs(&case).args(["jobs", "serve", "--listen", "127.0.0.1:0"]));
    case.wait_for("it listens", || keeper.stderr_so_far().contains("SHA-256: "));
    let said = keeper.stderr_so_far();
    let word = |before: &str| {
        let rest = said.split(before).nth(1).expect("said");
        rest.split([' ', ')']).next().expect("a word").to_owned()
    };
    let (url, fingerprint) = (format!("https://{}", word("https://")), word("SHA-256: "));
    let made = run(&case, &["jobs", "token", "create", "--scope", "read", "--name", "test"]).expect_success();
    assert!(made.stderr.contains("not shown again"), "{}", made.stderr);
    std::fs::write(case.local("token"), &made.stdout).expect("own directory");
    let id = submit(&case, &["cp", "in", "out"]);
    let far = ["jobs", "--url", &url, "--token-file", "token", "--fingerprint", &fingerprint];
    run(&case, &[&far[..], &["wait", &id]].concat()).expect_success();
    let refused = run(&case, &[&far[..], &["retry", &id]].concat()).expect_code(5);
    assert!(refused.stderr.contains("scope control"), "{}", refused.stderr);
    run(&case, &["jobs", "token", "revoke", "1"]).expect_success();
    let refused = run(&case, &far).expect_code(5);
    assert!(refused.stderr.contains("revoked"), "{}", refused.stderr);
    let listed = run(&case, &["jobs", "token", "list"]).expect_success();
    let listed = String::from_utf8(listed.stdout).expect("text");
    assert!(listed.contains("revoked") && listed.contains("test"), "{listed}");
    // Before anything is sent.
    for (words, why) in [
        (&["jobs", "--url", "http://127.0.0.1:1", "--token-file", "token"][..], "https"),
        (&["jobs", "--url", &url], "--token-file"),
        (&["jobs", "--url", &url, "--token-file", "token", "--fingerprint", "ab"], "64 hexadecimal"),
        (&["jobs", "token", "create", "--scope", "all"], "submit, read or control"),
        (&["jobs", "serve", "--cert", "x"], "--key"),
    ] {
        let refused = run(&case, words).expect_code(1);
        assert!(refused.stderr.contains(why), "{words:?}: {}", refused.stderr);
    }
    kill(keeper);
}
