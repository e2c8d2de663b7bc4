//! The receiving thread: takes packets into chunk buffers and acknowledges them.

use super::host::HostWatch;
use super::link::{Inbox, Incoming, IncomingBody};
use super::measure::{Audience, ReceiverMeter};
use super::meter::WorkMeter;
use super::remedy::{Remedies, RemedyPolicy};
use super::send::{no_memory, udp_blocked};
use super::writer::{self, ToWriter};
use super::{
    CHUNKS_MAX, CLEAN_UP_POLL, CLEAN_UP_WAIT, ControlEvent, FAREWELL_WAIT, HEARTBEAT, Link, LinkSetup,
    MAILBOX_MAX, MISMATCHES_MAX, Post, Reporter, TIMER_SLACK_NS, aborted, check_answer, closed_early,
    hear_control, tell_abort,
};
use crate::cancel::CancelToken;
use crate::cause::RemedyAction;
use crate::control::message::{Complete, Finished, Message};
use crate::control::{ControlReader, ControlWriter};
use crate::error::{Error, ErrorKind, Result};
use crate::explain::{Measured, ReceiverSample};
use crate::storage::{CHUNK_LEN_MAX, Sink, SinkSummary};
use fobs_proto::receiver::{Disposition, Receiver, ReceiverConfig, Verdict};
use fobs_proto::wire::{Ack, DataHeader, Header};
use fobs_proto::{ChunkId, Timestamp};
use fobs_sys::{Ecn, Interest, PageBuffer, SendError, ThreadDuty, hint_scheduler, set_timer_slack_ns};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How often a client that receives greets until it is heard (protocol 5.1).
const GREETING_EVERY: Duration = Duration::from_millis(100);
/// Batches taken between two looks at the mailbox.
const BATCHES_PER_TURN: usize = 8;

/// What a receiving session needs.
pub(crate) struct ReceiveJob {
    pub(crate) link: LinkSetup,
    pub(crate) sink: Sink,
    pub(crate) config: ReceiverConfig,
    pub(crate) remedies: RemedyPolicy,
    pub(crate) reader: ControlReader,
    pub(crate) writer: ControlWriter,
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) cancel: CancelToken,
    /// For messages to people.
    pub(crate) peer_name: String,
    /// The ports named where UDP is blocked.
    pub(crate) ports: String,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct ReceiveOutcome {
    pub(crate) complete: Complete,
    pub(crate) finished: Finished,
}

/// Letters to the receiving thread.
pub(super) enum ToReceiver {
    Verdict {
        chunk: ChunkId,
        verdict: Verdict,
    },
    Stored {
        chunk: ChunkId,
        buffer: PageBuffer,
    },
    /// The buffer of a chunk that did not verify.
    Returned {
        buffer: PageBuffer,
    },
    StoreFailed(Error),
    Finished(SinkSummary),
    Control(ControlEvent),
}

struct Receiving {
    link: Link,
    machine: Receiver,
    letters: mpsc::Receiver<ToReceiver>,
    work: SyncSender<ToWriter>,
    buffers: Buffers,
    /// Chunks that are complete and must go to the writer.
    complete: VecDeque<(ChunkId, usize)>,
    next_number: u64,
    mismatches: HashMap<ChunkId, u8>,
    /// A chunk failed for the last time: since when, and what to say if the sender does not.
    hopeless: Option<(Timestamp, Error)>,
    first_data: Option<Timestamp>,
    last_verified: Timestamp,
    finishing: bool,
    /// When the sender's last message came.
    last_message: Timestamp,
    summary: Option<SinkSummary>,
    sender_said: Option<Finished>,
    /// What is done about losses here; `None` leaves them.
    remedies: Option<Remedies>,
    reporter: Arc<Reporter>,
    cancel: CancelToken,
    writer: ControlWriter,
    peer_name: String,
    ports: String,
    meter: ReceiverMeter,
    host: HostWatch,
}

/// Chunk buffers by chunk: those in use, and those to use again, warmest first.
#[derive(Default)]
struct Buffers {
    arriving: BTreeMap<ChunkId, PageBuffer>,
    spare: Vec<PageBuffer>,
}

impl Buffers {
    fn of(&mut self, chunk: ChunkId) -> Result<&mut PageBuffer> {
        if !self.arriving.contains_key(&chunk) {
            let buffer = match self.spare.pop() {
                Some(buffer) => buffer,
                None => PageBuffer::new(CHUNK_LEN_MAX).map_err(no_memory)?,
            };
            self.arriving.insert(chunk, buffer);
        }
        Ok(self.arriving.get_mut(&chunk).expect("just inserted"))
    }
}

