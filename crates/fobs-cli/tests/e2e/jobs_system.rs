//! One keeper for all users of a host: whose a job is, what it may do, and who may see it. The users have
//! numbers and no accounts.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::case::Case;
use super::daemon::as_user;
use super::needs;
use super::net::Side;
use super::process::{Finished, Running};

/// Users without an account.
const ANN: u32 = 61_001;
const BOB: u32 = 61_002;

struct Host {
    case: Case,
    program: PathBuf,
    keeper: Option<Running>,
}

impl Host {
    fn new(name: &'static str) -> Host {
        let case = Case::new(name);
        let program = case.open_to_every_user();
        for (user, home) in [(ANN, "ann"), (BOB, "bob")] {
            fs::create_dir(case.path(home)).expect("own directory");
            fs::set_permissions(case.path(home), PermissionsExt::from_mode(0o700)).expect("own");
            chown(case.path(home), Some(user), Some(user)).expect("root gives it away");
        }
        let mut host = Host { case, program, keeper: None };
        host.start();
        host
    }

    fn start(&mut self) {
        let mut keeper = self.case.command(Side::Client, &self.program);
        keeper.args(["jobs", "serve", "--system"]).env("FOBS_TEST_BOOT_ID", "one");
        keeper
            .env("STATE_DIRECTORY", self.case.path("state"))
            .env("RUNTIME_DIRECTORY", self.case.path("run"));
        let mut keeper = self.case.start(&mut keeper);
        self.case.wait_for("the keeper answers", || {
            assert!(keeper.exited().is_none(), "the keeper ended: {}", keeper.stderr_so_far());
            UnixStream::connect(self.socket()).is_ok()
        });
        self.keeper = Some(keeper);
    }

    fn socket(&self) -> PathBuf {
        self.case.path("run/jobs.socket")
    }

    fn home(user: u32) -> &'static str {
        if user == ANN { "ann" } else { "bob" }
    }

    /// The program as a user, in the home of that user.
    fn command(&self, user: u32, words: &[&str]) -> Command {
        let home = self.case.path(Host::home(user));
        let setpriv = self.case.command(Side::Client, "setpriv");
        let mut command = if user == 0 {
            self.case.command(Side::Client, &self.program)
        } else {
            as_user(setpriv, user, &self.program)
        };
        command.args(words).env("HOME", &home).env("XDG_RUNTIME_DIR", &home).env_remove("XDG_STATE_HOME");
        command.env("FOBS_TEST_SYSTEM_RUN", self.case.path("run"));
        command.current_dir(if user == 0 { self.case.path("local") } else { home });
        command
    }

    fn run(&self, user: u32, words: &[&str]) -> Finished {
        self.case.run(&mut self.command(user, words))
    }

    #[track_caller]
    fn submit(&self, user: u32, words: &[&str]) -> String {
        let said = self.run(user, &[&["submit"], words].concat()).expect_success();
        String::from_utf8(said.stdout).expect("a number").trim().to_owned()
    }

    /// Writes a file of a user.
    fn write(&self, user: u32, name: &str, content: &[u8]) -> PathBuf {
        let path = self.case.path(Host::home(user)).join(name);
        fs::write(&path, content).expect("room");
        chown(&path, Some(user), Some(user)).expect("root gives it away");
        path
    }

    fn show(&self, user: u32, id: &str) -> Value {
        let said = self.run(user, &["jobs", "show", id, "--json"]).expect_success();
        serde_json::from_slice(&said.stdout).expect("one object")
    }

    /// Hands a job in as it stands; the answer's body.
    fn post(&self, user: u32, job: &Value) -> String {
        let script = "import socket,sys,os\nu=int(sys.argv[2])\nos.setgroups([]);os.setgid(u);os.setuid(u)\n\
                      s=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\nb=sys.argv[3].encode()\n\
                      s.sendall(b'POST /v1/jobs HTTP/1.1\\r\\nHost: jobs\\r\\nConnection: close\\r\\nContent-Type: \
                      application/json\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(b) + b)\nprint(s.makefile().read())";
        let mut python = self.case.command(Side::Client, "python3");
        python.args(["-c", script]).arg(self.socket()).arg(user.to_string()).arg(job.to_string());
        let said = self.case.run(&mut python).expect_success();
        String::from_utf8(said.stdout).expect("text")
    }

    fn end(mut self) {
        if let Some(keeper) = self.keeper.take() {
            super::jobs::kill(keeper);
        }
    }
}

