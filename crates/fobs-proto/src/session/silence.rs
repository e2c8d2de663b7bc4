//! What a side concludes from hearing nothing on UDP, and when a receiver repeats itself.

use super::limits::{
    ABSENT_AFTER, GREETING_EVERY, REMINDER_FIRST, REMINDER_MAX, SERVER_EXTRA_WAIT, UDP_SILENCE_MAX,
};
use crate::Timestamp;
use std::time::Duration;

/// Which side of the session this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It called.
    Client,
    /// It was called.
    Server,
}

impl Side {
    /// How long the peer may be silent on UDP at the start.
    pub fn silence_max(self) -> Duration {
        match self {
            Side::Client => UDP_SILENCE_MAX,
            Side::Server => UDP_SILENCE_MAX + SERVER_EXTRA_WAIT,
        }
    }
}

/// The state of a session whose peer is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// Within the limits.
    Short,
    /// No authenticated datagram has come since the start, for this long: UDP is blocked.
    Blocked(Duration),
    /// No answer for as long as this session endures: the path is down.
    Dead(Duration),
    /// The peer may be heard, but nothing new was verified for as long as this session endures.
    Standstill(Duration),
}

impl Silence {
    /// Before the first datagram.
    pub(super) fn at_start(now: Timestamp, began: Timestamp, side: Side) -> Silence {
        match now - began {
            waited if waited >= side.silence_max() => Silence::Blocked(waited),
            _ => Silence::Short,
        }
    }

    /// After the first datagram; `last_sign` is the peer's last sign of life, `timeout` the silence endured.
    pub(super) fn since(now: Timestamp, last_sign: Timestamp, timeout: Duration) -> Silence {
        if now - last_sign >= timeout { Silence::Dead(timeout) } else { Silence::Short }
    }
}

/// Whether a client is still there, when another session of it asks for what this one holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It was heard since.
    Here,
    /// More time decides.
    Unclear,
    /// It may come back, but does not keep its own next command waiting for that.
    Absent,
}

impl Presence {
    /// Of a client whose last sign of life came then, when it has been asked for since `asked`.
    pub(super) fn of(now: Timestamp, asked: Timestamp, last_sign: Timestamp) -> Presence {
        if last_sign > asked {
            Presence::Here
        } else if now - last_sign >= ABSENT_AFTER {
            Presence::Absent
        } else {
            Presence::Unclear
        }
    }
}

/// When a receiver that hears nothing repeats its newest ack: so that a NAT keeps or renews its mapping, a
/// receiver whose address has changed is found, and a path that is back is noticed at once. Before the first
/// datagram that is the client's greeting.
#[derive(Debug)]
pub(super) struct Reminders {
    side: Side,
    /// The peer's newest datagram, as of the last look.
    heard: Option<Timestamp>,
    due: Timestamp,
    interval: Duration,
}

impl Reminders {
    pub(super) fn new(began: Timestamp, side: Side) -> Reminders {
        Reminders { side, heard: None, due: began, interval: GREETING_EVERY }
    }

    /// Whether to repeat now; `newest` is when the peer's newest datagram came.
    pub(super) fn poll(&mut self, now: Timestamp, newest: Option<Timestamp>) -> bool {
        if now < self.at(newest) {
            return false;
        }
        if self.heard.is_some() {
            self.interval = (self.interval * 2).min(REMINDER_MAX);
        }
        self.due = now + self.interval;
        self.side == Side::Client || self.heard.is_some()
    }

    /// When [`poll`](Self::poll) must be called next.
    pub(super) fn at(&mut self, newest: Option<Timestamp>) -> Timestamp {
        if let Some(newest) = newest
            && self.heard != Some(newest)
        {
            self.heard = Some(newest);
            self.interval = REMINDER_FIRST;
            self.due = newest + REMINDER_FIRST;
        }
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::ZERO;

    /// When reminders are sent in this time, in milliseconds, polled as they fall due.
    fn sent(reminders: &mut Reminders, newest: Option<Timestamp>, until: Timestamp) -> Vec<u64> {
        let mut sent = Vec::new();
        loop {
            let at = reminders.at(newest);
            if at > until {
                return sent;
            }
            if reminders.poll(at, newest) {
                sent.push(at.as_nanos() / 1_000_000);
            }
        }
    }

    #[test]
    fn a_client_greets_and_a_server_waits_to_be_greeted() {
        let until = START + Duration::from_millis(350);
        assert_eq!(sent(&mut Reminders::new(START, Side::Client), None, until), [0, 100, 200, 300]);
        assert!(sent(&mut Reminders::new(START, Side::Server), None, until).is_empty());
    }

    #[test]
    fn reminders_back_off_until_something_is_heard() {
        for side in [Side::Client, Side::Server] {
            let mut reminders = Reminders::new(START, side);
            let until = START + Duration::from_secs(20);
            assert_eq!(
                sent(&mut reminders, Some(START), until),
                [1000, 3000, 7000, 12_000, 17_000],
                "{side:?}"
            );
            let heard = START + Duration::from_millis(20_500);
            let until = heard + Duration::from_millis(3500);
            assert_eq!(sent(&mut reminders, Some(heard), until), [21_500, 23_500], "{side:?}");
        }
    }
}
