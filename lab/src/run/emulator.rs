//! The emulator as a child process: this program's own `link`, spoken to over its control socket.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::link::counters::Counters;
use crate::link::spec::LinkSpec;
use crate::tool::Host;

/// Namespaces and devices are made in far less, on a busy machine too.
const START: Duration = Duration::from_secs(20);
/// An answer on the control socket comes at once; an emulator that is busy for seconds is broken.
const ANSWER: Duration = Duration::from_secs(5);
/// Namespaces are removed in this time.
const STOP: Duration = Duration::from_secs(10);
/// Longest line of the emulator: counters are a few kilobytes.
const LINE_BYTES: u64 = 1 << 20;

/// A path that is being emulated; removed when it is dropped.
pub struct Emulator {
    child: Child,
    /// The emulator ends when this is closed, so it does not outlive a runner that was killed.
    stdin: Option<ChildStdin>,
    hosts: Vec<Host>,
    control: PathBuf,
}

/// The emulator's first line, once its hosts exist.
#[derive(Deserialize)]
struct Ready {
    hosts: Vec<ReadyHost>,
}

#[derive(Deserialize)]
struct ReadyHost {
    name: String,
    namespace: String,
    address: String,
    #[serde(default)]
    address6: Option<String>,
}

impl Emulator {
    /// Starts one for the path; its spec and its socket lie in `folder`.
    pub fn start(spec: &LinkSpec, folder: &Path) -> Result<Emulator, String> {
        let text = toml::to_string(spec).map_err(|error| format!("cannot serialise the path: {error}"))?;
        let (file, control) = (folder.join("link.toml"), folder.join("link.sock"));
        fs::write(&file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        let own =
            std::env::current_exe().map_err(|error| format!("cannot find this program's path: {error}"))?;
        let mut child = Command::new(own)
            .arg("link")
            .arg(&file)
            .arg("--control")
            .arg(&control)
            .arg("--until-eof")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot start the emulator: {error}"))?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let stdin = child.stdin.take();
        let mut emulator = Emulator { child, stdin, hosts: Vec::new(), control };
        let first = lines(out).recv_timeout(START);
        let complaints = lines(err);
        let Ok(first) = first else {
            emulator.stop();
            let why: Vec<String> = complaints.try_iter().collect();
            return Err(format!("the emulator did not start: {}", why.join("; ")));
        };
        let ready: Ready = serde_json::from_str(&first)
            .map_err(|error| format!("the emulator printed something unexpected, {first:?}: {error}"))?;
        let hosts = ready.hosts.into_iter().map(|host| Host {
            name: host.name,
            namespace: host.namespace,
            address: host.address,
            address6: host.address6.unwrap_or_default(),
        });
        emulator.hosts = hosts.collect();
        Ok(emulator)
    }

    /// The path's hosts.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The host of that name.
    pub fn host(&self, name: &str) -> Result<&Host, String> {
        let found = self.hosts.iter().find(|host| host.name == name);
        found.ok_or_else(|| format!("the emulator made no host {name:?}"))
    }

    /// Counters to zero, clock of the outages and random draws to their beginning.
    pub fn reset(&self) -> Result<(), String> {
        self.ask(&json!({"reset": true})).map(drop)
    }

    /// The counters since the last reset.
    pub fn counters(&self) -> Result<Counters, String> {
        let mut answer = self.ask(&json!({"get": "counters"}))?;
        if let Some(members) = answer.as_object_mut() {
            members.remove("event");
        }
        serde_json::from_value(answer)
            .map_err(|error| format!("the emulator's counters make no sense: {error}"))
    }

    /// The socket at which [`ask`] finds it.
    pub fn control(&self) -> &Path {
        &self.control
    }

    fn ask(&self, question: &Value) -> Result<Value, String> {
        ask(&self.control, question)
    }

    fn stop(&mut self) {
        drop(self.stdin.take());
        let deadline = Instant::now() + STOP;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        thread::sleep(Duration::from_secs(1));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The answer of the emulator at a control socket.
pub fn ask(control: &Path, question: &Value) -> Result<Value, String> {
    let failed = |error: std::io::Error| format!("the emulator does not answer: {error}");
    let mut socket = UnixStream::connect(control).map_err(failed)?;
    socket.set_read_timeout(Some(ANSWER)).map_err(failed)?;
    socket.set_write_timeout(Some(ANSWER)).map_err(failed)?;
    socket.write_all(format!("{question}\n").as_bytes()).map_err(failed)?;
    let mut line = String::new();
    BufReader::new(socket).take(LINE_BYTES).read_line(&mut line).map_err(failed)?;
    let answer: Value = serde_json::from_str(&line)
        .map_err(|error| format!("the emulator answered something unexpected: {error}"))?;
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => Err(format!("the emulator refused {question}: {error}")),
        None => Ok(answer),
    }
}

/// The lines of a pipe as they come; the pipe is read to its end even if the receiver is gone.
fn lines(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    if let Some(pipe) = pipe {
        thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = String::new();
            while (&mut pipe).take(LINE_BYTES).read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                let _ = sender.send(line.trim().to_owned());
                line.clear();
            }
        });
    }
    receiver
}
