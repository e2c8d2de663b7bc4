//! What strangers can make the daemon write to its log: the first of a kind at once, the rest as a count.

use super::network::{Family, Network};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a count is written.
const COUNT_EVERY: Duration = Duration::from_secs(60);
/// Networks whose first line of a kind is written at once: a mistake of one client must not hide another's.
const NETWORKS_SHOWN_MAX: usize = 8;

/// The lines of each kind since its last count.
#[derive(Default)]
pub(super) struct Tally(Mutex<BTreeMap<&'static str, Kind>>);

/// Lines of a kind that were not written one by one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) kind: &'static str,
    /// The last of them, and how many more there were.
    pub(super) line: String,
    /// How many they are.
    pub(super) count: u64,
}

struct Kind {
    since: Instant,
    shown: Vec<Option<Network>>,
    /// Lines that were not written.
    kept: u64,
    /// The last of them.
    last: String,
    from: BTreeMap<Family, Network>,
}

impl Tally {
    /// Counts a line about a client; returns it if it is to be written now.
    pub(super) fn count(
        &self,
        kind: &'static str,
        from: Option<IpAddr>,
        line: String,
        now: Instant,
    ) -> Option<String> {
        let network = from.map(Network::of);
        let mut kinds = self.kinds();
        let kind = kinds.entry(kind).or_insert_with(|| Kind::new(now));
        if kind.shown.len() < NETWORKS_SHOWN_MAX && !kind.shown.contains(&network) {
            kind.shown.push(network);
            return Some(line);
        }
        kind.kept += 1;
        kind.last = line;
        if let Some(network) = network {
            let around = |so_far: &mut Network| *so_far = so_far.around(network);
            kind.from.entry(network.family()).and_modify(around).or_insert(network);
        }
        None
    }

    /// The counts that are due. A kind of which nothing came is forgotten: its next line is written at once.
    pub(super) fn due(&self, now: Instant) -> Vec<Counted> {
        self.counts(now, COUNT_EVERY)
    }

    /// All counts, at the end.
    pub(super) fn rest(&self, now: Instant) -> Vec<Counted> {
        self.counts(now, Duration::ZERO)
    }

    fn counts(&self, now: Instant, after: Duration) -> Vec<Counted> {
        let mut lines = Vec::new();
        self.kinds().retain(|name, kind| {
            let age = now.saturating_duration_since(kind.since);
            if age < after {
                return true;
            }
            let quiet = kind.kept == 0;
            let counted = |line| Counted { kind: name, line, count: kind.kept };
            lines.extend(kind.summary(age).map(counted));
            let shown = std::mem::take(&mut kind.shown);
            *kind = Kind { shown, ..Kind::new(now) };
            !quiet
        });
        lines
    }

    fn kinds(&self) -> MutexGuard<'_, BTreeMap<&'static str, Kind>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kind {
    fn new(since: Instant) -> Kind {
        Kind { since, shown: Vec::new(), kept: 0, last: String::new(), from: BTreeMap::new() }
    }

    /// The last line, and how many more there were.
    fn summary(&self, age: Duration) -> Option<String> {
        let more = self.kept.checked_sub(1)?;
        if more == 0 {
            return Some(self.last.clone());
        }
        let networks: Vec<String> = self.from.values().map(Network::to_string).collect();
        let from =
            if networks.is_empty() { String::new() } else { format!(" from {}", networks.join(" and ")) };
        let (last, more, seconds) = (&self.last, grouped(more), age.as_secs());
        Some(format!("{last}; and {more} more like it{from}, in the last {seconds} s"))
    }
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_kind_is_written_and_the_rest_counted() {
        let (tally, start) = (Tally::default(), Instant::now());
        let count = |last: u8, now| {
            let line = format!("10.0.0.{last}: bad");
            tally.count("bad", Some(IpAddr::from([10, 0, 0, last])), line, now)
        };
        assert_eq!(count(1, start).as_deref(), Some("10.0.0.1: bad"));
        assert_eq!(count(2, start).as_deref(), Some("10.0.0.2: bad"), "another network's first");
        assert!((0..1234).all(|n| count(1 + n as u8 % 2, start).is_none()));
        assert_eq!(count(1, start), None);
        let due = |at| tally.due(at).into_iter().map(|counted| counted.line).collect::<Vec<_>>();
        assert!(due(start + COUNT_EVERY / 2).is_empty());
        let line = "10.0.0.1: bad; and 1,234 more like it from 10.0.0.0/30, in the last 60 s";
        let (minute, two) = (start + COUNT_EVERY, start + 2 * COUNT_EVERY);
        assert_eq!(due(minute), [line]);
        assert_eq!(count(1, minute), None, "it still goes on");
        assert_eq!(due(two), ["10.0.0.1: bad"]);
        assert!(due(start + 3 * COUNT_EVERY).is_empty());
        assert!(count(1, start + 3 * COUNT_EVERY).is_some(), "it is new again");
    }

    #[test]
    fn lines_are_bounded_however_many_networks_there_are() {
        let (tally, now) = (Tally::default(), Instant::now());
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        let written = (0..5000).filter_map(|n| tally.count("bad", Some(address(n)), n.to_string(), now));
        assert_eq!(written.count(), NETWORKS_SHOWN_MAX);
        let line = "4999; and 4,991 more like it from 0.0.0.0/19, in the last 0 s".to_owned();
        assert_eq!(tally.rest(now), [Counted { kind: "bad", line, count: 4992 }]);
    }
}
