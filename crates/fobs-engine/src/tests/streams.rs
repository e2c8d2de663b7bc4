//! Data over streams: whole transfers, what may happen to connections, and peers that lie on them.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use fobs_proto::session::TransportChoice;
use fobs_proto::wire::{DataHeader, FRAME_HEADER_LEN, FrameHeader, FrameReport};

use super::support::*;
use crate::streams::Allotment;
use fobs_channel::secure::datagram::{Direction, TAG_LEN};
use fobs_model::error::ErrorKind;

/// Streams alone, so many.
fn tcp(count: u32) -> TransportChoice {
    TransportChoice::Tcp { count: Some(count) }
}

/// No datagram passes.
fn blocked() -> Datagrams {
    Box::new(|_, _| Vec::new())
}

/// Copies a file of this length over streams alone, with UDP blocked, and expects it whole.
#[track_caller]
fn copy(len: usize, doors: &Doors, count: u32, client: End) -> (u64, u32) {
    let world = World::with_file("file", len);
    let streams = Some((doors.clone(), tcp(count)));
    let session = Session::start(Spec { streams, client, datagrams: Some(blocked()), ..world.spec() });
    let (sent, received) = session.join();
    let (sent, received) = (sent.unwrap(), received.unwrap());
    world.expect_copied();
    assert_eq!(sent.complete.root, received.complete.root);
    assert_eq!(sent.finished.transport, "tcp");
    let repeated = sent.finished.packets_sent - sent.finished.packets_needed;
    (repeated, sent.finished.streams)
}

#[test]
fn a_transfer_is_whole_over_any_number_of_streams() {
    for count in [1, 4, 64] {
        for client in End::BOTH {
            let doors = Doors::new();
            let (_, streams) = copy((24 << 20) + 7, &doors, count, client);
            assert_eq!(streams, count);
        }
    }
}

#[test]
fn an_empty_file_and_a_byte_pass_too() {
    for len in [0, 1] {
        copy(len, &Doors::new(), 2, End::Sender);
    }
}

#[test]
fn datagrams_and_streams_carry_one_object_together() {
    let world = World::with_file("file", 24 << 20);
    // Datagrams pass from the moment on when frames come, and bring what is left.
    let passes = Arc::new(AtomicBool::new(false));
    let opening = passes.clone();
    let mut framed = 0;
    let doors = Doors::meddling(move |_, from, bytes| {
        framed += if from == End::Sender { bytes.len() } else { 0 };
        if framed > 200 << 10 {
            opening.store(true, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(1));
        }
        Fate::Pass
    });
    let datagrams: Datagrams = Box::new(move |_, datagram| {
        if passes.load(Ordering::Relaxed) { vec![Out::Peer(datagram.to_vec())] } else { Vec::new() }
    });
    let streams = Some((doors, TransportChoice::Auto));
    let session = Session::start(Spec { streams, datagrams: Some(datagrams), ..world.spec() });
    let (sent, received) = session.join();
    let (sent, received) = (sent.unwrap(), received.unwrap());
    world.expect_copied();
    assert_eq!(sent.complete.root, received.complete.root);
    assert!(sent.finished.bytes_framed > 0);
}

/// Bytes of the greeting with which each end begins a stream.
const GREETING: usize = 4 + 9 + TAG_LEN;

