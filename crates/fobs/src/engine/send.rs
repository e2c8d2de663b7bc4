//! The sending thread: paces packets, hears acks, hands buffers to the reader.

use super::causes::Causes;
use super::link::{Incoming, IncomingBody, Sealed};
use super::measure::{Audience, SenderMeter};
use super::meter::WorkMeter;
use super::portion::Portion;
use super::reader::{self, Filled, Grant};
use super::{
    ControlEvent, FAREWELL_WAIT, HEARTBEAT, Link, LinkSetup, MAILBOX_MAX, MISMATCHES_MAX, Post, Reporter,
    TIMER_SLACK_NS, aborted, check_answer, closed_early, hear_control,
};
use crate::cancel::CancelToken;
use crate::control::message::{Complete, Finished, Message, Standing};
use crate::control::{ControlReader, ControlWriter, printable};
use crate::error::{Error, ErrorKind, Result};
use crate::explain::Measured;
use crate::history::RememberedPath;
use crate::lessons::Lessons;
use crate::mode::ModeChange;
use crate::storage::{CHUNK_LEN_MAX, FileDone, Known, Source};
use fobs_proto::congestion::{PathHistory, Priority, RateSource};
use fobs_proto::loss_cause::Lesson;
use fobs_proto::sender::{Extent, Limit, PacketOut, Sender, SenderConfig, Transmit};
use fobs_proto::session::Wait;
use fobs_proto::wire::{Ack, Header};
use fobs_proto::{ChunkId, Timestamp};
use fobs_sys::{Ecn, Interest, PageBuffer, SendError, ThreadDuty, hint_scheduler, set_timer_slack_ns};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Empty buffers at the reader: one to fill while the last one is handed over.
const GRANTS_MAX: usize = 2;
/// Bursts between two looks at the mailbox and the socket.
const BURSTS_PER_TURN: usize = 8;
/// Hexadecimal digits of a root.
const ROOT_DIGITS: usize = 2 * blake3::OUT_LEN;
/// Shortest sleep between bursts. The pacer keeps its schedule, so the bursts that became due meanwhile leave together: above
/// 2 Gbit/s a wake-up for each would cost more than sending it.
const PACE_GRAIN: Duration = Duration::from_micros(250);
/// Part of a round trip that may be the hosts': bytes that wait there are few, and the chunks that disks need cover them. Where two busy
/// hosts are 30 us apart the smoothed round trip jumps to 5 ms, and at 12 Gbit/s the sender took 36 buffers for it instead of 20.
const HOST_DELAY: Duration = Duration::from_millis(4);
/// How long to wait after the local queue refused packets.
const REFUSED_WAIT: Duration = Duration::from_micros(500);

/// What a sending session needs.
pub(crate) struct SendJob {
    pub(crate) link: LinkSetup,
    pub(crate) source: Source,
    /// The machine's configuration, less what the link knows.
    pub(crate) config: SenderConfig,
    pub(crate) reader: ControlReader,
    pub(crate) writer: ControlWriter,
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) cancel: CancelToken,
    /// Time that is left until the object should be there, and the most that may be claimed for it.
    pub(crate) deadline: Option<(Duration, Priority)>,
    /// The path to the peer, as earlier transfers found it.
    pub(crate) remembered: RememberedPath,
    /// What the session's set-up took from our question to the peer's answer. `None` where the peer's answer is its first datagram,
    /// and the link's clock began with the question.
    pub(crate) answered: Option<Duration>,
    /// The losses on it, likewise.
    pub(crate) lessons: Lessons,
    /// For messages to people.
    pub(crate) peer_name: String,
    /// The ports named where UDP is blocked.
    pub(crate) ports: String,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct SendOutcome {
    pub(crate) complete: Complete,
    pub(crate) finished: Finished,
    /// Windows of losses of known cause, for [`Lessons::keep`].
    pub(crate) taught: Vec<Lesson>,
}

/// Letters to the sending thread.
pub(super) enum ToSender {
    Filled(Box<Filled>),
    ReadFailed(Error),
    Control(ControlEvent),
}

