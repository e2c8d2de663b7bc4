//! Records a copy (`--explain`, `--trace`) and explains a recorded one (`fobs explain`).

mod other;
mod page;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fobs::event::{Event, EventSink, Outcome, Progress};
use fobs::explain::{Explanation, Recorder, SOURCES_NAMED_MAX, Subject, Trace, explain};
use fobs::{Error, ErrorKind, Result};

use crate::args::ExplainArgs;
use crate::live::{Outlook, Snapshot};
use crate::output::{self, Reporter};

/// Time of the first explanation of a running copy; each next one comes after twice the time.
const FIRST: Duration = Duration::from_secs(5);
/// The variable by which a keeper of jobs names the place of the record (`fobs-jobs/keeper/attempt.rs`).
const KEEPERS: &str = "_FOBS_TRACE";
/// Longest time between two explanations.
const EVERY_MAX: Duration = Duration::from_secs(300);

/// Whether to explain a copy while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meanwhile {
    /// As `--explain` asks.
    Explain,
    /// Not before its end.
    Silent,
}

/// A reporter whose events are also recorded.
pub struct Recording {
    reporter: Arc<dyn Reporter>,
    recorder: Mutex<Recorder>,
    /// The newest.
    progress: Mutex<Progress>,
    outlook: Mutex<Outlook>,
    /// What is copied, for a user who asks meanwhile.
    subject: Mutex<Snapshot>,
    /// When to explain next; `None` for never.
    next: Mutex<Option<Duration>>,
}

impl Recording {
    /// Records the events that `reporter` gets from now on.
    pub fn new(reporter: Arc<dyn Reporter>, meanwhile: Meanwhile) -> Recording {
        let next = Mutex::new((meanwhile == Meanwhile::Explain).then_some(FIRST));
        let (recorder, progress) = (Mutex::new(Recorder::new()), Mutex::default());
        let (outlook, subject) = (Mutex::default(), Mutex::default());
        Recording { reporter, recorder, progress, outlook, subject, next }
    }

    /// The record is of a copy of these locations, from now on.
    pub fn describe(&self, sources: &[OsString], destination: &OsStr) {
        let sources: Vec<String> = sources.iter().map(|it| it.to_string_lossy().into_owned()).collect();
        *locked(&self.subject) = Snapshot {
            id: std::process::id(),
            sources: sources.iter().take(SOURCES_NAMED_MAX).cloned().collect(),
            destination: destination.to_string_lossy().into_owned(),
            ..Snapshot::default()
        };
        locked(&self.recorder).describe(subject_of(&sources, &destination.to_string_lossy()));
    }

    /// Prints how the copy stands.
    pub fn show_status(&self) {
        let (elapsed, so_far) = self.so_far();
        let progress = locked(&self.progress).clone();
        self.reporter.status(&output::status(elapsed, &progress, &explain(&so_far)));
    }

    /// How the copy stands.
    pub fn snapshot(&self) -> Snapshot {
        let (elapsed, so_far) = self.so_far();
        let progress = locked(&self.progress).clone();
        let bytes_left = progress.bytes_known.saturating_sub(progress.bytes);
        let left = progress.scan_complete.then(|| locked(&self.outlook).left(bytes_left)).flatten();
        let subject = locked(&self.subject).clone();
        Snapshot { left, ..subject }.with(elapsed, &progress, &explain(&so_far))
    }

    fn so_far(&self) -> (Duration, Trace) {
        let recorder = locked(&self.recorder);
        (recorder.elapsed(), recorder.so_far())
    }

    /// What limits the copy so far, if an explanation is due after `elapsed`.
    fn meanwhile(&self, elapsed: Duration) -> Option<String> {
        let mut next = locked(&self.next);
        if elapsed < (*next)? {
            return None;
        }
        *next = Some(elapsed + elapsed.min(EVERY_MAX));
        let so_far = locked(&self.recorder).so_far();
        Some(format!("after {:.0} s: {}", elapsed.as_secs_f64(), explain(&so_far).sentence))
    }

    /// The record of a copy with this outcome.
    pub fn trace(&self, outcome: &Outcome) -> Trace {
        locked(&self.recorder).trace(outcome)
    }

    /// Why a copy with this outcome was not faster.
    pub fn explanation(&self, outcome: &Outcome) -> Explanation {
        explain(&self.trace(outcome))
    }

    /// Writes the record of a copy with this outcome.
    ///
    /// # Errors
    /// `FileIo` if the file cannot be written.
    pub fn write_trace(&self, to: TraceFile, outcome: &Outcome) -> Result<()> {
        to.write(&self.trace(outcome))
    }
}

/// Writes the record of a copy of a job where its keeper wants it, if that is possible: no job fails for it.
pub fn keep_for_keeper(recording: &Recording, outcome: &Outcome) {
    let Some(path) = std::env::var_os(KEEPERS).map(PathBuf::from) else { return };
    let written = TraceFile::create(&path).and_then(|file| recording.write_trace(file, outcome));
    if written.is_err() {
        // Half a record explains nothing; one that was not made is gone.
        let _ = std::fs::remove_file(&path);
    }
}

