//! One path of an emulation: its devices, and the packets in flight in both directions.

use std::fs::File;
use std::sync::Arc;

use rustix::io::read;

use super::writer::Writer;
use crate::link::clock::{Clock, Nanos, thread_cpu};
use crate::link::counters::Counters;
use crate::link::direction::{Arrival, Direction};
use crate::link::host::{DropCounter, Port, west_side};
use crate::link::packet::store::Store;
use crate::link::packet::train::{Merging, Segment};
use crate::link::packet::{FRAME_MAX, Layout, Station};
use crate::link::propagation::Integrity;
use crate::link::spec::{LinkSpec, Settings, Way};

/// Longest time of reading from one device, ns, so that other packets are not late: about six super-packets
/// of 64 KiB at 4 GB/s.
const READ_BUDGET: Nanos = 100_000;

/// See the module.
pub(super) struct Path {
    clock: Clock,
    base_rtt: Nanos,
    pub(super) devices: Arc<[File]>,
    drops: Vec<DropCounter>,
    /// Number of devices in the west.
    west: usize,
    /// What addresses call the west side; the east side is the next one.
    west_side: u8,
    /// Whether the first host of a side gets packets to addresses outside.
    gateways: bool,
    halves: [Half; 2],
    writer: Writer,
    /// Buffer for a frame that the store has no room for.
    overflow: Box<[u8]>,
    totals: Totals,
}

/// One direction and its packets.
struct Half {
    direction: Direction<Segment>,
    store: Store,
}

#[derive(Default)]
struct Totals {
    since: Nanos,
    cpu_since: Nanos,
    /// Wake-ups of the thread until then.
    wakeups_since: u64,
    strays: u64,
    drops: u64,
}

pub(super) enum Drained {
    Yes,
    /// The time budget was spent first.
    No,
}

impl Path {
    /// Takes the ports of the `place`-th path, west first.
    pub(super) fn new(clock: Clock, place: usize, spec: &LinkSpec, ports: Vec<Port>) -> Path {
        let west = ports.iter().filter(|port| port.side == 0).count();
        let merging = ports.iter().map(|port| port.merging).min().unwrap_or(Merging::Nothing);
        let half = |way| {
            let (from, to) = match way {
                Way::Forward => (&ports[..west], &ports[west..]),
                Way::Backward => (&ports[west..], &ports[..west]),
            };
            let access = |from: &Port| {
                to.iter().map(|to| from.access_delay_ns + to.access_delay_ns).collect::<Vec<_>>()
            };
            let lanes: Vec<Nanos> = from.iter().flat_map(access).collect();
            Half {
                direction: Direction::new(spec.settings(way), spec.seed, way, &lanes, clock.now()),
                store: Store::new(spec.memory_bytes(way)),
            }
        };
        let halves = [half(Way::Forward), half(Way::Backward)];
        let (devices, drops): (Vec<File>, Vec<DropCounter>) =
            ports.into_iter().map(|port| (port.device, port.drops)).unzip();
        Path {
            clock,
            base_rtt: spec.base_rtt().nanos(),
            devices: devices.into(),
            drops,
            west,
            west_side: west_side(place),
            gateways: spec.hosts.gateways,
            halves,
            writer: Writer::new(clock, merging),
            overflow: vec![0; FRAME_MAX].into_boxed_slice(),
            totals: Totals::default(),
        }
    }

    /// Reads arrivals and writes due packets.
    pub(super) fn turn(&mut self) -> Drained {
        let mut all = Drained::Yes;
        for port in 0..self.devices.len() {
            if let Drained::No = self.read_port(port) {
                all = Drained::No;
                self.release();
            }
        }
        self.release();
        all
    }

    /// When something falls due next.
    pub(super) fn next_wake(&self) -> Option<Nanos> {
        self.halves.iter().filter_map(|half| half.direction.next_wake()).min()
    }

    /// Changes the settings of both directions.
    pub(super) fn reconfigure(&mut self, settings: [Settings; 2]) {
        let now = self.clock.now();
        for (half, settings) in self.halves.iter_mut().zip(settings) {
            half.direction.reconfigure(now, settings);
        }
    }

    pub(super) fn reset(&mut self, wakeups: u64) {
        let now = self.clock.now();
        self.halves.iter_mut().for_each(|half| half.direction.reset(now));
        self.drops.iter_mut().for_each(DropCounter::reset);
        self.writer.reset();
        self.totals =
            Totals { since: now, cpu_since: thread_cpu(), wakeups_since: wakeups, ..Totals::default() };
    }

