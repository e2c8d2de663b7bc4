//! What is remembered of the path to a peer from one transfer to the next. Where it is kept is not this
//! crate's concern.

use std::time::Duration;

/// Most ceilings kept: more bands than `linear` has steps from nothing to three times the link.
pub const CEILINGS_MAX: usize = 64;
/// Bounds of the set-up's response time over the remembered round trip within which the path counts as the
/// same. The lower one is that of careful resume (RFC 9959), which has no upper one: a response that took
/// twice as long may have met a longer path or a queue.
const NEAR: (f64, f64) = (0.5, 2.0);

/// What controllers leave for later transfers; each reads and writes its own part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathHistory {
    /// Datagram bytes per second at which `linear` ended.
    pub safe_rate: Option<u64>,
    /// Datagram bytes per second that the path was last found to carry.
    pub link_rate: Option<u64>,
    /// Smallest round trip of that transfer. Only where today's is near it is anything sent on the strength
    /// of memory alone ([`PathHistory::met`]).
    pub round_trip: Option<Duration>,
    /// Attempts to go faster, at most [`CEILINGS_MAX`], ascending.
    pub ceilings: Vec<Ceiling>,
}

impl PathHistory {
    /// The history as it holds on a path whose set-up took `answered` from request to response: without the
    /// round trip if that shows another path.
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
    /// Number of attempts.
    pub tries: u32,
    /// Number of attempts that lost too much.
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