/// What a record of this host is of, from now on.
pub fn subject_of(sources: &[String], destination: &str) -> Subject {
    // Without a name the page says nothing of the host.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let began = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    Subject::new(sources, destination, host.trim(), began)
}

/// The file of `--trace`, open before the copy starts, so that an impossible place is found out first.
pub struct TraceFile {
    path: PathBuf,
    file: File,
}

impl TraceFile {
    /// Makes the file, or empties it.
    ///
    /// # Errors
    /// `FileIo` if that is not possible.
    pub fn create(path: &Path) -> Result<TraceFile> {
        let file = fobs::named::create(path, fobs::named::USUAL).map_err(|error| unwritable(path, &error))?;
        Ok(TraceFile { path: path.to_owned(), file })
    }

    /// Writes a record into it.
    ///
    /// # Errors
    /// `FileIo` if that is not possible.
    pub fn write(self, trace: &Trace) -> Result<()> {
        let TraceFile { path, file } = self;
        trace.write(BufWriter::new(file)).map_err(|error| unwritable(&path, &error))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::new(ErrorKind::FileIo, format!("cannot write the trace {}: {error}", path.display()))
}

impl EventSink for Recording {
    fn event(&self, event: Event) {
        let elapsed = {
            let mut recorder = locked(&self.recorder);
            recorder.record(&event);
            recorder.elapsed()
        };
        let why = match &event {
            Event::Progress(progress) => {
                locked(&self.progress).clone_from(progress);
                locked(&self.outlook).note(elapsed, progress.bytes);
                self.meanwhile(elapsed)
            }
            _ => None,
        };
        self.reporter.event(event);
        if let Some(why) = why {
            self.reporter.event(Event::Notice(why));
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `fobs explain`: its exit code, which is that of the command that it ran.
///
/// # Errors
/// `NoSource` for a file that cannot be read as a trace and a process that cannot be watched, `FileIo` for a
/// file that cannot be written.
pub fn run(args: &ExplainArgs) -> Result<u8> {
    let (trace, code) = match (&args.trace, args.pid) {
        (Some(path), _) => (read(path)?, 0),
        (None, Some(pid)) => (other::watch(pid)?, 0),
        (None, None) => match other::run(&args.command)? {
            (Ok(trace), code) => (trace, code),
            // The command's own exit code counts.
            (Err(why), code) => {
                eprintln!("fobs explain: {why}");
                return Ok(code);
            }
        },
    };
    let why = explain(&trace);
    if let Some(path) = &args.record {
        let TraceFile { path, file } = TraceFile::create(path)?;
        trace.write(BufWriter::new(file)).map_err(|error| unwritable(&path, &error))?;
    }
    if let Some(html) = &args.html {
        fobs::named::create(html, fobs::named::USUAL)
            .and_then(|mut file| file.write_all(page::page(&trace, &why).as_bytes()))
            .map_err(|error| {
                let html = html.display();
                Error::new(ErrorKind::FileIo, format!("cannot write the page {html}: {error}"))
            })?;
    }
    let text = if args.json {
        serde_json::to_string(&why).map(|line| line + "\n").map_err(io::Error::from)
    } else if args.command.is_empty() {
        Ok(output::for_terminal(&why.text(), io::stdout()))
    } else {
        Ok(output::for_terminal(&why.text(), io::stderr()))
    };
    // The output of a command is its own.
    let printed = text.and_then(|text| {
        if args.command.is_empty() {
            io::stdout().write_all(text.as_bytes())
        } else {
            io::stderr().write_all(text.as_bytes())
        }
    });
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::new(ErrorKind::FileIo, format!("cannot write the explanation: {error}")))
        }
        _ => Ok(code),
    }
}

fn read(path: &Path) -> Result<Trace> {
    let unreadable = |why: &dyn std::fmt::Display| {
        let shown = path.display();
        Error::new(ErrorKind::NoSource, format!("cannot read the trace {shown}: {why}"))
    };
    let file = fobs::named::open(path).map_err(|error| unreadable(&error))?;
    Trace::read(file).map_err(|error| unreadable(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Silent;

    impl EventSink for Silent {
        fn event(&self, _: Event) {}
    }

    impl Reporter for Silent {
        fn finish(&self, _: &Outcome, _: Option<&Explanation>) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn explanations_come_at_growing_intervals() {
        let times = |meanwhile| {
            let recording = Recording::new(Arc::new(Silent), meanwhile);
            let seconds = (0..=1500).filter(|at| recording.meanwhile(Duration::from_secs(*at)).is_some());
            seconds.collect::<Vec<u64>>()
        };
        assert_eq!(times(Meanwhile::Explain), [5, 10, 20, 40, 80, 160, 320, 620, 920, 1220]);
        assert!(times(Meanwhile::Silent).is_empty());
    }
}
