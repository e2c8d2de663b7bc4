//! The control channel over SSH: the standard input and output of `fobs server`, started by the system's
//! `ssh`.
//!
//! `ssh` is run as a person would run it, so that its configuration, agent, jump hosts, known hosts and
//! password prompts all work; only the options that the caller gave are passed on.

mod arguments;
mod beginning;
mod between;
mod binary;
mod elsewhere;
mod explanation;
mod patience;
mod push;
mod words;

use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use self::arguments::{arguments, connection_arguments, destination, program, server_command};
use self::beginning::{FromFirstFrame, Said};
pub use self::between::{FarRequest, copy_between};
pub use self::elsewhere::{connect_elsewhere, may_be_elsewhere};
use self::explanation::{FirstWords, explanation};
pub use self::patience::Patience;
pub use self::push::{connect_pushing, installed, is_sending, may_be_pushed};
use self::words::{Keep, Words};
use super::timed::{ReadDeadline, TimedReader};
use super::{ControlChannel, Peer};
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Busy, Error, ErrorKind, Result, SyncEnd};
use fobs_model::message::Hello;
use fobs_model::options::{Carrier, Remote, ShellGrammar, SshWords, TransferOptions};
use fobs_model::text::{printable, show};

/// How long `ssh` may take to end once its input is closed: a few round trips.
const FINISH_WAIT: Duration = Duration::from_secs(10);
/// How long an `ssh` of which nothing is wanted any more may take to end by itself: some round trips.
const DISMISS_WAIT: Duration = Duration::from_secs(1);
/// How long to wait for its last words, once it has ended.
const WORDS_WAIT: Duration = Duration::from_millis(300);
/// Characters of them that are shown.
const WORDS_CHARS_SHOWN: usize = 400;
/// What `ssh` says where an sshd that many log in to drops a connection before it says a word (`MaxStartups`
/// of sshd_config(5)).
const DROPPED: &[&str] = &[
    "kex_exchange_identification",
    "Connection reset by peer",
    "Connection closed by",
    "Not allowed at this time",
];
/// How long to wait for the exit status that explains a failure. It is usually there already.
const EXPLAIN_WAIT: Duration = Duration::from_secs(3);
/// How long `ssh -G` may take; it reads files, and a `Match exec` in them may run programs.
const RESOLVE_WAIT: Duration = Duration::from_secs(5);
/// How long `ssh` may take to end once it is asked to: it restores a terminal whose echo it has switched off.
const END_WAIT: Duration = Duration::from_millis(500);
/// How long after `ssh` a signal to both may take to reach us: a terminal sends them within microseconds.
const SIGNAL_WAIT: Duration = Duration::from_millis(500);
/// The exit code of an `ssh` that failed, which is also that of one that was interrupted in a session.
const SSH_FAILED: i32 = 255;
/// How often the state of a child that is about to end is polled.
const CHILD_POLL: Duration = Duration::from_millis(5);
/// Most output of `ssh -G` that is read, bytes: a hundred lines or so are usual.
const RESOLVE_BYTES_MAX: u64 = 256 << 10;
/// Characters of the other side's first output that are shown.
const HEAD_CHARS_SHOWN: usize = 60;

/// A control channel over SSH and the `ssh` that carries it. The two may be taken apart.
#[derive(Debug)]
pub struct SshSession {
    /// The channel.
    pub channel: ControlChannel,
    /// The `ssh` process.
    pub process: SshProcess,
}

/// The running `ssh`. Dropping it ends it.
#[derive(Debug)]
pub struct SshProcess {
    child: Arc<Mutex<Child>>,
    /// The far end, for messages.
    description: String,
    host: String,
    fobs_path: String,
    /// The other side's first output.
    head: Arc<Mutex<Said>>,
    /// The silence for which a watch has ended it.
    gave_up: Arc<Mutex<Option<Duration>>>,
    /// What `ssh` and the shell there said.
    words: Arc<Mutex<Words>>,
}

/// Starts `ssh` to `remote` with `fobs server` at the far end. Whether the connection works is known only
/// after the hellos ([`SshSession::hello`]).
pub fn connect(remote: &Remote, options: &TransferOptions) -> Result<SshSession> {
    Started::start(remote, options, &server_command(options)?).map(Started::into_session)
}

