//! A command at a server's end of a pipe. It is started by a thread outside of every wall: a session's own
//! threads may run no program, and one that they started would be within their walls.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::PipeEnd;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{FarEnd, Party};

/// How long a command that is told to end has until it is killed: time to remove what it has half done.
const GRACE: Duration = Duration::from_secs(2);
/// How often a command that is told to end is looked at.
const END_POLL: Duration = Duration::from_millis(10);

/// Starts commands. Clones are the same.
#[derive(Clone)]
pub struct Launcher(Sender<Order>);

/// A command, and where its ends go.
struct Order {
    words: Vec<OsString>,
    answer: SyncSender<io::Result<Started>>,
}

/// A command that runs.
struct Started {
    input: OwnedFd,
    output: OwnedFd,
    errors: OwnedFd,
    program: Program,
}

impl Launcher {
    /// Starts the thread that starts commands: with the walls of the calling thread, which should have none.
    ///
    /// # Errors
    /// `Internal` where no thread can be started.
    pub fn start() -> Result<Launcher> {
        let (sender, orders) = channel::<Order>();
        let serve = move || {
            for Order { words, answer } in orders {
                // One that is gone has given up its command; dropped, that is told to end.
                let _ = answer.send(launch(&words));
            }
        };
        thread::Builder::new().name("fobs-launcher".to_owned()).spawn(serve).map_err(Error::internal)?;
        Ok(Launcher(sender))
    }

    /// Runs a program with these words, of which there is one at least.
    ///
    /// # Errors
    /// `NoSource` where it cannot be run.
    pub fn run(&self, words: Vec<OsString>) -> Result<FarEnd> {
        let name = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let (answer, started) = sync_channel(1);
        let sent = self.0.send(Order { words, answer });
        let started = sent.ok().and_then(|()| started.recv().ok()).unwrap_or_else(|| {
            Err(io::Error::other("the thread that starts commands has ended; report this bug"))
        });
        let Started { input, output, errors, program } = started.map_err(|error| {
            Error::new(ErrorKind::NoSource, format!("cannot run {name}: {error}; look whether it is there"))
        })?;
        Ok(FarEnd { input, output, errors: Some(errors), party: Arc::new(program) })
    }

    /// Runs a line as sshd does: by the shell of the user.
    ///
    /// # Errors
    /// As [`run`](Launcher::run).
    pub fn run_line(&self, line: OsString) -> Result<FarEnd> {
        // sshd sets it from the user's entry, and started this program with that shell.
        let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
        self.run(vec![shell.unwrap_or_else(|| "/bin/sh".into()), "-c".into(), line])
    }
}

fn launch(words: &[OsString]) -> io::Result<Started> {
    let [program, arguments @ ..] = words else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no program is named"));
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // So that what it starts ends with it.
        .process_group(0)
        .spawn()?;
    let (Some(input), Some(output), Some(errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        unreachable!("all were asked to be pipes");
    };
    let watched = Arc::new(Watch { state: Mutex::new(ProgramState::Runs), changed: Condvar::new() });
    let (orders, told) = channel();
    let (group, watch) = (Pid::from_child(&child), watched.clone());
    thread::Builder::new().name("fobs-minder".to_owned()).spawn(move || mind(child, group, &told, &watch))?;
    let program = Program { orders: Mutex::new(orders), watch: watched };
    Ok(Started { input: input.into(), output: output.into(), errors: errors.into(), program })
}

/// Waits for a command, and ends it where it is told to. The walls of a session may keep its threads from
/// signalling other processes.
fn mind(mut child: Child, group: Pid, told: &Receiver<Signal>, watch: &Watch) {
    let mut kill_at = None;
    loop {
        let ended = match child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(end_of(status)),
            // Nothing is known of it any more.
            Err(_) => Some(PipeEnd { signal: Some(9), ..PipeEnd::default() }),
        };
        if let Some(end) = ended {
            if kill_at.is_some() {
                // What it has started, and left behind.
                let _ = kill_process_group(group, Signal::KILL);
            }
            watch.ended(end);
            return;
        }
        if kill_at.is_some_and(|at| Instant::now() >= at) {
            // Where it is gone, or not ours, the wait above goes on.
            let _ = kill_process_group(group, Signal::KILL);
        }
        match told.recv_timeout(END_POLL) {
            Ok(signal) => {
                // Likewise.
                let _ = kill_process_group(group, signal);
                kill_at.get_or_insert_with(|| Instant::now() + GRACE);
            }
            Err(RecvTimeoutError::Timeout) => {}
            // Its session is over and has not waited: it must not run on without one.
            Err(RecvTimeoutError::Disconnected) => {
                if kill_at.is_none() {
                    // Likewise.
                    let _ = kill_process_group(group, Signal::TERM);
                    kill_at = Some(Instant::now() + GRACE);
                }
                thread::sleep(END_POLL);
            }
        }
    }
}

