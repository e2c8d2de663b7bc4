//! What an attempt says: lines of `--json` become figures, sentences and an end.

use std::collections::VecDeque;

use fobs_model::error::{ErrorKind, SyncEnd};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::rates::Rates;
use crate::job::{Ending, RoomThere};

/// Lines that an attempt keeps from its begin, and from its end: what is between says the same again.
const FIRST_MAX: usize = 100;
/// See [`FIRST_MAX`].
const LAST_MAX: usize = 200;

/// What the system says of a device or a quota that is full (ENOSPC, EDQUOT).
const FULL: &[&str] = &["No space left on device", "Disk quota exceeded"];

/// Whether an exit code may be that of a run which could only not write its lines (`cp`, `sync`).
fn is_of_output(code: i32) -> bool {
    [ErrorKind::FileIo.exit_code(), SyncEnd::Diagnostics.code()].map(i32::from).contains(&code)
}

/// How an attempt stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Figures {
    /// Bytes that it has moved.
    pub bytes: u64,
    /// Bytes that it knows of.
    pub bytes_known: u64,
    /// Files that are done.
    pub files: u64,
    /// Bits per second, lately.
    pub rate_bps: f64,
    /// Seconds that are left, once all is known.
    pub eta_s: Option<f64>,
    /// What limits it, in a sentence; while it runs, what has limited it so far.
    pub limit: Option<String>,
}

/// What was read of an attempt so far.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub figures: Figures,
    pub rates: Rates,
    first: Vec<String>,
    last: VecDeque<String>,
    left_out: u64,
    room: RoomThere,
    /// Its last line, once that was read.
    end: Option<End>,
}

#[derive(Debug)]
enum End {
    /// With the exit code that follows from it: `sync` and `cp` agree on these.
    Done(i32),
    Failed(Ending),
}

impl Reading {
    /// Takes a line of its standard output, which was read at this time since its begin, ms; none where lines
    /// of an unknown time are read at once.
    pub(super) fn line(&mut self, line: &str, at_ms: Option<u64>) {
        let Ok(value) = serde_json::from_str::<Value>(line) else {
            // A word of another program, or half a line of one that was killed.
            return self.keep(line);
        };
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        match value["event"].as_str().unwrap_or_default() {
            "progress" => self.progress(&value, at_ms),
            "notice" => self.keep(&text("message")),
            "error" => {
                self.note_room(&text("message"));
                self.keep(&format!("{}: {}", text("path"), text("message")));
            }
            "start" => self.keep(&format!("begins over {} and {}", text("control"), text("transport"))),
            "done" => self.done(&value),
            "failed" => {
                let exit_code = value["exit_code"].as_i64().and_then(|code| i32::try_from(code).ok());
                let message = text("message");
                self.note_room(&message);
                self.keep(&message);
                self.end = Some(End::Failed(Ending {
                    exit_code,
                    kind: Some(text("code")),
                    message: Some(message),
                    room: self.room,
                }));
            }
            // Each file, and kinds of a later release.
            _ => {}
        }
    }

    /// Whether a sentence says that the destination is full.
    fn note_room(&mut self, message: &str) {
        let reason = message.rsplit_once("': ").map_or(message, |(_, reason)| reason);
        if FULL.iter().any(|full| reason.starts_with(full)) {
            self.room = RoomThere::Full;
        }
    }

    fn progress(&mut self, value: &Value, at_ms: Option<u64>) {
        let number = |name: &str| value[name].as_u64().unwrap_or_default();
        let (bytes, bytes_known) = (number("bytes"), number("bytes_known"));
        let rate_bps = value["rate_bps"].as_f64().unwrap_or_default();
        if let Some(at_ms) = at_ms {
            self.rates.note(at_ms, rate_bps);
        }
        let left = bytes_known.saturating_sub(bytes) as f64 * 8.0;
        let all_is_known = value["scan_complete"] == true && rate_bps > 0.0;
        self.figures = Figures {
            bytes,
            bytes_known,
            files: number("files"),
            rate_bps,
            eta_s: all_is_known.then(|| left / rate_bps),
            limit: self.figures.limit.take(),
        };
    }

    fn done(&mut self, value: &Value) {
        let number = |name: &str| value[name].as_u64().unwrap_or_default();
        let figures = &mut self.figures;
        figures.bytes = number("bytes");
        figures.bytes_known = figures.bytes_known.max(figures.bytes);
        figures.files = number("files");
        figures.rate_bps = value["goodput_bps"].as_f64().unwrap_or_default();
        figures.eta_s = None;
        figures.limit = value["explain"]["sentence"].as_str().map(str::to_owned).or(figures.limit.take());
        let seconds = value["seconds_total"].as_f64().unwrap_or_default();
        let said = format!("done: {} bytes in {} files, {seconds:.1} s", figures.bytes, figures.files);
        self.keep(&said);
        let errors = value["errors"].as_array().map_or(0, Vec::len);
        self.end = Some(End::Done(match (errors, number("deletions_left")) {
            (0, 0) => 0,
            (0, _) => 25,
            _ => 23,
        }));
    }