/// What takes the packets of a batch.
struct Intake<'a> {
    machine: &'a mut Receiver,
    buffers: &'a mut Buffers,
    complete: &'a mut VecDeque<(ChunkId, usize)>,
    first_data: &'a mut Option<Timestamp>,
    failure: Option<Error>,
}

impl Inbox for Intake<'_> {
    fn vacancy(&mut self, header: &DataHeader, len: usize) -> Option<&mut [u8]> {
        let offset = self.machine.vacancy(header, len)? as usize;
        // Only an authentic packet begins a buffer: forgeries cost no memory.
        let buffer = self.buffers.arriving.get_mut(&header.chunk)?;
        // The next packet's place most likely: the memory is on its way while this one is opened.
        buffer.prefetch_for_write(offset + len, len);
        buffer.get_mut(offset..offset + len)
    }

    fn take(&mut self, now: Timestamp, packet: Incoming<'_>) {
        let header = match packet.header {
            Header::Data(header) => header,
            Header::Probe => return self.machine.handle_probe(now, &packet.meta),
            Header::Ack => return,
        };
        self.first_data.get_or_insert(packet.meta.arrived);
        let disposition = self.machine.handle_data(now, &packet.meta, &header, packet.body.len());
        let Disposition::Store { offset, completes } = disposition else { return };
        if let IncomingBody::Here(body) = packet.body {
            let at = offset as usize;
            match self.buffers.of(header.chunk) {
                Ok(buffer) => buffer[at..at + body.len()].copy_from_slice(body),
                Err(error) => self.failure = Some(error),
            }
        }
        self.complete.extend(completes.map(|len| (header.chunk, len as usize)));
    }
}

/// Receives the object; returns after the sender's last word.
pub(crate) fn receive(job: ReceiveJob) -> Result<ReceiveOutcome> {
    set_timer_slack_ns(TIMER_SLACK_NS);
    hint_scheduler(ThreadDuty::Punctual);
    let link = Link::new(job.link);
    let (post, letters) = Post::new(link.waker());
    hear_control(job.reader, post.clone(), ToReceiver::Control)?;
    // Every chunk of the credit and the last word: the channel is never full.
    let (work, orders) = sync_channel(CHUNKS_MAX as usize + 1);
    let writing = WorkMeter::new(link.clock());
    let storing = writer::start(job.sink, orders, post, job.reporter.clone(), writing.clone())?;
    let control = job.writer.clone();
    let mut machine = Receiver::new(job.config);
    machine.handle_socket_buffer(link.recv_buffer() as u64);
    let mut receiving = Receiving {
        link,
        machine,
        letters,
        work,
        buffers: Buffers::default(),
        complete: VecDeque::new(),
        next_number: 0,
        mismatches: HashMap::new(),
        hopeless: None,
        first_data: None,
        last_verified: Timestamp::ZERO,
        finishing: false,
        last_message: Timestamp::ZERO,
        summary: None,
        sender_said: None,
        remedies: (job.remedies == RemedyPolicy::Apply).then(Remedies::new),
        reporter: job.reporter,
        cancel: job.cancel,
        writer: job.writer,
        peer_name: job.peer_name,
        ports: job.ports,
        meter: ReceiverMeter::new(writing),
        host: HostWatch::default(),
    };
    let outcome = receiving.run_to_end();
    // However it ended: the writer must have removed what is not complete before this process may go.
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
    outcome
}

impl Receiving {
    fn run_to_end(&mut self) -> Result<ReceiveOutcome> {
        let summary = self.run();
        self.measure(Audience::Both);
        let summary = summary?;
        let complete = self.completion(&summary);
        self.say(&Message::Complete(complete.clone()))?;
        let finished = self.await_finished()?;
        Ok(ReceiveOutcome { complete, finished })
    }

