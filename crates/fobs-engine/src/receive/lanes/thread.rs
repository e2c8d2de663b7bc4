//! The thread of a lane beside the first: packets into chunk buffers, acks back. Its chunks go to the
//! session.

use super::LaneSeen;
use super::berth::{Berth, OfVerdict, ToLaneReceiver, of_verdict};
use crate::failure::never_verified;
use crate::lanes::LaneSetup;
use crate::letters::{Post, ToReceiver};
use crate::meter::CpuMeter;
use crate::receive::batches::BATCHES_PER_TURN;
use crate::receive::intake::{Arrivals, Intake};
use crate::remedy::Remedies;
use crate::thread::{await_end, be_punctual, spawn};
use crate::{Clock, Link, LinkSetup, RemedyPolicy};
use fobs_channel::control::ControlWriter;
use fobs_model::budget::MemoryBudget;
use fobs_model::cause::Remedy;
use fobs_model::error::Result;
use fobs_model::message::Message;
use fobs_proto::receiver::{Receiver, ReceiverConfig};
use fobs_proto::session::{HEARTBEAT, ReceivePolicy};
use fobs_proto::wire::{ACK_LEN_MAX, ACK_LEN_SMALL, Ack, Header};
use fobs_proto::{ChunkId, Timestamp};
use fobs_sys::{Ecn, Interest, SendError};
use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Letters about a chunk, at most, and some to spare: the session never waits for a lane.
const LETTERS_PER_CHUNK: usize = 4;
const LETTERS_SPARE: usize = 16;

/// The session's hold on the thread.
pub(super) struct LaneThread {
    pub(super) post: Post<ToLaneReceiver>,
    pub(super) name: String,
    pub(super) began: Timestamp,
    pub(super) seen: Arc<Mutex<LaneSeen>>,
    /// What it has done about its losses, until the session takes it: at most two for each step.
    pub(super) remedies: Arc<Mutex<Vec<Remedy>>>,
    handle: Option<JoinHandle<()>>,
}

/// What every lane's thread is started with.
#[derive(Clone)]
pub(in crate::receive) struct LaneNeeds {
    pub(super) clock: Clock,
    pub(in crate::receive) config: ReceiverConfig,
    pub(super) timeout: Duration,
    pub(super) writer: ControlWriter,
    pub(super) session: Post<ToReceiver>,
    pub(super) budget: MemoryBudget,
    pub(super) remedies: RemedyPolicy,
}

impl LaneNeeds {
    pub(in crate::receive) fn new(
        clock: Clock,
        config: ReceiverConfig,
        (timeout, remedies): (Duration, RemedyPolicy),
        (writer, session, budget): (ControlWriter, Post<ToReceiver>, MemoryBudget),
    ) -> LaneNeeds {
        LaneNeeds { clock, config, timeout, writer, session, budget, remedies }
    }
}

struct LaneReceiver {
    lane: usize,
    link: Link,
    machine: Receiver,
    policy: ReceivePolicy,
    arrivals: Arrivals,
    berth: Berth,
    next_ack: u64,
    letters: mpsc::Receiver<ToLaneReceiver>,
    /// The chunk that failed for the last time, and how often it was tried.
    hopeless: Option<(ChunkId, u8)>,
    writer: ControlWriter,
    seen: Arc<Mutex<LaneSeen>>,
    began: Timestamp,
    remedies: Option<Remedies>,
    remedied: Arc<Mutex<Vec<Remedy>>>,
    /// How long its thread has waited, and the thread's account, once it runs.
    waited: Duration,
    cpu: Option<CpuMeter>,
    session: Post<ToReceiver>,
}

/// Whether the session goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goes {
    On,
    Ends,
}

/// Starts the thread of a lane.
pub(super) fn start(lane: usize, setup: LaneSetup, needs: &LaneNeeds) -> Result<LaneThread> {
    let LaneSetup { link, name } = setup;
    let link = Link::new(LinkSetup { clock: needs.clock, ..link });
    let room = needs.config.chunks_max as usize * LETTERS_PER_CHUNK + LETTERS_SPARE;
    let (post, letters) = Post::with_room(room, link.waker());
    let seen = Arc::<Mutex<LaneSeen>>::default();
    let (began, remedied) = (link.clock().now(), Arc::<Mutex<Vec<Remedy>>>::default());
    let mut machine = Receiver::new(needs.config);
    machine.handle_socket_buffer(link.recv_buffer() as u64);
    let receiver = LaneReceiver {
        lane,
        machine,
        policy: ReceivePolicy::new(began, link.side, needs.timeout),
        arrivals: Arrivals::within(&needs.budget)?,
        berth: Berth::new(0),
        next_ack: 0,
        letters,
        hopeless: None,
        writer: needs.writer.clone(),
        seen: seen.clone(),
        began,
        remedies: (needs.remedies == RemedyPolicy::Apply).then(Remedies::new),
        remedied: remedied.clone(),
        waited: Duration::ZERO,
        cpu: None,
        session: needs.session.clone(),
        link,
    };
    let handle = spawn("fobs-lane-recv", move || {
        be_punctual();
        let _alarm = receiver.session.alarm(ToReceiver::StoreFailed);
        receiver.run();
    })?;
    Ok(LaneThread { post, name, began, seen, remedies: remedied, handle: Some(handle) })
}

impl LaneThread {
    /// Waits for the end of the thread, which was told to end: what it has seen is final then.
    pub(super) fn await_end(&mut self) {
        await_end(&mut self.handle);
    }
}

