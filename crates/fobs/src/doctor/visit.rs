//! The other end and the path: two sessions without files, one in each direction.

use super::Checkup;
use super::budget::Budget;
use super::facts::{Carried, PathFacts, PathOutcome, PeerFacts};
use crate::client::probe::{Examined, Probe, Ready};
use fobs_explain::{Recorder, Trace, explain};
use fobs_model::cancel::CancelToken;
use fobs_model::direction::TransferDirection;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{Event, EventSink, Summary};
use fobs_model::options::{Remote, TransferOptions};
use fobs_proto::wire::DATA_OVERHEAD;
use std::net::IpAddr;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How much longer than the data is sent a session may take, on a path that carries data: on a slow one what
/// is held at the sender takes longer to leave, and shows nothing more.
const REST_FLOWING: Duration = Duration::from_millis(750);
/// The same on a path that has carried nothing yet. Longer than UDP may be silent at first.
const REST_MAX: Duration = Duration::from_secs(12);
/// Bytes of a UDP header, and of an IP header by version.
const UDP_HEADER: u32 = 8;
const IPV4_HEADER: u32 = 20;
const IPV6_HEADER: u32 = 40;

/// Examines the other end and the path; also the other end's address.
pub(super) fn visit(
    checkup: &Checkup,
    remote: &Remote,
    budget: Budget,
    events: Arc<dyn EventSink>,
    cancel: &CancelToken,
) -> Result<(Option<IpAddr>, PeerFacts)> {
    let trial = Trial { remote, options: &checkup.options, budget, cancel };
    let forth = trial.attempt(TransferDirection::Push, Some(&remote.path), events.clone())?;
    let back = match forth.path.outcome {
        PathOutcome::Blocked { .. } => None,
        PathOutcome::Carried(_) | PathOutcome::Failed { .. } => {
            Some(trial.attempt(TransferDirection::Pull, None, events)?.path)
        }
    };
    let (host, received_s) = forth.examined.map_or_else(Default::default, |it| (it.facts, it.received_s));
    // The answer left up to a round trip ago.
    let half_s = forth.path.carried().and_then(|carried| carried.rtt_ms).map_or(0.5, |rtt_ms| rtt_ms / 2e3);
    let facts = PeerFacts {
        name: remote.host.clone(),
        clock_ahead_s: host.clock_s + half_s - received_s,
        clock_error_s: half_s,
        host,
        there: forth.path,
        back,
    };
    Ok((forth.peer, facts))
}

/// What one session found out.
struct Attempt {
    examined: Option<Examined>,
    peer: Option<IpAddr>,
    path: PathFacts,
}

/// How both directions are tried.
struct Trial<'a> {
    remote: &'a Remote,
    options: &'a TransferOptions,
    budget: Budget,
    cancel: &'a CancelToken,
}

impl Trial<'_> {
    /// One session; `examine` names a directory at the other end.
    fn attempt(
        &self,
        direction: TransferDirection,
        examine: Option<&[u8]>,
        events: Arc<dyn EventSink>,
    ) -> Result<Attempt> {
        let stop = CancelToken::new();
        let _hook = self.cancel.on_cancel({
            let stop = stop.clone();
            move || stop.cancel()
        });
        let directions = if direction == TransferDirection::Push { 2 } else { 1 };
        let probe = Probe {
            remote: self.remote,
            options: self.options,
            time: self.budget.share(directions, Instant::now()),
        };
        let (mut ready, examined) = Ready::call(probe, direction, examine, events, &stop)?;
        if direction == TransferDirection::Push {
            // The other end has examined itself meanwhile.
            ready.time = self.budget.share(directions, Instant::now());
        }
        let (port, peer, time) = (ready.port, ready.peer, ready.time);
        let record = Arc::new(Record::default());
        let outcome = within(time, direction, &record, &stop, || match direction {
            TransferDirection::Push => ready.push(record.clone()),
            TransferDirection::Pull => ready.pull(record.clone()),
        });
        self.cancel.check()?;
        let recorder = record.0.lock().unwrap_or_else(PoisonError::into_inner);
        let headers =
            UDP_HEADER + if peer.is_some_and(|ip| ip.is_ipv6()) { IPV6_HEADER } else { IPV4_HEADER };
        let outcome = match outcome {
            Ok(summary) => carried(&recorder.trace(&Ok(summary.clone())), Some(&summary), headers),
            Err(error) if error.kind == ErrorKind::Interrupted => carried(&recorder.so_far(), None, headers),
            Err(error)
                if error.kind == ErrorKind::Connect && is_unanswered(direction, &recorder.so_far()) =>
            {
                PathOutcome::Blocked {
                    arrived: arrived(direction, &recorder.so_far()),
                    message: error.message,
                }
            }
            Err(Error { kind, message, .. }) => PathOutcome::Failed { kind, message },
        };
        Ok(Attempt { examined, peer, path: PathFacts { port, outcome } })
    }
}