    fn run(&mut self) -> Result<SinkSummary> {
        let began = self.link.clock().now();
        let (mut heartbeat, mut greeting) = (began + HEARTBEAT, began);
        loop {
            self.take_letters()?;
            if let Some(summary) = self.summary.take() {
                return Ok(summary);
            }
            let mut drained = false;
            for _ in 0..BATCHES_PER_TURN {
                if self.take_packets()? == 0 {
                    drained = true;
                    break;
                }
            }
            let now = self.link.clock().now();
            if drained && self.machine.wants_ack(now) {
                // Nothing follows: what was dropped behind the newest packet no later one tells.
                self.count_drops();
            }
            if self.link.last_heard().is_none() && self.link.has_peer() && now >= greeting {
                greeting = now + GREETING_EVERY;
                let ack = self.machine.make_ack(now);
                self.send_ack(&ack)?;
            }
            if let Some(ack) = self.machine.poll_ack(now) {
                self.send_ack(&ack)?;
            }
            if let Some(audience) = self.meter.due.poll(now) {
                self.measure(audience);
            }
            if now >= heartbeat {
                heartbeat = now + HEARTBEAT;
                self.check_silence(now, began)?;
                self.check_hopeless(now)?;
                self.count_drops();
                self.host.on_heartbeat(self.link.peer(), self.machine.missing());
                self.mend(now, began);
                self.reporter.tell_progress();
                self.cancel.check()?;
            }
            let wake = heartbeat.min(self.meter.due.at());
            let mut until = self.machine.poll_timeout().unwrap_or(wake).min(wake);
            if self.link.last_heard().is_none() {
                until = until.min(greeting);
            }
            let began = self.link.clock().now();
            self.link.wait(until - began, Interest::Readable)?;
            self.meter.waited(self.link.clock().now() - began);
        }
    }

    /// Takes a sample.
    fn measure(&mut self, audience: Audience) {
        let stats = self.machine.stats();
        let sample = ReceiverSample {
            packets: stats.packets,
            bytes: stats.bytes,
            socket_drops: u64::from(self.link.socket_drops().unwrap_or(0)),
            buffer_bytes: self.link.recv_buffer() as u64,
            backlog: u64::from(self.machine.backlog()),
            interface_drops: self.host.drops().interface,
            backlog_drops: self.host.drops().backlog,
            ..self.meter.sample(self.link.clock().now())
        };
        self.reporter.here(Measured::Receiver(sample), audience);
    }

    fn count_drops(&mut self) {
        if let Some(drops) = self.link.socket_drops() {
            self.machine.handle_socket_drops(drops);
        }
    }

    /// Does something about what this host loses, if it loses anything.
    fn mend(&mut self, now: Timestamp, began: Timestamp) {
        let Some(remedies) = &mut self.remedies else { return };
        let dropped = u64::from(self.machine.packets_dropped().unwrap_or(0));
        let received = self.machine.stats().packets;
        for remedy in remedies.on_heartbeat(now, began, received, dropped, &mut self.link) {
            if let RemedyAction::LargerBuffer { to_bytes, .. } = remedy.action {
                self.machine.handle_socket_buffer(to_bytes);
            }
            self.reporter.here(Measured::Remedy(remedy), Audience::Both);
        }
    }

    /// Takes one batch; how many datagrams it had.
    fn take_packets(&mut self) -> Result<usize> {
        let Receiving { link, machine, buffers, complete, first_data, .. } = self;
        let mut intake = Intake { machine, buffers, complete, first_data, failure: None };
        let count = link.receive(&mut intake)?;
        if let Some(error) = intake.failure {
            return Err(error);
        }
        // One report for the batch: it arrived as one, and stamps cannot tell more.
        if let Some(ack) = self.machine.poll_ack(self.link.clock().now()) {
            self.send_ack(&ack)?;
        }
        while let Some((chunk, len)) = self.complete.pop_front() {
            let buffer = self.buffers.arriving.remove(&chunk).expect("a complete chunk has a buffer");
            // The writer is gone only after it has posted why.
            let _ = self.work.send(ToWriter::Chunk { chunk, buffer, len });
        }
        Ok(count)
    }

