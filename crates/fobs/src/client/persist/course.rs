//! What the attempts of one transfer have in common.

use super::super::lane_count::Unchosen;
use super::super::resume::advise;
use super::{Attempt, Remedy};
use fobs_engine::{Clock, Counted, Crawls, DeadControl, EndsAt, Endurance, Reporter, Steering};
use fobs_model::direction::TransferDirection;
use fobs_model::error::{Busy, Error, Result};
use fobs_model::event::Summary;
use fobs_model::message::{Hello, PULSE};
use fobs_model::options::TransferOptions;
use fobs_model::options::sync::{Delete, SyncOptions};
use fobs_proto::session::OwnEnd;
use fobs_store::TransferId;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

/// Whether an attempt is the first that was set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::client) enum Start {
    First,
    Again,
}

/// What a server says while nothing new is to be seen of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::client) enum Telling {
    /// What it reads to compare it.
    Reads,
    /// Nothing: it is too old.
    Nothing,
}

impl Telling {
    pub(in crate::client) fn of(server: &Hello) -> Telling {
        if server.has(PULSE) { Telling::Reads } else { Telling::Nothing }
    }
}

/// What becomes of a transfer in which nothing moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// It is given up after the timeout.
    IsTimed,
    /// It goes on as long as the other side is heard.
    IsEndured,
}

/// A transfer over all its attempts.
pub(in crate::client) struct Course {
    /// The same in all of them, so that a new session takes over from the old one.
    pub(in crate::client) id: TransferId,
    pub(in crate::client) began: Clock,
    /// What the user changes meanwhile.
    pub(in crate::client) steering: Steering,
    /// What patterns in the sources stand for, once the other host has said it.
    pub(in crate::client) expanded: Option<Vec<Vec<u8>>>,
    /// That of the newest attempt that was set up.
    pub(in crate::client) reporter: Option<Arc<Reporter>>,
    repeatable: Remedy,
    /// Whether a transfer that stands still is given up.
    rest: Rest,
    /// When the first attempt was set up.
    started: Option<Instant>,
    /// Attempts that were set up.
    sessions: u32,
    /// What attempts before this one have verified, bytes.
    bytes_before: u64,
    /// What their senders counted, to within the time between two samples.
    counted_before: Counted,
    /// What they deleted.
    deletions_before: u64,
    /// Whether another copy into the destination was waited for.
    was_taken: bool,
    /// Lanes that nobody chose.
    pub(in crate::client) unchosen: Unchosen,
}

impl Course {
    /// `repeatable`: whether sources and destination allow another attempt.
    pub(in crate::client) fn new(id: TransferId, repeatable: Remedy) -> Course {
        Course {
            id,
            began: Clock::start(),
            steering: Steering::new(),
            expanded: None,
            reporter: None,
            repeatable,
            rest: Rest::IsTimed,
            started: None,
            sessions: 0,
            bytes_before: 0,
            counted_before: Counted::default(),
            deletions_before: 0,
            was_taken: false,
            // An attempt with several may have to be made again with one.
            unchosen: if repeatable == Remedy::Reconnect { Unchosen::Possible } else { Unchosen::Without },
        }
    }

    /// Of an object of a pipe: the programs at its ends may say or take nothing for as long as they like.
    pub(in crate::client) fn of_pipe(id: TransferId) -> Course {
        Course { rest: Rest::IsEndured, ..Course::new(id, Remedy::None) }
    }

    /// An attempt was set up.
    pub(in crate::client) fn started(&mut self) -> Start {
        if let Some(reporter) = self.reporter.take() {
            self.bytes_before += reporter.new_bytes();
            self.counted_before = self.counted_before.with(reporter.counted());
            self.deletions_before += reporter.deletions();
        }
        self.started.get_or_insert_with(Instant::now);
        self.sessions += 1;
        if self.sessions == 1 { Start::First } else { Start::Again }
    }

    /// The options of the next attempt: what earlier ones deleted counts towards `--max-delete`.
    pub(in crate::client) fn left<'a>(&self, options: &'a TransferOptions) -> Cow<'a, TransferOptions> {
        let deleted = self.deletions_before + self.reporter.as_ref().map_or(0, |it| it.deletions());
        left_to_delete(options, deleted)
    }

    /// Notes whether another copy into the destination is running.
    pub(in crate::client) fn note_taken<T>(&mut self, outcome: &Result<T>) {
        self.was_taken |= matches!(outcome, Err(error) if error.busy() == Some(Busy::Taken));
    }

    /// The options after a wait for another copy into the same place: what that one brought is verified, and
    /// not received again. A key that only writes may not compare, so what is sent is sent again.
    pub(in crate::client) fn after_a_wait<'a>(
        &self,
        options: &'a TransferOptions,
        direction: TransferDirection,
    ) -> Cow<'a, TransferOptions> {
        let compares = self.was_taken
            && direction == TransferDirection::Pull
            && options.sync.is_none()
            && !options.no_partial;
        if compares {
            Cow::Owned(TransferOptions { append_verify: true, ..options.clone() })
        } else {
            Cow::Borrowed(options)
        }
    }

    /// Attempts that were set up.
    pub(in crate::client) fn sessions(&self) -> u32 {
        self.sessions
    }

    /// `far` is whether the server says what it reads to compare it.
    pub(in crate::client) fn endurance(&self, options: &TransferOptions, far: Telling) -> Endurance {
        let dead_control = match self.repeatable {
            Remedy::Reconnect => DeadControl::EndsSession,
            Remedy::None => DeadControl::IsEndured,
        };
        // What is read for a comparison may take long at either end, and moves nothing meanwhile.
        let compares = options.checksum || options.append_verify;
        let standstill = match self.repeatable {
            _ if compares && far == Telling::Nothing || self.rest == Rest::IsEndured => EndsAt::SilenceOnly,
            Remedy::Reconnect => EndsAt::NothingNew(OwnEnd::Files),
            // A stream, or the like.
            Remedy::None => EndsAt::NothingNew(OwnEnd::Stream),
        };
        Endurance { timeout: options.timeout, min_rate: options.min_rate, dead_control, standstill }
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
    /// this command, and so were their packets; of these only the ones that the verified data needs count as
    /// needed.
    pub(in crate::client) fn add_up(&self, last: Summary) -> Summary {
        let (Some(started), 2..) = (self.started, self.sessions) else { return last };
        let resumed_bytes = last.resumed_bytes.saturating_sub(self.bytes_before);
        let seconds = started.elapsed().as_secs_f64();
        let moved = last.bytes.saturating_sub(resumed_bytes);
        let goodput_bps = if seconds > 0.0 { moved as f64 * 8.0 / seconds } else { 0.0 };
        let moved = Summary { resumed_bytes, seconds, goodput_bps, ..last };
        with_packets(moved, self.counted_before, self.bytes_before)
    }
}