#[test]
fn a_job_of_the_hosts_keeper_runs_as_its_submitter() {
    let name = "a_job_of_the_hosts_keeper_runs_as_its_submitter";
    if !needs::given(name) {
        return;
    }
    let mut host = Host::new(name);
    host.write(ANN, "in", b"hers");
    let script = host.write(
        ANN,
        "notify",
        b"#!/bin/sh\n{ id -u; id -G; grep ^CapEff /proc/self/status; echo $HOME; pwd; umask; } >told.new\n\
          mv told.new told\n",
    );
    fs::set_permissions(&script, PermissionsExt::from_mode(0o700)).expect("own");
    // No keeper of her own: found without a word.
    let id = host.submit(ANN, &["--notify", &script.display().to_string(), "cp", "in", "out"]);
    host.run(ANN, &["jobs", "wait", &id]).expect_success();
    let home = host.case.path("ann");
    let copy = fs::metadata(home.join("out")).expect("copied");
    assert_eq!((copy.uid(), copy.gid()), (ANN, ANN));
    host.case.wait_for("she is told", || home.join("told").exists());
    let told = fs::read_to_string(home.join("told")).expect("readable");
    let lines: Vec<&str> = told.lines().collect();
    let here = home.display().to_string();
    assert_eq!(lines[..2], [ANN.to_string(), ANN.to_string()], "{told}");
    assert!(lines[2].ends_with("0000000000000000"), "{told}");
    assert_eq!(lines[3..5], [here.clone(), here], "{told}");
    // Nobody can look into the keeper's state, and each may ask at its socket.
    let mode = |path: &str| fs::metadata(host.case.path(path)).expect("there").mode() & 0o777;
    assert_eq!((mode("state"), mode("run"), mode("run/jobs.socket")), (0o700, 0o755, 0o666));
    // A killed keeper's job goes on, and is adopted.
    host.write(ANN, "slow", &[7; 2 << 20]);
    let slow = host.submit(ANN, &["cp", "--rate", "4Mbit", "slow", "slow.out"]);
    host.case.wait_for("it runs", || host.show(ANN, &slow)["attempts"][0]["process"].is_i64());
    let process = host.show(ANN, &slow)["attempts"][0]["process"].clone();
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    assert!(status.contains(&format!("Uid:\t{ANN}\t{ANN}\t{ANN}\t{ANN}\n")), "{status}");
    super::jobs::kill(host.keeper.take().expect("it runs"));
    host.start();
    host.run(ANN, &["jobs", "wait", &slow]).expect_success();
    assert_eq!(host.show(ANN, &slow)["attempts"].as_array().map(Vec::len), Some(1));
    // A user with another keeper goes on with that one, unless `--system` says otherwise.
    host.write(BOB, "in", b"his");
    let mut own = host.command(BOB, &["jobs", "serve"]);
    let own = host.case.start(&mut own);
    host.case.wait_for("his answers", || UnixStream::connect(host.case.path("bob/fobs/jobs.socket")).is_ok());
    assert_eq!(host.submit(BOB, &["cp", "in", "out"]), "1");
    assert_eq!(host.submit(BOB, &["--system", "cp", "in", "out2"]), "3");
    host.run(BOB, &["jobs", "--system", "wait", "3"]).expect_success();
    super::jobs::kill(own);
    host.end();
}

