//! Output of a run: lines for a person on standard error, or NDJSON on standard output.

mod folded;
mod json;
mod patience;
mod person;
mod printable;
mod progress;
mod status;
mod steps;

use std::io::{self, IsTerminal};
use std::sync::Arc;

use fobs::event::{EventSink, FileError, Outcome};
use fobs::explain::Explanation;
use fobs::{Error, ErrorKind};

use crate::exit;
use crate::flags::ProgramWords;
use crate::units::show_bytes;
pub use folded::for_terminal;
use json::Json;
pub use patience::OwnLimit;
use person::{Detail, Person};
pub use printable::{printable, printable_path};

pub use status::status;
pub use steps::Steps;

/// Receives the events of a run and, once, its outcome.
pub trait Reporter: EventSink {
    /// Reports the outcome and, if given, the explanation of the rate; nothing is reported after it.
    ///
    /// # Errors
    /// `FileIo` if a report could not be written (a closed pipe is no error).
    fn finish(&self, outcome: &Outcome, why: Option<&Explanation>) -> fobs::Result<()>;

    /// Removes what is drawn: nothing follows.
    fn clear(&self) {}

    /// Prints a line that was asked for with a signal, on standard error whatever else is shown there.
    fn status(&self, sentence: &str) {
        note(sentence);
    }
}

/// The reporter of `fobs cp`; `name` is that of its first source, `limit` the user's own of the rate, bits
/// per second.
pub fn of_copy(said: &ProgramWords, name: &[u8], limit: Option<u64>) -> Arc<dyn Reporter> {
    if said.json {
        return of_json(|error| error.kind.exit_code());
    }
    let detail = match (said.quiet, said.verbose) {
        (true, _) => Detail::Errors,
        (false, 0) => Detail::Summary,
        (false, _) => Detail::Files,
    };
    let is_drawn = !said.quiet && io::stderr().is_terminal();
    let bar = is_drawn.then(|| progress::Bar::new(name));
    let steps = (said.progress && !said.quiet && !is_drawn).then(Steps::new);
    Arc::new(Person::new(io::stderr(), detail, bar).limited(limit).stepwise(steps))
}

/// The reporter of `--json`, of a command whose failures have these exit codes.
pub fn of_json(code: fn(&Error) -> u8) -> Arc<dyn Reporter> {
    Arc::new(Json::new(io::stdout()).with_codes(code))
}

/// The reporter of `fobs pipe`, whose standard output is that of its command.
pub fn of_pipe(said: &ProgramWords) -> Arc<dyn Reporter> {
    if said.json {
        return Arc::new(Json::new(io::stderr()));
    }
    let detail = if said.quiet { Detail::Errors } else { Detail::Summary };
    let is_shown = said.progress && !said.quiet;
    let is_drawn = io::stderr().is_terminal();
    let bar = (is_shown && is_drawn).then(|| progress::Bar::new(b"pipe"));
    let steps = (is_shown && !is_drawn).then(Steps::new);
    Arc::new(Person::new(io::stderr(), detail, bar).stepwise(steps))
}

/// The sink of a command that shows notices only, each as a line on standard error.
pub fn of_notices() -> Arc<dyn EventSink> {
    Arc::new(Person::new(io::stderr(), Detail::Summary, None))
}

/// Prints `fobs: SENTENCE` to standard error, ignoring failure.
pub fn note(sentence: &str) {
    let _ = person::line(&mut io::stderr(), sentence);
}

/// Prints what limited a run's rate, and what deltas did, to standard error.
pub fn explain(why: &Explanation, outcome: &Outcome) {
    why.text().lines().for_each(note);
    let deltas = outcome.as_ref().ok().and_then(|done| done.deltas.sentence(&show_bytes));
    deltas.iter().for_each(|told| note(told));
    outcome.iter().flat_map(|done| &done.lanes).for_each(|lane| note(lane));
}

/// Lines that are safe for a terminal.
pub fn printable_lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", printable::printable(line))).collect()
}

/// Prints an error's message, as [`note`].
pub fn complain(error: &Error) {
    note(&error.message);
}

/// The exit code of a copy with this outcome.
pub fn exit_code(outcome: &Outcome) -> u8 {
    match outcome {
        Ok(summary) if !summary.errors.is_empty() => {
            let all_gone = summary.errors.iter().all(FileError::has_vanished);
            if all_gone { exit::VANISHED } else { ErrorKind::Partial.exit_code() }
        }
        Ok(summary) if summary.deletions_left > 0 => ErrorKind::DeleteLimit.exit_code(),
        Ok(_) => exit::SUCCESS,
        Err(error) => error.kind.exit_code(),
    }
}

/// The reporter of a copy for another host: JSON lines on standard error, as standard output carries frames.
pub fn of_far_copy() -> Arc<dyn Reporter> {
    Arc::new(Json::new(io::stderr()))
}

/// The lines that these calls write.
#[cfg(test)]
pub fn json_of(calls: impl FnOnce(&Json<Vec<u8>>)) -> String {
    let json = Json::new(Vec::new());
    calls(&json);
    String::from_utf8(json.into_inner()).expect("JSON is UTF-8")
}

/// Prints the `failed` event of a `--json` run with an invalid command line.
///
/// # Errors
/// As [`Reporter::finish`].
pub fn json_failure(error: &Error, code: fn(&Error) -> u8) -> fobs::Result<()> {
    Json::new(io::stdout()).with_codes(code).finish(&Err(error.clone()), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs::event::{FileError, Summary};

    #[test]
    fn every_outcome_has_its_exit_code() {
        let failed = FileError { path: b"a".to_vec(), message: "gone".to_owned() };
        let message = format!("{}'b'", FileError::VANISHED);
        let vanished = FileError { path: b"b".to_vec(), message };
        let with = |errors| Ok(Summary { errors, ..Summary::default() });
        assert_eq!(exit_code(&with(vec![vanished.clone()])), 24);
        assert_eq!(exit_code(&with(vec![vanished, failed.clone()])), 23);
        assert_eq!(exit_code(&Ok(Summary::default())), 0);
        let limited = Summary { deletions_left: 1, ..Summary::default() };
        assert_eq!(exit_code(&Ok(limited.clone())), 25);
        assert_eq!(exit_code(&Ok(Summary { errors: vec![failed], ..limited })), 23);
        for &kind in ErrorKind::ALL {
            assert_eq!(exit_code(&Err(Error::new(kind, "why"))), kind.exit_code());
        }
    }
}
