//! `fobs-lab link --self-test`: sends real packets over real paths and compares the results with expected
//! values.
//!
//! Counts are exact or within four standard deviations (the seed makes draws repeatable); times allow for the
//! host's scheduler. Checks that a busy machine could disturb are repeated once.

mod probe;

use std::process::ExitCode;

use serde_json::{Value, json};

use self::probe::{Hop, Probe};
use super::counters::Counters;
use super::emulator::Emulator;
use super::spec::LinkSpec;
use crate::failure::Failure;

/// A packet of 1500 bytes takes 0.6 ms on the link; the queue holds 30 of them.
const PATH: &str = "name = 'self-test'\nrtt = '20ms'\nrate = '20Mbit'\nseed = 1\n[forward]\nqueue = '45kB'\n";
/// UDP payload of a packet of 1500 bytes.
const FULL: usize = 1472;
const RATE: f64 = 20e6;

/// A property with its expected and its measured value.
struct Check {
    name: &'static str,
    expected: String,
    measured: String,
    passed: bool,
}

type Outcome = Result<Vec<Check>, String>;

/// Runs all checks and prints a table; success if all values are as expected.
pub fn run() -> Result<ExitCode, Failure> {
    let spec = LinkSpec::read(PATH, &[]).map_err(|error| Failure::new(error.to_string()))?;
    let emulator = Emulator::start(&spec)?;
    let probe =
        Probe::new(&emulator).map_err(|error| Failure::new(format!("cannot make test sockets: {error}")))?;
    let tests: [fn(&Probe) -> Outcome; 12] = [
        round_trip,
        rate,
        queue,
        bernoulli,
        bursts,
        cross,
        jitter,
        reorder,
        duplicate_and_corrupt,
        outage,
        policer,
        red,
    ];
    let mut failures = 0;
    for test in tests.into_iter().chain([tcp as fn(&Probe) -> Outcome]) {
        let mut checks = test(&probe).map_err(Failure::new)?;
        if checks.iter().any(|check| !check.passed) {
            checks = test(&probe).map_err(Failure::new)?;
        }
        for check in checks {
            let verdict = if check.passed { "ok" } else { "FAILED" };
            println!("{verdict:7} {:34} {:>24}   expected {}", check.name, check.measured, check.expected);
            failures += usize::from(!check.passed);
        }
    }
    Ok(match failures {
        0 => ExitCode::SUCCESS,
        _ => {
            eprintln!(
                "fobs-lab: {failures} properties of the emulated path are not as expected (see FAILED above)"
            );
            ExitCode::FAILURE
        }
    })
}

fn round_trip(probe: &Probe) -> Outcome {
    probe.fresh(json!({}))?;
    let mut trips = probe.round_trips(60)?;
    trips.sort_by(f64::total_cmp);
    // 40 bytes twice on the link take 0.03 ms.
    let (median, least) = (trips[trips.len() / 2], trips[0]);
    Ok(vec![
        within("round trip, median", median, 20.0, 20.7, "ms"),
        within("round trip, least", least, 20.0, 20.5, "ms"),
    ])
}

fn rate(probe: &Probe) -> Outcome {
    probe.fresh(json!({}))?;
    let hops = probe.stream(4000, FULL, RATE * 2.0)?;
    let counters = probe.counters()?;
    let drops = counters.forward.queue_drops;
    Ok(vec![
        within("rate at twice the load", bits_per_second(&hops) / 1e6, 19.8, 20.2, "Mbit/s"),
        exactly("packets sent = arrived + dropped", hops.len() as u64 + drops, 4000),
        within("queueing delay, p50", counters.forward.queue_delay_us.p50 as f64 / 1e3, 16.5, 18.2, "ms"),
    ])
}

fn queue(probe: &Probe) -> Outcome {
    probe.fresh(json!({}))?;
    let hops = probe.stream(100, FULL, f64::INFINITY)?;
    let longest = hops.iter().map(Hop::millis).fold(0.0, f64::max);
    Ok(vec![
        // A few packets leave while the burst is sent.
        within("of a burst of 100, the queue holds", hops.len() as f64, 30.0, 36.0, "packets"),
        within("delay of the last of them", longest, 10.0 + 30.0 * 0.6 - 0.7, 10.0 + 30.0 * 0.6 + 1.0, "ms"),
    ])
}

