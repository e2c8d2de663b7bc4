//! A cell at work.

use super::draw::{Cell, Order, Quirk};
use crate::flow::fobs::{FobsConfig, Object};
use crate::flow::source::{Pattern, SourceConfig};
use crate::flow::tcp::{Algorithm, TcpConfig};
use crate::flow::{Outcome, Traffic};
use crate::link::{Change, Discipline, Faults, GilbertElliott, PolicerConfig};
use crate::report::{mbit, span};
use crate::rng::{Chance, Rng};
use crate::scene::{Played, Scene};
use crate::time::{MS, Nanos, SEC};
use fobs_proto::congestion::{CongestionControl, Params};

/// Stream of what varies within a cell.
const STREAM: u64 = 0x6a17;
/// Multiple of the time at the link's rate after which a cell ends, and what is added: slow starts.
const LASTS_FACTOR: u64 = 8;
const LASTS_MORE: Nanos = 60 * SEC;
/// The same addition beside neighbours, which never end and so cost most.
const LASTS_MORE_BESIDE: Nanos = 10 * SEC;
/// Round trips after which the second of transfer and neighbours begins.
const SECOND_AFTER: u64 = 30;
/// Time between two changes of a cellular rate.
const CELLULAR_EVERY: Nanos = 200 * MS;
/// Most changes and stalls of a cell.
const CHANGES_MAX: u64 = 1000;
/// Bytes at whose arrival the first byte counts as there; looked at this often in a round trip.
const LOOKS: u64 = 4;
/// Most looks for the first byte.
const LOOKS_MAX: u64 = 400;

/// What plays a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contestant {
    /// A FOBS transfer.
    Fobs(CongestionControl),
    /// A TCP transfer, by a model.
    Tcp(Algorithm),
}

impl Contestant {
    /// Its name.
    pub fn name(self) -> String {
        match self {
            Contestant::Fobs(cc) => cc.name().to_owned(),
            Contestant::Tcp(algorithm) => format!("tcp-{}", algorithm.name()),
        }
    }
}

/// Rates while transfer and neighbours were both there, Mbit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beside {
    /// The transfer's.
    pub own: f64,
    /// Of the mean neighbour.
    pub neighbour: f64,
}

/// What came of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcomes {
    /// How the transfer ended; a broken rule names itself.
    pub end: String,
    /// Whether everything arrived.
    pub complete: bool,
    /// Useful bits per second, in millions, from the first packet to the last useful byte.
    pub goodput: f64,
    /// Seconds that it took.
    pub seconds: f64,
    /// Milliseconds from the start to the first useful byte.
    pub first_byte_ms: f64,
    /// Packets sent beyond those needed, as a share of these.
    pub waste: f64,
    /// The same without what the path itself lost.
    pub excess: f64,
    /// Delay in the bottleneck's queue that 95% of the packets stayed below, ms.
    pub queue_ms: f64,
    /// Beside neighbours.
    pub beside: Option<Beside>,
}

/// Plays a cell.
pub fn play(cell: &Cell, who: Contestant) -> Outcomes {
    play_tuned(cell, who, &Params::default())
}

/// Plays a cell with other numbers of `auto`.
pub fn play_tuned(cell: &Cell, who: Contestant, params: &Params) -> Outcomes {
    let staged = stage(cell, traffic(cell, who, params), |scene| scene);
    let Staged { scene, began, meets, lasts } = staged;
    let mut played = scene.start();
    match measure(cell, &mut played, began, meets, lasts) {
        Ok(outcomes) => outcomes,
        Err(broken) => Outcomes {
            end: broken,
            complete: false,
            goodput: 0.0,
            seconds: 0.0,
            first_byte_ms: 0.0,
            waste: 0.0,
            excess: 0.0,
            queue_ms: 0.0,
            beside: None,
        },
    }
}

fn measure(
    cell: &Cell,
    played: &mut Played,
    began: Nanos,
    meet: Nanos,
    lasts: Nanos,
) -> Result<Outcomes, String> {
    let run = |played: &mut Played, until: Nanos| {
        played.world.run_until(until).map(|_| ()).map_err(|violation| format!("broken rule: {violation}"))
    };
    run(played, began)?;
    let mut first_byte = lasts;
    for look in 1..=LOOKS_MAX {
        run(played, began + look * (cell.rtt / LOOKS).max(MS / 4))?;
        if played.flow(0).figures.delivered > 0 || !played.flow(0).outcome.is_running() {
            first_byte = played.world.now();
            break;
        }
    }
    let mut before = Vec::new();
    if !cell.neighbours.is_empty() && played.flow(0).outcome.is_running() {
        run(played, meet.max(played.world.now()))?;
        before = played.delivered();
    }
    let met = played.world.now();
    run(played, lasts)?;
    let (view, now) = (played.flow(0), played.world.now());
    let took = span(&view.figures, view.outcome, now);
    let link = played.bottleneck();
    let waste = view.figures.waste();
    let needed = view.figures.sent.saturating_sub(view.figures.repeated).max(1) as f64;
    let own = if cell.neighbours.is_empty() {
        link.stats.lost as f64 / needed
    } else {
        cell.own_loss() / (1.0 - cell.own_loss())
    };
    let after = played.delivered();
    let beside = (!before.is_empty() && now > met).then(|| {
        let rate = |id: usize| mbit(after[id] - before[id], now - met);
        let count = cell.neighbours.len();
        Beside { own: rate(0), neighbour: (1..=count).map(rate).sum::<f64>() / count as f64 }
    });
    Ok(Outcomes {
        end: view.outcome.word().to_owned(),
        complete: view.outcome == Outcome::Complete,
        goodput: mbit(view.figures.delivered, took),
        seconds: took as f64 / SEC as f64,
        first_byte_ms: (first_byte - began) as f64 / MS as f64,
        waste,
        excess: (waste - own).max(0.0),
        queue_ms: link.queue_delay.1 as f64 / MS as f64,
        beside,
    })
}