    fn send_ack(&mut self, ack: &Ack) -> Result<()> {
        let mut body = Vec::with_capacity(fobs_proto::wire::ACK_LEN_MAX);
        ack.encode(&mut body);
        let mut sealed = self.link.seal_body(self.next_number, Header::Ack, &body);
        self.next_number += 1;
        match self.link.send(&mut sealed, Ecn::NotEct) {
            // A lost ack is repaired by the next one.
            Ok(())
            | Err(SendError::WouldBlock | SendError::NoBuffers | SendError::Refused | SendError::TooLarge) => {
                Ok(())
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

    /// Ends the session if nothing comes: no packets, and on the control channel no word of where the sender stands, which comes
    /// with every heartbeat of it, however long its source makes it wait.
    fn check_silence(&self, now: Timestamp, began: Timestamp) -> Result<()> {
        match self.link.last_heard() {
            Some(heard) => check_answer(now, heard.max(self.last_message), &self.peer_name),
            None if now - began >= self.link.silence_max() => {
                Err(udp_blocked(&self.peer_name, &self.ports, now - began))
            }
            None => Ok(()),
        }
    }

    /// Says something to the sender. Where it does not listen any more, what it said before is the better error.
    /// A sender that was told so ends the session with the file's name; one that does not is not waited for.
    fn check_hopeless(&mut self, now: Timestamp) -> Result<()> {
        match self.hopeless.take_if(|(since, _)| now - *since >= FAREWELL_WAIT) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    fn say(&mut self, message: &Message) -> Result<()> {
        let said = self.writer.send(message);
        if said.is_err() {
            self.take_letters()?;
        }
        said
    }

    fn take_letters(&mut self) -> Result<()> {
        for _ in 0..MAILBOX_MAX {
            let Ok(letter) = self.letters.try_recv() else { return Ok(()) };
            match letter {
                ToReceiver::Verdict { chunk, verdict } => self.take_verdict(chunk, verdict)?,
                ToReceiver::Stored { chunk, buffer } => {
                    self.buffers.spare.push(buffer);
                    self.machine.handle_stored(chunk);
                    if self.machine.is_complete() && !self.finishing {
                        self.finishing = true;
                        let _ = self.work.send(ToWriter::Finish);
                    }
                }
                ToReceiver::Returned { buffer } => self.buffers.spare.push(buffer),
                ToReceiver::StoreFailed(error) => return Err(error),
                ToReceiver::Finished(summary) => self.summary = Some(summary),
                ToReceiver::Control(event) => self.take_control(event)?,
            }
        }
        // There may be more: other things come first, but no sleep.
        self.link.waker().wake();
        Ok(())
    }

    fn take_verdict(&mut self, chunk: ChunkId, verdict: Verdict) -> Result<()> {
        let attempt = self.machine.attempt(chunk).unwrap_or(0);
        let again = self.machine.handle_verdict(chunk, verdict);
        match verdict {
            Verdict::Verified => {
                self.mismatches.remove(&chunk);
                self.last_verified = self.link.clock().now();
            }
            Verdict::Mismatch => {
                let mismatches = self.mismatches.entry(chunk).or_insert(0);
                *mismatches += 1;
                if !again || *mismatches >= MISMATCHES_MAX {
                    let message = format!(
                        "chunk {chunk} did not verify in {mismatches} tries; the memory or the disk of one side is faulty"
                    );
                    self.hopeless =
                        Some((self.link.clock().now(), Error::new(ErrorKind::Integrity, message)));
                }
                self.writer.send(&Message::Rejected { chunk, attempt })?;
            }
        }
        Ok(())
    }

    fn take_control(&mut self, event: ControlEvent) -> Result<()> {
        self.last_message = self.link.clock().now();
        match event {
            ControlEvent::Message(Message::Standing(standing)) => self.reporter.standing(&standing),
            ControlEvent::Message(Message::SenderSample(sample)) => {
                self.reporter.there(Measured::Sender(*sample));
            }
            ControlEvent::Message(Message::Failed { path, reason }) => {
                self.reporter.failed_there(path.0, &reason);
            }
            ControlEvent::Message(Message::Loss(window)) => self.reporter.there(Measured::Loss(window)),
            ControlEvent::Message(Message::Remedy(remedy)) => self.reporter.there(Measured::Remedy(remedy)),
            ControlEvent::Message(Message::Mode(change)) => self.reporter.there(Measured::Mode(change)),
            ControlEvent::Message(Message::Finished(finished)) => self.sender_said = Some(finished),
            ControlEvent::Message(Message::Abort { code, message }) => {
                return Err(aborted(&self.peer_name, &code, &message));
            }
            ControlEvent::Message(_) => {}
            ControlEvent::Closed(error) => return Err(closed_early(error)),
        }
        Ok(())
    }

    fn completion(&mut self, summary: &SinkSummary) -> Complete {
        self.count_drops();
        let dropped = self.machine.packets_dropped();
        let usage = fobs_sys::process_usage();
        Complete {
            root: blake3::Hash::from_bytes(summary.root).to_hex().to_string(),
            files: summary.files,
            bytes: summary.bytes,
            seconds: self.first_data.map_or(0.0, |first| (self.last_verified - first).as_secs_f64()),
            socket_drops: u64::from(dropped.unwrap_or(0)),
            datagrams_rejected: self.link.rejected(),
            cpu_seconds: usage.cpu_seconds,
            max_rss_bytes: usage.max_rss_bytes,
        }
    }

    /// Waits for the sender's figures; a sender that goes without them has still sent everything.
    fn await_finished(&mut self) -> Result<Finished> {
        let end = Instant::now() + FAREWELL_WAIT;
        while self.sender_said.is_none() && Instant::now() < end {
            match self.letters.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(ToReceiver::Control(ControlEvent::Closed(_))) => break,
                Ok(ToReceiver::Control(event)) => self.take_control(event)?,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(self.sender_said.take().unwrap_or_default())
    }
}
