//! What a session reports: events to its caller, failed files and samples to its peer, and the final summary.

mod counted;
mod matched;

use super::measure::Audience;
pub use counted::Counted;
use fobs_channel::control::ControlWriter;
use fobs_model::cause::{RUNS_MAX, RemedyResult};
use fobs_model::deltas::Matched;
use fobs_model::event::{Event, EventSink, FileError, Progress};
use fobs_model::measured::Measured;
use fobs_model::message::{Bytes, Message, Standing};
use fobs_model::options::STREAMS_MAX;
use fobs_model::route::WayChange;
use fobs_model::text::printable;
use fobs_proto::Timestamp;
use fobs_proto::session::RouteChange;
use fobs_store::survey::{ItemKind, Way};
use fobs_store::{Deleted, FileDone, Found, Item, StartOverReason, Suspended, show_path};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// File errors kept for the summary, a bound on memory if every file of a tree fails; each is still an event.
const ERRORS_KEPT_MAX: usize = 10_000;
/// Bytes of them and of their paths, likewise.
const ERRORS_KEPT_BYTES_MAX: usize = 8 << 20;
/// Longest path of the peer that is kept, bytes: no path within a transfer is longer (protocol 7.2).
const PEER_PATH_MAX: usize = 4096;
/// Longest reason of the peer that is kept, characters.
const PEER_REASON_MAX: usize = 1000;
/// Files named that changed since an earlier run.
const STARTED_OVER_TOLD: u64 = 20;
/// Longest word for the state of the peer's controller that is kept, characters.
const STATE_CHARS_MAX: usize = 16;
/// Weight of the newest interval in the smoothed rate.
const RATE_SMOOTHING: f64 = 0.3;

/// Shared by the threads of a session.
pub struct Reporter {
    events: Arc<dyn EventSink>,
    peer: ControlWriter,
    state: Mutex<Tally>,
    /// Counts up with everything new.
    advances: AtomicU64,
}

/// Whether a transfer is slower than its user accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crawls {
    /// It does not.
    No,
    /// It does.
    Yes,
}

struct Tally {
    errors: Vec<FileError>,
    /// Bytes that they and `reported` take.
    errors_bytes: usize,
    /// More failed than is kept.
    errors_full: bool,
    reported: HashSet<Vec<u8>>,
    progress: Progress,
    measured: Instant,
    measured_bytes: u64,
    /// Whether the caller knows that the deadline will be missed.
    late_reported: bool,
    resumed: Resumed,
    /// What came from files that this end had, and whether a patch of one was of no use.
    matched: Matched,
    /// Files that came with a directory that was renamed, and their bytes.
    renamed: (u64, u64),
    unusable: bool,
    started_over: u64,
    /// What this end keeps of a transfer that failed, bytes.
    suspended: Option<u64>,
    /// When something was verified for the last time.
    verified_at: Option<Instant>,
    crawls: Crawls,
    /// What was deleted at either end.
    deletions: u64,
    deletions_left: u64,
    counted: Option<Counted>,
}

/// What an earlier run had stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Resumed {
    /// Bytes that were not sent.
    pub(super) bytes: u64,
    /// Files that were complete, and their part of the bytes.
    pub(super) files: u64,
    pub(super) files_bytes: u64,
}

impl Reporter {
    /// Tells `events` here, and the peer by this channel.
    pub fn new(events: Arc<dyn EventSink>, peer: ControlWriter) -> Arc<Reporter> {
        Arc::new(Reporter {
            advances: AtomicU64::new(0),
            events,
            peer,
            state: Mutex::new(Tally {
                errors: Vec::new(),
                errors_bytes: 0,
                errors_full: false,
                reported: HashSet::new(),
                progress: Progress::default(),
                measured: Instant::now(),
                measured_bytes: 0,
                late_reported: false,
                verified_at: None,
                crawls: Crawls::No,
                resumed: Resumed::default(),
                matched: Matched::default(),
                renamed: (0, 0),
                unusable: false,
                started_over: 0,
                suspended: None,
                deletions: 0,
                deletions_left: 0,
                counted: None,
            }),
        })
    }

