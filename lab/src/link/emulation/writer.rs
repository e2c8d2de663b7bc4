//! Writes packets that are due to devices, merged into super-packets where they fit together.

use std::fs::File;
use std::io::IoSlice;

use rustix::io::{Errno, writev};

use crate::link::clock::{Clock, Nanos};
use crate::link::counters::Delays;
use crate::link::packet::store::{FrameId, Store};
use crate::link::packet::train::{Headers, Merging, SLICES_MAX, Segment, Train, damaged};
use crate::link::packet::{FRAME_MAX, HEADERS_MAX, Station, VNET_BYTES};

/// Writes trains to devices.
pub(super) struct Writer {
    clock: Clock,
    pub(super) train: Train,
    /// Due times of the train's segments.
    pub(super) dues: Vec<Nanos>,
    headers: Box<Headers>,
    damaged: Vec<u8>,
    pub(super) lateness: Delays,
    pub(super) writes: u64,
    pub(super) drops: u64,
}

impl Writer {
    pub(super) fn new(clock: Clock, merging: Merging) -> Writer {
        Writer {
            clock,
            train: Train::new(merging),
            dues: Vec::with_capacity(256),
            headers: Box::new([0; VNET_BYTES + HEADERS_MAX]),
            damaged: Vec::with_capacity(FRAME_MAX),
            lateness: Delays::default(),
            writes: 0,
            drops: 0,
        }
    }

    pub(super) fn reset(&mut self) {
        self.lateness = Delays::default();
        self.writes = 0;
        self.drops = 0;
    }

    /// Writes the train, if any, to the device of its destination host; `devices` begins with the first host
    /// of the receiving side.
    pub(super) fn flush(&mut self, store: &mut Store, devices: &[File]) {
        if self.train.is_empty() {
            return;
        }
        let device = device(store, self.train.parts()[0].frame, devices);
        self.note_lateness();
        match write_train(&self.train, store, &mut self.headers, device) {
            Ok(()) => self.writes += 1,
            Err(Errno::INVAL) if self.train.count() > 1 => self.write_apart(store, device),
            Err(_) => self.drops += u64::from(self.train.count()),
        }
        for part in self.train.parts() {
            store.release(part.frame, part.count);
        }
        self.train.clear();
    }

    /// The device refused the super-packet: write single packets, now and from now on.
    fn write_apart(&mut self, store: &Store, device: &File) {
        if let Some(transport) = self.train.transport(store) {
            self.train.downgrade(transport);
        }
        let mut single = Train::new(Merging::Nothing);
        for part in self.train.parts() {
            for index in part.first..part.first + part.count {
                single.clear();
                single.try_add(store, Segment { frame: part.frame, index });
                match write_train(&single, store, &mut self.headers, device) {
                    Ok(()) => self.writes += 1,
                    Err(_) => self.drops += 1,
                }
            }
        }
    }

    pub(super) fn write_damaged(
        &mut self,
        store: &mut Store,
        devices: &[File],
        segment: Segment,
        which: u32,
    ) {
        let (layout, frame) = store.frame(segment.frame);
        damaged(layout, frame, segment.index, which, &mut self.damaged);
        self.note_lateness();
        match writev(device(store, segment.frame, devices), &[IoSlice::new(&self.damaged)]) {
            Ok(_) => self.writes += 1,
            Err(_) => self.drops += 1,
        }
        store.release(segment.frame, 1);
    }

    fn note_lateness(&mut self) {
        let now = self.clock.now();
        for due in self.dues.drain(..) {
            self.lateness.record(now.saturating_sub(due));
        }
    }
}

fn write_train(train: &Train, store: &Store, headers: &mut Headers, device: &File) -> Result<(), Errno> {
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    let used = train.slices(store, headers, &mut slices);
    writev(device, &slices[..used]).map(drop)
}

/// The device of a frame's destination; the frame was routed on arrival.
fn device<'a>(store: &Store, frame: FrameId, devices: &'a [File]) -> &'a File {
    let to = match store.frame(frame).0.destination {
        Station(Some((_, number))) => usize::from(number) - 1,
        Station(None) => 0,
    };
    &devices[to]
}