/// Options that allow fewer deletions, by those that were made.
fn left_to_delete(options: &TransferOptions, deleted: u64) -> Cow<'_, TransferOptions> {
    let max = options.sync.as_ref().and_then(|sync| sync.delete?.max);
    let (Some(sync), Some(max), 1..) = (&options.sync, max, deleted) else { return Cow::Borrowed(options) };
    let mut sync = SyncOptions::clone(sync);
    sync.delete = sync.delete.map(|delete| Delete { max: Some(max.saturating_sub(deleted)), ..delete });
    Cow::Owned(TransferOptions { sync: Some(Arc::new(sync)), ..options.clone() })
}

/// Adds what senders counted in attempts that verified `bytes` and broke.
fn with_packets(last: Summary, before: Counted, bytes: u64) -> Summary {
    let share = |part: f64, whole: u64| if whole == 0 { 0.0 } else { part / whole as f64 };
    let lost = last.loss_rate * last.packets_sent as f64 + before.packets_lost as f64;
    let needed = bytes.div_ceil(u64::from(last.packet_size).max(1)).min(before.packets_sent);
    let packets_needed = last.packets_needed.saturating_add(needed);
    let packets_sent = last.packets_sent.saturating_add(before.packets_sent);
    let rtt_before = (before.rtt_min_us > 0).then(|| before.rtt_min_us as f64 / 1e3);
    Summary {
        packets_needed,
        packets_sent,
        waste: share(packets_sent.saturating_sub(packets_needed) as f64, packets_needed),
        loss_rate: share(lost, packets_sent).min(1.0),
        socket_drops: last.socket_drops.saturating_add(before.socket_drops),
        rtt_ms_min: last.rtt_ms_min.into_iter().chain(rtt_before).reduce(f64::min),
        ..last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> Summary {
        Summary {
            packets_needed: 100,
            packets_sent: 110,
            waste: 0.1,
            loss_rate: 0.1,
            rtt_ms_min: Some(7.0),
            socket_drops: 1,
            packet_size: 1000,
            ..Summary::default()
        }
    }

    #[test]
    fn packets_of_all_connections_add_up() {
        let one = Counted { packets_sent: 60, packets_lost: 5, socket_drops: 2, rtt_min_us: 9_000 };
        let two = Counted { packets_sent: 40, packets_lost: 0, socket_drops: 0, rtt_min_us: 6_500 };
        let all = with_packets(last(), Counted::default().with(one).with(two), 79_001);
        assert_eq!((all.packets_needed, all.packets_sent, all.socket_drops), (180, 210, 3));
        assert_eq!(all.rtt_ms_min, Some(6.5));
        assert!((all.waste - 30.0 / 180.0).abs() < 1e-9, "{}", all.waste);
        assert!((all.loss_rate - 16.0 / 210.0).abs() < 1e-9, "{}", all.loss_rate);
    }

    #[test]
    fn what_was_deleted_before_counts_towards_the_limit() {
        let limited = |max| {
            let sync =
                SyncOptions { delete: Some(Delete { max, ..Delete::default() }), ..SyncOptions::default() };
            TransferOptions { sync: Some(Arc::new(sync)), ..TransferOptions::default() }
        };
        for (max, deleted, left) in
            [(Some(5), 0, Some(5)), (Some(5), 3, Some(2)), (Some(5), 9, Some(0)), (None, 9, None)]
        {
            let options = limited(max);
            let next = left_to_delete(&options, deleted).into_owned();
            assert_eq!(next.sync.unwrap().delete.unwrap().max, left, "{max:?} {deleted}");
        }
        assert_eq!(left_to_delete(&TransferOptions::default(), 3).sync, None);
    }

    #[test]
    fn data_that_compression_shrank_needs_no_more_packets_than_were_sent() {
        let before = Counted { packets_sent: 10, ..Counted::default() };
        let all = with_packets(last(), before, 1_000_000);
        assert_eq!((all.packets_needed, all.packets_sent), (110, 120));
        let nothing = with_packets(Summary::default(), Counted::default(), 0);
        assert_eq!((nothing.waste, nothing.loss_rate, nothing.rtt_ms_min), (0.0, 0.0, None));
    }
}
