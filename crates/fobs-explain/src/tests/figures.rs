//! Random records: whatever was measured, no sentence has a figure that the copy itself refutes.

use super::*;
use crate::causes::Causes;
use crate::limits::{Facts, Place};
use fobs_model::words::rate;
use proptest::prelude::*;

/// What a step of a record adds.
#[derive(Debug, Clone, Copy)]
struct Step {
    wait: usize,
    waited_percent: u64,
    sent: u64,
    lost_percent: u64,
    /// Whether acks come in it; else those of this step come with the next ones.
    acked: bool,
    queue_us: u64,
    there: bool,
    late: u64,
    behind_us: u64,
    cap_mbit: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let shares = (0..Wait::ALL.len(), 0..=100u64, 0..=30u64, any::<bool>());
    // Stretches of nothing, of little and of much.
    let sent = prop_oneof![Just(0), 1..20u64, 100..2_000u64];
    let path = (prop_oneof![Just(0), 0..60_000u64], any::<bool>(), 0..20u64, 0..30_000u64);
    (shares, sent, path, 0..3u64).prop_map(|(shares, sent, path, cap_mbit)| Step {
        wait: shares.0,
        waited_percent: shares.1,
        sent,
        lost_percent: shares.2,
        acked: shares.3,
        queue_us: path.0,
        there: path.1,
        late: path.2,
        behind_us: path.3,
        cap_mbit,
    })
}

/// Steps come in runs: a limit lasts.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let run = (step(), 1..STEPS as usize).prop_map(|(step, times)| vec![step; times]);
    prop::collection::vec(run, 1..6).prop_map(|runs| runs.concat())
}

/// The record of these steps, the last one for the rest of the time; by `fobs`, or by another program.
fn record(steps: &[Step], is_of_another: bool) -> Trace {
    let mut trace = trace_of("auto", |place, s, r| {
        let step = steps[(place as usize).min(steps.len() - 1)];
        s.waits.add_us(Wait::ALL[step.wait], STEP_US * step.waited_percent / 100);
        let lost = step.sent * step.lost_percent / 100;
        let acked = s.bytes_acked;
        send(s, step.sent.max(1), lost);
        let pending = s.bytes_sent - s.packets_lost * PACKET;
        s.bytes_acked = if step.acked { pending.max(acked) } else { acked };
        s.packets_late += step.late.min(step.sent);
        (s.rtt_low_us, s.rtt_us) = (20_000 + step.queue_us, 20_000 + step.queue_us);
        s.forward_low_us = if step.there { step.queue_us } else { 0 };
        s.forward_high_us = s.forward_low_us;
        s.acks += step.sent / 2;
        s.cap_bps = step.cap_mbit * 1_000_000;
        r.packets += step.sent - lost;
        r.acks += step.sent;
        r.reordered += step.late.min(step.sent);
        r.behind_max_us = step.behind_us;
    });
    if is_of_another {
        trace.head.transport = "tcp".to_owned();
    }
    trace
}

/// The rates in a text, bits per second.
fn rates_in(text: &str) -> Vec<f64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let rates = words.windows(2).filter_map(|pair| {
        let unit = match pair[1].trim_end_matches([',', '.', ';', ')']) {
            "kbit/s" => 1e3,
            "Mbit/s" => 1e6,
            "Gbit/s" => 1e9,
            _ => return None,
        };
        Some(pair[0].trim_start_matches('(').parse::<f64>().ok()? * unit)
    });
    rates.collect()
}

/// Half of the last of three digits, and of the last one of a rate below 10 kbit/s.
const ROUNDED: f64 = 0.005;
const LEAST_SHOWN: f64 = 5.0;

/// What a segment says of the path is not less than what the copy had, after a step than what was delivered
/// since; of a path that changed, what it was before not less than the segment before had.
fn assert_holds(facts: &Facts, before: Option<&Facts>, limit: Limit) {
    let phrase = (limit.row().phrase)(facts);
    let named = rates_in(&phrase);
    let is_changed = limit == Limit::RouteChange && facts.before.is_some();
    let least = match before {
        _ if facts.before.is_none() => facts.goodput_bps,
        _ if !is_changed => facts.path.delivered_bps * facts.payload(),
        Some(before) if before.before.is_none() => {
            let sender = before.sender().expect("samples");
            sender.bytes_delivered() as f64 * 8e6 / sender.time_us.max(1) as f64 * facts.payload()
        }
        _ => 0.0,
    };
    let checked = if is_changed { &named[..1] } else { &named[..] };
    let holds = checked.iter().all(|bps| *bps >= least * (1.0 - ROUNDED) - LEAST_SHOWN);
    assert!(holds, "{limit:?} had {}: {phrase}", rate(least));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_figure_of_a_random_record_is_refuted_by_it(steps in steps(), is_of_another in any::<bool>()) {
        let trace = record(&steps, is_of_another);
        let why = explain(&trace);
        let had = why.goodput_bps;
        prop_assert!(why.predicted_bps.is_none_or(|bps| bps >= had), "{why:#?}");
        if let Some(forecast) = &why.fobs {
            let least = had * (1.0 - ROUNDED);
            prop_assert!(forecast.p10_bps >= least && forecast.rate_bps >= least, "{why:#?}");
            prop_assert!(forecast.p90_bps.is_none_or(|most| most >= forecast.p10_bps), "{why:#?}");
            // What was not tried has no upper bound: "would make" does not say more than "at least".
            let is_tried = why.limit == Some(Limit::Policer) || !why.sentence.contains("at least");
            prop_assert!(forecast.p90_bps.is_none() || is_tried, "{why:#?}");
        }
        let found = Causes::of(&trace);
        for (place, facts) in found.facts.iter().enumerate() {
            let before = place.checked_sub(1).map(|before| &found.facts[before]);
            for limit in Limit::ALL.iter().filter(|limit| limit.row().place == Place::Network) {
                assert_holds(facts, before, *limit);
            }
            let cap = rates_in(&(Limit::RateCap.row().phrase)(facts));
            prop_assert!(cap.iter().all(|bps| bps * 1.1 >= had), "{cap:?} of {}", rate(had));
        }
    }
}

#[test]
fn rates_are_found_in_a_text() {
    let text = "it drops what exceeds 93.4 Mbit/s; up to 1.20 Gbit/s (0.00 kbit/s) in 20 ms";
    assert_eq!(rates_in(text), [93.4e6, 1.2e9, 0.0]);
}
