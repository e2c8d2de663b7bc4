//! A seed's cell.

use crate::flow::tcp::Algorithm;
use crate::rng::Rng;
use crate::time::{MS, Nanos, SEC, bytes_in, time_for};
use std::fmt;

/// Stream of the draws: no actor's.
const STREAM: u64 = 0x6a07;
/// Rates, bits per second.
pub const RATES: (f64, f64) = (1e6, 4e10);
/// Round-trip times, ms.
const RTTS: (f64, f64) = (0.5, 400.0);
/// Queues, bandwidth-delay products; at least [`QUEUE_MIN`].
const QUEUES: (f64, f64) = (0.02, 8.0);
/// Least queue, bytes: five full packets.
const QUEUE_MIN: u64 = 7_500;
/// Objects, bytes.
const OBJECTS: (f64, f64) = (1e6, 1e10);
/// Packets of an object at most, so that thousands of cells can be played. Larger objects are cut to that.
pub const PACKETS_MAX: u64 = 30_000;
/// Part of those that one bandwidth-delay product holds at most; on faster paths the rate is cut to that.
const ROUND_TRIPS_MIN: u64 = 4;
/// Longest time that an object takes at the link's rate; larger ones are cut to that.
const IDEAL_MAX: Nanos = 60 * SEC;
/// Rate from which packets are jumbo frames.
const JUMBO_FROM: u64 = 2_000_000_000;
/// Largest rate beside neighbours, whose models send packets of 1500 bytes.
const RATE_MAX_BESIDE: u64 = 1_000_000_000;
/// Packets of all flows together in a cell with neighbours, and the longest that such a cell lasts. Shares
/// settle over several of CUBIC's periods, so they need more packets than a transfer alone.
const PACKETS_BESIDE: u64 = 200_000;
const LASTS_BESIDE: Nanos = 120 * SEC;
/// Round trips that such a cell lasts at least; on faster paths the rate is cut to that.
const ROUND_TRIPS_BESIDE: u64 = 300;
/// Share of the cells that have neighbours.
const BESIDE: f64 = 0.25;

/// Who comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The neighbours.
    NeighboursFirst,
    /// The transfer.
    NeighboursSecond,
}

/// What is odd about a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quirk {
    /// RED between a sixth and a half of the queue.
    Red,
    /// The same, marking.
    RedMarks,
    /// CoDel.
    CoDel,
    /// FQ-CoDel.
    FqCoDel,
    /// A policer in front of the queue, with this share of the link's rate.
    Policer(f64),
    /// Independent loss.
    Loss(f64),
    /// Loss in bursts: the long-term share, and packets in a burst.
    Bursts(f64, f64),
    /// Every packet takes up to this much longer, and overtakes.
    Jitter(Nanos),
    /// Every packet is late by a normally distributed time with this deviation and thrice as much in the
    /// mean, and overtakes.
    Shuffle(Nanos),
    /// A share of the packets is up to this late.
    Late(f64, Nanos),
    /// Half of the packets take a path longer by this.
    Detour(Nanos),
    /// A share of the packets comes twice.
    Duplication(f64),
    /// Every packet takes up to this much longer, in order, as behind a wireless link.
    Wireless(Nanos),
    /// Packets go on only once in this time, all that wait together.
    Turns(Nanos),
    /// The rate changes every 200 ms, between this share and all of it, as in a cellular network.
    Cellular(f64),
    /// A way back narrower by this factor.
    NarrowBack(f64),
    /// Acks get lost.
    AckLoss(f64),
    /// Acks go on only once in this time, all that wait together.
    BundledAcks(Nanos),
    /// From the middle on, the rate times this.
    RateStep(f64),
    /// From the middle on, the delay times this.
    RouteChange(f64),
    /// Nothing passes for this long, from the middle on.
    Outage(Nanos),
    /// Nothing passes for the first time, again and again, with the second time between.
    Outages(Nanos, Nanos),
    /// Twice, at a third and two thirds: the rate times the first and the delay times the second, and back.
    Handover(f64, f64),
    /// The path is remembered, with this share of its rate.
    Remembered(f64),
    /// The receiver stops for the first time every second time.
    Stalls(Nanos, Nanos),
    /// The receiver's disk takes this share of the link's rate.
    SlowDisk(f64),
    /// Cross traffic of this share of the rate, on and off for times with this mean.
    OnOff(f64, Nanos),
}

