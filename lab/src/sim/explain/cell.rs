//! A cell of the gauntlet with hosts that may limit as well, and the same with one thing relieved.
//!
//! Path, disturbances, neighbours and object are those of the gauntlet (docs/simulator.md), at a rate at
//! which its largest object lasts for some seconds: shorter copies have no course to explain. The gauntlet's
//! hosts are ordinary ones, so a part of the cells is drawn a slow source, a starved CPU, a small buffer or a
//! cap.

use std::fmt;

use fobs_proto::congestion::CongestionControl;
use fobs_sim::flow::Traffic;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::gauntlet::{self, PACKETS_MAX, Quirk, Staged, stage};
use fobs_sim::rng::Rng;
use fobs_sim::scene::Scene;
use fobs_sim::time::{MS, Nanos, SEC};

/// Stream of the draws: no actor's.
const STREAM: u64 = 0x6e91;
/// Shortest time that an object takes at the link's rate. The gauntlet bounds the packets of an object, so
/// this bounds the rate.
const LASTS_MIN: Nanos = 2 * SEC;
/// Bytes of a packet.
const PACKET: u64 = 1500;
/// Factor by which an amount is relieved: rate of the link, round trip.
const RELIEF: f64 = 2.0;
/// Bandwidth-delay products of a queue that is long enough for any controller.
const QUEUE_LONG: u64 = 4;
/// A buffer that holds all that arrives in any of the drawn pauses, bytes.
const AMPLE_BUFFER: u64 = 4 << 20;
/// Short pauses of a receiver with a small buffer, as on every shared host: without them any is large enough.
const PAUSES: (Nanos, Nanos) = (6 * MS, 45 * MS);
/// Most pauses of a cell.
const PAUSES_MAX: u64 = 2000;
/// How many causes a cell's hosts have.
const HOST_CAUSES: [usize; 5] = [0, 0, 0, 1, 1];

/// What a host does to a copy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HostCause {
    /// Bytes per second of the source.
    Source(u64),
    /// Busy processes beside an end's threads, and what a packet costs there.
    SenderCpu(u32, Nanos),
    ReceiverCpu(u32, Nanos),
    /// The sender stands still so long, in each of so long.
    SenderStalls(Nanos, Nanos),
    /// Bytes of the receiver's socket, which stands still for a moment again and again.
    Buffer(u64),
    /// The user's cap, bits per second.
    Cap(u64),
}

/// What is relieved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Relief {
    /// The disturbance of the path at this place is gone.
    Path(usize),
    /// The cause at this place of the hosts is.
    Host(usize),
    /// The flows beside are.
    Alone,
    WiderLink,
    LongerQueue,
    ShorterRoundTrip,
}

/// A path, its ends, and what is to be copied.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    pub path: gauntlet::Cell,
    pub cc: CongestionControl,
    pub hosts: Vec<HostCause>,
}

/// The names that `--explain` has for a disturbance of the path; none for one that no limit stands for.
fn limits_of(quirk: &Quirk) -> &'static [&'static str] {
    match quirk {
        // How a bottleneck drops is a part of it.
        Quirk::Red | Quirk::RedMarks | Quirk::CoDel | Quirk::FqCoDel | Quirk::Cellular(_) => &["narrow_path"],
        Quirk::Policer(_) => &["policer"],
        Quirk::Loss(_) | Quirk::Bursts(..) => &["random_loss"],
        Quirk::Jitter(_) | Quirk::Shuffle(_) | Quirk::Late(..) | Quirk::Detour(_) => &["reordering"],
        Quirk::Duplication(_) | Quirk::Wireless(_) | Quirk::Turns(_) | Quirk::Remembered(_) => &[],
        Quirk::NarrowBack(_) | Quirk::AckLoss(_) | Quirk::BundledAcks(_) => &["return_path"],
        Quirk::RateStep(_) | Quirk::RouteChange(_) | Quirk::Handover(..) => &["route_change"],
        Quirk::Outage(_) | Quirk::Outages(..) => &["outage"],
        Quirk::Stalls(..) => &["receiver_paused"],
        Quirk::SlowDisk(_) => &["destination"],
        Quirk::OnOff(..) => &["competing_traffic"],
    }
}

