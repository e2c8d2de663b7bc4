use super::*;
use crate::congestion::{Auto, Controller, Fixed};
use crate::receiver::{
    ChunkVerification, Disposition, EcnCodepoint, PacketMeta, Receiver, ReceiverConfig, SocketNote,
};
use crate::sender::{PacketOut, ScheduleKind, SenderConfig, Transmit};
use fobs_rng::Rng;
use std::collections::BTreeSet;
use std::time::Duration;

const PAYLOAD: u16 = 1172;
const CHUNK: u32 = 300_000;

fn sender(controller: Box<dyn Controller>, cap: Option<Rate>, schedule: ScheduleKind) -> Sender {
    let plain = SenderConfig::plain(controller, 4);
    let config = SenderConfig { schedule, rate_limit: cap, payload_size: Some(PAYLOAD), ..plain };
    Sender::new(Timestamp::ZERO, config)
}

fn quick() -> Box<dyn Controller> {
    Box::new(Fixed::new(Rate::bits_per_second(1 << 40)))
}

/// A sender of four chunks whose last one ends the object.
fn with_chunks(route: Route) -> Sender {
    let mut sender = sender(Box::new(Auto::new(1200)), None, ScheduleKind::LossDriven);
    for chunk in 0..4 {
        sender.push_chunk(CHUNK, chunk == 3);
    }
    sender.set_route(Timestamp::ZERO, route);
    sender
}

fn frame(sender: &mut Sender, now: Timestamp) -> Option<FrameOut> {
    match sender.poll_frame(now) {
        TransmitFrame::Frame(frame) => Some(frame),
        TransmitFrame::Wait | TransmitFrame::WaitUntil(_) => None,
    }
}

fn all_frames(sender: &mut Sender) -> Vec<FrameOut> {
    std::iter::from_fn(|| frame(sender, Timestamp::ZERO)).collect()
}

/// Every byte of the chunks, by frame.
fn bytes_of(frames: &[FrameOut]) -> Vec<(ChunkId, u32, u32)> {
    frames.iter().map(|f| (f.chunk, f.offset, f.len)).collect()
}

#[test]
fn frames_tile_the_chunks_in_order_and_end_with_them() {
    let mut sender = with_chunks(Route::Frames);
    let frames = all_frames(&mut sender);
    let mut at = (0, 0);
    for frame in &frames {
        assert_eq!((frame.chunk, frame.offset), at);
        let header = &frame.header;
        assert!(frame.len as usize <= FRAME_DATA_MAX);
        assert_eq!(header.check(frame.len as usize), Ok(()), "{frame:?}");
        let ends = frame.offset + frame.len == CHUNK;
        assert_eq!((header.first.last, header.first.final_chunk), (ends, frame.chunk == 3), "{frame:?}");
        at = if ends { (frame.chunk + 1, 0) } else { (frame.chunk, frame.offset + frame.len) };
    }
    assert_eq!(at, (4, 0));
    let outstanding = sender.frames_outstanding();
    assert_eq!((outstanding.frames as usize, outstanding.bytes), (frames.len(), 4 * u64::from(CHUNK)));
    assert_eq!(sender.limit(), SendLimit::Answers);
    assert_eq!(sender.stats().packets_framed, sender.stats().packets_needed);
    assert_eq!(sender.stats().waste(), 0.0);
}

#[test]
fn no_frame_leaves_where_only_datagrams_are_wanted_or_without_credit() {
    let mut machine = with_chunks(Route::Datagrams);
    assert_eq!(machine.poll_frame(Timestamp::ZERO), TransmitFrame::Wait);
    let mut beyond = sender(Box::new(Auto::new(1200)), None, ScheduleKind::LossDriven);
    beyond.set_route(Timestamp::ZERO, Route::Frames);
    for _ in 0..5 {
        beyond.push_chunk(CHUNK, false);
    }
    let frames = all_frames(&mut beyond);
    assert_eq!(frames.iter().map(|f| f.chunk).max(), Some(3), "credit ends at 4");
    assert_eq!(beyond.limit(), SendLimit::Credit);
}

