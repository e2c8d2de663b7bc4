//! A deadline for the object: the sender claims the share of the path that the deadline needs and no more,
//! and gives way to other flows for as long as it can afford to.
//!
//! It aims a little before the deadline. The bytes left over the time until then are the *need*; the need at
//! the start, and of bytes added to the object later, is the *plan*. While the need is within the plan, and a
//! small part of the path's rate, the transfer is a scavenger under a ceiling a little above the need: beside
//! other flows it may get nothing for a while, and alone it catches up. While the path is unknown, and when
//! it is behind the plan, it shares as `fair` does, still under the ceiling. It becomes greedy only if the
//! user allows that.
//!
//! A deadline that cannot be met is no failure: the transfer goes on with its full claim and reports how late
//! it will be.

use crate::congestion::{Claim, Priority};
use crate::{Rate, Timestamp};
use std::time::Duration;

/// The part of the whole time that is kept as reserve, and its bounds: the last packets, verification and
/// storing take some round trips and seconds, and an idle path for hours helps no flow.
const RESERVE_SHARE: u32 = 20;
const RESERVE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));
/// The ceiling over the need: alone, it earns a quarter of its time as slack, headers and losses included.
const CEILING: f64 = 1.25;
/// Lowest ceiling, where little is left and much time: it disturbs no other flow, and acks keep coming.
const CEILING_MIN: Rate = Rate::bits_per_second(1_000_000);
/// Need over plan from which the transfer is behind: after a fifth of the time without progress. And below
/// which it has caught up.
const BEHIND: f64 = 1.25;
const CAUGHT_UP: f64 = 1.1;
/// Need over the best delivery rate, from which waiting risks more than a fair share can make up for: beside
/// one other flow that share is 0.35 to 0.45 of a link (docs/controllers.md). And below which it no longer
/// does.
const TIGHT: f64 = 0.4;
const LOOSE: f64 = 0.3;
/// Need over plan from which a transfer that may be greedy is; it also is where the whole path would not
/// suffice.
const DESPERATE: f64 = 2.0;
/// Round trips after which the best delivery rate shows the path's rate: ramp-up doubles it in each of the
/// last of them.
const LOOKS_MIN: u32 = 12;
/// While the object's size is unknown, giving way ends after this part (1/n) of the time.
const UNKNOWN_SHARE: u32 = 2;
/// The progress to come is extrapolated from that with the full claim over at least this time: long enough
/// for a controller to have taken its share.
const JUDGED_AFTER: Duration = Duration::from_secs(3);
/// And over at least this part (1/n) of the whole time.
const JUDGED_SHARE: u32 = 50;

/// How much of an object is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// There may be more: a stream, or a tree that is still walked.
    SoFar,
}

/// The state of the pursuit.
#[derive(Debug)]
pub(super) struct Deadline {
    at: Timestamp,
    /// The moment aimed at.
    aim: Timestamp,
    began: Timestamp,
    /// The most that may be claimed.
    most: Priority,
    /// Bytes that are not handed over yet.
    beyond: u64,
    /// Bytes of the object, as far as known: handed over and beyond.
    known: u64,
    extent: Extent,
    /// Bytes per second.
    plan: f64,
    /// The best delivery rate of a round trip, bytes per second, and how many were measured.
    best: f64,
    looks: u32,
    /// When the last one was, and the bytes acknowledged by then.
    last: (Timestamp, u64),
    claim: Claim,
    /// Since when the claim has been a full one, and the bytes left then.
    full_since: Option<(Timestamp, u64)>,
    late: Option<Duration>,
}

impl Deadline {
    /// A deadline `at`, set now, that may claim at most `most`.
    pub(super) fn new(now: Timestamp, at: Timestamp, most: Priority) -> Deadline {
        let reserve = ((at - now) / RESERVE_SHARE).clamp(RESERVE.0, RESERVE.1);
        Deadline {
            at,
            aim: at.saturating_sub(reserve).max(now),
            began: now,
            most,
            beyond: 0,
            known: 0,
            extent: Extent::SoFar,
            plan: 0.0,
            best: 0.0,
            looks: 0,
            last: (now, 0),
            claim: Claim { priority: most.min(Priority::Fair), ceiling: None },
            full_since: None,
            late: None,
        }
    }

    /// The highest priority from now on.
    pub(super) fn set_most(&mut self, most: Priority) {
        self.most = most;
        self.claim.priority = self.claim.priority.min(most);
    }

