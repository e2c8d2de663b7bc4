//! The rules that no run may break. A breach names its rule and ends the run; the seed makes it happen again.

use crate::net::Net;
use fobs_proto::ChunkId;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// Records a breach unless the rule holds; the detail is only made where it does not.
macro_rules! rule {
    ($net:expr, $holds:expr, $rule:literal, $($detail:tt)+) => {
        if !$holds {
            $net.breach($rule, format!($($detail)+));
        }
    };
}
pub(crate) use rule;

/// Every packet sent that no ack has named: an upper bound of the sender's bytes in flight.
#[derive(Debug, Default)]
pub(crate) struct PacketLedger {
    oldest: u64,
    /// Lengths, 0 for those that were named.
    unnamed: VecDeque<u16>,
    bytes: u64,
}

impl PacketLedger {
    /// A packet leaves; packet numbers go up by one and so none is used twice.
    pub(crate) fn on_sent(&mut self, net: &mut Net, number: u64, len: u16) {
        let next = self.next_number();
        rule!(net, number == next, "packet numbers go up by one", "{number} instead of {next}");
        self.unnamed.push_back(len);
        self.bytes += u64::from(len);
    }

    /// The number that the next packet must have.
    pub(crate) fn next_number(&self) -> u64 {
        self.oldest + self.unnamed.len() as u64
    }

    /// An ack names packets; it cannot name any that was not sent.
    pub(crate) fn on_acked(&mut self, net: &mut Net, low: u64, high: u64) {
        let next = self.next_number();
        rule!(net, high < next, "acks name what was sent", "{high} of {next}");
        let from = (low.max(self.oldest) - self.oldest) as usize;
        let until = ((high + 1).clamp(self.oldest, next) - self.oldest) as usize;
        if from < until {
            for len in self.unnamed.range_mut(from..until) {
                self.bytes -= u64::from(std::mem::take(len));
            }
        }
    }

    /// The sender's bytes in flight must be covered by what no ack has named.
    pub(crate) fn check(&mut self, net: &mut Net, in_flight: u64) {
        let bytes = self.bytes;
        rule!(
            net,
            in_flight <= bytes,
            "in-flight accounting balances",
            "{in_flight} in flight, {bytes} unnamed"
        );
        while self.unnamed.front() == Some(&0) {
            self.unnamed.pop_front();
            self.oldest += 1;
        }
        // A sender forgets the oldest of 2^18 numbers; so may this.
        while self.unnamed.len() > 1 << 19 {
            self.bytes -= u64::from(self.unnamed.pop_front().unwrap_or(0));
            self.oldest += 1;
        }
    }
}

/// What of the open chunks has been stored where: every byte once, in its place, before a chunk counts as
/// complete.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    open: HashMap<ChunkId, OpenChunk>,
    open_max: usize,
}

#[derive(Debug)]
struct OpenChunk {
    attempt: u8,
    payload: u32,
    stored: Vec<u64>,
    bytes: u64,
    complete: bool,
    verified: bool,
}

impl Assembly {
    /// A piece was stored at `offset`; `read_at` is where the sender read it. Returns the bytes stored before
    /// that it makes worthless, because the chunk is laid out anew.
    pub(crate) fn on_stored(&mut self, net: &mut Net, piece: &Piece) -> u64 {
        let Piece { chunk, attempt, payload, offset, read_at, len } = *piece;
        rule!(
            net,
            offset == read_at,
            "every byte in its place",
            "chunk {chunk}: {read_at} stored at {offset}"
        );
        let open = self.open.entry(chunk).or_insert_with(|| OpenChunk::new(attempt, payload));
        let mut worthless = 0;
        if open.attempt != attempt {
            worthless = open.bytes;
            *open = OpenChunk::new(attempt, payload);
        }
        let (word, bit) = ((offset / payload / 64) as usize, 1u64 << (offset / payload % 64));
        if open.stored.len() <= word {
            open.stored.resize(word + 1, 0);
        }
        let twice = open.stored[word] & bit != 0;
        rule!(net, !twice && !open.complete, "every byte is stored once", "chunk {chunk} at {offset}");
        open.stored[word] |= bit;
        open.bytes += u64::from(len);
        self.open_max = self.open_max.max(self.open.len());
        worthless
    }

    /// The machine reports the chunk complete with this length.
    pub(crate) fn on_complete(&mut self, net: &mut Net, chunk: ChunkId, said: u32, len: u32) {
        let bytes = self.open.get(&chunk).map_or(0, |open| open.bytes);
        let whole = said == len && bytes == u64::from(len);
        rule!(net, whole, "complete means every byte", "chunk {chunk}: {bytes} and {said} of {len} bytes");
        if let Some(open) = self.open.get_mut(&chunk) {
            open.complete = true;
        }
    }

