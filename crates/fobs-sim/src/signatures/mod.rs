//! Windows of network loss for training and examining the classifier, from a bottleneck of the simulator.
//!
//! One flow of packets of equal size, paced or in bursts, meets a queue or a policer and other traffic, or
//! crosses a link that loses at random. Each of the twenty kinds of scenario draws its parameters from the
//! seed; the same seed gives the same windows. The flow does not react to losses: a window is what a sender
//! sees before it reacts.

mod bottleneck;
mod source;

use crate::link::{Discipline, PolicerConfig};
use crate::rng::Rng;
use bottleneck::Bottleneck;
use fobs_diagnose::{Cause, Window};
use fobs_proto::loss_cause::Signature;
use source::{Pattern, Source};

/// Bytes of every packet, of the flow and of other traffic.
const PACKET: f64 = 1500.0;
/// Packets before the window, in which the queue fills.
const WARM_UP: u32 = 8_000;
/// Share of packets that a window must have lost.
const LOSS_RATES: std::ops::Range<f64> = 5e-5..0.3;
/// Draws of parameters until a window has such a loss rate; then the last one is taken as it is.
const DRAWS_MAX: usize = 60;

/// The kinds, by their names in files of windows.
pub const SCENARIOS: &[&str] = &[
    "poisson",
    "poisson_gso",
    "onoff",
    "onoff_gso",
    "cbr",
    "aimd",
    "aimd_gso",
    "incast",
    "red",
    "policer",
    "policer_gso",
    "policer_mix",
    "self",
    "self_gso",
    "batchpol",
    "batchq",
    "bern",
    "ge",
    "gelong",
    "outage",
];

/// One window of `packets` packets of a scenario; `None` if there is no scenario of that name.
pub fn generate(scenario: &str, packets: u32, seed: u64) -> Option<Window> {
    let scenario = SCENARIOS.iter().copied().find(|name| *name == scenario)?;
    let mut random = Rng::new(seed);
    let mut signature = Signature::clean(packets);
    for _ in 0..DRAWS_MAX {
        signature = window(scenario, packets, &mut random);
        if LOSS_RATES.contains(&signature.loss_rate()) {
            break;
        }
    }
    Some(Window {
        signature,
        cause: Some(Cause::Net),
        scenario: scenario.to_owned(),
        run: seed,
        host_lost: None,
    })
}

/// Losses of a receiver that frees its buffer in portions of 57 packets and is slightly too slow for some
/// hundred packets at a time: short runs at even gaps, which the shipped model calls inconclusive. 10,000 to
/// 30,000 packets.
pub fn slow_receiver(seed: u64) -> Signature {
    let mut random = Rng::new(seed);
    let packets = random.uniform(10_000.0, 30_000.0) as u64;
    let (mut pairs, mut at, mut gap) = (Vec::new(), 0, random.below(2000) as u64);
    while at < packets - 2000 {
        for _ in 0..2 + random.below(20) {
            let len = random.uniform(2.0, 8.0) as u64;
            pairs.push((gap, len));
            at += gap + len;
            gap = 57 * (1 + random.below(2)) as u64;
        }
        gap = random.exponential(6000.0) as u64;
    }
    Signature::from_gaps(packets.max(at), 1, pairs).expect("runs lie inside")
}

fn window(scenario: &str, packets: u32, random: &mut Rng) -> Signature {
    let burst = if scenario.ends_with("_gso") { random.pick(&[16, 32, 44, 64]) } else { 1 };
    let lost = match scenario {
        "bern" | "ge" | "gelong" | "outage" => lossy_link(scenario, packets, random),
        _ => congested(scenario, packets, burst, random),
    };
    let mut pairs = Vec::new();
    let mut start = 0;
    for at in lost {
        pairs.push((u64::from(at - start), 1));
        start = at + 1;
    }
    Signature::from_gaps(u64::from(packets), burst, pairs).unwrap_or_else(|_| Signature::clean(packets))
}

/// Losses of a link: packets in a bad state are lost with some probability.
fn lossy_link(scenario: &str, packets: u32, random: &mut Rng) -> Vec<u32> {
    // Mean lengths of the good and the bad state, packets, and the loss in each.
    let rate = random.log_uniform(1e-4, 0.06);
    let (bad_len, bad_loss) = match scenario {
        "bern" => (1.0, 1.0),
        "ge" => (random.log_uniform(2.0, 20.0), random.uniform(0.3, 1.0)),
        "gelong" => (random.log_uniform(20.0, 400.0), random.uniform(0.6, 1.0)),
        _ => (random.log_uniform(8.0, 3000.0), 1.0),
    };
    if scenario == "outage" {
        let len = (bad_len as u32).min(packets / 4);
        let start = random.below((packets - len) as usize) as u32;
        return (start..start + len).collect();
    }
    let good_len = bad_len * bad_loss / rate;
    let mut lost = Vec::new();
    let mut good = true;
    let mut left = random.exponential(good_len);
    for at in 0..packets {
        while left < 1.0 {
            good = !good;
            left += random.exponential(if good { good_len } else { bad_len }).max(0.02);
        }
        left -= 1.0;
        if !good && random.chance(bad_loss) {
            lost.push(at);
        }
    }
    lost
}

