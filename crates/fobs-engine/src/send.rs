//! The sending thread: paces packets, takes acks, gives empty buffers to the reader.

mod chunks;
mod datagrams;
mod figures;
mod forward;
mod gauge;
mod held;
mod job;
mod lanes;
mod news;
mod outbox;
mod places;
mod removal;
mod steer;
mod streams;
mod telemetry;

pub use job::{SendJob, SendOutcome};

use super::causes::Causes;
use super::endurance::{ControlWatch, Floor, NewsWatch, PulseTeller, Stake};
use super::failure::{PeerName, aborted, closed_early};
use super::lanes::LanesSetup;
use super::letters::{ControlEvent, Grant, MAILBOX_MAX, Post, ToSender};
use super::measure::{Audience, Cap, SenderMeter};
use super::meter::WorkMeter;
use super::streams::Outgoing;
use super::survey::{Docket, Listing};
use super::throttle::ThrottleEnd;
use super::{Link, Reporter, reader, thread};
use crate::memory::history::RememberedPath;
use fobs_channel::control::ControlWriter;
use fobs_model::cancel::CancelToken;
use fobs_model::error::Result;
use fobs_model::measured::Measured;
use fobs_model::message::{Complete, Finished, Message};
use fobs_proto::congestion::{PathHistory, Priority, RateSource};
use fobs_proto::sender::{Sender, SenderConfig, Transmit};
use fobs_proto::session::{
    FAREWELL_WAIT, GRANTS_MAX, HEARTBEAT, PACE_GRAIN, SendPolicy, SendPolicyConfig, Side, Wait,
};
use fobs_proto::{Rate, Timestamp};
use fobs_store::delta::NameKey;
use fobs_store::{Known, LargeFiles, Removal};
use fobs_sys::Interest;
use forward::forward;
use gauge::Gauge;
use held::HeldChunks;
use lanes::{LaneHub, LateSending};
use outbox::{Outbox, Turn};
use places::PlaceTeller;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use steer::Steered;
use streams::{FramesWait, Routing};
use telemetry::Telemetry;

struct Sending {
    link: Link,
    machine: Sender,
    policy: SendPolicy,
    letters: Receiver<ToSender>,
    grants: SyncSender<Grant>,
    held: HeldChunks,
    gauge: Gauge,
    outbox: Outbox,
    known: Known,
    /// File data that the receiver has from an earlier run.
    resumed_bytes: u64,
    /// How large files were read.
    large_files: LargeFiles,
    /// Lists while the session lasts.
    _listing: Option<Listing>,
    root: Option<[u8; 32]>,
    /// What is to be removed from the source at the end.
    removal: Option<Removal>,
    complete: Option<Complete>,
    reporter: Arc<Reporter>,
    cancel: CancelToken,
    writer: ControlWriter,
    peer: PeerName,
    telemetry: Telemetry,
    remembered: RememberedPath,
    answered: Option<Duration>,
    floor: Option<Floor>,
    control_watch: Option<ControlWatch>,
    news: Option<NewsWatch>,
    pulse: PulseTeller,
    /// Moves of the peer that the machine knows of.
    moves: u64,
    streams: Option<Outgoing>,
    routing: Routing,
    steered: Steered,
    /// What the lanes share, where there are several.
    lanes: Option<LaneHub>,
    /// What more lanes are made of, where there may be any.
    late: Option<LateSending>,
    grants_max: u32,
    _throttle_end: ThrottleEnd,
}

/// Sends the object; returns after the completion signal.
pub fn send(job: SendJob) -> Result<SendOutcome> {
    job.writer.set_timeout(job.endurance.timeout);
    thread::be_punctual();
    let mut history = job.remembered.recall();
    let mut sending = Sending::start(job, history.clone())?;
    let outcome = sending.run();
    let now = sending.link.clock().now();
    sending.end_lanes(now);
    sending.measure(now, Audience::Both);
    let complete = outcome?;
    sending.telemetry.report_causes(now, &mut sending.machine, sending.lanes.as_ref());
    let finished = Finished { read: sending.large_files.rows(), ..sending.finished() };
    sending.check_roots(&complete)?;
    // The completion signal may overtake the acks of the last chunks, or those may be lost.
    sending.settle_all();
    sending.reporter.standing(&sending.standing());
    if sending.link.side == Side::Client {
        // The server closes its streams soon, and no other is to be made in their place.
        sending.streams = None;
    }
    sending.remove_sources()?;
    sending.farewell(&finished);
    // A transfer that learned nothing of the path leaves no round trip for the next one.
    history.round_trip = None;
    sending.machine.controller().remember(&mut history);
    // After the farewell, so that the peer does not wait for the disk.
    sending.remembered.keep(&history);
    sending.keep_streams();
    Ok(SendOutcome { complete, finished, taught: sending.telemetry.causes.take_lessons() })
}