/// A running `ssh` whose streams carry no frames yet.
struct Started {
    process: SshProcess,
    stdin: ChildStdin,
    stdout: FromFirstFrame<TimedReader<ChildStdout>>,
    deadline: ReadDeadline,
}

impl Started {
    /// Starts `ssh` with this command for the shell at the far end.
    fn start(remote: &Remote, options: &TransferOptions, command: &str) -> Result<Started> {
        let started = Started::start_with(remote, options, command, Stdio::piped())?;
        let keep = match options.ssh.words {
            SshWords::Shown => Keep::Nothing,
            SshWords::ShownAndKept => Keep::Last,
        };
        if let Some(stderr) = started.process.take_stderr() {
            words::pass_on(stderr, keep, options.fobs_path.clone(), started.process.words.clone());
        }
        Ok(started)
    }

    /// Likewise, with another standard error.
    fn start_with(
        remote: &Remote,
        options: &TransferOptions,
        command: &str,
        stderr: Stdio,
    ) -> Result<Started> {
        let mut child = Command::new(program(options))
            .args(arguments(remote, options, command)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(|error| {
                let message = format!(
                    "cannot run {}: {error}; install the OpenSSH client, or name the program to use",
                    program(options).display()
                );
                Error::new(ErrorKind::Ssh, message).ends_sync(SyncEnd::RemoteShell)
            })?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were asked to be pipes");
        };
        let head = Arc::new(Mutex::new(Said::default()));
        let process = SshProcess {
            child: Arc::new(Mutex::new(child)),
            description: words::described(&remote.host, options.ssh.grammar),
            host: remote.host.clone(),
            fobs_path: options.fobs_path.clone(),
            head: head.clone(),
            gave_up: Arc::default(),
            words: Arc::default(),
        };
        let deadline = ReadDeadline::default();
        let stdout = FromFirstFrame::new(TimedReader::new(stdout, deadline.clone()), head);
        Ok(Started { process, stdin, stdout, deadline })
    }

    /// From here on both sides send frames.
    fn into_session(self) -> SshSession {
        let Started { process, stdin, stdout, deadline } = self;
        let peer = Peer { description: process.description.clone(), address: None, zone: 0, key: None };
        let channel = ControlChannel::over_timed(stdout, deadline, stdin, Carrier::Ssh, peer);
        SshSession { channel, process }
    }
}

impl SshSession {
    /// Exchanges hellos ([`super::hello`]) and, if that fails, explains why.
    pub fn hello(&mut self) -> Result<Hello> {
        let hello = super::hello(&mut self.channel).map_err(|error| self.explain_failure(error))?;
        Words::release(&self.process.words);
        Ok(hello)
    }

    /// The cause of an `error` before the peer's hello, from the exit status of `ssh` and the output in place
    /// of a hello. Closes the channel.
    pub fn explain_failure(&mut self, error: Error) -> Error {
        self.channel.writer.close();
        self.process.explain(error)
    }
}

impl SshProcess {
    /// Waits until `ssh` has ended, which follows the closing of the channel's writer; kills it if that takes
    /// too long. Returns its exit status.
    pub fn finish(self) -> Result<ExitStatus> {
        let status = match wait(&self.child, FINISH_WAIT) {
            Ok(Some(status)) => Ok(status),
            Ok(None) => end(&self.child),
            Err(error) => Err(error),
        };
        status.map_err(|error| Error::new(ErrorKind::Ssh, format!("cannot wait for ssh to end: {error}")))
    }

    /// The error to report for a channel that failed with `error`: `Interrupted` if a signal ended `ssh` and
    /// cancelled us.
    ///
    /// `ssh` stays in our process group, so that it may ask on the terminal, stops and continues with us, and
    /// is part of our job. So Ctrl-C reaches it too, and it may be gone before we are cancelled.
    pub fn blame(&self, error: Error, cancel: &CancelToken) -> Error {
        if !matches!(error.kind, ErrorKind::Connect | ErrorKind::Protocol | ErrorKind::Ssh) {
            return error;
        }
        let deadline = Instant::now() + SIGNAL_WAIT;
        let status = if cancel.is_cancelled() { None } else { wait(&self.child, SIGNAL_WAIT).ok().flatten() };
        if status.is_some_and(may_be_interrupted) {
            while !cancel.is_cancelled() && Instant::now() < deadline {
                thread::sleep(CHILD_POLL);
            }
        }
        cancel.explain(error)
    }

