//! The thread of a lane beside the first: its packets and acks, and the chunks that the schedule gives it.

use super::news::LaneCauses;
use super::seat::Seat;
use super::table::{LaneCourse, LaneTable};
use super::{LaneShown, Spent};
use crate::failure::{PeerName, StreamsTried};
use crate::lanes::LaneSetup;
use crate::letters::{MAILBOX_MAX, Post, ToSender};
use crate::meter::CpuMeter;
use crate::send::datagrams::{take_acks, validate_path};
use crate::send::outbox::{Outbox, Turn};
use crate::thread::{await_end, be_punctual, spawn};
use crate::{Clock, Link, LinkSetup};
use fobs_model::error::{Error, Result};
use fobs_proto::congestion::{PathHistory, Priority};
use fobs_proto::pacing::LimitShare;
use fobs_proto::sender::{Sender, SenderConfig, Transmit};
use fobs_proto::session::{
    GRANTS_MAX, HEARTBEAT, LaneSeen, PACE_GRAIN, SendPolicy, SendPolicyConfig, Silence, Wait, WaitTimes,
};
use fobs_proto::{ChunkId, Rate, Timestamp};
use fobs_sys::{Interest, Waker};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

/// To the thread of a lane.
pub(super) enum ToLaneSender {
    /// A chunk, by the lane's number, did not verify.
    Rejected {
        chunk: ChunkId,
        attempt: u8,
    },
    /// The user's cap, which all lanes share.
    RateLimit(Option<Rate>),
    Priority(Priority),
}

/// Why a lane ends before its session.
enum LaneEnd {
    /// Its socket or its keys: the others go on.
    OfLane(Error),
    /// What concerns the whole session.
    OfSession(Error),
}

/// The session's hold on the thread.
pub(super) struct LaneThread {
    pub(super) post: Post<ToLaneSender>,
    pub(super) name: String,
    pub(super) began: Timestamp,
    handle: Option<JoinHandle<()>>,
}

/// A lane before its thread runs: its waker is needed for the table.
pub(super) struct LaneStart {
    link: Link,
    name: String,
    config: SenderConfig,
}

impl LaneStart {
    pub(super) fn new(setup: LaneSetup, clock: Clock, config: SenderConfig) -> LaneStart {
        let link = Link::new(LinkSetup { clock, ..setup.link });
        LaneStart { link, name: setup.name, config }
    }

    pub(super) fn waker(&self) -> Waker {
        self.link.waker()
    }

    /// Starts the thread of `lane`, which has this access to the user's cap; `timeout`: how long its packets
    /// may wait for an answer.
    pub(super) fn run(
        self,
        (lane, limit): (usize, LimitShare),
        table: &Arc<LaneTable>,
        session: Post<ToSender>,
        timeout: Duration,
    ) -> Result<LaneThread> {
        let LaneStart { link, name, config } = self;
        let (post, letters) = Post::new(link.waker());
        let (began, side) = (link.clock().now(), link.side);
        let chunks_max = u32::try_from(config.chunks_max).unwrap_or(u32::MAX);
        let config = SenderConfig { ip_overhead: link.ip_overhead(), ..config };
        let history = PathHistory::default();
        let grants_max = GRANTS_MAX;
        let policy = SendPolicyConfig { began, side, chunks_max, grants_max, timeout, history };
        let mut machine = Sender::new(began, config);
        machine.share_rate_limit(limit);
        if link.is_to_greet() {
            machine.greet_first();
        }
        // A lane whose host sends no datagrams is silent, and the others go on.
        let peer = PeerName {
            name: name.clone(),
            ports: String::new(),
            side,
            udp_error: None,
            streams: StreamsTried::Lanes,
        };
        let sender = LaneSender {
            lane,
            machine,
            policy: SendPolicy::new(policy),
            seat: Seat::new((lane, 0), table.clone()),
            table: table.clone(),
            outbox: Outbox::new(),
            letters,
            peer,
            waits: WaitTimes::default(),
            moves: 0,
            causes: LaneCauses::new(lane, began),
            cpu: None,
            link,
        };
        let handle = spawn("fobs-lane-send", move || {
            be_punctual();
            let _alarm = session.alarm(ToSender::ReadFailed);
            sender.run(&session);
        })?;
        Ok(LaneThread { post, name, began, handle: Some(handle) })
    }
}

impl LaneThread {
    /// Waits for the end of the thread, once the table says that the session ends.
    pub(super) fn await_end(&mut self) {
        await_end(&mut self.handle);
    }
}

