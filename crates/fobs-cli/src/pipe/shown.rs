//! What `fobs pipe` shows: both directions as one progress, a line at the end, or JSON on standard error.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use fobs::event::{Event, EventSink, Progress, Summary};
use fobs::explain::{Explanation, Recorder, explain};
use fobs::{Piped, Result};
use serde::Serialize;

use crate::explain::{TraceFile, subject_of};
use crate::flags::ProgramWords;
use crate::live::Snapshot;
use crate::output::{self, Reporter};
use crate::units::{show_bytes, show_rate};

/// Bytes of one event of what a command says; longer lines are several.
const LINE_BYTES_MAX: u64 = 8 << 10;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Sent,
    Received,
}

/// What is shown of a pipe.
pub struct Shown {
    said: ProgramWords,
    reporter: Arc<dyn Reporter>,
    sent: Flow,
    received: Flow,
    /// What it joins, for a user who asks meanwhile.
    subject: Mutex<Snapshot>,
    /// Tells what a command says, as events; ends with the pipe.
    teller: Mutex<Option<JoinHandle<()>>>,
}

/// What is known of a direction.
#[derive(Default)]
struct Flow {
    recorder: Mutex<Recorder>,
    progress: Mutex<Progress>,
}

impl Shown {
    pub fn new(said: &ProgramWords) -> Shown {
        let reporter = output::of_pipe(said);
        Shown {
            said: said.clone(),
            reporter,
            sent: Flow::default(),
            received: Flow::default(),
            subject: Mutex::default(),
            teller: Mutex::default(),
        }
    }

    /// The sink of a direction.
    pub fn direction(self: &Arc<Shown>, direction: Direction) -> Arc<dyn EventSink> {
        let shown = self.clone();
        Arc::new(move |event: Event| shown.event(direction, event))
    }

    fn flow(&self, direction: Direction) -> &Flow {
        match direction {
            Direction::Sent => &self.sent,
            Direction::Received => &self.received,
        }
    }

    fn event(&self, direction: Direction, event: Event) {
        let flow = self.flow(direction);
        locked(&flow.recorder).record(&event);
        match event {
            Event::Progress(progress) => {
                *locked(&flow.progress) = progress;
                self.reporter.event(Event::Progress(self.both()));
            }
            // Of both at once.
            Event::Started { .. } if direction == Direction::Sent => self.reporter.event(event),
            Event::Notice(_) => self.reporter.event(event),
            // Parts of a stream are no files.
            _ => {}
        }
    }

    /// What it joins, from now on.
    pub fn describe(&self, here: &str, there: &str) {
        let (here, there) = (here.to_owned(), there.to_owned());
        locked(&self.sent.recorder).describe(subject_of(std::slice::from_ref(&here), &there));
        locked(&self.received.recorder).describe(subject_of(std::slice::from_ref(&there), &here));
        let subject = Snapshot {
            id: std::process::id(),
            sources: vec![here],
            destination: there,
            ..Snapshot::default()
        };
        *locked(&self.subject) = subject;
    }

    /// How it stands; what limits it is said of the direction that moves more.
    pub fn snapshot(&self) -> Snapshot {
        let recorder = locked(&self.more().recorder);
        let (elapsed, so_far) = (recorder.elapsed(), recorder.so_far());
        drop(recorder);
        locked(&self.subject).clone().with(elapsed, &self.both(), &explain(&so_far))
    }

    /// Writes the record of the direction that moved more.
    ///
    /// # Errors
    /// `FileIo` where the file cannot be written.
    pub fn write_trace(&self, to: TraceFile, done: &Result<Piped>) -> Result<()> {
        let more = self.more();
        let summary = |piped: &Piped| {
            if std::ptr::eq(more, &self.sent) { &piped.sent } else { &piped.received }.clone()
        };
        let trace = locked(&more.recorder).trace(&done.as_ref().map(summary).map_err(Clone::clone));
        to.write(&trace)
    }

    /// The direction that moves more.
    fn more(&self) -> &Flow {
        let bytes = |flow: &Flow| locked(&flow.progress).bytes;
        if bytes(&self.sent) >= bytes(&self.received) { &self.sent } else { &self.received }
    }