    /// Something is new: the transfer does not stand still.
    pub(crate) fn advance(&self) {
        self.advances.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts up with everything new.
    pub(crate) fn advances(&self) -> u64 {
        self.advances.load(Ordering::Relaxed)
    }

    /// A file is verified.
    pub fn file_done(&self, file: FileDone) {
        self.advance();
        self.with(|state| {
            state.progress.files += 1;
            state.progress.path = Some(file.path.clone());
        });
        self.events.event(Event::FileDone(file));
    }

    /// A file failed at this end; the peer is notified.
    pub fn failed_here(&self, error: FileError) {
        // If the channel is broken the session ends anyway, with that error.
        let _ = self
            .peer
            .send(&Message::Failed { path: Bytes(error.path.clone()), reason: error.message.clone() });
        self.failed(error);
    }

    /// A file failed at the peer's end.
    pub fn failed_there(&self, mut path: Vec<u8>, reason: &str) {
        path.truncate(PEER_PATH_MAX);
        self.failed(FileError { path, message: printable(reason, PEER_REASON_MAX) });
    }

    /// A file failed at either end; reported once for each path.
    pub fn failed(&self, error: FileError) {
        self.advance();
        let new = self.with(|state| {
            let bytes = 2 * (error.path.len() + size_of::<FileError>()) + error.message.len();
            state.errors_full |=
                state.errors.len() >= ERRORS_KEPT_MAX || state.errors_bytes + bytes > ERRORS_KEPT_BYTES_MAX;
            let room = !state.errors_full;
            let new = !room || state.reported.insert(error.path.clone());
            if new && room {
                state.errors_bytes += bytes;
                state.errors.push(error.clone());
            }
            new
        });
        if new {
            self.events.event(Event::FileFailed(error));
        }
    }

    /// Whether something failed at either end that the entry with this path depends on: itself or a directory
    /// above it. True of every path once there were more failures than are remembered.
    pub(super) fn has_failed(&self, path: &[u8]) -> bool {
        self.with(|state| {
            if state.errors_full {
                return true;
            }
            // Errors without a path are of no entry.
            let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            ends.chain([path.len()]).any(|end| end > 0 && state.reported.contains(&path[..end]))
        })
    }

    /// How many failures are kept.
    pub fn failed_count(&self) -> u64 {
        self.with(|state| state.errors.len() as u64)
    }

    /// The first files that failed, in order.
    pub fn errors(&self) -> Vec<FileError> {
        self.with(|state| state.errors.clone())
    }

    /// An entry of a sync was decided on.
    pub(super) fn item(&self, item: Item, way: Way) {
        let changes = item.changes.show(way, item.kind);
        let directory = item.kind == ItemKind::Directory;
        let Item { path, target, facts, .. } = item;
        self.events.event(Event::Changed { changes, path, directory, target, facts });
    }

    /// This end deleted something, or could not.
    pub(super) fn deleted_here(&self, deleted: Deleted) {
        self.advance();
        match deleted {
            Deleted::Gone(Found { path, is_directory }) => {
                // If the channel is broken the session ends anyway, with that error.
                let _ =
                    self.peer.send(&Message::Deleted { path: Bytes(path.clone()), directory: is_directory });
                self.with(|state| state.deletions += 1);
                self.events.event(Event::Deleted { path, directory: is_directory });
            }
            Deleted::Kept(path) => {
                // As above.
                let _ = self.peer.send(&Message::NotEmpty { path: Bytes(path.clone()) });
                self.events.event(Event::NotEmpty { path });
            }
            Deleted::Failed(error) => self.failed_here(error),
            Deleted::Limited(count) => {
                // As above.
                let _ = self.peer.send(&Message::DeletionsLeft { count });
                self.deletions_left(count);
            }
        }
    }

    /// This end removed a source that the receiver has.
    pub(super) fn source_removed(&self, path: &[u8]) {
        self.advance();
        self.events.event(Event::SourceRemoved { path: path.to_vec() });
    }

    /// One of the ends did not delete so many, because the limit of deletions was reached.
    pub(super) fn deletions_left(&self, count: u64) {
        self.with(|state| state.deletions_left = count);
    }

    /// What was deleted in this session.
    pub fn deletions(&self) -> u64 {
        self.with(|state| state.deletions)
    }

    /// How many it was.
    pub fn all_deletions_left(&self) -> u64 {
        self.with(|state| state.deletions_left)
    }

    /// Something at this end that the users of both should know.
    pub fn notice_here(&self, text: String) {
        // If the channel is broken the session ends anyway, with that error.
        let _ = self.peer.send(&Message::Notice { text: text.clone() });
        self.events.event(Event::Notice(text));
    }

    /// Something at the peer's end.
    pub(super) fn notice_there(&self, text: &str) {
        self.events.event(Event::Notice(printable(text, PEER_REASON_MAX)));
    }

    /// The peer deleted something.
    pub(super) fn deleted_there(&self, mut path: Vec<u8>, directory: bool) {
        self.advance();
        path.truncate(PEER_PATH_MAX);
        self.with(|state| state.deletions += 1);
        self.events.event(Event::Deleted { path, directory });
    }

    /// A directory at the peer's end keeps what is in it.
    pub(super) fn not_empty_there(&self, mut path: Vec<u8>) {
        path.truncate(PEER_PATH_MAX);
        self.events.event(Event::NotEmpty { path });
    }

    /// More file bytes are verified.
    pub fn add_bytes(&self, bytes: u64) {
        self.with(|state| {
            state.progress.bytes += bytes;
            state.verified_at = Some(Instant::now());
        });
    }

    /// When something was verified for the last time in this session.
    pub fn verified_at(&self) -> Option<Instant> {
        self.with(|state| state.verified_at)
    }

    /// File bytes verified in this session.
    pub fn new_bytes(&self) -> u64 {
        self.with(|state| state.progress.bytes.saturating_sub(state.resumed.bytes))
    }

    /// The transfer is slower than its user accepts.
    pub(super) fn crawls(&self) {
        self.with(|state| state.crawls = Crawls::Yes);
    }

    /// Whether the session ended for that.
    pub fn ended_crawling(&self) -> Crawls {
        self.with(|state| state.crawls)
    }

    /// Verified file bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.with(|state| state.progress.bytes)
    }