#[test]
fn a_lost_frame_is_sent_again_and_a_delivered_one_is_not() {
    let mut sender = with_chunks(Route::Frames);
    let frames = all_frames(&mut sender);
    sender.handle_frame_delivered(Timestamp::ZERO, frames[0].id);
    for frame in &frames[1..3] {
        sender.handle_frame_lost(Timestamp::ZERO, frame.id);
        sender.handle_frame_lost(Timestamp::ZERO, frame.id);
    }
    // A frame that is gone says nothing more.
    sender.handle_frame_delivered(Timestamp::ZERO, frames[1].id);
    sender.handle_frame_late(Timestamp::ZERO, frames[2].id);
    sender.handle_frame_lost(Timestamp::ZERO, u64::MAX);
    let again = all_frames(&mut sender);
    assert_eq!(bytes_of(&again), bytes_of(&frames[1..3]));
    assert!(again.iter().all(|f| f.id > frames.last().expect("there are some").id), "an id is used once");
}

#[test]
fn a_late_frame_is_taken_once_more_and_either_may_arrive() {
    for first_arrives in [true, false] {
        let mut sender = with_chunks(Route::Frames);
        let frames = all_frames(&mut sender);
        let late = frames[1];
        sender.handle_frame_late(Timestamp::ZERO, late.id);
        sender.handle_frame_late(Timestamp::ZERO, late.id);
        let again = all_frames(&mut sender);
        assert_eq!(bytes_of(&again), bytes_of(&[late]));
        let (arrives, fails) = if first_arrives { (late.id, again[0].id) } else { (again[0].id, late.id) };
        sender.handle_frame_delivered(Timestamp::ZERO, arrives);
        sender.handle_frame_lost(Timestamp::ZERO, fails);
        assert_eq!(all_frames(&mut sender), [], "one of the two arrived");
    }
}

#[test]
fn the_loss_of_an_old_carrier_changes_nothing() {
    let mut sender = with_chunks(Route::Frames);
    let frames = all_frames(&mut sender);
    sender.handle_frame_late(Timestamp::ZERO, frames[0].id);
    let again = all_frames(&mut sender);
    sender.handle_frame_lost(Timestamp::ZERO, frames[0].id);
    assert_eq!(all_frames(&mut sender), [], "the second one is still outstanding");
    sender.handle_frame_lost(Timestamp::ZERO, again[0].id);
    assert_eq!(bytes_of(&all_frames(&mut sender)), bytes_of(&frames[..1]));
}

#[test]
fn datagrams_in_flight_are_handed_to_frames_without_a_loss() {
    let mut sender = with_chunks(Route::Datagrams);
    let mut out = Vec::new();
    let mut carried = Vec::new();
    while sender.poll_transmit(Timestamp::ZERO, &mut out) == Transmit::Burst {
        carried.extend(out.iter().filter_map(|p| match p.header {
            Header::Data(header) => Some((header.chunk, header.packet_index)),
            _ => None,
        }));
    }
    assert!(!carried.is_empty());
    let window = sender.controller().congestion_window();
    sender.set_route(Timestamp::ZERO, Route::Frames);
    assert_eq!(sender.bytes_in_flight(), 0);
    assert_eq!(sender.stats().packets_lost, 0);
    assert_eq!(sender.stats().packets_abandoned, carried.len() as u64);
    assert_eq!(sender.controller().congestion_window(), window, "the controller does not know");
    let mut framed = BTreeSet::new();
    for frame in all_frames(&mut sender) {
        for (packet, _) in frame.header.packets(frame.len as usize) {
            assert!(framed.insert((packet.chunk, packet.packet_index)), "one frame carries a packet");
        }
    }
    assert!(carried.iter().all(|slot| framed.contains(slot)));
    assert_eq!(framed.len() as u64, sender.stats().packets_needed);
}