/// A path, what is odd about it, and what is to be moved over it.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Its seed.
    pub seed: u64,
    /// Bits per second.
    pub rate: u64,
    /// Round-trip time of the empty path.
    pub rtt: Nanos,
    /// Bytes that the queue holds.
    pub queue: u64,
    /// The same in bandwidth-delay products, as drawn.
    pub queue_products: f64,
    /// Largest packet, bytes.
    pub mtu: u32,
    /// Bytes to move.
    pub bytes: u64,
    /// What is odd.
    pub quirks: Vec<Quirk>,
    /// Endless TCP flows on the same bottleneck.
    pub neighbours: Vec<Algorithm>,
    /// Who comes first.
    pub order: Order,
    /// Transfers of the same kind beside the first, each a while after the one before; all go on until the
    /// cell ends.
    pub alike: usize,
}

impl Cell {
    /// Time that the object takes at the link's rate.
    pub fn ideal(&self) -> Nanos {
        time_for(self.bytes, self.rate)
    }

    /// Bandwidth-delay product, bytes.
    pub fn product(&self) -> u64 {
        (u128::from(self.rate) * u128::from(self.rtt) / u128::from(8 * SEC)) as u64
    }

    /// Bytes that the link carries from the start of a transfer at `began` until `until`, changes of its rate
    /// counted, and outages not.
    pub fn carries(&self, began: Nanos, until: Nanos) -> f64 {
        let part = |from: Nanos, to: Nanos| to.min(until).saturating_sub(from.max(began)) as f64;
        let at = |share: f64| began + (self.ideal() as f64 * share) as Nanos;
        let more = self.quirks.iter().map(|quirk| match *quirk {
            Quirk::RateStep(factor) => part(at(0.5), until) * (factor - 1.0),
            Quirk::Handover(factor, _) => part(at(1.0 / 3.0), at(2.0 / 3.0)) * (factor - 1.0),
            _ => 0.0,
        });
        let spans = part(began, until) + more.sum::<f64>();
        spans * self.rate as f64 / (8.0 * SEC as f64)
    }

    /// Longest time for which the path itself lets nothing through.
    pub fn own_silence(&self) -> Nanos {
        let silences = self.quirks.iter().map(|quirk| match quirk {
            Quirk::Outage(time) | Quirk::Outages(time, _) | Quirk::Stalls(time, _) => *time,
            _ => 0,
        });
        silences.max().unwrap_or(0)
    }

    /// The path's own share of lost packets.
    pub fn own_loss(&self) -> f64 {
        self.quirks
            .iter()
            .map(|quirk| match quirk {
                Quirk::Loss(share) | Quirk::Bursts(share, _) => *share,
                _ => 0.0,
            })
            .sum()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mbit, ms) = (self.rate as f64 / 1e6, self.rtt as f64 / MS as f64);
        write!(f, "{mbit:.0}M {ms:.1}ms {:.2}BDP {:.0}MB", self.queue_products, self.bytes as f64 / 1e6)?;
        for quirk in &self.quirks {
            write!(f, " {quirk}")?;
        }
        if let Some(first) = self.neighbours.first() {
            let order = match self.order {
                Order::NeighboursFirst => "after",
                Order::NeighboursSecond => "before",
            };
            write!(f, " {order} {}x{}", self.neighbours.len(), first.name())?;
        }
        if self.alike > 0 {
            write!(f, " beside {} alike", self.alike)?;
        }
        Ok(())
    }
}

impl Quirk {
    /// Its kind, as docs/simulator.md lists them; a cell has at most one of each.
    pub fn kind(self) -> &'static str {
        match self {
            Quirk::Red | Quirk::RedMarks | Quirk::CoDel | Quirk::FqCoDel | Quirk::Policer(_) => "queue",
            Quirk::Loss(_) | Quirk::Bursts(..) => "loss",
            Quirk::Jitter(_) | Quirk::Shuffle(_) | Quirk::Late(..) | Quirk::Detour(_) => "order",
            Quirk::Duplication(_) | Quirk::Wireless(_) | Quirk::Turns(_) | Quirk::Cellular(_) => "arrival",
            Quirk::NarrowBack(_) | Quirk::AckLoss(_) | Quirk::BundledAcks(_) => "back",
            Quirk::RateStep(_) | Quirk::RouteChange(_) | Quirk::Outage(_) => "change",
            Quirk::Outages(..) | Quirk::Handover(..) => "change",
            Quirk::Remembered(_) => "memory",
            Quirk::Stalls(..) | Quirk::SlowDisk(_) => "receiver",
            Quirk::OnOff(..) => "cross",
        }
    }
}

