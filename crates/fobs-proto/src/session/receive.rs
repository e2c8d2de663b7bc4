//! The receiving side around its machine: verdicts and retries, when drops are counted, silence, the end.

use super::limits::{FAREWELL_WAIT, MISMATCHES_MAX};
use super::silence::Reminders;
use super::{Presence, Side, Silence};
use crate::receiver::{ChunkVerification, Receiver};
use crate::{ChunkId, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// What follows from the verdict on a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictOutcome {
    /// The chunk is good.
    Verified,
    /// The sender must send it anew.
    Reject {
        /// The attempt that failed.
        attempt: u8,
    },
    /// As [`Reject`](Self::Reject), and for the last time: the transfer ends.
    Hopeless {
        /// The attempt that failed.
        attempt: u8,
        /// How often the chunk was tried.
        tries: u8,
    },
}

/// What follows from a chunk that was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// Others are still to come.
    More,
    /// It was the last one: finish the destination. Said once.
    All,
}

/// Policy of the receiving side.
#[derive(Debug)]
pub struct ReceivePolicy {
    began: Timestamp,
    side: Side,
    /// Verdicts that did not match, of chunks that have not verified yet.
    mismatches: BTreeMap<ChunkId, u8>,
    /// When a chunk failed for the last time.
    hopeless_since: Option<Timestamp>,
    /// When the sender's last message came over the control channel.
    last_message: Timestamp,
    /// How long the sender may be silent once it has been heard.
    timeout: Duration,
    reminders: Reminders,
    finishing: bool,
}

impl ReceivePolicy {
    /// The policy of a session whose data plane begins now. `timeout`: how long the sender may be silent once
    /// it has been heard.
    pub fn new(began: Timestamp, side: Side, timeout: Duration) -> ReceivePolicy {
        ReceivePolicy {
            began,
            side,
            mismatches: BTreeMap::new(),
            hopeless_since: None,
            last_message: Timestamp::ZERO,
            timeout,
            reminders: Reminders::new(began, side),
            finishing: false,
        }
    }

    /// A chunk was checked.
    pub fn handle_verdict(
        &mut self,
        now: Timestamp,
        machine: &mut Receiver,
        chunk: ChunkId,
        verdict: ChunkVerification,
    ) -> VerdictOutcome {
        let attempt = machine.attempt(chunk).unwrap_or(0);
        let again = machine.handle_verdict(chunk, verdict);
        if verdict == ChunkVerification::Verified {
            self.mismatches.remove(&chunk);
            return VerdictOutcome::Verified;
        }
        let mismatches = self.mismatches.entry(chunk).or_insert(0);
        *mismatches = mismatches.saturating_add(1);
        let tries = *mismatches;
        if again && tries < MISMATCHES_MAX {
            return VerdictOutcome::Reject { attempt };
        }
        self.hopeless_since = Some(now);
        VerdictOutcome::Hopeless { attempt, tries }
    }

    /// How often a chunk that has not verified yet was rejected.
    pub fn mismatches(&self, chunk: ChunkId) -> u8 {
        self.mismatches.get(&chunk).copied().unwrap_or(0)
    }

    /// Whether a sender that knows of a hopeless chunk has had its time to end the session itself, with a
    /// better error.
    pub fn is_hopeless(&self, now: Timestamp) -> bool {
        self.hopeless_since.is_some_and(|since| now - since >= FAREWELL_WAIT)
    }

    /// A chunk was stored.
    pub fn handle_stored(&mut self, machine: &mut Receiver, chunk: ChunkId) -> Stored {
        machine.handle_stored(chunk);
        if !machine.is_complete() || self.finishing {
            return Stored::More;
        }
        self.finishing = true;
        Stored::All
    }

    /// Whether the socket's drop counter must be read before the next ack, although no heartbeat is due: the
    /// socket is empty, so no later packet carries the count of what was dropped behind the newest.
    pub fn wants_drop_count(&self, now: Timestamp, machine: &Receiver, socket_is_empty: bool) -> bool {
        socket_is_empty && machine.wants_ack(now)
    }

    /// A message came over the control channel.
    pub fn handle_message(&mut self, now: Timestamp) {
        self.last_message = now;
    }

    /// To be called with every heartbeat; `newest` is when the peer's newest datagram came. A sender whose
    /// source is slow sends no packets, but reports with every heartbeat of its own.
    pub fn check_silence(&self, now: Timestamp, newest: Option<Timestamp>) -> Silence {
        match newest {
            Some(newest) => Silence::since(now, newest.max(self.last_message), self.timeout),
            None => Silence::at_start(now, self.began, self.side),
        }
    }

    /// Whether the client is still there when another session of it has been waiting for this one's end since
    /// `asked`; `newest` as above. Before its first datagram [`check_silence`](Self::check_silence) decides.
    pub fn presence(&self, now: Timestamp, asked: Timestamp, newest: Option<Timestamp>) -> Presence {
        newest.map_or(Presence::Unclear, |newest| Presence::of(now, asked, newest.max(self.last_message)))
    }

    /// Whether the newest ack, or the client's greeting, is to be sent once more because nothing was heard;
    /// `newest` is when the peer's newest datagram came.
    pub fn poll_reminder(&mut self, now: Timestamp, newest: Option<Timestamp>) -> bool {
        self.reminders.poll(now, newest)
    }

    /// When [`poll_reminder`](Self::poll_reminder) must be called next.
    pub fn reminder_at(&mut self, newest: Option<Timestamp>) -> Timestamp {
        self.reminders.at(newest)
    }
}

#[cfg(test)]
mod tests;