    /// What was counted since the last reset; `wakeups` and the CPU time are the thread's.
    pub(super) fn counters(&mut self, wakeups: u64) -> Counters {
        let [forward, backward] = &self.halves;
        let mut counters = Counters {
            forward: forward.direction.counters().report(),
            backward: backward.direction.counters().report(),
            elapsed_s: (self.clock.now() - self.totals.since) as f64 / 1e9,
            host_drops: self.drops.iter_mut().map(DropCounter::count).sum(),
            emulator_drops: self.totals.drops + self.writer.drops,
            strays: self.totals.strays,
            lateness_us: self.writer.lateness.report(),
            cpu_s: (thread_cpu() - self.totals.cpu_since) as f64 / 1e9,
            wakeups: wakeups.saturating_sub(self.totals.wakeups_since),
            writes: self.writer.writes,
            ..Counters::default()
        };
        counters.judge(self.base_rtt);
        counters
    }

    /// Reads the packets that a host has sent.
    fn read_port(&mut self, port: usize) -> Drained {
        let began = self.clock.now();
        let from_west = port < self.west;
        let half = &mut self.halves[usize::from(!from_west)];
        // The hosts of the other side, and our index among our own.
        let (stations, own) =
            if from_west { (self.devices.len() - self.west, port) } else { (self.west, port - self.west) };
        loop {
            let (room, full) = match half.store.room() {
                Some(room) => (room, false),
                None => (&mut self.overflow[..], true),
            };
            // EAGAIN is the normal end; after any other error there is nothing to read either.
            let Ok(bytes) = read(&self.devices[port], &mut *room) else { return Drained::Yes };
            let now = self.clock.now();
            let parsed = Layout::parse(&room[..bytes]);
            let routed = parsed.ok().and_then(|layout| {
                let outside = || (self.gateways && layout.destination == Station(None)).then_some(0);
                let to = station(layout.destination, self.west_side + u8::from(from_west), stations)
                    .or_else(outside)?;
                Some((layout, own * stations + to))
            });
            match routed {
                None => self.totals.strays += 1,
                Some((layout, _)) if full => self.totals.drops += u64::from(layout.count()),
                Some((layout, lane)) => half.take(now, bytes, layout, lane),
            }
            if now - began > READ_BUDGET {
                return Drained::No;
            }
        }
    }

    /// Writes due packets of both directions.
    fn release(&mut self) {
        for (half, to) in self.halves.iter_mut().zip([self.west, 0]) {
            let now = self.clock.now();
            half.direction.advance(now);
            while let Some(release) = half.direction.pop_due(now) {
                let segment = release.item;
                match release.integrity {
                    Integrity::Intact => {
                        if !self.writer.train.try_add(&half.store, segment) {
                            self.writer.flush(&mut half.store, &self.devices[to..]);
                            self.writer.train.try_add(&half.store, segment);
                        }
                        self.writer.dues.push(release.due);
                    }
                    Integrity::Damaged(which) => {
                        self.writer.flush(&mut half.store, &self.devices[to..]);
                        self.writer.dues.push(release.due);
                        self.writer.write_damaged(&mut half.store, &self.devices[to..], segment, which);
                    }
                }
            }
            self.writer.flush(&mut half.store, &self.devices[to..]);
        }
    }
}

impl Half {
    /// Passes every segment of the frame in the store's free room to the direction.
    fn take(&mut self, now: Nanos, bytes: usize, layout: Layout, lane: usize) {
        let frame = self.store.next_id();
        let mut live = 0;
        for index in 0..layout.count() {
            let item = Segment { frame, index };
            let bytes = layout.wire_bytes(index);
            let (protocol, ports) = (layout.protocol, layout.ports);
            live += self.direction.arrive(now, Arrival { item, bytes, protocol, ports, lane });
        }
        if live > 0 {
            self.store.keep(bytes, layout, live);
        }
    }
}

/// Index of a host on a side with `hosts` hosts.
fn station(station: Station, side: u8, hosts: usize) -> Option<usize> {
    let Station(Some((to_side, number))) = station else { return None };
    let index = usize::from(number).checked_sub(1)?;
    (to_side == side && index < hosts).then_some(index)
}
