//! The receiving thread: takes packets into chunk buffers and acknowledges them.

mod batches;
mod ending;
mod intake;
mod job;
mod lanes;
mod news;
mod streams;

pub use job::{ReceiveJob, ReceiveOutcome};

use super::endurance::{ControlWatch, Floor, NewsWatch, PulseTeller, Stake};
use super::failure::{PeerName, aborted, closed_early, never_verified, taken_over, tell_abort, unasked};
use super::host::HostWatch;
use super::lanes::{LanesSetup, LateCourse};
use super::letters::{ControlEvent, MAILBOX_MAX, Post, Routed, ToReceiver, forward_control};
use super::measure::{Audience, ReceiverMeter};
use super::meter::WorkMeter;
use super::remedy::{Remedies, RemedyPolicy};
use super::streams::Incoming;
use super::survey::{Answering, Inbox, NamingBases, violation};
use super::throttle::ThrottleEnd;
use super::writer::{self, Store};
use super::{Link, Reporter, Steering, thread};
use fobs_channel::control::{ControlReader, ControlWriter};
use fobs_model::cancel::CancelToken;
use fobs_model::error::Result;
use fobs_model::measured::Measured;
use fobs_model::message::{Finished, Message};
use fobs_model::sample::ReceiverSample;
use fobs_proto::receiver::{ChunkVerification, Receiver, ReceiverConfig};
use fobs_proto::session::{HEARTBEAT, Presence, ReceivePolicy, Side, Stored, VerdictOutcome};
use fobs_proto::{ChunkId, Timestamp};
use fobs_store::delta::{FineAsk, NameKey, Offers};
use fobs_store::survey::Compare;
use fobs_store::{Asked, Closing, SinkSummary, Suspended, TakeoverWatch};
use fobs_sys::Interest;
use intake::Arrivals;
use lanes::{LaneNeeds, LaneQuay, LateReceiving};
use news::Keepalives;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a receiver that ends early waits for its writer to clean up: the writer may be stuck in a write
/// to a disk or a pipe that has stopped, and then nothing can be cleaned up anyway.
const CLEAN_UP_WAIT: Duration = Duration::from_secs(10);
/// How often it looks whether the writer is done.
const CLEAN_UP_POLL: Duration = Duration::from_millis(2);

struct Receiving {
    link: Link,
    machine: Receiver,
    policy: ReceivePolicy,
    letters: mpsc::Receiver<ToReceiver>,
    store: Store,
    arrivals: Arrivals,
    next_ack: u64,
    /// The chunk that failed for the last time, and how often it was tried.
    hopeless: Option<(ChunkId, u8)>,
    last_verified: Timestamp,
    summary: Option<(SinkSummary, Closing)>,
    /// The sender's last message.
    finished: Option<Finished>,
    /// What is done about losses at this host; `None` does nothing.
    remedies: Option<Remedies>,
    reporter: Arc<Reporter>,
    cancel: CancelToken,
    writer: ControlWriter,
    peer: PeerName,
    meter: ReceiverMeter,
    host: HostWatch,
    /// Tells when the client has come again; `None` where nothing is locked.
    takeover: Option<TakeoverWatch>,
    /// Since when another session of the client waits for this one's end.
    asked_since: Option<Timestamp>,
    /// Decides while the session lasts.
    _answering: Option<Answering>,
    /// Lists while the session lasts.
    _naming: Option<NamingBases>,
    floor: Option<Floor>,
    control_watch: Option<ControlWatch>,
    news: Option<NewsWatch>,
    pulse: PulseTeller,
    keepalives: Keepalives,
    timeout: Duration,
    began: Timestamp,
    streams: Option<Incoming>,
    steering: Steering,
    /// The version of what the sender was told last.
    steered: u64,
    /// Where the chunks of several lanes come together.
    lanes: Option<LaneQuay>,
    /// What more lanes are made of, where there may be any.
    late: Option<LateReceiving>,
    /// One past the newest chunk that went to the store by no desk.
    handed: ChunkId,
    _throttle_end: ThrottleEnd,
}