struct LaneSender {
    lane: usize,
    link: Link,
    machine: Sender,
    policy: SendPolicy,
    seat: Seat,
    table: Arc<LaneTable>,
    outbox: Outbox,
    letters: Receiver<ToLaneSender>,
    peer: PeerName,
    waits: WaitTimes,
    moves: u64,
    causes: LaneCauses,
    /// Of its thread, once it runs.
    cpu: Option<CpuMeter>,
}

impl LaneSender {
    fn run(mut self, session: &Post<ToSender>) {
        self.cpu = Some(CpuMeter::of_this_thread());
        let end = self.work();
        self.show(Silence::Short);
        let now = self.link.clock().now();
        self.table.add_news(self.lane, self.causes.take(now, &mut self.machine));
        self.table.teach(self.lane, self.causes.take_lessons());
        let letter = match end {
            Ok(()) => return,
            Err(LaneEnd::OfSession(error)) => ToSender::ReadFailed(error),
            Err(LaneEnd::OfLane(error)) => {
                self.table.handle_ended(self.lane);
                ToSender::LaneEnded { lane: self.lane, error }
            }
        };
        session.post(letter);
    }

    fn work(&mut self) -> std::result::Result<(), LaneEnd> {
        let mut heartbeat = self.link.clock().now() + HEARTBEAT;
        while self.table.course() != LaneCourse::Ends {
            self.take_letters().map_err(LaneEnd::OfSession)?;
            take_acks(&mut self.link, &mut self.machine).map_err(LaneEnd::OfLane)?;
            self.causes.collect(&mut self.machine);
            self.seat.settle(&mut self.policy, &mut self.machine);
            let greeted = self.link.last_heard().map(|at| at - Timestamp::ZERO);
            self.policy.recall(&mut self.machine, greeted);
            let now = self.link.clock().now();
            validate_path(now, &mut self.link, &mut self.machine, &mut self.moves);
            if self.machine.poll_timeout().is_some_and(|at| at <= now) {
                self.machine.handle_timeout(now);
            }
            self.seat.take_tasks(now, &mut self.policy, &mut self.machine);
            if now >= heartbeat {
                heartbeat = now + HEARTBEAT;
                let silence = self.policy.check_silence(now, &self.machine, self.link.last_heard());
                self.show(silence);
                self.table.add_news(self.lane, self.causes.take(now, &mut self.machine));
            }
            self.transmit(heartbeat).map_err(LaneEnd::OfLane)?;
        }
        Ok(())
    }

    fn take_letters(&mut self) -> Result<()> {
        for _ in 0..MAILBOX_MAX {
            let Ok(letter) = self.letters.try_recv() else { break };
            let now = self.link.clock().now();
            match letter {
                ToLaneSender::Rejected { chunk, attempt } => {
                    self.seat.send_again(&mut self.policy, &mut self.machine, (chunk, attempt))?;
                }
                ToLaneSender::RateLimit(limit) => self.machine.set_rate_limit(now, limit),
                ToLaneSender::Priority(priority) => self.machine.set_priority(now, priority),
            }
        }
        Ok(())
    }

    fn show(&self, silence: Silence) {
        let now = self.link.clock().now();
        let cpu = self.cpu.as_ref().and_then(CpuMeter::read).unwrap_or_default();
        let spent = Spent { at: now, waits: self.waits, cpu };
        let shown = LaneShown::of(&self.machine, &self.link, silence, spent);
        self.table.observe(now, self.lane, LaneSeen::of(&self.machine), shown);
    }

    fn transmit(&mut self, heartbeat: Timestamp) -> Result<()> {
        let until = self.machine.poll_timeout().unwrap_or(heartbeat).min(heartbeat);
        if self.table.course() == LaneCourse::Paused {
            return self.pause(Wait::Cap, until, Interest::Readable);
        }
        if !self.link.has_peer() {
            return self.pause(Wait::Answers, until, Interest::Readable);
        }
        let LaneSender { outbox, machine, link, peer, seat, .. } = self;
        match outbox.bursts(machine, link, peer, |chunk, range| seat.bytes(chunk, range))? {
            Turn::Busy => Ok(()),
            Turn::Full => self.pause(Wait::Socket, until, Interest::ReadableOrWritable),
            Turn::Refused(at) => self.pause(Wait::Socket, until.min(at), Interest::Readable),
            Turn::Wait(now, next) => {
                let until = match next {
                    Transmit::WaitUntil(at) => at.max(now + PACE_GRAIN).min(until),
                    Transmit::Wait | Transmit::Burst => until,
                };
                self.pause(self.policy.wait(&self.machine), until, Interest::Readable)
            }
        }
    }

    fn pause(&mut self, why: Wait, until: Timestamp, interest: Interest) -> Result<()> {
        let began = self.link.clock().now();
        self.link.wait(until - began, interest)?;
        self.waits[why] += self.link.clock().now() - began;
        Ok(())
    }
}
