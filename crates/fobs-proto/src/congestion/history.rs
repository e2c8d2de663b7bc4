//! What is remembered of the path to a peer from one transfer to the next. Whoever keeps it, in a file or in memory, is no
//! business of this crate.

use std::time::Duration;

/// Most ceilings that are kept: more bands than `linear` has steps from nothing to three times the link.
pub const CEILINGS_MAX: usize = 64;
/// The path is taken for the remembered one if the answer in the session's set-up came within so many times its round trip. Below
/// a half, as in careful resume (RFC 9959), it must be another one. The RFC sets no bound above; the answer has
/// the peer's work in it, but one that took twice as long may as well have met a longer path, or a queue that is there already.
const NEAR: (f64, f64) = (0.5, 2.0);

/// What controllers leave for their successors; each reads and writes its own part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathHistory {
    /// Datagram bytes per second at which `linear` ended.
    pub safe_rate: Option<u64>,
    /// Datagram bytes per second that the path was last found to carry.
    pub link_rate: Option<u64>,
    /// Smallest round trip of the transfer that found that. Only where today's is near it is anything sent on the strength of
    /// the memory alone ([`PathHistory::met`]).
    pub round_trip: Option<Duration>,
    /// Attempts to go faster, at most [`CEILINGS_MAX`], ascending.
    pub ceilings: Vec<Ceiling>,
}

impl PathHistory {
    /// What is left of it on a path on which the set-up of the session took `answered` from a question to its answer: without the
    /// round trip where that says that the path is another one.
    pub fn met(&self, answered: Duration) -> PathHistory {
        let near = |then: &Duration| answered >= then.mul_f64(NEAR.0) && answered <= then.mul_f64(NEAR.1);
        let round_trip = self.round_trip.filter(near).map(|then| then.min(answered));
        PathHistory { round_trip, ..self.clone() }
    }
}

/// How attempts to send at a rate ended (`seeds/004` section 2.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceiling {
    /// Datagram bytes per second.
    pub rate: u64,
    /// Times that it was tried.
    pub tries: u32,
    /// Times that too much was lost.
    pub failures: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_whose_round_trip_has_changed_is_another_one() {
        let ms = Duration::from_millis;
        let history = |round_trip| PathHistory { link_rate: Some(7), round_trip, ..PathHistory::default() };
        let met = |answered| history(Some(ms(60))).met(ms(answered));
        assert_eq!(met(62), history(Some(ms(60))));
        assert_eq!(met(40), history(Some(ms(40))), "no longer than it can be");
        assert_eq!(met(120), history(Some(ms(60))));
        for other in [0, 29, 121, 6000] {
            assert_eq!(met(other), history(None), "{other} ms");
        }
        assert_eq!(history(None).met(ms(60)), history(None));
    }
}
