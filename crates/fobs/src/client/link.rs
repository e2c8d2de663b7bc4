//! The client's end of the data plane: where the server's UDP socket is, and the keys.

use super::Client;
use super::candidates::Candidates;
use super::lanes::ClientPath;
use crate::late_lanes;
use crate::session::path_validation;
use fobs_channel::secure::datagram::{Cipher, Direction};
use fobs_channel::secure::schedule::{DatagramKeys, KeySchedule, SessionKeys, SessionSecret};
use fobs_channel::secure::stream_keys::StreamKeys;
use fobs_engine::{Clock, LaneSetup, LanesSetup, LinkSetup, lanes_window};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::Accept;
use fobs_proto::session::Side;
use fobs_sys::Waker;

impl Client<'_> {
    /// Makes the UDP socket and the keys, and takes the secret out of the answer. `cc` names the controller
    /// that sends from this side, if any.
    pub(super) fn link(
        &mut self,
        accept: &mut Accept,
        direction: Direction,
        cc: Option<&str>,
    ) -> Result<(LinkSetup, StreamKeys, Cipher)> {
        let peer = &self.channel.peer.description;
        let broken = |what: &str| {
            Error::new(ErrorKind::Protocol, format!("{peer} {what}; install the same version on both sides"))
        };
        let cipher = Cipher::from_name(&accept.cipher)
            .ok_or_else(|| broken("chose a cipher that is not known here"))?;
        let schedule = KeySchedule::from_number(accept.key_schedule)
            .ok_or_else(|| broken("derives keys in a way that is not known here"))?;
        // The answer lives as long as the transfer; the secret must not.
        let secret = match (schedule, self.channel.exporter.take(), accept.secret.take()) {
            (KeySchedule::First, Some(secret), _) => secret,
            (_, _, Some(told)) => SessionSecret::told(told.as_slice())
                .ok_or_else(|| broken("sent a session secret of a wrong length"))?,
            (_, _, None) => return Err(broken("sent no session secret")),
        };
        let granted = self.lanes_granted(accept)?;
        let count = if schedule == KeySchedule::Second { granted } else { 1 };
        let late = self.lanes.asked_late.take().zip(accept.late_lanes);
        let most = late.filter(|_| count == 1).map_or(0, |(ours, theirs)| ours.most.min(theirs.most));
        let mut keys = SessionKeys::with_lanes(secret, schedule, cipher, count + usize::from(most));
        let of_late = keys.lanes.split_off((count - 1).min(keys.lanes.len()));
        self.lanes.late = late
            .filter(|_| !of_late.is_empty())
            .map(|offers| late_lanes::of_client(of_late, offers, (direction, cc)));
        let (clock, paths, numbers) = (Clock::start(), self.paths()?, self.wanted_lanes().paths());
        let port = accept.udp_addresses.first().map_or(0, |at| at.port);
        let link = self.lane_link(&paths[0], (accept, port), (keys.datagrams, direction), (clock, cc))?;
        let mut further = Vec::new();
        if let Some(granted) = &accept.lanes {
            for ((port, keys), number) in granted.ports.iter().zip(keys.lanes).zip(&numbers[1..]) {
                let path = &paths[usize::from(*number)];
                let link = self.lane_link(path, (accept, *port), (keys, direction), (clock, cc))?;
                further.push(LaneSetup { link, name: path.name.clone() });
            }
        }
        let window = accept.lanes.as_ref().map_or(0, |granted| granted.window);
        let window = match direction {
            Direction::Sender => window.min(lanes_window(self.chunks_max)).max(1),
            Direction::Receiver => lanes_window(self.chunks_max),
        };
        self.lanes.setup = (!further.is_empty()).then(|| LanesSetup {
            paths: numbers[..=further.len()].to_vec(),
            further,
            first: paths[0].name.clone(),
            window,
        });
        Ok((link, keys.streams, cipher))
    }

    /// One lane's part of the data plane, at this port of the server.
    fn lane_link(
        &self,
        path: &ClientPath,
        (accept, port): (&Accept, u16),
        (keys, direction): (DatagramKeys, Direction),
        (clock, cc): (Clock, Option<&str>),
    ) -> Result<LinkSetup> {
        let at = (accept.udp_addresses.as_slice(), port);
        let (socket, Candidates { reached, named }) = self.lane_socket(path, at, cc)?;
        let waker = Waker::new().map_err(|error| {
            Error::new(ErrorKind::Socket, format!("cannot make an event descriptor: {error}"))
        })?;
        let validation = path_validation(&self.hello, None);
        Ok(LinkSetup {
            socket,
            waker,
            clock,
            keys,
            direction,
            side: Side::Client,
            candidates: reached,
            named,
            validation,
        })
    }
}

/// The server's port, for the message where UDP is blocked.
pub(super) fn ports_of(accept: &Accept) -> String {
    accept.udp_addresses.first().map_or_else(|| "ports".to_owned(), |at| format!("port {}", at.port))
}