    /// File bytes that an earlier run had verified: progress, but no rate.
    pub fn resumed(&self, bytes: u64) {
        // Chunks say so that are empty, and have nothing new.
        if bytes > 0 {
            self.advance();
        }
        self.with(|state| {
            state.progress.bytes += bytes;
            state.measured_bytes += bytes;
            state.resumed.bytes += bytes;
        });
    }

    /// A file that an earlier run had stored.
    pub(super) fn kept_file(&self, bytes: u64) {
        self.advance();
        self.resumed(bytes);
        self.with(|state| {
            state.progress.files += 1;
            state.resumed.files += 1;
            state.resumed.files_bytes += bytes;
        });
    }

    /// What an earlier run had stored.
    pub(super) fn all_resumed(&self) -> Resumed {
        self.with(|state| state.resumed)
    }

    /// This end keeps something of a transfer that failed.
    pub(super) fn suspended(&self, suspended: &Suspended) {
        self.with(|state| state.suspended = Some(suspended.bytes));
    }

    /// How much of a transfer that failed is kept at its destination, bytes: as that end said, or about as
    /// much as it has verified.
    pub fn kept_bytes(&self) -> u64 {
        self.with(|state| state.suspended.unwrap_or(state.progress.bytes))
    }

    /// A file is sent anew of which the destination has something.
    pub(super) fn started_over(&self, path: &[u8], why: StartOverReason) {
        let count = self.with(|state| {
            state.started_over += 1;
            state.started_over
        });
        let notice = match count {
            ..=STARTED_OVER_TOLD => {
                let shown = show_path(path);
                match why {
                    StartOverReason::Changed => {
                        format!("'{shown}' changed since the copy was interrupted, so it is copied anew")
                    }
                    StartOverReason::OtherBeginning => {
                        format!(
                            "'{shown}' does not begin with what the destination has, so it is copied whole"
                        )
                    }
                }
            }
            _ if count == STARTED_OVER_TOLD + 1 => "more files are copied anew".to_owned(),
            _ => return,
        };
        self.events.event(Event::Notice(notice));
    }