/// Losses at a bottleneck.
fn congested(scenario: &str, packets: u32, burst: u32, random: &mut Rng) -> Vec<u32> {
    let capacity = random.log_uniform(0.5e9, 10e9) / 8.0;
    // How much more comes than goes out: little overload is as common as much.
    let overload = random.log_uniform(0.0005, 0.25) * random.pick(&[1.0, 1.0, 1.0, -0.5]);
    let alone = matches!(scenario, "self" | "self_gso" | "policer" | "policer_gso" | "batchpol" | "batchq");
    let share = if alone { 1.0 } else { random.uniform(0.1, 0.8) };
    let rate = capacity * share * if alone { 1.0 + overload.abs() } else { 1.0 };
    let others = capacity * (1.0 - share + overload).max(0.05);
    let mut bottleneck = bottleneck(scenario, capacity, random);
    let mut sources = sources(scenario, others, capacity, random);
    let interval = f64::from(burst) * PACKET / rate;
    let jitter = random.pick(&[0.0, 0.0, 0.05, 0.3]);
    let line = capacity * random.uniform(1.0, 4.0);
    let mut lost = Vec::new();
    for index in 0..packets + WARM_UP {
        let (train, place) = (index / burst, index % burst);
        let late = if place == 0 && jitter > 0.0 { random.uniform(0.0, jitter) * interval } else { 0.0 };
        let now = f64::from(train) * interval + late + f64::from(place) * PACKET / line;
        while let Some(next) = sources.iter_mut().min_by(|a, b| a.next.total_cmp(&b.next)) {
            if next.next > now {
                break;
            }
            let taken = bottleneck.offer(next.next, PACKET as u32);
            next.step(taken, random);
        }
        if !bottleneck.offer(now, PACKET as u32) && index >= WARM_UP {
            lost.push(index - WARM_UP);
        }
    }
    lost
}

/// A link of `capacity` bytes per second, or a policer of that rate.
fn bottleneck(scenario: &str, capacity: f64, random: &mut Rng) -> Bottleneck {
    // Time between two refills of a bucket, and for how many of them it has room at most.
    let batch = match scenario {
        "batchpol" => Some((random.log_uniform(2e-5, 2e-3), 1.5)),
        "batchq" => Some((random.log_uniform(2e-5, 2e-3), 4.0)),
        _ => None,
    };
    // Thresholds as shares of the buffer.
    let red = (scenario == "red").then(|| {
        let low = random.uniform(0.1, 0.4);
        (low, random.uniform(low + 0.1, 0.95), random.log_uniform(0.01, 0.2))
    });
    let buffer = match scenario {
        "incast" => random.log_uniform(40.0, 400.0) * PACKET,
        _ => capacity * random.log_uniform(2e-4, 0.05),
    };
    let buffer = match batch {
        Some((tick, ticks)) => buffer.max(capacity * tick * random.uniform(1.0, ticks)),
        None => buffer,
    };
    let (rate, bytes) = ((capacity * 8.0) as u64, buffer.max(4.0 * PACKET) as u64);
    match scenario {
        "policer" | "policer_gso" | "policer_mix" | "batchpol" | "batchq" => {
            let refill = batch.map_or(0, |(tick, _)| (tick * 1e9) as u64);
            Bottleneck::policer(PolicerConfig { rate, depth: bytes, refill })
        }
        _ => {
            let discipline = red.map_or(Discipline::DropTail, |(low, high, probability_max)| {
                let share = |of: f64| (of * bytes as f64) as u64;
                Discipline::Red { low: share(low), high: share(high), probability_max }
            });
            Bottleneck::queue(rate, bytes, discipline, random)
        }
    }
}

/// The other traffic, `rate` bytes per second in all.
fn sources(scenario: &str, rate: f64, capacity: f64, random: &mut Rng) -> Vec<Source> {
    let poisson = |rate: f64| Source::new(Pattern::Poisson, PACKET / rate);
    match scenario {
        "self" | "self_gso" | "policer" | "policer_gso" | "batchpol" | "batchq" => Vec::new(),
        "onoff" | "onoff_gso" => {
            let count = 1 + random.below(8);
            let duty = random.uniform(0.2, 0.7);
            let on = random.log_uniform(2e-4, 2e-2);
            let gap = PACKET * count as f64 * duty / rate;
            let pattern = Pattern::OnOff { on, off: on * (1.0 - duty) / duty, left: on };
            (0..count).map(|_| Source::new(pattern, gap)).collect()
        }
        "cbr" => {
            let count = 1 + random.below(6);
            let jitter = random.pick(&[0.01, 0.1, 0.5]);
            (0..count)
                .map(|_| {
                    let mut source = Source::new(Pattern::Even { jitter }, PACKET * count as f64 / rate);
                    source.next = random.unit() * source.gap;
                    source
                })
                .collect()
        }
        "aimd" | "aimd_gso" => {
            let count = 2 + random.below(10);
            let rtt = random.log_uniform(1e-3, 0.05);
            let gap = PACKET * count as f64 / rate;
            let pattern = Pattern::Aimd { rtt, deaf_until: 0.0 };
            (0..count)
                .map(|_| {
                    let spread = random.uniform(0.6, 1.6);
                    Source::new(pattern, gap * spread)
                })
                .collect()
        }
        "incast" => {
            let count = 4 + random.below(28);
            let period = random.log_uniform(5e-4, 2e-2);
            let size = (rate * period / PACKET / count as f64).max(1.0) as u32;
            let pattern = Pattern::Volley { period, size, sent: 0 };
            (0..count).map(|_| Source::new(pattern, PACKET / capacity * random.uniform(0.8, 3.0))).collect()
        }
        "policer_mix" | "red" if random.chance(0.5) => {
            let on = random.log_uniform(2e-4, 2e-2);
            vec![
                poisson(rate * 0.6),
                Source::new(Pattern::OnOff { on, off: on, left: on }, PACKET / (rate * 0.8)),
            ]
        }
        _ => vec![poisson(rate)],
    }
}

#[cfg(test)]
mod tests;