#[test]
fn a_deadline_that_streams_will_miss_is_foreseen() {
    let mut sender = with_chunks(Route::Frames);
    let second = Duration::from_secs(1);
    // Four chunks and a hundred megabytes behind them, at a frame in half a second, within a minute.
    sender.pursue(Timestamp::ZERO, Timestamp::ZERO + 60 * second, crate::congestion::Priority::Fair);
    sender.expect(Timestamp::ZERO, 100_000_000, crate::sender::Extent::Whole);
    let mut now = Timestamp::ZERO;
    for frame in all_frames(&mut sender) {
        now = now + second / 2;
        sender.handle_frame_delivered(now, frame.id);
    }
    let late = sender.late().expect("a hundred megabytes take longer");
    assert!(late > 100 * second, "{late:?}");
}

#[test]
fn what_a_timer_repeats_is_a_copy_by_either_way() {
    let mut sender = with_chunks(Route::Datagrams);
    let mut out = Vec::new();
    while sender.poll_transmit(Timestamp::ZERO, &mut out) == Transmit::Burst {}
    let expires = sender.poll_timeout().expect("packets are in flight");
    sender.set_route(Timestamp::ZERO, Route::Both);
    sender.handle_timeout(expires);
    let again = frame(&mut sender, expires).expect("the oldest packet is repeated");
    assert_eq!((again.header.first.packet_index, again.header.packets), (0, 1));
    assert_eq!(sender.stats().packets_copied, 1);
    let fresh = frame(&mut sender, expires).expect("there are new packets");
    assert!(fresh.header.first.packet_index > 1 && sender.stats().packets_copied == 1);
    // What is late is no copy.
    sender.handle_frame_late(expires, fresh.id);
    assert_eq!(frame(&mut sender, expires).map(|f| f.offset), Some(fresh.offset));
    assert_eq!(
        (sender.stats().packets_copied, sender.stats().packets_returned),
        (1, u64::from(fresh.header.packets))
    );
}

#[test]
fn only_a_probe_now_and_then_leaves_where_frames_carry_the_data() {
    let mut sender = with_chunks(Route::Frames);
    let mut out: Vec<PacketOut> = Vec::new();
    let (mut now, mut probes) = (Timestamp::ZERO, Vec::new());
    let end = Timestamp::ZERO + Duration::from_secs(60);
    while now < end {
        match sender.poll_transmit(now, &mut out) {
            Transmit::Burst => {
                assert_eq!(out.iter().map(|p| p.header).collect::<Vec<_>>(), [Header::Probe]);
                assert_eq!(sender.bytes_in_flight(), 20, "the one before is not waited for");
                probes.push(now.as_nanos() / 1_000_000_000);
            }
            Transmit::WaitUntil(at) => {
                assert!(at > now);
                now = at;
            }
            Transmit::Wait => panic!("the next probe has its time"),
        }
    }
    assert_eq!(probes, [1, 3, 7, 15, 25, 35, 45, 55]);
    assert_eq!(sender.poll_timeout(), None, "no timer runs beside");
    assert!(!sender.awaits_answer());
}

#[test]
fn datagrams_begin_with_care_after_frames() {
    let mut sender = sender(Box::new(crate::congestion::Cubic::new(1200)), None, ScheduleKind::LossDriven);
    for chunk in 0..4 {
        sender.push_chunk(CHUNK, chunk == 3);
    }
    let before = sender.controller().congestion_window();
    let mut out = Vec::new();
    assert_eq!(sender.poll_transmit(Timestamp::ZERO, &mut out), Transmit::Burst);
    sender.set_route(Timestamp::ZERO, Route::Frames);
    assert_eq!(sender.controller().congestion_window(), before);
    let now = Timestamp::ZERO + Duration::from_secs(1);
    sender.set_route(now, Route::Both);
    assert!(sender.controller().congestion_window() < before, "as after a silence");
    assert_eq!(sender.poll_transmit(now, &mut out), Transmit::Burst, "and at once");
}

