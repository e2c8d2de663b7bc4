//! The calling side of one transfer.

mod busy;
mod candidates;
mod copy;
mod dial;
mod direct;
mod ends;
mod files;
pub(crate) mod hearing;
mod lane_count;
mod lanes;
pub mod line;
mod link;
pub mod manner;
mod persist;
pub(crate) mod pipe;
pub(crate) mod probe;
mod request;
mod resume;
mod streams;
mod versions;

use crate::examine::walls_here;
use crate::session::{
    check_bases, chunks_of, cp_rules, cp_survey, delta_of, listing_form, pursuit, receiver_config,
    sender_config, sending_of, summary, sync_survey, uses_later_features, with_lanes,
};
pub(crate) use copy::copy;
use copy::expands;
use direct::{COPY_ROOM, copy_may_be_direct, object_of};
pub(crate) use ends::{check, make_sink, make_source, sender_options};
use fobs_channel::control::{ChannelLane, ControlChannel, ControlWriter, DoorMailbox, ssh};
use fobs_channel::secure::datagram::{Cipher, Direction};
use fobs_engine::memory::history::RememberedPath;
use fobs_engine::memory::lessons::Lessons;
use fobs_engine::{LaneConfig, LateLanes, ReceiveJob, RemedyPolicy, SendJob, Throttle, tell_abort};
use fobs_model::cancel::{CancelHook, CancelToken};
use fobs_model::direction::TransferDirection;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{Event, EventSink, Summary, control};
use fobs_model::message::{Accept, Hello, Open, PARTS, PathRole, Reuse, STEER, Sending};
use fobs_model::options::sync::SYNC2;
use fobs_model::options::{Carrier, Privileges, Remote, ShellGrammar, TransferOptions, Transport};
use fobs_model::walls::Walls;
use fobs_store::{Sink, Source};
use fobs_sys::confine;
use fobs_sys::confine::Domain;
use lane_count::ClientLanes;
use persist::{Course, Start, Telling};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Said where a server could keep what was asked for, and does not.
const WITHHELD: &str = "this key is not privileged on the other host: owners, groups, devices, set-id bits and \
    security attributes are left out there";

/// A session whose hellos are exchanged.
struct Client<'a> {
    channel: ControlChannel,
    ssh: Option<ssh::SshProcess>,
    /// Names and addresses of the host that the control channel reached.
    hosts: Vec<String>,
    /// The TCP port of the daemon; 0 over SSH.
    tcp_port: u16,
    /// The stream inside the control channel, until the session begins.
    lane: Option<(ChannelLane, DoorMailbox)>,
    hello: Hello,
    options: &'a TransferOptions,
    events: Arc<dyn EventSink>,
    cancel: &'a CancelToken,
    /// Ends the waits of the set-up. Withdrawn before the engine runs, which tells the peer why it ends.
    hook: Option<CancelHook>,
    /// What is asked of a server that keeps the connection.
    reuse: Reuse,
    lanes: ClientLanes,
    /// Chunks that this side may hold at once.
    chunks_max: u32,
}

/// A server that was reached before, as one more channel to it finds it.
struct Known<'k> {
    hosts: &'k [String],
    tcp_port: u16,
    hello: &'k Hello,
}

impl<'a> Client<'a> {
    /// A session over one more channel to a server whose hello is known. Nothing ends its set-up, and its
    /// server keeps nothing.
    fn over(
        channel: ControlChannel,
        known: Known<'_>,
        (options, cancel): (&'a TransferOptions, &'a CancelToken),
        events: &Arc<dyn EventSink>,
    ) -> Client<'a> {
        Client {
            channel,
            ssh: None,
            hosts: known.hosts.to_vec(),
            tcp_port: known.tcp_port,
            lane: None,
            hello: known.hello.clone(),
            options,
            events: events.clone(),
            cancel,
            hook: None,
            reuse: Reuse::default(),
            lanes: ClientLanes::default(),
            chunks_max: chunks_of(options),
        }
    }
}

/// The figures of a complete transfer, and when it was complete.
type Done = (Summary, SystemTime);

