//! One direction of a link: a queue, a server of some rate, and a wire on which packets travel for a while.
//!
//! A packet enters (`Link::enqueue`), leaves the queue at `Link::departs_at` and the wire at
//! `Link::arrives_at`: two events, however long queue and wire are.

mod backlog;
mod discipline;
mod fair;
mod faults;
mod policer;

pub use discipline::Discipline;
pub use faults::{Faults, GilbertElliott};
pub use policer::PolicerConfig;

use crate::packet::{Ecn, FlowId, Packet};
use crate::rng::Rng;
use crate::time::{Nanos, time_for};
use backlog::Backlog;
use discipline::{Admission, Management};
use fair::FairQueue;
use faults::{Fate, FaultState};
use policer::Policer;
use std::collections::VecDeque;

/// Most packets on one wire: 100 Gbit/s of full packets for half a second. What exceeds it is dropped and
/// counted.
const WIRE_MAX: usize = 1 << 22;
/// Width of a bucket of the histogram of queueing delays: 2% of the shortest delay of interest (5 ms).
const DELAY_BUCKET: Nanos = 100_000;
/// Buckets of that histogram: 10 s; what waits longer is counted in the last one.
const DELAY_BUCKETS: usize = 100_000;

/// What a link is.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// Name, for tables and schedules.
    pub name: String,
    /// Bits per second; 0 for no limit, and so no queue.
    pub rate: u64,
    /// Propagation delay.
    pub delay: Nanos,
    /// Bytes that the queue holds, with IP headers.
    pub queue: u64,
    /// Largest IP packet, bytes; larger ones vanish behind the link.
    pub mtu: u32,
    /// How the queue is managed.
    pub discipline: Discipline,
    /// Whether the queue marks capable packets where it would drop them early.
    pub ecn: bool,
    /// A policer in front of the queue.
    pub policer: Option<PolicerConfig>,
    /// What goes wrong behind the link.
    pub faults: Faults,
}

impl LinkConfig {
    /// A link without limits that only delays.
    pub fn wire(name: &str, delay: Nanos) -> LinkConfig {
        LinkConfig::new(name, 0, delay, u64::MAX)
    }

    /// A link of `rate` bits per second with a drop-tail queue of `queue` bytes.
    pub fn new(name: &str, rate: u64, delay: Nanos, queue: u64) -> LinkConfig {
        LinkConfig {
            name: name.to_owned(),
            rate,
            delay,
            queue,
            mtu: 1500,
            discipline: Discipline::DropTail,
            ecn: false,
            policer: None,
            faults: Faults::default(),
        }
    }
}

/// What changes about a link while the world runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Another rate, bits per second.
    Rate(u64),
    /// Another delay: a change of route. Packets in flight keep theirs, so later ones may overtake
    /// them.
    Delay(Nanos),
    /// Another size of packets that pass.
    Mtu(u32),
    /// Other faults.
    Faults(Faults),
    /// No policer any more.
    Unpoliced,
}

/// Packets by what became of them. `entered + copied` is the sum of the others and of what is inside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Offered to the link.
    pub entered: u64,
    /// Made by duplication.
    pub copied: u64,
    /// Delivered to the other end.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Dropped because the queue was full.
    pub dropped_full: u64,
    /// Dropped early by the queue's management.
    pub dropped_early: u64,
    /// Dropped by the policer.
    pub policed: u64,
    /// Lost behind the link: loss, outage, size.
    pub lost: u64,
    /// Dropped because the simulator's wire was full.
    pub wire_full: u64,
    /// Marked.
    pub marked: u64,
    /// Longest queue, bytes.
    pub queue_max: u64,
}

/// Packets that wait.
#[derive(Debug)]
enum Waiting {
    /// In one queue.
    InLine(VecDeque<(Nanos, Packet)>),
    /// In a queue for each flow, with the constants of their CoDel.
    ByFlow { lanes: FairQueue, target: Nanos, interval: Nanos },
}

