//! Lines for a person, on standard error.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fobs::event::{Event, EventSink, FileError, OtherEntries, Outcome, Summary};
use fobs::explain::{Explanation, Measured};
use fobs::mode::ModeChange;

use super::patience::OwnLimit;
use super::printable::printable;
use super::progress::Bar;
use super::{Reporter, Steps};
use crate::units::{show_bytes, show_clock, show_rate, show_share};

/// Hexadecimal digits of the root in the summary: enough to compare by eye.
const ROOT_DIGITS: usize = 16;

/// Fewest packets of which shares are shown: the last packets are sent twice in any case (protocol 5), which
/// is 100% of one packet and says nothing about the path. Below, one packet is more than a percent.
const SHARES_PACKETS_MIN: u64 = 100;

/// Level of output; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// `-q`: only errors.
    Errors,
    /// Notices and the summary.
    Summary,
    /// `-v`: the session and every file.
    Files,
}

/// Reports to a person.
pub struct Person<W> {
    out: Mutex<W>,
    detail: Detail,
    bar: Option<Bar>,
    limit: OwnLimit,
    /// Lines of progress in place of a bar.
    steps: Option<Steps>,
}

impl<W: Write> Person<W> {
    /// Writes lines to `out`, and progress to `bar` if there is one.
    pub fn new(out: W, detail: Detail, bar: Option<Bar>) -> Person<W> {
        Person { out: Mutex::new(out), detail, bar, limit: OwnLimit::new(None), steps: None }
    }

    /// With the user's own limit of the rate, bits per second.
    pub fn limited(self, bits_per_second: Option<u64>) -> Person<W> {
        Person { limit: OwnLimit::new(bits_per_second), ..self }
    }

    /// With lines of progress now and then.
    pub fn stepwise(self, steps: Option<Steps>) -> Person<W> {
        Person { steps, ..self }
    }

