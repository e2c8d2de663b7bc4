//! A cell's scene.

use super::contestant::Contestant;
use super::draw::{Cell, Order, Quirk};
use crate::flow::Traffic;
use crate::flow::fobs::{FobsConfig, Object};
use crate::flow::source::{Pattern, SourceConfig};
use crate::flow::tcp::TcpConfig;
use crate::link::{Change, Discipline, Faults, GilbertElliott, PolicerConfig};
use crate::rng::{Chance, Rng};
use crate::scene::Scene;
use crate::time::{MS, Nanos, SEC, bytes_in};
use fobs_proto::congestion::{Params, PathHistory};
use std::time::Duration;

/// Stream of what varies within a cell.
const STREAM: u64 = 0x6a17;
/// Multiple of the time at the link's rate after which a cell without neighbours ends, and what is added:
/// slow starts.
const LASTS_FACTOR: u64 = 8;
const LASTS_MORE: Nanos = 60 * SEC;
/// Round trips after which the second of transfer and neighbours begins.
const SECOND_AFTER: u64 = 30;
/// Time between two changes of a cellular rate.
const CELLULAR_EVERY: Nanos = 200 * MS;
/// Most changes and stalls of a cell.
const CHANGES_MAX: u64 = 1000;
/// Most outages of a cell.
const OUTAGES_MAX: u64 = 40;
/// Round trips from the start of a transfer to that of the next one alike.
const ALIKE_AFTER: u64 = 5;

/// The same addition beside neighbours where the transfer is to end: they never end and so cost most.
const LASTS_MORE_BESIDE: Nanos = 10 * SEC;

/// A cell's scene. The transfer is flow 0.
#[derive(Debug, Clone)]
pub struct Staged {
    /// The scene.
    pub scene: Scene,
    /// When the transfer begins.
    pub began: Nanos,
    /// When transfer and neighbours are both there.
    pub meets: Nanos,
    /// When the cell ends.
    pub lasts: Nanos,
}

/// When what happens in a cell.
struct Times {
    ours: Nanos,
    theirs: Nanos,
    lasts: Nanos,
}

/// How long the second waits for the first.
fn second_after(cell: &Cell) -> Nanos {
    (SECOND_AFTER * cell.rtt).clamp(SEC / 2, 3 * SEC)
}

/// The cell with this contestant.
pub(super) fn build(cell: &Cell, who: Contestant, params: &Params) -> Staged {
    let second = second_after(cell);
    let (ours, theirs) = match cell.order {
        _ if cell.neighbours.is_empty() => (0, 0),
        Order::NeighboursFirst => (second, 0),
        Order::NeighboursSecond => (0, second),
    };
    let lasts = if cell.alike > 0 {
        cell.ideal()
    } else if cell.neighbours.is_empty() {
        LASTS_FACTOR * cell.ideal() + LASTS_MORE
    } else {
        ours.max(theirs) + cell.ideal()
    };
    // Beside neighbours the transfer goes on until the end, whatever it had before they came.
    let before = if cell.neighbours.is_empty() { 0 } else { bytes_in(ours.max(theirs), cell.rate) };
    let bytes = cell.bytes + before;
    let transfer = match who {
        Contestant::Fobs(cc) => {
            let config = FobsConfig::new(Object::Bytes(bytes), cc);
            let history = remembered(cell);
            Traffic::Fobs(Box::new(FobsConfig { params: *params, history, ..config }))
        }
        Contestant::Tcp(algorithm) => {
            let bytes = Some(bytes);
            Traffic::Tcp(TcpConfig { bytes, ..TcpConfig::endless(algorithm) })
        }
    };
    set(cell, transfer, &Times { ours, theirs, lasts }, |scene| scene)
}

/// What earlier transfers left of this path.
fn remembered(cell: &Cell) -> PathHistory {
    let share = cell.quirks.iter().find_map(|quirk| match quirk {
        Quirk::Remembered(share) => Some(*share),
        _ => None,
    });
    let mut history = PathHistory::default();
    if let Some(share) = share {
        history.link_rate = Some((cell.rate as f64 * share / 8.0) as u64);
        history.round_trip = Some(Duration::from_nanos(cell.rtt));
    }
    history
}

