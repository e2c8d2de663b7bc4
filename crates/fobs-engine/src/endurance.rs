//! What a session puts up with before it gives the transfer up.

use super::{Link, Reporter};
use fobs_channel::control::ControlWriter;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::{Message, Pulse};
use fobs_model::options::MinRate;
use fobs_proto::session::{ANSWER_WAIT, Excuse, OwnEnd, RateFloor, Side, Silence, Standstill};
use fobs_proto::{Rate, Timestamp};
use fobs_store::Looked;
use std::time::Duration;

/// Longest silence that a server endures because a client asks for it: a day, so that a client that is gone
/// does not keep a session for ever.
const TIMEOUT_MAX_FOR_PEER: Duration = Duration::from_secs(24 * 3600);

/// How much later than the client a server ends a session of which nothing is new: the client's user chose
/// the timeout, and its sentence says more.
const CLIENT_FIRST: Duration = Duration::from_secs(2);

/// Longest time without a control message while datagrams come. Each side says something every second; a lost
/// segment of TCP costs a few seconds at most on a path that works.
const CONTROL_SILENCE_MAX: Duration = Duration::from_secs(20);
/// Longest pause between datagrams on a path that works and is looked at.
const DATA_PAUSE_MAX: Duration = Duration::from_secs(2);

/// What a session puts up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endurance {
    /// Longest silence on UDP after the first datagram.
    pub timeout: Duration,
    /// Lowest rate; none at the side that did not choose one.
    pub min_rate: Option<MinRate>,
    /// What follows from a control channel that is dead while datagrams still come.
    pub dead_control: DeadControl,
    /// What ends the session although the peer is heard.
    pub standstill: EndsAt,
}

/// What ends a session although the peer is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndsAt {
    /// Nothing new for as long as the timeout, at the side whose user chose that; what this side's end is.
    NothingNew(OwnEnd),
    /// Likewise at the side that was called, a little later: the client says what holds it up.
    NothingNewOfClient,
    /// Nothing: the other side is too old to say what holds it up, or what it reads to compare it.
    SilenceOnly,
}

/// What a side does whose control channel is dead while datagrams still come: the path is there, but not the
/// connection (this host has another address, or a NAT has forgotten it), or TCP waits for minutes before it
/// tries again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadControl {
    /// It ends the session, because another connection can go on with the transfer.
    EndsSession,
    /// It waits until TCP gives up.
    IsEndured,
}

impl Endurance {
    /// Of the side that was called: `timeout` is the wish of the side that calls.
    pub fn for_peer(timeout: Option<Duration>) -> Endurance {
        Endurance {
            timeout: timeout.unwrap_or(ANSWER_WAIT).min(TIMEOUT_MAX_FOR_PEER),
            min_rate: None,
            dead_control: DeadControl::IsEndured,
            standstill: EndsAt::SilenceOnly,
        }
    }

    /// Likewise, of a client that says what holds it up: the clock of its timeout runs here, too.
    pub fn for_client_that_tells(timeout: Option<Duration>) -> Endurance {
        Endurance { standstill: EndsAt::NothingNewOfClient, ..Endurance::for_peer(timeout) }
    }

    /// The clock of the timeout, from now on.
    pub(super) fn standstill(&self, now: Timestamp) -> Option<NewsWatch> {
        let (end, timeout, side) = match self.standstill {
            EndsAt::NothingNew(end) => (end, self.timeout, Side::Client),
            EndsAt::NothingNewOfClient => (OwnEnd::Files, self.timeout + CLIENT_FIRST, Side::Server),
            EndsAt::SilenceOnly => return None,
        };
        Some(NewsWatch { clock: Standstill::new(now, timeout), end, side, moved: 0, looked_there: 0 })
    }

    /// The watch over the control channel, from now on.
    pub(super) fn control_watch(&self, now: Timestamp) -> Option<ControlWatch> {
        match self.dead_control {
            DeadControl::EndsSession => Some(ControlWatch { message: now, flowing_since: None }),
            DeadControl::IsEndured => None,
        }
    }

    /// The watch over the lowest rate.
    pub(super) fn floor(&self) -> Option<Floor> {
        let chosen = self.min_rate?;
        let watch = RateFloor::new(Rate::bits_per_second(chosen.bits_per_second), chosen.over);
        Some(Floor { chosen, watch })
    }
}