#[test]
fn a_stream_may_be_cut_at_every_byte_of_a_record() {
    // The sender's greeting, the length, kind and header of its first frame, the receiver's greeting and
    // first report, and the end of a frame of 55 packets.
    let header = GREETING + 4 + FRAME_HEADER_LEN + 8;
    let end = GREETING + 4 + FRAME_HEADER_LEN + 55 * 1172 + TAG_LEN;
    let mut cuts: Vec<(End, usize)> = (0..header).map(|cut| (End::Sender, cut)).collect();
    cuts.extend((0..80).map(|cut| (End::Receiver, cut)));
    cuts.extend((end - 30..end + 10).map(|cut| (End::Sender, cut)));
    let planned = u32::try_from(cuts.len()).unwrap();
    let mut passed = std::collections::HashMap::new();
    let doors = Doors::meddling(move |index, from, bytes| {
        let Some((end, cut)) = cuts.get(usize::from(index) - 1) else { return Fate::Pass };
        if from != *end {
            return Fate::Pass;
        }
        let passed: &mut usize = passed.entry(index).or_default();
        *passed += bytes.len();
        if *passed >= *cut { Fate::Cut(bytes.len() - (*passed - *cut)) } else { Fate::Pass }
    });
    copy(24 << 20, &doors, 3, End::Sender);
    assert!(doors.counts().0 >= planned, "{} of {planned} streams were cut", doors.counts().0);
}

#[test]
fn the_frames_of_a_stream_that_stalls_go_to_others() {
    for stalling in End::BOTH {
        let mut passed = 0;
        let doors = Doors::meddling(move |index, from, bytes| {
            passed += if index == 2 && from == stalling { bytes.len() } else { 0 };
            if index == 2 && passed > 100 { Fate::Stall } else { Fate::Pass }
        });
        let (repeated, streams) = copy(12 << 20, &doors, 3, End::Sender);
        assert_eq!(streams, 3);
        assert!(repeated > 0, "what is on the stalled stream is sent again");
    }
}

#[test]
fn without_any_stream_a_session_of_streams_alone_fails_by_name() {
    // After the first chunks every stream is cut, and no more can be made. UDP works, and must not be used.
    let cut = Arc::new(AtomicBool::new(false));
    let cutting = cut.clone();
    let doors = Doors::meddling(
        move |_, _, _| if cutting.load(Ordering::Relaxed) { Fate::Cut(0) } else { Fate::Pass },
    );
    let world = World::with_file("file", 100 << 20);
    let endurance = Endurance { timeout: Duration::from_secs(1), ..Endurance::for_peer(None) };
    let streams = Some((doors.at_most(3), tcp(3)));
    let session = Session::start(Spec { streams, endurance, ..world.spec() });
    world.wait_for_storing();
    cut.store(true, Ordering::Relaxed);
    let [at_sender, _] = session.expect_failure(ErrorKind::Connect);
    assert!(at_sender.contains("no stream to the receiver"), "{at_sender}");
    world.expect_nothing();
}

#[test]
fn where_nothing_comes_through_both_ways_are_named() {
    // Both at once: each waits as long as it must.
    std::thread::scope(|scope| {
        for choice in [TransportChoice::Auto, tcp(2)] {
            scope.spawn(move || {
                let world = World::with_file("file", 2 << 20);
                let streams = Some((Doors::new().at_most(0), choice));
                let session = Session::start(Spec { streams, datagrams: Some(blocked()), ..world.spec() });
                for sentence in session.expect_failure(ErrorKind::Connect) {
                    assert!(sentence.contains("the test makes no more streams"), "{sentence}");
                }
                world.expect_nothing();
            });
        }
    });
}

#[test]
fn blocked_udp_costs_a_second_and_no_byte_twice() {
    let world = World::with_file("file", 8 << 20);
    let streams = Some((Doors::new(), TransportChoice::Auto));
    let session = Session::start(Spec { streams, datagrams: Some(blocked()), ..world.spec() });
    let (sent, received) = session.join();
    let (sent, received) = (sent.unwrap(), received.unwrap());
    world.expect_copied();
    assert_eq!(sent.complete.root, received.complete.root);
    assert_eq!(sent.finished.transport, "tcp");
}