impl Relief {
    /// The names that `--explain` has for what is relieved.
    pub fn limits(self, cell: &Cell) -> &'static [&'static str] {
        match self {
            Relief::Path(place) => limits_of(&cell.path.quirks[place]),
            Relief::Host(place) => match cell.hosts[place] {
                HostCause::Source(_) => &["source"],
                HostCause::SenderCpu(..) => &["sender_cpu"],
                HostCause::ReceiverCpu(..) => &["receiver_cpu"],
                HostCause::SenderStalls(..) => &["sender_paused"],
                HostCause::Buffer(_) => &["receiver_buffer"],
                HostCause::Cap(_) => &["rate_cap"],
            },
            Relief::Alone => &["competing_traffic"],
            Relief::WiderLink => &["narrow_path"],
            // A queue that is too short for bursts drops at rates that the link would carry.
            Relief::LongerQueue => &["narrow_path", "random_loss"],
            Relief::ShorterRoundTrip => &["start_up", "round_trips"],
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, self.cc.name())?;
        self.hosts.iter().try_for_each(|cause| write!(f, " {cause:?}"))
    }
}

impl Cell {
    /// The cell of a seed.
    pub fn draw(seed: u64) -> Cell {
        let mut path = gauntlet::draw(seed);
        let depth = path.queue as f64 / path.product().max(1) as f64;
        path.rate = slower(path.rate);
        path.mtu = PACKET as u32;
        path.bytes = path.bytes.clamp(bytes_in(LASTS_MIN, path.rate), PACKETS_MAX * PACKET);
        path.queue = ((path.product() as f64 * depth) as u64).max(5 * PACKET);
        let rng = &mut Rng::stream(seed, STREAM);
        let cc = rng.pick(&[CongestionControl::Auto, CongestionControl::Auto, CongestionControl::Cubic]);
        let mut kinds: Vec<usize> = (0..KINDS.len()).collect();
        let hosts = (0..rng.pick(&HOST_CAUSES))
            .map(|_| KINDS[kinds.swap_remove(rng.below(kinds.len()))](rng, path.rate))
            .collect();
        Cell { path, cc, hosts }
    }

    /// With what a relief is compared: the cell as it is; for the link's rate, which a wider link would give
    /// to the others as well, the cell without them. So others are the limit where they take more of the
    /// bottleneck than the copy does.
    pub fn compared(&self, relief: Relief) -> Option<Cell> {
        let mut alone = self.clone();
        alone.path.neighbours.clear();
        alone.path.quirks.retain(|quirk| !matches!(quirk, Quirk::OnOff(..)));
        (relief == Relief::WiderLink && alone != *self).then_some(alone)
    }

    /// What can be relieved.
    pub fn reliefs(&self) -> Vec<Relief> {
        let path = (0..self.path.quirks.len()).map(Relief::Path);
        let hosts = (0..self.hosts.len()).map(Relief::Host);
        let alone = (!self.path.neighbours.is_empty()).then_some(Relief::Alone);
        let amounts = [Relief::WiderLink, Relief::LongerQueue, Relief::ShorterRoundTrip];
        path.chain(hosts).chain(alone).chain(amounts).collect()
    }

    /// The same with one thing relieved, and all else as it was.
    pub fn relieved(&self, relief: Relief) -> Cell {
        let mut cell = self.clone();
        match relief {
            Relief::Path(place) => drop(cell.path.quirks.remove(place)),
            Relief::Host(place) => match cell.hosts[place] {
                HostCause::Buffer(_) => cell.hosts[place] = HostCause::Buffer(AMPLE_BUFFER),
                _ => drop(cell.hosts.remove(place)),
            },
            Relief::Alone => cell.path.neighbours.clear(),
            Relief::WiderLink => {
                cell.path.rate = (cell.path.rate as f64 * RELIEF) as u64;
                cell.path.quirks.iter_mut().for_each(keep_rate);
            }
            Relief::LongerQueue => {
                cell.path.queue = cell.path.queue.max(QUEUE_LONG * cell.path.product());
            }
            Relief::ShorterRoundTrip => cell.path.rtt = (cell.path.rtt as f64 / RELIEF) as Nanos,
        }
        cell
    }

    /// The user's cap, bits per second.
    pub fn cap(&self) -> Option<u64> {
        self.hosts.iter().find_map(|cause| match cause {
            HostCause::Cap(rate) => Some(*rate),
            _ => None,
        })
    }

    /// The scene; the transfer is flow 0.
    pub fn scene(&self) -> Staged {
        let mut config = FobsConfig::new(Object::Bytes(self.path.bytes), self.cc);
        config.rate_limit = self.cap();
        let hosts = |scene: Scene| self.hosts.iter().fold(scene, |scene, cause| burden(scene, *cause));
        stage(&self.path, Traffic::Fobs(Box::new(config)), hosts)
    }
}

/// A rate of the gauntlet brought into the range in which the largest object lasts long enough, in the same
/// order.
fn slower(rate: u64) -> u64 {
    let (least, most) = gauntlet::RATES;
    let own = (PACKETS_MAX * PACKET * 8 * SEC / LASTS_MIN) as f64;
    let place = (rate as f64 / least).ln() / (most / least).ln();
    (least * (own / least).powf(place.clamp(0.0, 1.0))) as u64
}