impl fmt::Display for Quirk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: &Nanos| *time as f64 / MS as f64;
        match self {
            Quirk::Red => write!(f, "red"),
            Quirk::RedMarks => write!(f, "red-ecn"),
            Quirk::CoDel => write!(f, "codel"),
            Quirk::FqCoDel => write!(f, "fq-codel"),
            Quirk::Policer(share) => write!(f, "policer={share:.2}"),
            Quirk::Loss(share) => write!(f, "loss={:.3}%", share * 100.0),
            Quirk::Bursts(share, len) => write!(f, "bursts={:.3}%x{len:.0}", share * 100.0),
            Quirk::Jitter(most) => write!(f, "jitter={:.2}ms", ms(most)),
            Quirk::Shuffle(sigma) => write!(f, "shuffle={:.2}ms", ms(sigma)),
            Quirk::Late(share, most) => write!(f, "late={:.2}%:{:.2}ms", share * 100.0, ms(most)),
            Quirk::Detour(longer) => write!(f, "detour={:.2}ms", ms(longer)),
            Quirk::Duplication(share) => write!(f, "twice={:.1}%", share * 100.0),
            Quirk::Wireless(most) => write!(f, "wireless={:.1}ms", ms(most)),
            Quirk::Turns(time) => write!(f, "turns={:.1}ms", ms(time)),
            Quirk::Cellular(least) => write!(f, "cellular={least:.2}"),
            Quirk::NarrowBack(factor) => write!(f, "back=1/{factor:.0}"),
            Quirk::AckLoss(share) => write!(f, "ackloss={:.1}%", share * 100.0),
            Quirk::BundledAcks(time) => write!(f, "bundled={:.1}ms", ms(time)),
            Quirk::RateStep(factor) => write!(f, "rate*{factor:.2}"),
            Quirk::RouteChange(factor) => write!(f, "delay*{factor:.2}"),
            Quirk::Outage(time) => write!(f, "outage={:.0}ms", ms(time)),
            Quirk::Outages(time, every) => write!(f, "outages={:.0}/{:.0}ms", ms(time), ms(every)),
            Quirk::Handover(rate, delay) => write!(f, "handover={rate:.2}:{delay:.2}"),
            Quirk::Remembered(share) => write!(f, "remembered={share:.2}"),
            Quirk::Stalls(stop, every) => write!(f, "stalls={:.0}/{:.0}ms", ms(stop), ms(every)),
            Quirk::SlowDisk(share) => write!(f, "disk={share:.2}"),
            Quirk::OnOff(share, mean) => write!(f, "onoff={share:.2}:{:.0}ms", ms(mean)),
        }
    }
}

/// The cell of a seed.
pub fn draw(seed: u64) -> Cell {
    let rng = &mut Rng::stream(seed, STREAM);
    let mut rate = rng.log_uniform(RATES.0, RATES.1) as u64;
    let rtt = (rng.log_uniform(RTTS.0, RTTS.1) * MS as f64) as Nanos;
    let queue_products = rng.log_uniform(QUEUES.0, QUEUES.1);
    let drawn = rng.log_uniform(OBJECTS.0, OBJECTS.1);
    let beside = rng.unit() < BESIDE;
    if beside {
        rate = rate.min(RATE_MAX_BESIDE);
    }
    let jumbo = |rate: u64| if rate >= JUMBO_FROM { 9000 } else { 1500 };
    let mtu: u32 = jumbo(rate);
    let product_max =
        if beside { PACKETS_BESIDE / ROUND_TRIPS_BESIDE } else { PACKETS_MAX / ROUND_TRIPS_MIN };
    let product_max = product_max * u64::from(mtu);
    rate = rate.min((u128::from(product_max) * u128::from(8 * SEC) / u128::from(rtt)) as u64);
    let mtu: u32 = jumbo(rate);
    // Beside neighbours the transfer goes on until the cell ends.
    let bytes = if beside {
        (PACKETS_BESIDE * u64::from(mtu)).min(bytes_in(LASTS_BESIDE, rate))
    } else {
        (drawn as u64).min(PACKETS_MAX * u64::from(mtu)).min(bytes_in(IDEAL_MAX, rate))
    };
    let mut cell = Cell {
        seed,
        rate,
        rtt,
        queue: 0,
        queue_products,
        mtu,
        bytes,
        quirks: Vec::new(),
        neighbours: Vec::new(),
        order: Order::NeighboursFirst,
        alike: 0,
    };
    cell.queue = ((cell.product() as f64 * queue_products) as u64).max(QUEUE_MIN).max(5 * u64::from(mtu));
    let rng = &mut Rng::stream(seed, STREAM + 1);
    cell.quirks = draw_quirks(rng, &cell);
    if beside {
        let rng = &mut Rng::stream(seed, STREAM + 2);
        let algorithm = rng.pick(&[Algorithm::Reno, Algorithm::Cubic, Algorithm::Cubic, Algorithm::Bbr]);
        cell.neighbours = vec![algorithm; rng.log_uniform(1.0, 8.99) as usize];
        cell.order = rng.pick(&[Order::NeighboursFirst, Order::NeighboursSecond]);
    }
    cell
}

