//! Random paths, hosts and disturbances, and the same without one of them.

use std::fmt;

use fobs_proto::congestion::CongestionControl;
use fobs_sim::flow::Traffic;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::flow::source::{Pattern, SourceConfig};
use fobs_sim::flow::tcp::Algorithm;
use fobs_sim::link::{Change, PolicerConfig};
use fobs_sim::rng::{Chance, Rng};
use fobs_sim::scene::Scene;
use fobs_sim::time::{MS, Nanos, SEC};

/// Stream of the draws: no actor's.
const STREAM: u64 = 0x6e91;
/// Rates of the link, bits per second; fewer packets than on faster ones, so that a thousand cells with their
/// reliefs can be played.
const RATES: (f64, f64) = (5e6, 1.2e8);
/// Round trips, ms.
const RTTS: (f64, f64) = (4.0, 120.0);
/// Queues, bandwidth-delay products; at least [`QUEUE_MIN`].
const QUEUES: (f64, f64) = (0.3, 3.0);
const QUEUE_MIN: u64 = 30_000;
/// Seconds that an object takes at the link's rate.
const LASTS: (f64, f64) = (2.0, 6.0);
/// After this multiple of that time a cell ends, and this more.
const ENDS_FACTOR: u64 = 20;
const ENDS_MORE: Nanos = 20 * SEC;
/// Factor by which the link is relieved.
const WIDER: u64 = 2;
/// Factor by which the round trip is relieved.
const CLOSER: u64 = 2;

/// Something that may limit a copy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cause {
    Loss(f64),
    /// Bits per second, bytes.
    Policer(u64, u64),
    /// CUBIC flows that never end.
    Neighbours(u32),
    /// Bits per second while on, and the mean time on and off.
    OnOff(u64, Nanos),
    /// Every packet takes up to this much longer, and overtakes.
    Disorder(Nanos),
    /// Bits per second of the way back.
    NarrowBack(u64),
    AckLoss(f64),
    /// Bits per second from this moment on.
    RateStep(Nanos, u64),
    /// A round trip from this moment on.
    DelayStep(Nanos, Nanos),
    /// From when, for how long.
    Outage(Nanos, Nanos),
    /// The receiver stands still so long, in each of so long.
    Stalls(Nanos, Nanos),
    /// The sender does.
    SenderStalls(Nanos, Nanos),
    /// Bytes per second of a disk.
    Destination(u64),
    Source(u64),
    /// Busy processes beside the receiver's threads, and what a packet costs there.
    ReceiverCpu(u32, Nanos),
    SenderCpu(u32, Nanos),
    /// Bytes of the receiver's socket, which stands still for a moment again and again.
    SmallBuffer(u64),
    /// The user's cap, bits per second.
    Cap(u64),
}

/// What is relieved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Relief {
    /// The cause at this place is gone.
    Without(usize),
    WiderLink,
    ShorterRoundTrip,
}

/// A path, what disturbs it, and what is to be copied.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    pub seed: u64,
    pub rate: u64,
    pub rtt: Nanos,
    pub queue: u64,
    pub bytes: u64,
    pub cc: CongestionControl,
    pub causes: Vec<Cause>,
}

impl Cause {
    /// The names that `--explain` has for it.
    pub fn limits(&self) -> &'static [&'static str] {
        match self {
            Cause::Loss(_) => &["random_loss"],
            Cause::Policer(..) => &["policer"],
            Cause::Neighbours(_) | Cause::OnOff(..) => &["competing_traffic"],
            Cause::Disorder(_) => &["reordering"],
            Cause::NarrowBack(_) | Cause::AckLoss(_) => &["return_path"],
            Cause::RateStep(..) | Cause::DelayStep(..) => &["route_change"],
            Cause::Outage(..) => &["outage"],
            Cause::Stalls(..) => &["receiver_paused"],
            Cause::SenderStalls(..) => &["sender_paused"],
            Cause::Destination(_) => &["destination"],
            Cause::Source(_) => &["source"],
            Cause::ReceiverCpu(..) => &["receiver_cpu"],
            Cause::SenderCpu(..) => &["sender_cpu"],
            Cause::SmallBuffer(_) => &["receiver_buffer"],
            Cause::Cap(_) => &["rate_cap"],
        }
    }
}

impl Relief {
    /// The names that `--explain` has for what is relieved.
    pub fn limits(self, cell: &Cell) -> &'static [&'static str] {
        match self {
            Relief::Without(place) => cell.causes[place].limits(),
            Relief::WiderLink => &["narrow_path"],
            Relief::ShorterRoundTrip => &["start_up", "round_trips"],
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mbit, ms) = (self.rate as f64 / 1e6, self.rtt as f64 / MS as f64);
        write!(f, "{mbit:.0}M {ms:.1}ms {:.1}MB {}", self.bytes as f64 / 1e6, self.cc.name())?;
        self.causes.iter().try_for_each(|cause| write!(f, " {cause:?}"))
    }
}