/// Runs `work`, and cancels `stop` where what was sent for `time` takes long to arrive: soon where data
/// flows, for the rest says no more of a slow path; later where none does, for the session judges silence.
fn within<T>(
    time: Duration,
    direction: TransferDirection,
    record: &Arc<Record>,
    stop: &CancelToken,
    work: impl FnOnce() -> T,
) -> T {
    let (done, over) = sync_channel::<()>(0);
    let (stop, record) = (stop.clone(), record.clone());
    let watch = thread::Builder::new().name("fobs-probe".to_owned()).spawn(move || {
        let is_late = |after| over.recv_timeout(after) == Err(RecvTimeoutError::Timeout);
        let flows = || {
            let recorder = record.0.lock().unwrap_or_else(PoisonError::into_inner);
            !is_unanswered(direction, &recorder.so_far())
        };
        if is_late(time + REST_FLOWING) && (flows() || is_late(REST_MAX - REST_FLOWING)) {
            stop.cancel();
        }
    });
    let outcome = work();
    drop(done);
    if let Ok(watch) = watch {
        // It has nothing to say.
        let _ = watch.join();
    }
    outcome
}

/// Records a session.
#[derive(Default)]
struct Record(Mutex<Recorder>);

impl EventSink for Record {
    fn event(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).record(&event);
    }
}

/// The figures of a session; `summary` unless it was ended early.
fn carried(trace: &Trace, summary: Option<&Summary>, headers: u32) -> PathOutcome {
    let why = explain(trace);
    let seen = trace.journal.sender().last().map(|sample| &sample.what);
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let dropped = trace.journal.receiver().last().map_or(0, |sample| sample.what.socket_drops);
    PathOutcome::Carried(Box::new(Carried {
        bps: why.goodput_bps,
        seconds: match (summary, seen) {
            (Some(summary), _) => summary.seconds,
            (None, Some(sample)) => sample.time_us as f64 / 1e6,
            (None, None) => 0.0,
        },
        rtt_ms: match (summary, seen) {
            (Some(summary), _) => summary.rtt_ms_min,
            (None, Some(sample)) => (sample.rtt_min_us > 0).then_some(sample.rtt_min_us as f64 / 1e3),
            (None, None) => None,
        },
        loss_rate: match (summary, seen) {
            (Some(summary), _) => summary.loss_rate,
            (None, Some(sample)) => share(sample.packets_lost, sample.packets_sent),
            (None, None) => 0.0,
        },
        socket_drops: summary.map_or(dropped, |summary| summary.socket_drops),
        mtu: summary.map(|summary| u32::from(summary.packet_size) + DATA_OVERHEAD as u32 + headers),
        cut_short: summary.is_none(),
        why,
    }))
}

/// Whether nothing came back: a session that broke later is another failure.
fn is_unanswered(direction: TransferDirection, trace: &Trace) -> bool {
    match direction {
        TransferDirection::Push => trace.journal.sender().iter().all(|sample| sample.what.bytes_acked == 0),
        TransferDirection::Pull => trace.journal.receiver().iter().all(|sample| sample.what.packets == 0),
    }
}

/// Whether our datagrams arrived: a receiver reports its counters over the control channel. Of a sender,
/// which waits for our first datagram, nothing is known.
fn arrived(direction: TransferDirection, trace: &Trace) -> Option<bool> {
    match (direction, trace.journal.receiver().last()) {
        (TransferDirection::Push, Some(sample)) => Some(sample.what.packets > 0),
        _ => None,
    }
}
