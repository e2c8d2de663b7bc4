//! Sessions that examine the other end and try the path, without files.

use super::busy::outlast;
use super::hearing::{Awaited, Hearing};
use super::manner::Manner;
use super::persist::{Course, Remedy, Telling};
use super::{Client, blame, hang_up, link};
use crate::examine::{Nowhere, Zeros, clock_s};
use crate::session::{receiver_config, sender_config, sending_of, summary};
use fobs_channel::secure::datagram::Direction;
use fobs_engine::memory::history::RememberedPath;
use fobs_engine::memory::lessons::Lessons;
use fobs_engine::{Clock, ReceiveJob, RemedyPolicy, Reporter, SendJob, Steering, Throttle, tell_abort};
use fobs_model::cancel::CancelToken;
use fobs_model::direction::TransferDirection;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{EventSink, Summary};
use fobs_model::host_facts::HostFacts;
use fobs_model::message::{Accept, Bytes, Message, Open, Resuming};
use fobs_model::options::sync::Delta;
use fobs_model::options::{Remote, TransferOptions};
use fobs_store::{Sink, Source, SourceShape, TransferId};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// How a path is tried.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'a> {
    pub(crate) remote: &'a Remote,
    pub(crate) options: &'a TransferOptions,
    /// For how long.
    pub(crate) time: Duration,
}

/// The other end's answer.
pub(crate) struct Examined {
    pub(crate) facts: HostFacts,
    /// Our clock when it arrived, seconds since 1970.
    pub(crate) received_s: f64,
}

/// A session without files that can begin.
pub(crate) struct Ready<'a> {
    client: Client<'a>,
    accept: Accept,
    /// The addresses of the other host.
    pub(crate) peer: Option<IpAddr>,
    /// Its UDP port.
    pub(crate) port: Option<u16>,
    /// For how long this end sends.
    pub(crate) time: Duration,
}

impl<'a> Ready<'a> {
    /// Calls the other end, and has it examine itself if `examine` names a directory there. The session then
    /// moves data in this direction.
    pub(crate) fn call(
        probe: Probe<'a>,
        direction: TransferDirection,
        examine: Option<&[u8]>,
        events: Arc<dyn EventSink>,
        cancel: &'a CancelToken,
    ) -> Result<(Ready<'a>, Option<Examined>)> {
        let steering = Steering::new();
        let manner = Manner { options: probe.options, events: &events, cancel, steering: &steering };
        outlast(manner, || Ready::call_once(probe, direction, examine, events.clone(), cancel))
    }

    fn call_once(
        probe: Probe<'a>,
        direction: TransferDirection,
        examine: Option<&[u8]>,
        events: Arc<dyn EventSink>,
        cancel: &'a CancelToken,
    ) -> Result<(Ready<'a>, Option<Examined>)> {
        let mut client = Client::call(probe.remote, probe.options, events, cancel)?;
        let shape = (direction == TransferDirection::Push).then_some(SourceShape::Stream);
        let open = Open {
            shape,
            probe: Some(probe.time),
            ..client.plain_open(direction, vec![probe.remote.path.clone()], Resuming::default())
        };
        let (examined, accept) = client
            .ask_both(examine, open)
            .map_err(|error| cancel.explain(blame(error, client.ssh.as_ref(), cancel)))?;
        let address = |name: &String| name.parse::<IpAddr>().ok();
        let peer = client.channel.peer.address.or_else(|| {
            let named = accept.udp_addresses.iter().filter_map(|at| at.host.as_ref());
            named.chain(&client.hosts).find_map(address)
        });
        let port = accept.udp_addresses.first().map(|at| at.port);
        Ok((Ready { client, accept, peer, port, time: probe.time }, examined))
    }

