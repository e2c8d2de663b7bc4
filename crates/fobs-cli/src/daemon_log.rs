//! `fobs log`: what of a daemon's log is about a key, a path, a kind of work or an outcome.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use fobs::{Error, ErrorKind, Result};
use jiff::Timestamp;
use serde_json::Value;

use crate::args::LogArgs;
use crate::output;

/// Longest line that is read, bytes: a record has a few kilobytes. The rest of a longer one is skipped.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Most words of a member that are remembered: a daemon has fewer. Further ones are not named.
const WORDS_MAX: usize = 40;

/// Prints the records that fit.
///
/// # Errors
/// `NoSource` for a file that cannot be read, `FileIo` where nothing can be printed.
pub fn run(args: &LogArgs) -> Result<()> {
    let mut out = io::stdout().lock();
    let stdin = [Path::new("-").to_owned()];
    let files = if args.files.is_empty() { &stdin[..] } else { &args.files };
    let mut seen = Seen::default();
    for path in files {
        let unreadable = |error: io::Error| {
            Error::new(ErrorKind::NoSource, format!("cannot read {}: {error}", path.display()))
        };
        let source: Box<dyn Read> = if path == Path::new("-") {
            Box::new(io::stdin())
        } else {
            Box::new(fobs::named::open(path).map_err(unreadable)?)
        };
        match filter(BufReader::new(source), args, &mut out, &mut seen) {
            Ok(()) => {}
            Err(Failure::Reading(error)) => return Err(unreadable(error)),
            // Who reads has seen enough.
            Err(Failure::Writing(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(Failure::Writing(error)) => {
                let message = format!("cannot write to standard output: {error}");
                return Err(Error::new(ErrorKind::FileIo, message));
            }
        }
    }
    if let Some(note) = seen.note(args) {
        output::note(&note);
    }
    Ok(())
}

/// What was read.
#[derive(Debug, Default)]
struct Seen {
    lines: u64,
    records: u64,
    shown: u64,
    /// The words of each of [`asked`].
    words: [BTreeSet<String>; 3],
}

/// The members whose words a daemon has chosen, and what is wanted of each.
fn asked(args: &LogArgs) -> [(&'static str, Option<&str>); 3] {
    [("event", args.event.as_deref()), ("work", args.work.as_deref()), ("code", args.code.as_deref())]
}

impl Seen {
    fn read(&mut self, record: &Value, args: &LogArgs) {
        self.records += u64::from(record.get("event").is_some());
        for ((name, wanted), words) in asked(args).into_iter().zip(&mut self.words) {
            let Some(word) = record.get(name).and_then(Value::as_str) else { continue };
            if wanted == Some(word) || words.len() < WORDS_MAX {
                words.insert(word.to_owned());
            }
        }
    }

    /// Why nothing is shown, where that is not plain.
    fn note(&self, args: &LogArgs) -> Option<String> {
        match *self {
            Seen { shown: 1.., .. } | Seen { lines: 0, .. } => None,
            Seen { records: 0, lines, .. } => Some(format!(
                "none of {lines} lines is a record: only what fobs serve --log-json writes can be chosen from"
            )),
            Seen { records, .. } => {
                let unknown = |((name, wanted), words): ((&str, Option<&str>), &BTreeSet<String>)| {
                    let wanted = wanted.filter(|wanted| !words.contains(*wanted) && !words.is_empty())?;
                    let there = words.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                    Some(format!("; no record has the {name} '{wanted}', they have {there}"))
                };
                let unknown: String = asked(args).into_iter().zip(&self.words).filter_map(unknown).collect();
                Some(output::printable(&format!("none of {records} records is about that{unknown}")))
            }
        }
    }
}

#[derive(Debug)]
enum Failure {
    Reading(io::Error),
    Writing(io::Error),
}

fn filter(
    mut lines: impl BufRead,
    args: &LogArgs,
    out: &mut impl Write,
    seen: &mut Seen,
) -> std::result::Result<(), Failure> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if count.map_err(Failure::Reading)? == 0 {
            return Ok(());
        }
        seen.lines += 1;
        let Ok(record) = serde_json::from_slice::<Value>(&line) else { continue };
        seen.read(&record, args);
        if !fits(&record, args) {
            continue;
        }
        seen.shown += 1;
        let text = if args.json {
            String::from_utf8_lossy(line.trim_ascii()).into_owned()
        } else {
            let member = |name: &str| record.get(name).and_then(Value::as_str).unwrap_or_default();
            output::printable(&format!("{} {}", member("timestamp"), member("message")))
        };
        writeln!(out, "{text}").map_err(Failure::Writing)?;
    }
}

/// Whether a record meets every condition.
fn fits(record: &Value, args: &LogArgs) -> bool {
    let member = |name: &str| record.get(name).and_then(Value::as_str);
    let is = |name: &str, wanted: &Option<String>| {
        wanted.as_deref().is_none_or(|wanted| member(name) == Some(wanted))
    };
    let of_key = args.key.as_deref().is_none_or(|wanted| {
        ["key_name", "key"].iter().any(|name| member(name).is_some_and(|key| key.contains(wanted)))
    });
    let of_path = args.path.as_deref().is_none_or(|wanted| {
        member("path").is_some_and(|path| is_below(path, wanted))
            || member("request").is_some_and(|request| names(request).any(|path| is_below(path, wanted)))
    });
    let is_late = args.since.is_none_or(|since| {
        let at = member("timestamp").and_then(|text| text.parse::<Timestamp>().ok());
        at.is_some_and(|at| std::time::SystemTime::from(at) >= since)
    });
    member("event").is_some()
        && is("event", &args.event)
        && is("work", &args.work)
        && is("code", &args.code)
        && of_key
        && of_path
        && is_late
}

/// The paths of a request, which stand in quotes.
fn names(request: &str) -> impl Iterator<Item = &str> {
    request.split('\'').skip(1).step_by(2)
}

/// Whether a path is `wanted` or below it.
fn is_below(path: &str, wanted: &str) -> bool {
    let (path, wanted) = (path.trim_start_matches('/'), wanted.trim_matches('/'));
    path.strip_prefix(wanted)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || wanted.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    const LOG: &str = r#"fobs: listening
{"timestamp":"2026-11-27T01:00:00.5Z","message":"a","event":"request","key":"SHA256:abc","key_name":"ann@desk","work":"copy","request":"push to 'sets/new'"}
{"timestamp":"2026-11-27T02:00:00Z","message":"b","event":"deleted","key":"SHA256:abc","key_name":"ann@desk","path":"sets/old/x"}
{"timestamp":"2026-11-27T03:00:00Z","message":"c\u001b[2J","event":"failed","key":"SHA256:def","key_name":"ben","work":"sync","code":"denied","request":"sync --delete to 'setsize'"}
{"timestamp":"2026-11-27T04:00:00Z","message":"d","event":"done","key":"SHA256:def","key_name":"ben","work":"copy","code":"ok","request":"pull of 'a', 'sets/old'"}
not json {"#;

    fn shown(words: &str) -> String {
        let cli = Cli::try_parse_from(["fobs", "log"].into_iter().chain(words.split_whitespace()));
        let Command::Log(args) = cli.expect(words).command else { panic!("log was given") };
        let (mut out, mut seen) = (Vec::new(), Seen::default());
        filter(LOG.as_bytes(), &args, &mut out, &mut seen).expect("it is read and written");
        let text = String::from_utf8(out).expect("text");
        text.lines()
            .map(|line| line.rsplit_once(' ').map_or(line, |(_, last)| last))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn an_empty_answer_says_why() {
        let note = |text: &str, words: &[&str]| {
            let cli = Cli::try_parse_from(["fobs", "log"].iter().chain(words)).expect("words");
            let Command::Log(args) = cli.command else { panic!("log was given") };
            let mut seen = Seen::default();
            filter(text.as_bytes(), &args, &mut Vec::new(), &mut seen).expect("it is read");
            seen.note(&args)
        };
        assert_eq!(note("", &[]), None);
        assert_eq!(note(LOG, &["--key", "ann"]), None);
        assert_eq!(note(LOG, &["--key", "nobody"]).as_deref(), Some("none of 4 records is about that"));
        assert_eq!(
            note(LOG, &["--event", "delete", "--code", "denied"]).as_deref(),
            Some(
                "none of 4 records is about that; no record has the event 'delete', they have deleted, done, failed, \
                 request"
            )
        );
        assert_eq!(
            note(LOG, &["--event", "done", "--code", "denied"]).as_deref(),
            Some("none of 4 records is about that")
        );
        let many: String = (0..100).map(|number| format!("{{\"event\":\"e{number}\"}}\n")).collect();
        let told = note(&many, &["--event", "done"]).expect("a note");
        assert_eq!(told.matches(", e").count(), WORDS_MAX - 1, "it is bounded: {told}");
        let text = "2026-11-27T01:00:00Z fobs: listening\n{\"not\":\"ours\"}\n";
        assert!(note(text, &["--key", "ann"]).is_some_and(|note| note.contains("--log-json")));
    }

    #[test]
    fn conditions_choose_records() {
        for (words, expected) in [
            ("", "a b c\\u{1b}[2J d"),
            ("--key ann", "a b"),
            ("--key SHA256:de", "c\\u{1b}[2J d"),
            ("--event deleted", "b"),
            ("--work copy", "a d"),
            ("--work copy --key ben", "d"),
            ("--code denied", "c\\u{1b}[2J"),
            ("--path sets", "a b d"),
            ("--path /sets/old/", "b d"),
            ("--path sets/o", ""),
            ("--since 2026-11-27T02:30:00Z", "c\\u{1b}[2J d"),
            ("--code none", ""),
        ] {
            assert_eq!(shown(words), expected, "{words}");
        }
        assert_eq!(shown("--json --code ok"), "'sets/old'\"}", "as it is");
    }
}
