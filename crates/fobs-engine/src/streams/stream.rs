//! One stream: its carrier, the keys of both directions, and what its role keeps with it.

use super::record::{RecordOpener, RecordSealer};
use super::wire::{End, Wire};
use fobs_proto::wire::FrameReport;

/// Records taken from one stream before the others have their turn.
const RECORDS_PER_TURN: usize = 8;

/// A stream. `Role`: what the sending or the receiving side keeps with it.
pub(super) struct Stream<Role> {
    pub(super) index: u16,
    pub(super) role: Role,
    pub(super) wire: Wire,
    sealer: RecordSealer,
    opener: RecordOpener,
    /// As of the last wait.
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// Why it has ended.
    pub(super) end: Option<End>,
}

impl<Role: Default> Stream<Role> {
    pub(super) fn new(index: u16, wire: Wire, sealer: RecordSealer, opener: RecordOpener) -> Stream<Role> {
        let role = Role::default();
        Stream { index, role, wire, sealer, opener, readable: true, writable: false, end: None }
    }
}

impl<Role> Stream<Role> {
    pub(super) fn is_open(&self) -> bool {
        self.end.is_none()
    }

    /// Whether another record can be given.
    pub(super) fn is_idle(&self) -> bool {
        self.is_open() && self.wire.is_idle()
    }

    /// Seals a frame and writes as much of it as the carrier takes. Only while [`is_idle`](Self::is_idle).
    pub(super) fn write(&mut self, plain: &[u8]) {
        self.sealer.seal(plain, self.wire.out());
        self.flush();
    }

    /// Writes a report.
    pub(super) fn report(&mut self, report: &FrameReport) {
        let mut plain = Vec::with_capacity(64);
        report.encode(&mut plain);
        self.write(&plain);
    }

    /// Writes what waits.
    pub(super) fn flush(&mut self) {
        if self.is_open()
            && !self.wire.is_idle()
            && let Err(end) = self.wire.flush()
        {
            self.end = Some(end);
        }
    }

    /// Hands the records that have come to `take`; `buffer` makes room for each. Whether any came.
    pub fn receive(
        &mut self,
        buffer: impl FnMut() -> Vec<u8>,
        mut take: impl FnMut(&mut Role, Vec<u8>) -> Result<(), End>,
    ) -> bool {
        if !self.is_open() || !self.readable {
            return false;
        }
        let (mut came, role) = (false, &mut self.role);
        let take = |plain| {
            came = true;
            take(role, plain)
        };
        match self.wire.receive(&mut self.opener, RECORDS_PER_TURN, take, buffer) {
            Ok(more) => self.readable = more || self.wire.is_channel(),
            Err(end) => self.end = Some(end),
        }
        came
    }
}