/// Receives the object; returns after the sender's last message.
pub fn receive(job: ReceiveJob) -> Result<ReceiveOutcome> {
    let (control, reporter) = (job.writer.clone(), job.reporter.clone());
    let (mut receiving, storing) = Receiving::start(job)?;
    let outcome = receiving.run_to_end();
    // However it ended: the writer must have removed or recorded what is not complete before this process may
    // exit.
    drop(receiving);
    if let Err(error) = &outcome
        && !storing.is_finished()
    {
        // The sender need not wait for that.
        tell_abort(&control, error);
    }
    let end = Instant::now() + CLEAN_UP_WAIT;
    while !storing.is_finished() && Instant::now() < end {
        std::thread::sleep(CLEAN_UP_POLL);
    }
    if outcome.is_err()
        && storing.is_finished()
        && let Ok(Some(suspended)) = storing.join()
    {
        reporter.suspended(&suspended);
    }
    outcome
}

/// Takes listings to the survey, and every other message to the receiver.
fn forward(
    reader: ControlReader,
    post: Post<ToReceiver>,
    mut inbox: Option<Inbox>,
    offers: Option<Offers>,
) -> Result<()> {
    forward_control(reader, post, ToReceiver::Control, move |message| match (message, &mut inbox) {
        (Message::Listing { first, entries, last }, Some(inbox)) => inbox.take(first, entries.0, last),
        (Message::Listing { .. }, None) => Routed::Broken(unasked("listings")),
        (Message::PathThere { there }, Some(inbox)) => inbox.path_is_there(there),
        (Message::PathThere { .. }, None) => Routed::Broken(unasked("answers about paths")),
        (Message::Lists { wanted }, _) => {
            offers.iter().for_each(|offers| offers.are_wanted(wanted));
            Routed::Taken
        }
        (Message::Closer { row, from, len, average, in_place }, _) => match &offers {
            Some(offers) => FineAsk::from_wire((row, from, len), average, in_place)
                .and_then(|ask| offers.ask(ask))
                .map_or_else(|what| Routed::Broken(violation(what)), |()| Routed::Taken),
            None => Routed::Broken(unasked("questions for pieces of files")),
        },
        (message, _) => Routed::Deliver(message),
    })
}

impl Receiving {
    /// Starts the threads and the machine; with the writer's thread.
    fn start(job: ReceiveJob) -> Result<(Receiving, JoinHandle<Option<Suspended>>)> {
        thread::be_punctual();
        job.writer.set_timeout(job.endurance.timeout);
        let names = NameKey::new(job.link.keys.pieces());
        let late = job.late.map(|late| LateCourse::new(late, &job.link));
        let link = Link::new(job.link);
        let (post, letters) = Post::new(link.waker());
        let told = || (job.writer.clone(), job.reporter.clone());
        let looked = job.survey.as_ref().map(Compare::looked).unwrap_or_default();
        let offers = job.survey.as_ref().and_then(Compare::offers);
        let listed = offers.clone();
        let naming = offers.map(|offers| NamingBases::start(offers, names, told(), post.clone()));
        let naming = naming.transpose()?;
        let answering = job.survey.map(|compare| Answering::start(compare, told(), post.clone()));
        let (answering, inbox) = answering.transpose()?.unzip();
        forward(job.reader, post.clone(), inbox, listed)?;
        let (streams, tried) = streams::start(job.streams, job.lanes.as_ref(), &link, &post)?;
        let mut sink = job.sink;
        let (budget, takeover) = (sink.budget().clone(), sink.watch());
        let (writing, to_lanes) = (WorkMeter::new(link.clock()), post.clone());
        let (store, storing) =
            writer::start(sink, post, job.throttle.clone(), job.reporter.clone(), writing.clone())?;
        let ends = (job.writer.clone(), to_lanes, budget.clone());
        let needs = LaneNeeds::new(link.clock(), job.config, (job.endurance.timeout, job.remedies), ends);
        let (config, lanes) = lanes_of(job.lanes, &needs)?;
        let late = late.map(|course| LateReceiving::new(course, needs));
        let mut machine = Receiver::new(config);
        machine.handle_socket_buffer(link.recv_buffer() as u64);
        job.steering.attach(link.waker());
        let (began, side) = (link.clock().now(), link.side);
        let receiving = Receiving {
            policy: ReceivePolicy::new(began, side, job.endurance.timeout),
            link,
            machine,
            letters,
            store,
            arrivals: Arrivals::within(&budget)?,
            next_ack: 0,
            hopeless: None,
            last_verified: Timestamp::ZERO,
            summary: None,
            finished: None,
            remedies: (job.remedies == RemedyPolicy::Apply).then(Remedies::new),
            reporter: job.reporter,
            cancel: job.cancel,
            writer: job.writer,
            peer: PeerName { name: job.peer_name, ports: job.ports, side, udp_error: None, streams: tried },
            meter: ReceiverMeter::new(writing),
            host: HostWatch::default(),
            takeover,
            asked_since: None,
            _answering: answering,
            _naming: naming,
            floor: job.endurance.floor(),
            control_watch: job.endurance.control_watch(began),
            news: job.endurance.standstill(began),
            pulse: PulseTeller::new(looked),
            keepalives: Keepalives::default(),
            timeout: job.endurance.timeout,
            began,
            streams,
            steering: job.steering,
            steered: 0,
            lanes,
            late,
            handed: 0,
            _throttle_end: job.throttle.end_on_drop(),
        };
        Ok((receiving, storing))
    }

