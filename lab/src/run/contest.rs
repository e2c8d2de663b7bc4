//! One run: the flows of a contest over a path that is up, side by side, and its record.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::data::Data;
use super::flow::{self, Flow};
use super::load::Load;
use super::places::Places;
use super::process::wait_any;
use super::round_trips::Prober;
use super::series::{Sampler, Series, jain, mean_rate, rounded};
use super::stage::{self, Stage};
use super::tuning::merged;
use super::verdict::{self, Crossing};
use crate::link::counters::Counters;
use crate::plan::{Contest, PlannedPath};
use crate::record::{self, End, RoundTrips, Run, SeriesOf};
use crate::tool::{Amount, Figures, Programs, Stores, Task};

/// A signal to the runner is noticed within this time.
const ATTENTION: Duration = Duration::from_millis(200);

/// What all runs have in common.
pub struct Common<'a> {
    /// Where binaries are.
    pub programs: &'a Programs,
    /// Set when the runner itself is to end.
    pub interrupted: &'a AtomicBool,
}

/// Why there is no record of a run.
pub enum NoRun {
    /// The runner got a signal to end.
    Interrupted,
    /// It could not be made, and why.
    Failed(String),
}

impl From<String> for NoRun {
    fn from(why: String) -> NoRun {
        NoRun::Failed(why)
    }
}

/// Makes one run. `repetition` and `order` go into the record as they are.
pub fn run(
    common: &Common,
    stage: &Stage,
    data: &mut Data,
    (path, contest): (&PlannedPath, &Contest),
    (repetition, order): (u32, u32),
) -> Result<Run, NoRun> {
    let folder = tempfile::Builder::new().prefix("run-").tempdir_in(data.folder());
    let folder = folder.map_err(|error| format!("cannot make a directory in memory: {error}"))?;
    let timeout = contest.timeout(path);
    let mut flows = flows(common, stage, data, (path, contest), folder.path())?;
    let first = flows.first().ok_or("the contest has no flows".to_owned())?;
    let (facts, amount, from) = (first.task().path, first.task().amount, first.task().sender.name.clone());

    let load = set_up(stage, contest, &mut flows, timeout)?;
    let seen = watch(common, stage, &mut flows, load, timeout)?;
    let (mut records, figures): (Vec<_>, Vec<Figures>) =
        flows.iter_mut().map(|flow| flow.record(seen.start, timeout)).unzip();
    let jain = compare(&flows, &mut records, &figures, &seen);
    let invalid_because = verdict::doubts(&seen.wire, &crossings(path, &flows, &records));
    let (bytes, duration_s) = match amount {
        Amount::Bytes(bytes) => (Some(bytes), None),
        Amount::Time(time) => (None, Some(time.as_secs_f64())),
    };
    Ok(Run {
        contest: contest.label.clone(),
        parameters: path.parameters.clone().into_iter().chain(contest.parameters.clone()).collect(),
        path: path.spec.name.clone(),
        repetition,
        order,
        bytes,
        duration_s,
        link: stage::link(path, Contest::way(path, &from), &facts),
        flows: records,
        jain,
        wire: seen.wire,
        rtt_ms: seen.rtt_ms,
        load: seen.load,
        valid: invalid_because.is_empty(),
        invalid_because,
        elapsed_s: seen.elapsed_s,
    })
}

/// Sets the hosts' kernels up, puts the load in place, starts the servers and makes the uncounted copies of
/// flows that remember the path.
fn set_up<'a>(
    stage: &Stage,
    contest: &'a Contest,
    flows: &mut [Flow],
    timeout: Duration,
) -> Result<Option<Load<'a>>, String> {
    let asked = flows.iter().flat_map(|flow| {
        let task = flow.task();
        [&task.sender, &task.receiver].map(|host| (host.name.as_str(), &flow.launch().tcp))
    });
    let settings = merged(asked)?;
    for flow in flows.iter() {
        for name in [&flow.task().sender.name, &flow.task().receiver.name] {
            let host = stage.host(name)?;
            // A host whose flows want nothing does not inherit the settings of the last run.
            let tcp = settings.get(name.as_str()).cloned().unwrap_or_default();
            host.tuning.apply(&host.namespace, &tcp, &flow.task().path)?;
        }
    }
    let places = Places::new(contest.load.as_ref());
    flows.iter_mut().for_each(|flow| flow.place(&places));
    let load = match &contest.load {
        Some(spec) => Some(Load::new(spec, &stage.host(&spec.host)?.namespace)?),
        None => None,
    };
    flows.iter_mut().try_for_each(|flow| flow.prepare(stage, timeout))?;
    Ok(load)
}

/// What was seen of a run from outside of its flows.
struct Seen {
    start: Instant,
    elapsed_s: f64,
    wire: Counters,
    rtt_ms: Option<RoundTrips>,
    load: Option<record::Load>,
    series_of: SeriesOf,
    /// What each flow's receiving host took in.
    sampled: Vec<Series>,
}

