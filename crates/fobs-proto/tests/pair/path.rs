//! One direction of a network in virtual time: a link that serialises, its queue, and everything that goes wrong.
//!
//! The link is a fluid first-in-first-out server: a packet's departure is known when it enters, so a packet costs no
//! event. After a change of rate what is queued is rescheduled, what has an arrival time keeps it.

use crate::rng::Rng;

/// Virtual nanoseconds.
pub type Nanos = u64;
pub const US: Nanos = 1_000;
pub const MS: Nanos = 1_000_000;
pub const SEC: Nanos = 1_000_000_000;

/// Bytes of IPv4 and UDP headers: they take their share of the link too.
pub const IP_OVERHEAD: u64 = 28;
/// A flow that yields never falls below this, bits per second.
const MIN_CROSS: u64 = 500_000;
/// What it grows by, thousandths of a packet a round trip: what makes TCP that falls by three tenths as fast as standard TCP
/// (RFC 9438 section 4.3).
const CROSS_GROWTH: u64 = 529;
/// Packet size of other people's traffic, bytes with IP headers.
const CROSS_PACKET: u64 = 1500;

/// What a path does.
#[derive(Debug, Clone)]
pub struct PathConfig {
    /// Bits per second of the link; 0 for no limit.
    pub rate: u64,
    /// Propagation delay.
    pub delay: Nanos,
    /// Bytes that the drop-tail queue holds.
    pub queue: u64,
    /// Random loss behind the queue, per million.
    pub loss_ppm: u32,
    /// Loss in bursts: probability per million of a burst's beginning, and of its end, at each packet.
    pub loss_bursts: Option<(u32, u32)>,
    pub duplicate_ppm: u32,
    /// Packets that are held up, and for how long at most.
    pub reorder: (u32, Nanos),
    /// Extra delay up to this; order is kept.
    pub jitter: Nanos,
    /// Largest IP packet; larger ones vanish.
    pub mtu: u16,
    /// Times when nothing passes.
    pub outages: Vec<(Nanos, Nanos)>,
    /// What changes and when, ascending.
    pub changes: Vec<(Nanos, Change)>,
    /// Bits per second of a flow that never yields, on the same link.
    pub cross: u64,
    /// That flow yields as TCP does: grows by half a packet a round trip, and falls by three tenths when it loses one.
    pub cross_yields: bool,
    /// Token bucket in front of the link: bits per second, and depth in bytes.
    pub policer: Option<(u64, u64)>,
    /// Queue above which packets are marked (CE), bytes.
    pub mark_above: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
pub enum Change {
    Rate(u64),
    Mtu(u16),
    Loss(u32),
    /// No more random loss of any kind.
    Calm,
    Cross(u64),
}

impl PathConfig {
    /// A path that only delays.
    pub fn clean(delay: Nanos) -> PathConfig {
        PathConfig {
            rate: 0,
            delay,
            queue: u64::MAX,
            loss_ppm: 0,
            loss_bursts: None,
            duplicate_ppm: 0,
            reorder: (0, 0),
            jitter: 0,
            mtu: u16::MAX,
            outages: Vec::new(),
            changes: Vec::new(),
            cross: 0,
            cross_yields: false,
            policer: None,
            mark_above: None,
        }
    }

    /// A link of `rate` bits per second with a queue of `queue` bytes.
    pub fn link(rate: u64, delay: Nanos, queue: u64) -> PathConfig {
        PathConfig { rate, queue, mtu: 1500, ..PathConfig::clean(delay) }
    }
}

/// An arrival at the far end.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub at: Nanos,
    pub marked: bool,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct PathStats {
    pub entered: u64,
    /// Dropped by the full queue or the policer.
    pub dropped: u64,
    /// Lost otherwise.
    pub lost: u64,
}

/// Width of a bucket of the histogram of queueing delays.
const BUCKET: Nanos = 100 * US;

#[derive(Debug)]
pub struct Path {
    config: PathConfig,
    rng: Rng,
    rate: u64,
    busy_until: Nanos,
    last_arrival: Nanos,
    in_burst: bool,
    changed: usize,
    cross_next: Nanos,
    cross_lost_at: Nanos,
    cross_bytes: u64,
    tokens: u64,
    tokens_at: Nanos,
    queue_delays: Vec<u32>,
    stats: PathStats,
}

impl Path {
    pub fn new(config: PathConfig, seed: u64) -> Path {
        Path {
            rate: config.rate,
            rng: Rng::new(seed),
            busy_until: 0,
            last_arrival: 0,
            in_burst: false,
            changed: 0,
            cross_next: 0,
            cross_lost_at: 0,
            cross_bytes: 0,
            tokens: config.policer.map_or(0, |p| p.1),
            tokens_at: 0,
            queue_delays: Vec::new(),
            stats: PathStats::default(),
            config,
        }
    }

    /// Bytes of other people's traffic that passed.
    pub fn cross_bytes(&self) -> u64 {
        self.cross_bytes
    }

    pub fn stats(&self) -> PathStats {
        self.stats
    }

    /// The delay in the queue that half of the packets stayed below.
    pub fn median_queue_delay(&self) -> Nanos {
        let half = self.queue_delays.iter().map(|n| u64::from(*n)).sum::<u64>() / 2;
        let mut seen = 0;
        let bucket = self.queue_delays.iter().position(|n| {
            seen += u64::from(*n);
            seen > half
        });
        bucket.unwrap_or(0) as Nanos * BUCKET
    }

