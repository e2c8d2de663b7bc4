//! What a server counts, as OpenMetrics text.

mod host;
mod http;
mod keys;

use self::host::HostGauges;
pub(super) use self::http::Exporter;
use self::keys::KeyMeter;
pub(super) use self::keys::Keys;
use super::asked::{Asked, Count};
use super::deletions::{By, Deletions};
use super::who::Visit;
use fobs::server::{Answered, SessionFigures, Work};
use fobs_model::direction::TransferDirection;
use fobs_model::error::Error;
use fobs_model::event::{Event, EventSink};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Labels are of fixed sets, so that no client can make a series of its own.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByDirection {
    direction: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByOutcome {
    direction: &'static str,
    /// `ok`, `partial` (some files failed) or an [`fobs_model::error::ErrorKind::code`].
    outcome: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByAnswer {
    /// `ok` or an [`fobs_model::error::ErrorKind::code`].
    outcome: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByCause {
    /// A [`By::name`].
    by: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Build {
    version: &'static str,
}

/// The counters of one server; they last as long as it.
pub(super) struct Metrics {
    registry: Mutex<Registry>,
    connections: Counter,
    streams: Counter,
    sessions: Family<ByOutcome, Counter>,
    dry_runs: Family<ByOutcome, Counter>,
    probes: Family<ByOutcome, Counter>,
    probe_bytes: Family<ByDirection, Counter>,
    bytes: Family<ByDirection, Counter>,
    resumed_bytes: Family<ByDirection, Counter>,
    files: Family<ByDirection, Counter>,
    files_failed: Family<ByDirection, Counter>,
    datagrams_rejected: Family<ByDirection, Counter>,
    deleted: Family<ByCause, Counter>,
    answered: Family<ByAnswer, Counter>,
    refused: Family<ByReason, Counter>,
    running: Gauge,
    waiting: Gauge,
    draining: Gauge,
    pub(super) keys: Keys,
    host: HostGauges,
}

impl Metrics {
    /// Of a server over this root, and its limit of sessions.
    pub(super) fn new(sessions_max: usize, root: Option<OwnedFd>) -> Metrics {
        let metrics = Metrics {
            keys: Keys::default(),
            host: HostGauges::new(root),
            registry: Mutex::default(),
            connections: Counter::default(),
            streams: Counter::default(),
            sessions: Family::default(),
            dry_runs: Family::default(),
            probes: Family::default(),
            probe_bytes: Family::default(),
            bytes: Family::default(),
            resumed_bytes: Family::default(),
            files: Family::default(),
            files_failed: Family::default(),
            datagrams_rejected: Family::default(),
            deleted: Family::default(),
            answered: Family::default(),
            refused: Family::default(),
            running: Gauge::default(),
            waiting: Gauge::default(),
            draining: Gauge::default(),
        };
        metrics.register(sessions_max);
        metrics
    }

    fn register(&self, sessions_max: usize) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        self.host.register(&mut registry);
        let fobs = registry.sub_registry_with_prefix("fobs");
        self.keys.register(fobs);
        fobs.register("connections", "TCP connections accepted", self.connections.clone());
        fobs.register("streams", "TCP connections that became streams of a session", self.streams.clone());
        let sessions = "Copies and syncs that have ended, by outcome, and sessions that asked for nothing";
        fobs.register("sessions", sessions, self.sessions.clone());
        let dry_runs = "Syncs that only said what they would do, by outcome";
        fobs.register("dry_runs", dry_runs, self.dry_runs.clone());
        let probes = "Sessions that only tried the path or examined this host, by outcome";
        fobs.register("probes", probes, self.probes.clone());
        let probe_bytes = "Bytes of no file that such sessions moved";
        fobs.register_with_unit("probe", probe_bytes, Unit::Bytes, self.probe_bytes.clone());
        let deleted =
            "Names deleted: by a sync, as a source that was moved, by a request about files by name";
        fobs.register("deleted", deleted, self.deleted.clone());
        fobs.register_with_unit("moved", "File bytes verified", Unit::Bytes, self.bytes.clone());
        let resumed = "Those of the moved bytes that an earlier attempt had verified";
        fobs.register_with_unit("resumed", resumed, Unit::Bytes, self.resumed_bytes.clone());
        fobs.register("files", "Files moved", self.files.clone());
        fobs.register("files_failed", "Files that failed, the others going on", self.files_failed.clone());
        let rejected = "Datagrams dropped as malformed, forged or replayed, of sessions that have ended";
        fobs.register("datagrams_rejected", rejected, self.datagrams_rejected.clone());
        let answered = "Requests about files by name, by outcome";
        fobs.register("file_requests", answered, self.answered.clone());
        let refused = "Connections refused or ended before a session, by reason";
        fobs.register("refused", refused, self.refused.clone());
        fobs.register("sessions_running", "Sessions that run now", self.running.clone());
        fobs.register("sessions_waiting", "Clients that wait for a session", self.waiting.clone());
        fobs.register("draining", "1 while the server shuts down", self.draining.clone());
        let max = Gauge::<i64>::default();
        max.set(i64::try_from(sessions_max).unwrap_or(i64::MAX));
        fobs.register("sessions_max", "Most sessions at once", max);
        let build = Family::<Build, Gauge>::default();
        build.get_or_create(&Build { version: env!("CARGO_PKG_VERSION") }).set(1);
        fobs.register("build_info", "The version of fobs", build);
        // A series that exists from the start has a rate from the start.
        for direction in [TransferDirection::Push, TransferDirection::Pull] {
            let labels = ByDirection { direction: name(direction) };
            let of_files = [&self.bytes, &self.resumed_bytes, &self.files, &self.files_failed];
            for family in of_files.into_iter().chain([&self.datagrams_rejected, &self.probe_bytes]) {
                // The series is made; its handle is not needed.
                let _ = family.get_or_create(&labels);
            }
            for family in [&self.sessions, &self.dry_runs, &self.probes] {
                // Likewise.
                let _ = family.get_or_create(&ByOutcome { direction: name(direction), outcome: "ok" });
            }
        }
        for &by in By::ALL {
            self.deleted(by, 0);
        }
    }

    pub(super) fn connection(&self) {
        self.connections.inc();
    }

    /// A connection that became a stream of a session.
    pub(super) fn stream(&self) {
        self.streams.inc();
    }

    /// A connection that came to no session.
    pub(super) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&ByReason { reason }).inc();
    }

    /// A request about files by name was answered or refused.
    pub(super) fn answered(&self, outcome: &Result<Answered, Error>) {
        let outcome = outcome.as_ref().map_or_else(|error| error.kind.code(), |_| "ok");
        self.answered.get_or_create(&ByAnswer { outcome }).inc();
    }

    /// Names are gone.
    pub(super) fn deleted(&self, by: By, count: u64) {
        self.deleted.get_or_create(&ByCause { by: by.name() }).inc_by(count);
    }

    /// A session of this client has ended.
    pub(super) fn ended(&self, visit: &Visit, outcome: &Result<SessionFigures, Error>) {
        self.keys.ended(visit, outcome);
        let asked = visit.asked;
        let direction = asked.map_or("none", |asked| name(asked.direction));
        let family = match asked.map(|asked| asked.work) {
            Some(Work::Probe) => &self.probes,
            Some(Work::DryRun) => &self.dry_runs,
            Some(Work::Copy | Work::Sync | Work::Names | Work::Pipe) | None => &self.sessions,
        };
        let outcome = match outcome {
            Ok(served) => {
                let labels = ByDirection { direction };
                self.datagrams_rejected.get_or_create(&labels).inc_by(served.datagrams_rejected);
                self.resumed_bytes.get_or_create(&labels).inc_by(served.resumed_bytes);
                if served.failed == 0 { "ok" } else { "partial" }
            }
            Err(error) => error.kind.code(),
        };
        family.get_or_create(&ByOutcome { direction, outcome }).inc();
    }

    /// Counts what a session moves and deletes while it does.
    pub(super) fn of_session(&self, visit: &Visit, asked: Asked, deletions: Deletions) -> Arc<SessionMeter> {
        let labels = ByDirection { direction: name(asked.direction) };
        let bytes = if asked.work == Work::Probe { &self.probe_bytes } else { &self.bytes };
        let by = match asked.direction {
            TransferDirection::Push => By::Sync,
            TransferDirection::Pull => By::Source,
        };
        Arc::new(SessionMeter {
            asked,
            deletions,
            deleted: self.deleted.get_or_create(&ByCause { by: by.name() }).clone(),
            bytes: bytes.get_or_create(&labels).clone(),
            files: self.files.get_or_create(&labels).clone(),
            files_failed: self.files_failed.get_or_create(&labels).clone(),
            counted: AtomicU64::new(0),
            of_key: self.keys.of_session(visit, asked),
        })
    }

    /// Everything as OpenMetrics text.
    pub(super) fn text(&self, running: usize, waiting: usize, draining: bool) -> String {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.running.set(gauge(running));
        self.waiting.set(gauge(waiting));
        self.draining.set(i64::from(draining));
        self.host.refresh();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = text::encode(&mut out, &registry);
        out
    }
}

/// A session's part of the counters.
pub(super) struct SessionMeter {
    asked: Asked,
    deletions: Deletions,
    deleted: Counter,
    bytes: Counter,
    files: Counter,
    files_failed: Counter,
    /// Bytes of this session that are counted.
    counted: AtomicU64,
    of_key: KeyMeter,
}

impl SessionMeter {
    /// The session has moved this many bytes so far.
    pub(super) fn moved(&self, bytes: u64) {
        let before = self.counted.fetch_max(bytes, Ordering::SeqCst);
        let more = bytes.saturating_sub(before);
        self.bytes.inc_by(more);
        if self.asked.work != Work::Probe {
            self.of_key.bytes.inc_by(more);
        }
    }

    /// What the session has deleted at this end.
    pub(super) fn deleted(&self) -> Count {
        self.deletions.count()
    }

    fn gone(&self, path: &[u8]) {
        self.deleted.inc();
        self.of_key.deleted.inc();
        self.deletions.deleted(path, Instant::now());
    }
}

impl EventSink for SessionMeter {
    fn event(&self, event: Event) {
        match event {
            Event::Progress(progress) => self.moved(progress.bytes),
            // Those of a probe are none.
            Event::FileDone(_) | Event::FileFailed(_) if self.asked.work == Work::Probe => {}
            Event::FileDone(file) => {
                self.files.inc();
                self.deletions.file(&file.path, file.bytes);
            }
            Event::FileFailed(_) => {
                self.files_failed.inc();
            }
            // Of a pull it is the client that deletes, at its end; a dry run only says what it would delete.
            Event::Deleted { path, .. }
                if self.asked.direction == TransferDirection::Push && self.asked.work == Work::Sync =>
            {
                self.gone(&path);
            }
            Event::SourceRemoved { path } => self.gone(&path),
            // The others are not counted.
            _ => {}
        }
    }
}

fn name(direction: TransferDirection) -> &'static str {
    match direction {
        TransferDirection::Push => "push",
        TransferDirection::Pull => "pull",
    }
}

#[cfg(test)]
mod tests;