/// Lets the clients run, and watches.
fn watch(
    common: &Common,
    stage: &Stage,
    flows: &mut [Flow],
    mut load: Option<Load>,
    timeout: Duration,
) -> Result<Seen, NoRun> {
    let receivers = flows.iter().map(|flow| flow.task().receiver.name.as_str());
    let different: BTreeSet<&str> = receivers.clone().collect();
    // The counters of a host do not tell two flows to it apart.
    let series_of = if different.len() == flows.len() { SeriesOf::Interface } else { SeriesOf::Tool };
    let devices = receivers.map(|name| stage.host(name)?.namespace.devices());
    let devices: Vec<_> = devices.collect::<Result<_, String>>()?;
    let first = flows.first().ok_or("the contest has no flows".to_owned())?.task();
    let (rtt, sender) = (first.path.rtt, stage.host(&first.sender.name)?);
    let prober = Prober::start(&sender.namespace, &first.receiver.address, rtt)?;
    let sampler = Sampler::start(devices);
    stage.emulator.reset()?;

    let start = Instant::now();
    play(common, stage, (flows, load.as_mut()), start, start + timeout)?;
    let elapsed_s = flow::to_micro(start.elapsed().as_secs_f64());
    let load = load.map(|load| load.finish(start)).transpose()?;
    let wire = stage.emulator.counters()?;
    let rtt_ms = prober.finish(start, rtt);
    flows.iter_mut().for_each(Flow::finish);
    let sampled = sampler.finish(start, flows.len());
    flows.iter_mut().for_each(Flow::settle);
    Ok(Seen { start, elapsed_s, wire, rtt_ms, load, series_of, sampled })
}

/// Gives each flow its time series and its rate while all of them ran; returns Jain's index of these rates.
fn compare(flows: &[Flow], records: &mut [record::Flow], figures: &[Figures], seen: &Seen) -> Option<f64> {
    let spans = flows.iter().map(|flow| flow.span(seen.start));
    let all_ran = spans.reduce(|one, other| {
        let ((from, until), (other_from, other_until)) = (one?, other?);
        Some((from.max(other_from), until.min(other_until)))
    });
    for (index, record) in records.iter_mut().enumerate() {
        let series = match seen.series_of {
            SeriesOf::Interface => seen.sampled[index].clone(),
            SeriesOf::Tool => {
                figures[index].series.iter().map(|[time, rate]| [time + record.start_s, *rate]).collect()
            }
        };
        if let (Some(Some((from, until))), true) = (all_ran, flows.len() > 1) {
            record.overlap_bps = mean_rate(&series, from, until).map(f64::round);
        }
        record.series = rounded(&series);
        record.series_of = Some(seen.series_of);
    }
    let rates: Option<Vec<f64>> = records.iter().map(|record| record.overlap_bps).collect();
    jain(&rates?).map(flow::to_micro)
}

/// Bytes and protocol of the complete flows, as their tools report them.
fn crossings(path: &PlannedPath, flows: &[Flow], records: &[record::Flow]) -> Vec<Crossing> {
    let complete = flows.iter().zip(records).filter(|(_, record)| record.end == End::Complete);
    let crossing = |(flow, record): (&Flow, &record::Flow)| Crossing {
        way: Contest::way(path, &record.from),
        protocol: flow.launch().protocol,
        bytes: record.bytes,
    };
    complete.map(crossing).collect()
}

/// The contest's flows with their directories, files and programs; nothing is started yet.
fn flows<'a>(
    common: &Common<'a>,
    stage: &Stage,
    data: &mut Data,
    (path, contest): (&'a PlannedPath, &'a Contest),
    folder: &Path,
) -> Result<Vec<Flow<'a>>, String> {
    let timeout = contest.timeout(path);
    let mut flows = Vec::new();
    for (index, planned) in contest.flows.iter().enumerate() {
        let (from, to) = contest.hosts(path, planned)?;
        let extent = contest.extent(path, planned)?;
        let facts = stage::facts(path, Contest::way(path, &from), [&from, &to]);
        let amount = flow::amount(planned, extent, timeout);
        let bytes = flow::source_bytes(amount, facts.rate_bps);
        let own = folder.join(format!("flow-{index}"));
        let (directory, destination) = (own.join("private"), own.join("arrived"));
        for folder in [&directory, &destination] {
            fs::create_dir_all(folder)
                .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        }
        let task = Task {
            options: &planned.options,
            programs: common.programs,
            path: facts,
            sender: stage.emulator.host(&from)?.clone(),
            receiver: stage.emulator.host(&to)?.clone(),
            amount,
            source: data.path(bytes),
            destination,
            directory,
            index: index as u16,
        };
        let launch = planned.tool.launch(&task)?;
        let source = match launch.stores {
            Stores::File | Stores::Discarded => Some(data.source(bytes, contest.flows.len() as u64)?),
            Stores::Nothing => None,
        };
        let group = |side| format!("{index}-{side}");
        let names = [group("sender"), group("receiver")];
        flows.push(Flow::new(planned, extent, task, launch, source, [&names[0], &names[1]]));
    }
    Ok(flows)
}

/// Starts every client at its time and waits until those that count are done, or the time is over.
fn play(
    common: &Common,
    stage: &Stage,
    (flows, mut load): (&mut [Flow], Option<&mut Load>),
    start: Instant,
    deadline: Instant,
) -> Result<(), NoRun> {
    loop {
        let now = Instant::now();
        if let Some(load) = &mut load {
            load.look(start, now)?;
        }
        for flow in flows.iter_mut() {
            flow.begin(stage, start, now);
            flow.look(now);
        }
        if !flows.iter().any(Flow::is_awaited) || now >= deadline {
            return Ok(());
        }
        if common.interrupted.load(Ordering::Relaxed) {
            return Err(NoRun::Interrupted);
        }
        let next = flows.iter().filter_map(|flow| flow.next(start));
        let next = next
            .chain(load.as_ref().map(|load| load.next(start, now)))
            .chain([deadline, now + ATTENTION])
            .min();
        let ends: Vec<_> = flows.iter().filter_map(Flow::end_fd).collect();
        wait_any(&ends, next.unwrap_or(deadline));
    }
}