impl Cell {
    /// The cell of a seed.
    pub fn draw(seed: u64) -> Cell {
        let rng = &mut Rng::stream(seed, STREAM);
        let rate = rng.log_uniform(RATES.0, RATES.1) as u64;
        let rtt = (rng.log_uniform(RTTS.0, RTTS.1) * MS as f64) as Nanos;
        let product = rate as f64 / 8.0 * rtt as f64 / SEC as f64;
        let queue = ((product * rng.log_uniform(QUEUES.0, QUEUES.1)) as u64).max(QUEUE_MIN);
        let bytes = (rate as f64 / 8.0 * rng.uniform(LASTS.0, LASTS.1)) as u64;
        let cc = rng.pick(&[CongestionControl::Auto, CongestionControl::Auto, CongestionControl::Cubic]);
        let mut cell = Cell { seed, rate, rtt, queue, bytes, cc, causes: Vec::new() };
        let count = rng.pick(&[0, 1, 1, 1, 1, 2, 2]);
        let mut kinds: Vec<usize> = (0..KINDS.len()).collect();
        for _ in 0..count {
            let kind = KINDS[kinds.swap_remove(rng.below(kinds.len()))];
            cell.causes.push(kind(rng, &cell));
        }
        cell
    }

    /// What can be relieved.
    pub fn reliefs(&self) -> Vec<Relief> {
        let causes = (0..self.causes.len()).map(Relief::Without);
        causes.chain([Relief::WiderLink, Relief::ShorterRoundTrip]).collect()
    }

    /// The same with one thing relieved.
    pub fn relieved(&self, relief: Relief) -> Cell {
        let mut cell = self.clone();
        match relief {
            Relief::Without(place) => drop(cell.causes.remove(place)),
            Relief::WiderLink => cell.rate *= WIDER,
            Relief::ShorterRoundTrip => cell.rtt /= CLOSER,
        }
        cell
    }

    /// The scene; the transfer is flow 0.
    pub fn scene(&self) -> Scene {
        let ideal = fobs_sim::time::time_for(self.bytes, self.rate);
        let interface = self.rate.max(1_000_000_000);
        let mut config = FobsConfig::new(Object::Bytes(self.bytes), self.cc);
        config.rate_limit = self.causes.iter().find_map(|cause| match cause {
            Cause::Cap(rate) => Some(*rate),
            _ => None,
        });
        let mut scene = Scene::new(self.rate, self.rtt)
            .seed(self.seed)
            .queue(self.queue)
            .interface_rate(interface)
            .lasts(ENDS_FACTOR * ideal + ENDS_MORE)
            .fobs(config);
        for cause in &self.causes {
            scene = disturb(scene, *cause, ENDS_FACTOR * ideal + ENDS_MORE);
        }
        for cause in &self.causes {
            match *cause {
                Cause::Neighbours(count) => {
                    for _ in 0..count {
                        scene = scene.tcp(Algorithm::Cubic);
                    }
                }
                Cause::OnOff(rate, mean) => {
                    let pattern = Pattern::OnOff { on: mean, off: mean };
                    scene = scene.flow(Traffic::Source(SourceConfig { rate, packet: 1500, pattern }));
                }
                _ => {}
            }
        }
        scene
    }
}

type Kind = fn(&mut Rng, &Cell) -> Cause;

/// One of each kind of cause, scaled to the link so that about half of them matter.
const KINDS: [Kind; 18] = [
    |rng, _| Cause::Loss(rng.log_uniform(5e-4, 0.03)),
    |rng, cell| Cause::Policer((cell.rate as f64 * rng.uniform(0.15, 0.9)) as u64, rng.range(15_000, 90_000)),
    |rng, _| Cause::Neighbours(rng.range(1, 5) as u32),
    |rng, cell| {
        let rate = (cell.rate as f64 * rng.uniform(0.2, 1.0)) as u64;
        Cause::OnOff(rate, (rng.log_uniform(50.0, 800.0) * MS as f64) as Nanos)
    },
    |rng, cell| Cause::Disorder((cell.rtt as f64 * rng.log_uniform(0.02, 0.4)) as Nanos),
    |rng, cell| Cause::NarrowBack(((cell.rate as f64 / rng.log_uniform(100.0, 2000.0)) as u64).max(20_000)),
    |rng, _| Cause::AckLoss(rng.uniform(0.1, 0.9)),
    |rng, cell| {
        let at = (rng.uniform(0.3, 0.6) * ideal(cell)) as Nanos;
        Cause::RateStep(at, (cell.rate as f64 * rng.log_uniform(0.1, 0.7)) as u64)
    },
    |rng, cell| {
        let at = (rng.uniform(0.3, 0.6) * ideal(cell)) as Nanos;
        Cause::DelayStep(at, (cell.rtt as f64 * rng.uniform(1.5, 5.0)) as Nanos)
    },
    |rng, cell| {
        let at = (rng.uniform(0.2, 0.8) * ideal(cell)) as Nanos;
        Cause::Outage(at, (rng.log_uniform(0.3, 4.0) * SEC as f64) as Nanos)
    },
    |rng, _| {
        let stop = (rng.log_uniform(60.0, 500.0) * MS as f64) as Nanos;
        Cause::Stalls(stop, (stop as f64 * rng.uniform(1.5, 8.0)) as Nanos)
    },
    |rng, _| {
        let stop = (rng.log_uniform(60.0, 500.0) * MS as f64) as Nanos;
        Cause::SenderStalls(stop, (stop as f64 * rng.uniform(1.5, 8.0)) as Nanos)
    },
    |rng, cell| Cause::Destination((cell.rate as f64 / 8.0 * rng.uniform(0.2, 1.3)) as u64),
    |rng, cell| Cause::Source((cell.rate as f64 / 8.0 * rng.uniform(0.2, 1.3)) as u64),
    |rng, cell| Cause::ReceiverCpu(rng.range(3, 9) as u32, cost(rng, cell)),
    |rng, cell| Cause::SenderCpu(rng.range(3, 9) as u32, cost(rng, cell)),
    |rng, _| Cause::SmallBuffer(rng.range(8 << 10, 64 << 10)),
    |rng, cell| Cause::Cap((cell.rate as f64 * rng.uniform(0.15, 1.2)) as u64),
];