impl Waiting {
    fn new(discipline: Discipline) -> Waiting {
        match discipline {
            Discipline::FqCoDel { target, interval } => {
                Waiting::ByFlow { lanes: FairQueue::default(), target, interval }
            }
            _ => Waiting::InLine(VecDeque::new()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Waiting::InLine(line) => line.len(),
            Waiting::ByFlow { lanes, .. } => lanes.len(),
        }
    }

    fn push(&mut self, now: Nanos, packet: Packet) {
        match self {
            Waiting::InLine(line) => line.push_back((now, packet)),
            Waiting::ByFlow { lanes, .. } => lanes.push(now, packet),
        }
    }
}

/// A running link.
#[derive(Debug)]
pub(crate) struct Link {
    config: LinkConfig,
    rng: Rng,
    management: Management,
    policer: Option<Policer>,
    faults: FaultState,
    /// Waiting, and since when.
    queue: Waiting,
    backlog: Backlog,
    /// When the packet in service has left.
    busy_until: Option<Nanos>,
    serving: Option<Packet>,
    /// Under way, by arrival.
    wire: VecDeque<(Nanos, Packet)>,
    last_in_order: Nanos,
    delays: Vec<u32>,
    stats: LinkStats,
}

impl Link {
    pub(crate) fn new(config: LinkConfig, rng: Rng) -> Link {
        Link {
            management: Management::new(config.discipline),
            policer: config.policer.map(Policer::new),
            faults: FaultState::new(config.faults.clone()),
            rng,
            queue: Waiting::new(config.discipline),
            backlog: Backlog::default(),
            busy_until: None,
            serving: None,
            wire: VecDeque::new(),
            last_in_order: 0,
            delays: Vec::new(),
            stats: LinkStats::default(),
            config,
        }
    }

    pub(crate) fn config(&self) -> &LinkConfig {
        &self.config
    }

    pub(crate) fn stats(&self) -> LinkStats {
        self.stats
    }

    /// Bytes waiting or in service.
    pub(crate) fn backlog(&self) -> u64 {
        self.backlog.bytes()
    }

    /// Bytes of a flow's data waiting or in service.
    pub(crate) fn backlog_of(&self, flow: FlowId) -> u64 {
        self.backlog.of(flow)
    }

    /// Time that a packet would wait now.
    pub(crate) fn waiting_time(&self) -> Nanos {
        time_for(self.backlog.bytes(), self.config.rate)
    }

    /// Packets inside.
    pub(crate) fn inside(&self) -> u64 {
        (self.queue.len() + usize::from(self.serving.is_some()) + self.wire.len()) as u64
    }

    /// When the packet in service leaves the queue.
    pub(crate) fn departs_at(&self) -> Option<Nanos> {
        self.busy_until
    }

    /// When the next packet arrives at the other end.
    pub(crate) fn arrives_at(&self) -> Option<Nanos> {
        self.wire.front().map(|(at, _)| *at)
    }

    /// A packet enters.
    pub(crate) fn enqueue(&mut self, now: Nanos, mut packet: Packet) {
        self.stats.entered += 1;
        if self.policer.as_mut().is_some_and(|policer| !policer.admits(now, packet.len)) {
            self.stats.policed += 1;
            return;
        }
        if self.config.rate == 0 {
            self.launch(now, packet);
            return;
        }
        let (backlog, len) = (self.backlog.bytes(), packet.len);
        if backlog + u64::from(len) > self.config.queue && !self.makes_room(len) {
            self.stats.dropped_full += 1;
            return;
        }
        let verdict = self.management.on_enqueue(now, backlog, len, self.config.rate, &mut self.rng);
        if self.is_dropped(verdict, &mut packet) {
            self.stats.dropped_early += 1;
            return;
        }
        self.backlog.add(&packet);
        self.stats.queue_max = self.stats.queue_max.max(self.backlog.bytes());
        self.queue.push(now, packet);
        if self.busy_until.is_none() {
            self.serve_next(now);
        }
    }

    /// The packet in service leaves, and the next one's turn begins.
    pub(crate) fn on_departure(&mut self, now: Nanos) {
        self.busy_until = None;
        if let Some(packet) = self.serving.take() {
            self.backlog.remove(&packet);
            self.launch(now, packet);
        }
        self.serve_next(now);
    }

    /// The packet that arrives now.
    pub(crate) fn pop_arrival(&mut self, now: Nanos) -> Option<Packet> {
        self.wire.front().filter(|(at, _)| *at <= now)?;
        let (_, packet) = self.wire.pop_front()?;
        self.stats.delivered += 1;
        self.stats.delivered_bytes += u64::from(packet.len);
        Some(packet)
    }

    /// Something about the link changes.
    pub(crate) fn change(&mut self, now: Nanos, change: Change) {
        match change {
            Change::Rate(rate) => self.set_rate(now, rate),
            Change::Delay(delay) => {
                self.config.delay = delay;
                self.last_in_order = 0;
            }
            Change::Mtu(mtu) => self.config.mtu = mtu,
            Change::Faults(faults) => self.faults.set(faults),
            Change::Unpoliced => self.policer = None,
        }
    }

