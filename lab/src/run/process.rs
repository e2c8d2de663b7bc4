//! One program under control: started inside a namespace, in a process group and a control group of its own,
//! its output collected line by line with the time, its end seen at once.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::group::Group;
use super::namespace::Namespace;
use crate::link::realtime::bind;
use crate::tool::{Output, Program};

/// Of standard output: a report of iperf3 with 128 streams for a minute is 3 MB. More is thrown away.
const STDOUT_BYTES: usize = 16 << 20;
/// Of standard error: complaints. Of more, the last.
const STDERR_BYTES: usize = 64 << 10;
/// Longest line: a report in one line has to fit.
const LINE_BYTES: u64 = 4 << 20;
/// Time from the request to end to the kill.
pub const GRACE: Duration = Duration::from_secs(3);
/// Pipes are read for this long after a program's end: a child of it may hold them open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A running program; ended when it is dropped.
pub struct Process {
    name: String,
    child: Child,
    pid: Pid,
    pidfd: OwnedFd,
    /// Set once, when its end was noticed.
    ended: Option<(Instant, ExitStatus)>,
    captured: Arc<Mutex<Captured>>,
}

/// The output so far.
#[derive(Default)]
struct Captured {
    lines: Vec<(Instant, String)>,
    stdout_bytes: usize,
    stderr: String,
    /// Pipes that are still open.
    open: u8,
}

impl Process {
    /// Starts a program inside a namespace, on some processors only, if any are named.
    pub fn start(
        program: &Program,
        namespace: &Namespace,
        group: &Group,
        on: &[usize],
    ) -> Result<Process, String> {
        let (word, arguments) = program.words.split_first().ok_or("a tool named no program to start")?;
        let name = std::path::Path::new(word).file_name().unwrap_or(word).to_string_lossy().into_owned();
        let failed = |error: std::io::Error| format!("cannot start {name}: {error}");
        let mut command = Command::new(word);
        command.args(arguments).envs(program.env.iter().map(|(key, value)| (key, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A terminal's Ctrl-C goes to the runner alone, which then ends its children in order.
        command.process_group(0);
        let spawn = || {
            // The thread exists for this start only; the program inherits its processors and control group.
            bind(on)?;
            group.enter();
            command.spawn()
        };
        let mut child = namespace.within(spawn)?.map_err(failed)?;
        group.take(child.id());
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| {
            let _ = child.kill();
            let _ = child.wait();
            failed(error.into())
        })?;
        let captured = Arc::new(Mutex::new(Captured { open: 2, ..Captured::default() }));
        if let Some(pipe) = child.stdout.take() {
            let captured = Arc::clone(&captured);
            thread::spawn(move || listen(pipe, &captured, Captured::stdout));
        }
        if let Some(pipe) = child.stderr.take() {
            let captured = Arc::clone(&captured);
            thread::spawn(move || listen(pipe, &captured, Captured::stderr));
        }
        Ok(Process { name, child, pid, pidfd, ended: None, captured })
    }

    /// Its name without folders.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Process number, while it runs and until it is dropped.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// When and how it ended, if it did.
    pub fn ended(&mut self) -> Option<(Instant, ExitStatus)> {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.ended = Some((Instant::now(), status));
        }
        self.ended
    }

    /// Waits for its end, until `deadline` at most.
    pub fn wait(&mut self, deadline: Instant) -> Option<(Instant, ExitStatus)> {
        while self.ended().is_none() && Instant::now() < deadline {
            wait_any(&[self.pidfd.as_fd()], deadline);
        }
        self.ended()
    }

    /// Readable once the program has ended: for [`wait_any`].
    pub fn end_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// A handle that signals it, and only it, from any thread.
    pub fn handle(&self) -> Result<OwnedFd, String> {
        self.pidfd.try_clone().map_err(|error| format!("cannot hold on to {}: {error}", self.name))
    }

    /// Sends a signal to its process group.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            let _ = kill_process_group(self.pid, signal);
        }
    }

    /// Asks it to end with `signal` and, if it does not in [`GRACE`], ends it.
    pub fn stop(&mut self, signal: Signal) {
        self.signal(signal);
        if self.wait(Instant::now() + GRACE).is_none() {
            self.signal(Signal::KILL);
            self.wait(Instant::now() + GRACE);
        }
    }

    /// Its output, with times counted from `start`.
    pub fn output(&mut self, start: Instant) -> Output {
        let until = Instant::now() + LAST_WORDS;
        while self.captured.lock().unwrap_or_else(PoisonError::into_inner).open > 0 && Instant::now() < until
        {
            thread::sleep(Duration::from_millis(1));
        }
        let exit = self.ended().and_then(|(_, status)| status.code());
        let captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = |at: &Instant| at.saturating_duration_since(start).as_secs_f64();
        let lines = captured.lines.iter().map(|(at, line)| (seconds(at), line.clone())).collect();
        Output { exit, lines, stderr: captured.stderr.clone() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Waits until one of the programs has ended or `deadline` is there; a signal to the runner ends the wait,
/// too.
pub fn wait_any(ends: &[BorrowedFd], deadline: Instant) {
    let mut fds: Vec<PollFd> = ends.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    // Interrupted or not: the caller looks for itself.
    let _ = poll(&mut fds, Some(&timeout));
}

impl Captured {
    fn stdout(&mut self, line: String) {
        self.stdout_bytes += line.len();
        if self.stdout_bytes <= STDOUT_BYTES {
            self.lines.push((Instant::now(), line));
        }
    }

    fn stderr(&mut self, line: String) {
        self.stderr.push_str(&line);
        self.stderr.push('\n');
        if self.stderr.len() > STDERR_BYTES {
            let mut cut = self.stderr.len() - STDERR_BYTES / 2;
            while !self.stderr.is_char_boundary(cut) {
                cut += 1;
            }
            self.stderr.drain(..cut);
        }
    }
}

/// Reads a pipe to its end, whatever comes: a program must never block on a full pipe.
fn listen(pipe: impl Read, captured: &Mutex<Captured>, take: fn(&mut Captured, String)) {
    let lock = || captured.lock().unwrap_or_else(PoisonError::into_inner);
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut pipe).take(LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                take(&mut lock(), text.trim_end_matches(['\n', '\r']).to_owned());
            }
        }
    }
    lock().open -= 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines through a pipe that is read like a program's.
    fn captured(text: &[u8], take: fn(&mut Captured, String)) -> Captured {
        let captured = Mutex::new(Captured { open: 1, ..Captured::default() });
        listen(text, &captured, take);
        captured.into_inner().unwrap()
    }

    #[test]
    fn output_is_kept_by_lines_up_to_its_bound() {
        let short = captured(b"one\r\ntwo\n\nlast", Captured::stdout);
        let lines: Vec<&str> = short.lines.iter().map(|(_, line)| line.as_str()).collect();
        assert_eq!((lines, short.open), (vec!["one", "two", "", "last"], 0));
        let long = captured(&[b'x'; STDOUT_BYTES + (1 << 20)], Captured::stdout);
        let kept: usize = long.lines.iter().map(|(_, line)| line.len()).sum();
        assert!(kept <= STDOUT_BYTES && kept > STDOUT_BYTES / 2, "{kept} bytes");
    }

    #[test]
    fn of_too_many_complaints_the_last_are_kept() {
        let text: String = (0..20_000).map(|n| format!("complaint \u{e9} {n}\n")).collect();
        let captured = captured(text.as_bytes(), Captured::stderr);
        assert!(
            captured.stderr.len() <= STDERR_BYTES && captured.stderr.ends_with("complaint \u{e9} 19999\n")
        );
    }
}
