//! A transfer cut into stretches of time in which one thing limited it.
//!
//! Cuts are where another party limits (an end, the path, the user), and where the path itself takes a step:
//! its rate or its base delay is another one from then on. Neither ripples nor a limit that comes and goes
//! cut: that is what unsteady paths do.

use super::budget::Budget;
use super::figures::median;
use super::interval::{Began, Brake, Interval, delivered, is_whole, low_rtt};
use super::names::Stage;
use std::ops::Range;

/// Shortest segment, seconds and share of the transfer.
const SEGMENT_S: f64 = 0.3;
const SEGMENT_SHARE: f64 = 0.05;
/// Shortest side of a step of the path, seconds and intervals: longer than ramp-up and bursts.
const STEP_S: f64 = 0.7;
const STEP_INTERVALS: usize = 4;
/// Ratio of the delivery rates of both sides from which on it is a step.
const STEP_RATIO: f64 = 1.5;
/// Ratio and difference (microseconds) of the base delays of both sides from which on it is a step.
const DELAY_RATIO: f64 = 1.25;
const DELAY_US: f64 = 3000.0;
/// Ratio of the delivery rates of both sides of a step of the delay from which on it costs time.
const STEP_COSTS: f64 = 1.2;
/// Share of the intervals of each side that must lie on its own side of the middle.
const APART: f64 = 0.9;
/// Most segments; of more, the shortest are joined to their neighbours.
const SEGMENTS_MAX: usize = 8;

/// Where in the intervals a segment lies, and whether it began with a step of the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) intervals: Range<usize>,
    pub(super) began: Began,
}

/// Cuts a transfer.
pub(super) fn segments(intervals: &[Interval]) -> Vec<Segment> {
    let parties: Vec<Party> = intervals.iter().map(Party::of).collect();
    let total: f64 = intervals.iter().map(length).sum();
    let shortest = SEGMENT_S.max(SEGMENT_SHARE * total);
    let mut runs: Vec<(Party, Range<usize>)> = Vec::new();
    for (place, party) in parties.into_iter().enumerate() {
        match runs.last_mut() {
            Some((last, range)) if *last == party => range.end = place + 1,
            _ => runs.push((party, place..place + 1)),
        }
    }
    join_short(&mut runs, intervals, shortest);
    let mut found = Vec::new();
    for (party, range) in runs {
        let step = if party == Party::Path { step_at(intervals, &range, shortest) } else { None };
        match step {
            Some((middle, began)) if middle > range.start => {
                found.push(Segment { intervals: range.start..middle, began: Began::Otherwise });
                found.push(Segment { intervals: middle..range.end, began });
            }
            Some((_, began)) => found.push(Segment { intervals: range, began }),
            None => found.push(Segment { intervals: range, began: Began::Otherwise }),
        }
    }
    found
}

fn length(interval: &Interval) -> f64 {
    (interval.to_s - interval.from_s).max(0.0)
}

/// Runs that are too short, and beyond the limit of their number, go to the longer neighbour, the shortest
/// first.
fn join_short(runs: &mut Vec<(Party, Range<usize>)>, intervals: &[Interval], shortest: f64) {
    let lasts = |run: &(Party, Range<usize>)| intervals[run.1.clone()].iter().map(length).sum::<f64>();
    while runs.len() > 1 {
        let Some((place, time)) = runs.iter().map(lasts).enumerate().min_by(|a, b| a.1.total_cmp(&b.1))
        else {
            return;
        };
        if time >= shortest && runs.len() <= SEGMENTS_MAX {
            return;
        }
        let (_, range) = runs.remove(place);
        let before = place.checked_sub(1).map(|before| lasts(&runs[before]));
        let after = runs.get(place).map(lasts);
        match (before, after) {
            (Some(before), Some(after)) if before < after => runs[place].1.start = range.start,
            (Some(_), _) => runs[place - 1].1.end = range.end,
            (None, _) => runs[place].1.start = range.start,
        }
        // Neighbours of one party grow together.
        let mut joined: Vec<(Party, Range<usize>)> = Vec::with_capacity(runs.len());
        for (party, range) in runs.drain(..) {
            match joined.last_mut() {
                Some((last, before)) if *last == party => before.end = range.end,
                _ => joined.push((party, range)),
            }
        }
        *runs = joined;
    }
}

/// Who limits an interval: parties whose limits are told apart by the whole segment are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Party {
    Source,
    Sender,
    User,
    Path,
    Silent,
    Receiver,
    Destination,
    Setup,
}