/// None to three, each of another kind.
fn draw_quirks(rng: &mut Rng, cell: &Cell) -> Vec<Quirk> {
    let count = rng.pick(&[0, 0, 1, 1, 1, 1, 2, 2, 2, 3]);
    let mut kinds: Vec<fn(&mut Rng, &Cell) -> Quirk> =
        vec![queue, loss, order, arrival, back, change, receiver, cross];
    (0..count).map(|_| kinds.swap_remove(rng.below(kinds.len()))(rng, cell)).collect()
}

fn queue(rng: &mut Rng, _: &Cell) -> Quirk {
    let share = rng.uniform(0.2, 0.95);
    rng.pick(&[Quirk::Red, Quirk::RedMarks, Quirk::CoDel, Quirk::FqCoDel, Quirk::Policer(share)])
}

fn loss(rng: &mut Rng, _: &Cell) -> Quirk {
    let share = rng.log_uniform(1e-5, 0.05);
    let burst = rng.log_uniform(2.0, 100.0);
    rng.pick(&[Quirk::Loss(share), Quirk::Bursts(share, burst)])
}

/// Up to a third of a round trip.
fn order(rng: &mut Rng, cell: &Cell) -> Quirk {
    let share = rng.log_uniform(1e-4, 0.3);
    let time = (rng.log_uniform(0.002, 0.33) * cell.rtt as f64) as Nanos;
    rng.pick(&[Quirk::Jitter(time), Quirk::Late(share, time), Quirk::Detour(time)])
}

fn arrival(rng: &mut Rng, _: &Cell) -> Quirk {
    let share = rng.log_uniform(1e-3, 0.1);
    let jitter = (rng.log_uniform(1.0, 20.0) * MS as f64) as Nanos;
    let least = rng.uniform(0.2, 0.8);
    rng.pick(&[Quirk::Duplication(share), Quirk::Wireless(jitter), Quirk::Cellular(least)])
}

fn back(rng: &mut Rng, _: &Cell) -> Quirk {
    let (factor, share) = (rng.log_uniform(5.0, 50.0), rng.log_uniform(0.001, 0.3));
    rng.pick(&[Quirk::NarrowBack(factor), Quirk::AckLoss(share)])
}

fn change(rng: &mut Rng, _: &Cell) -> Quirk {
    let (rate, delay) = (rng.log_uniform(0.1, 10.0), rng.log_uniform(0.25, 4.0));
    let outage = (rng.log_uniform(0.1, 10.0) * SEC as f64) as Nanos;
    rng.pick(&[Quirk::RateStep(rate), Quirk::RouteChange(delay), Quirk::Outage(outage)])
}

fn receiver(rng: &mut Rng, _: &Cell) -> Quirk {
    let stop = (rng.log_uniform(5.0, 200.0) * MS as f64) as Nanos;
    let every = (rng.log_uniform(3.0, 30.0) * stop as f64) as Nanos;
    let share = rng.uniform(0.2, 1.5);
    rng.pick(&[Quirk::Stalls(stop, every), Quirk::SlowDisk(share)])
}

fn cross(rng: &mut Rng, _: &Cell) -> Quirk {
    let mean = (rng.log_uniform(10.0, 2000.0) * MS as f64) as Nanos;
    Quirk::OnOff(rng.uniform(0.1, 1.0), mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_to_their_distribution_and_differ() {
        let cells: Vec<Cell> = (0..super::super::TRAINING_BELOW).map(draw).collect();
        for cell in &cells {
            assert!((1e6..=4e10).contains(&(cell.rate as f64)), "{cell}");
            let beside = !cell.neighbours.is_empty();
            let (packets, longest) =
                if beside { (PACKETS_BESIDE, LASTS_BESIDE) } else { (PACKETS_MAX, IDEAL_MAX) };
            assert!(cell.bytes <= packets * u64::from(cell.mtu) && cell.ideal() <= longest + MS, "{cell}");
            let product = cell.product() * ROUND_TRIPS_MIN;
            assert!(product <= PACKETS_MAX * 9000 && cell.neighbours.len() <= 8, "{cell}");
            assert!(!beside || cell.ideal() / cell.rtt >= ROUND_TRIPS_BESIDE - 1, "{cell}");
        }
        let share = |what: &dyn Fn(&Cell) -> bool| {
            cells.iter().filter(|cell| what(cell)).count() as f64 / cells.len() as f64
        };
        assert!((0.2..0.3).contains(&share(&|cell| !cell.neighbours.is_empty())));
        assert!((0.1..0.3).contains(&share(&|cell| cell.quirks.is_empty())));
        assert!(share(&|cell| cell.rate > 1_000_000_000) > 0.1);
        assert!(share(&|cell| cell.rtt > 100 * MS) > 0.1);
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7).to_string(), draw(8).to_string());
    }
}
