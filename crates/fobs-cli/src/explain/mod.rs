//! Keeps the record of a copy (`--explain`, `--trace`), and reads it again (`fobs explain`).

mod page;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use fobs::event::{Event, EventSink, Outcome};
use fobs::explain::{Explanation, Recorder, Trace, explain};
use fobs::{Error, ErrorKind, Result};

use crate::args::ExplainArgs;
use crate::output::Reporter;

/// A reporter that is overheard.
pub struct Recording {
    reporter: Arc<dyn Reporter>,
    recorder: Mutex<Recorder>,
}

impl Recording {
    /// Records what `reporter` is told from now on.
    pub fn new(reporter: Arc<dyn Reporter>) -> Recording {
        Recording { reporter, recorder: Mutex::new(Recorder::new()) }
    }

    /// The record of a copy that ended like this.
    pub fn trace(&self, outcome: &Outcome) -> Trace {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner).trace(outcome)
    }

    /// Why a copy that ended like this was not faster.
    pub fn explanation(&self, outcome: &Outcome) -> Explanation {
        explain(&self.trace(outcome))
    }

    /// Writes the record of a copy that ended like this, if there is a file for it.
    ///
    /// # Errors
    /// `FileIo` if the file cannot be written.
    pub fn write_trace(&self, path: Option<&Path>, outcome: &Outcome) -> Result<()> {
        let Some(path) = path else { return Ok(()) };
        let written = File::create(path).and_then(|file| self.trace(outcome).write(BufWriter::new(file)));
        written.map_err(|error| {
            let path = path.display();
            Error::new(ErrorKind::FileIo, format!("cannot write the trace {path}: {error}"))
        })
    }
}

impl EventSink for Recording {
    fn event(&self, event: Event) {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner).hear(&event);
        self.reporter.event(event);
    }
}

/// `fobs explain`.
///
/// # Errors
/// `NoSource` for a trace that cannot be read or is none, `FileIo` for what cannot be written.
pub fn run(args: &ExplainArgs) -> Result<()> {
    let shown = args.trace.display();
    let unreadable = |why: &dyn std::fmt::Display| {
        Error::new(ErrorKind::NoSource, format!("cannot read the trace {shown}: {why}"))
    };
    let file = File::open(&args.trace).map_err(|error| unreadable(&error))?;
    let trace = Trace::read(file).map_err(|error| unreadable(&error))?;
    let why = explain(&trace);
    if let Some(html) = &args.html {
        std::fs::write(html, page::page(&trace, &why)).map_err(|error| {
            let html = html.display();
            Error::new(ErrorKind::FileIo, format!("cannot write the page {html}: {error}"))
        })?;
    }
    let text = match args.json {
        true => serde_json::to_string(&why).map(|line| line + "\n").map_err(io::Error::from),
        false => Ok(why.text()),
    };
    let printed = text.and_then(|text| io::stdout().write_all(text.as_bytes()));
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::new(ErrorKind::FileIo, format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