/// The session's policy, for a machine of this configuration.
fn policy_of(
    config: &SenderConfig,
    (began, side): (Timestamp, Side),
    (grants_max, timeout): (u32, Duration),
    history: PathHistory,
) -> SendPolicy {
    let chunks_max = u32::try_from(config.chunks_max).unwrap_or(u32::MAX);
    SendPolicy::new(SendPolicyConfig { began, side, chunks_max, grants_max, timeout, history })
}

impl Sending {
    /// Starts the threads and the machine.
    fn start(job: SendJob, history: PathHistory) -> Result<Sending> {
        let names = NameKey::new(job.link.keys.pieces());
        let (post, letters) = Post::new(job.link.waker.clone());
        let late = job.late.map(|late| LateSending::new(late, &job.link, &post, job.endurance.timeout));
        let link = Link::new(job.link);
        let (docket, mut source) = (job.survey.map(|_| Docket::within(job.source.budget())), job.source);
        let (budget, looked) = (source.budget().clone(), source.looked().clone());
        let large_files = source.large_files().clone();
        let met = (job.answered, &history);
        let (gauge, lists) = Gauge::start(&mut source, (job.delta, names), &job.writer, met);
        let compared = source.places().filter(|_| docket.is_some() && lists.is_some());
        let routes = docket.clone().zip(Some(lists));
        let places = PlaceTeller::new(compared, &job.writer);
        forward(job.reader, post.clone(), routes, places, job.reporter.clone())?;
        let told = (job.writer.clone(), job.reporter.clone());
        let list = |(docket, form)| Listing::start(docket, &mut source, form, told, post.clone());
        let listing = docket.as_ref().zip(job.survey).map(list).transpose()?;
        let (made, around) = ((job.streams, job.lanes.as_ref()), (&link, &post, &job.remembered));
        let (streams, routing, tried) = streams::start(made, around, job.endurance.timeout)?;
        let grants_max = GRANTS_MAX + reader::hands_max() as u32;
        let ((grants, granted), reading) = (sync_channel(grants_max as usize), WorkMeter::new(link.clock()));
        let lanes = lanes_of(job.lanes, &link, &post, job.endurance.timeout)?;
        reader::start(source, granted, post, job.throttle.clone(), reading.clone())?;
        let (judge, learned_from) = job.lessons.teach(job.config.judge);
        let config = SenderConfig { ip_overhead: link.ip_overhead(), judge, ..job.config };
        let (cap, began) = (cap_of(&config, job.far_limit_bps), link.clock().now());
        let (side, timeout) = (link.side, job.endurance.timeout);
        let policy = policy_of(&config, (began, side), (grants_max, timeout), history);
        Ok(Sending {
            machine: machine_of(&link, config, (job.deadline, lanes.as_ref())),
            steered: Steered::start(job.steering, &link, &job.throttle),
            link,
            policy,
            letters,
            grants,
            held: HeldChunks::within(&budget)?,
            gauge,
            outbox: Outbox::new(),
            known: Known::default(),
            resumed_bytes: 0,
            large_files,
            _listing: listing,
            root: None,
            removal: None,
            complete: None,
            reporter: job.reporter.clone(),
            cancel: job.cancel,
            writer: job.writer,
            peer: PeerName { name: job.peer_name, ports: job.ports, side, udp_error: None, streams: tried },
            telemetry: Telemetry {
                meter: SenderMeter::new(reading, cap),
                causes: Causes::new(learned_from),
                reporter: job.reporter,
                began,
            },
            remembered: job.remembered,
            answered: job.answered,
            floor: job.endurance.floor(),
            control_watch: job.endurance.control_watch(began),
            news: job.endurance.standstill(began),
            pulse: PulseTeller::new(looked),
            moves: 0,
            streams,
            routing,
            lanes,
            late,
            grants_max,
            _throttle_end: job.throttle.end_on_drop(),
        })
    }