/// Watches whether anything new is verified.
#[derive(Debug)]
pub(super) struct NewsWatch {
    clock: Standstill,
    end: OwnEnd,
    side: Side,
    /// What had been moved by the last look.
    moved: u64,
    /// What the other side has read to compare it, bytes.
    looked_there: u64,
}

impl NewsWatch {
    /// What this side's end of the data is.
    pub(super) fn end(&self) -> OwnEnd {
        self.end
    }

    /// The other side says why nothing new is to be seen. Only a client has a user who holds it up.
    pub(super) fn hear(&mut self, now: Timestamp, pulse: Pulse, reporter: &Reporter) {
        if pulse.looked > self.looked_there {
            self.looked_there = pulse.looked;
            reporter.advance();
        }
        if pulse.held_up && self.side == Side::Server {
            self.clock.restart(now);
        }
    }

    /// To be called with every heartbeat. `moved` grows with data that the other side or this one has; it
    /// counts if it is of an object, and not of an empty chunk that shows that the path works.
    pub(super) fn check(
        &mut self,
        now: Timestamp,
        moved: Option<u64>,
        reporter: &Reporter,
        excuse: Option<Excuse>,
    ) -> Silence {
        if let Some(moved) = moved
            && moved != std::mem::replace(&mut self.moved, moved)
        {
            reporter.advance();
        }
        self.clock.check(now, reporter.advances(), excuse)
    }
}

/// Says to the other side why nothing new is to be seen of this one.
#[derive(Debug)]
pub(super) struct PulseTeller {
    looked: Looked,
    /// What of it has been told, bytes.
    told: u64,
}

impl PulseTeller {
    /// Of a side that counts there what it reads to compare it.
    pub(super) fn new(looked: Looked) -> PulseTeller {
        PulseTeller { looked, told: 0 }
    }

    /// To be called with every heartbeat.
    pub(super) fn beat(&mut self, side: Side, excuse: Option<Excuse>, to: (&Reporter, &ControlWriter)) {
        let (looked, (reporter, writer)) = (self.looked.bytes(), to);
        let held_up = side == Side::Client && excuse.is_some();
        let has_read = looked != std::mem::replace(&mut self.told, looked);
        if has_read {
            reporter.advance();
        }
        if has_read || held_up {
            writer.offer(&Message::Pulse(Pulse { looked, held_up }));
        }
    }
}

/// What another connection would cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stake {
    /// What is in flight, which an outage alone does not cost.
    Flight,
    /// Everything is verified.
    Nothing,
}

/// Watches a control channel on which the peer says something every second.
#[derive(Debug)]
pub(super) struct ControlWatch {
    /// When its newest message came.
    message: Timestamp,
    /// Since when datagrams have come without a longer pause.
    flowing_since: Option<Timestamp>,
}

impl ControlWatch {
    /// A message came.
    pub(super) fn handle_message(&mut self, now: Timestamp) {
        self.message = now;
    }

    /// To be called with every heartbeat; looks whether the path of data works if nothing else shows it.
    ///
    /// # Errors
    /// `Connect` if the channel is dead.
    pub(super) fn check(&mut self, now: Timestamp, link: &mut Link, stake: Stake) -> Result<()> {
        if stake == Stake::Flight && now - self.message >= CONTROL_SILENCE_MAX / 4 {
            link.check_path(now);
        }
        match stake {
            Stake::Flight => self.judge(now, link.last_heard()),
            // A peer that is done has closed its socket, so no datagram shows that the path works.
            Stake::Nothing => self.judge(now, Some(now)),
        }
    }

    /// `newest` is when the peer's newest datagram came.
    fn judge(&mut self, now: Timestamp, newest: Option<Timestamp>) -> Result<()> {
        if newest.is_none_or(|newest| now - newest > DATA_PAUSE_MAX) {
            self.flowing_since = None;
            return Ok(());
        }
        let flowing_since = *self.flowing_since.get_or_insert(now);
        if now - flowing_since.max(self.message) < CONTROL_SILENCE_MAX {
            return Ok(());
        }
        let message = format!(
            "the control connection is dead: no message for {} s while datagrams came; run the command again",
            CONTROL_SILENCE_MAX.as_secs()
        );
        Err(Error::new(ErrorKind::Connect, message))
    }
}

/// The lowest rate, as it is watched.
pub(super) struct Floor {
    chosen: MinRate,
    watch: RateFloor,
}

impl Floor {
    /// The user has paused the transfer: the time until now does not count.
    pub(super) fn restart(&mut self) {
        let MinRate { bits_per_second, over } = self.chosen;
        self.watch = RateFloor::new(Rate::bits_per_second(bits_per_second), over);
    }

