//! One attempt: a process group that runs the job's command, and the thread that watches it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::process::{Signal, umask};

use super::launch::Order;
use super::output::{Files, Tail};
use super::process::{Identity, MARK, wait};
use super::reading::{Figures, Reading};
use crate::job::{Ending, Owner, RatePoint, Spec};

/// The variable that names the file into which an attempt writes what it has measured, if it can: no job
/// fails for its record, as it would with `--trace`.
const TRACE: &str = "_FOBS_TRACE";
/// How often figures are read and orders looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long an attempt may take to end after SIGINT: `fobs` removes its own leftovers meanwhile.
const STOP_PATIENCE: Duration = Duration::from_secs(20);
/// How often a copy is asked what limits it: it looks through what it has measured for that.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// The keeper's own umask: what it makes is its user's alone.
pub(super) const OWN_UMASK: u32 = 0o077;

/// What the keeper shares with the thread that watches an attempt.
#[derive(Debug, Default)]
pub(super) struct Live {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    figures: Figures,
    rates: Vec<RatePoint>,
    lines: Vec<String>,
    is_to_stop: bool,
}

impl Live {
    pub(super) fn figures(&self) -> Figures {
        self.seen().figures.clone()
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.seen().lines.clone()
    }

    pub(super) fn rates(&self) -> Vec<RatePoint> {
        self.seen().rates.clone()
    }

    /// Has the watching thread end the attempt.
    pub(super) fn stop(&self) {
        self.seen().is_to_stop = true;
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An attempt that is over.
#[derive(Debug)]
pub(super) struct Over {
    /// How; none where nothing says how.
    pub ending: Option<Ending>,
    pub lines: Vec<String>,
    pub figures: Figures,
    pub rates: Vec<RatePoint>,
}

impl Over {
    fn of(reading: Reading, code: Option<i32>) -> Over {
        let (ending, lines) = (reading.ending(code), reading.lines());
        Over { ending, lines, rates: reading.rates.points().to_vec(), figures: reading.figures }
    }

    /// Of an attempt that could not begin or not be watched.
    pub(super) fn without(ending: Ending, lines: Vec<String>) -> Over {
        Over { ending: Some(ending), lines, figures: Figures::default(), rates: Vec::new() }
    }
}

/// What the thread that watches an attempt knows of it.
#[derive(Debug)]
pub(super) struct About {
    pub files: Files,
    /// When it began, ms since 1970.
    pub began_ms: u64,
    /// Asks a running copy what limits it.
    pub limit_of: Option<fn(u32) -> Option<String>>,
}

impl About {
    fn since_ms(&self) -> u64 {
        super::now().ms.saturating_sub(self.began_ms)
    }

    fn limit(&self, identity: &Identity) -> Option<String> {
        let said = self.limit_of?(u32::try_from(identity.pid).ok()?)?;
        Some(said).filter(|said| !said.is_empty())
    }
}

/// The process of an attempt.
#[derive(Debug)]
pub(super) enum Process {
    /// Of this keeper.
    Own(Child),
    /// Of one before it.
    Adopted,
}

/// Starts the command of a job with `--json`, in a process group of its own; it writes what it measures into
/// `trace`, if it can.
///
/// # Errors
/// Where the program cannot be started, or its directory is not there.
pub(super) fn start(
    program: &Path,
    (spec, owner): (&Spec, Option<Owner>),
    mark: &str,
    files: &Files,
    trace: Option<&Path>,
) -> io::Result<Child> {
    let (out, err) = files.create()?;
    let mut words: Vec<OsString> = vec![program.into()];
    words.extend(spec.words.iter().map(|word| word.as_os_str().to_owned()));
    words.insert(2.min(words.len()), "--json".into());
    let mut added = vec![(MARK.to_owned(), mark.into())];
    // Another user cannot write into the keeper's directory.
    added.extend(trace.filter(|_| owner.is_none()).map(|trace| (TRACE.to_owned(), trace.into())));
    let order = Order { own_program: program, owner, spec, words, added };
    let mut command = order.command()?;
    command.stdout(out).stderr(err);
    // The umask is the process's: nothing else makes files at this moment but with a mode of its own.
    umask(Mode::from_raw_mode(spec.umask));
    let child = command.spawn();
    umask(Mode::from_raw_mode(OWN_UMASK));
    child
}

/// Watches an attempt until it is over, in a thread of its own, which then calls `over`.
///
/// # Errors
/// Where no thread can be started.
pub(super) fn watch(
    mut process: Process,
    identity: Identity,
    about: About,
    live: Arc<Live>,
    over: impl FnOnce(Over) + Send + 'static,
) -> io::Result<()> {
    let run = move || {
        let (mut out, mut reading) = (Tail::new(&about.files.out), Reading::default());
        // What an earlier keeper's attempt has said before is of an unknown time.
        let mut is_known = matches!(process, Process::Own(_));
        let mut asked = Instant::now();
        let descriptor = identity.descriptor();
        let mut stop = Stop::NotYet;
        let code = loop {
            // The end is looked at first, so that what was written before it is read after.
            let ended = process.ended(&identity);
            let at_ms = is_known.then(|| about.since_ms());
            out.read(&mut |line| reading.line(line, at_ms));
            is_known = true;
            if let Some(code) = ended {
                break code;
            }
            let is_to_stop = {
                let mut seen = live.seen();
                seen.figures = reading.figures.clone();
                seen.rates = reading.rates.points().to_vec();
                seen.lines = reading.lines();
                seen.is_to_stop
            };
            if is_to_stop {
                stop.go_on(&identity);
            } else if asked.elapsed() >= ASK_EVERY {
                reading.figures.limit = about.limit(&identity).or(reading.figures.limit.take());
                asked = Instant::now();
            }
            wait(descriptor.as_ref(), LOOK_EVERY);
        };
        Tail::new(&about.files.err).read(&mut |line| reading.complaint(line));
        over(Over::of(reading, code));
    };
    thread::Builder::new().name("job".to_owned()).spawn(run).map(|_| ())
}

/// What the files of an attempt say whose process is gone.
pub(super) fn read_over(files: &Files) -> Over {
    let mut reading = Reading::default();
    Tail::new(&files.out).read(&mut |line| reading.line(line, None));
    Tail::new(&files.err).read(&mut |line| reading.complaint(line));
    Over::of(reading, None)
}

/// How far the end of an attempt is.
enum Stop {
    NotYet,
    Asked(Instant),
    Forced,
}

impl Stop {
    fn go_on(&mut self, identity: &Identity) {
        match self {
            Stop::NotYet => {
                identity.signal(Signal::INT);
                *self = Stop::Asked(Instant::now());
            }
            Stop::Asked(since) if since.elapsed() > STOP_PATIENCE => {
                identity.signal(Signal::KILL);
                *self = Stop::Forced;
            }
            Stop::Asked(_) | Stop::Forced => {}
        }
    }
}

impl Process {
    /// The exit code where it has ended, and what it has started with it: none within where nothing says it.
    fn ended(&mut self, identity: &Identity) -> Option<Option<i32>> {
        if identity.runs(&identity.boot) {
            return None;
        }
        match self {
            Process::Own(child) => {
                // Not reaped yet, so that the number of its group is still its own.
                identity.signal(Signal::TERM);
                match child.wait() {
                    Ok(status) if status.signal().is_some() => Some(None),
                    Ok(status) => Some(status.code()),
                    Err(_) => Some(None),
                }
            }
            // Its number may be another process's by now: what it has started ends with its pipes.
            Process::Adopted => Some(None),
        }
    }
}
