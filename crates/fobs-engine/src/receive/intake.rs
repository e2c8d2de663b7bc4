//! Packets of a batch, placed in the buffers of the chunks they belong to.

use crate::failure::no_memory;
use crate::link::{Inbox, Incoming, IncomingBody};
use fobs_model::budget::{Charge, Keeps, MemoryBudget, Spent};
use fobs_model::error::{Error, Result};
use fobs_proto::receiver::{Disposition, Receiver};
use fobs_proto::wire::{AckRatio, DataHeader, Header};
use fobs_proto::{ChunkId, Timestamp};
use fobs_store::CHUNK_LEN_MAX;
use fobs_sys::PageBuffer;
use std::collections::{BTreeMap, VecDeque};

/// Chunks that arrive: their buffers, and those to use again, warmest last.
pub(super) struct Arrivals {
    arriving: BTreeMap<ChunkId, PageBuffer>,
    spare: Vec<PageBuffer>,
    /// Chunks that are complete, and their lengths in bytes.
    complete: VecDeque<(ChunkId, usize)>,
    /// When the first data packet arrived.
    first_data: Option<Timestamp>,
    /// All buffers, for the process.
    kept: Charge,
}

impl Arrivals {
    pub(super) fn within(budget: &MemoryBudget) -> std::result::Result<Arrivals, Spent> {
        let kept = budget.outside(Keeps::Chunks, 0)?;
        let (arriving, spare, complete) = (BTreeMap::new(), Vec::new(), VecDeque::new());
        Ok(Arrivals { arriving, spare, complete, first_data: None, kept })
    }

    fn buffer_of(&mut self, chunk: ChunkId) -> Result<&mut PageBuffer> {
        if !self.arriving.contains_key(&chunk) {
            let buffer = match self.spare.pop() {
                Some(buffer) => buffer,
                None => {
                    self.kept.grow(CHUNK_LEN_MAX)?;
                    PageBuffer::new(CHUNK_LEN_MAX).map_err(no_memory)?
                }
            };
            self.arriving.insert(chunk, buffer);
        }
        Ok(self.arriving.get_mut(&chunk).expect("just inserted"))
    }

    /// Puts the payload of a packet where it belongs; `completes`: the chunk's length if it is complete.
    pub(super) fn store(
        &mut self,
        now: Timestamp,
        header: &DataHeader,
        offset: u32,
        payload: &[u8],
        completes: Option<u32>,
    ) -> Result<()> {
        self.first_data.get_or_insert(now);
        let at = offset as usize;
        self.buffer_of(header.chunk)?[at..at + payload.len()].copy_from_slice(payload);
        self.complete.extend(completes.map(|len| (header.chunk, len as usize)));
        Ok(())
    }

    /// A buffer that is free again.
    pub(super) fn give_back(&mut self, buffer: PageBuffer) {
        self.spare.push(buffer);
    }

    /// A chunk that is complete, with its length in bytes.
    pub(super) fn pop_complete(&mut self) -> Option<(ChunkId, PageBuffer, usize)> {
        let (chunk, len) = self.complete.pop_front()?;
        let buffer = self.arriving.remove(&chunk).expect("a complete chunk has a buffer");
        Some((chunk, buffer, len))
    }

    /// When the first data packet arrived.
    pub(super) fn first_data(&self) -> Option<Timestamp> {
        self.first_data
    }
}

/// Takes the packets of a batch.
pub(super) struct Intake<'a> {
    pub(super) machine: &'a mut Receiver,
    pub(super) arrivals: &'a mut Arrivals,
    /// The first error of the batch.
    pub(super) failure: Option<Error>,
}

impl Inbox for Intake<'_> {
    fn vacancy(&mut self, header: &DataHeader, len: usize) -> Option<&mut [u8]> {
        let offset = self.machine.vacancy(header, len)? as usize;
        // Only an authentic packet starts a buffer: forgeries cost no memory.
        let buffer = self.arrivals.arriving.get_mut(&header.chunk)?;
        // Most likely the next packet's place: it is fetched into the cache while this packet is decrypted.
        buffer.prefetch_for_write(offset + len, len);
        buffer.get_mut(offset..offset + len)
    }

    fn take(&mut self, now: Timestamp, packet: Incoming<'_>) {
        let header = match packet.header {
            Header::Data(header) => header,
            Header::Probe => {
                let IncomingBody::Here(body) = packet.body else { return };
                return self.machine.handle_probe(now, &packet.meta, AckRatio::from_probe(body));
            }
            Header::Challenge | Header::Response => {
                return self.machine.handle_probe(now, &packet.meta, None);
            }
            Header::Ack => return,
        };
        self.arrivals.first_data.get_or_insert(packet.meta.arrived);
        let disposition = self.machine.handle_data(now, &packet.meta, &header, packet.body.len());
        let Disposition::Store { offset, completes } = disposition else { return };
        if let IncomingBody::Here(body) = packet.body {
            let at = offset as usize;
            match self.arrivals.buffer_of(header.chunk) {
                Ok(buffer) => buffer[at..at + body.len()].copy_from_slice(body),
                Err(error) => self.failure = Some(error),
            }
        }
        self.arrivals.complete.extend(completes.map(|len| (header.chunk, len as usize)));
    }
}
