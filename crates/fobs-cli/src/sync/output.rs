//! What a sync prints: changes and statistics on standard output, errors and notices on standard error.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fobs::event::{EntryFacts, Event, EventSink, FileDone, FileError, Outcome, Progress, Summary};
use fobs::explain::Explanation;
use fobs::{ErrorKind, NameCharsets};
use jiff::tz::TimeZone;

use super::figures::{Counts, Run, big, last_lines, moved, statistics};
use super::format::{Format, Line, Sum, listed};
use super::log::Log;
use super::names::{Letters, shown};
use super::order::Held;
use super::progress::{Standing, complete, fitted, flowing};
use super::wording::Wording;
use crate::args::sync::SyncArgs;
use crate::output::{OwnLimit, Reporter, Steps, note};

/// Most lines that wait for their file with `--progress`; further ones are printed at once.
const WAITING_MAX: usize = 1 << 16;
/// What `-i` says of something that is deleted.
const DELETING: &str = "*deleting  ";

/// What a line is about that waits for the checksum of its file.
struct Unsummed {
    changes: String,
    facts: EntryFacts,
    /// As it is printed, and as it is logged.
    names: [Vec<u8>; 2],
}

/// Prints lines.
pub struct Lines {
    wording: Wording,
    log: Option<Log>,
    letters: Letters,
    charsets: Option<NameCharsets>,
    zone: TimeZone,
    /// Lines of how far the whole is, with `--progress`.
    steps: Option<Steps>,
    limit: OwnLimit,
    state: Mutex<Printed>,
}

struct Printed {
    counts: Counts,
    held: Held,
    /// Lines of files that `--progress` prints once the file is there.
    waiting: HashMap<Vec<u8>, Vec<u8>>,
    /// Lines with the checksum of a file that is not read yet.
    unsummed: HashMap<Vec<u8>, Unsummed>,
    /// Directories that were told of, where several sources may have the same; none for one source.
    directories: Option<HashSet<Vec<u8>>>,
    has_begun: bool,
    /// What comes behind the first line.
    first: Vec<u8>,
    is_listed: bool,
    files: u64,
    began: Instant,
    /// Columns of an unfinished line.
    columns: usize,
}

impl Lines {
    /// As the switches say.
    pub fn new(args: &SyncArgs) -> Lines {
        let zone = TimeZone::system();
        let wording = Wording::of(args, io::stdout().is_terminal());
        let opened = wording.log_file.as_ref().map(|path| {
            Log::open(path, wording.log_format.clone(), zone.clone())
                .map_err(|error| note(&format!("goes on without --log-file '{}': {error}", path.display())))
        });
        let state = Printed {
            counts: Counts::default(),
            held: Held::default(),
            waiting: HashMap::new(),
            unsummed: HashMap::new(),
            directories: (args.paths.len() > 2 || args.chosen.sync.files_from.is_some()).then(HashSet::new),
            has_begun: false,
            first: Vec::new(),
            is_listed: false,
            files: 0,
            began: Instant::now(),
            columns: 0,
        };
        let log = opened.and_then(Result::ok);
        let steps = (wording.progress == 1 && !wording.quiet).then(Steps::new);
        Lines {
            log,
            steps,
            limit: OwnLimit::new(args.chosen.rate_limit()),
            letters: Letters::of(args.chosen.program.raw_names),
            charsets: args.chosen.sync.charsets,
            wording,
            zone,
            state: Mutex::new(state),
        }
    }

