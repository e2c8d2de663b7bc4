//! `--json`: one JSON object per line, for programs.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fobs::event::{Event, EventSink, FileDone, FileError, Outcome, Progress, Summary};
use fobs::explain::Explanation;
use fobs::json::ShownPath;
use fobs::{Error, ErrorKind};
use serde::Serialize;

use super::Reporter;

/// Version of the lines: increases when a member changes its meaning or is removed, not when one is added.
const VERSION: u8 = 1;
/// Time between two `progress` lines.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Reports events as JSON lines.
pub struct Json<W> {
    state: Mutex<JsonWriter<W>>,
    exit_code: fn(&Error) -> u8,
}

struct JsonWriter<W> {
    out: W,
    last_progress: Option<Instant>,
    stage: Stage,
}

enum Stage {
    Open,
    /// The last line is written, or the pipe is closed.
    Closed,
    /// Writing failed; later lines are lost.
    Failed(io::Error),
}

impl<W: Write> Json<W> {
    /// Writes to `out`, line by line.
    pub fn new(out: W) -> Json<W> {
        let state = Mutex::new(JsonWriter { out, last_progress: None, stage: Stage::Open });
        Json { state, exit_code: |error| error.kind.exit_code() }
    }

    /// Likewise, of a command whose failures have other exit codes.
    pub fn with_codes(self, exit_code: fn(&Error) -> u8) -> Json<W> {
        Json { exit_code, ..self }
    }

    /// What was written.
    #[cfg(test)]
    pub fn into_inner(self) -> W {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).out
    }
}

impl<W: Write> JsonWriter<W> {
    fn write(&mut self, event: Line) {
        if !matches!(self.stage, Stage::Open) {
            return;
        }
        let line = serde_json::to_vec(&Versioned { v: VERSION, event }).map_err(io::Error::from);
        let written = line.and_then(|mut line| {
            line.push(b'\n');
            self.out.write_all(&line)?;
            self.out.flush()
        });
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.stage = Stage::Closed,
            Err(error) => self.stage = Stage::Failed(error),
        }
    }

    /// Whether a progress line is due at this time.
    fn progress_due(&mut self, now: Instant) -> bool {
        let due =
            self.last_progress.is_none_or(|last| now.saturating_duration_since(last) >= PROGRESS_INTERVAL);
        if due {
            self.last_progress = Some(now);
        }
        due
    }
}

impl<W: Write + Send> EventSink for Json<W> {
    fn event(&self, event: Event) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &event {
            Event::Started { control, key_exchange, transport, cipher, cc, .. } => {
                state.write(Line::Start { control, key_exchange: *key_exchange, transport, cipher, cc });
            }
            Event::Progress(progress) if state.progress_due(Instant::now()) => {
                state.write(Line::Progress(progress));
            }
            Event::FileDone(file) => state.write(Line::File(file)),
            Event::FileFailed(error) => state.write(Line::Error(error)),
            Event::Changed { changes, path, .. } => {
                state.write(Line::Changed { changes, path: path.as_slice().into() });
            }
            Event::Deleted { path, .. } => state.write(Line::Deleted { path: path.as_slice().into() }),
            Event::Notice(message) => state.write(Line::Notice { message }),
            // In the trace and the explanation; what the sender itself removes is known from `file`.
            _ => {}
        }
    }
}

impl<W: Write + Send> Reporter for Json<W> {
    fn finish(&self, outcome: &Outcome, why: Option<&Explanation>) -> fobs::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.write(match outcome {
            Ok(summary) => Line::Done { summary, explain: why },
            Err(error @ Error { kind, message, .. }) => {
                Line::Failed { code: kind.code(), message, exit_code: (self.exit_code)(error) }
            }
        });
        match std::mem::replace(&mut state.stage, Stage::Closed) {
            Stage::Open | Stage::Closed => Ok(()),
            Stage::Failed(error) => {
                let message =
                    format!("cannot write --json lines to standard output: {error}; the last lines are lost");
                Err(Error::new(ErrorKind::FileIo, message))
            }
        }
    }
}

#[derive(Serialize)]
struct Versioned<'a> {
    v: u8,
    #[serde(flatten)]
    event: Line<'a>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line<'a> {
    Start {
        control: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        key_exchange: Option<&'a str>,
        transport: &'a str,
        cipher: &'a str,
        cc: &'a str,
    },
    Progress(&'a Progress),
    File(&'a FileDone),
    Error(&'a FileError),
    Changed {
        changes: &'a str,
        #[serde(flatten)]
        path: ShownPath<'a>,
    },
    Deleted {
        #[serde(flatten)]
        path: ShownPath<'a>,
    },
    Notice {
        message: &'a str,
    },
    Done {
        #[serde(flatten)]
        summary: &'a Summary,
        #[serde(skip_serializing_if = "Option::is_none")]
        explain: Option<&'a Explanation>,
    },
    Failed {
        code: &'a str,
        message: &'a str,
        exit_code: u8,
    },
}

#[cfg(test)]
mod tests;