impl Client<'_> {
    /// What a sender's configuration has of the room at both ends: the packet size, the first chunk for
    /// which the receiver has none, and how many chunks this side holds.
    fn room(&self, accept: &Accept) -> (Option<u16>, u32, u32) {
        (self.options.packet_size, accept.chunk_limit, self.chunks_max)
    }

    /// A destination, of which a home is to be looked up there, or what a sync's pattern stands for.
    fn destination(&mut self, remote: &Remote) -> Result<Remote> {
        let path = remote.path.clone();
        let is_meant = path.starts_with(b"~") || self.options.sync.is_some() && self.hello.has(SYNC2);
        if !is_meant || !expands(remote, std::slice::from_ref(&path)) {
            return Ok(remote.clone());
        }
        let mut paths = self.expand(&[path], PathRole::Destination)?;
        Ok(Remote { path: paths.swap_remove(0), ..remote.clone() })
    }

    fn push(
        mut self,
        mut source: Source,
        names: Vec<Vec<u8>>,
        remote: &Remote,
        course: &mut Course,
    ) -> Result<Done> {
        let knows_survey = self.knows_survey();
        if knows_survey {
            source.tell_identities();
        }
        let sync = self.options.sync.as_deref();
        let wants_survey = self.options.append_verify || self.options.delta || sync.is_some();
        let resuming = self.resuming(course.id, names, knows_survey && wants_survey);
        let open = self.open(TransferDirection::Push, vec![remote.path.clone()], resuming, course)?;
        let open = Open { shape: Some(source.shape()), ..open };
        let (asked, accept) = (Instant::now(), self.ask(open));
        let mut accept =
            accept.map_err(|error| self.cancel.explain(blame(error, self.ssh.as_ref(), self.cancel)))?;
        let (answered, room) = (Some(asked.elapsed()), self.room(&accept));
        self.tell_of_destination(&accept);
        let mut sending = sending_of(self.options);
        // What is beyond the server's limit would only wait for credit, and arrive in bursts.
        sending.limit_bps = sending.limit_bps.into_iter().chain(accept.limit_bps).min();
        let make = |sending: &Sending| sender_config(sending, room.0, room.1, room.2);
        let config = make(&sending)?;
        let cc = config.controller.name();
        let (link, cipher, streams) = self.data_plane(&mut accept, Direction::Sender, Some(cc))?;
        let (watch, reporter) = self.watched(TransferDirection::Push);
        let (config, lanes) = with_lanes(config, self.lanes.setup.take(), &sending, make)?;
        self.started(cipher, cc, None, course)?;
        course.reporter = Some(reporter.clone());
        let lessons = Lessons::of_the_user(&self.channel.peer);
        let job = SendJob {
            link,
            lanes,
            late: self.late_lanes(sending.clone(), room),
            streams,
            source,
            survey: (knows_survey && accept.survey)
                .then(|| listing_form(sync, self.options.checksum, self.hello.has(PARTS))),
            delta: delta_of(sync, self.options.delta),
            config,
            endurance: course.endurance(self.options, Telling::of(&self.hello)),
            deadline: pursuit(&sending),
            steering: course.steering.clone(),
            reader: self.channel.reader,
            writer: self.channel.writer.clone(),
            reporter: reporter.clone(),
            cancel: self.cancel.clone(),
            throttle: Throttle::default(),
            far_limit_bps: accept.limit_bps,
            remembered: RememberedPath::of_the_user(&self.channel.peer),
            answered,
            lessons: lessons.clone(),
            peer_name: self.channel.peer.description,
            ports: link::ports_of(&accept),
        };
        let outcome = fobs_engine::send(job)
            .map_err(|error| blame(error, self.ssh.as_ref(), self.cancel))
            .inspect_err(|error| tell_abort(&self.channel.writer, error));
        hang_up(&self.channel.writer, self.ssh);
        let (outcome, began, errors) = (outcome?, course.began, reporter.errors());
        let done = summary(Direction::Sender, &outcome.complete, &outcome.finished, cipher, began, errors);
        let done = watch.conclude(Summary { deletions_left: reporter.all_deletions_left(), ..done });
        // What is learned is for the next transfer and no part of this one's time.
        let complete_at = SystemTime::now();
        lessons.keep(outcome.taught);
        Ok((done, complete_at))
    }

    /// What lanes need that may be added to a push.
    fn late_lanes(
        &mut self,
        sending: Sending,
        room: (Option<u16>, u32, u32),
    ) -> Option<(LateLanes, LaneConfig)> {
        let config: LaneConfig = Box::new(move || sender_config(&sending, room.0, room.1, room.2));
        self.lanes.late.take().map(|late| (late, config))
    }

    /// What the answer to a push says of the destination.
    fn tell_of_destination(&self, accept: &Accept) {
        if accept.withholds {
            self.events.event(Event::Notice(WITHHELD.to_owned()));
        }
        if let (Some(made), Some(_)) = (accept.made, &self.options.sync) {
            self.events.event(Event::DestinationMade(made));
        }
    }

    fn pull(mut self, paths: Vec<Vec<u8>>, mut sink: Sink, course: &mut Course) -> Result<Done> {
        let knows_survey = self.knows_survey();
        let wants_survey = sink.history().is_some() || self.options.append_verify || self.options.delta;
        let rules = cp_rules(self.options.append_verify, self.options.checksum);
        check_bases(&sink, None)?;
        let mut survey = match &self.options.sync {
            Some(sync) => {
                let has = |feature: &str| self.hello.has(feature);
                Some(sync_survey(&mut sink, sync.clone(), Privileges::OfTheUser, has)?)
            }
            None => (knows_survey && wants_survey).then(|| cp_survey(&mut sink, rules, self.options.delta)),
        };
        let resuming = self.resuming(course.id, Vec::new(), survey.is_some());
        if !self.reuse.keep && copy_may_be_direct(self.options) && sink.history().is_none() {
            self.reuse.room = Some(COPY_ROOM);
        }
        let open = self.open(TransferDirection::Pull, paths, resuming, course)?;
        let cc = self.options.congestion_control.name();
        let (asked, has_room) = (Instant::now(), open.reuse.room.is_some());
        let mut accept = self
            .ask(open)
            .map_err(|error| self.cancel.explain(blame(error, self.ssh.as_ref(), self.cancel)))?;
        // A hello that was foretold has come before the answer.
        self.hello.features.extend(self.channel.reader.late_features());
        uses_later_features(survey.as_mut(), |feature| self.hello.has(feature));
        if let Some(object) = object_of(&mut accept, has_room, &self.channel.peer.description)? {
            return self.take_direct(&object, sink, asked, course);
        }
        let (link, cipher, streams) = self.data_plane(&mut accept, Direction::Receiver, None)?;
        if !self.hello.has(STEER) {
            course.steering.is_in_vain();
        }
        self.started(cipher, cc, Some(walls_here()), course)?;
        let made = sink.directories_made().filter(|_| self.options.sync.is_some());
        made.into_iter().for_each(|made| self.events.event(Event::DestinationMade(made)));
        let (watch, reporter) = self.watched(TransferDirection::Pull);
        course.reporter = Some(reporter.clone());
        sink.take_notices().into_iter().for_each(|notice| reporter.notice_here(notice));
        let domain = Domain::of_receiver(sink.writes_below()?);
        let job = ReceiveJob {
            link,
            lanes: self.lanes.setup.take(),
            late: self.lanes.late.take(),
            streams,
            sink,
            survey,
            config: receiver_config(self.options.ack_every, self.chunks_max),
            endurance: course.endurance(self.options, Telling::of(&self.hello)),
            remedies: RemedyPolicy::of(self.options.loss_cause.name()),
            steering: course.steering.clone(),
            reader: self.channel.reader,
            writer: self.channel.writer.clone(),
            reporter: reporter.clone(),
            cancel: self.cancel.clone(),
            throttle: Throttle::default(),
            peer_name: self.channel.peer.description,
            ports: link::ports_of(&accept),
        };
        let receive = || fobs_engine::receive(job);
        let outcome = confine::within(domain, "fobs-receive", receive)
            .map_err(Error::internal)
            .and_then(|outcome| outcome)
            .map_err(|error| blame(error, self.ssh.as_ref(), self.cancel))
            .inspect_err(|error| tell_abort(&self.channel.writer, error));
        hang_up(&self.channel.writer, self.ssh);
        let (outcome, began, errors) = (outcome?, course.began, reporter.errors());
        let done = summary(Direction::Receiver, &outcome.complete, &outcome.finished, cipher, began, errors);
        let done = watch.conclude(Summary { deletions_left: reporter.all_deletions_left(), ..done });
        Ok((done, SystemTime::now()))
    }

    /// Hands the session over to the engine, unless the hook has closed its channel. `walls` are around what
    /// this end stores.
    fn started(
        &mut self,
        cipher: Cipher,
        cc: &'static str,
        walls: Option<Walls>,
        course: &mut Course,
    ) -> Result<()> {
        self.hook = None;
        self.cancel.check()?;
        let control = control_word(&self.channel, self.options);
        self.events.event(match course.started() {
            Start::First => {
                let transport = first_transport(self.options.transport);
                let key_exchange = self.channel.key_exchange;
                Event::Started { control, key_exchange, transport, cipher: cipher.name(), cc, walls }
            }
            Start::Again => Event::Notice("connected again: the copy goes on".to_owned()),
        });
        Ok(())
    }
}

/// The control channel in a word, of events and records.
fn control_word(channel: &ControlChannel, options: &TransferOptions) -> &'static str {
    match (channel.carrier, options.ssh.grammar) {
        (Carrier::Daemon, _) => control::TLS,
        (Carrier::Ssh, ShellGrammar::Ssh) => control::SSH,
        (Carrier::Ssh, ShellGrammar::HostAndCommand) => control::PIPE,
    }
}

/// What data begins on.
fn first_transport(transport: Transport) -> &'static str {
    match transport {
        Transport::Auto | Transport::Udp => "udp",
        Transport::Tcp { .. } => "tcp",
        Transport::Channel => "channel",
    }
}

/// The error to report for a session that failed with `error`.
fn blame(error: Error, ssh: Option<&ssh::SshProcess>, cancel: &CancelToken) -> Error {
    match ssh {
        Some(process) => process.blame(error, cancel),
        None if error.kind == ErrorKind::Connect => cancel.explain(error),
        None => error,
    }
}

fn hang_up(writer: &ControlWriter, ssh: Option<ssh::SshProcess>) {
    writer.close();
    if let Some(process) = ssh {
        // How ssh ended no longer matters: both sides have sent their last message, or the error is already
        // known.
        let _ = process.finish();
    }
}