fn bernoulli(probe: &Probe) -> Outcome {
    probe.fresh(json!({ "loss": "2%" }))?;
    let hops = probe.stream(10_000, 20, RATE / 4.0)?;
    // Expected 200, standard deviation 14.
    Ok(vec![
        within("lost of 10,000 at 2%", 10_000.0 - hops.len() as f64, 144.0, 256.0, "packets"),
        exactly("random losses counted", probe.counters()?.forward.random_losses, 10_000 - hops.len() as u64),
    ])
}

fn bursts(probe: &Probe) -> Outcome {
    probe.fresh(json!({ "loss": { "gilbert_elliott": { "good_to_bad": "1%", "bad_to_good": "25%" } } }))?;
    let hops = probe.stream(10_000, 20, RATE / 4.0)?;
    let lost = 10_000.0 - hops.len() as f64;
    let gaps = hops.windows(2).filter(|pair| pair[1].number > pair[0].number + 1).count().max(1);
    Ok(vec![
        // About 96 bursts of 4 on average: 385, standard deviation 48.
        within("lost of 10,000, Gilbert-Elliott", lost, 193.0, 577.0, "packets"),
        within("length of a burst of losses", lost / gaps as f64, 2.6, 5.4, "packets"),
    ])
}

fn cross(probe: &Probe) -> Outcome {
    probe.fresh(json!({ "cross": [{ "kind": "poisson", "rate": "10Mbit" }] }))?;
    // Not twice the rate: in step with the link, one side would take every place in the queue.
    let hops = probe.stream(4000, FULL, RATE * 1.87)?;
    let report = probe.counters()?.forward;
    // A place becomes free every 0.6 ms. Our packets come every 0.32 ms, so the next one is 0.16 ms away;
    // theirs, 1.2 ms apart on average, arrive first in one case of eight: seven eighths of 20 Mbit/s are
    // ours.
    Ok(vec![
        within("rate beside 10 Mbit/s of cross traffic", bits_per_second(&hops) / 1e6, 16.3, 18.7, "Mbit/s"),
        at_least("cross traffic dropped as well", report.cross_drops, 50),
    ])
}

fn jitter(probe: &Probe) -> Outcome {
    probe.fresh(json!({ "jitter": "5ms" }))?;
    let hops = probe.stream(3000, 20, RATE / 20.0)?;
    let mut delays: Vec<f64> = hops.iter().map(Hop::millis).collect();
    delays.sort_by(f64::total_cmp);
    // Not the maximum, which depends on the machine.
    let (least, most) = (delays[0], delays[delays.len() * 98 / 100]);
    let in_order = hops.windows(2).all(|pair| pair[0].number < pair[1].number);
    Ok(vec![
        within("least delay with 5 ms of jitter", least, 10.0, 11.5, "ms"),
        within("98% of delays are below", most, 13.0, 15.5, "ms"),
        exactly("packets out of order", u64::from(!in_order), 0),
    ])
}

fn reorder(probe: &Probe) -> Outcome {
    probe.fresh(json!({ "reorder": { "share": "10%", "delay": "5ms" } }))?;
    let hops = probe.stream(2000, 20, RATE / 10.0)?;
    let mut newest = 0;
    let mut late = 0;
    for hop in &hops {
        late += u64::from(hop.number < newest);
        newest = newest.max(hop.number);
    }
    let counted = probe.counters()?.forward.reordered;
    Ok(vec![
        // Expected 200, standard deviation 13.
        within("held back of 2,000 at 10%", counted as f64, 146.0, 254.0, "packets"),
        // The last few packets have no successor.
        within("overtaken of those", late as f64, counted as f64 - 5.0, counted as f64, "packets"),
        exactly("none lost", hops.len() as u64, 2000),
    ])
}

fn duplicate_and_corrupt(probe: &Probe) -> Outcome {
    probe.fresh(json!({ "duplicate": "5%", "corrupt": "5%" }))?;
    let hops = probe.stream(4000, 400, RATE / 4.0)?;
    let report = probe.counters()?.forward;
    Ok(vec![
        // Expected 200, standard deviation 14.
        within("duplicated of 4,000 at 5%", report.duplicated as f64, 144.0, 256.0, "packets"),
        within("damaged of 4,200 at 5%", report.corrupted as f64, 152.0, 268.0, "packets"),
        exactly(
            "the kernel delivers the rest",
            hops.len() as u64,
            4000 + report.duplicated - report.corrupted,
        ),
    ])
}