#[test]
fn the_user_s_rate_holds_for_both_ways_together() {
    let rate = Rate::bits_per_second(80_000_000);
    let chosen: Box<dyn Controller> = Box::new(Fixed::new(rate));
    for (controller, cap) in [(chosen, None), (quick(), Some(rate))] {
        let mut sender = sender(controller, cap, ScheduleKind::LossDriven);
        sender.set_route(Timestamp::ZERO, Route::Both);
        let (mut now, mut out) = (Timestamp::ZERO, Vec::new());
        let (mut bytes, mut next) = (0u64, 0);
        let end = Timestamp::ZERO + Duration::from_millis(100);
        while now < end {
            while next < 4 {
                sender.push_chunk(CHUNK, next == 3);
                next += 1;
            }
            while sender.poll_transmit(now, &mut out) == Transmit::Burst {
                bytes += out.iter().map(|p| p.datagram_len() as u64).sum::<u64>();
            }
            while let TransmitFrame::Frame(frame) = sender.poll_frame(now) {
                bytes += frame.record_len() as u64;
            }
            now = now + Duration::from_micros(500);
        }
        let due = rate.bytes_in(Duration::from_millis(100));
        let slack = (FRAME_DATA_MAX + 70_000) as u64;
        assert!(bytes + slack > due && bytes < due + slack, "{bytes} of {due}");
    }
}

/// A transfer over datagrams and frames that are lost, late and delivered at random, with the route changed
/// at random: it completes, every packet is stored once, and nothing leaves that the receiver is known to
/// have.
#[test]
fn any_mix_of_ways_completes() {
    for seed in 0..40u64 {
        for schedule in [ScheduleKind::LossDriven, ScheduleKind::Circular] {
            run_mixed(seed, schedule);
        }
    }
}

fn run_mixed(seed: u64, schedule: ScheduleKind) {
    let mut mixed = Mixed::new(seed, schedule);
    for _ in 0..200_000 {
        if mixed.is_complete() {
            let stats = mixed.tx.stats();
            assert_eq!(mixed.stored.len() as u64, stats.packets_needed, "{}", mixed.name);
            assert_eq!(mixed.tx.frames_outstanding().frames as usize, mixed.flying.len(), "{}", mixed.name);
            return;
        }
        mixed.step();
    }
    panic!("{}: no end; {:?} {:?}", mixed.name, mixed.tx.stats(), mixed.tx.frames_outstanding());
}

/// Both ends of such a transfer.
struct Mixed {
    name: String,
    rng: Rng,
    now: Timestamp,
    tx: Sender,
    rx: Receiver,
    pushed: u32,
    flying: Vec<FrameOut>,
    /// Packets that the receiver stored, and those of delivered frames.
    stored: BTreeSet<(ChunkId, u16)>,
    delivered: BTreeSet<(ChunkId, u16)>,
    complete: BTreeSet<ChunkId>,
    written: ChunkId,
}

impl Mixed {
    const CHUNKS: u32 = 6;

    fn new(seed: u64, schedule: ScheduleKind) -> Mixed {
        let config = ReceiverConfig { ack_every: 8, ack_delay_max: Duration::from_millis(5), chunks_max: 4 };
        Mixed {
            name: format!("seed {seed} {schedule:?}"),
            rng: Rng::new(seed),
            now: Timestamp::ZERO,
            tx: sender(quick(), None, schedule),
            rx: Receiver::new(config),
            pushed: 0,
            flying: Vec::new(),
            stored: BTreeSet::new(),
            delivered: BTreeSet::new(),
            complete: BTreeSet::new(),
            written: 0,
        }
    }

    fn is_complete(&self) -> bool {
        self.rx.is_complete() && self.tx.is_complete()
    }