    fn run(&mut self) -> Result<Complete> {
        let began = self.link.clock().now();
        let mut heartbeat = began + HEARTBEAT;
        self.choose_route(began)?;
        loop {
            self.take_letters()?;
            if let Some(complete) = self.complete.take() {
                return Ok(complete);
            }
            self.grant_buffers()?;
            datagrams::take_acks(&mut self.link, &mut self.machine)?;
            self.telemetry.collect(&mut self.machine);
            self.take_stream_news();
            self.settle_verified();
            self.take_tasks();
            self.gauge.tell_of_lists(&self.writer)?;
            let greeted = || self.link.last_heard().map(|at| at - Timestamp::ZERO);
            self.policy.recall(&mut self.machine, self.answered.or_else(greeted));
            let now = self.link.clock().now();
            datagrams::validate_path(now, &mut self.link, &mut self.machine, &mut self.moves);
            self.steer(now);
            if self.machine.poll_timeout().is_some_and(|at| at <= now) {
                self.machine.handle_timeout(now);
            }
            if let Some(audience) = self.telemetry.meter.due.poll(now) {
                self.measure(now, audience);
            }
            if now >= heartbeat {
                heartbeat = now + HEARTBEAT;
                self.on_heartbeat(now)?;
            }
            self.transmit(heartbeat)?;
        }
    }

    fn on_heartbeat(&mut self, now: Timestamp) -> Result<()> {
        let silence = self.policy.check_silence(now, &self.machine, self.last_heard());
        self.check_lanes(now, silence)?;
        self.check_news(now)?;
        self.grow(now)?;
        self.choose_route(now)?;
        self.telemetry.report_causes(now, &mut self.machine, self.lanes.as_ref());
        self.reporter.standing_to_peer(self.standing());
        self.reporter.tell_progress();
        if let Some(watch) = &mut self.control_watch {
            let stake = if self.machine.is_complete() { Stake::Nothing } else { Stake::Flight };
            watch.check(now, &mut self.link, stake)?;
        }
        self.check_floor(now)?;
        self.cancel.check()
    }

    /// Sends bursts and frames until the machine wants to wait, then waits.
    fn transmit(&mut self, heartbeat: Timestamp) -> Result<()> {
        let wake = heartbeat.min(self.telemetry.meter.due.at());
        let until = self.machine.poll_timeout().unwrap_or(wake).min(wake);
        if self.steered.is_paused() {
            return self.wait_paused(until);
        }
        if !self.link.has_peer() {
            return self.pause(Wait::Answers, until, Interest::Readable);
        }
        match self.send_bursts()? {
            Turn::Busy => self.put_frames().map(|_| ()),
            Turn::Refused(at) => self.pause(Wait::Socket, until.min(at), Interest::Readable),
            Turn::Full => self.pause(Wait::Socket, until, Interest::ReadableOrWritable),
            Turn::Wait(now, next) => {
                let until = match next {
                    Transmit::WaitUntil(at) => at.max(now + PACE_GRAIN).min(until),
                    Transmit::Wait | Transmit::Burst => until,
                };
                self.note_idle_datagrams(next == Transmit::Wait);
                self.pause(self.why_waiting(), until, Interest::Readable)
            }
        }
    }

    /// Gives the streams what they take, then waits, and accounts for the time.
    fn pause(&mut self, why: Wait, until: Timestamp, interest: Interest) -> Result<()> {
        let (mut why, mut until) = (why, until);
        match self.put_frames()? {
            FramesWait::Streams if !self.machine.route().has_datagrams() => why = Wait::Streams,
            FramesWait::Until(at) => until = until.min(at.max(self.link.clock().now() + PACE_GRAIN)),
            FramesWait::Streams | FramesWait::Nothing => {}
        }
        let began = self.link.clock().now();
        self.link.wait(until - began, interest)?;
        self.telemetry.meter.waited(why, until - began, self.link.clock().now() - began);
        Ok(())
    }

    fn take_letters(&mut self) -> Result<()> {
        for _ in 0..MAILBOX_MAX {
            let Ok(letter) = self.letters.try_recv() else { return Ok(()) };
            match letter {
                ToSender::Filled(filled) => self.take_chunk(*filled)?,
                ToSender::ReadFailed(error) => return Err(error),
                ToSender::Control(event) => self.take_control(event)?,
                ToSender::LaneEnded { lane, error } => self.lane_ended(lane, &error),
            }
        }
        // There may be more: the socket comes first, but the thread must not sleep.
        self.link.waker().wake();
        Ok(())
    }