    /// The progress of both directions; the path is that of the one that moves more.
    fn both(&self) -> Progress {
        let (sent, received) = (locked(&self.sent.progress).clone(), locked(&self.received.progress).clone());
        let (more, less) = if sent.bytes >= received.bytes { (sent, received) } else { (received, sent) };
        Progress {
            path: None,
            bytes: more.bytes + less.bytes,
            bytes_known: more.bytes_known + less.bytes_known,
            scan_complete: false,
            files: 0,
            rate_bps: more.rate_bps + less.rate_bps,
            streams: more.streams + less.streams,
            ..more
        }
    }

    /// Where what a command says goes.
    ///
    /// # Errors
    /// Where the process may open no more files, or start no more threads.
    pub fn errors(&self) -> io::Result<OwnedFd> {
        if !self.said.json {
            return io::stderr().as_fd().try_clone_to_owned();
        }
        let (reader, writer) = io::pipe()?;
        let tell = move || {
            let mut lines = BufReader::new(reader);
            while let Some(text) = line_of(&mut lines) {
                // A program that no longer listens misses it.
                let _ = write_line(&Line::Errors { text: &text });
            }
        };
        let teller = thread::Builder::new().name("fobs-said".to_owned()).spawn(tell)?;
        *locked(&self.teller) = Some(teller);
        Ok(writer.into())
    }

    /// Shows how it ended.
    pub fn finish(&self, done: &Result<Piped>) {
        let piped = match done {
            Ok(piped) => {
                // The last of it may have no end of a line, and is told at the end of all.
                let teller = locked(&self.teller).take();
                // One that has failed has told what it could.
                let _ = teller.map(JoinHandle::join);
                piped
            }
            Err(error) => {
                // A failure to write the line does not change the exit code.
                let _ = self.reporter.finish(&Err(error.clone()), None);
                return;
            }
        };
        let why = |flow: &Flow, summary: &Summary| {
            (self.said.explain || self.said.json)
                .then(|| explain(&locked(&flow.recorder).trace(&Ok(summary.clone()))))
        };
        let (sent, received) = (why(&self.sent, &piped.sent), why(&self.received, &piped.received));
        if self.said.json {
            let line = Line::Done {
                exit_code: piped.end.exit_code(),
                signal: piped.end.signal,
                sent: &piped.sent,
                received: &piped.received,
                explain_sent: sent.as_ref(),
                explain_received: received.as_ref(),
            };
            // As above.
            let _ = write_line(&line);
            return;
        }
        self.reporter.clear();
        if !self.said.quiet {
            output::note(&sentence(piped));
        }
        for (name, why, summary) in [("sent", sent, &piped.sent), ("received", received, &piped.received)] {
            if let (Some(why), true) = (why, summary.bytes > 0) {
                output::note(&format!("what was {name}:"));
                why.text().lines().for_each(output::note);
            }
        }
    }
}

fn sentence(piped: &Piped) -> String {
    let way = |what: &str, summary: &Summary| {
        let rate = if summary.goodput_bps > 0.0 {
            format!(" at {}", show_rate(summary.goodput_bps))
        } else {
            String::new()
        };
        format!("{what} {}{rate}", show_bytes(summary.bytes))
    };
    let ended = match (piped.end.code, piped.end.signal) {
        (_, Some(signal)) => format!(", the command was ended by signal {signal}"),
        (Some(code), None) if code != 0 => format!(", the command ended with {code}"),
        _ => String::new(),
    };
    format!("{}, {}{ended}", way("sent", &piped.sent), way("received", &piped.received))
}

#[derive(Serialize)]
struct Versioned<'a> {
    v: u8,
    #[serde(flatten)]
    line: &'a Line<'a>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line<'a> {
    /// What a command said.
    Errors { text: &'a str },
    Done {
        exit_code: u8,
        #[serde(skip_serializing_if = "Option::is_none")]
        signal: Option<u8>,
        sent: &'a Summary,
        received: &'a Summary,
        #[serde(skip_serializing_if = "Option::is_none")]
        explain_sent: Option<&'a Explanation>,
        #[serde(skip_serializing_if = "Option::is_none")]
        explain_received: Option<&'a Explanation>,
    },
}

fn write_line(line: &Line<'_>) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(&Versioned { v: 1, line })?;
    bytes.push(b'\n');
    io::stderr().write_all(&bytes)
}

/// The next line of what a command says; `None` at its end.
fn line_of(lines: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    let read = io::Read::take(&mut *lines, LINE_BYTES_MAX).read_until(b'\n', &mut line);
    if !matches!(read, Ok(1..)) {
        return None;
    }
    if line.ends_with(b"\n") {
        line.pop();
    }
    Some(String::from_utf8_lossy(&line).into_owned())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