#[test]
fn a_user_reaches_no_job_of_another_user() {
    let name = "a_user_reaches_no_job_of_another_user";
    if !needs::given(name) {
        return;
    }
    let host = Host::new(name);
    host.write(ANN, "in", &[7; 4 << 20]);
    let id = host.submit(ANN, &["--name", "secret", "cp", "--rate", "1Mbit", "in", "out"]);
    host.case.wait_for("it runs", || host.show(ANN, &id)["standing"]["phase"] == "running");
    for verb in ["show", "log", "wait", "pause", "resume", "retry", "cancel"] {
        let refused = host.run(BOB, &["jobs", verb, &id]).expect_code(3);
        assert!(refused.stderr.contains("there is no job 1"), "{verb}: {}", refused.stderr);
    }
    let listed = host.run(BOB, &["jobs", "--all", "--json"]).expect_success();
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "");
    let after = host.run(BOB, &["submit", "--after", &id, "cp", "in", "out"]).expect_code(3);
    assert!(after.stderr.contains("no job 1"), "{}", after.stderr);
    let limits = host.run(BOB, &["jobs", "limits", "--total", "9"]).expect_code(5);
    assert!(limits.stderr.contains("only root"), "{}", limits.stderr);
    host.run(BOB, &["jobs", "token", "create", "--scope", "read"]).expect_code(5);
    host.run(BOB, &["jobs", "page"]).expect_code(1);
    let seen = host.show(0, &id);
    assert_eq!((&seen["spec"]["name"], seen["user"].as_u64()), (&Value::from("secret"), Some(ANN.into())));
    assert_eq!(host.show(ANN, &id)["standing"]["phase"], "running", "nothing has touched it");
    host.run(0, &["jobs", "cancel", &id]).expect_success();
    host.run(ANN, &["jobs", "wait", &id]).expect_code(20);
    // Without root nobody serves all.
    let serve = host.run(BOB, &["jobs", "serve", "--system"]).expect_code(1);
    assert!(serve.stderr.contains("only root"), "{}", serve.stderr);
    host.run(BOB, &["jobs", "launch"]).expect_code(1);
    host.end();
}

#[test]
fn what_a_user_hands_in_has_his_rights_alone() {
    let name = "what_a_user_hands_in_has_his_rights_alone";
    if !needs::given(name) {
        return;
    }
    let host = Host::new(name);
    let home = host.case.path("ann");
    host.write(ANN, "in", b"hers");
    // A directory of root's, and links to it where she may write.
    let closed = host.case.path("closed");
    fs::create_dir(&closed).expect("own directory");
    fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).expect("own");
    fs::write(closed.join("theirs"), "of root").expect("own");
    std::os::unix::fs::symlink(&closed, home.join("link")).expect("a fresh link");
    let fails = |words: &[&str]| {
        let id = host.submit(ANN, words);
        let ended = host.run(ANN, &["jobs", "wait", &id]);
        assert!(!matches!(ended.code, Some(0) | None), "{words:?}: {}", ended.stderr);
    };
    fails(&["cp", "in", &closed.join("out").display().to_string()]);
    fails(&["cp", "in", "link/out"]);
    fails(&["cp", "link/theirs", "stolen"]);
    assert_eq!(fs::read_dir(&closed).expect("own").count(), 1);
    assert!(!home.join("stolen").exists());
    // What the command would have checked, the keeper has the user check.
    let job = |directory: &str, words: &[&str]| serde_json::json!({"words": words, "directory": directory});
    let closed = closed.display().to_string();
    let said = host.post(ANN, &job(&closed, &["cp", "theirs", "/tmp/x"]));
    assert!(said.starts_with("HTTP/1.1 422") && said.contains("cannot start"), "{said}");
    let here = home.display().to_string();
    let wrong = host.post(ANN, &job(&here, &["cp", "--bogus", "in", "out"]));
    assert!(wrong.starts_with("HTTP/1.1 422") && wrong.contains("--bogus"), "{wrong}");
    let taken = host.post(ANN, &job(&here, &["cp", "in", "by-api"]));
    assert!(taken.starts_with("HTTP/1.1 201"), "{taken}");
    let id = taken.split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).expect("a number");
    host.run(ANN, &["jobs", "wait", id]).expect_success();
    assert_eq!(fs::metadata(home.join("by-api")).expect("copied").uid(), ANN);
    // Loaded before any program that has her environment: with her rights, or not at all.
    let mut preloads = job(&here, &["cp", "in", "out"]);
    preloads["environment"] = serde_json::json!([["LD_PRELOAD", "/no/such.so"], ["PATH", "/usr/bin:/bin"]]);
    preloads["destinations"] = serde_json::json!(["this host"]);
    let taken = host.post(ANN, &preloads);
    let id = taken.split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).expect("a number");
    host.run(ANN, &["jobs", "wait", id]).expect_success();
    host.end();
}
