//! The client's part of making streams (protocol 11): whether they are wanted and known, and the door.

use super::Client;
use super::candidates::candidates;
use crate::server::PORT_OF_THE_CHANNEL;
use crate::session::{choice_of, sending_of, stream_target, tcp_tuning};
use fobs_channel::secure::datagram::Direction;
use fobs_channel::secure::stream::StreamPass;
use fobs_channel::secure::stream_keys::StreamKeys;
use fobs_engine::door::{ClientDoor, Dialer, Target};
use fobs_engine::streams::{Allotment, StreamSetup};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::{Accept, STREAMS};
use fobs_model::options::{StreamAllotment, Transport};

impl Client<'_> {
    /// Whether to ask for streams; opens the lane if so, because the server may use it as soon as it answers.
    ///
    /// # Errors
    /// `Protocol` if the server does not know them and the user wants nothing else.
    pub(super) fn want_streams(&mut self) -> Result<bool> {
        let transport = self.options.transport;
        let only = matches!(transport, Transport::Tcp { .. } | Transport::Channel);
        match (transport, self.hello.has(STREAMS)) {
            (Transport::Udp, _) => Ok(false),
            (_, false) if only => Err(Error::new(
                ErrorKind::Protocol,
                format!(
                    "{} has an older fobs, which carries data over UDP only: install the same version there, or leave out --transport {transport}",
                    self.channel.peer.description
                ),
            )),
            (_, false) => Ok(false),
            (_, true) => {
                self.lane = Some(self.channel.open_lane()?);
                Ok(true)
            }
        }
    }

    /// What the session needs for streams; `None` where it has none: their keys are gone then. `direction`
    /// is that of this side's data.
    pub(super) fn streams(
        &mut self,
        accept: &Accept,
        keys: StreamKeys,
        direction: Direction,
    ) -> Result<Option<StreamSetup>> {
        let transport = self.options.transport;
        let (Some((lane, mailbox)), Some(choice)) = (self.lane.take(), choice_of(transport)) else {
            return Ok(None);
        };
        let only_tcp = matches!(transport, Transport::Tcp { .. });
        if only_tcp && accept.tcp_addresses.is_empty() {
            return Err(Error::new(
                ErrorKind::Connect,
                format!(
                    "{} takes no TCP connections for data: it found no free port, or the key's limits leave none; try --transport ssh or --udp-ports A-B",
                    self.channel.peer.description
                ),
            ));
        }
        let dialer = match transport {
            Transport::Channel => None,
            _ if accept.tcp_addresses.is_empty() => None,
            _ => Some(Dialer::start(self.target(accept, keys.pass().clone())).map_err(|error| {
                Error::new(
                    ErrorKind::Internal,
                    format!("cannot start a thread: {error}; raise the limit of processes (ulimit -u)"),
                )
            })?),
        };
        let door = ClientDoor {
            lane: (!only_tcp).then_some(lane),
            dialer,
            mailbox,
            writer: self.channel.writer.clone(),
            server_asks: direction == Direction::Receiver,
        };
        let allotment = match self.options.stream_allotment {
            StreamAllotment::NextFree => Allotment::NextFree,
            StreamAllotment::EqualParts => Allotment::EqualParts,
        };
        let target = stream_target(Some(self.options.priority.name()));
        let tuning = tcp_tuning(&sending_of(self.options), direction)?;
        Ok(Some(StreamSetup { choice, target, door: Box::new(door), keys, allotment, tuning }))
    }

    /// Where the server takes streams.
    fn target(&self, accept: &Accept, pass: StreamPass) -> Target {
        let mut at = accept.tcp_addresses.clone();
        for address in &mut at {
            if address.port == PORT_OF_THE_CHANNEL {
                address.port = self.tcp_port;
            }
        }
        // Over ssh there is no such port.
        at.retain(|address| address.port != 0);
        let port = at.first().map_or(0, |address| address.port);
        let name = format!("{} port {port}", self.channel.peer.description);
        let (hosts, family) = (self.hosts.clone(), self.options.address_family);
        // No ciphertext goes to a host that the server merely names.
        Target { addresses: Box::new(move || candidates(&at, &hosts, family).reached), name, pass }
    }
}