fn ideal(cell: &Cell) -> f64 {
    fobs_sim::time::time_for(cell.bytes, cell.rate) as f64
}

/// CPU time of a packet with which a quarter of a core carries a part of the link's rate or all of it.
fn cost(rng: &mut Rng, cell: &Cell) -> Nanos {
    let packets = cell.rate as f64 / 8.0 / 1472.0;
    (SEC as f64 / packets * rng.uniform(0.05, 0.5)) as Nanos
}

fn disturb(scene: Scene, cause: Cause, lasts: Nanos) -> Scene {
    let stalls = |(stop, every): (Nanos, Nanos)| {
        let count = (lasts / every.max(1)).min(1000);
        (1..count).map(move |turn| (turn * every, turn * every + stop)).collect::<Vec<_>>()
    };
    match cause {
        Cause::Loss(share) => scene.link(|link| link.faults.loss = Chance::of(share)),
        Cause::Policer(rate, depth) => {
            scene.link(|link| link.policer = Some(PolicerConfig { rate, depth, refill: 0 }))
        }
        Cause::Disorder(most) => scene.link(|link| {
            (link.faults.reordering, link.faults.reordering_delay) = (Chance::of(1.0), most);
        }),
        // 50 ms of queue, at least ten acks.
        Cause::NarrowBack(rate) => {
            scene.back(|back| (back.rate, back.queue) = (rate, (rate / 160).max(15_000)))
        }
        Cause::AckLoss(share) => scene.back(|back| back.faults.loss = Chance::of(share)),
        Cause::RateStep(at, rate) => scene.change(at, Change::Rate(rate)),
        Cause::DelayStep(at, rtt) => scene.change(at, Change::Delay(rtt / 2)),
        Cause::Outage(at, length) => scene.outage(at, at + length).ack_outage(at, at + length),
        Cause::Stalls(stop, every) => scene.with(|flow| flow.receiver.cpu.stalls = stalls((stop, every))),
        Cause::SenderStalls(stop, every) => scene.with(|flow| flow.sender.cpu.stalls = stalls((stop, every))),
        Cause::Destination(rate) => scene.with(|flow| flow.receiver.disk.rate = rate),
        Cause::Source(rate) => scene.with(|flow| flow.sender.disk.rate = rate),
        Cause::ReceiverCpu(competitors, cost) => scene.with(|flow| {
            (flow.receiver.cpu.competitors, flow.receiver.packet_cost) = (competitors, cost);
        }),
        Cause::SenderCpu(competitors, cost) => scene.with(|flow| {
            (flow.sender.cpu.competitors, flow.sender.packet_cost) = (competitors, cost);
        }),
        Cause::SmallBuffer(bytes) => scene.with(|flow| {
            flow.receiver.receive_buffer = bytes;
            // Short pauses, as on every shared host: without them any buffer is large enough.
            flow.receiver.cpu.stalls = stalls((6 * MS, 45 * MS));
        }),
        Cause::Neighbours(_) | Cause::OnOff(..) | Cause::Cap(_) => scene,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_those_of_their_seed_and_have_every_cause() {
        assert_eq!(Cell::draw(7), Cell::draw(7));
        let cells: Vec<Cell> = (0..400).map(Cell::draw).collect();
        let seen: std::collections::BTreeSet<_> =
            cells.iter().flat_map(|cell| &cell.causes).map(Cause::limits).collect();
        assert_eq!(seen.len(), 15, "{seen:?}");
        for cell in &cells {
            assert!(cell.bytes <= 90_000_000 && cell.causes.len() <= 2, "{cell}");
            assert_eq!(cell.reliefs().len(), cell.causes.len() + 2);
        }
    }
}
