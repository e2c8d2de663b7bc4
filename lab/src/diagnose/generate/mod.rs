//! Windows of network loss from a simulated bottleneck.
//!
//! One flow of evenly sized packets, paced or in bursts, meets a queue or a policer, other traffic, or a link that
//! loses by itself. Twenty kinds of scenario, each with parameters drawn from its seed; the same seed, the same
//! windows. There is no feedback to our flow: a window is what a sender sees before it reacts.

mod bottleneck;
mod source;

use bottleneck::{Bottleneck, Discipline};
use fobs_proto::loss_cause::Signature;
use source::{Pattern, Source};

use fobs_diagnose::{Cause, Random, Window};

/// Bytes of every packet, ours and others'.
const PACKET: f64 = 1500.0;
/// Packets before the window, in which the queue fills.
const WARM_UP: u32 = 8_000;
/// Windows with more or less loss say nothing that is asked.
const LOSS_RATES: std::ops::Range<f64> = 5e-5..0.3;
/// Draws of parameters until a window has such loss; then the last is taken as it is.
const DRAWS_MAX: usize = 60;

/// The kinds, by the name that recorded windows have for them.
pub const SCENARIOS: [&str; 20] = [
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

/// One window of `packets` packets of a scenario; `None` if there is no such one.
pub fn generate(scenario: &str, packets: u32, seed: u64) -> Option<Window> {
    let scenario = SCENARIOS.into_iter().find(|name| *name == scenario)?;
    let mut random = Random::new(seed);
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

fn window(scenario: &str, packets: u32, random: &mut Random) -> Signature {
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
fn lossy_link(scenario: &str, packets: u32, random: &mut Random) -> Vec<u32> {
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
fn congested(scenario: &str, packets: u32, burst: u32, random: &mut Random) -> Vec<u32> {
    let capacity = random.log_uniform(0.5e9, 10e9) / 8.0;
    // How much more comes than goes out: little overload is as common as much.
    let overload = random.log_uniform(0.0005, 0.25) * random.pick(&[1.0, 1.0, 1.0, -0.5]);
    let alone = matches!(scenario, "self" | "self_gso" | "policer" | "policer_gso" | "batchpol" | "batchq");
    let share = if alone { 1.0 } else { random.uniform(0.1, 0.8) };
    let rate = capacity * share * if alone { 1.0 + overload.abs() } else { 1.0 };
    let others = capacity * (1.0 - share + overload).max(0.05);
    let discipline = match scenario {
        "red" => {
            let low = random.uniform(0.1, 0.4);
            Discipline::Red {
                low,
                high: random.uniform(low + 0.1, 0.95),
                p_max: random.log_uniform(0.01, 0.2),
            }
        }
        "policer" | "policer_gso" | "policer_mix" => Discipline::Police,
        "batchpol" => Discipline::Batch { tick: random.log_uniform(2e-5, 2e-3), ticks: 1.5 },
        "batchq" => Discipline::Batch { tick: random.log_uniform(2e-5, 2e-3), ticks: 4.0 },
        _ => Discipline::Tail,
    };
    let buffer = match scenario {
        "incast" => random.log_uniform(40.0, 400.0) * PACKET,
        _ => capacity * random.log_uniform(2e-4, 0.05),
    };
    let mut bottleneck = Bottleneck::new(discipline, capacity, buffer.max(4.0 * PACKET), random);
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
            let taken = bottleneck.offer(next.next, PACKET, random);
            next.step(taken, random);
        }
        if !bottleneck.offer(now, PACKET, random) && index >= WARM_UP {
            lost.push(index - WARM_UP);
        }
    }
    lost
}

/// The other traffic, at `rate` bytes a second in all.
fn sources(scenario: &str, rate: f64, capacity: f64, random: &mut Random) -> Vec<Source> {
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
mod tests {
    use super::*;

    #[test]
    fn every_scenario_loses_packets_and_the_seed_decides_which() {
        for (index, scenario) in SCENARIOS.into_iter().enumerate() {
            let seed = 900 + index as u64;
            let window = generate(scenario, 10_000, seed).expect("a scenario");
            assert!(window.signature.lost() > 0, "{scenario}, seed {seed}");
            let again = generate(scenario, 10_000, seed).expect("a scenario");
            assert_eq!(window.signature, again.signature, "{scenario}, seed {seed}");
            let other = generate(scenario, 10_000, seed + 1000).expect("a scenario");
            assert_ne!(window.signature, other.signature, "{scenario}, seed {seed}");
        }
        assert!(generate("gremlins", 10_000, 1).is_none());
    }

    #[test]
    fn patterns_are_what_their_names_say() {
        let longest = |scenario: &str, seed| {
            let window = generate(scenario, 30_000, seed).expect("a scenario");
            window.signature.runs().iter().map(|run| run.len).max().unwrap_or(0)
        };
        for seed in 0..5 {
            assert!(
                longest("self", seed) <= 2,
                "a paced flow alone overflows by single packets, seed {seed}"
            );
            assert_eq!(longest("policer", seed), 1, "seed {seed}");
            let outage = generate("outage", 30_000, seed).expect("a scenario");
            assert_eq!(outage.signature.runs().len(), 1, "seed {seed}");
        }
    }
}