    /// A name as this host writes it.
    fn here<'n>(&self, name: &'n [u8]) -> Cow<'n, [u8]> {
        let charsets = self.charsets.as_ref();
        charsets.and_then(|charsets| charsets.as_here(name).ok()).unwrap_or(Cow::Borrowed(name))
    }

    fn state(&self) -> MutexGuard<'_, Printed> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints, behind what comes first of all.
    fn print(&self, state: &mut Printed, text: &[u8]) {
        let has_first = self.wording.header.is_some() && !state.has_begun || !state.first.is_empty();
        if self.wording.quiet || text.is_empty() && !has_first && state.columns == 0 {
            return;
        }
        let mut whole = Vec::new();
        if !std::mem::replace(&mut state.has_begun, true) {
            whole.extend(self.wording.header.iter().flat_map(|line| format!("{line}\n").into_bytes()));
        }
        whole.append(&mut state.first);
        if std::mem::take(&mut state.columns) > 0 && !text.starts_with(b"\r") {
            whole.push(b'\n');
        }
        whole.extend_from_slice(text);
        let mut out = io::stdout().lock();
        // A closed pipe is no failure of the sync.
        let _ = out.write_all(&whole).and_then(|()| out.flush());
    }

    /// An entry with this path was decided on; `logged` has its names as a log does.
    fn changed(&self, line: &Line<'_>, logged: &Line<'_>, path: &[u8]) {
        let mut state = self.state();
        if line.directory && !state.is_new(path) {
            return;
        }
        state.counts.add(line.changes, &line.facts);
        if line.changes.chars().nth(1).is_some_and(|letter| self.wording.left_out.contains(&letter)) {
            let text = [b"skipping non-regular file \"", line.path, b"\""].concat();
            return self.put(&mut state, path, false, false, &text);
        }
        if let Some(text) = self.wording.left_out_by(line).filter(|_| !self.wording.lists) {
            return self.put(&mut state, path, line.directory, false, &text);
        }
        if !self.wording.shows(line) {
            return;
        }
        let formats = [self.wording.format.as_ref(), self.log.as_ref().and_then(|log| log.format.as_ref())];
        let waits = line.changes.starts_with(['<', '>'])
            && !self.wording.run.is_dry
            && formats.iter().flatten().any(|format| format.has(b"C"));
        if waits && state.unsummed.len() < WAITING_MAX {
            let names = [line.path.to_vec(), logged.path.to_vec()];
            let unsummed = Unsummed { changes: line.changes.to_owned(), facts: line.facts, names };
            state.unsummed.insert(path.to_vec(), unsummed);
            return;
        }
        self.say(&mut state, line, logged, path);
    }

    /// A file whose line waited for its checksum is there, or never will be.
    fn summed(
        &self,
        state: &mut Printed,
        path: &[u8],
        Unsummed { changes, facts, names }: &Unsummed,
        sum: Option<Sum>,
    ) {
        let line = Line {
            changes,
            path: &names[0],
            directory: false,
            target: None,
            facts: *facts,
            operation: self.wording.operation(),
            above: &self.wording.above,
            sum,
        };
        self.say(state, &line, &Line { path: &names[1], ..line }, path);
    }

    /// Logs and prints the line of an entry.
    fn say(&self, state: &mut Printed, line: &Line<'_>, logged: &Line<'_>, path: &[u8]) {
        if let Some(log) = &self.log
            && let Some(format) = log.format.as_ref().filter(|_| !line.facts.unchanged)
        {
            log.line(&format.fill(logged, &self.zone));
        }
        let text = match (&self.wording.format, line.facts.unchanged) {
            _ if self.wording.lists => listed(line, self.wording.human, &self.zone),
            // As rsync, which says it of no directory.
            (Some(_), true) if !self.wording.is_itemized() && line.directory => return,
            (Some(_), true) if !self.wording.is_itemized() => [line.path, b" is uptodate"].concat(),
            (Some(format), _) => format.fill(line, &self.zone),
            (None, _) => return,
        };
        let text = match self.wording.backed_up(line) {
            Some(backup) => [&text[..], b"\n", &backup].concat(),
            None => text,
        };
        let waits =
            self.wording.progress == 1 && line.changes.starts_with(['<', '>']) && !self.wording.run.is_dry;
        if waits && state.waiting.len() < WAITING_MAX {
            state.waiting.insert(path.to_vec(), [&text[..], b"\n"].concat());
        } else {
            self.put(state, path, line.directory, false, &text);
        }
    }

    fn deleted(&self, path: &[u8], directory: bool) {
        let mut state = self.state();
        state.counts.deleted.add(if directory { "d" } else { "f" });
        let printed = shown(&self.here(path), self.letters);
        let line = Line {
            changes: DELETING,
            path: &printed,
            directory,
            target: None,
            facts: EntryFacts { group: self.wording.keeps_groups.then_some(0), ..EntryFacts::default() },
            operation: "del.",
            above: b"",
            sum: None,
        };
        let plain = Format::parse(b"deleting %n");
        if let Some(log) = self.log.as_ref().filter(|_| !self.wording.run.is_dry)
            && let Some(format) = &log.format
        {
            let format = if format.has(b"oi") { format } else { &plain };
            let logged = shown(&self.here(path), Letters::Log);
            log.line(&format.fill(&Line { path: &logged, ..line }, &self.zone));
        }
        let format = match &self.wording.format {
            Some(format) if format.has(b"oi") => format,
            None if !self.wording.deletions => return,
            _ => &plain,
        };
        let text = format.fill(&line, &self.zone);
        self.put(&mut state, path, directory, true, &text);
    }

    /// Prints a line of an entry, at once or in its order.
    fn put(&self, state: &mut Printed, path: &[u8], directory: bool, deleted: bool, text: &[u8]) {
        let line = [text, b"\n"].concat();
        if self.wording.is_live {
            return self.print(state, &line);
        }
        if state.held.take(path.to_vec(), directory, deleted, line) {
            let all = state.held.release();
            self.print(state, &all);
        }
    }

    fn file_done(&self, file: &FileDone) {
        let mut state = self.state();
        if let Some(unsummed) = state.unsummed.remove(&file.path) {
            let sum = file.root.first_chunk().copied();
            self.summed(&mut state, &file.path, &unsummed, sum);
        }
        drop(state);
        if self.wording.progress != 1 {
            return;
        }
        let mut state = self.state();
        state.files += 1;
        let name = state.waiting.remove(&file.path).unwrap_or_default();
        let took = state.began.elapsed();
        let standing = Standing { bytes: file.bytes, size: file.bytes, rate: 0.0, ..state.standing() };
        let line = format!("{}\n", complete(&standing, self.wording.human, took));
        self.print(&mut state, &[&name[..], line.as_bytes()].concat());
    }

    fn progress(&self, progress: &Progress) {
        let mut state = self.state();
        state.is_listed = progress.scan_complete;
        self.limit.told(progress).filter(|_| !self.wording.quiet).iter().for_each(|told| note(told));
        // A large file has no line of its own for hours.
        if let Some(line) = self.steps.as_ref().and_then(|steps| steps.line(progress)) {
            note(&line);
        }
        if self.wording.progress < 2 {
            return;
        }
        state.files = progress.files;
        let standing = Standing {
            bytes: progress.bytes,
            size: progress.bytes_known.max(progress.bytes),
            rate: progress.rate_bps / 8.0,
            ..state.standing()
        };
        self.line_of_progress(&mut state, &flowing(&standing, self.wording.human));
    }

    fn line_of_progress(&self, state: &mut Printed, line: &str) {
        let columns = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
        let line = fitted(line, columns.filter(|columns| *columns > 0));
        // A shorter line covers the one before.
        let columns = line.len().max(state.columns);
        self.print(state, format!("{line:<columns$}").as_bytes());
        state.columns = columns;
    }

    /// What comes at the end of a run.
    fn last(&self, state: &mut Printed, summary: &Summary) {
        let Wording { human, run, stats, lists, .. } = self.wording;
        let run = Run { is_dry: run.is_dry && !lists, ..run };
        if self.wording.progress > 1 {
            let rate = if summary.seconds > 0.0 { summary.bytes as f64 / summary.seconds } else { 0.0 };
            state.files = summary.files;
            let all = Standing {
                bytes: summary.bytes,
                size: summary.bytes,
                rate,
                is_listed: true,
                ..state.standing()
            };
            let line = complete(&all, human, state.began.elapsed());
            self.line_of_progress(state, &line);
        }
        let mut text = String::new();
        if stats > 1 {
            text += &statistics(summary, &state.counts, human, run);
        }
        if stats > 0 && (self.wording.tells_deltas || summary.deltas.are_telling()) {
            let amount = |bytes| format!("{} bytes", big(bytes, human));
            text.extend(summary.deltas.sentence(&amount).map(|told| format!("\n{told}\n")));
        }
        if stats > 0 {
            text += &last_lines(summary, &state.counts, human, run);
        }
        self.print(state, text.as_bytes());
        if let Some(log) = self.log.as_ref().filter(|_| stats > 0) {
            text.lines().filter(|line| !line.is_empty()).for_each(|line| log.line(line.as_bytes()));
        } else if let Some(log) = &self.log {
            let (sent, received) = moved(summary, run);
            let size = state.counts.total_size;
            log.line(format!("sent {sent} bytes  received {received} bytes  total size {size}").as_bytes());
        }
    }
}

