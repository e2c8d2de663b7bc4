//! Propagation behind the bottleneck: in order, except for packets that are held back.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use super::clock::Nanos;
use super::draw::{Draw, Purpose};
use super::jitter::Wander;
use super::spec::{Reorder, Settings, Way};

/// A packet that leaves the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release<T> {
    pub item: T,
    /// Length of the whole IP packet.
    pub bytes: u32,
    pub integrity: Integrity,
    /// Due time.
    pub due: Nanos,
}

/// Whether a packet is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integrity {
    Intact,
    /// One bit is flipped; the number selects it.
    Damaged(u32),
}

/// Whether a packet keeps its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Kept,
    HeldBack,
}

/// Packets in propagation, one lane for each pair of hosts.
#[derive(Debug)]
pub struct Propagation<T> {
    seed: u64,
    way: Way,
    delay: Nanos,
    reorder: Option<Reorder>,
    reorder_draw: Draw,
    jitter: Wander,
    jitter_most: Nanos,
    lanes: Vec<Lane<T>>,
    held_back: BinaryHeap<Reverse<HeldBack<T>>>,
    held_back_count: u64,
}

#[derive(Debug)]
struct Lane<T> {
    /// Delay of the access lines of the two hosts.
    access_delay: Nanos,
    flying: VecDeque<Release<T>>,
    last_due: Nanos,
}

impl<T: Copy> Propagation<T> {
    /// An empty path at `now`; `access_delays` has one entry for each lane.
    pub fn new(
        settings: &Settings,
        seed: u64,
        way: Way,
        access_delays: &[Nanos],
        now: Nanos,
    ) -> Propagation<T> {
        let lane =
            |&access_delay: &Nanos| Lane { access_delay, flying: VecDeque::with_capacity(4096), last_due: 0 };
        let jitter_most = settings.jitter.nanos();
        Propagation {
            seed,
            way,
            delay: settings.delay.nanos(),
            reorder: settings.reorder,
            reorder_draw: Draw::new(seed, way, Purpose::Reorder),
            jitter: Wander::new(jitter_most, Draw::new(seed, way, Purpose::Jitter), now),
            jitter_most,
            lanes: access_delays.iter().map(lane).collect(),
            held_back: BinaryHeap::new(),
            held_back_count: 0,
        }
    }

    /// Changes the settings for packets launched from `now` on.
    pub fn reconfigure(&mut self, settings: &Settings, now: Nanos) {
        self.delay = settings.delay.nanos();
        self.reorder = settings.reorder;
        if self.jitter_most != settings.jitter.nanos() {
            self.jitter_most = settings.jitter.nanos();
            self.restart_draws(now);
        }
    }

    /// Restarts draws from the seed; packets in flight stay in flight.
    pub fn restart_draws(&mut self, now: Nanos) {
        self.reorder_draw = Draw::new(self.seed, self.way, Purpose::Reorder);
        self.jitter = Wander::new(self.jitter_most, Draw::new(self.seed, self.way, Purpose::Jitter), now);
    }

    /// Launches a packet at `at`; calls must be in order of time. Panics if the lane does not exist.
    pub fn launch(&mut self, at: Nanos, lane: usize, bytes: u32, item: T, integrity: Integrity) -> Order {
        let extra = self.jitter.at(at);
        let place = &mut self.lanes[lane];
        // A delay that was reduced while packets are in flight does not let later ones overtake.
        let due = (at + self.delay + place.access_delay + extra).max(place.last_due);
        let held_back = self.reorder.filter(|reorder| self.reorder_draw.chance(reorder.share.fraction()));
        if let Some(reorder) = held_back {
            let spread = match reorder.spread.nanos() {
                0 => 0.0,
                spread => self.reorder_draw.normal() * spread as f64,
            };
            // A float below 0 becomes 0.
            let late = (reorder.delay.nanos() as f64 + spread) as Nanos;
            let release = Release { item, bytes, integrity, due: due + late };
            self.held_back_count += 1;
            self.held_back.push(Reverse(HeldBack { number: self.held_back_count, release }));
            return Order::HeldBack;
        }
        place.last_due = due;
        place.flying.push_back(Release { item, bytes, integrity, due });
        Order::Kept
    }

    /// Minimum time between launch and release.
    pub fn delay_min(&self) -> Nanos {
        self.delay + self.lanes.iter().map(|lane| lane.access_delay).min().unwrap_or(0)
    }

    /// When the next packet is due.
    pub fn next_due(&self) -> Option<Nanos> {
        let held_back = self.held_back.peek().map(|Reverse(first)| first.release.due);
        let flying = self.lanes.iter().filter_map(|lane| lane.flying.front().map(|first| first.due));
        flying.chain(held_back).min()
    }

    /// A packet that is due by `now`. Packets of one lane are consecutive and in order, so that they can
    /// leave together.
    pub fn pop_due(&mut self, now: Nanos) -> Option<Release<T>> {
        if let Some(Reverse(first)) = self.held_back.peek()
            && first.release.due <= now
        {
            return self.held_back.pop().map(|Reverse(first)| first.release);
        }
        let due = |lane: &&mut Lane<T>| lane.flying.front().is_some_and(|first| first.due <= now);
        self.lanes.iter_mut().find(due).and_then(|lane| lane.flying.pop_front())
    }
}

#[derive(Debug)]
struct HeldBack<T> {
    number: u64,
    release: Release<T>,
}

/// Ordered by time, then by launch.
impl<T> Ord for HeldBack<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.release.due, self.number).cmp(&(other.release.due, other.number))
    }
}

impl<T> PartialOrd for HeldBack<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for HeldBack<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for HeldBack<T> {}