    /// The delay in the queue that a share of the packets (0 to 1) stayed below, rounded down to 0.1 ms.
    pub(crate) fn queue_delay(&self, share: f64) -> Nanos {
        let total: u64 = self.delays.iter().map(|n| u64::from(*n)).sum();
        let wanted = (total as f64 * share) as u64;
        let mut seen = 0;
        let bucket = self.delays.iter().position(|n| {
            seen += u64::from(*n);
            seen > wanted
        });
        bucket.unwrap_or(0) as Nanos * DELAY_BUCKET
    }

    fn set_rate(&mut self, now: Nanos, rate: u64) {
        let old = std::mem::replace(&mut self.config.rate, rate);
        let Some(until) = self.busy_until else { return };
        if rate == 0 {
            while self.busy_until.is_some() {
                self.on_departure(now);
            }
        } else {
            // The rest of the packet in service leaves at the new rate.
            let left = u128::from(until.saturating_sub(now)) * u128::from(old) / u128::from(rate);
            self.busy_until = Some(now.saturating_add(u64::try_from(left).unwrap_or(u64::MAX)));
        }
    }

    /// Whether the longest of several queues gave up enough for a packet.
    fn makes_room(&mut self, len: u32) -> bool {
        let Waiting::ByFlow { lanes, .. } = &mut self.queue else { return false };
        while self.backlog.bytes() + u64::from(len) > self.config.queue {
            let Some(dropped) = lanes.take_fattest() else { return false };
            self.backlog.remove(&dropped);
            self.stats.dropped_full += 1;
        }
        true
    }

    fn serve_next(&mut self, now: Nanos) {
        while let Some((since, mut packet, verdict)) = self.next_in_turn(now) {
            if self.is_dropped(verdict, &mut packet) {
                self.stats.dropped_early += 1;
                self.backlog.remove(&packet);
                continue;
            }
            if let Waiting::ByFlow { lanes, .. } = &mut self.queue {
                lanes.charge(packet.flow, packet.len);
            }
            self.count_delay(now - since);
            self.busy_until = Some(now + time_for(u64::from(packet.len), self.config.rate));
            self.serving = Some(packet);
            return;
        }
        self.management.on_empty(now);
    }

    /// The packet whose turn it is, since when it has waited, and what becomes of it.
    fn next_in_turn(&mut self, now: Nanos) -> Option<(Nanos, Packet, Admission)> {
        match &mut self.queue {
            Waiting::InLine(line) => {
                let (since, packet) = line.pop_front()?;
                let behind = self.backlog.bytes() - u64::from(packet.len);
                let verdict = self.management.on_dequeue(now, since, behind);
                Some((since, packet, verdict))
            }
            Waiting::ByFlow { lanes, target, interval } => lanes.pop(now, *target, *interval),
        }
    }

    fn is_dropped(&mut self, verdict: Admission, packet: &mut Packet) -> bool {
        let capable = packet.ecn != Ecn::NotCapable;
        match verdict {
            Admission::Pass => return false,
            Admission::Signal if !(self.config.ecn && capable) => return true,
            Admission::Mark if !capable => return false,
            Admission::Signal | Admission::Mark => {}
        }
        packet.ecn = Ecn::Marked;
        self.stats.marked += 1;
        false
    }

    /// A packet goes on the wire.
    fn launch(&mut self, now: Nanos, mut packet: Packet) {
        let fate = self.faults.fate(now, &mut self.rng);
        let Fate::Passes { extra, in_order, damaged, twice } = fate else {
            self.stats.lost += 1;
            return;
        };
        if packet.len > self.config.mtu {
            self.stats.lost += 1;
            return;
        }
        packet.damaged |= damaged;
        let mut at = now + self.config.delay + extra;
        if in_order {
            self.last_in_order = self.last_in_order.max(at);
            at = self.last_in_order;
        }
        if twice {
            self.stats.copied += 1;
            self.put_on_wire(at, packet.clone());
        }
        self.put_on_wire(at, packet);
    }

    fn put_on_wire(&mut self, at: Nanos, packet: Packet) {
        if self.wire.len() >= WIRE_MAX {
            self.stats.wire_full += 1;
            return;
        }
        if self.wire.back().is_none_or(|(last, _)| *last <= at) {
            self.wire.push_back((at, packet));
        } else {
            let place = self.wire.partition_point(|(other, _)| *other <= at);
            self.wire.insert(place, (at, packet));
        }
    }

    fn count_delay(&mut self, waited: Nanos) {
        let bucket = ((waited / DELAY_BUCKET) as usize).min(DELAY_BUCKETS - 1);
        if self.delays.len() <= bucket {
            self.delays.resize(bucket + 1, 0);
        }
        self.delays[bucket] = self.delays[bucket].saturating_add(1);
    }
}

#[cfg(test)]
mod tests;