#[test]
fn a_udp_path_that_dies_is_left_and_taken_again() {
    // Datagrams vanish from the third chunk on, and pass again after enough has come over streams.
    let (dead, healed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (dying, healing) = (dead.clone(), healed.clone());
    let datagrams: Datagrams = Box::new(move |_, datagram| {
        if data_header(datagram).is_some_and(|header| header.chunk >= 3) {
            dying.store(true, Ordering::Relaxed);
        }
        if dying.load(Ordering::Relaxed) && !healing.load(Ordering::Relaxed) {
            Vec::new()
        } else {
            vec![Out::Peer(datagram.to_vec())]
        }
    });
    let frames = Arc::new(AtomicU32::new(0));
    let counter = frames.clone();
    let doors = Doors::meddling(move |_, from, _| {
        if from == End::Sender && counter.fetch_add(1, Ordering::Relaxed) > 40 {
            healed.store(true, Ordering::Relaxed);
            // About 8 MB/s, so that there is something left for UDP.
            std::thread::sleep(Duration::from_millis(5));
        }
        Fate::Pass
    });
    let world = World::with_file("file", 40 << 20);
    let streams = Some((doors, TransportChoice::Auto));
    let session = Session::start(Spec { streams, datagrams: Some(datagrams), ..world.spec() });
    let (sent, received) = session.join();
    let (sent, received) = (sent.unwrap(), received.unwrap());
    world.expect_copied();
    assert_eq!(sent.complete.root, received.complete.root);
    assert!(sent.finished.bytes_framed > 0 && dead.load(Ordering::Relaxed));
}

#[test]
fn where_all_streams_die_datagrams_go_on() {
    // Datagrams pass as soon as no stream does any more, and no other stream can be made.
    let dead = Arc::new(AtomicBool::new(false));
    let (dying, passes) = (dead.clone(), dead.clone());
    let mut framed = 0;
    let doors = Doors::meddling(move |_, from, bytes| {
        framed += if from == End::Sender { bytes.len() } else { 0 };
        if framed > 4 << 20 {
            dying.store(true, Ordering::Relaxed);
        }
        if dying.load(Ordering::Relaxed) { Fate::Cut(0) } else { Fate::Pass }
    });
    let datagrams: Datagrams = Box::new(move |_, datagram| {
        if passes.load(Ordering::Relaxed) { vec![Out::Peer(datagram.to_vec())] } else { Vec::new() }
    });
    let world = World::with_file("file", 24 << 20);
    let streams = Some((doors.at_most(4), TransportChoice::Auto));
    let session = Session::start(Spec { streams, datagrams: Some(datagrams), ..world.spec() });
    let (sent, received) = session.join();
    let (sent, received) = (sent.unwrap(), received.unwrap());
    world.expect_copied();
    assert_eq!(sent.complete.root, received.complete.root);
    assert!(dead.load(Ordering::Relaxed) && sent.finished.bytes_framed > 4 << 20);
    assert_eq!(sent.finished.transport, "udp");
}

#[test]
fn parts_fixed_in_advance_arrive_whole_too() {
    copy((24 << 20) + 7, &Doors::new().allotted(Allotment::EqualParts), 4, End::Sender);
}

/// A stream on which the test is the sender.
struct Liar {
    stream: TcpStream,
    sealer: fobs_channel::secure::datagram::Sealer,
    next: u64,
}

impl Liar {
    fn new(doors: &Doors, index: u16) -> Liar {
        let (sealer, _) = keys().streams.take(index, Direction::Sender).expect("its first use");
        let stream = doors.inject(End::Receiver, index);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Liar { stream, sealer, next: 0 }
    }

    fn record(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut out = u32::try_from(plain.len() + TAG_LEN).unwrap().to_be_bytes().to_vec();
        let length = out.clone();
        out.resize(4 + plain.len() + TAG_LEN, 0);
        self.sealer.seal(self.next, &length, plain, &mut out[4..]);
        self.next += 1;
        out
    }

    fn write(&mut self, bytes: &[u8]) {
        // A receiver that has closed it is what most of these wait for.
        let _ = self.stream.write_all(bytes);
    }

    /// Waits until the receiver closes the stream.
    fn await_close(mut self) {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(1..) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("it is still open"),
                Ok(0) | Err(_) => return,
            }
        }
    }
}