    /// When a datagram of `len` bytes will find room in the queue; for hosts whose link pushes back.
    pub fn room_at(&mut self, now: Nanos, len: u64) -> Nanos {
        self.advance(now);
        let excess = (self.backlog(now) + len + IP_OVERHEAD).saturating_sub(self.config.queue);
        now + if excess == 0 { 0 } else { self.time_for(excess).max(1) }
    }

    /// A datagram of `len` bytes enters; its arrivals: none, one, or two where it is duplicated.
    pub fn send(&mut self, now: Nanos, len: u64) -> [Option<Arrival>; 2] {
        self.advance(now);
        self.stats.entered += 1;
        let bytes = len + IP_OVERHEAD;
        let backlog = self.backlog(now);
        if !self.takes_tokens(now, bytes) || backlog + bytes > self.config.queue {
            self.stats.dropped += 1;
            return [None, None];
        }
        let marked = self.config.mark_above.is_some_and(|above| backlog > above);
        self.record_delay(now);
        self.busy_until = self.busy_until.max(now) + self.time_for(bytes);
        // What is lost is lost behind the link: the host's own interface is never the narrow place.
        let out = self.config.outages.iter().any(|(from, to)| (*from..*to).contains(&now));
        if self.is_lost() || out || bytes > u64::from(self.config.mtu) {
            self.stats.lost += 1;
            return [None, None];
        }
        let first = self.arrival(marked);
        let second = self.rng.chance(self.config.duplicate_ppm).then(|| self.arrival(marked));
        [Some(first), second]
    }

    fn arrival(&mut self, marked: bool) -> Arrival {
        let (held, longest) = self.config.reorder;
        let at = self.busy_until + self.config.delay;
        if self.rng.chance(held) {
            return Arrival { at: at + self.rng.range(0, longest), marked };
        }
        let jitter = if self.config.jitter > 0 { self.rng.range(0, self.config.jitter) } else { 0 };
        self.last_arrival = self.last_arrival.max(at + jitter);
        Arrival { at: self.last_arrival, marked }
    }

    fn is_lost(&mut self) -> bool {
        if let Some((begin, end)) = self.config.loss_bursts {
            let turn = if self.in_burst { end } else { begin };
            self.in_burst ^= self.rng.chance(turn);
        }
        self.in_burst || self.rng.chance(self.config.loss_ppm)
    }

    fn takes_tokens(&mut self, now: Nanos, bytes: u64) -> bool {
        let Some((rate, depth)) = self.config.policer else { return true };
        let fresh = (u128::from(now - self.tokens_at) * u128::from(rate) / 8 / u128::from(SEC)) as u64;
        if fresh > 0 {
            self.tokens = (self.tokens + fresh).min(depth);
            self.tokens_at = now;
        }
        let enough = self.tokens >= bytes;
        self.tokens -= if enough { bytes } else { 0 };
        enough
    }

    /// Brings in what has changed, and other people's packets, up to now.
    fn advance(&mut self, now: Nanos) {
        while let Some(&(at, change)) = self.config.changes.get(self.changed).filter(|(at, _)| *at <= now) {
            self.changed += 1;
            self.cross_traffic(at);
            match change {
                Change::Rate(rate) => {
                    let backlog = self.backlog(at);
                    self.rate = rate;
                    self.busy_until = at + self.time_for(backlog);
                }
                Change::Mtu(mtu) => self.config.mtu = mtu,
                Change::Loss(ppm) => self.config.loss_ppm = ppm,
                Change::Calm => {
                    (self.config.loss_ppm, self.config.loss_bursts, self.in_burst) = (0, None, false)
                }
                Change::Cross(rate) => {
                    self.config.cross = rate;
                    self.cross_next = at;
                }
            }
        }
        self.cross_traffic(now);
    }

    fn cross_traffic(&mut self, now: Nanos) {
        while self.config.cross > 0 && self.cross_next <= now {
            let at = self.cross_next;
            // Round trip and queue, as a window would feel them.
            let turn = 2 * self.config.delay + self.busy_until.saturating_sub(at);
            if self.backlog(at) + CROSS_PACKET <= self.config.queue {
                self.busy_until = self.busy_until.max(at) + self.time_for(CROSS_PACKET);
                self.cross_bytes += CROSS_PACKET;
                if self.config.cross_yields {
                    let window_packets = (self.config.cross / 8 * turn / SEC / CROSS_PACKET).max(1);
                    self.config.cross += CROSS_PACKET * 8 * SEC / turn / window_packets * CROSS_GROWTH / 1000;
                }
            } else if self.config.cross_yields && at >= self.cross_lost_at + turn {
                self.cross_lost_at = at;
                self.config.cross = (self.config.cross * 7 / 10).max(MIN_CROSS);
            }
            self.cross_next += CROSS_PACKET * 8 * SEC / self.config.cross;
        }
    }

    fn backlog(&self, at: Nanos) -> u64 {
        (u128::from(self.busy_until.saturating_sub(at)) * u128::from(self.rate) / 8 / u128::from(SEC)) as u64
    }

    fn time_for(&self, bytes: u64) -> Nanos {
        if self.rate == 0 {
            0
        } else {
            (u128::from(bytes) * 8 * u128::from(SEC) / u128::from(self.rate)) as u64
        }
    }

    fn record_delay(&mut self, now: Nanos) {
        let bucket = (self.busy_until.saturating_sub(now) / BUCKET) as usize;
        if self.queue_delays.len() <= bucket {
            self.queue_delays.resize(bucket + 1, 0);
        }
        self.queue_delays[bucket] += 1;
    }
}
