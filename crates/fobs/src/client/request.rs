//! The client's request, the server's answer, and what both make: the data plane.

use super::hearing::{Awaited, Hearing};
use super::persist::Course;
use super::{Client, blame};
use crate::session::sending_of;
use fobs_channel::secure::datagram::{Cipher, Direction};
use fobs_engine::streams::StreamSetup;
use fobs_engine::{LinkSetup, refused, tell_abort};
use fobs_model::direction::TransferDirection;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::{Accept, Bytes, EXPAND, Message, Open, PathRole, Resuming, SETTLE};
use fobs_model::permit::Needs;
use fobs_store::may_stand_for;

impl Client<'_> {
    /// The request of a transfer of files.
    pub(super) fn open(
        &mut self,
        direction: TransferDirection,
        paths: Vec<Vec<u8>>,
        resuming: Resuming,
        course: &mut Course,
    ) -> Result<Open> {
        self.leave_out_paths();
        self.recall_lanes(direction, &mut course.unchosen);
        let lanes = self.ask_for_lanes();
        // Several lanes are of datagrams alone.
        let late_lanes = if lanes.is_none() { self.ask_for_late_lanes() } else { None };
        let has_several = lanes.as_ref().is_some_and(|ask| ask.paths.len() > 1);
        let streams = if has_several { false } else { self.want_streams()? };
        Ok(Open { streams, lanes, late_lanes, ..self.plain_open(direction, paths, resuming) })
    }

    /// The same without streams and lanes.
    pub(super) fn plain_open(
        &self,
        direction: TransferDirection,
        paths: Vec<Vec<u8>>,
        resuming: Resuming,
    ) -> Open {
        let options = self.options;
        let removes = options.sync.as_ref().is_some_and(|sync| sync.removes_sources());
        Open {
            direction,
            paths,
            recursive: options.recursive,
            preserve: options.preserve,
            compress: options.compress,
            // An older server has its device keep everything only where it is asked for each file.
            fsync: options.fsync || (removes && !self.hello.has(SETTLE)),
            cache: options.cache,
            payload_size: options.packet_size,
            ack_every: options.ack_every,
            shape: None,
            sending: sending_of(options),
            udp_ports: options.udp_ports,
            resuming,
            sync: options.sync.as_ref().map(|sync| sync.for_the_other(direction).into()),
            probe: None,
            timeout: Some(options.timeout),
            streams: false,
            lanes: None,
            late_lanes: None,
            reuse: self.reuse.clone(),
            must: Vec::new(),
        }
    }

    /// What carries the data: UDP, and streams where both sides know them. The server is told of a failure.
    pub(super) fn data_plane(
        &mut self,
        accept: &mut Accept,
        direction: Direction,
        cc: Option<&str>,
    ) -> Result<(LinkSetup, Cipher, Option<StreamSetup>)> {
        let made = self.link(accept, direction, cc).and_then(|(link, streams, cipher)| {
            let streams = self.streams(accept, streams, direction)?;
            Ok((link, cipher, streams))
        });
        made.inspect_err(|error| tell_abort(&self.channel.writer, error))
    }

    /// Has the server say what paths stand for, where any of them needs it and it can.
    pub(super) fn expand(&mut self, paths: &[Vec<u8>], role: PathRole) -> Result<Vec<Vec<u8>>> {
        if !self.hello.has(EXPAND) {
            return Ok(paths.to_vec());
        }
        let asked = Message::Expand { paths: paths.iter().cloned().map(Bytes).collect(), role };
        let mut hearing = Hearing::of(Awaited::Paths, &mut self.channel, self.options.timeout);
        let sent = hearing.channel.writer.send(&asked);
        let answer = hearing.next_told(self.events.as_ref());
        drop(hearing);
        let answer =
            answer.and_then(|answer| if answer.is_some() { Ok(answer) } else { sent.map(|()| None) });
        let answer =
            answer.map_err(|error| self.cancel.explain(blame(error, self.ssh.as_ref(), self.cancel)))?;
        let peer = &self.channel.peer.description;
        let expanded: Vec<Vec<u8>> = match answer {
            Some(Message::Expanded { paths }) => paths.into_iter().map(|path| path.0).collect(),
            Some(other) => return Err(refused(peer, &other).unwrap_or_else(|| out_of_turn(peer))),
            None => return Err(out_of_turn(peer)),
        };
        let is_expected = |path: &Vec<u8>| paths.iter().any(|pattern| may_stand_for(pattern, path));
        if expanded.is_empty() || !expanded.iter().all(is_expected) {
            Err(out_of_turn(peer))
        } else {
            Ok(expanded)
        }
    }

    /// Refuses what the server does not know; a newer one will refuse what nobody knew when this was written.
    pub(super) fn require(&self, open: &mut Open) -> Result<()> {
        let needs = Needs::of_transfer(open);
        let (unknown, must) = (needs.unknown_to(|feature| self.hello.has(feature)), needs.must());
        open.must = must;
        let Some(what) = unknown else { return Ok(()) };
        let peer = &self.channel.peer.description;
        let message =
            format!("{peer} has an older fobs, which does not know {what}; install the same version there");
        let error = Error::new(ErrorKind::Protocol, message);
        tell_abort(&self.channel.writer, &error);
        Err(error)
    }

    /// Sends the request and waits for the server's answer.
    pub(super) fn ask(&mut self, mut open: Open) -> Result<Accept> {
        self.require(&mut open)?;
        let mut hearing = Hearing::of(Awaited::Answer, &mut self.channel, self.options.timeout);
        let sent = hearing.channel.writer.send(&Message::Open(Box::new(open)));
        // Too long to be sent at all: no answer will come.
        if let Err(error) = &sent
            && error.kind == ErrorKind::Usage
        {
            return Err(error.clone());
        }
        // A server that refuses this client may close the channel before it is asked: its reason is the
        // better error.
        let heard = hearing.next_told(self.events.as_ref());
        drop(hearing);
        let peer = &self.channel.peer.description;
        let answer = match (heard, sent) {
            (Ok(Some(message @ Message::Abort { .. })), sent) => {
                return Err(refused(peer, &message).or(sent.err()).unwrap_or_else(|| out_of_turn(peer)));
            }
            (_, Err(error)) => return Err(error),
            (answer, Ok(())) => answer?,
        };
        match answer {
            Some(Message::Accept(accept)) => Ok(accept),
            Some(_) => Err(out_of_turn(peer)),
            None => Err(Error::new(
                ErrorKind::Connect,
                format!("{peer} ended the connection instead of answering; look at what it says there"),
            )),
        }
    }
}

/// The server speaks where it should not.
pub(super) fn out_of_turn(peer: &str) -> Error {
    let message = format!("{peer} answered out of turn; install the same version on both sides");
    Error::new(ErrorKind::Protocol, message)
}