/// A chunk in hand: its bytes, and what is told once it is verified.
struct InHand {
    buffer: PageBuffer,
    data_bytes: u64,
    files: Vec<FileDone>,
    first_file: Option<Vec<u8>>,
    /// How often it did not verify.
    mismatches: u8,
}

struct Sending {
    link: Link,
    machine: Sender,
    letters: Receiver<ToSender>,
    grants: SyncSender<Grant>,
    granted: usize,
    spare: Vec<PageBuffer>,
    in_hand: VecDeque<InHand>,
    base: ChunkId,
    known: Known,
    /// File bytes of the chunks so far, and what they are on the wire.
    taken: (u64, u64),
    root: Option<[u8; 32]>,
    complete: Option<Complete>,
    reporter: Arc<Reporter>,
    cancel: CancelToken,
    writer: ControlWriter,
    peer_name: String,
    ports: String,
    pending: Option<(Sealed, Ecn)>,
    packets: Vec<PacketOut>,
    refused_until: Timestamp,
    waiting_since: Option<Timestamp>,
    meter: SenderMeter,
    began: Timestamp,
    causes: Causes,
    /// What is known of the path, until the machine is told.
    recalled: Option<PathHistory>,
    answered: Option<Duration>,
}

/// Sends the object; returns after the completion signal.
pub(crate) fn send(job: SendJob) -> Result<SendOutcome> {
    set_timer_slack_ns(TIMER_SLACK_NS);
    hint_scheduler(ThreadDuty::Punctual);
    let link = Link::new(job.link);
    let (post, letters) = Post::new(link.waker());
    hear_control(job.reader, post.clone(), ToSender::Control)?;
    let (grants, granted) = sync_channel(GRANTS_MAX);
    let reading = WorkMeter::new(link.clock());
    reader::start(job.source, granted, post, reading.clone())?;
    let mut history = job.remembered.recall();
    let (judge, learned_from) = job.lessons.teach(job.config.judge);
    let config = SenderConfig { ip_overhead: link.ip_overhead(), judge, ..job.config };
    let cap_bps = chosen_rate(&config).map_or(0, |rate| rate.as_bytes().saturating_mul(8));
    let began = link.clock().now();
    let mut sending = Sending {
        machine: Sender::new(began, config),
        link,
        letters,
        grants,
        granted: 0,
        spare: Vec::new(),
        in_hand: VecDeque::new(),
        base: 0,
        known: Known::default(),
        taken: (0, 0),
        root: None,
        complete: None,
        reporter: job.reporter,
        cancel: job.cancel,
        writer: job.writer,
        peer_name: job.peer_name,
        ports: job.ports,
        pending: None,
        packets: Vec::new(),
        refused_until: Timestamp::ZERO,
        waiting_since: None,
        meter: SenderMeter::new(reading, cap_bps),
        began,
        causes: Causes::new(learned_from),
        recalled: Some(history.clone()),
        answered: job.answered,
    };
    // Who learns nothing of the path leaves no round trip for the next one.
    history.round_trip = None;
    if let Some((left, most)) = job.deadline {
        sending.machine.pursue(began, began + left, most);
    }
    let outcome = sending.run();
    sending.measure(Audience::Both);
    let complete = outcome?;
    sending.tell_causes();
    let finished = sending.finished();
    sending.check_roots(&complete)?;
    // The completion signal may overtake the acks of the last chunks, or those may be lost.
    while let Some(done) = sending.in_hand.pop_front() {
        sending.settle(done);
    }
    sending.reporter.standing(&sending.standing());
    sending.farewell(&finished);
    // Nobody waits for the disk any more.
    sending.machine.controller().remember(&mut history);
    job.remembered.keep(&history);
    Ok(SendOutcome { complete, finished, taught: sending.causes.take_lessons() })
}