fn end_of(status: ExitStatus) -> PipeEnd {
    PipeEnd {
        code: status.code().map(|code| (code & 0xff) as u8),
        signal: status.signal().and_then(|signal| u8::try_from(signal).ok()),
        ..PipeEnd::default()
    }
}

struct Watch {
    state: Mutex<ProgramState>,
    changed: Condvar,
}

#[derive(Clone, Copy)]
enum ProgramState {
    Runs,
    Ended(PipeEnd),
}

impl Watch {
    fn state(&self) -> MutexGuard<'_, ProgramState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self, end: PipeEnd) {
        *self.state() = ProgramState::Ended(end);
        self.changed.notify_all();
    }
}

/// A command that runs. Dropping it ends it.
struct Program {
    orders: Mutex<Sender<Signal>>,
    watch: Arc<Watch>,
}

impl Party for Program {
    fn spoke_to_end(&self) -> io::Result<()> {
        Ok(())
    }

    fn has_all(&self) {}

    fn is_delivered(&self) {}

    /// Waits until it has ended: only then may its input end.
    fn give_up(&self, why: &Error) {
        let signal = if why.kind == ErrorKind::Interrupted { Signal::INT } else { Signal::TERM };
        // One that has ended takes none.
        let _ = self.orders.lock().unwrap_or_else(PoisonError::into_inner).send(signal);
        self.watch.wait();
    }

    fn wait(&self) -> Result<PipeEnd> {
        Ok(self.watch.wait())
    }
}

impl Watch {
    fn wait(&self) -> PipeEnd {
        let mut state = self.state();
        loop {
            match *state {
                ProgramState::Ended(end) => return end,
                ProgramState::Runs => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    fn sh(line: &str) -> FarEnd {
        Launcher::start().unwrap().run(vec!["/bin/sh".into(), "-c".into(), line.into()]).unwrap()
    }

    fn output_of(end: OwnedFd) -> String {
        let mut text = String::new();
        File::from(end).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_command_has_three_ends_and_an_end() {
        let far = sh("cat; echo wrong >&2; exit 7");
        File::from(far.input).write_all(b"given").unwrap();
        assert_eq!(output_of(far.output), "given");
        assert_eq!(output_of(far.errors.unwrap()), "wrong\n");
        assert_eq!(far.party.wait().unwrap().exit_code(), 7);
        assert_eq!(sh("kill -9 $$").party.wait().unwrap().exit_code(), 137);
    }

    #[test]
    fn one_that_is_given_up_ends_with_all_that_it_started_before_its_input_does() {
        let far = sh("trap '' TERM INT; sleep 1000 & echo $!; cat >/dev/null; echo saw the end");
        let (kept, mut output) = (far.input, File::from(far.output));
        let mut first = [0; 3];
        output.read_exact(&mut first).unwrap();
        far.party.give_up(&Error::new(ErrorKind::Connect, "gone"));
        assert_eq!(far.party.wait().unwrap().signal, Some(9));
        drop(kept);
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert!(!rest.contains("saw the end"), "{rest}");
    }

    #[test]
    fn one_whose_session_is_gone_does_not_run_on() {
        let far = sh("echo $$; sleep 1000");
        let mut pid = [0; 16];
        let mut output = File::from(far.output);
        let count = output.read(&mut pid).unwrap();
        let pid = String::from_utf8_lossy(&pid[..count]).trim().to_owned();
        drop((far.party, far.input));
        let mut rest = Vec::new();
        output.read_to_end(&mut rest).unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while std::path::Path::new(&format!("/proc/{pid}")).exists() {
            assert!(Instant::now() < end, "{pid} runs on");
            thread::sleep(END_POLL);
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Launcher::start().unwrap().run(vec!["/no/such/program".into()]).err().unwrap();
        assert!(error.kind == ErrorKind::NoSource && error.message.contains("/no/such/program"), "{error:?}");
    }
}