    /// The present claim.
    pub(super) fn claim(&self) -> Claim {
        self.claim
    }

    /// By how much it will be late, if that is foreseeable.
    pub(super) fn late(&self) -> Option<Duration> {
        self.late
    }

    /// `handed` bytes were handed over, and `beyond` will follow.
    pub(super) fn expect(&mut self, now: Timestamp, handed: u64, beyond: u64, extent: Extent) {
        let known = handed.saturating_add(beyond);
        if let Some(time) = self.time_left(now) {
            self.plan += known.saturating_sub(self.known) as f64 / time;
        }
        (self.beyond, self.known, self.extent) = (beyond, self.known.max(known), extent);
    }

    /// Updates the claim, once a round trip: `held` bytes were handed over and are not acknowledged,
    /// `arrived` bytes are since the start.
    pub(super) fn look(&mut self, now: Timestamp, held: u64, arrived: u64) -> Claim {
        let left = held.saturating_add(self.beyond);
        if let Some(rate) = Rate::of(arrived.saturating_sub(self.last.1), now - self.last.0) {
            self.best = self.best.max(rate.as_bytes() as f64);
            self.looks = self.looks.saturating_add(1);
            self.last = (now, arrived);
        }
        self.claim = self.law(now, left);
        self.judge(now, left);
        self.claim
    }

    fn time_left(&self, now: Timestamp) -> Option<f64> {
        let left = self.aim - now;
        (left > Duration::ZERO).then_some(left.as_secs_f64())
    }

    fn law(&mut self, now: Timestamp, left: u64) -> Claim {
        let Some(time) = self.time_left(now) else {
            return Claim { priority: self.most, ceiling: None };
        };
        let need = left as f64 / time;
        let waits = self.claim.priority == Priority::Scavenger;
        let (behind, tight) = if waits { (BEHIND, TIGHT) } else { (CAUGHT_UP, LOOSE) };
        let overdue =
            self.extent == Extent::SoFar && now - self.began > (self.aim - self.began) / UNKNOWN_SHARE;
        let known = self.looks >= LOOKS_MIN;
        let wanted = if known && (need > DESPERATE * self.plan || need > self.best) {
            Priority::Greedy
        } else if !known || need > behind * self.plan || need > tight * self.best || overdue {
            Priority::Fair
        } else {
            Priority::Scavenger
        };
        let ceiling = match self.extent {
            Extent::Whole => Some(Rate::bytes_per_second((need * CEILING) as u64).max(CEILING_MIN)),
            Extent::SoFar => None,
        };
        Claim { priority: wanted.min(self.most), ceiling }
    }