/// The scene of a cell with this transfer, which lasts until the transfer ends, neighbours or not. `edit`
/// changes its hosts, as those of the flow that was added last.
pub fn stage(cell: &Cell, transfer: Traffic, edit: impl FnOnce(Scene) -> Scene) -> Staged {
    let second = second_after(cell);
    let (ours, theirs) = match cell.order {
        _ if cell.neighbours.is_empty() => (0, 0),
        Order::NeighboursFirst => (second, 0),
        Order::NeighboursSecond => (0, second.min(cell.ideal() / 3)),
    };
    let flows = cell.neighbours.len() as u64 + 1;
    let more = if cell.neighbours.is_empty() { LASTS_MORE } else { LASTS_MORE_BESIDE };
    let lasts = ours + LASTS_FACTOR * flows * cell.ideal() + more;
    set(cell, transfer, &Times { ours, theirs, lasts }, edit)
}

fn set(cell: &Cell, transfer: Traffic, times: &Times, edit: impl FnOnce(Scene) -> Scene) -> Staged {
    let Times { ours, theirs, lasts } = *times;
    let mut scene = Scene::new(cell.rate, cell.rtt).seed(cell.seed).queue(cell.queue).lasts(lasts);
    // Faster than any bottleneck, or the interface would be one.
    scene = scene.interface_rate(cell.rate.saturating_mul(10)).link(|link| link.mtu = cell.mtu);
    scene = scene.flow(transfer.clone());
    // At 1.75 us a packet an ordinary host is the bottleneck from 6.7 Gbit/s on.
    if cell.rate >= 1_000_000_000 {
        scene = scene.between_ideal_hosts();
    }
    scene = scene.starts(ours);
    for quirk in &cell.quirks {
        scene = apply(scene, cell, *quirk, ours);
    }
    scene = edit(scene);
    for algorithm in &cell.neighbours {
        scene = scene.tcp(*algorithm).starts(theirs);
    }
    for turn in 1..=cell.alike as u64 {
        scene = scene.flow(transfer.clone()).starts(ours + turn * ALIKE_AFTER * cell.rtt);
    }
    for quirk in &cell.quirks {
        if let Quirk::OnOff(share, mean) = *quirk {
            let rate = (cell.rate as f64 * share) as u64;
            let pattern = Pattern::OnOff { on: mean, off: mean };
            scene = scene.flow(Traffic::Source(SourceConfig { rate, packet: 1500, pattern }));
        }
    }
    Staged { scene, began: ours, meets: ours.max(theirs), lasts }
}

