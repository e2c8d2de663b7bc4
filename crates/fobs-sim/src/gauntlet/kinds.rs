//! Kinds of paths that the gauntlet's distribution seldom or never draws: each the scene that a rule of
//! `auto` was made for, or that it was found weak on.

use super::draw::{Cell, Order, Quirk, draw};
use crate::flow::tcp::Algorithm;
use crate::rng::Rng;
use crate::time::{MS, Nanos, SEC, bytes_in};

/// Stream of the draws.
const STREAM: u64 = 0x6a27;
/// Packets of an object at most, so that hundreds of cells can be played.
const PACKETS_MAX: u64 = 120_000;
/// Full packets that a queue holds at least.
const QUEUE_MIN: u64 = 20;
/// Bytes of a packet.
const PACKET: u64 = 1500;
/// Flows of the kind `eight`.
const EIGHT: usize = 8;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $name:ident $text:literal,)+) => {
        /// A kind of path.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Kind] = &[$(Kind::$name),+];

            /// As the command line spells it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$name => $text,)+
                }
            }
        }
    };
}

kinds! {
    /// Every packet is late, normally distributed with a deviation of 0.2 to 20 ms, at 5 to 1,000 Mbit/s.
    Shuffled "shuffled",
    /// Packets are held up in order, for up to 1 to 50 ms each or once in that time.
    Held "held",
    /// An outage of 0.2 to 10 s.
    Outage "outage",
    /// Outages of 0.2 to 3 s, again and again.
    Outages "outages",
    /// Rate and base delay change together, and change back.
    Handover "handover",
    /// The path is remembered, by a tenth to three times its rate.
    Resumed "resumed",
    /// A way back that lets acks pass once in 2 to 50 ms.
    Bundled "bundled",
    /// Eight flows of the same kind at 200 ms.
    Eight "eight",
    /// Bursts at 0.3 to 1 Gbit/s that take the whole link half of the time.
    Bursts "bursts",
    /// The first flight into a queue of 10 to 100 packets.
    FirstFlight "first-flight",
    /// One CUBIC flow on a quarter to four bandwidth-delay products, before or after the transfer.
    BesideCubic "beside-cubic",
    /// Nothing is odd.
    Plain "plain",
}

/// The cell of a kind and a seed.
pub fn draw_kind(kind: Kind, seed: u64) -> Cell {
    let rng = &mut Rng::stream(seed, STREAM + kind as u64);
    let mbit = |rng: &mut Rng, low: f64, high: f64| (rng.log_uniform(low, high) * 1e6) as u64;
    let ms = |rng: &mut Rng, low: f64, high: f64| (rng.log_uniform(low, high) * MS as f64) as Nanos;
    let rate = match kind {
        Kind::Eight => mbit(rng, 50.0, 500.0),
        Kind::Bursts => mbit(rng, 300.0, 1000.0),
        Kind::FirstFlight => mbit(rng, 20.0, 500.0),
        Kind::BesideCubic => mbit(rng, 20.0, 200.0),
        _ => mbit(rng, 5.0, 1000.0),
    };
    let rtt = match kind {
        Kind::Eight => 200 * MS,
        Kind::Bursts => ms(rng, 20.0, 100.0),
        _ => ms(rng, 8.0, 150.0),
    };
    let queue_products = match kind {
        Kind::FirstFlight => 0.1,
        Kind::Bursts | Kind::Eight => 1.0,
        _ => rng.log_uniform(0.3, 4.0),
    };
    let lasts = match kind {
        Kind::Eight | Kind::BesideCubic => 40 * SEC,
        Kind::Outage => 20 * SEC,
        Kind::Outages => 15 * SEC,
        Kind::FirstFlight => 2 * SEC,
        _ => 8 * SEC,
    };
    let most = if kind == Kind::Eight { u64::MAX } else { PACKETS_MAX * PACKET };
    let mut cell = Cell {
        rate,
        rtt,
        queue: 0,
        queue_products,
        mtu: PACKET as u32,
        bytes: bytes_in(lasts, rate).min(most),
        quirks: Vec::new(),
        neighbours: Vec::new(),
        order: Order::NeighboursFirst,
        alike: 0,
        ..draw(seed)
    };
    cell.queue = ((cell.product() as f64 * queue_products) as u64).max(QUEUE_MIN * PACKET);
    furnish(&mut cell, kind, rng);
    cell
}

/// What makes the cell one of its kind.
fn furnish(cell: &mut Cell, kind: Kind, rng: &mut Rng) {
    let ms = |rng: &mut Rng, low: f64, high: f64| (rng.log_uniform(low, high) * MS as f64) as Nanos;
    let quirk = match kind {
        Kind::Shuffled => Quirk::Shuffle(ms(rng, 0.2, 20.0)),
        Kind::Held => {
            let time = ms(rng, 1.0, 50.0);
            rng.pick(&[Quirk::Wireless(time), Quirk::Turns(time)])
        }
        Kind::Outage => Quirk::Outage(ms(rng, 200.0, 10_000.0)),
        Kind::Outages => Quirk::Outages(ms(rng, 200.0, 3_000.0), ms(rng, 2_000.0, 6_000.0)),
        Kind::Handover => Quirk::Handover(rng.log_uniform(0.2, 5.0), rng.log_uniform(0.33, 3.0)),
        Kind::Resumed => Quirk::Remembered(rng.log_uniform(0.1, 3.0)),
        Kind::Bundled => Quirk::BundledAcks(ms(rng, 2.0, 50.0)),
        Kind::Bursts => Quirk::OnOff(1.0, ms(rng, 50.0, 200.0)),
        Kind::FirstFlight => {
            cell.queue = PACKET * rng.log_uniform(10.0, 100.0) as u64;
            cell.queue_products = cell.queue as f64 / cell.product() as f64;
            return;
        }
        Kind::Eight => {
            cell.alike = EIGHT - 1;
            return;
        }
        Kind::BesideCubic => {
            cell.neighbours = vec![Algorithm::Cubic];
            cell.order = rng.pick(&[Order::NeighboursFirst, Order::NeighboursSecond]);
            return;
        }
        Kind::Plain => return,
    };
    cell.quirks.push(quirk);
    if kind == Kind::Resumed && rng.unit() < 0.5 {
        cell.quirks.push(Quirk::Loss(rng.log_uniform(1e-4, 5e-3)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_bounded_and_its_cells_differ() {
        for &kind in Kind::ALL {
            for seed in 0..50 {
                let cell = draw_kind(kind, seed);
                assert!((5e6..=1e9).contains(&(cell.rate as f64)), "{}: {cell}", kind.name());
                assert!(cell.queue >= 10 * PACKET && cell.ideal() <= 41 * SEC, "{}: {cell}", kind.name());
            }
            assert_eq!(draw_kind(kind, 7), draw_kind(kind, 7));
            assert_ne!(draw_kind(kind, 7).to_string(), draw_kind(kind, 8).to_string());
        }
    }
}