impl Printed {
    /// Whether a directory was not told of before. Of too many, further ones are told again.
    fn is_new(&mut self, path: &[u8]) -> bool {
        let Some(known) = &mut self.directories else { return true };
        if known.len() < WAITING_MAX { known.insert(path.to_vec()) } else { !known.contains(path) }
    }

    fn standing(&self) -> Standing {
        let all = self.counts.all.total();
        let left = self.counts.transferred.saturating_sub(self.files);
        Standing {
            files: self.files,
            left,
            all,
            is_listed: self.is_listed || left == 0,
            ..Standing::default()
        }
    }
}

impl EventSink for Lines {
    fn event(&self, event: Event) {
        match event {
            Event::Started { .. } => {
                let word =
                    if self.wording.run.is_push { "building file list" } else { "receiving file list" };
                self.log.iter().for_each(|log| log.line(word.as_bytes()));
            }
            Event::Changed { mut changes, path, directory, mut target, facts } => {
                if self.wording.is_here && changes.starts_with('<') {
                    // As rsync shows it where both ends are one.
                    changes.replace_range(..1, ">");
                }
                if self.wording.lists && !self.wording.shows_links {
                    target = None;
                }
                let printed = shown(&self.here(&path), self.letters);
                let printed_target = target.as_ref().map(|target| shown(&self.here(target), self.letters));
                let line = Line {
                    changes: &changes,
                    path: &printed,
                    directory,
                    target: printed_target.as_deref(),
                    facts,
                    operation: self.wording.operation(),
                    above: &self.wording.above,
                    sum: None,
                };
                let logged = [Some(&path), target.as_ref()]
                    .map(|name| name.map(|it| shown(&self.here(it), Letters::Log)));
                let [logged_path, logged_target] = &logged;
                let logged = Line {
                    path: logged_path.as_deref().unwrap_or_default(),
                    target: logged_target.as_deref(),
                    ..line
                };
                self.changed(&line, &logged, &path);
            }
            Event::Deleted { path, directory } => self.deleted(&path, directory),
            Event::DestinationMade(made) => {
                let lines: Vec<u8> = self.wording.making.iter().flat_map(|of| of.lines(made)).collect();
                let logged = lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
                self.log.iter().for_each(|log| logged.clone().for_each(|line| log.line(line)));
                self.state().first = lines;
            }
            Event::NotEmpty { path } => {
                let name = shown(&self.here(&path), self.letters);
                let text = [b"cannot delete non-empty directory: ", &name[..]].concat();
                self.log.iter().for_each(|log| log.line(&text));
                self.put(&mut self.state(), &path, true, true, &text);
            }
            Event::SourceRemoved { path } if self.wording.removals => {
                let text = [b"sender removed ", &shown(&self.here(&path), self.letters)[..]].concat();
                self.put(&mut self.state(), &path, false, false, &text);
            }
            Event::FileDone(file) => self.file_done(&file),
            Event::Progress(progress) => self.progress(&progress),
            Event::FileFailed(FileError { message, .. }) => {
                self.log.iter().for_each(|log| log.line(message.as_bytes()));
                note(&message);
            }
            Event::Notice(sentence) if !self.wording.quiet => note(&sentence),
            // Of the copy, not of what the user asked about.
            _ => {}
        }
    }
}

