//! The stream inside a control channel, from the client's side and without an engine (protocol 10, 11).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fobs_proto::wire::{Ack, DataHeader, FRAME_HEADER_LEN, FrameHeader, FrameReport};
use serde_json::Value;

use fobs_channel::secure::datagram::{Cipher, Direction, Opener, Sealer, TAG_LEN};
use fobs_channel::secure::schedule::{KeySchedule, SessionKeys, SessionSecret};

/// The lane's place among the streams of a session.
const INDEX: u16 = 0;
/// Data bytes of a packet: two fill a frame.
const PAYLOAD: u16 = 32_768;
/// Packets in a frame.
const PACKETS: usize = 2;
/// Chunks that the client has room for.
const ROOM: u32 = 52;

/// One side's keys of a lane: what it writes, and what the other one does.
pub(super) struct Lane {
    sealer: Sealer,
    sealed: u64,
    /// Opens what the same side has written, for the recorder.
    own: Opener,
    own_next: u64,
    opener: Opener,
    opened: u64,
}

impl Lane {
    /// The lane of a session by its `accept`; `written` is what the client writes. Over TLS the secret may be
    /// the exporter's.
    pub(super) fn of(accept: &Value, exporter: Option<&SessionSecret>, written: Direction) -> Option<Lane> {
        let cipher = Cipher::from_name(accept["cipher"].as_str()?)?;
        let told = accept["secret"].as_str().and_then(|text| STANDARD.decode(text).ok());
        let secret = told.or_else(|| exporter.map(|exporter| exporter.as_bytes().to_vec()))?;
        let number = accept["keys"].as_u64().map_or(Some(1), |number| number.try_into().ok())?;
        let schedule = KeySchedule::from_number(number)?;
        let end = |ours| -> Option<(Sealer, Opener)> {
            let secret = SessionSecret::told(&secret)?;
            SessionKeys::derive(secret, schedule, cipher).streams.take(INDEX, ours)
        };
        let read = match written {
            Direction::Sender => Direction::Receiver,
            Direction::Receiver => Direction::Sender,
        };
        let ((sealer, opener), (_, own)) = (end(written)?, end(read)?);
        Some(Lane { sealer, sealed: 0, own, own_next: 0, opener, opened: 0 })
    }

    /// Opens a record that the client has written.
    pub(super) fn open(&mut self, sealed: &[u8]) -> Option<Vec<u8>> {
        self.own_next += 1;
        opened(&mut self.own, self.own_next - 1, sealed)
    }

    /// Opens a record of the server.
    pub(super) fn open_answer(&mut self, sealed: &[u8]) -> Option<Vec<u8>> {
        self.opened += 1;
        opened(&mut self.opener, self.opened - 1, sealed)
    }

    /// The records of a chunk.
    pub(super) fn chunk(&mut self, number: u32, bytes: &[u8], final_chunk: bool) -> Vec<Vec<u8>> {
        let size = usize::from(PAYLOAD);
        let frames = bytes.chunks(size * PACKETS).enumerate();
        let count = bytes.len().div_ceil(size * PACKETS);
        let plains: Vec<Vec<u8>> = frames
            .map(|(place, data)| {
                let first = DataHeader {
                    chunk: number,
                    packet_index: (place * PACKETS) as u16,
                    payload_size: PAYLOAD,
                    attempt: 0,
                    last: place + 1 == count,
                    final_chunk,
                };
                let header = FrameHeader { first, packets: data.len().div_ceil(size) as u16 };
                let mut plain = vec![0; FRAME_HEADER_LEN];
                header.encode(&mut plain);
                plain.extend_from_slice(data);
                plain
            })
            .collect();
        plains.iter().map(|plain| self.seal(plain)).collect()
    }

    /// The record of a report: this number of data records was taken, and all chunks below `complete` are.
    pub(super) fn report(&mut self, delivered: u64, complete: u32) -> Vec<u8> {
        let ack = Ack { chunk_limit: ROOM + complete, verified_below: complete, ..Ack::default() };
        let mut plain = Vec::new();
        FrameReport { delivered, ack: Some(ack) }.encode(&mut plain);
        self.seal(&plain)
    }

    fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        let len = plain.len() + TAG_LEN;
        let mut sealed = vec![0; len];
        self.sealer.seal(self.sealed, &(len as u32).to_be_bytes(), plain, &mut sealed);
        self.sealed += 1;
        sealed
    }
}

fn opened(opener: &mut Opener, number: u64, sealed: &[u8]) -> Option<Vec<u8>> {
    let mut plain = vec![0; sealed.len().checked_sub(TAG_LEN)?];
    opener.open(number, &(sealed.len() as u32).to_be_bytes(), sealed, &mut plain).then_some(plain)
}