    fn run_to_end(&mut self) -> Result<ReceiveOutcome> {
        let summary = self.run();
        self.measure(Audience::Both);
        let (summary, closing) = summary?;
        let complete = self.completion(&summary);
        self.send_message(&Message::Complete(complete.clone()))?;
        let finished = self.await_finished()?;
        // A client has what it came for; a client that pushes may have missed the signal, and come again.
        if finished.is_some() || self.link.side == Side::Client {
            closing.acknowledged();
        }
        Ok(ReceiveOutcome { complete, finished: finished.unwrap_or_default() })
    }

    fn run(&mut self) -> Result<(SinkSummary, Closing)> {
        let mut heartbeat = self.began + HEARTBEAT;
        loop {
            self.take_letters()?;
            if let Some(summary) = self.summary.take() {
                return Ok(summary);
            }
            self.steer()?;
            let socket_is_empty = self.take_batches()?;
            self.take_frames()?;
            let now = self.link.clock().now();
            if self.policy.wants_drop_count(now, &self.machine, socket_is_empty) {
                self.count_drops();
            }
            if self.policy.poll_reminder(now, self.link.last_heard()) {
                let ack = self.machine.make_ack(now);
                self.send_ack(&ack)?;
            }
            if let Some(ack) = self.machine.poll_ack(now) {
                self.send_ack(&ack)?;
            }
            while let Some(packet) = self.link.poll_path_packet(now) {
                self.link.send_path_packet(self.next_ack, &packet);
                self.next_ack += 1;
            }
            if let Some(audience) = self.meter.due.poll(now) {
                self.measure(audience);
            }
            if now >= heartbeat {
                heartbeat = now + HEARTBEAT;
                self.on_heartbeat(now)?;
            }
            let wake = heartbeat.min(self.meter.due.at());
            let wake = wake.min(self.policy.reminder_at(self.link.last_heard()));
            let until = self.machine.poll_timeout().unwrap_or(wake).min(wake);
            let began = self.link.clock().now();
            self.link.wait(until - began, Interest::Readable)?;
            self.meter.waited(until - began, self.link.clock().now() - began);
        }
    }