    fn say(&self, detail: Detail, sentence: &str) {
        if detail > self.detail {
            return;
        }
        let write = || {
            let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
            // If standard error is closed, the exit code remains.
            let _ = line(&mut *out, sentence);
        };
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

/// Writes `fobs: SENTENCE`, safe for a terminal, in one write so that lines of several threads do not mix.
pub fn line(out: &mut impl Write, sentence: &str) -> io::Result<()> {
    out.write_all(format!("fobs: {}\n", printable(sentence)).as_bytes())?;
    out.flush()
}

impl<W: Write + Send> EventSink for Person<W> {
    fn event(&self, event: Event) {
        match event {
            Event::Started { control, key_exchange, transport, cipher, cc, walls } => {
                let exchanged = key_exchange.map_or_else(String::new, |name| format!(" ({name})"));
                let walls = walls.map_or_else(String::new, |walls| format!(", walls {walls}"));
                // What travels on the control channel has no cipher of its own.
                let cipher = if cipher.is_empty() { String::new() } else { format!(", {cipher}") };
                let line = format!("control {control}{exchanged}, data {transport}{cipher}, cc {cc}{walls}");
                self.say(Detail::Files, &line);
            }
            Event::Progress(progress) => {
                self.limit.told(&progress).iter().for_each(|told| self.say(Detail::Summary, told));
                if let Some(bar) = &self.bar {
                    bar.show(&progress);
                }
                if let Some(line) = self.steps.as_ref().and_then(|steps| steps.line(&progress)) {
                    self.say(Detail::Summary, &line);
                }
            }
            Event::FileDone(fobs::event::FileDone { path, bytes, root: _ }) => {
                self.say(
                    Detail::Files,
                    &format!("{}: {}", String::from_utf8_lossy(&path), show_bytes(bytes)),
                );
            }
            Event::FileFailed(FileError { path, message }) => {
                self.say(Detail::Errors, &format!("{}: {message}", String::from_utf8_lossy(&path)));
            }
            Event::Measured(measured) => match *measured {
                Measured::Mode(change) => {
                    let ModeChange { seconds, from, to, reason, queue_ms, delivered_bps, .. } = change;
                    let delivered = show_rate(delivered_bps as f64);
                    let line = format!(
                        "at {seconds:.2} s from {from} to {to} ({delivered}, queue {queue_ms:.1} ms): {reason}"
                    );
                    self.say(Detail::Files, &line);
                }
                Measured::Remedy(remedy) => self.say(Detail::Files, &remedy.to_string()),
                Measured::Way(change) => self.say(Detail::Files, &change.to_string()),
                Measured::Sender(_) | Measured::Receiver(_) | Measured::Loss(_) => {}
            },
            Event::Notice(sentence) => self.say(Detail::Summary, &sentence),
            // Of a sync, which prints them elsewhere, and no more than rsync does.
            _ => {}
        }
    }
}

impl<W: Write + Send> Reporter for Person<W> {
    fn finish(&self, outcome: &Outcome, why: Option<&Explanation>) -> fobs::Result<()> {
        if let Some(bar) = &self.bar {
            bar.clear();
        }
        // `main` prints errors, for every subcommand.
        if let Ok(summary) = outcome {
            self.say(Detail::Summary, &sentence(summary));
        }
        if let Some(why) = why {
            why.text().lines().for_each(|line| self.say(Detail::Errors, line));
        }
        let deltas = outcome.as_ref().ok().and_then(|done| done.deltas.sentence(&show_bytes));
        if let Some(told) = deltas {
            let detail = if why.is_some() { Detail::Errors } else { Detail::Files };
            self.say(detail, &told);
        }
        let storage = outcome.as_ref().ok().and_then(|done| done.storage.sentence(&show_bytes));
        storage.iter().for_each(|told| self.say(Detail::Files, told));
        Ok(())
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.clear();
        }
    }

    fn status(&self, sentence: &str) {
        self.say(Detail::Errors, sentence);
    }
}

fn sentence(summary: &Summary) -> String {
    let failed = match summary.errors.len() as u64 {
        0 => String::new(),
        count => format!(", {} failed", counted(count, "file", "files")),
    };
    let deadline = match summary.deadline_margin_s {
        Some(margin) if margin < 0.0 => format!(", {} after the deadline", span(margin.abs())),
        Some(margin) => format!(", {} before the deadline", span(margin)),
        None => String::new(),
    };
    let resumed = match summary.resumed_bytes {
        0 => String::new(),
        bytes => format!(" ({} of them by an earlier run)", show_bytes(bytes)),
    };
    let matched = match summary.matched_bytes {
        0 => String::new(),
        bytes => format!(" ({} of them were there)", show_bytes(bytes)),
    };
    format!(
        "{}{}{failed}, {}{resumed}{matched} in {:.2} s{deadline}, {}{}, root {}",
        counted(summary.files, "file", "files"),
        others(&summary.others),
        show_bytes(summary.bytes),
        summary.seconds,
        show_rate(summary.goodput_bps),
        shares(summary),
        summary.root.chars().take(ROOT_DIGITS).collect::<String>(),
    )
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// What there is beside files, each kind with a comma before it.
fn others(others: &OtherEntries) -> String {
    let OtherEntries { directories, links, devices } = *others;
    let kinds =
        [(directories, "directory", "directories"), (links, "link", "links"), (devices, "device", "devices")];
    let there = kinds.into_iter().filter(|(count, ..)| *count > 0);
    there.map(|(count, one, many)| format!(", {}", counted(count, one, many))).collect()
}

/// Waste and loss, where there are packets enough for shares of them.
fn shares(summary: &Summary) -> String {
    if summary.packets_needed < SHARES_PACKETS_MIN {
        return String::new();
    }
    format!(", waste {}, loss {}", show_share(summary.waste), show_share(summary.loss_rate))
}

/// Seconds with tenths below a minute, a clock above.
fn span(seconds: f64) -> String {
    if seconds < 60.0 { format!("{seconds:.1} s") } else { show_clock(Duration::from_secs_f64(seconds)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs::cause::{Remedy, RemedyAction, RemedyResult};
    use fobs::event::Progress;
    use fobs::storage::{CacheReason, CacheUse, Storage, StorageUse};

    /// The output at this level.
    fn output(detail: Detail, events: &[Event], outcome: &Outcome) -> String {
        let person = Person::new(Vec::new(), detail, None);
        for event in events {
            person.event(event.clone());
        }
        person.finish(outcome, None).expect("a vector takes everything");
        let out = person.out.into_inner().expect("not poisoned");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn each_level_includes_the_ones_below() {
        let events = [
            Event::Started {
                control: "tls",
                key_exchange: Some("X25519MLKEM768"),
                walls: None,
                transport: "udp",
                cipher: "AES-128-GCM",
                cc: "auto",
            },
            Event::Notice("pinned\x1b[2J".to_owned()),
            Event::Progress(Progress::default()),
            Event::Measured(Box::new(Measured::Mode(ModeChange {
                seconds: 12.345,
                from: "cruise".to_owned(),
                to: "as cubic".to_owned(),
                reason: "others hold the queue".to_owned(),
                queue_ms: 25.12,
                delivered_bps: 34_200_000,
                yielded_ms: Some(40.0),
            }))),
            Event::Measured(Box::new(Measured::Remedy(Remedy {
                seconds: 13.0,
                action: RemedyAction::AnotherLane,
                result: RemedyResult::Applied,
            }))),
            Event::FileDone(fobs::event::FileDone { path: b"a\nb".to_vec(), bytes: 1500, root: [0; 32] }),
            Event::FileFailed(FileError { path: b"caf\xe9".to_vec(), message: "no\x07 right".to_owned() }),
        ];
        let summary = Summary {
            bytes: 3_000_000_000,
            files: 2,
            seconds: 2.5,
            goodput_bps: 9.6e9,
            waste: 0.0012,
            packets_needed: 2_000_000,
            others: OtherEntries { directories: 1, links: 2, devices: 0 },
            loss_rate: 0.0005,
            root: "0123456789abcdef".repeat(4),
            errors: vec![FileError { path: b"caf\xe9".to_vec(), message: String::new() }],
            ..Summary::default()
        };
        let outcome = Ok(summary);
        let failed = "fobs: caf\u{fffd}: no\\u{7} right\n";
        let end = "fobs: 2 files, 1 directory, 2 links, 1 file failed, 3.00 GB in 2.50 s, 9.60 Gbit/s, waste 0.12%, loss 0.05%, \
                   root 0123456789abcdef\n";
        assert_eq!(output(Detail::Errors, &events, &outcome), failed);
        let notice = "fobs: pinned\\u{1b}[2J\n";
        assert_eq!(output(Detail::Summary, &events, &outcome), format!("{notice}{failed}{end}"));
        let started = "fobs: control tls (X25519MLKEM768), data udp, AES-128-GCM, cc auto\n";
        let done = "fobs: at 12.35 s from cruise to as cubic (34.2 Mbit/s, queue 25.1 ms): others hold the queue\n\
                    fobs: at 13.0 s: a thread that only empties the socket: done\n\
                    fobs: a\\nb: 1.50 kB\n";
        assert_eq!(output(Detail::Files, &events, &outcome), format!("{started}{notice}{done}{failed}{end}"));
    }

    #[test]
    fn what_has_no_cipher_of_its_own_names_none() {
        let started = Event::Started {
            control: "ssh",
            key_exchange: None,
            transport: "control",
            cipher: "",
            cc: "auto",
            walls: None,
        };
        let told = output(Detail::Files, &[started], &Ok(Summary::default()));
        assert!(told.starts_with("fobs: control ssh, data control, cc auto\n"), "{told}");
    }

    #[test]
    fn the_summary_says_whether_the_deadline_was_met() {
        for (margin, words) in [
            (12.34, "0 bytes in 0.00 s, 12.3 s before the deadline, 0 bit/s"),
            (-0.05, "0 bytes in 0.00 s, 0.1 s after the deadline, 0 bit/s"),
            (-725.0, "0 bytes in 0.00 s, 12:05 after the deadline, 0 bit/s"),
        ] {
            let outcome = Ok(Summary { deadline_margin_s: Some(margin), ..Summary::default() });
            let output = output(Detail::Summary, &[], &outcome);
            assert!(output.contains(words), "{output}");
        }
    }

    #[test]
    fn the_summary_says_what_an_earlier_run_had_stored() {
        let summary = Summary { bytes: 3_000_000_000, resumed_bytes: 2_000_000_000, ..Summary::default() };
        let output = output(Detail::Summary, &[], &Ok(summary));
        assert!(
            output.contains("0 files, 3.00 GB (2.00 GB of them by an earlier run) in 0.00 s"),
            "{output}"
        );
    }

    #[test]
    fn how_large_files_went_is_one_line_of_the_detailed_output() {
        let row = |file_system: &str, way, why| StorageUse {
            file_system: file_system.to_owned(),
            way,
            why,
            bytes: 3_000_000_000,
        };
        let storage = Storage {
            read: vec![row("ext4", CacheUse::Uncached, None)],
            written: vec![row("a\x1bfs", CacheUse::Cached, Some(CacheReason::NoOther))],
        };
        let outcome = Ok(Summary { storage, ..Summary::default() });
        let line = "fobs: large files read: ext4 3.00 GB by RWF_DONTCACHE; written: a\\u{1b}fs 3.00 GB through the page \
                    cache (the file system offers no other way)\n";
        assert!(output(Detail::Files, &[], &outcome).ends_with(line));
        assert!(!output(Detail::Summary, &[], &outcome).contains("large files"));
    }

    #[test]
    fn a_copy_of_few_packets_shows_no_shares() {
        let one = Summary { files: 1, packets_needed: 1, packets_sent: 2, waste: 1.0, ..Summary::default() };
        let output = output(Detail::Summary, &[], &Ok(one));
        assert_eq!(output, "fobs: 1 file, 0 bytes in 0.00 s, 0 bit/s, root \n");
    }

    #[test]
    fn a_failed_copy_has_no_summary() {
        let outcome = Err(fobs::Error::new(fobs::ErrorKind::Connect, "out of reach"));
        assert_eq!(output(Detail::Files, &[], &outcome), "");
    }
}
