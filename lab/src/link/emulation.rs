//! The running path: frames are read from devices, pass their direction as segments, and are written to other
//! devices when due. All in one thread.
//!
//! It wakes at most once per [`TICK`] and then handles everything that arrived or fell due, which makes large
//! reads, merged writes and an idle core possible. If nothing is due it sleeps until a device is readable.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read, writev};
use rustix::mm::{MlockAllFlags, mlockall};

use super::clock::{Clock, Nanos, thread_cpu, timespec};
use super::counters::{Counters, Delays};
use super::direction::{Arrival, Direction};
use super::host::{DropCounter, Port};
use super::packet::store::{FrameId, Store};
use super::packet::train::{Headers, Merging, SLICES_MAX, Segment, Train, damaged};
use super::packet::{FRAME_MAX, HEADERS_MAX, Layout, Station, VNET_BYTES};
use super::propagation::Integrity;
use super::realtime::become_realtime;
use super::spec::{LinkSpec, Settings, Way};

/// Shortest time between two wake-ups, ns: four full packets at 1 Gbit/s. Measured there with TCP on two
/// cores: half a core, p99 of lateness 0.14 ms. Twice the tick saves a fifth of a core, but the p99 is then
/// 0.17 ms on a quiet machine and above the limit on a busy one.
const TICK: Nanos = 50_000;
/// Longest time of reading from one device, ns, so that other packets are not late: about six super-packets
/// of 64 KiB at 4 GB/s.
const READ_BUDGET: Nanos = 100_000;
/// During a sleep of this length (ns) the core may sleep, too; waking then takes about 100 us (measured in a
/// virtual machine), so wake AWAKE earlier and spin. Shorter sleeps are frequent: spinning would cost a core.
const DEEP_SLEEP: Nanos = 1_000_000;
const AWAKE: Nanos = 120_000;
/// Longest sleep while nothing is due, ns.
const IDLE: Nanos = 1_000_000_000;

/// A command to the thread, handled at a wake-up.
pub enum Command {
    Counters(SyncSender<Box<Counters>>),
    /// Settings of the forward and of the backward direction.
    Set(Box<[Settings; 2]>, SyncSender<()>),
    Reset(SyncSender<()>),
    Stop,
}

/// All state of the thread.
pub struct Emulation {
    clock: Clock,
    base_rtt: Nanos,
    devices: Arc<[File]>,
    drops: Vec<DropCounter>,
    commands: Receiver<Command>,
    /// Readable if there is a command.
    wake: Arc<OwnedFd>,
    /// Number of devices in the west.
    west: usize,
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

/// Writes trains to devices.
struct Writer {
    clock: Clock,
    train: Train,
    /// Due times of the train's segments.
    dues: Vec<Nanos>,
    headers: Box<Headers>,
    damaged: Vec<u8>,
    lateness: Delays,
    writes: u64,
    drops: u64,
}

#[derive(Default)]
struct Totals {
    since: Nanos,
    cpu_since: Nanos,
    wakeups: u64,
    strays: u64,
    drops: u64,
}

enum Drained {
    Yes,
    /// The time budget was spent first.
    No,
}

impl Emulation {
    /// Takes the ports, west first; [`Emulation::run`] starts.
    pub fn new(
        spec: &LinkSpec,
        ports: Vec<Port>,
        commands: Receiver<Command>,
        wake: Arc<OwnedFd>,
    ) -> Emulation {
        let clock = Clock::start();
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
        Emulation {
            clock,
            base_rtt: spec.base_rtt().nanos(),
            devices: devices.into(),
            drops,
            commands,
            wake,
            west,
            gateways: spec.hosts.gateways,
            halves,
            writer: Writer::new(clock, merging),
            overflow: vec![0; FRAME_MAX].into_boxed_slice(),
            totals: Totals::default(),
        }
    }