    /// Whether the deadline will be met at the pace since the claim is full.
    fn judge(&mut self, now: Timestamp, left: u64) {
        if self.claim.priority < self.most.min(Priority::Fair) || self.extent == Extent::SoFar {
            (self.full_since, self.late) = (None, None);
            return;
        }
        let (since, had) = *self.full_since.get_or_insert((now, left));
        let (time, done) = ((now - since).as_secs_f64(), had.saturating_sub(left) as f64);
        if now - since < JUDGED_AFTER.max((self.at - self.began) / JUDGED_SHARE) {
            return;
        }
        let takes = Duration::try_from_secs_f64(left as f64 * time / done.max(1.0)).unwrap_or(Duration::MAX);
        self.late = takes.checked_sub(self.at - now).filter(|late| *late > Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    fn at(seconds: f64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs_f64(seconds)
    }

    /// A pursuit of 100 MB in 100 s, a tenth of a path that carries `path` megabytes a second, after its
    /// start.
    fn begun(most: Priority, path: u64) -> Deadline {
        let mut deadline = Deadline::new(Timestamp::ZERO, at(100.0), most);
        deadline.expect(Timestamp::ZERO, 0, 100 * MB, Extent::Whole);
        for look in 1..=LOOKS_MIN {
            deadline.look(at(0.01 * f64::from(look)), 0, u64::from(look) * path * MB / 100);
        }
        deadline
    }

    /// The claim once `left` megabytes are left at this time.
    fn claims(deadline: &mut Deadline, seconds: f64, left: u64) -> Claim {
        deadline.expect(at(seconds), (100 - left) * MB, left * MB, Extent::Whole);
        deadline.look(at(seconds), 0, (100 - left) * MB)
    }

    #[test]
    fn a_transfer_gives_way_unless_it_is_behind_its_plan() {
        let mut deadline = begun(Priority::Fair, 10);
        let Claim { priority, ceiling } = claims(&mut deadline, 1.0, 100);
        assert_eq!(priority, Priority::Scavenger);
        // 100 MB in the 94 s to a twentieth before the end, and a quarter more.
        let expected = 100e6 / 94.0 * 1.25;
        assert!(
            (ceiling.expect("all is known").as_bytes() as f64 / expected - 1.0).abs() < 0.01,
            "{ceiling:?}"
        );
        assert_eq!(
            claims(&mut deadline, 15.0, 100).priority,
            Priority::Scavenger,
            "a sixth without anything"
        );
        let behind = claims(&mut deadline, 25.0, 100);
        assert_eq!(behind.priority, Priority::Fair);
        assert!(behind.ceiling > ceiling, "it takes more than it set out with, and no more than it needs");
        assert_eq!(claims(&mut deadline, 40.0, 67).priority, Priority::Fair, "not quite caught up");
        assert_eq!(claims(&mut deadline, 50.0, 48).priority, Priority::Scavenger);
        assert_eq!(
            claims(&mut deadline, 95.5, 1),
            Claim { priority: Priority::Fair, ceiling: None },
            "no time to lose"
        );
        assert_eq!(
            claims(&mut deadline, 200.0, 1),
            Claim { priority: Priority::Fair, ceiling: None },
            "too late"
        );
    }

    #[test]
    fn a_path_that_is_needed_as_a_whole_is_not_given_away() {
        assert_eq!(claims(&mut begun(Priority::Fair, 1), 0.2, 100).priority, Priority::Fair);
        assert_eq!(claims(&mut begun(Priority::Greedy, 1), 0.2, 100).priority, Priority::Greedy);
        assert_eq!(claims(&mut begun(Priority::Greedy, 2), 0.2, 100).priority, Priority::Fair);
        assert_eq!(claims(&mut begun(Priority::Scavenger, 1), 0.2, 100).priority, Priority::Scavenger);
    }

    #[test]
    fn what_is_added_is_planned_for_and_does_not_put_it_behind() {
        let mut deadline = begun(Priority::Fair, 100);
        for found in 1..=50u64 {
            deadline.expect(at(found as f64), 0, 100 * MB, Extent::Whole);
            let now = at(found as f64 + 0.5);
            let handed = found * 2 * MB;
            deadline.expect(now, handed, 100 * MB, Extent::Whole);
            let claim = deadline.look(now, 0, handed);
            assert_eq!(claim.priority, Priority::Scavenger, "{found}");
        }
    }

    #[test]
    fn an_object_of_unknown_size_gives_way_for_half_of_the_time() {
        let mut deadline = Deadline::new(Timestamp::ZERO, at(100.0), Priority::Fair);
        deadline.expect(Timestamp::ZERO, MB, 0, Extent::SoFar);
        let free = Claim { priority: Priority::Scavenger, ceiling: None };
        for look in 1..=u64::from(LOOKS_MIN) {
            deadline.look(at(look as f64), MB / 2, MB * look);
        }
        assert_eq!(deadline.look(at(40.0), MB / 2, MB * 40), free);
        assert_eq!(deadline.look(at(50.0), MB / 2, MB * 50).priority, Priority::Fair);
        deadline.expect(at(60.0), 2 * MB, 0, Extent::Whole);
        assert!(deadline.look(at(60.0), MB, MB * 60).ceiling.is_some(), "now it is known");
    }

    #[test]
    fn lateness_is_reported_after_a_while_with_the_full_claim() {
        let mut deadline = begun(Priority::Fair, 10);
        claims(&mut deadline, 10.0, 100);
        assert_eq!(deadline.late(), None, "it has not tried yet");
        // From 30 s on it gets half a megabyte a second.
        for second in (30..60u32).step_by(2) {
            claims(&mut deadline, f64::from(second), 100 - u64::from(second - 30) / 2);
            if second < 33 {
                assert_eq!(deadline.late(), None, "at {second} s it is too soon to tell");
            }
        }
        let late = deadline.late().expect("it cannot be met").as_secs_f64();
        assert!((late - 130.0).abs() < 1.0, "86 MB at half a megabyte a second, 42 s before the end: {late}");
        claims(&mut deadline, 61.0, 1);
        assert_eq!(deadline.late(), None, "most of it arrived after all");
    }
}
