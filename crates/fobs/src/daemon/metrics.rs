//! What a server counts, as OpenMetrics text.

mod http;

pub(super) use self::http::Exporter;
use crate::direction::TransferDirection;
use crate::error::Error;
use crate::event::{Event, EventSink};
use crate::server::SessionFigures;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Labels are of fixed sets, so that no client can make a series of its own.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByDirection {
    direction: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByOutcome {
    direction: &'static str,
    /// `ok`, `partial` (some files failed) or an [`crate::ErrorKind::code`].
    outcome: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByAnswer {
    /// `ok` or an [`crate::ErrorKind::code`].
    outcome: &'static str,
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
    bytes: Family<ByDirection, Counter>,
    resumed_bytes: Family<ByDirection, Counter>,
    files: Family<ByDirection, Counter>,
    files_failed: Family<ByDirection, Counter>,
    datagrams_rejected: Family<ByDirection, Counter>,
    answered: Family<ByAnswer, Counter>,
    refused: Family<ByReason, Counter>,
    running: Gauge,
    waiting: Gauge,
    draining: Gauge,
}

impl Metrics {
    pub(super) fn new(sessions_max: usize) -> Metrics {
        let metrics = Metrics {
            registry: Mutex::default(),
            connections: Counter::default(),
            streams: Counter::default(),
            sessions: Family::default(),
            bytes: Family::default(),
            resumed_bytes: Family::default(),
            files: Family::default(),
            files_failed: Family::default(),
            datagrams_rejected: Family::default(),
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
        let fobs = registry.sub_registry_with_prefix("fobs");
        fobs.register("connections", "TCP connections accepted", self.connections.clone());
        fobs.register("streams", "TCP connections that became streams of a session", self.streams.clone());
        fobs.register("sessions", "Sessions that have ended, by outcome", self.sessions.clone());
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
            for family in
                [&self.bytes, &self.resumed_bytes, &self.files, &self.files_failed, &self.datagrams_rejected]
            {
                let _ = family.get_or_create(&labels);
            }
            let _ = self.sessions.get_or_create(&ByOutcome { direction: name(direction), outcome: "ok" });
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
    pub(super) fn answered(&self, outcome: &Result<(), Error>) {
        let outcome = outcome.as_ref().map_or_else(|error| error.kind.code(), |()| "ok");
        self.answered.get_or_create(&ByAnswer { outcome }).inc();
    }

    /// A session whose client asked for this has ended.
    pub(super) fn ended(&self, asked: Option<TransferDirection>, outcome: &Result<SessionFigures, Error>) {
        let direction = asked.map_or("none", name);
        let outcome = match outcome {
            Ok(served) => {
                let labels = ByDirection { direction };
                self.datagrams_rejected.get_or_create(&labels).inc_by(served.datagrams_rejected);
                self.resumed_bytes.get_or_create(&labels).inc_by(served.resumed_bytes);
                if served.failed == 0 { "ok" } else { "partial" }
            }
            Err(error) => error.kind.code(),
        };
        self.sessions.get_or_create(&ByOutcome { direction, outcome }).inc();
    }

    /// Counts what a session moves while it moves.
    pub(super) fn of_session(self: &Arc<Self>, direction: TransferDirection) -> Arc<SessionMeter> {
        let labels = ByDirection { direction: name(direction) };
        Arc::new(SessionMeter {
            bytes: self.bytes.get_or_create(&labels).clone(),
            files: self.files.get_or_create(&labels).clone(),
            files_failed: self.files_failed.get_or_create(&labels).clone(),
            counted: AtomicU64::new(0),
        })
    }

    /// Everything as OpenMetrics text.
    pub(super) fn text(&self, running: usize, waiting: usize, draining: bool) -> String {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.running.set(gauge(running));
        self.waiting.set(gauge(waiting));
        self.draining.set(i64::from(draining));
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = text::encode(&mut out, &registry);
        out
    }
}

/// A session's part of the counters.
pub(super) struct SessionMeter {
    bytes: Counter,
    files: Counter,
    files_failed: Counter,
    /// Bytes of this session that are counted.
    counted: AtomicU64,
}

impl SessionMeter {
    /// The session has moved this many bytes so far.
    pub(super) fn moved(&self, bytes: u64) {
        let before = self.counted.fetch_max(bytes, Ordering::SeqCst);
        self.bytes.inc_by(bytes.saturating_sub(before));
    }
}

impl EventSink for SessionMeter {
    fn event(&self, event: Event) {
        match event {
            Event::Progress(progress) => self.moved(progress.bytes),
            Event::FileDone { .. } => {
                self.files.inc();
            }
            Event::FileFailed(_) => {
                self.files_failed.inc();
            }
            Event::Started { .. }
            | Event::Changed { .. }
            | Event::Deleted { .. }
            | Event::Measured(_)
            | Event::Notice(_) => {}
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
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::event::{FileError, Progress};

    #[test]
    fn counters_outlive_sessions_and_have_fixed_labels() {
        let metrics = Arc::new(Metrics::new(7));
        let served = SessionFigures {
            direction: TransferDirection::Push,
            files: 2,
            bytes: 300,
            resumed_bytes: 50,
            failed: 1,
            seconds: 1.0,
            datagrams_rejected: 5,
        };
        for _ in 0..2 {
            let meter = metrics.of_session(TransferDirection::Push);
            for bytes in [100, 100, 250] {
                meter.event(Event::Progress(Progress { bytes, ..Progress::default() }));
            }
            meter.event(Event::FileDone { path: b"a".to_vec(), bytes: 1, root: [0; 32] });
            meter.event(Event::FileFailed(FileError { path: b"\n".to_vec(), message: String::new() }));
            meter.moved(served.bytes);
            metrics.ended(Some(TransferDirection::Push), &Ok(served));
        }
        metrics.ended(None, &Err(Error::new(ErrorKind::Denied, "no")));
        metrics.connection();
        metrics.stream();
        metrics.refused("timeout");
        let text = metrics.text(3, 2, true);
        for line in [
            "fobs_moved_bytes_total{direction=\"push\"} 600",
            "fobs_moved_bytes_total{direction=\"pull\"} 0",
            "fobs_resumed_bytes_total{direction=\"push\"} 100",
            "fobs_files_total{direction=\"push\"} 2",
            "fobs_files_failed_total{direction=\"push\"} 2",
            "fobs_datagrams_rejected_total{direction=\"push\"} 10",
            "fobs_sessions_total{direction=\"push\",outcome=\"partial\"} 2",
            "fobs_sessions_total{direction=\"none\",outcome=\"denied\"} 1",
            "fobs_refused_total{reason=\"timeout\"} 1",
            "fobs_connections_total 1",
            "fobs_streams_total 1",
            "fobs_sessions_running 3",
            "fobs_sessions_waiting 2",
            "fobs_sessions_max 7",
            "fobs_draining 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in:\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