impl Sending {
    fn run(&mut self) -> Result<Complete> {
        let began = self.link.clock().now();
        let mut heartbeat = began + HEARTBEAT;
        loop {
            self.take_letters()?;
            if let Some(complete) = self.complete.take() {
                return Ok(complete);
            }
            self.grant_buffers()?;
            self.hear_acks()?;
            self.recall();
            let now = self.link.clock().now();
            if self.machine.poll_timeout().is_some_and(|at| at <= now) {
                self.machine.handle_timeout(now);
            }
            if let Some(audience) = self.meter.due.poll(now) {
                self.measure(audience);
            }
            if now >= heartbeat {
                heartbeat = now + HEARTBEAT;
                self.check_silence(now, began)?;
                self.tell_causes();
                self.reporter.standing_to_peer(self.standing());
                self.reporter.tell_progress();
                self.cancel.check()?;
            }
            self.transmit(now, heartbeat)?;
        }
    }

    /// Tells the machine what is known of the path, as soon as it is seen to be the same, which is before anything is sent.
    fn recall(&mut self) {
        let greeted = || self.link.last_heard().map(|at| at - Timestamp::ZERO);
        if self.recalled.is_some()
            && let Some(answered) = self.answered.or_else(greeted)
            && let Some(history) = self.recalled.take()
        {
            self.machine.recall(&history.met(answered));
        }
    }

    /// Puts out bursts until the machine wants to wait, then waits.
    fn transmit(&mut self, now: Timestamp, heartbeat: Timestamp) -> Result<()> {
        let wake = heartbeat.min(self.meter.due.at());
        let mut until = self.machine.poll_timeout().unwrap_or(wake).min(wake);
        let mut interest = Interest::Readable;
        if !self.link.has_peer() {
            return self.pause(Wait::Answers, until - now, interest);
        }
        for _ in 0..BURSTS_PER_TURN {
            if self.pending.is_none() {
                let now = self.link.clock().now();
                if now < self.refused_until {
                    until = until.min(self.refused_until);
                    return self.pause(Wait::Socket, until - now, interest);
                }
                match self.machine.poll_transmit(now, &mut self.packets) {
                    Transmit::Burst => self.seal(),
                    Transmit::WaitUntil(at) => {
                        let at = at.max(now + PACE_GRAIN).min(until);
                        return self.pause(self.waits_for(), at - now, interest);
                    }
                    Transmit::Wait => return self.pause(self.waits_for(), until - now, interest),
                }
            }
            if !self.put_out()? {
                interest = Interest::ReadableOrWritable;
                return self.pause(Wait::Socket, until - self.link.clock().now(), interest);
            }
        }
        Ok(())
    }

    /// Waits, and keeps account of it.
    fn pause(&mut self, why: Wait, timeout: Duration, interest: Interest) -> Result<()> {
        let began = self.link.clock().now();
        self.link.wait(timeout, interest)?;
        self.meter.waited(why, self.link.clock().now() - began);
        Ok(())
    }

    /// What keeps the machine from sending, as far as this side can tell.
    fn waits_for(&self) -> Wait {
        // What is in hand and not on its way waits over there.
        let all_there = self.machine.bytes_in_flight() == 0;
        let backlog = self.machine.stats().backlog;
        match self.machine.limit() {
            Limit::Cap => Wait::Cap,
            // The user's rate, whether a constant one or a limit on the controller's, is a cap.
            Limit::Pacer
                if self.meter.is_capped() && self.machine.controller().rate_source() == RateSource::User =>
            {
                Wait::Cap
            }
            Limit::Drain => Wait::Drain,
            Limit::Deadline => Wait::Deadline,
            Limit::Pacer => Wait::Pacer,
            Limit::Window | Limit::Silence => Wait::Window,
            Limit::Credit => Wait::Storage,
            Limit::Data if self.granted > 0 => Wait::Source,
            Limit::Data if all_there || backlog > 0 => Wait::Storage,
            Limit::Data => Wait::Window,
            Limit::Answers if self.in_hand.is_empty() => Wait::Answers,
            Limit::Answers if all_there || backlog > 1 => Wait::Storage,
            Limit::Answers => Wait::Answers,
        }
    }

