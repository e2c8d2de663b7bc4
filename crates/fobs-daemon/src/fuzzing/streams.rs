//! Records of streams, and the machines that act on them.

use std::collections::BTreeSet;
use std::time::Duration;

use fobs_proto::Timestamp;
use fobs_proto::object::CHUNK_LEN_MAX;
use fobs_proto::receiver::{ChunkVerification, Disposition, Receiver, ReceiverConfig};
use fobs_proto::sender::{FrameOut, Route, Sender, Transmit, TransmitFrame};
use fobs_proto::wire::{Ack, FRAME_DATA_MAX, FRAME_HEADER_LEN, FRAME_LEN_MAX, Frame, FrameHeader};

use super::input::Input;
use super::machines::{CHUNKS_MAX, a_sender};
use super::packets;

/// A record: what is read of it is what was written, its packets tile its data and lie inside a chunk.
pub(super) fn frame(input: &[u8]) {
    match Frame::decode(input) {
        Ok(Frame::Data(header, data)) => {
            assert!(input.len() <= FRAME_LEN_MAX);
            let mut again = [0; FRAME_HEADER_LEN];
            header.encode(&mut again);
            assert_eq!(again[..], input[..FRAME_HEADER_LEN]);
            check_packets(&header, data.len());
        }
        Ok(Frame::Report(report)) => {
            let mut again = Vec::new();
            report.encode(&mut again);
            assert!(again.len() <= FRAME_LEN_MAX);
            assert!(matches!(Frame::decode(&again), Ok(Frame::Report(_))), "our own reports can be read");
            if let Some(body) = input.get(9..).filter(|body| !body.is_empty()) {
                packets::ack(body);
            }
        }
        Err(_) => {}
    }
}

fn check_packets(header: &FrameHeader, len: usize) {
    let mut at = 0;
    for (packet, range) in header.packets(len) {
        assert!(range.start == at && !range.is_empty());
        at = range.end;
        assert!(u32::from(packet.packet_index) * u32::from(packet.payload_size) < CHUNK_LEN_MAX);
        assert!(range.len() == usize::from(packet.payload_size) || packet.last && range.end == len);
    }
    assert!(at == len && len <= FRAME_DATA_MAX);
}

/// The receiving machine, with frames of any kind from a peer with the right keys. A header of 12 bytes and a
/// length of 2 stand for each.
pub(super) fn framed(input: &[u8]) {
    let config =
        ReceiverConfig { ack_every: 4, ack_delay_max: Duration::from_millis(5), chunks_max: CHUNKS_MAX };
    let mut machine = Receiver::new(config);
    let (mut now, mut stored, mut verified) = (0u64, 0, BTreeSet::new());
    let mut input = Input(input);
    while let Some(operation) = input.byte() {
        now += u64::from(operation) * 100_000;
        let at = Timestamp::from_nanos(now);
        let mut bytes: [u8; FRAME_HEADER_LEN] = input.array();
        bytes[0] = 0;
        let len = usize::from(input.u16());
        let Ok(header) = FrameHeader::decode(&bytes) else { continue };
        if header.check(len).is_err() {
            continue;
        }
        for (packet, range) in header.packets(len) {
            let Disposition::Store { offset, completes } = machine.handle_framed(at, &packet, range.len())
            else {
                continue;
            };
            assert!(offset as usize + range.len() <= CHUNK_LEN_MAX as usize);
            assert!((stored..stored + CHUNKS_MAX).contains(&packet.chunk));
            if completes.is_some() {
                let good = operation & 1 == 0;
                let verdict = if good { ChunkVerification::Verified } else { ChunkVerification::Mismatch };
                machine.handle_verdict(packet.chunk, verdict);
                assert!(!good || verified.insert(packet.chunk), "completed twice");
            }
        }
        while verified.remove(&stored) {
            machine.handle_stored(stored);
            stored += 1;
        }
        if machine.poll_ack(at).is_some() {
            assert!(machine.poll_ack(at).is_none(), "one ack is enough");
        }
    }
}

/// The sending machine with both ways: routes, frames of which anything is said, acks of any content.
pub(super) fn route(input: &[u8]) {
    let mut input = Input(input);
    let mut machine = a_sender(usize::from(input.byte().unwrap_or(0)));
    let (mut now, mut pushed, mut freed) = (0u64, 0u32, 0u32);
    let mut out = Vec::new();
    let mut frames: Vec<FrameOut> = Vec::new();
    while let Some(operation) = input.byte() {
        now = now.saturating_add(u64::from(operation >> 3) * 250_000);
        let at = Timestamp::from_nanos(now);
        while machine.wants_chunk() {
            machine.push_chunk(1 + u32::from(operation) * 1000, false);
            pushed += 1;
        }
        match operation & 7 {
            0 => machine.set_route(at, [Route::Datagrams, Route::Both, Route::Frames][now as usize % 3]),
            1 => tell(&mut machine, at, &mut frames, &mut input),
            2 => {
                let len = usize::from(input.u16());
                if let Ok(ack) = Ack::decode(input.take(len)) {
                    machine.handle_stream_ack(at, &ack);
                }
            }
            3 => machine.handle_timeout(at),
            4 => {
                if machine.poll_transmit(at, &mut out) == Transmit::Burst {
                    assert!(machine.route() != Route::Frames || out.len() == 1, "only a probe leaves");
                }
            }
            5 => drop(machine.handle_rejected(u32::from(input.byte().unwrap_or(0)), operation >> 6)),
            _ => {
                if let TransmitFrame::Frame(frame) = machine.poll_frame(at) {
                    assert_ne!(machine.route(), Route::Datagrams);
                    assert!((freed..pushed).contains(&frame.chunk), "the driver holds {freed}..{pushed}");
                    check_packets(&frame.header, frame.len as usize);
                    frames.push(frame);
                }
            }
        }
        while machine.poll_freed().is_some() {
            freed += 1;
        }
        assert_eq!(machine.frames_outstanding().frames as usize, frames.len());
        let bytes: u64 = frames.iter().map(|frame| u64::from(frame.len)).sum();
        assert_eq!(machine.frames_outstanding().bytes, bytes);
    }
}

/// Something is said of a frame, or of one that never was.
fn tell(machine: &mut Sender, at: Timestamp, frames: &mut Vec<FrameOut>, input: &mut Input<'_>) {
    let (what, place) = (input.byte().unwrap_or(0), usize::from(input.u16()));
    let known = (!frames.is_empty()).then(|| place % frames.len());
    let id = known.map_or(u64::MAX - place as u64, |place| frames[place].id);
    match what % 3 {
        0 => machine.handle_frame_delivered(at, id),
        1 => machine.handle_frame_lost(at, id),
        _ => return machine.handle_frame_late(at, id),
    }
    if let Some(place) = known {
        frames.swap_remove(place);
    }
}
