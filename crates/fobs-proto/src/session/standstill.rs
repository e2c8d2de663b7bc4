//! The clock of `--timeout`: a transfer of which nothing new is verified for so long ends, whatever it waits
//! for. What the peer says, acknowledges again or promises does not hold it back.

use super::{Silence, Wait};
use crate::Timestamp;
use std::time::Duration;

/// Why the clock stands still. Each is this side's own user, who can end it and whom nobody else can feign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excuse {
    /// The user has paused the transfer.
    Paused,
    /// A program of the user's, at the other end of a pipe, gives nothing or takes nothing.
    OwnStream,
}

/// Whether this side's end of the data is a pipe of the user's, or the like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnEnd {
    /// Files.
    Files,
    /// A stream.
    Stream,
}

impl Excuse {
    /// That of a sender that waits for this.
    pub fn of_sender(wait: Wait, end: OwnEnd) -> Option<Excuse> {
        match wait {
            Wait::Source => (end == OwnEnd::Stream).then_some(Excuse::OwnStream),
            Wait::Cap | Wait::Drain | Wait::Deadline | Wait::Pacer | Wait::Window => None,
            Wait::Storage | Wait::Answers | Wait::Socket | Wait::Streams => None,
        }
    }

    /// The excuse of a receiver; `backlog` is its number of complete chunks that are not stored yet.
    pub fn of_receiver(backlog: u16, end: OwnEnd) -> Option<Excuse> {
        (end == OwnEnd::Stream && backlog > 0).then_some(Excuse::OwnStream)
    }
}

/// The clock.
#[derive(Debug)]
pub struct Standstill {
    timeout: Duration,
    /// What was done by then, in whatever unit: it grows with everything new.
    done: u64,
    since: Timestamp,
}

impl Standstill {
    /// A clock that begins now.
    pub fn new(now: Timestamp, timeout: Duration) -> Standstill {
        Standstill { timeout, done: 0, since: now }
    }

    /// What holds the transfer up has been told of: the time until now does not count.
    pub fn restart(&mut self, now: Timestamp) {
        self.since = now;
    }

    /// To be called with every heartbeat; `done` grows with everything new that is verified.
    pub fn check(&mut self, now: Timestamp, done: u64, excuse: Option<Excuse>) -> Silence {
        if done != self.done || excuse.is_some() {
            (self.done, self.since) = (done, now);
        }
        if now - self.since >= self.timeout { Silence::Standstill(self.timeout) } else { Silence::Short }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::HEARTBEAT;

    const TIMEOUT: Duration = Duration::from_secs(8);

    /// When the clock ends a transfer that was last new at 5 s, heartbeats after that.
    fn ends(excuse: Option<Excuse>) -> Option<u64> {
        let start = Timestamp::ZERO;
        let mut clock = Standstill::new(start, TIMEOUT);
        let since = start + Duration::from_secs(5);
        (0..1000).find(|beat| {
            let now = start + HEARTBEAT * *beat as u32;
            let done = (now.min(since) - start).as_millis() as u64;
            match clock.check(now, done, if now > since { excuse } else { None }) {
                Silence::Standstill(after) => {
                    assert_eq!(after, TIMEOUT);
                    true
                }
                _ => false,
            }
        })
    }

    #[test]
    fn no_state_of_a_sender_holds_the_clock_back() {
        let end = Some((5 + 8) * 5);
        for &wait in Wait::ALL {
            let excuse = Excuse::of_sender(wait, OwnEnd::Files);
            assert_eq!((excuse, ends(excuse)), (None, end), "{}", wait.name());
            let excuse = Excuse::of_sender(wait, OwnEnd::Stream);
            let expected = if wait == Wait::Source { None } else { end };
            assert_eq!(ends(excuse), expected, "{} with a stream", wait.name());
        }
        assert_eq!(ends(Some(Excuse::Paused)), None);
    }

    #[test]
    fn no_state_of_a_receiver_holds_the_clock_back() {
        for backlog in [0, 1, u16::MAX] {
            assert_eq!(Excuse::of_receiver(backlog, OwnEnd::Files), None);
        }
        assert_eq!(Excuse::of_receiver(0, OwnEnd::Stream), None, "the sender is waited for");
        assert_eq!(Excuse::of_receiver(1, OwnEnd::Stream), Some(Excuse::OwnStream));
    }

    #[test]
    fn the_time_of_an_excuse_does_not_count_afterwards() {
        let at = |s| Timestamp::ZERO + Duration::from_secs(s);
        let mut clock = Standstill::new(at(0), TIMEOUT);
        assert_eq!(clock.check(at(7), 0, None), Silence::Short);
        assert_eq!(clock.check(at(100), 0, Some(Excuse::Paused)), Silence::Short);
        assert_eq!(clock.check(at(107), 0, None), Silence::Short);
        assert_eq!(clock.check(at(108), 0, None), Silence::Standstill(TIMEOUT));
    }
}