    /// Its standard error, where that is a pipe.
    fn take_stderr(&self) -> Option<ChildStderr> {
        locked(&self.child).stderr.take()
    }

    /// An action that ends `ssh`, for another thread.
    pub fn killer(&self) -> impl FnOnce() + Send + 'static {
        let child = self.child.clone();
        move || drop(end(&child))
    }

    /// That it was ended because the other side did not speak in time.
    fn silence(&self) -> Option<Error> {
        let limit = (*self.gave_up.lock().unwrap_or_else(PoisonError::into_inner))?;
        let (host, program, seconds) = (&self.host, &self.fobs_path, limit.as_secs_f64());
        let message = format!(
            "{host} did not begin to speak fobs within {seconds} s; try: ssh {host} {program} --version, or give a \
             longer --timeout"
        );
        Some(Error::new(ErrorKind::Timeout, message))
    }

    fn explain(&mut self, error: Error) -> Error {
        if let Some(silence) = self.silence() {
            return silence;
        }
        let status = wait(&self.child, EXPLAIN_WAIT).ok().flatten();
        let head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        let said = match &*head {
            Said { frame: true, .. } => FirstWords::Frame,
            said if said.is_nothing() => FirstWords::None,
            said => FirstWords::Text(printable(&String::from_utf8_lossy(&said.before), HEAD_CHARS_SHOWN)),
        };
        let error = explanation(&self.host, &self.fobs_path, status, said).unwrap_or(error);
        let error = self.with_words(error);
        if status.is_some_and(explanation::is_missing) {
            Words::forget(&self.words);
        }
        error
    }

    /// What the other side printed before fobs spoke there, as one line of text; empty if it was nothing.
    pub fn chatter(&self) -> String {
        let head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        show(head.before.trim_ascii())
    }

    /// The error with what `ssh` said, where that is kept.
    fn with_words(&self, error: Error) -> Error {
        self.wait_for_words();
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let said = printable(String::from_utf8_lossy(words.last()).trim(), WORDS_CHARS_SHOWN);
        if said.is_empty() || !matches!(error.kind, ErrorKind::Ssh | ErrorKind::Protocol) {
            return error;
        }
        let message = format!("{}; ssh said: {said}", error.message);
        let told = error.reworded(message);
        if told.kind == ErrorKind::Ssh && DROPPED.iter().any(|words| said.contains(words)) {
            told.of_busy(Busy::Closed)
        } else {
            told
        }
    }

    /// The thread that passes them on may be behind; it ends with `ssh`.
    fn wait_for_words(&self) {
        let deadline = Instant::now() + WORDS_WAIT;
        while Arc::strong_count(&self.words) > 1 && Instant::now() < deadline {
            thread::sleep(CHILD_POLL);
        }
    }

    /// Ends it where no transfer runs: soon, even where another process has inherited its input, and so it
    /// does not find that ended.
    pub fn dismiss(self) {
        let _ = wait(&self.child, DISMISS_WAIT);
        // Dropped, and so ended.
    }
}

impl Drop for SshProcess {
    fn drop(&mut self) {
        // Fails only for a child that has ended and been waited for already.
        let _ = end(&self.child);
        self.wait_for_words();
        Words::end(&self.words);
    }
}

/// Addresses or names at which the remote's UDP ports may be reached: the host name in the configuration of
/// `ssh`, or the host as given.
pub fn resolve_host(remote: &Remote, options: &TransferOptions) -> Vec<String> {
    vec![configured_host(remote, options).unwrap_or_else(|| remote.host.clone())]
}

