//! What is counted for each key, under its comment: who brings how much, who waits, when it last went well.
//!
//! Comments come from the operator's file, and no client can make a series of its own; of more names than
//! [`NAMES_MAX`] the later ones are counted together.

use super::name;
use crate::asked::Asked;
use crate::who::{Visit, short_fingerprint};
use fobs::server::{SessionFigures, Work};
use fobs_channel::secure::authorized_keys::KeyLimits;
use fobs_model::error::Error;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Most keys that have series of their own.
const NAMES_MAX: usize = 256;
/// Longest name in a label, characters.
const NAME_CHARS_MAX: usize = 64;
/// The keys beyond, together.
const OTHERS: &str = "(others)";

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfKey {
    key: String,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByDirection {
    key: String,
    direction: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByOutcome {
    key: String,
    direction: &'static str,
    outcome: &'static str,
}

/// Seconds since 1970.
type Moment = Gauge<f64, AtomicU64>;

/// The counters of all keys. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Keys {
    known: Arc<Mutex<HashSet<String>>>,
    sessions: Family<ByOutcome, Counter>,
    bytes: Family<ByDirection, Counter>,
    deleted: Family<OfKey, Counter>,
    succeeded: Family<ByDirection, Moment>,
    running: Family<OfKey, Gauge>,
    waiting: Family<OfKey, Gauge>,
    rate_limit: Family<OfKey, Gauge>,
    sessions_max: Family<OfKey, Gauge>,
}

impl Keys {
    pub(super) fn register(&self, registry: &mut Registry) {
        let keys = registry.sub_registry_with_prefix("key");
        keys.register("sessions", "Copies and syncs of the key that have ended", self.sessions.clone());
        keys.register_with_unit("moved", "File bytes verified", Unit::Bytes, self.bytes.clone());
        keys.register("deleted", "Names that copies and syncs of the key deleted", self.deleted.clone());
        keys.register_with_unit(
            "last_success_timestamp",
            "When a copy or sync of the key last ended well, since 1970",
            Unit::Seconds,
            self.succeeded.clone(),
        );
        keys.register("sessions_running", "Sessions of the key that run now", self.running.clone());
        keys.register("sessions_waiting", "Its clients that wait for a session", self.waiting.clone());
        let rate = "Most that all its copies together move, of rate=; 0 without a limit";
        keys.register("rate_limit_bits_per_second", rate, self.rate_limit.clone());
        let sessions = "Most sessions at once, of sessions=; 0 without a limit";
        keys.register("sessions_max", sessions, self.sessions_max.clone());
    }

    /// The name under which a client is counted.
    fn named(&self, visit: &Visit) -> String {
        let name = match visit.key_name() {
            Some(comment) => comment.to_owned(),
            None => visit.key.as_ref().map(short_fingerprint).unwrap_or_default(),
        };
        let clean = name.chars().filter(|letter| !letter.is_control()).take(NAME_CHARS_MAX);
        let name: String = clean.collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&name) || known.len() < NAMES_MAX && known.insert(name.clone()) {
            name
        } else {
            OTHERS.to_owned()
        }
    }

    /// A client's key is known, with these limits.
    pub(crate) fn limits(&self, visit: &Visit, limits: &KeyLimits) {
        let key = OfKey { key: self.named(visit) };
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.rate_limit.get_or_create(&key).set(limits.rate_bps.map_or(0, number));
        let sessions = Some(limits.sessions_max()).filter(|most| *most < usize::MAX);
        self.sessions_max.get_or_create(&key).set(sessions.map_or(0, |most| number(most as u64)));
    }

    /// A client waits for a session until what comes back is dropped.
    pub(crate) fn waits(&self, visit: &Visit) -> Held {
        Held::of(self.waiting.get_or_create(&OfKey { key: self.named(visit) }).clone())
    }

    /// The counters of a session that begins.
    pub(super) fn of_session(&self, visit: &Visit, asked: Asked) -> KeyMeter {
        let key = self.named(visit);
        let of_key = OfKey { key: key.clone() };
        KeyMeter {
            bytes: self.bytes.get_or_create(&ByDirection { key, direction: name(asked.direction) }).clone(),
            deleted: self.deleted.get_or_create(&of_key).clone(),
            _running: Held::of(self.running.get_or_create(&of_key).clone()),
        }
    }

    /// A transfer has ended.
    pub(super) fn ended(&self, visit: &Visit, outcome: &Result<SessionFigures, Error>) {
        let Some(Asked { work: Work::Copy | Work::Sync, direction }) = visit.asked else { return };
        let (key, direction) = (self.named(visit), name(direction));
        let outcome = match outcome {
            Ok(served) if served.failed == 0 => "ok",
            Ok(_) => "partial",
            Err(error) => error.kind.code(),
        };
        if outcome == "ok" {
            let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64());
            self.succeeded.get_or_create(&ByDirection { key: key.clone(), direction }).set(now);
        }
        self.sessions.get_or_create(&ByOutcome { key, direction, outcome }).inc();
    }
}

/// One more of something, for as long as it lives.
pub(crate) struct Held(Gauge);

impl Held {
    fn of(gauge: Gauge) -> Held {
        gauge.inc();
        Held(gauge)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A session's part of its key's counters.
pub(super) struct KeyMeter {
    pub(super) bytes: Counter,
    pub(super) deleted: Counter,
    _running: Held,
}

#[cfg(test)]
mod tests {
    use super::*;
    fn visit(name: &str) -> Visit {
        Visit::named(name, None)
    }

    #[test]
    fn more_names_than_fit_are_counted_together() {
        let keys = Keys::default();
        for number in 0..NAMES_MAX {
            assert_eq!(keys.named(&visit(&format!("k{number}"))), format!("k{number}"));
        }
        assert_eq!(keys.named(&visit("one more")), OTHERS);
        assert_eq!(keys.named(&visit("k7")), "k7", "a known one keeps its series");
        let long = keys.named(&visit(&"x".repeat(1000)));
        assert_eq!(long, OTHERS);
        assert_eq!(Keys::default().named(&visit(&"x\n".repeat(1000))), "x".repeat(NAME_CHARS_MAX));
    }

    #[test]
    fn who_waits_and_runs_is_counted_for_as_long_as_that() {
        let keys = Keys::default();
        let (ann, of_ann) = (visit("ann"), OfKey { key: "ann".to_owned() });
        let waits = keys.waits(&ann);
        assert_eq!(keys.waiting.get_or_create(&of_ann).get(), 1);
        drop(waits);
        assert_eq!(keys.waiting.get_or_create(&of_ann).get(), 0);
    }
}
