//! A chunk that is arriving.

use super::Reject;
use crate::object::{Bitmap, CHUNK_LEN_MAX, Geometry};
use crate::wire::{ATTEMPT_MAX, DataHeader};

/// How far a chunk has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Arriving,
    /// All packets have arrived; the driver verifies.
    Complete,
    Verified,
}

/// One chunk of the receive window.
#[derive(Debug)]
pub(super) struct Arriving {
    attempt: u8,
    /// A verdict was given on attempts below: only newer ones may complete.
    attempt_min: u8,
    payload_size: u16,
    received: Bitmap,
    last: Option<(u16, u32)>,
    pub(super) progress: Progress,
}

/// The effect of a packet on its chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// New: its place, bytes from the chunk's start, and the chunk's length if that completed it.
    New {
        offset: u32,
        completes: Option<u32>,
    },
    Known,
}

impl Arriving {
    pub(super) fn new() -> Arriving {
        Arriving {
            attempt: 0,
            attempt_min: 0,
            payload_size: 0,
            received: Bitmap::new(0),
            last: None,
            progress: Progress::Arriving,
        }
    }

    pub(super) fn attempt(&self) -> u8 {
        self.attempt
    }

    pub(super) fn received(&self) -> &Bitmap {
        &self.received
    }

    /// Where a packet of `len` payload bytes would go if it came now: bytes that no packet has filled, and
    /// only this one fills. `None` if it would not be new, or must first lay out the chunk.
    pub(super) fn vacancy(&self, header: &DataHeader, len: usize) -> Option<u32> {
        let offset = u32::from(header.packet_index) * u32::from(self.payload_size);
        let vacant = self.progress == Progress::Arriving
            && header.attempt == self.attempt
            && self.attempt >= self.attempt_min
            && header.payload_size == self.payload_size
            && len <= usize::from(self.payload_size)
            && u32::from(header.packet_index) < self.received.len()
            && !self.received.contains(u32::from(header.packet_index))
            && offset + len as u32 <= CHUNK_LEN_MAX;
        vacant.then_some(offset)
    }

    /// Takes a data packet of `len` payload bytes.
    pub(super) fn take(&mut self, header: &DataHeader, len: usize) -> Result<Taken, Reject> {
        if header.attempt < self.attempt.max(self.attempt_min) {
            return Err(Reject::OldAttempt);
        }
        if self.progress != Progress::Arriving {
            // The sender relies on acknowledged packets: a bad verdict applies to this attempt too.
            self.attempt = header.attempt;
            return Ok(Taken::Known);
        }
        if header.attempt > self.attempt || self.payload_size == 0 {
            self.lay_out(header);
        }
        let offset = u32::from(header.packet_index) * u32::from(self.payload_size);
        let end = offset + len as u32;
        let full = len == usize::from(self.payload_size);
        let fits = header.payload_size == self.payload_size
            && len > 0
            && len <= usize::from(self.payload_size)
            && (header.last || full)
            && end <= CHUNK_LEN_MAX;
        if !fits {
            return Err(Reject::Geometry);
        }
        let agrees = match self.last {
            Some((index, _)) => header.packet_index < index || header.packet_index == index && header.last,
            None => {
                let index = u32::from(header.packet_index);
                !header.last || self.received.highest().is_none_or(|highest| highest <= index)
            }
        };
        if !agrees || header.last && self.last.is_some_and(|(_, length)| length != end) {
            return Err(Reject::Geometry);
        }
        if header.last {
            self.last = Some((header.packet_index, end));
        }
        if !self.received.insert(u32::from(header.packet_index)) {
            return Ok(Taken::Known);
        }
        let completes =
            self.last.filter(|(index, _)| self.received.count_ones() == u32::from(*index) + 1).map(|l| l.1);
        if completes.is_some() {
            self.progress = Progress::Complete;
        }
        Ok(Taken::New { offset, completes })
    }

    /// The chunk did not verify: it must be sent again under a later attempt. False if there is none left.
    pub(super) fn reject(&mut self) -> bool {
        let again = self.attempt < ATTEMPT_MAX;
        self.attempt_min = self.attempt + 1;
        self.received.clear();
        self.last = None;
        self.payload_size = 0;
        self.progress = Progress::Arriving;
        again
    }

    fn lay_out(&mut self, header: &DataHeader) {
        self.attempt = header.attempt;
        self.payload_size = header.payload_size;
        self.received = Bitmap::new(Geometry::packets_max(header.payload_size));
        self.last = None;
    }
}