    /// Takes a line of its standard error.
    pub(super) fn complaint(&mut self, line: &str) {
        // What `failed` has said as well.
        let is_known = match &self.end {
            Some(End::Failed(ending)) => {
                ending.message.as_ref().is_some_and(|message| line.contains(message))
            }
            _ => false,
        };
        if !is_known {
            self.keep(line);
        }
    }

    fn keep(&mut self, line: &str) {
        let line = line.trim_end();
        if line.is_empty() {
            return;
        }
        if self.first.len() < FIRST_MAX {
            self.first.push(line.to_owned());
            return;
        }
        if self.last.len() >= LAST_MAX {
            self.last.pop_front();
            self.left_out += 1;
        }
        self.last.push_back(line.to_owned());
    }

    /// What it has said that is worth keeping, oldest first.
    pub(super) fn lines(&self) -> Vec<String> {
        let left_out = (self.left_out > 0).then(|| format!("({} further lines are left out)", self.left_out));
        self.first.iter().cloned().chain(left_out).chain(self.last.iter().cloned()).collect()
    }

    /// How it ended; the code is that of its process, where that was seen. None where nothing says how.
    pub(super) fn ending(&self, code: Option<i32>) -> Option<Ending> {
        match (&self.end, code) {
            (Some(End::Failed(ending)), code) => {
                Some(Ending { exit_code: code.or(ending.exit_code), ..ending.clone() })
            }
            (Some(End::Done(said)), code) => {
                // Files that failed for lack of room are the reason, where there is no other one.
                let message = (self.room == RoomThere::Full).then(|| "the destination is full".to_owned());
                Some(Ending { exit_code: Some(code.unwrap_or(*said)), kind: None, message, room: self.room })
            }
            // It wrote no last line, and says that something could not be written.
            (None, Some(code)) if is_of_output(code) => Some(Ending {
                exit_code: None,
                message: Some("what it said could not be written: the disk of the state is full".to_owned()),
                ..Ending::default()
            }),
            (None, Some(code)) => {
                let message = self.last.back().or(self.first.last()).cloned();
                Some(Ending { exit_code: Some(code), kind: None, message, room: self.room })
            }
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Outlook;

    #[test]
    fn figures_and_ends_are_read() {
        let mut reading = Reading::default();
        let progress = r#"{"v":1,"event":"progress","bytes":500,"bytes_known":1500,"scan_complete":true,"files":1,"rate_bps":800}"#;
        reading.line(progress, Some(7000));
        assert_eq!(reading.figures.eta_s, Some(10.0));
        assert_eq!(reading.ending(None), None, "killed");
        assert_eq!(reading.rates.points(), [crate::job::RatePoint { at_ms: 7000, bps: 800 }]);
        reading.line(r#"{"v":1,"event":"error","path":"x","message":"gone"}"#, None);
        reading.line(r#"{"v":1,"event":"done","bytes":9,"files":2,"seconds_total":1.25,"goodput_bps":7,"errors":[{}],"explain":{"sentence":"why"}}"#, None);
        assert_eq!(reading.lines(), ["x: gone", "done: 9 bytes in 2 files, 1.2 s"]);
        assert_eq!(reading.ending(None).and_then(|ending| ending.exit_code), Some(23));
        assert_eq!(reading.ending(Some(24)).and_then(|ending| ending.exit_code), Some(24));
        assert_eq!(reading.figures.limit.as_deref(), Some("why"));
    }

    #[test]
    fn a_failure_is_said_once_and_has_its_kind() {
        let mut reading = Reading::default();
        reading.line(r#"{"v":1,"event":"failed","code":"connect","message":"no way","exit_code":10}"#, None);
        reading.complaint("fobs: no way");
        reading.complaint("ssh: something else");
        assert_eq!(reading.lines(), ["no way", "ssh: something else"]);
        let ending = reading.ending(Some(10)).expect("it ended");
        assert_eq!((ending.outlook(), ending.kind.as_deref()), (Outlook::Again, Some("connect")));
    }

    #[test]
    fn lines_that_were_lost_are_no_failure_of_the_job() {
        let reading = Reading::default();
        let of = |code| reading.ending(Some(code)).map(|ending| ending.outlook());
        for code in [ErrorKind::FileIo.exit_code(), SyncEnd::Diagnostics.code()] {
            assert_eq!(of(code.into()), Some(Outlook::Again), "{code}");
        }
        assert_eq!(of(4), Some(Outlook::Never));
        let mut failed = Reading::default();
        failed.line(r#"{"v":1,"event":"failed","code":"file-io","message":"m","exit_code":11}"#, None);
        assert_eq!(failed.ending(Some(11)).map(|ending| ending.outlook()), Some(Outlook::Never));
    }

    #[test]
    fn lines_have_a_bound_and_say_so() {
        let mut reading = Reading::default();
        for number in 0..1000 {
            reading.line(&format!("no JSON {number}"), None);
        }
        let lines = reading.lines();
        assert_eq!(lines.len(), FIRST_MAX + LAST_MAX + 1);
        assert_eq!(lines[FIRST_MAX], "(700 further lines are left out)");
        assert_eq!(lines.last().map(String::as_str), Some("no JSON 999"));
    }
}