impl LaneReceiver {
    fn run(mut self) {
        self.cpu = Some(CpuMeter::of_this_thread());
        let end = self.work();
        self.show();
        if let Err(error) = end {
            self.session.post(ToReceiver::LaneEnded { lane: self.lane, error });
        }
    }

    fn work(&mut self) -> Result<()> {
        let mut heartbeat = self.link.clock().now() + HEARTBEAT;
        loop {
            if self.take_letters() == Goes::Ends {
                return Ok(());
            }
            let socket_is_empty = self.take_batches()?;
            let now = self.link.clock().now();
            if self.policy.wants_drop_count(now, &self.machine, socket_is_empty) {
                self.count_drops();
            }
            if self.policy.poll_reminder(now, self.link.last_heard()) {
                let ack = self.machine.make_ack(now);
                self.send_ack(&ack);
            }
            if let Some(ack) = self.machine.poll_ack(now) {
                self.send_ack(&ack);
            }
            while let Some(packet) = self.link.poll_path_packet(now) {
                self.link.send_path_packet(self.next_ack, &packet);
                self.next_ack += 1;
            }
            if now >= heartbeat {
                heartbeat = now + HEARTBEAT;
                self.on_heartbeat();
            }
            let wake = heartbeat.min(self.policy.reminder_at(self.link.last_heard()));
            let until = self.machine.poll_timeout().unwrap_or(wake).min(wake);
            let began = self.link.clock().now();
            self.link.wait(until - began, Interest::Readable)?;
            self.waited += self.link.clock().now() - began;
        }
    }

    fn on_heartbeat(&mut self) {
        self.count_drops();
        self.show();
        self.apply_remedies();
        if let Some((chunk, tries)) = self.hopeless
            && self.policy.is_hopeless(self.link.clock().now())
        {
            // Said once: the session ends by it.
            self.hopeless = None;
            self.session.post(ToReceiver::StoreFailed(never_verified(chunk, tries, None)));
        }
    }

    /// Does something about this socket's losses, if there are any.
    fn apply_remedies(&mut self) {
        let Some(remedies) = &mut self.remedies else { return };
        let ends = (self.link.clock().now(), self.began);
        let applied = remedies.look_after(ends, &mut self.machine, &mut self.link);
        self.remedied.lock().unwrap_or_else(PoisonError::into_inner).extend(applied);
    }

    fn count_drops(&mut self) {
        if let Some(drops) = self.link.socket_drops() {
            self.machine.handle_socket_drops(drops);
        }
    }

    fn show(&mut self) {
        let seen = LaneSeen {
            stats: self.machine.stats(),
            heard: self.link.last_heard(),
            rejected: self.link.rejected(),
            socket_drops: self.link.socket_drops().unwrap_or(0),
            dropped: self.machine.packets_dropped(),
            backlog: self.machine.backlog(),
            at: self.link.clock().now(),
            wait_us: u64::try_from(self.waited.as_micros()).unwrap_or(u64::MAX),
            cpu: self.cpu.as_ref().and_then(CpuMeter::read).unwrap_or_default(),
        };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    fn take_batches(&mut self) -> Result<bool> {
        for _ in 0..BATCHES_PER_TURN {
            let LaneReceiver { link, machine, arrivals, .. } = self;
            let mut intake = Intake { machine, arrivals, failure: None };
            let count = link.receive(&mut intake)?;
            if let Some(error) = intake.failure {
                return Err(error);
            }
            if let Some(ack) = self.machine.poll_ack(self.link.clock().now()) {
                self.send_ack(&ack);
            }
            while let Some((chunk, buffer, len)) = self.arrivals.pop_complete() {
                self.session.post(ToReceiver::OfLane { lane: self.lane, chunk, buffer, len });
            }
            if count == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn send_ack(&mut self, ack: &Ack) {
        let mut body = Vec::with_capacity(ACK_LEN_MAX);
        ack.encode_within(self.machine.ack_len_max(), &mut body);
        let mut sealed = self.link.seal_body(self.next_ack, Header::Ack, &body);
        self.next_ack += 1;
        match self.link.send(&mut sealed, Ecn::NotEct) {
            Err(SendError::NoBuffers | SendError::TooLarge) if body.len() > ACK_LEN_SMALL => {
                self.machine.handle_ack_refused();
            }
            // A lost ack is repaired by the next one, and a lane without any is silent: the others go on.
            _ => {}
        }
    }

    fn take_letters(&mut self) -> Goes {
        loop {
            let letter = match self.letters.try_recv() {
                Ok(letter) => letter,
                Err(TryRecvError::Empty) => return Goes::On,
                Err(TryRecvError::Disconnected) => return Goes::Ends,
            };
            match letter {
                ToLaneReceiver::End => return Goes::Ends,
                ToLaneReceiver::Room(chunks_max) => self.machine.set_room(chunks_max),
                ToLaneReceiver::Buffer(buffer) => self.arrivals.give_back(buffer),
                ToLaneReceiver::Free { place } => self.berth.free(&mut self.machine, place),
                ToLaneReceiver::Verdict { place, verdict } => {
                    let (now, ends) = (self.link.clock().now(), (&mut self.policy, &mut self.machine));
                    let OfVerdict::Rejected { attempt, hopeless } = of_verdict(now, ends, place, verdict)
                    else {
                        continue;
                    };
                    self.hopeless = hopeless.map(|tries| (place, tries)).or(self.hopeless);
                    let message = Message::LaneRejected { lane: self.lane as u8, chunk: place, attempt };
                    // A sender that does not listen any more ends the session by itself.
                    let _ = self.writer.post(&message);
                }
            }
        }
    }
}
