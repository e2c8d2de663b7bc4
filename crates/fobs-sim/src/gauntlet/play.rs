//! A cell at work, and what is measured of it.

use super::build::{Staged, build};
use super::contestant::Contestant;
use super::draw::Cell;
use crate::flow::Outcome;
use crate::report::{jain, mbit, span};
use crate::scene::Played;
use crate::time::{MS, Nanos, SEC};
use fobs_proto::congestion::Params;

/// Looks in a round trip for the first byte, and at most.
const LOOKS: u64 = 4;
const LOOKS_MAX: u64 = 400;
/// Shortest time between two looks for progress, and parts of the cell's time that it has at least: coarser
/// than any pause that a user would notice, and few enough to cost nothing.
const PROGRESS_EVERY: Nanos = 10 * MS;
const PROGRESS_LOOKS: u64 = 20_000;
/// Bytes of a packet of a source without feedback.
const PACKET: u64 = 1500;
/// Part of the time beside neighbours after which shares count.
const SETTLES: u64 = 3;

/// Rates while transfer and neighbours were both there, after the first third of that time, Mbit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beside {
    /// The transfer's.
    pub own: f64,
    /// Of the mean neighbour.
    pub neighbour: f64,
}

/// What came of a cell.
#[derive(Debug, Clone, Default, PartialEq)]
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
    /// Longest time without a new useful byte after the first, less the longest in which the path itself let
    /// nothing through, ms.
    pub silence_ms: f64,
    /// Packets sent beyond those needed, as a share of these.
    pub waste: f64,
    /// The same without what the path itself lost.
    pub excess: f64,
    /// Delay in the bottleneck's queue that 95% of the packets stayed below, ms.
    pub queue_ms: f64,
    /// Useful bytes of all transfers as a share of what the link carried meanwhile, less what sources without
    /// feedback sent. Beside transfers alike, times the fairness index of their shares in the second half.
    pub of_link: f64,
    /// Beside neighbours.
    pub beside: Option<Beside>,
}

/// Plays a cell.
pub fn play(cell: &Cell, who: Contestant) -> Outcomes {
    play_tuned(cell, who, &Params::default())
}

/// Plays a cell with other numbers of `auto`.
pub fn play_tuned(cell: &Cell, who: Contestant, params: &Params) -> Outcomes {
    play_watched(cell, who, params, &mut |_| Nanos::MAX)
}

/// Plays a cell; `watch` sees it whenever it asked to, and says how much later it looks again.
pub fn play_watched(
    cell: &Cell,
    who: Contestant,
    params: &Params,
    watch: &mut dyn FnMut(&mut Played) -> Nanos,
) -> Outcomes {
    let Staged { scene, began, meets, lasts } = build(cell, who, params);
    let mut run = Run { played: scene.start(), watch, looks_at: 0 };
    let outcomes = measure(cell, &mut run, began, meets, lasts);
    outcomes.unwrap_or_else(|broken| Outcomes { end: broken, ..Outcomes::default() })
}

/// A cell that is being played and watched.
struct Run<'a> {
    played: Played,
    watch: &'a mut dyn FnMut(&mut Played) -> Nanos,
    looks_at: Nanos,
}

impl Run<'_> {
    fn until(&mut self, until: Nanos) -> Result<(), String> {
        loop {
            let stop = until.min(self.looks_at);
            let ran = self.played.world.run_until(stop);
            ran.map_err(|violation| format!("broken rule: {violation}"))?;
            if stop < self.looks_at {
                return Ok(());
            }
            self.looks_at = stop.saturating_add((self.watch)(&mut self.played));
        }
    }

    fn is_running(&mut self) -> bool {
        self.played.flow(0).outcome.is_running()
    }
}

fn measure(cell: &Cell, run: &mut Run, began: Nanos, meet: Nanos, lasts: Nanos) -> Result<Outcomes, String> {
    if cell.alike > 0 {
        return measure_alike(cell, run, lasts);
    }
    run.until(began)?;
    let first_byte = first_byte(cell, run, began, lasts)?;
    // Shares count from when they have settled.
    let settled = (meet + (lasts - meet) / SETTLES).max(run.played.world.now());
    let mut silence = Silence::new(run);
    let mut met = None;
    if !cell.neighbours.is_empty() {
        silence.watch(run, cell, settled)?;
        met = run.is_running().then(|| (run.played.world.now(), run.played.delivered()));
    }
    silence.watch(run, cell, lasts)?;
    let (view, now) = (run.played.flow(0), run.played.world.now());
    let took = span(&view.figures, view.outcome, now);
    let link = run.played.bottleneck();
    let waste = view.figures.waste();
    let needed = view.figures.sent.saturating_sub(view.figures.repeated).max(1) as f64;
    let own = if cell.neighbours.is_empty() {
        link.stats.lost as f64 / needed
    } else {
        cell.own_loss() / (1.0 - cell.own_loss())
    };
    let after = run.played.delivered();
    let beside = met.filter(|(met, _)| now > *met).map(|(met, before)| {
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
        silence_ms: silence.longest.saturating_sub(cell.own_silence()) as f64 / MS as f64,
        waste,
        excess: (waste - own).max(0.0),
        queue_ms: link.queue_delay.1 as f64 / MS as f64,
        of_link: view.figures.delivered as f64 / left(cell, run, began, began + took),
        beside,
    })
}