fn outage(probe: &Probe) -> Outcome {
    probe.fresh(json!({ "outages": [{ "at": "200ms", "for": "300ms" }] }))?;
    let hops = probe.stream(1000, 20, 48.0 * 8.0 * 1000.0)?;
    let gap = hops.windows(2).map(|pair| pair[1].received_s - pair[0].received_s).fold(0.0, f64::max);
    let dropped = probe.counters()?.forward.outage_drops;
    Ok(vec![
        within("longest silence, outage of 300 ms", gap * 1e3, 295.0, 310.0, "ms"),
        exactly("packets sent = arrived + dropped", hops.len() as u64 + dropped, 1000),
    ])
}

fn policer(probe: &Probe) -> Outcome {
    probe.fresh(json!({ "policer": { "rate": "10Mbit", "burst": "15kB" } }))?;
    let hops = probe.stream(1600, FULL, RATE)?;
    Ok(vec![within("rate behind a policer of 10 Mbit/s", bits_per_second(&hops) / 1e6, 9.8, 10.4, "Mbit/s")])
}

fn red(probe: &Probe) -> Outcome {
    let red =
        json!({ "min": "10pkt", "max": "30pkt", "probability": "10%", "limit": "100pkt", "weight": 0.01 });
    probe.fresh(json!({ "queue": { "red": red } }))?;
    let hops = probe.stream(8000, FULL, RATE * 1.05)?;
    let report = probe.counters()?.forward;
    let delay = report.queue_delay_us.p50 as f64 / 1e3;
    Ok(vec![
        at_least("RED drops early", report.red_drops, 100),
        exactly("and none at the tail", report.queue_drops, 0),
        within("and keeps the delay, p50", delay, 10.0 * 0.6 * 0.8, 30.0 * 0.6, "ms"),
        exactly("packets sent = arrived + dropped", hops.len() as u64 + report.red_drops, 8000),
    ])
}

fn tcp(probe: &Probe) -> Outcome {
    probe.fresh(json!({ "rate": "1Gbit", "queue": "2MB", "loss": "0.1%" }))?;
    let (intact, seconds) = probe.tcp(8_000_000)?;
    let counters: Counters = probe.counters()?;
    let report = &counters.forward;
    // Acks leave one by one: these are the writes of the other direction.
    let data_writes = counters.writes.saturating_sub(counters.backward.packets_out).max(1);
    let merged = report.packets_out as f64 / data_writes as f64;
    Ok(vec![
        exactly("8 MB over TCP arrive as they were sent", u64::from(intact), 1),
        within("in", seconds, 0.1, 60.0, "s"),
        exactly("all of it counted as TCP", report.packets_by_protocol.sum(), report.packets_by_protocol.tcp),
        within("packets that leave together, mean", merged, 1.5, 50.0, "packets"),
        exactly("packets the devices dropped", counters.host_drops + counters.emulator_drops, 0),
    ])
}

/// Bits per second of whole IP packets, from the first to the last arrival.
fn bits_per_second(hops: &[Hop]) -> f64 {
    match hops {
        [first, .., last] => {
            let bits: usize = hops[1..].iter().map(|hop| (hop.bytes + 28) * 8).sum();
            bits as f64 / (last.received_s - first.received_s).max(1e-9)
        }
        _ => 0.0,
    }
}

fn within(name: &'static str, measured: f64, low: f64, high: f64, unit: &str) -> Check {
    let passed = (low..=high).contains(&measured);
    Check {
        name,
        expected: format!("{low:.1} to {high:.1}"),
        measured: format!("{measured:.2} {unit}"),
        passed,
    }
}

fn exactly(name: &'static str, measured: u64, expected: u64) -> Check {
    let passed = measured == expected;
    Check { name, expected: expected.to_string(), measured: measured.to_string(), passed }
}

fn at_least(name: &'static str, measured: u64, least: u64) -> Check {
    Check {
        name,
        expected: format!("at least {least}"),
        measured: measured.to_string(),
        passed: measured >= least,
    }
}

/// A change that resets every key of the forward direction to [`PATH`], except those given.
fn only(keys: &Value) -> Value {
    let mut forward = json!({
        "rate": null, "queue": "45kB", "policer": null, "loss": null, "jitter": null, "reorder": null,
        "duplicate": null, "corrupt": null, "outages": null, "cross": null,
    });
    if let (Some(all), Some(keys)) = (forward.as_object_mut(), keys.as_object()) {
        all.extend(keys.clone());
    }
    json!({ "forward": forward })
}