    /// Takes over the sender's progress.
    pub(crate) fn standing(&self, standing: &Standing) {
        self.with(|state| {
            state.progress.bytes_known = standing.bytes;
            state.progress.scan_complete = standing.scan_complete;
            state.progress.rtt_ms = standing.rtt_ms;
            state.progress.loss_rate = standing.loss_rate;
            state.progress.waste = standing.waste;
            state.progress.streams = standing.streams.min(STREAMS_MAX);
        });
        let late = standing.late_seconds.filter(|late| late.is_finite() && *late > 0.0);
        if let Some(late) = late
            && !self.with(|state| std::mem::replace(&mut state.late_reported, true))
        {
            self.events.event(Event::Notice(format!(
                "the deadline cannot be met at this rate: the copy will be about {} late",
                span(late)
            )));
        }
    }

    /// Takes over the sender's progress and sends it to the peer.
    pub(crate) fn standing_to_peer(&self, standing: Standing) {
        self.standing(&standing);
        self.peer.offer(&Message::Standing(standing));
    }

    /// Remembers what the sender counted last: all that is known of the packets of a session that breaks.
    fn remember(&self, measured: &Measured) {
        if let Measured::Sender(sample) = measured {
            self.with(|state| state.counted = Some(Counted::of(sample)));
        }
    }

    /// What the sender counted last.
    pub fn counted(&self) -> Counted {
        self.with(|state| state.counted).unwrap_or_default()
    }

    /// Reports a measurement of this end.
    pub(super) fn here(&self, measured: Measured, audience: Audience) {
        self.remember(&measured);
        if audience == Audience::Both {
            self.peer.offer(&Message::from(measured.clone()));
        }
        self.events.event(Event::Measured(Box::new(measured)));
    }

    /// Reports a measurement of the peer's end, with its texts cut and made printable.
    pub(crate) fn there(&self, mut measured: Measured) {
        match &mut measured {
            Measured::Sender(sample) => sample.state = printable(&sample.state, STATE_CHARS_MAX),
            Measured::Receiver(_) => {}
            Measured::Loss(window) => window.runs.truncate(RUNS_MAX),
            Measured::Remedy(remedy) => {
                if let RemedyResult::Refused { reason } = &mut remedy.result {
                    *reason = printable(reason, PEER_REASON_MAX);
                }
            }
            Measured::Mode(change) => {
                for word in [&mut change.from, &mut change.to] {
                    *word = printable(word, STATE_CHARS_MAX);
                }
                change.reason = printable(&change.reason, PEER_REASON_MAX);
            }
            Measured::Way(change) => change.reason = printable(&change.reason, PEER_REASON_MAX),
        }
        self.remember(&measured);
        self.events.event(Event::Measured(Box::new(measured)));
    }

    /// Data takes another way from now on, on this number of streams.
    pub(super) fn route_changed(&self, change: &RouteChange, streams: u32) {
        let change = WayChange::of(change, streams, Timestamp::ZERO);
        self.here(Measured::Way(change), Audience::Both);
    }

    /// Reports the transfer's progress to the caller.
    pub fn tell_progress(&self) {
        let progress = self.with(|state| {
            let seconds = state.measured.elapsed().as_secs_f64();
            let rate = (state.progress.bytes - state.measured_bytes) as f64 * 8.0 / seconds.max(1e-3);
            let old = state.progress.rate_bps;
            state.progress.rate_bps = if old == 0.0 { rate } else { old + RATE_SMOOTHING * (rate - old) };
            state.measured = Instant::now();
            state.measured_bytes = state.progress.bytes;
            state.progress.clone()
        });
        self.events.event(Event::Progress(progress));
    }

    fn with<T>(&self, act: impl FnOnce(&mut Tally) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A length of time for people, in the largest unit that fits: `42 s`.
fn span(seconds: f64) -> String {
    match seconds {
        s if s < 99.5 => format!("{s:.0} s"),
        s if s < 5970.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}