    /// Takes a sample.
    fn measure(&mut self, audience: Audience) {
        let sample = self.meter.sample(self.link.clock().now(), &self.machine);
        self.reporter.here(Measured::Sender(sample), audience);
    }

    fn seal(&mut self) {
        let (in_hand, base) = (&self.in_hand, self.base);
        let sealed =
            self.link.seal(&self.packets, |chunk, range| &in_hand[(chunk - base) as usize].buffer[range]);
        self.pending = Some((sealed, Ecn::Ect0));
    }

    /// Sends the pending burst. False if the socket has no room for the rest of it.
    fn put_out(&mut self) -> Result<bool> {
        let Some((mut sealed, ecn)) = self.pending.take() else { return Ok(true) };
        match self.link.send(&mut sealed, ecn) {
            Ok(()) => Ok(true),
            Err(SendError::WouldBlock) => {
                self.pending = Some((sealed, ecn));
                Ok(false)
            }
            // The path's own news of a dead port or route: the silence that follows decides.
            Err(SendError::Refused) => Ok(true),
            Err(SendError::TooLarge) => {
                self.refuse(sealed.datagrams(), true);
                Ok(true)
            }
            Err(SendError::NoBuffers) => {
                self.refuse(sealed.datagrams(), false);
                self.refused_until = self.link.clock().now() + REFUSED_WAIT;
                Ok(true)
            }
            Err(SendError::Io(error)) => Err(Error::new(
                ErrorKind::Socket,
                format!(
                    "cannot send UDP datagrams to {}: {error}; look at the local firewall and routes",
                    self.peer_name
                ),
            )),
        }
    }

    /// The host refused the last `count` packets of the burst.
    fn refuse(&mut self, count: usize, too_large: bool) {
        let now = self.link.clock().now();
        for packet in self.packets.iter().rev().take(count) {
            self.machine.handle_refused(now, packet.number, too_large);
        }
    }