/// A frame of one packet.
fn frame(chunk: u32, packet_index: u16, data: &[u8]) -> Vec<u8> {
    let first =
        DataHeader { chunk, packet_index, payload_size: 1172, attempt: 0, last: false, final_chunk: false };
    let mut plain = vec![0; FRAME_HEADER_LEN];
    FrameHeader { first, packets: 1 }.encode(&mut plain);
    [plain, data.to_vec()].concat()
}

/// A session in the middle of a transfer over one stream that goes on when the flag is set.
fn halted(world: &World) -> (Session, Doors, Arc<AtomicBool>) {
    halted_over(world, 1)
}

/// Likewise where `wanted` streams are asked for, and only one can be made.
fn halted_over(world: &World, wanted: u32) -> (Session, Doors, Arc<AtomicBool>) {
    let (open, is_halted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (going, halting) = (open.clone(), is_halted.clone());
    let mut passed = 0;
    let doors = Doors::meddling(move |_, from, bytes| {
        passed += if from == End::Sender { bytes.len() } else { 0 };
        while passed > 6 << 20 && !going.load(Ordering::Relaxed) {
            halting.store(true, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(2));
        }
        Fate::Pass
    });
    let doors = doors.at_most(1);
    let streams = Some((doors.clone(), tcp(wanted)));
    let session = Session::start(Spec { streams, datagrams: Some(blocked()), ..world.spec() });
    wait_until("the transfer is halted", || is_halted.load(Ordering::Relaxed));
    (session, doors, open)
}

#[test]
fn garbage_on_streams_closes_them_and_nothing_else() {
    let world = World::with_file("file", 12 << 20);
    let (session, doors, open) = halted(&world);
    type Lie = fn(&mut Liar) -> Vec<u8>;
    let lies: [Lie; 10] = [
        |_| vec![0; 4096],
        |_| vec![0xff; 4096],
        // Too long, and too short for any record.
        |_| 66_001u32.to_be_bytes().to_vec(),
        |_| [16u32.to_be_bytes().to_vec(), vec![1; 16]].concat(),
        // A good record, changed, and one that comes twice.
        |liar| {
            let mut record = liar.record(&frame(0, 0, &[1; 1172]));
            record[40] ^= 1;
            record
        },
        |liar| liar.record(&[1, 0, 0, 0, 0, 0, 0, 0, 0]).repeat(2),
        // Left out.
        |liar| {
            let _ = liar.record(&[1]);
            liar.record(&[1, 0, 0, 0, 0, 0, 0, 0, 0])
        },
        // Authentic, and no frame: an unknown kind, half a header, a report that is none.
        |liar| liar.record(&[77, 1, 2, 3]),
        |liar| liar.record(&frame(0, 0, &[])[..7]),
        |liar| liar.record(&[1, 2, 3]),
    ];
    for (lie, index) in lies.into_iter().zip(1000..) {
        let mut liar = Liar::new(&doors, index);
        let bytes = lie(&mut liar);
        liar.write(&bytes);
        // It would wait for ever.
        liar.await_close();
    }
    // Half a record, and then the end.
    let mut liar = Liar::new(&doors, 2000);
    let record = liar.record(&frame(0, 0, &[1; 1172]));
    liar.write(&record[..100]);
    drop(liar);
    open.store(true, Ordering::Relaxed);
    let (sent, received) = session.join();
    world.expect_copied();
    assert_eq!(sent.unwrap().complete.root, received.unwrap().complete.root);
}

#[test]
fn an_index_is_used_once() {
    let world = World::with_file("file", 12 << 20);
    let (session, doors, open) = halted(&world);
    // That of the stream which carries the data, and one that was closed before.
    Liar::new(&doors, 1).await_close();
    let mut closed = Liar::new(&doors, 7);
    closed.write(&[0; 100]);
    closed.await_close();
    let mut again = Liar::new(&doors, 7);
    let report = again.record(&[1, 0, 0, 0, 0, 0, 0, 0, 0]);
    again.write(&report);
    again.await_close();
    open.store(true, Ordering::Relaxed);
    let (sent, received) = session.join();
    world.expect_copied();
    assert_eq!(sent.unwrap().complete.root, received.unwrap().complete.root);
}

#[test]
fn of_two_streams_that_claim_one_range_the_verified_one_stays() {
    let world = World::with_file("file", 12 << 20);
    let (session, doors, open) = halted(&world);
    // Ranges that are stored, that are arriving, and that are to come, each twice, with other content.
    let mut liars = [Liar::new(&doors, 500), Liar::new(&doors, 501)];
    for (chunk, packet_index) in (0..12).flat_map(|chunk| [0, 100, 800].map(|packet| (chunk, packet))) {
        for (liar, byte) in liars.iter_mut().zip([1, 2]) {
            let record = liar.record(&frame(chunk, packet_index, &[byte; 1172]));
            liar.write(&record);
        }
    }
    // They are taken before the true ones go on.
    std::thread::sleep(Duration::from_millis(300));
    open.store(true, Ordering::Relaxed);
    let (sent, received) = session.join();
    let (sent, received) = (sent.unwrap(), received.unwrap());
    world.expect_copied();
    assert_eq!(sent.complete.root, received.complete.root);
}

#[test]
fn authentic_frames_out_of_range_end_the_session() {
    let beyond: [fn() -> Vec<u8>; 3] = [
        // Beyond the credit, beyond the end of any chunk, and of a length that its header does not allow.
        || frame(1_000_000, 0, &[1; 1172]),
        || frame(0, u16::MAX, &[1; 1172]),
        || frame(0, 0, &[1; 1171]),
    ];
    for lie in beyond {
        let world = World::with_file("file", 12 << 20);
        let (session, doors, open) = halted(&world);
        let mut liar = Liar::new(&doors, 500);
        let record = liar.record(&lie());
        liar.write(&record);
        liar.await_close();
        for sentence in session.expect_failure(ErrorKind::Protocol) {
            assert!(sentence.contains("out of the range of the data"), "{sentence}");
        }
        open.store(true, Ordering::Relaxed);
        world.expect_nothing();
    }
}

#[test]
fn reports_of_frames_that_were_not_sent_close_the_stream() {
    let world = World::with_file("file", 12 << 20);
    let (session, doors, open) = halted_over(&world, 2);
    let mut keys = keys().streams;
    // The stream may get frames before its report is read: more than the whole file has in any case.
    for (delivered, index) in [(1 << 20, 600), (u64::MAX, 601)] {
        let mut stream = doors.inject(End::Sender, index);
        let mut plain = Vec::new();
        FrameReport { delivered, ack: None }.encode(&mut plain);
        let mut record = u32::try_from(plain.len() + TAG_LEN).unwrap().to_be_bytes().to_vec();
        let length = record.clone();
        record.resize(4 + plain.len() + TAG_LEN, 0);
        let (mut sealer, _) = keys.take(index, Direction::Receiver).expect("its first use");
        sealer.seal(0, &length, &plain, &mut record[4..]);
        // The sender may have given it frames: none of them arrives, and none is lost.
        let _ = stream.write_all(&record);
        let mut bytes = [0; 4096];
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        let end = loop {
            match stream.read(&mut bytes) {
                Ok(1..) => {}
                Ok(0) => break None,
                Err(error) => break Some(error.kind()),
            }
        };
        assert_ne!(end, Some(io::ErrorKind::WouldBlock), "{delivered}: the stream is closed");
    }
    open.store(true, Ordering::Relaxed);
    let (sent, received) = session.join();
    world.expect_copied();
    assert_eq!(sent.unwrap().complete.root, received.unwrap().complete.root);
}
