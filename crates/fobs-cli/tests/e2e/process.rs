//! Programs under a deadline: started, watched, killed, and their output kept.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

/// Time between two checks of a running program.
const POLL: Duration = Duration::from_millis(5);

/// Exit status and output of a program.
#[derive(Debug)]
pub struct Finished {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error as text.
    pub stderr: String,
    /// From start to end.
    pub took: Duration,
}

impl Finished {
    /// Fails the test unless the program ended with this code.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Finished {
        assert_eq!(
            self.code,
            Some(code),
            "exit code; stderr:\n{}\nstdout (tail):\n{}",
            self.stderr,
            String::from_utf8_lossy(&self.stdout[self.stdout.len().saturating_sub(2000)..]),
        );
        self
    }

    /// Fails the test unless the program succeeded.
    #[track_caller]
    pub fn expect_success(self) -> Finished {
        self.expect_code(0)
    }

    /// All events of `--json`. Every line of standard output must be one, with `v` 1.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.stdout).expect("NDJSON is UTF-8");
        let parse = |line: &str| -> Value {
            let value: Value =
                serde_json::from_str(line).unwrap_or_else(|e| panic!("not JSON ({e}): {line}"));
            assert_eq!(value["v"], 1, "every event carries its version: {line}");
            value
        };
        text.lines().map(parse).collect()
    }

    /// The last event, which must be `done`.
    #[track_caller]
    pub fn done(&self) -> Value {
        let last = self.events().pop().unwrap_or_else(|| panic!("no event; stderr:\n{}", self.stderr));
        assert_eq!(last["event"], "done", "last event: {last}; stderr:\n{}", self.stderr);
        last
    }

    /// The last event, which must be `failed`, in agreement with the exit code.
    #[track_caller]
    pub fn failed(&self) -> Value {
        let last = self.events().pop().unwrap_or_else(|| panic!("no event; stderr:\n{}", self.stderr));
        assert_eq!(last["event"], "failed", "last event: {last}; stderr:\n{}", self.stderr);
        assert_eq!(last["exit_code"].as_i64(), self.code.map(i64::from), "{last}");
        last
    }

    /// The text of a failure: standard error and, with `--json`, the message.
    pub fn said(&self) -> String {
        format!("{}\n{}", self.stderr, String::from_utf8_lossy(&self.stdout))
    }
}

/// A running program; killed when dropped.
pub struct Running {
    child: Child,
    started: Instant,
    deadline: Instant,
    stdout: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    what: String,
}

impl Running {
    /// Starts a program; `input` becomes its standard input.
    #[track_caller]
    pub fn start(command: &mut Command, deadline: Instant, input: Option<Vec<u8>>) -> Running {
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        Running::spawn(command, deadline, input)
    }

    /// Starts a program as the foreground group of a terminal of its own, which is its standard input, and
    /// returns the master's side: what is written there is typed.
    #[track_caller]
    pub fn start_on_a_terminal(command: &Command, deadline: Instant) -> (Running, File) {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a pty");
        grantpt(&master).expect("its own");
        unlockpt(&master).expect("its own");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(name, flags, Mode::empty()).expect("a pty has two sides");
        // A new session with standard input as its terminal; execs without a fork, so the process id stays.
        let mut leader = Command::new("setsid");
        leader.arg("--ctty").arg(command.get_program()).args(command.get_args()).stdin(slave);
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => leader.env(name, value),
                None => leader.env_remove(name),
            };
        }
        (Running::spawn(&mut leader, deadline, None), File::from(master))
    }

    #[track_caller]
    fn spawn(command: &mut Command, deadline: Instant, input: Option<Vec<u8>>) -> Running {
        let what = format!("{command:?}");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{what}: {e}"));
        let (stdout, stderr) = (Arc::default(), Arc::default());
        let mut readers = vec![
            collect(child.stdout.take().expect("piped"), Arc::clone(&stdout)),
            collect(child.stderr.take().expect("piped"), Arc::clone(&stderr)),
        ];
        if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
            readers.push(std::thread::spawn(move || {
                // A program that ends early closes its end; its exit code is tested.
                let _ = pipe.write_all(&input);
            }));
        }
        Running { child, started: Instant::now(), deadline, stdout, readers, stderr, what }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, unless the program has ended already.
    pub fn signal(&mut self, signal: Signal) {
        if self.exited().is_none() {
            kill_process(Pid::from_child(&self.child), signal).expect("a child can be signalled");
        }
    }

    /// Kills it and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Its exit status, once it has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Length of its standard output so far, bytes.
    pub fn stdout_len(&self) -> usize {
        self.stdout.lock().expect("no panic under the lock").len()
    }

    /// Standard output so far, as text.
    pub fn stdout_so_far(&self) -> String {
        String::from_utf8_lossy(&self.stdout.lock().expect("no panic under the lock")).into_owned()
    }

    /// Its standard error so far.
    pub fn stderr_so_far(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().expect("no panic under the lock")).into_owned()
    }

    /// File bytes verified so far, by the newest line of `--json` that says so.
    pub fn bytes_so_far(&self) -> u64 {
        String::from_utf8_lossy(&self.stdout.lock().expect("no panic under the lock"))
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|event| event["event"] == "progress")
            .filter_map(|event| event["bytes"].as_u64())
            .next_back()
            .unwrap_or(0)
    }

    /// Returns once `--json` shows that file data has been verified; panics if the program ends before.
    #[track_caller]
    pub fn wait_until_data_flows(&mut self) {
        loop {
            let flows = String::from_utf8_lossy(&self.stdout.lock().expect("no panic under the lock"))
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok())
                .any(|event| event["event"] == "progress" && event["bytes"].as_u64().is_some_and(|n| n > 0));
            if flows {
                return;
            }
            assert!(self.exited().is_none(), "ended before any progress: {}", self.stderr_so_far());
            assert!(Instant::now() < self.deadline, "no progress in time: {}", self.stderr_so_far());
            std::thread::sleep(POLL);
        }
    }

    /// Waits for its end; at the deadline kills it and fails the test.
    #[track_caller]
    pub fn finish(mut self) -> Finished {
        let status = loop {
            if let Some(status) = self.exited() {
                break status;
            }
            if Instant::now() >= self.deadline {
                self.kill();
                panic!("{} did not end in time; stderr:\n{}", self.what, self.stderr_so_far());
            }
            std::thread::sleep(POLL);
        };
        let took = self.started.elapsed();
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader never panics");
        }
        Finished {
            code: status.code(),
            stdout: std::mem::take(&mut *self.stdout.lock().expect("no panic under the lock")),
            stderr: self.stderr_so_far(),
            took,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn collect(mut from: impl Read + Send + 'static, into: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count) = from.read(&mut buffer) {
            if count == 0 {
                return;
            }
            into.lock().expect("no panic under the lock").extend_from_slice(&buffer[..count]);
        }
    })
}