    /// Sends data for the time that was chosen.
    pub(crate) fn push(self, events: Arc<dyn EventSink>) -> Result<Summary> {
        let Ready { mut client, mut accept, time, .. } = self;
        let (began, options, cancel) = (Clock::start(), client.options, client.cancel);
        let config =
            sender_config(&sending_of(options), options.packet_size, accept.chunk_limit, client.chunks_max)?;
        let cc = config.controller.name();
        let (link, _, cipher) = client.link(&mut accept, Direction::Sender, Some(cc))?;
        client.events = events.clone();
        let mut course = Course::new(TransferId::default(), Remedy::None);
        client.started(cipher, cc, None, &mut course)?;
        let reporter = Reporter::new(events, client.channel.writer.clone());
        let endurance = course.endurance(client.options, Telling::of(&client.hello));
        let outcome = fobs_engine::send(SendJob {
            link,
            lanes: None,
            late: None,
            // It is UDP that is tried.
            streams: None,
            source: Source::from_stream(Box::new(Zeros::new(time)), false)?,
            survey: None,
            delta: Delta::Never,
            config,
            endurance,
            deadline: None,
            reader: client.channel.reader,
            writer: client.channel.writer.clone(),
            reporter,
            cancel: cancel.clone(),
            throttle: Throttle::default(),
            far_limit_bps: accept.limit_bps,
            remembered: RememberedPath::of_the_user(&client.channel.peer),
            // The answer waited for an examination.
            answered: None,
            lessons: Lessons::of_the_user(&client.channel.peer),
            steering: Steering::new(),
            peer_name: client.channel.peer.description,
            ports: link::ports_of(&accept),
        });
        let outcome = outcome
            .map_err(|error| blame(error, client.ssh.as_ref(), cancel))
            .inspect_err(|error| tell_abort(&client.channel.writer, error));
        hang_up(&client.channel.writer, client.ssh);
        let outcome = outcome?;
        Ok(summary(Direction::Sender, &outcome.complete, &outcome.finished, cipher, began, Vec::new()))
    }

    /// Receives data for the time that was chosen.
    pub(crate) fn pull(self, events: Arc<dyn EventSink>) -> Result<Summary> {
        let Ready { mut client, mut accept, .. } = self;
        let (began, options, cancel) = (Clock::start(), client.options, client.cancel);
        let (link, _, cipher) = client.link(&mut accept, Direction::Receiver, None)?;
        client.events = events.clone();
        let mut course = Course::new(TransferId::default(), Remedy::None);
        client.started(cipher, options.congestion_control.name(), None, &mut course)?;
        let reporter = Reporter::new(events, client.channel.writer.clone());
        let endurance = course.endurance(client.options, Telling::of(&client.hello));
        let outcome = fobs_engine::receive(ReceiveJob {
            link,
            lanes: None,
            late: None,
            streams: None,
            sink: Sink::to_stream(Box::new(Nowhere::new()), SourceShape::Stream)?,
            survey: None,
            config: receiver_config(options.ack_every, client.chunks_max),
            endurance,
            remedies: RemedyPolicy::of(options.loss_cause.name()),
            reader: client.channel.reader,
            writer: client.channel.writer.clone(),
            reporter,
            cancel: cancel.clone(),
            throttle: Throttle::default(),
            steering: Steering::new(),
            peer_name: client.channel.peer.description,
            ports: link::ports_of(&accept),
        });
        let outcome = outcome
            .map_err(|error| blame(error, client.ssh.as_ref(), cancel))
            .inspect_err(|error| tell_abort(&client.channel.writer, error));
        hang_up(&client.channel.writer, client.ssh);
        let outcome = outcome?;
        Ok(summary(Direction::Receiver, &outcome.complete, &outcome.finished, cipher, began, Vec::new()))
    }
}

impl Client<'_> {
    /// Sends the request, that for an examination before it, and waits for both answers.
    fn ask_both(&mut self, examine: Option<&[u8]>, open: Open) -> Result<(Option<Examined>, Accept)> {
        let mut open = open;
        self.require(&mut open)?;
        let peer = self.channel.peer.description.clone();
        let mut hearing = Hearing::of(Awaited::Answer, &mut self.channel, self.options.timeout);
        let writer = &hearing.channel.writer;
        if let Some(directory) = examine {
            writer.send(&Message::Examine { directory: Bytes(directory.to_vec()) })?;
        }
        let sent = writer.send(&Message::Open(Box::new(open)));
        let broken = |kind, what: &str| Err(Error::new(kind, format!("{peer} {what}")));
        let mut examined = None;
        loop {
            match hearing.next_told(self.events.as_ref())? {
                Some(Message::Examined(facts)) if examine.is_some() && examined.is_none() => {
                    examined = Some(Examined { facts: facts.of_a_peer(), received_s: clock_s() });
                }
                Some(Message::Accept(accept)) if examine.is_some() == examined.is_some() => {
                    return Ok((examined, accept));
                }
                // The reason explains more than a failed write.
                Some(other) => {
                    if let Some(refusal) = fobs_engine::refused(&peer, &other) {
                        return Err(refusal);
                    }
                    let what = "answered out of turn; install the same version on both sides";
                    return broken(ErrorKind::Protocol, what);
                }
                None => {
                    sent?;
                    let what = "ended the connection instead of answering; look at what it says there";
                    return broken(ErrorKind::Connect, what);
                }
            }
        }
    }
}
