//! What the attempts of one transfer have in common.

use super::super::resume::advise;
use super::{Attempt, Remedy};
use crate::engine::{Crawls, DeadControl, Endurance, Reporter};
use crate::error::{Error, Result};
use crate::event::Summary;
use crate::options::TransferOptions;
use crate::storage::TransferId;
use std::sync::Arc;
use std::time::Instant;

/// Whether an attempt is the first that was set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::client) enum Start {
    First,
    Again,
}

/// A transfer over all its attempts.
pub(in crate::client) struct Course {
    /// The same in all of them, so that a new session takes over from the old one.
    pub(in crate::client) id: TransferId,
    pub(in crate::client) began: Instant,
    /// That of the newest attempt that was set up.
    pub(in crate::client) reporter: Option<Arc<Reporter>>,
    repeatable: Remedy,
    /// When the first attempt was set up.
    started: Option<Instant>,
    /// Attempts that were set up.
    sessions: u32,
    /// What attempts before this one have verified, bytes.
    bytes_before: u64,
}

impl Course {
    /// `repeatable`: whether sources and destination allow another attempt.
    pub(in crate::client) fn new(id: TransferId, repeatable: Remedy) -> Course {
        Course {
            id,
            began: Instant::now(),
            reporter: None,
            repeatable,
            started: None,
            sessions: 0,
            bytes_before: 0,
        }
    }

    /// An attempt was set up.
    pub(in crate::client) fn started(&mut self) -> Start {
        self.bytes_before += self.reporter.take().map_or(0, |reporter| reporter.new_bytes());
        self.started.get_or_insert_with(Instant::now);
        self.sessions += 1;
        if self.sessions == 1 { Start::First } else { Start::Again }
    }

    /// Attempts that were set up.
    pub(in crate::client) fn sessions(&self) -> u32 {
        self.sessions
    }

    pub(in crate::client) fn endurance(&self, options: &TransferOptions) -> Endurance {
        let dead_control = match self.repeatable {
            Remedy::Reconnect => DeadControl::EndsSession,
            Remedy::None => DeadControl::IsEndured,
        };
        Endurance { timeout: options.timeout, min_rate: options.min_rate, dead_control }
    }

    /// How an attempt ended with `outcome`.
    pub(in crate::client) fn attempt<T>(&self, outcome: Result<T>) -> Attempt<T> {
        let reporter = self.reporter.as_ref();
        let crawls = reporter.is_some_and(|reporter| reporter.ended_crawling() == Crawls::Yes);
        Attempt {
            outcome,
            verified_at: reporter.and_then(|reporter| reporter.verified_at()),
            remedy: if crawls { Remedy::None } else { self.repeatable },
        }
    }

    /// Adds to the last error how to go on.
    pub(in crate::client) fn advise(&self, error: Error, options: &TransferOptions) -> Error {
        match &self.reporter {
            Some(reporter) => advise(error, options, reporter),
            None => error,
        }
    }

    /// The figures over all attempts, from those of the last one. What earlier attempts verified was moved by
    /// this command; packets are those of the last connection.
    pub(in crate::client) fn add_up(&self, last: Summary) -> Summary {
        let (Some(started), 2..) = (self.started, self.sessions) else { return last };
        let resumed_bytes = last.resumed_bytes.saturating_sub(self.bytes_before);
        let seconds = started.elapsed().as_secs_f64();
        let moved = last.bytes.saturating_sub(resumed_bytes);
        let goodput_bps = if seconds > 0.0 { moved as f64 * 8.0 / seconds } else { 0.0 };
        Summary { resumed_bytes, seconds, goodput_bps, ..last }
    }
}
