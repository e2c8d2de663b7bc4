//! One direction of the path, from the arrival of a packet to its release:
//!
//! outage, middlebox, loss, duplication, corruption -> policer -> bottleneck (with cross traffic)
//! -> propagation
//!
//! No socket, no clock and no packet data: an item stands for a packet, and each call passes the time. Tests
//! run the same code in virtual time.

use super::clock::Nanos;
use super::counters::{DirectionCounters, Protocol};
use super::cross::Source;
use super::draw::{Draw, Purpose};
use super::loss::LossModel;
use super::middlebox::Middlebox;
use super::outage::Outages;
use super::propagation::{Integrity, Order, Propagation, Release};
use super::queue::{Bottleneck, Refusal, TokenBucket};
use super::spec::{Settings, Way};

/// Longest time between updates of virtual packets, ns, so that a quiet path does not accumulate many of
/// them.
const CROSS_STRETCH: Nanos = 2_000_000;

/// A packet that arrives at the path.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<T> {
    pub item: T,
    /// Length of the whole IP packet.
    pub bytes: u32,
    pub protocol: Protocol,
    /// Source and destination.
    pub ports: Option<(u16, u16)>,
    /// Index of the pair of hosts.
    pub lane: usize,
}

/// One direction of the path.
#[derive(Debug)]
pub struct Direction<T> {
    settings: Settings,
    seed: u64,
    way: Way,
    draws: Draws,
    loss: LossModel,
    outages: Outages,
    middlebox: Middlebox,
    policer: Option<TokenBucket>,
    bottleneck: Bottleneck<Crossing<T>>,
    cross: Vec<Source>,
    propagation: Propagation<T>,
    /// Packets in the bottleneck that are not virtual.
    real_waiting: u64,
    advanced_to: Nanos,
    counters: DirectionCounters,
}

#[derive(Debug)]
struct Draws {
    loss: Draw,
    duplicate: Draw,
    corrupt: Draw,
}

/// An item in the bottleneck.
#[derive(Debug, Clone, Copy)]
enum Crossing<T> {
    Virtual,
    Real { item: T, lane: usize, integrity: Integrity },
}

impl<T: Copy> Direction<T> {
    /// A direction that starts at `now`; `access_delays` has one entry for each pair of hosts.
    pub fn new(settings: Settings, seed: u64, way: Way, access_delays: &[Nanos], now: Nanos) -> Direction<T> {
        let red = Draw::new(seed, way, Purpose::Red);
        Direction {
            seed,
            way,
            draws: Draws::new(seed, way),
            loss: LossModel::new(settings.loss),
            outages: Outages::new(settings.outages.clone(), now),
            middlebox: Middlebox::new(&settings.udp, settings.tcp_port, now),
            policer: settings.policer.map(|policer| TokenBucket::new(policer, now)),
            bottleneck: Bottleneck::new(settings.queue, settings.rate, red),
            cross: sources(&settings, seed, way, now),
            propagation: Propagation::new(&settings, seed, way, access_delays, now),
            real_waiting: 0,
            advanced_to: now,
            counters: DirectionCounters::default(),
            settings,
        }
    }

    /// Changes the settings at `now`. Queued packets keep their place; unchanged parts keep their state.
    pub fn reconfigure(&mut self, now: Nanos, settings: Settings) {
        self.advance(now);
        self.bottleneck.reconfigure(now, settings.queue, settings.rate);
        if settings.loss != self.settings.loss {
            self.loss = LossModel::new(settings.loss);
        }
        if settings.policer != self.settings.policer {
            self.policer = settings.policer.map(|policer| TokenBucket::new(policer, now));
        }
        if settings.cross != self.settings.cross {
            self.cross = sources(&settings, self.seed, self.way, now);
        }
        self.propagation.reconfigure(&settings, now);
        self.outages.replace(settings.outages.clone());
        if (&settings.udp, settings.tcp_port) != (&self.settings.udp, self.settings.tcp_port) {
            self.middlebox = Middlebox::new(&settings.udp, settings.tcp_port, self.outages.origin());
        }
        self.settings = settings;
    }

    /// Sets counters to zero and restarts random draws, outages and cross traffic. Packets in flight stay in
    /// flight.
    pub fn reset(&mut self, now: Nanos) {
        self.advance(now);
        self.draws = Draws::new(self.seed, self.way);
        self.loss = LossModel::new(self.settings.loss);
        self.policer = self.settings.policer.map(|policer| TokenBucket::new(policer, now));
        self.cross = sources(&self.settings, self.seed, self.way, now);
        self.propagation.restart_draws(now);
        self.outages.reset(now);
        self.middlebox = Middlebox::new(&self.settings.udp, self.settings.tcp_port, now);
        self.counters = DirectionCounters::default();
    }