    /// A verdict on a chunk was given.
    pub(crate) fn on_verdict(&mut self, net: &mut Net, chunk: ChunkId, verified: bool) {
        let complete = self.open.get(&chunk).is_some_and(|open| open.complete);
        rule!(net, complete, "only complete chunks are verified", "chunk {chunk}");
        match self.open.get_mut(&chunk) {
            Some(open) if verified => open.verified = true,
            _ => drop(self.open.remove(&chunk)),
        }
    }

    /// A chunk is stored: its room is free.
    pub(crate) fn on_chunk_stored(&mut self, net: &mut Net, chunk: ChunkId) {
        let verified = self.open.remove(&chunk).is_some_and(|open| open.verified);
        rule!(net, verified, "only verified chunks are stored", "chunk {chunk}");
    }

    /// Pieces of the open chunks; a chunk's last one may end before its range does.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (ChunkId, Range<u32>)> + '_ {
        self.open.iter().flat_map(|(chunk, open)| {
            let places = (0..64 * open.stored.len() as u32)
                .filter(|place| open.stored[*place as usize / 64] & (1 << (place % 64)) != 0);
            places.map(|place| (*chunk, place * open.payload..(place + 1) * open.payload))
        })
    }

    /// Most chunks that were open at once.
    pub(crate) fn open_max(&self) -> usize {
        self.open_max
    }
}

/// A piece of a chunk as it is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) chunk: ChunkId,
    pub(crate) attempt: u8,
    pub(crate) payload: u32,
    pub(crate) offset: u32,
    pub(crate) read_at: u32,
    pub(crate) len: u16,
}

impl OpenChunk {
    fn new(attempt: u8, payload: u32) -> OpenChunk {
        OpenChunk { attempt, payload, stored: Vec::new(), bytes: 0, complete: false, verified: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net() -> Net {
        Net::new(Vec::new(), Vec::new())
    }

    fn broken(net: Net) -> Option<&'static str> {
        net.violation.map(|v| v.rule)
    }

    const PIECE: Piece =
        Piece { chunk: 1, attempt: 0, payload: 1000, offset: 1000, read_at: 1000, len: 1000 };

    #[test]
    fn bytes_in_flight_beyond_what_is_unnamed_are_reported() {
        let (mut net, mut ledger) = (net(), PacketLedger::default());
        for number in 0..10 {
            ledger.on_sent(&mut net, number, 100);
        }
        ledger.on_acked(&mut net, 2, 4);
        ledger.on_acked(&mut net, 3, 5);
        ledger.check(&mut net, 600);
        assert_eq!(net.violation, None);
        ledger.check(&mut net, 601);
        assert_eq!(broken(net), Some("in-flight accounting balances"));
    }

    #[test]
    fn used_numbers_and_named_futures_are_reported() {
        let (mut reused, mut ledger) = (net(), PacketLedger::default());
        ledger.on_sent(&mut reused, 0, 100);
        ledger.on_sent(&mut reused, 0, 100);
        assert_eq!(broken(reused), Some("packet numbers go up by one"));
        let (mut future, mut ledger) = (net(), PacketLedger::default());
        ledger.on_acked(&mut future, 0, 0);
        assert_eq!(broken(future), Some("acks name what was sent"));
    }

    #[test]
    fn misplaced_repeated_and_missing_bytes_are_reported() {
        let (mut misplaced, mut assembly) = (net(), Assembly::default());
        assembly.on_stored(&mut misplaced, &Piece { read_at: 0, ..PIECE });
        assert_eq!(broken(misplaced), Some("every byte in its place"));
        let (mut twice, mut assembly) = (net(), Assembly::default());
        assembly.on_stored(&mut twice, &PIECE);
        assembly.on_stored(&mut twice, &PIECE);
        assert_eq!(broken(twice), Some("every byte is stored once"));
        let (mut missing, mut assembly) = (net(), Assembly::default());
        assembly.on_stored(&mut missing, &PIECE);
        assembly.on_complete(&mut missing, 1, 2000, 2000);
        assert_eq!(broken(missing), Some("complete means every byte"));
        let (mut unverified, mut assembly) = (net(), Assembly::default());
        assembly.on_stored(&mut unverified, &PIECE);
        assembly.on_chunk_stored(&mut unverified, 1);
        assert_eq!(broken(unverified), Some("only verified chunks are stored"));
    }

    #[test]
    fn a_chunk_that_goes_by_the_rules_breaks_none() {
        let (mut net, mut assembly) = (net(), Assembly::default());
        assembly.on_stored(&mut net, &PIECE);
        // Laid out anew: what was stored before does not count.
        let again = Piece { attempt: 1, payload: 1500, offset: 0, read_at: 0, len: 1500, ..PIECE };
        assembly.on_stored(&mut net, &again);
        assembly.on_stored(&mut net, &Piece { offset: 1500, read_at: 1500, len: 500, ..again });
        assembly.on_complete(&mut net, 1, 2000, 2000);
        assembly.on_verdict(&mut net, 1, true);
        assembly.on_chunk_stored(&mut net, 1);
        assert_eq!(net.violation, None);
        assert_eq!(assembly.open_max(), 1);
    }
}