    fn on_heartbeat(&mut self, now: Timestamp) -> Result<()> {
        self.peer.check(self.policy.check_silence(now, self.last_heard()))?;
        self.check_news(now)?;
        self.look_after_lanes(now);
        self.grow()?;
        if let Some((chunk, tries)) = self.hopeless
            && self.policy.is_hopeless(now)
        {
            return Err(never_verified(chunk, tries, None));
        }
        self.count_drops();
        self.host.on_heartbeat(self.link.peer(), self.machine.missing());
        self.apply_remedies(now);
        self.reporter.tell_progress();
        if let Some(watch) = &mut self.control_watch {
            watch.check(now, &mut self.link, Stake::Flight)?;
        }
        match &mut self.floor {
            Some(floor) if self.steering.is_paused() => floor.restart(),
            Some(floor) => floor.check(now, &self.reporter)?,
            None => {}
        }
        self.make_way(now)?;
        self.cancel.check()
    }

    /// Has the sender do what the user has changed.
    fn steer(&mut self) -> Result<()> {
        match self.steering.news(&mut self.steered) {
            Some(wanted) => self.send_message(&Message::Steer(wanted)),
            None => Ok(()),
        }
    }

    /// Ends the session if a later one of its client is to have the destination.
    fn make_way(&mut self, now: Timestamp) -> Result<()> {
        let Some(watch) = &self.takeover else { return Ok(()) };
        let asked_since = match watch.asked() {
            Asked::Nothing => None,
            Asked::ToEnd => return Err(taken_over()),
            Asked::ToEndIfAbsent => Some(self.asked_since.unwrap_or(now)),
        };
        self.asked_since = asked_since;
        let Some(asked) = asked_since else { return Ok(()) };
        match self.policy.presence(now, asked, self.link.last_heard()) {
            Presence::Here => watch.refuse(),
            Presence::Unclear => {}
            Presence::Absent => return Err(taken_over()),
        }
        Ok(())
    }

    /// Takes a sample.
    fn measure(&mut self, audience: Audience) {
        let stats = self.machine.stats();
        let mut sample = ReceiverSample {
            packets: stats.packets,
            bytes: stats.bytes,
            socket_drops: u64::from(self.link.socket_drops().unwrap_or(0)),
            buffer_bytes: self.link.recv_buffer() as u64,
            backlog: u64::from(self.machine.backlog()),
            interface_drops: self.host.drops().interface,
            backlog_drops: self.host.drops().backlog,
            acks: stats.acks,
            reordered: stats.reordered,
            behind_max_us: u64::try_from(stats.behind_max.as_micros()).unwrap_or(u64::MAX),
            ..self.meter.sample(self.link.clock().now())
        };
        self.add_lanes(&mut sample);
        self.watch_receiver(&sample);
        self.reporter.here(Measured::Receiver(sample), audience);
    }

    fn count_drops(&mut self) {
        if let Some(drops) = self.link.socket_drops() {
            self.machine.handle_socket_drops(drops);
        }
    }

    /// Does something about this host's losses, if there are any.
    fn apply_remedies(&mut self, now: Timestamp) {
        let Some(remedies) = &mut self.remedies else { return };
        let ends = (now, self.began);
        for remedy in remedies.look_after(ends, &mut self.machine, &mut self.link) {
            self.reporter.here(Measured::Remedy(remedy), Audience::Both);
        }
    }

    /// Sends a message. Where the sender no longer listens, its last letters hold the better error.
    fn send_message(&mut self, message: &Message) -> Result<()> {
        let sent = self.writer.post(message);
        if sent.is_err() {
            self.take_letters()?;
        }
        sent
    }