impl Reporter for Lines {
    fn finish(&self, outcome: &Outcome, why: Option<&Explanation>) -> fobs::Result<()> {
        if let Ok(Summary { deletions_left: count @ 1.., .. }) = outcome {
            note(&format!("{count} more would have been deleted: raise --max-delete"));
        }
        let mut state = self.state();
        // Of files that failed.
        for (path, unsummed) in std::mem::take(&mut state.unsummed) {
            self.summed(&mut state, &path, &unsummed, None);
        }
        let mut all: Vec<u8> = state.waiting.drain().flat_map(|(_, line)| line).collect();
        all.extend(state.held.release());
        if !all.is_empty() {
            self.print(&mut state, &all);
        }
        match outcome {
            Ok(summary) => self.last(&mut state, summary),
            Err(error) if error.kind == ErrorKind::NoSource => {
                self.last(&mut state, &Summary::default());
                self.log.iter().for_each(|log| log.line(error.message.as_bytes()));
            }
            Err(error) => self.log.iter().for_each(|log| log.line(error.message.as_bytes())),
        }
        why.into_iter().for_each(|why| crate::output::explain(why, outcome));
        Ok(())
    }

    fn status(&self, sentence: &str) {
        note(sentence);
    }
}

#[cfg(test)]
mod tests;