impl Party {
    fn of(interval: &Interval) -> Party {
        if interval.brake == Brake::Host(Stage::Outage) {
            return Party::Silent;
        }
        let budget = Budget::of(std::slice::from_ref(interval));
        let time = |stage: &&Stage| budget.seconds(**stage);
        let top = Stage::ALL.iter().max_by(|a, b| time(a).total_cmp(&time(b)));
        match top.copied().unwrap_or(Stage::Pacing) {
            Stage::Reading => Party::Source,
            Stage::Hashing | Stage::Sealing | Stage::SenderCpu | Stage::SenderPaused => Party::Sender,
            Stage::RateCap | Stage::Deadline | Stage::RemoteLimit => Party::User,
            Stage::Pacing | Stage::CongestionWindow | Stage::LocalSocket | Stage::Streams => Party::Path,
            Stage::Outage => Party::Silent,
            Stage::ReceiverDrain | Stage::ReceiverCpu | Stage::ReceiverSocket | Stage::ReceiverPaused => {
                Party::Receiver
            }
            Stage::Writing | Stage::Syncing => Party::Destination,
            Stage::Control | Stage::LateAnswers | Stage::Unseen => Party::Setup,
        }
    }
}

/// Where the path took a step, in a run in which it limits: within the run or, seen with all that came
/// before, at its beginning. Whatever limited it earlier, it carried then what was delivered.
fn step_at(intervals: &[Interval], run: &Range<usize>, shortest: f64) -> Option<(usize, Began)> {
    if let Some((place, began)) = step_in(&intervals[run.clone()]) {
        return Some((run.start + place, began));
    }
    let ramp = ramp_up(&intervals[..run.end]);
    let (place, began) = step_in(&intervals[ramp..run.end])?;
    let middle = (ramp + place).max(run.start);
    let left: f64 = intervals[run.start..middle].iter().map(length).sum();
    (began == Began::WorsePath).then_some((if left < shortest { run.start } else { middle }, began))
}

/// Intervals until half of the highest rate is delivered for the first time.
fn ramp_up(intervals: &[Interval]) -> usize {
    let highest = intervals.iter().filter(|i| is_whole(i)).map(delivered).fold(0.0, f64::max);
    intervals.iter().take_while(|i| delivered(i) < highest / 2.0).count()
}

/// The step of the path in a run of its intervals, if there is one: the place at which it has happened.
fn step_in(intervals: &[Interval]) -> Option<(usize, Began)> {
    let rate = step_of(intervals, delivered, |low, high| high >= STEP_RATIO * low);
    let delay = step_of(
        intervals,
        |i| low_rtt(i) as f64,
        |low, high| high >= DELAY_RATIO * low && high - low >= DELAY_US,
    );
    match (rate, delay) {
        // A longer way that carries what the shorter one did costs nothing: it may as well be a queue.
        (_, Some((place, before, after))) => {
            let worse = after > before && costs(intervals, place);
            Some((place, if worse { Began::WorsePath } else { Began::BetterPath }))
        }
        (Some((place, before, after)), None) if after < before => Some((place, Began::WorsePath)),
        // A rise may be the ramp-up: it is a cut, but no step of the path.
        (Some((place, ..)), None) => Some((place, Began::Otherwise)),
        (None, None) => None,
    }
}

/// Whether less was delivered from a place on.
fn costs(intervals: &[Interval], place: usize) -> bool {
    let typical = |side: &[Interval]| {
        median(&side.iter().filter(|i| is_whole(i)).map(delivered).collect::<Vec<f64>>()).unwrap_or(0.0)
    };
    typical(&intervals[..place]) >= STEP_COSTS * typical(&intervals[place..])
}

/// The place that parts the intervals best by a figure, with the medians of both sides, if these are apart.
fn step_of(
    intervals: &[Interval],
    figure: impl Fn(&Interval) -> f64,
    apart: impl Fn(f64, f64) -> bool,
) -> Option<(usize, f64, f64)> {
    let figures: Vec<f64> =
        intervals.iter().map(|i| if is_whole(i) { figure(i) } else { f64::NAN }).collect();
    let times: Vec<f64> = intervals.iter().map(length).collect();
    let mut best: Option<(usize, f64, f64, f64)> = None;
    let total: f64 = times.iter().sum();
    let mut before_s = 0.0;
    for place in 0..intervals.len() {
        let (left, right) = (&figures[..place], &figures[place..]);
        let long = before_s >= STEP_S && total - before_s >= STEP_S;
        before_s += times[place];
        if !long || left.len() < STEP_INTERVALS || right.len() < STEP_INTERVALS {
            continue;
        }
        let (Some(before), Some(after)) = (median(left), median(right)) else { continue };
        let (low, high) = (before.min(after), before.max(after));
        if !apart(low, high) {
            continue;
        }
        let middle = (low * high).max(0.0).sqrt();
        let beyond = |side: &[f64], above: bool| {
            let counted = side.iter().filter(|figure| figure.is_finite());
            let on_its_side = counted.clone().filter(|figure| (**figure > middle) == above).count();
            on_its_side as f64 / counted.count().max(1) as f64
        };
        let clean = beyond(left, before > after).min(beyond(right, after > before));
        if clean >= APART && best.is_none_or(|(.., cleanest)| clean > cleanest) {
            best = Some((place, before, after, clean));
        }
    }
    best.map(|(place, before, after, _)| (place, before, after))
}