/// Makes the path odd; the transfer is the flow that was added last.
fn apply(scene: Scene, cell: &Cell, quirk: Quirk, began: Nanos) -> Scene {
    let (rate, queue, middle) = (cell.rate, cell.queue, began + cell.ideal() / 2);
    let faults = |edit: &dyn Fn(&mut Faults)| scene.clone().link(|link| edit(&mut link.faults));
    match quirk {
        Quirk::Red | Quirk::RedMarks => scene.link(|link| {
            link.discipline = Discipline::Red { low: queue / 6, high: queue / 2, probability_max: 0.1 };
            link.ecn = quirk == Quirk::RedMarks;
        }),
        Quirk::CoDel => scene.link(|link| link.discipline = Discipline::CODEL),
        Quirk::FqCoDel => scene.link(|link| link.discipline = Discipline::FQ_CODEL),
        Quirk::Policer(share) => scene.link(|link| {
            let rate = (rate as f64 * share) as u64;
            let depth = queue.max(15_000);
            link.policer = Some(PolicerConfig { rate, depth, refill: 0 });
        }),
        Quirk::Loss(share) => faults(&|faults| faults.loss = Chance::of(share)),
        Quirk::Bursts(share, len) => {
            // In a burst half of the packets are lost.
            let (end, loss) = (1.0 / len, 0.5);
            let begin = Chance::of(end * share / (loss - share).max(0.1));
            let bursts = Some(GilbertElliott { begin, end: Chance::of(end), loss: Chance::of(loss) });
            faults(&|faults| faults.bursts = bursts)
        }
        Quirk::Jitter(most) => faults(&|faults| {
            (faults.reordering, faults.reordering_delay) = (Chance::of(1.0), most);
        }),
        Quirk::Shuffle(sigma) => faults(&|faults| {
            (faults.reordering, faults.reordering_delay) = (Chance::of(1.0), 3 * sigma);
            faults.reordering_deviation = sigma;
        }),
        Quirk::Late(share, most) => faults(&|faults| {
            (faults.reordering, faults.reordering_delay) = (Chance::of(share), most);
        }),
        Quirk::Detour(longer) => faults(&|faults| {
            (faults.detour, faults.detour_delay) = (Chance::of(0.5), longer);
        }),
        Quirk::Duplication(share) => faults(&|faults| faults.duplication = Chance::of(share)),
        Quirk::Wireless(most) => faults(&|faults| faults.jitter = most),
        Quirk::Turns(time) => faults(&|faults| faults.turns = time),
        Quirk::BundledAcks(time) => scene.back(|back| back.faults.turns = time),
        Quirk::NarrowBack(factor) => {
            let rate = ((rate as f64 / factor) as u64).max(64_000);
            // 50 ms of queue, at least ten acks.
            scene.back(|back| (back.rate, back.queue) = (rate, (rate / 160).max(15_000)))
        }
        Quirk::AckLoss(share) => scene.back(|back| back.faults.loss = Chance::of(share)),
        Quirk::RateStep(factor) => scene.change(middle, Change::Rate((rate as f64 * factor) as u64)),
        Quirk::RouteChange(factor) => {
            let delay = (cell.rtt as f64 / 2.0 * factor) as Nanos;
            scene.change(middle, Change::Delay(delay))
        }
        Quirk::Outage(time) => scene.outage(middle, middle + time).ack_outage(middle, middle + time),
        Quirk::Outages(time, between) => {
            let starts = (0..OUTAGES_MAX).map(|turn| began + between + turn * (time + between));
            starts.fold(scene, |scene, at| scene.outage(at, at + time).ack_outage(at, at + time))
        }
        Quirk::Handover(times, longer) => handover(scene, cell, began, (times, longer)),
        Quirk::SlowDisk(share) => scene.with(|flow| {
            flow.receiver.disk.rate = (rate as f64 / 8.0 * share) as u64;
        }),
        Quirk::Cellular(least) => cellular(scene, cell, least),
        Quirk::Stalls(stop, every) => stalls(scene, cell, began, (stop, every)),
        Quirk::OnOff(..) | Quirk::Remembered(_) => scene,
    }
}

fn handover(scene: Scene, cell: &Cell, began: Nanos, (times, longer): (f64, f64)) -> Scene {
    let there = cell.rtt / 2;
    let (rate, delay) = ((cell.rate as f64 * times) as u64, (there as f64 * longer) as Nanos);
    let [first, second] = [1, 2].map(|third| began + cell.ideal() * third / 3);
    let changed = scene.change(first, Change::Rate(rate)).change(first, Change::Delay(delay));
    changed.change(second, Change::Rate(cell.rate)).change(second, Change::Delay(there))
}

fn cellular(mut scene: Scene, cell: &Cell, least: f64) -> Scene {
    let rng = &mut Rng::stream(cell.seed, STREAM);
    for turn in 1..CHANGES_MAX {
        let rate = (cell.rate as f64 * rng.uniform(least, 1.0)) as u64;
        scene = scene.change(turn * CELLULAR_EVERY, Change::Rate(rate));
    }
    scene
}

fn stalls(scene: Scene, cell: &Cell, began: Nanos, (stop, every): (Nanos, Nanos)) -> Scene {
    let rng = &mut Rng::stream(cell.seed, STREAM + 1);
    let mut at = began;
    let stalls = (0..CHANGES_MAX).map(|_| {
        at += rng.range(every / 2, every * 3 / 2);
        let stall = (at, at + stop);
        at += stop;
        stall
    });
    let stalls: Vec<_> = stalls.collect();
    scene.with(|flow| flow.receiver.cpu.stalls = stalls)
}
