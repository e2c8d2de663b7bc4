//! Where the peer is, and the proof that it is there (protocol 5.11).
//!
//! An authenticated packet shows who made it, not where its maker is: an attacker on the path can send a copy
//! of it from anywhere. So traffic goes to a new address only after that has answered a challenge, which it
//! cannot do without receiving it.

use fobs_proto::Timestamp;
use fobs_proto::wire::{AEAD_TAG_LEN, CHALLENGE_LEN, Header, PLAIN_HEADER_LEN};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Most bytes to an address without proof, relative to those from there (RFC 9000 section 8.1).
const AMPLIFICATION_MAX: u64 = 3;
/// Time between two challenges to one address: longer than most round trips.
const CHALLENGE_EVERY: Duration = Duration::from_millis(500);
/// How long an unanswered challenge keeps other addresses waiting: longer than any round trip.
const CHALLENGE_HOLD: Duration = Duration::from_secs(2);
/// Bytes of a challenge's or a response's datagram.
pub(crate) const PATH_DATAGRAM_LEN: usize = PLAIN_HEADER_LEN + CHALLENGE_LEN + AEAD_TAG_LEN;

/// How a new address of the peer is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathValidation {
    /// It is challenged. The first one needs no proof if it is one of the candidates or has this IP address,
    /// with which the control channel's TCP connection was made.
    Challenge {
        /// The address of the control channel's peer, which is proven by it.
        proven: Option<IpAddr>,
    },
    /// The peer knows no challenges: its newest packet shows where it is.
    Newest,
}

/// A challenge or a response that is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathPacket {
    pub(crate) to: SocketAddr,
    pub(crate) header: Header,
    pub(crate) body: [u8; CHALLENGE_LEN],
}

/// An address without proof.
#[derive(Debug)]
struct Challenge {
    to: SocketAddr,
    token: [u8; CHALLENGE_LEN],
    since: Timestamp,
    next: Timestamp,
    /// Bytes of authenticated datagrams from there, and of challenges to it.
    received: u64,
    sent: u64,
}

/// A look at the path to the address that is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Wanted,
    NotBefore(Timestamp),
}

/// The peer's address.
pub(super) struct PeerAddress {
    validation: PathValidation,
    candidates: Vec<SocketAddr>,
    current: Option<SocketAddr>,
    /// Whether a datagram has come from `current`.
    heard: bool,
    challenge: Option<Challenge>,
    /// Whether to challenge `current`, to see that the path there works, and when that may be done next.
    check: Check,
    /// The newest challenge of the peer that is not answered yet.
    response: Option<[u8; CHALLENGE_LEN]>,
    /// How often traffic has moved to another address since the first datagram.
    moves: u64,
    random: fn() -> [u8; CHALLENGE_LEN],
}

impl PeerAddress {
    /// A peer that may be at any of `candidates`; at none if it sends first.
    pub(super) fn new(
        validation: PathValidation,
        candidates: Vec<SocketAddr>,
        random: fn() -> [u8; CHALLENGE_LEN],
    ) -> PeerAddress {
        PeerAddress {
            validation,
            current: candidates.first().copied(),
            candidates,
            heard: false,
            challenge: None,
            check: Check::NotBefore(Timestamp::ZERO),
            response: None,
            moves: 0,
            random,
        }
    }

    /// Where traffic goes.
    pub(super) fn current(&self) -> Option<SocketAddr> {
        self.current
    }

    /// Whether a datagram has come from where traffic goes.
    pub(super) fn is_heard(&self) -> bool {
        self.heard
    }

    /// Addresses that the peer may have as well, until it is heard.
    pub(super) fn others(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let waiting = !self.heard;
        self.candidates.iter().copied().filter(move |at| waiting && Some(*at) != self.current)
    }

    /// How often traffic has moved since the first datagram.
    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    /// An authenticated datagram of `len` bytes came; `newest` if its number is the largest so far.
    pub(super) fn handle_datagram(&mut self, now: Timestamp, from: SocketAddr, len: usize, newest: bool) {
        if self.current == Some(from) {
            self.heard = true;
            return;
        }
        if let Some(challenge) = &mut self.challenge
            && challenge.to == from
        {
            challenge.received += len as u64;
            return;
        }
        if !newest {
            return;
        }
        match self.validation {
            PathValidation::Newest => self.go_to(from),
            PathValidation::Challenge { proven } if !self.heard && self.is_expected(from, proven) => {
                self.go_to(from);
            }
            PathValidation::Challenge { .. } => self.begin_challenge(now, from, len),
        }
    }

    fn is_expected(&self, from: SocketAddr, proven: Option<IpAddr>) -> bool {
        self.candidates.contains(&from) || proven == Some(from.ip().to_canonical())
    }

    fn begin_challenge(&mut self, now: Timestamp, to: SocketAddr, len: usize) {
        if self.challenge.as_ref().is_some_and(|held| now - held.since < CHALLENGE_HOLD) {
            return;
        }
        let token = (self.random)();
        self.challenge = Some(Challenge { to, token, since: now, next: now, received: len as u64, sent: 0 });
    }

    fn go_to(&mut self, address: SocketAddr) {
        self.moves += u64::from(self.heard);
        self.current = Some(address);
        self.heard = true;
        self.challenge = None;
    }

    /// A datagram of the peer is wanted soon, to see that the path works.
    pub(super) fn check_path(&mut self, now: Timestamp) {
        if self.validation != PathValidation::Newest
            && matches!(self.check, Check::NotBefore(at) if at <= now)
        {
            self.check = Check::Wanted;
        }
    }

    /// An authenticated challenge came. Of several that wait for their answer, the newest is answered.
    pub(super) fn handle_challenge(&mut self, body: &[u8]) {
        if self.validation != PathValidation::Newest
            && let Ok(token) = body.try_into()
        {
            self.response = Some(token);
        }
    }

    /// An authenticated response came.
    pub(super) fn handle_response(&mut self, from: SocketAddr, body: &[u8]) {
        if self.challenge.as_ref().is_some_and(|challenge| challenge.to == from && challenge.token == body) {
            self.go_to(from);
        }
    }

    /// A response or a challenge that is due. A response goes where traffic goes, not where the challenge
    /// came from: that may be an attacker who passes copies on.
    pub(super) fn poll_packet(&mut self, now: Timestamp) -> Option<PathPacket> {
        if let Some(to) = self.current
            && let Some(body) = self.response.take()
        {
            return Some(PathPacket { to, header: Header::Response, body });
        }
        if let Some(to) = self.current
            && self.check == Check::Wanted
        {
            self.check = Check::NotBefore(now + CHALLENGE_EVERY);
            return Some(PathPacket { to, header: Header::Challenge, body: (self.random)() });
        }
        let challenge = self.challenge.as_mut().filter(|challenge| challenge.next <= now)?;
        let sent = challenge.sent + PATH_DATAGRAM_LEN as u64;
        if sent > AMPLIFICATION_MAX * challenge.received {
            return None;
        }
        challenge.sent = sent;
        challenge.next = now + CHALLENGE_EVERY;
        Some(PathPacket { to: challenge.to, header: Header::Challenge, body: challenge.token })
    }
}

#[cfg(test)]
mod tests;
