//! Outages: times in which the link carries nothing.

use super::clock::Nanos;
use super::spec::{Outage, OutageKind};

/// The outages of a direction, relative to an origin that `reset` moves.
#[derive(Debug, Clone, Default)]
pub struct Outages {
    /// In order and disjoint: the spec check ensures it.
    list: Vec<Outage>,
    origin: Nanos,
}

impl Outages {
    pub fn new(list: Vec<Outage>, origin: Nanos) -> Outages {
        Outages { list, origin }
    }

    /// Restarts the outages, relative to `now`.
    pub fn reset(&mut self, now: Nanos) {
        self.origin = now;
    }

    /// The time that the outages count from.
    pub fn origin(&self) -> Nanos {
        self.origin
    }

    /// Replaces the outages; the origin stays.
    pub fn replace(&mut self, list: Vec<Outage>) {
        self.list = list;
    }

    /// Whether a packet that arrives at `now` is lost.
    pub fn drops(&self, now: Nanos) -> bool {
        let mut ours = self.list.iter().filter(|outage| outage.what == OutageKind::Drop);
        ours.any(|outage| self.begin(outage) <= now && now < self.end(outage))
    }

    /// End of work that starts at `start` and takes `span`, if the link stops during holding outages.
    pub fn held(&self, start: Nanos, span: Nanos) -> Nanos {
        let mut done = start + span;
        for outage in self.list.iter().filter(|outage| outage.what == OutageKind::Hold) {
            let (begin, end) = (self.begin(outage), self.end(outage));
            if end <= start {
                continue;
            }
            if begin >= done {
                break;
            }
            done += end - begin.max(start);
        }
        done
    }

    fn begin(&self, outage: &Outage) -> Nanos {
        self.origin + outage.at.nanos()
    }

    fn end(&self, outage: &Outage) -> Nanos {
        self.origin + outage.until()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    fn outages(what: &str) -> Outages {
        let list =
            format!(r#"[{{"at":"5s","for":"2s","what":"{what}"}},{{"at":"8s","for":"1s","what":"{what}"}}]"#);
        Outages::new(serde_json::from_str(&list).expect("outages"), 10 * SECOND)
    }

    #[test]
    fn packets_in_a_dropping_outage_are_lost() {
        let mut outages = outages("drop");
        let lost = |outages: &Outages, s: u64| outages.drops(s * SECOND);
        assert!(!lost(&outages, 14) && lost(&outages, 15) && lost(&outages, 16) && !lost(&outages, 17));
        assert!(lost(&outages, 18) && !lost(&outages, 19));
        assert_eq!(outages.held(15 * SECOND, SECOND), 16 * SECOND, "it holds nothing");
        outages.reset(100 * SECOND);
        assert!(!lost(&outages, 15) && lost(&outages, 105));
    }

    #[test]
    fn work_stops_during_a_holding_outage() {
        let outages = outages("hold");
        assert!(!outages.drops(15 * SECOND));
        assert_eq!(outages.held(14 * SECOND, SECOND / 2), 14 * SECOND + SECOND / 2, "done before");
        assert_eq!(outages.held(14 * SECOND, 3 * SECOND), 20 * SECOND, "interrupted by both");
        assert_eq!(
            outages.held(16 * SECOND, SECOND),
            18 * SECOND,
            "started within, done as the second begins"
        );
        assert_eq!(outages.held(20 * SECOND, SECOND), 21 * SECOND, "after all");
    }
}