/// A cell's scene. The transfer is flow 0.
#[derive(Debug, Clone)]
pub struct Staged {
    /// The scene.
    pub scene: Scene,
    /// When the transfer begins.
    pub began: Nanos,
    /// When it meets its neighbours.
    pub meets: Nanos,
    /// When the cell ends.
    pub lasts: Nanos,
}

/// A contestant's transfer of a cell's object.
fn traffic(cell: &Cell, who: Contestant, params: &Params) -> Traffic {
    match who {
        Contestant::Fobs(cc) => {
            let config = FobsConfig::new(Object::Bytes(cell.bytes), cc);
            Traffic::Fobs(Box::new(FobsConfig { params: *params, ..config }))
        }
        Contestant::Tcp(algorithm) => {
            let bytes = Some(cell.bytes);
            Traffic::Tcp(TcpConfig { bytes, ..TcpConfig::endless(algorithm) })
        }
    }
}

/// The scene of a cell with this transfer; `edit` changes its hosts, as those of the flow that was added
/// last.
pub fn stage(cell: &Cell, transfer: Traffic, edit: impl FnOnce(Scene) -> Scene) -> Staged {
    let second = (SECOND_AFTER * cell.rtt).clamp(SEC / 2, 3 * SEC);
    let (ours, theirs) = match cell.order {
        _ if cell.neighbours.is_empty() => (0, 0),
        Order::NeighboursFirst => (second, 0),
        Order::NeighboursSecond => (0, second.min(cell.ideal() / 3)),
    };
    let flows = cell.neighbours.len() as u64 + 1;
    let more = if cell.neighbours.is_empty() { LASTS_MORE } else { LASTS_MORE_BESIDE };
    let lasts = ours + LASTS_FACTOR * flows * cell.ideal() + more;
    let mut scene = Scene::new(cell.rate, cell.rtt).seed(cell.seed).queue(cell.queue).lasts(lasts);
    // Faster than any bottleneck, or the interface would be one.
    scene = scene.interface_rate(cell.rate.saturating_mul(10)).link(|link| link.mtu = cell.mtu);
    scene = scene.flow(transfer);
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
        Quirk::Late(share, most) => faults(&|faults| {
            (faults.reordering, faults.reordering_delay) = (Chance::of(share), most);
        }),
        Quirk::Detour(longer) => faults(&|faults| {
            (faults.detour, faults.detour_delay) = (Chance::of(0.5), longer);
        }),
        Quirk::Duplication(share) => faults(&|faults| faults.duplication = Chance::of(share)),
        Quirk::Wireless(most) => faults(&|faults| faults.jitter = most),
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
        Quirk::SlowDisk(share) => scene.with(|flow| {
            flow.receiver.disk.rate = (rate as f64 / 8.0 * share) as u64;
        }),
        Quirk::Cellular(least) => cellular(scene, cell, least),
        Quirk::Stalls(stop, every) => stalls(scene, cell, began, (stop, every)),
        Quirk::OnOff(..) => scene,
    }
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

#[cfg(test)]
mod tests {
    use super::super::draw;
    use super::*;

    #[test]
    fn a_cell_is_the_same_whenever_it_is_played() {
        let cell = Cell { bytes: 1_000_000, ..draw(3) };
        let who = Contestant::Fobs(CongestionControl::Auto);
        assert_eq!(play(&cell, who), play(&cell, who));
    }

    #[test]
    fn a_clean_cell_is_filled_and_a_lossy_one_excuses_its_loss() {
        let mut cell = Cell {
            rate: 50_000_000,
            rtt: 30 * MS,
            queue: 187_500,
            bytes: 20_000_000,
            quirks: Vec::new(),
            neighbours: Vec::new(),
            ..draw(1)
        };
        let who = Contestant::Fobs(CongestionControl::Auto);
        let clean = play(&cell, who);
        assert!(clean.complete && clean.goodput > 35.0 && clean.excess < 0.01, "{clean:?}");
        assert!((15.0..200.0).contains(&clean.first_byte_ms), "{clean:?}");
        cell.quirks = vec![Quirk::Loss(0.02)];
        let lossy = play(&cell, who);
        assert!(lossy.waste > 0.01 && lossy.excess < 0.01, "{lossy:?}");
        cell.neighbours = vec![Algorithm::Cubic];
        let beside = play(&cell, who).beside.expect("both were there");
        assert!(beside.own > 1.0 && beside.neighbour > 0.1, "{beside:?}");
    }
}
