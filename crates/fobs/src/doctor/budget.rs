//! How long an examination may take: what is left of it is divided between the two directions.

use super::Checkup;
use std::time::{Duration, Instant};

/// Least time for which data is sent in a direction: a shorter one shows the opening of a controller and
/// little else, where a round trip takes a tenth of it.
const TIME_MIN: Duration = Duration::from_secs(1);
/// What a session takes beside the time for which data is sent, on a path that carries it: its request, the
/// end of its data, and what both ends do then.
const AROUND: Duration = Duration::from_millis(400);

/// The time of an examination that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    began: Instant,
    each: Duration,
    whole: Option<Duration>,
}

impl Budget {
    /// From now on.
    pub(super) fn of(checkup: &Checkup) -> Budget {
        Budget { began: Instant::now(), each: checkup.time, whole: checkup.whole }
    }

    /// For how long data is sent in the next direction; `directions` are still to be tried.
    pub(super) fn share(&self, directions: u32, now: Instant) -> Duration {
        let Some(whole) = self.whole else { return self.each };
        let left = whole.saturating_sub(now.saturating_duration_since(self.began));
        (left / directions).saturating_sub(AROUND).max(TIME_MIN).min(self.each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_divided_and_never_less_than_a_second() {
        let secs = Duration::from_secs;
        let began = Instant::now();
        let budget = Budget { began, each: secs(2), whole: Some(secs(5)) };
        assert_eq!(budget.share(2, began), secs(2), "no longer than was chosen");
        let forth = budget.share(2, began + secs(1));
        assert_eq!(forth, Duration::from_millis(1600));
        let back = budget.share(1, began + secs(1) + forth + AROUND);
        assert!(secs(1) + forth + back + AROUND * 2 <= secs(5), "{back:?}");
        assert_eq!(budget.share(2, began + secs(60)), TIME_MIN);
        let short = Budget { each: Duration::from_millis(300), ..budget };
        assert_eq!(short.share(2, began + secs(60)), Duration::from_millis(300));
        assert_eq!(Budget { whole: None, ..budget }.share(2, began + secs(60)), secs(2));
    }
}