    pub fn counters(&self) -> &DirectionCounters {
        &self.counters
    }

    /// Handles a packet that arrives at `now`. Returns the number of copies in flight: 0, 1 or 2.
    pub fn arrive(&mut self, now: Nanos, arrival: Arrival<T>) -> u32 {
        self.advance(now);
        self.counters.arrived(arrival.protocol, arrival.bytes);
        if self.outages.drops(now) {
            self.counters.outage_drops += 1;
            return 0;
        }
        if !self.middlebox.passes(now, arrival.protocol, arrival.ports, arrival.bytes) {
            self.counters.middlebox_drops += 1;
            return 0;
        }
        if self.loss.takes(&mut self.draws.loss) {
            self.counters.random_losses += 1;
            return 0;
        }
        let copies = if self.draws.duplicate.chance(self.settings.duplicate.fraction()) { 2 } else { 1 };
        self.counters.duplicated += copies - 1;
        (0..copies).map(|_| u32::from(self.enter(now, &arrival))).sum()
    }

    /// Whether policer and queue accept the packet.
    fn enter(&mut self, now: Nanos, arrival: &Arrival<T>) -> bool {
        let mut integrity = Integrity::Intact;
        if self.draws.corrupt.chance(self.settings.corrupt.fraction()) {
            integrity = Integrity::Damaged(self.draws.corrupt.word());
        }
        if let Some(policer) = &mut self.policer
            && !policer.passes(now, arrival.bytes)
        {
            self.counters.policer_drops += 1;
            return false;
        }
        let real = Crossing::Real { item: arrival.item, lane: arrival.lane, integrity };
        match self.bottleneck.offer(now, arrival.bytes, real, &self.outages) {
            Ok(()) => {
                self.real_waiting += 1;
                self.counters.queue_bytes_max = self.counters.queue_bytes_max.max(self.bottleneck.backlog());
                self.counters.corrupted += u64::from(integrity != Integrity::Intact);
                return true;
            }
            Err(Refusal::Full) => self.counters.queue_drops += 1,
            Err(Refusal::Early) => self.counters.red_drops += 1,
        }
        false
    }

    /// Processes all events in the bottleneck up to `now`, in order of time.
    pub fn advance(&mut self, now: Nanos) {
        loop {
            let source = self.cross.iter_mut().min_by_key(|source| source.next());
            let source = source.filter(|source| source.next() <= now);
            let until = source.as_ref().map_or(now, |source| source.next());
            while let Some(served) = self.bottleneck.serve(until, &self.outages) {
                let Crossing::Real { item, lane, integrity } = served.item else { continue };
                self.real_waiting -= 1;
                self.counters.waited(served.waited);
                let order = self.propagation.launch(served.at, lane, served.bytes, item, integrity);
                self.counters.reordered += u64::from(order == Order::HeldBack);
            }
            let Some(source) = source else { break };
            let bytes = source.take();
            if self.outages.drops(until) {
                continue;
            }
            match self.bottleneck.offer(until, bytes, Crossing::Virtual, &self.outages) {
                Ok(()) => self.counters.cross_bytes += u64::from(bytes),
                Err(_) => self.counters.cross_drops += 1,
            }
        }
        self.advanced_to = now;
        self.counters.busy += self.bottleneck.take_busy();
    }

    /// Time of the next event if nothing arrives before: a release, or an update of cross traffic.
    pub fn next_wake(&self) -> Option<Nanos> {
        let waiting = self.bottleneck.next_done().filter(|_| self.real_waiting > 0);
        let waiting = waiting.map(|done| done + self.propagation.delay_min());
        let cross = (!self.cross.is_empty()).then_some(self.advanced_to + CROSS_STRETCH);
        [self.propagation.next_due(), waiting, cross].into_iter().flatten().min()
    }

    /// A packet that is due by `now`; those of one pair of hosts are consecutive. Call `advance` first.
    pub fn pop_due(&mut self, now: Nanos) -> Option<Release<T>> {
        let release = self.propagation.pop_due(now)?;
        self.counters.packets_out += 1;
        self.counters.bytes_out += u64::from(release.bytes);
        Some(release)
    }
}

impl Draws {
    fn new(seed: u64, way: Way) -> Draws {
        Draws {
            loss: Draw::new(seed, way, Purpose::Loss),
            duplicate: Draw::new(seed, way, Purpose::Duplicate),
            corrupt: Draw::new(seed, way, Purpose::Corrupt),
        }
    }
}

fn sources(settings: &Settings, seed: u64, way: Way, now: Nanos) -> Vec<Source> {
    let source = |(index, &kind)| Source::new(kind, Draw::new(seed, way, Purpose::Cross(index)), now);
    (0u8..).zip(&settings.cross).map(source).collect()
}

#[cfg(test)]
mod tests;