/// Bytes that the link carried and sources without feedback, which are the last flows, did not take.
fn left(cell: &Cell, run: &mut Run, began: Nanos, until: Nanos) -> f64 {
    let flows = run.played.world.config().flows.len();
    let transfers = 1 + cell.neighbours.len() + cell.alike;
    let taken: u64 = (transfers..flows).map(|id| run.played.flow(id).figures.sent).sum();
    let now = run.played.world.now();
    let meanwhile = (until - began) as f64 / now.saturating_sub(began).max(1) as f64;
    (cell.carries(began, until) - (taken * PACKET) as f64 * meanwhile).max(1.0)
}

/// Transfers alike, which do not end before the cell does.
fn measure_alike(cell: &Cell, run: &mut Run, lasts: Nanos) -> Result<Outcomes, String> {
    run.until(lasts / 2)?;
    let half = run.played.delivered();
    run.until(lasts)?;
    let all = run.played.delivered();
    let shares: Vec<f64> = all.iter().zip(&half).map(|(all, half)| (all - half) as f64).collect();
    let total: u64 = all.iter().sum();
    let (sent, repeated) = (0..all.len()).fold((0, 0), |(sent, repeated), id| {
        let figures = run.played.flow(id).figures;
        (sent + figures.sent, repeated + figures.repeated)
    });
    let waste = repeated as f64 / sent.saturating_sub(repeated).max(1) as f64;
    Ok(Outcomes {
        end: run.played.flow(0).outcome.word().to_owned(),
        complete: true,
        goodput: mbit(total, lasts),
        seconds: lasts as f64 / SEC as f64,
        waste,
        excess: (waste - cell.own_loss()).max(0.0),
        queue_ms: run.played.bottleneck().queue_delay.1 as f64 / MS as f64,
        of_link: total as f64 / cell.carries(0, lasts) * jain(&shares),
        ..Outcomes::default()
    })
}

/// When the first useful byte arrives.
fn first_byte(cell: &Cell, run: &mut Run, began: Nanos, lasts: Nanos) -> Result<Nanos, String> {
    for look in 1..=LOOKS_MAX {
        run.until(began + look * (cell.rtt / LOOKS).max(MS / 4))?;
        if run.played.flow(0).figures.delivered > 0 || !run.is_running() {
            return Ok(run.played.world.now());
        }
    }
    Ok(lasts)
}

/// How long nothing new has arrived.
struct Silence {
    delivered: u64,
    since: Nanos,
    longest: Nanos,
}

impl Silence {
    fn new(run: &mut Run) -> Silence {
        let (delivered, since) = (run.played.flow(0).figures.delivered, run.played.world.now());
        Silence { delivered, since, longest: 0 }
    }

    /// Goes on until a moment or the transfer's end.
    fn watch(&mut self, run: &mut Run, cell: &Cell, until: Nanos) -> Result<(), String> {
        let every = PROGRESS_EVERY.max(cell.rtt / LOOKS).max(until / PROGRESS_LOOKS);
        while run.is_running() && run.played.world.now() < until {
            let next = (run.played.world.now() + every).min(until);
            run.until(next)?;
            let (delivered, now) = (run.played.flow(0).figures.delivered, run.played.world.now());
            if delivered > self.delivered {
                (self.delivered, self.since) = (delivered, now);
            }
            self.longest = self.longest.max(now - self.since);
            if now < next {
                // The world itself has nothing more to do.
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Quirk, draw};
    use super::*;
    use crate::flow::tcp::Algorithm;
    use fobs_proto::congestion::CongestionControl;

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
        assert!(lossy.silence_ms < 500.0, "{lossy:?}");
        cell.neighbours = vec![Algorithm::Cubic];
        let beside = play(&cell, who).beside.expect("both were there");
        assert!(beside.own > 1.0 && beside.neighbour > 0.1, "{beside:?}");
    }
}