    fn hear_acks(&mut self) -> Result<()> {
        let machine = &mut self.machine;
        self.link.receive(&mut |now, packet: Incoming<'_>| {
            if packet.header == Header::Ack
                && let IncomingBody::Here(body) = packet.body
                && let Ok(ack) = Ack::decode(body)
            {
                machine.handle_ack(now, &ack);
            }
        })?;
        self.causes.collect(&mut self.machine, self.began);
        while let Some(chunk) = self.machine.poll_freed() {
            debug_assert_eq!(chunk, self.base);
            let Some(done) = self.in_hand.pop_front() else { break };
            self.base += 1;
            self.settle(done);
        }
        Ok(())
    }

    /// Tells what was judged and changed since the last heartbeat.
    fn tell_causes(&mut self) {
        while let Some(change) = self.machine.poll_mode_change() {
            self.reporter.here(Measured::Mode(ModeChange::of(&change, self.began)), Audience::Both);
        }
        for window in self.causes.take_windows() {
            self.reporter.here(Measured::Loss(window), Audience::Both);
        }
        let seconds = (self.link.clock().now() - self.began).as_secs_f64();
        if let Some(remedy) = self.causes.take_drain(&self.machine, seconds) {
            self.reporter.here(Measured::Remedy(remedy), Audience::Both);
        }
    }

    /// A chunk is verified over there.
    fn settle(&mut self, done: InHand) {
        self.spare.push(done.buffer);
        self.reporter.add_bytes(done.data_bytes);
        done.files.into_iter().for_each(|file| self.reporter.file_done(file));
    }

    fn take_letters(&mut self) -> Result<()> {
        for _ in 0..MAILBOX_MAX {
            let Ok(letter) = self.letters.try_recv() else { return Ok(()) };
            match letter {
                ToSender::Filled(filled) => self.take_chunk(*filled),
                ToSender::ReadFailed(error) => return Err(error),
                ToSender::Control(event) => self.take_control(event)?,
            }
        }
        // There may be more: other things come first, but no sleep.
        self.link.waker().wake();
        Ok(())
    }

    fn take_chunk(&mut self, filled: Filled) {
        let Filled { buffer, chunk, known, root } = filled;
        self.granted -= 1;
        self.known = known;
        self.root = root;
        chunk.failures.into_iter().for_each(|error| self.reporter.failed(error));
        self.machine.push_chunk(chunk.len as u32, chunk.is_final);
        self.taken.0 = self.taken.0.saturating_add(chunk.data_bytes);
        self.taken.1 = self.taken.1.saturating_add(chunk.len as u64);
        self.expect();
        self.in_hand.push_back(InHand {
            buffer,
            data_bytes: chunk.data_bytes,
            files: chunk.files,
            first_file: chunk.first_file,
            mismatches: 0,
        });
    }

    /// Tells the machine what is still to come: as much on the wire for each byte as so far.
    fn expect(&mut self) {
        let (data, wire) = self.taken;
        let unread = u128::from(self.known.bytes.saturating_sub(data));
        let beyond = unread * u128::from(wire.max(1)) / u128::from(data.max(1));
        let extent = if self.known.scan_complete { Extent::Whole } else { Extent::SoFar };
        self.machine.expect(self.link.clock().now(), u64::try_from(beyond).unwrap_or(u64::MAX), extent);
    }

    fn take_control(&mut self, event: ControlEvent) -> Result<()> {
        match event {
            ControlEvent::Message(Message::Rejected { chunk, attempt }) => {
                let held =
                    chunk.checked_sub(self.base).and_then(|place| self.in_hand.get_mut(place as usize));
                let Some(held) = held else { return Ok(()) };
                held.mismatches += 1;
                if !self.machine.handle_rejected(chunk, attempt) || held.mismatches >= MISMATCHES_MAX {
                    return Err(never_verified(chunk, held));
                }
            }
            ControlEvent::Message(Message::Complete(complete)) => self.complete = Some(complete),
            ControlEvent::Message(Message::Failed { path, reason }) => {
                self.reporter.failed_there(path.0, &reason);
            }
            ControlEvent::Message(Message::ReceiverSample(sample)) => {
                self.causes.hear_receiver(sample.host_drops());
                self.reporter.there(Measured::Receiver(*sample));
            }
            ControlEvent::Message(Message::Remedy(remedy)) => self.reporter.there(Measured::Remedy(remedy)),
            ControlEvent::Message(Message::Abort { code, message }) => {
                return Err(aborted(&self.peer_name, &code, &message));
            }
            ControlEvent::Message(_) => {}
            ControlEvent::Closed(error) => return Err(closed_early(error)),
        }
        Ok(())
    }

    /// What may be on its way at once, bytes: the window, or less where the pacer does not fill it.
    fn round_trip_bytes(&self) -> u64 {
        let (controller, rtt) = (self.machine.controller(), self.machine.rtt());
        let path = rtt.smoothed().saturating_sub(HOST_DELAY).max(rtt.min().unwrap_or_default());
        let paced = controller.pacing_rate().map_or(u64::MAX, |rate| rate.bytes_in(path));
        controller.congestion_window().min(paced)
    }

    fn grant_buffers(&mut self) -> Result<()> {
        let Portion { chunks, data_max } = Portion::for_bytes(self.round_trip_bytes());
        while self.granted < GRANTS_MAX
            && self.in_hand.len() + self.granted < chunks
            && self.machine.wants_chunk()
        {
            let buffer = match self.spare.pop() {
                Some(buffer) => buffer,
                None => PageBuffer::new(CHUNK_LEN_MAX).map_err(no_memory)?,
            };
            if self.grants.try_send(Grant { buffer, data_max }).is_err() {
                // The reader has read the final chunk, or its error is on its way.
                return Ok(());
            }
            self.granted += 1;
        }
        Ok(())
    }

    /// Ends the session if nothing comes back.
    fn check_silence(&mut self, now: Timestamp, began: Timestamp) -> Result<()> {
        let Some(heard) = self.link.last_heard() else {
            if now - began >= self.link.silence_max() {
                return Err(udp_blocked(&self.peer_name, &self.ports, now - began));
            }
            return Ok(());
        };
        if self.machine.bytes_in_flight() == 0 {
            self.waiting_since = None;
            return Ok(());
        }
        let since = *self.waiting_since.get_or_insert(now);
        check_answer(now, heard.max(since), &self.peer_name)
    }

    fn standing(&self) -> Standing {
        let stats = self.machine.stats();
        Standing {
            bytes: self.known.bytes,
            scan_complete: self.known.scan_complete,
            rtt_ms: self
                .machine
                .rtt()
                .latest()
                .map_or(0.0, |_| self.machine.rtt().smoothed().as_secs_f64() * 1e3),
            loss_rate: ratio(stats.packets_lost.saturating_sub(stats.packets_late), stats.packets_sent),
            waste: ratio(stats.packets_sent.saturating_sub(stats.packets_needed), stats.packets_needed),
            late_seconds: self.machine.late().map(|late| late.as_secs_f64()),
        }
    }

    fn finished(&self) -> Finished {
        let (stats, usage) = (self.machine.stats(), fobs_sys::process_usage());
        Finished {
            packets_needed: stats.packets_needed,
            packets_sent: stats.packets_sent,
            packets_lost: stats.packets_lost.saturating_sub(stats.packets_late),
            rtt_ms_min: self.machine.rtt().min_ever().map_or(0.0, |rtt| rtt.as_secs_f64() * 1e3),
            packet_size: self.machine.payload_size(),
            cc: self.machine.controller().name().to_owned(),
            datagrams_rejected: self.link.rejected(),
            cpu_seconds: usage.cpu_seconds,
            max_rss_bytes: usage.max_rss_bytes,
        }
    }

    /// Both sides hashed every file: their roots must agree (protocol 7.6).
    fn check_roots(&self, complete: &Complete) -> Result<()> {
        let ours = self.root.map(|root| blake3::Hash::from_bytes(root).to_hex().to_string());
        match ours {
            Some(ours) if ours == complete.root => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Integrity,
                format!(
                    "the roots of the transfer differ: {} reports {:?}; do not trust the copy",
                    self.peer_name,
                    printable(&complete.root, ROOT_DIGITS)
                ),
            )),
        }
    }

    /// Says the last word and waits, for a bounded time, until the peer has heard it.
    fn farewell(&mut self, finished: &Finished) {
        let said = self.writer.send(&Message::Finished(finished.clone()));
        let end = Instant::now() + FAREWELL_WAIT;
        while said.is_ok() && Instant::now() < end {
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

/// The rate that the user set, if any.
fn chosen_rate(config: &SenderConfig) -> Option<fobs_proto::Rate> {
    match config.controller.rate_source() {
        RateSource::User => config.controller.pacing_rate(),
        RateSource::Path | RateSource::Host => config.rate_limit,
    }
}

/// The sender ends the session, because it alone knows what is in a chunk that nobody could verify.
fn never_verified(chunk: ChunkId, held: &InHand) -> Error {
    let place = match &held.first_file {
        Some(path) => format!(", with data of {:?},", String::from_utf8_lossy(path)),
        None => String::new(),
    };
    let tries = held.mismatches;
    let message = format!(
        "chunk {chunk}{place} did not verify in {tries} tries; the memory or the disk of one side is faulty"
    );
    Error::new(ErrorKind::Integrity, message)
}

pub(super) fn no_memory(error: std::io::Error) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("no memory for a chunk buffer: {error}; free some memory and try again"),
    )
}

/// The sentence for the most common trouble of all.
pub(super) fn udp_blocked(peer: &str, ports: &str, silence: Duration) -> Error {
    let seconds = silence.as_secs();
    Error::new(
        ErrorKind::Connect,
        format!(
            "no UDP datagram came through between here and {peer} within {seconds} s: open UDP {ports} on the server and the firewalls between, or choose other ports with --udp-ports A-B"
        ),
    )
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