    fn step(&mut self) {
        self.now = self.now + Duration::from_micros(200);
        if self.rng.below(50) == 0 {
            let route = self.rng.pick(&[Route::Datagrams, Route::Both, Route::Frames]);
            self.tx.set_route(self.now, route);
        }
        while self.pushed < Self::CHUNKS && self.tx.wants_chunk() {
            self.pushed += 1;
            self.tx.push_chunk(CHUNK, self.pushed == Self::CHUNKS);
        }
        if self.tx.poll_timeout().is_some_and(|at| at <= self.now) {
            self.tx.handle_timeout(self.now);
        }
        self.send_datagrams();
        self.send_frame();
        self.move_frame();
        while self.complete.contains(&self.written) {
            self.rx.handle_stored(self.written);
            self.written += 1;
        }
        self.report();
        while self.tx.poll_freed().is_some() {}
    }

    /// A quarter of the datagrams is lost.
    fn send_datagrams(&mut self) {
        let mut out = Vec::new();
        self.tx.poll_transmit(self.now, &mut out);
        for packet in out {
            if self.rng.below(4) == 0 {
                continue;
            }
            let (len, socket) = (packet.datagram_len(), SocketNote::default());
            let meta = PacketMeta {
                number: packet.number,
                arrived: self.now,
                len: len as u16,
                ecn: EcnCodepoint::NotEct,
                socket,
            };
            match packet.header {
                Header::Data(header) => {
                    let body = len - crate::wire::DATA_OVERHEAD;
                    let disposition = self.rx.handle_data(self.now, &meta, &header, body);
                    self.take(&header, disposition);
                }
                _ => self.rx.handle_probe(self.now, &meta, None),
            }
        }
    }

    fn send_frame(&mut self) {
        if self.flying.len() < 8
            && let Some(frame) = frame(&mut self.tx, self.now)
        {
            for (packet, _) in frame.header.packets(frame.len as usize) {
                let known = self.delivered.contains(&(packet.chunk, packet.packet_index));
                assert!(!known, "{}: delivered and sent again: {packet:?}", self.name);
            }
            self.flying.push(frame);
        }
    }

    /// One of the frames is lost, late or delivered.
    fn move_frame(&mut self) {
        if self.flying.is_empty() || self.rng.below(3) > 0 {
            return;
        }
        let place = self.rng.below(self.flying.len());
        match self.rng.below(5) {
            0 => self.tx.handle_frame_lost(self.now, self.flying.swap_remove(place).id),
            1 => self.tx.handle_frame_late(self.now, self.flying[place].id),
            _ => {
                let frame = self.flying.swap_remove(place);
                for (packet, range) in frame.header.packets(frame.len as usize) {
                    let disposition = self.rx.handle_framed(self.now, &packet, range.len());
                    if let Disposition::Store { offset, .. } = disposition {
                        assert_eq!(offset, frame.offset + range.start as u32, "{}", self.name);
                    }
                    self.take(&packet, disposition);
                    self.delivered.insert((packet.chunk, packet.packet_index));
                }
                self.tx.handle_frame_delivered(self.now, frame.id);
            }
        }
    }

    fn take(&mut self, header: &crate::wire::DataHeader, disposition: Disposition) {
        match disposition {
            Disposition::Store { completes, .. } => {
                assert!(self.stored.insert((header.chunk, header.packet_index)), "{}", self.name);
                if completes.is_some() {
                    self.rx.handle_verdict(header.chunk, ChunkVerification::Verified);
                    self.complete.insert(header.chunk);
                }
            }
            Disposition::Duplicate => {}
            Disposition::Reject(why) => panic!("{}: {why:?} of {header:?}", self.name),
        }
    }

    /// A third of the acks is lost, a third comes by each way.
    fn report(&mut self) {
        let Some(ack) = self.rx.poll_ack(self.now) else { return };
        match self.rng.below(3) {
            0 => self.tx.handle_ack(self.now, &ack),
            1 => self.tx.handle_stream_ack(self.now, &ack),
            _ => {}
        }
        assert!(self.rx.poll_ack(self.now).is_none(), "{}: one ack is enough", self.name);
    }
}