    /// Emulates until a stop command; returns the last counters.
    pub fn run(mut self) -> Counters {
        // A first access to a page costs 10 us: lock all pages now. Without permission, the first packets are
        // late.
        let _ = mlockall(MlockAllFlags::CURRENT);
        if let Err(error) = become_realtime() {
            // Not fatal: the counters show whether the lateness was acceptable.
            eprintln!("fobs-lab: no real-time priority ({error}): packets may be late");
        }
        self.reset();
        let devices = Arc::clone(&self.devices);
        let wake = Arc::clone(&self.wake);
        let mut watched: Vec<PollFd<'_>> =
            devices.iter().map(|device| PollFd::new(device, PollFlags::IN)).collect();
        watched.push(PollFd::new(&*wake, PollFlags::IN));
        loop {
            let began = self.clock.now();
            self.totals.wakeups += 1;
            while let Ok(command) = self.commands.try_recv() {
                if !self.obey(command) {
                    return self.counters();
                }
            }
            let drained = self.turn();
            if let Drained::Yes = drained {
                self.sleep(began, &mut watched);
            }
        }
    }

    /// Reads arrivals and writes due packets.
    fn turn(&mut self) -> Drained {
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

    fn sleep(&self, began: Nanos, watched: &mut [PollFd<'_>]) {
        let next = self.halves.iter().filter_map(|half| half.direction.next_wake()).min();
        let next = next.unwrap_or(began + IDLE).min(began + IDLE);
        // Arrivals do not wake it here: they are read together at the next tick.
        self.clock.sleep_until(began + TICK);
        if next <= began + TICK {
            return;
        }
        let left = next.saturating_sub(self.clock.now());
        let asleep = if left > DEEP_SLEEP { left - AWAKE } else { left };
        // An error is a signal or cannot be handled here: the next turn finds the cause.
        let ready = poll(watched, Some(&timespec(asleep)));
        // Resets the event counter; the command itself is in the channel.
        let _ = read(&*self.wake, &mut [0; 8]);
        if asleep < left && ready == Ok(0) {
            while self.clock.now() < next {
                std::hint::spin_loop();
            }
        }
    }

    fn obey(&mut self, command: Command) -> bool {
        // If the sender of the command has gone, the answer is dropped.
        match command {
            Command::Counters(answer) => {
                let _ = answer.try_send(Box::new(self.counters()));
            }
            Command::Set(settings, answer) => {
                let now = self.clock.now();
                for (half, settings) in self.halves.iter_mut().zip(*settings) {
                    half.direction.reconfigure(now, settings);
                }
                let _ = answer.try_send(());
            }
            Command::Reset(answer) => {
                self.reset();
                let _ = answer.try_send(());
            }
            Command::Stop => return false,
        }
        true
    }

    fn reset(&mut self) {
        let now = self.clock.now();
        self.halves.iter_mut().for_each(|half| half.direction.reset(now));
        self.drops.iter_mut().for_each(DropCounter::reset);
        self.writer.reset();
        self.totals = Totals { since: now, cpu_since: thread_cpu(), ..Totals::default() };
    }

    fn counters(&mut self) -> Counters {
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
            wakeups: self.totals.wakeups,
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
                let to = station(layout.destination, u8::from(from_west), stations).or_else(outside)?;
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

impl Writer {
    fn new(clock: Clock, merging: Merging) -> Writer {
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

    fn reset(&mut self) {
        self.lateness = Delays::default();
        self.writes = 0;
        self.drops = 0;
    }

    /// Writes the train, if any, to the device of its destination host; `devices` begins with the first host
    /// of the receiving side.
    fn flush(&mut self, store: &mut Store, devices: &[File]) {
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

    fn write_damaged(&mut self, store: &mut Store, devices: &[File], segment: Segment, which: u32) {
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

/// Index of a host on a side with `hosts` hosts.
fn station(station: Station, side: u8, hosts: usize) -> Option<usize> {
    let Station(Some((to_side, number))) = station else { return None };
    let index = usize::from(number).checked_sub(1)?;
    (to_side == side && index < hosts).then_some(index)
}

/// Wakes the thread to handle commands.
pub fn ring(wake: &OwnedFd) {
    // Full means that a wake-up is already pending.
    let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
}

/// The event descriptor for [`ring`].
pub fn bell() -> io::Result<OwnedFd> {
    use rustix::event::{EventfdFlags, eventfd};
    Ok(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}