    fn take_control(&mut self, event: ControlEvent) -> Result<()> {
        let now = self.link.clock().now();
        if let Some(watch) = &mut self.control_watch {
            watch.handle_message(now);
        }
        match event {
            ControlEvent::Message(Message::Pulse(pulse)) => self.hear_pulse(now, pulse),
            ControlEvent::Message(Message::Rejected { chunk, attempt }) => {
                self.send_again(chunk, attempt)?;
            }
            ControlEvent::Message(Message::LaneRejected { lane, chunk, attempt }) => {
                self.send_lane_again(lane, chunk, attempt)?;
            }
            ControlEvent::Message(Message::LaneWanted { lane, from }) => self.lane_wanted((lane, from))?,
            ControlEvent::Message(Message::LaneAdded { lane, port, from }) => {
                self.lane_added((lane, port, from))?;
            }
            ControlEvent::Message(Message::LaneReady { lane }) => self.lane_ready(lane)?,
            ControlEvent::Message(Message::Complete(complete)) => self.complete = Some(complete),
            ControlEvent::Message(Message::Steer(wanted)) => self.steered.take(wanted),
            ControlEvent::Message(Message::Failed { path, reason }) => {
                self.reporter.failed_there(path.0, &reason);
            }
            ControlEvent::Message(Message::Deleted { path, directory }) => {
                self.reporter.deleted_there(path.0, directory);
            }
            ControlEvent::Message(Message::NotEmpty { path }) => self.reporter.not_empty_there(path.0),
            ControlEvent::Message(Message::DeletionsLeft { count }) => self.reporter.deletions_left(count),
            ControlEvent::Message(Message::Notice { text }) => self.reporter.notice_there(&text),
            ControlEvent::Message(Message::ReceiverSample(sample)) => {
                self.telemetry.causes.hear_receiver(sample.host_drops());
                self.watch_receiver(&sample);
                self.reporter.there(Measured::Receiver(*sample));
            }
            ControlEvent::Message(Message::Remedy(remedy)) => self.reporter.there(Measured::Remedy(remedy)),
            ControlEvent::Message(message) => {
                aborted(&self.peer.name, &message).map_or(Ok(()), Err)?;
            }
            // A receiver whose path was slow has waited long enough for our last message.
            ControlEvent::Closed(_) if self.complete.is_some() => {}
            ControlEvent::Closed(error) => return Err(closed_early(error)),
        }
        Ok(())
    }

    /// Both sides hashed every file: their roots must agree (protocol 7.6).
    fn check_roots(&self, complete: &Complete) -> Result<()> {
        let ours = self.root.map(|root| blake3::Hash::from_bytes(root).to_hex().to_string());
        if ours.as_ref() == Some(&complete.root) {
            Ok(())
        } else {
            Err(self.peer.roots_differ(&complete.root))
        }
    }

    /// Sends the last message and waits, for a bounded time, until the peer hangs up.
    fn farewell(&mut self, finished: &Finished) {
        let sent = self.writer.post(&Message::Finished(finished.clone()));
        let end = Instant::now() + FAREWELL_WAIT;
        while sent.is_ok() && Instant::now() < end {
            match self.letters.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(ToSender::Control(ControlEvent::Closed(_)))
                | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                Ok(ToSender::Control(ControlEvent::Message(Message::Failed { path, reason }))) => {
                    self.reporter.failed_there(path.0, &reason);
                }
                Ok(_) => {}
            }
        }
    }
}

/// The machine, which is to be in time where there is a deadline, and shares the user's cap with other lanes.
fn machine_of(
    link: &Link,
    config: SenderConfig,
    (deadline, lanes): (Option<(Duration, Priority)>, Option<&LaneHub>),
) -> Sender {
    let began = link.clock().now();
    let mut machine = Sender::new(began, config);
    if link.is_to_greet() {
        machine.greet_first();
    }
    lanes.iter().for_each(|lanes| machine.share_rate_limit(lanes.limit_share()));
    if let Some((left, most)) = deadline {
        machine.pursue(began, began + left, most);
    }
    machine
}

/// The lanes beside the first, if there are any.
fn lanes_of(
    lanes: Option<(LanesSetup, Vec<SenderConfig>)>,
    link: &Link,
    session: &Post<ToSender>,
    timeout: Duration,
) -> Result<Option<LaneHub>> {
    let Some((setup, configs)) = lanes else { return Ok(None) };
    LaneHub::start(setup, configs, link, session, timeout).map(Some)
}

/// The cap on the rate, and the far end's.
fn cap_of(config: &SenderConfig, far_bps: Option<u64>) -> Cap {
    let bits = |rate: Rate| rate.as_bytes().saturating_mul(8);
    let chosen = match config.controller.rate_source() {
        RateSource::User => config.controller.pacing_rate(),
        RateSource::Path | RateSource::Host => config.rate_limit,
    };
    let far = far_bps.map(Rate::bits_per_second);
    Cap { bps: chosen.map_or(0, bits), far_bps: far.map_or(0, bits) }
}