    /// To be called with every heartbeat.
    ///
    /// # Errors
    /// `Timeout` if the transfer crawls.
    pub(super) fn check(&mut self, now: Timestamp, reporter: &Reporter) -> Result<()> {
        let Some(measured) = self.watch.check(now, reporter.bytes()) else { return Ok(()) };
        reporter.crawls();
        let mbit = |bits: u64| bits as f64 / 1e6;
        let message = format!(
            "only {:.3} Mbit/s over the last {} s, less than the {:.3} Mbit/s of --min-rate: run the same command again when the path is better, or ask for less",
            mbit(measured.as_bytes().saturating_mul(8)),
            self.chosen.over.as_secs(),
            mbit(self.chosen.bits_per_second),
        );
        Err(Error::new(ErrorKind::Timeout, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_proto::session::HEARTBEAT;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(seconds)
    }

    /// When a channel counts as dead whose last message came at 5 s, seconds; datagrams come while `flows`.
    fn dead_at(flows: impl Fn(u64) -> bool) -> Option<u64> {
        let endurance = Endurance { dead_control: DeadControl::EndsSession, ..Endurance::for_peer(None) };
        let mut watch = endurance.control_watch(at(0)).expect("it watches");
        let (mut now, mut newest) = (at(0), None);
        while now < at(200) {
            let second = now.as_nanos() / 1_000_000_000;
            newest = if flows(second) { Some(now) } else { newest };
            if second <= 5 {
                watch.handle_message(now);
            }
            if watch.judge(now, newest).is_err() {
                return Some(second);
            }
            now = now + HEARTBEAT;
        }
        None
    }

    #[test]
    fn a_dead_control_channel_is_noticed_while_data_flows() {
        assert_eq!(dead_at(|_| true), Some(25));
        assert_eq!(dead_at(|_| false), None, "the whole path is down");
        assert_eq!(dead_at(|second| second < 10), None, "the path went down first");
        assert_eq!(
            dead_at(|second| !(10..100).contains(&second)),
            Some(120),
            "TCP has time to come back too"
        );
    }

    #[test]
    fn only_a_client_says_that_its_user_holds_it_up() {
        let (channel, _other) = fobs_channel::control::pair::pair();
        let reporter = Reporter::new(std::sync::Arc::new(|_| ()), channel.writer);
        let timeout = Duration::from_secs(3);
        let called = Endurance::for_client_that_tells(Some(timeout));
        let calls = Endurance { standstill: EndsAt::NothingNew(OwnEnd::Files), ..called };
        for (endurance, limit) in [(called, timeout + CLIENT_FIRST), (calls, timeout)] {
            let mut news = endurance.standstill(at(0)).expect("it watches");
            let held_up = Pulse { looked: 0, held_up: true };
            let check = |news: &mut NewsWatch, now| news.check(at(now), None, &reporter, None);
            assert_eq!(check(&mut news, limit.as_secs() - 1), Silence::Short);
            news.hear(at(limit.as_secs() - 1), held_up, &reporter);
            let then = check(&mut news, limit.as_secs());
            let expected = if limit > timeout { Silence::Short } else { Silence::Standstill(limit) };
            assert_eq!(then, expected);
        }
    }

    #[test]
    fn what_is_read_to_compare_it_is_something_new_once() {
        let (channel, _other) = fobs_channel::control::pair::pair();
        let reporter = Reporter::new(std::sync::Arc::new(|_| ()), channel.writer);
        let endurance = Endurance::for_client_that_tells(Some(Duration::from_secs(3)));
        let mut news = endurance.standstill(at(0)).expect("it watches");
        for (looked, advances) in [(0, 0), (7, 1), (7, 1), (3, 1), (9, 2)] {
            news.hear(at(1), Pulse { looked, held_up: false }, &reporter);
            assert_eq!(reporter.advances(), advances, "{looked}");
        }
    }

    #[test]
    fn a_server_endures_what_the_client_asks_for_within_bounds() {
        let timeout = |wish| Endurance::for_peer(wish).timeout;
        assert_eq!(timeout(None), ANSWER_WAIT);
        assert_eq!(timeout(Some(Duration::from_secs(3))), Duration::from_secs(3));
        assert_eq!(timeout(Some(Duration::MAX)), TIMEOUT_MAX_FOR_PEER);
        assert!(Endurance::for_peer(None).control_watch(at(0)).is_none());
    }
}