fn configured_host(remote: &Remote, options: &TransferOptions) -> Option<String> {
    if options.ssh.grammar == ShellGrammar::HostAndCommand {
        return None;
    }
    let mut child = Command::new(program(options))
        .args(&options.ssh.arguments)
        .arg("-G")
        .args(connection_arguments(remote, options))
        .arg("--")
        .arg(destination(remote).ok()?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let stdout = child.stdout.take()?;
    let (sender, receiver) = mpsc::sync_channel(1);
    // The thread ends with the pipe, at the latest when the child is killed below.
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.take(RESOLVE_BYTES_MAX).read_to_end(&mut text);
        // Nobody waits after `RESOLVE_WAIT`.
        let _ = sender.send(read.map(|_| text));
    });
    let text = receiver.recv_timeout(RESOLVE_WAIT);
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
    let text = text.ok()?.ok()?;
    String::from_utf8_lossy(&text)
        .lines()
        .find_map(|line| line.strip_prefix("hostname "))
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
}

/// The control channel of `fobs server`: this process's own standard input and output. Takes both over, once:
/// from here on standard input is empty and what is printed goes to standard error, so that nothing disturbs
/// the channel.
pub fn server_channel() -> Result<ControlChannel> {
    let taken = || -> io::Result<(File, File)> {
        let duplicate = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map(File::from);
        let (input, output) = (duplicate(io::stdin().as_fd())?, duplicate(io::stdout().as_fd())?);
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        rustix::stdio::dup2_stdout(io::stderr())?;
        Ok((input, output))
    };
    let (input, output) = taken().map_err(|error| {
        let message = format!("cannot use standard input and output as the control channel: {error}");
        Error::new(ErrorKind::Socket, message)
    })?;
    Ok(channel_over(input, output, client_address()))
}

/// The same over streams that another login of the user has, whose client is there.
pub fn channel_over(input: File, output: File, client: Option<IpAddr>) -> ControlChannel {
    let description =
        client.map_or_else(|| "the client via ssh".to_owned(), |client| format!("{client} via ssh"));
    let peer = Peer { description, address: None, zone: 0, key: None };
    ControlChannel::over(input, output, Carrier::Ssh, peer)
}

/// The address from which the client made its connection to sshd.
pub fn client_address() -> Option<IpAddr> {
    address_of(std::env::var("SSH_CONNECTION").ok().as_deref())
}

/// The first word of sshd's `SSH_CONNECTION`.
pub fn address_of(connection: Option<&str>) -> Option<IpAddr> {
    let word = connection?.split(' ').next()?;
    // A link-local address is followed by its interface.
    let address = word.split('%').next()?.parse::<IpAddr>().ok()?;
    Some(address.to_canonical())
}

/// Waits for a child to end, for `limit` at most.
fn wait(child: &Mutex<Child>, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        let status = tried(&mut locked(child))?;
        match status {
            None if Instant::now() < deadline => thread::sleep(CHILD_POLL),
            status => return Ok(status),
        }
    }
}

fn may_be_interrupted(status: ExitStatus) -> bool {
    let by = |signal: Signal| status.signal() == Some(signal.as_raw());
    by(Signal::INT) || by(Signal::TERM) || by(Signal::HUP) || status.code() == Some(SSH_FAILED)
}

/// Ends a child and waits for it: asks first, and kills it if that does not help.
fn end(child: &Mutex<Child>) -> io::Result<ExitStatus> {
    let mut child = locked(child);
    let deadline = Instant::now() + END_WAIT;
    if tried(&mut child)?.is_none() {
        kill_process(Pid::from_child(&child), Signal::TERM)?;
    }
    while Instant::now() < deadline {
        match tried(&mut child)? {
            Some(status) => return Ok(status),
            None => thread::sleep(CHILD_POLL),
        }
    }
    child.kill()?;
    match child.wait() {
        Err(error) if error.raw_os_error() == Some(Errno::CHILD.raw_os_error()) => {
            Ok(ExitStatus::from_raw(0))
        }
        waited => waited,
    }
}

/// Whether it has ended. Where SIGCHLD is ignored, the kernel forgets how a child ended (waitpid(2)).
fn tried(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    match child.try_wait() {
        Err(error) if error.raw_os_error() == Some(Errno::CHILD.raw_os_error()) => {
            Ok(Some(ExitStatus::from_raw(0)))
        }
        tried => tried,
    }
}

fn locked(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