/// Bytes that pass at a rate of bits per second.
fn bytes_in(time: Nanos, rate: u64) -> u64 {
    (u128::from(rate) * u128::from(time) / u128::from(8 * SEC)) as u64
}

/// What is drawn as a share of the link's rate, and is no part of the link, stays as it was beside a wider
/// one.
fn keep_rate(quirk: &mut Quirk) {
    match quirk {
        Quirk::Policer(share) | Quirk::SlowDisk(share) | Quirk::OnOff(share, _) | Quirk::RateStep(share) => {
            *share /= RELIEF;
        }
        Quirk::NarrowBack(factor) => *factor *= RELIEF,
        _ => {}
    }
}

type Kind = fn(&mut Rng, u64) -> HostCause;

/// One of each kind of cause, scaled to the link so that about half of them matter.
const KINDS: [Kind; 6] = [
    |rng, rate| HostCause::Source((rate as f64 / 8.0 * rng.uniform(0.2, 1.3)) as u64),
    |rng, rate| HostCause::SenderCpu(rng.range(3, 9) as u32, cost(rng, rate)),
    |rng, rate| HostCause::ReceiverCpu(rng.range(3, 9) as u32, cost(rng, rate)),
    |rng, _| {
        let stop = (rng.log_uniform(60.0, 500.0) * MS as f64) as Nanos;
        HostCause::SenderStalls(stop, (stop as f64 * rng.uniform(1.5, 8.0)) as Nanos)
    },
    |rng, _| HostCause::Buffer(rng.range(8 << 10, 64 << 10)),
    |rng, rate| HostCause::Cap((rate as f64 * rng.uniform(0.15, 1.2)) as u64),
];

/// CPU time of a packet with which a quarter of a core carries a part of the link's rate or all of it.
fn cost(rng: &mut Rng, rate: u64) -> Nanos {
    let packets = rate as f64 / 8.0 / PACKET as f64;
    (SEC as f64 / packets * rng.uniform(0.05, 0.5)) as Nanos
}

/// Stops of equal length from the beginning on.
fn stops((stop, every): (Nanos, Nanos)) -> impl Iterator<Item = (Nanos, Nanos)> {
    (1..PAUSES_MAX).map(move |turn| (turn * every, turn * every + stop))
}

/// Gives a cause to the hosts of the flow that was added last.
fn burden(scene: Scene, cause: HostCause) -> Scene {
    scene.with(|flow| match cause {
        HostCause::Source(rate) => flow.sender.disk.rate = rate,
        HostCause::SenderCpu(competitors, cost) => {
            (flow.sender.cpu.competitors, flow.sender.packet_cost) = (competitors, cost);
        }
        HostCause::ReceiverCpu(competitors, cost) => {
            (flow.receiver.cpu.competitors, flow.receiver.packet_cost) = (competitors, cost);
        }
        HostCause::SenderStalls(stop, every) => flow.sender.cpu.stalls = stops((stop, every)).collect(),
        HostCause::Buffer(bytes) => {
            flow.receiver.receive_buffer = bytes;
            let stalls = &mut flow.receiver.cpu.stalls;
            // A receiver that the path's own draw stops is away often enough.
            if stalls.is_empty() {
                stalls.extend(stops(PAUSES));
            }
        }
        HostCause::Cap(_) => {}
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_those_of_their_seed_and_have_every_cause() {
        assert_eq!(Cell::draw(7), Cell::draw(7));
        let cells: Vec<Cell> = (0..600).map(Cell::draw).collect();
        let seen: std::collections::BTreeSet<_> = cells
            .iter()
            .flat_map(|cell| cell.reliefs().into_iter().flat_map(|relief| relief.limits(cell).to_vec()))
            .collect();
        assert_eq!(seen.len(), 18, "{seen:?}");
        for cell in &cells {
            assert!(cell.path.bytes <= PACKETS_MAX * PACKET && cell.path.ideal() >= LASTS_MIN / 2, "{cell}");
            let causes = cell.path.quirks.len() + cell.hosts.len();
            assert!((causes + 3..=causes + 4).contains(&cell.reliefs().len()), "{cell}");
        }
    }

    #[test]
    fn a_wider_link_leaves_what_is_no_part_of_it_as_it_was() {
        let mut cell = Cell::draw(1);
        cell.path.quirks = vec![Quirk::Policer(0.5), Quirk::NarrowBack(10.0)];
        let wider = cell.relieved(Relief::WiderLink);
        assert_eq!(wider.path.rate, 2 * cell.path.rate);
        assert_eq!(wider.path.quirks, vec![Quirk::Policer(0.25), Quirk::NarrowBack(20.0)]);
    }
}