    fn take_letters(&mut self) -> Result<()> {
        for _ in 0..MAILBOX_MAX {
            let Ok(letter) = self.letters.try_recv() else { return Ok(()) };
            match letter {
                ToReceiver::Verdict { chunk, verdict } => self.take_verdict(chunk, verdict)?,
                ToReceiver::Stored { chunk, buffer } => {
                    if !self.keepalives.on_stored(chunk) {
                        self.reporter.advance();
                    }
                    if self.is_of_lanes(chunk) {
                        self.take_lane_stored(chunk, buffer)?;
                        continue;
                    }
                    self.arrivals.give_back(buffer);
                    if self.policy.handle_stored(&mut self.machine, chunk) == Stored::All {
                        self.store.finish();
                    }
                    self.lanes.iter_mut().for_each(|quay| quay.settle_first(&mut self.machine));
                }
                ToReceiver::Returned { buffer } if self.lanes.is_some() => self.take_lane_buffer(buffer)?,
                ToReceiver::Returned { buffer } => self.arrivals.give_back(buffer),
                ToReceiver::OfLane { lane, chunk, buffer, len } => {
                    self.take_lane_chunk((lane, chunk), buffer, len)?;
                }
                ToReceiver::LaneEnded { lane, error } => self.lane_ended(lane, &error),
                ToReceiver::StoreFailed(error) => return Err(error),
                ToReceiver::Finished(summary, closing) => self.summary = Some((summary, closing)),
                ToReceiver::Control(event) => self.take_control(event)?,
            }
        }
        // There may be more: the socket comes first, but the thread must not sleep.
        self.link.waker().wake();
        Ok(())
    }

    fn take_verdict(&mut self, chunk: ChunkId, verdict: ChunkVerification) -> Result<()> {
        if self.is_of_lanes(chunk) {
            return self.take_lane_verdict(chunk, verdict);
        }
        let now = self.link.clock().now();
        let attempt = match self.policy.handle_verdict(now, &mut self.machine, chunk, verdict) {
            VerdictOutcome::Verified => {
                self.last_verified = now;
                return Ok(());
            }
            VerdictOutcome::Reject { attempt } => attempt,
            VerdictOutcome::Hopeless { attempt, tries } => {
                self.hopeless = Some((chunk, tries));
                attempt
            }
        };
        self.writer.post(&Message::Rejected { chunk, attempt })
    }

    fn take_control(&mut self, event: ControlEvent) -> Result<()> {
        let now = self.link.clock().now();
        self.policy.handle_message(now);
        if let Some(watch) = &mut self.control_watch {
            watch.handle_message(now);
        }
        match event {
            ControlEvent::Message(Message::Standing(standing)) => self.reporter.standing(&standing),
            ControlEvent::Message(Message::Pulse(pulse)) => {
                if let Some(news) = &mut self.news {
                    news.hear(now, pulse, &self.reporter);
                }
            }
            ControlEvent::Message(Message::SenderSample(sample)) => {
                self.watch_sender(&sample);
                self.reporter.there(Measured::Sender(*sample));
            }
            ControlEvent::Message(Message::LaneWanted { lane, from }) => self.lane_wanted((lane, from))?,
            ControlEvent::Message(Message::LaneAdded { lane, port, from }) => {
                self.lane_added((lane, port, from))?;
            }
            ControlEvent::Message(Message::Failed { path, reason }) => {
                self.reporter.failed_there(path.0, &reason);
            }
            ControlEvent::Message(Message::Loss(window)) => self.reporter.there(Measured::Loss(window)),
            ControlEvent::Message(Message::Remedy(remedy)) => self.reporter.there(Measured::Remedy(remedy)),
            ControlEvent::Message(Message::Mode(change)) => self.reporter.there(Measured::Mode(change)),
            ControlEvent::Message(Message::Way(change)) => self.reporter.there(Measured::Way(change)),
            ControlEvent::Message(Message::Notice { text }) => self.reporter.notice_there(&text),
            ControlEvent::Message(Message::Finished(finished)) => self.finished = Some(finished),
            ControlEvent::Message(message) => {
                aborted(&self.peer.name, &message).map_or(Ok(()), Err)?;
            }
            ControlEvent::Closed(error) => return Err(closed_early(error)),
        }
        Ok(())
    }
}

/// The configuration of the first lane, and the others, if there are any.
fn lanes_of(lanes: Option<LanesSetup>, needs: &LaneNeeds) -> Result<(ReceiverConfig, Option<LaneQuay>)> {
    let Some(setup) = lanes else { return Ok((needs.config, None)) };
    let (quay, config) = LaneQuay::start(setup, needs)?;
    Ok((config, Some(quay)))
}
