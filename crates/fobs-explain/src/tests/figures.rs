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
    /// How the threads of both ends fared: running, and ready without a CPU.
    run_percent: u64,
    delayed_percent: u64,
    window_bytes: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let shares = (0..Wait::ALL.len(), 0..=100u64, 0..=30u64, any::<bool>());
    // Stretches of nothing, of little and of much.
    let sent = prop_oneof![Just(0), 1..20u64, 100..2_000u64];
    let path = (prop_oneof![Just(0), 0..60_000u64], any::<bool>(), 0..20u64, 0..30_000u64);
    let host = (0..=50u64, prop_oneof![Just(0), 0..=95u64], 0..10_000_000u64);
    (shares, sent, path, 0..3u64, host).prop_map(|(shares, sent, path, cap_mbit, host)| Step {
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
        run_percent: host.0,
        delayed_percent: host.1.min(100 - host.0),
        window_bytes: host.2,
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
        for cpu in [&mut s.cpu, &mut r.cpu] {
            cpu.run_us += STEP_US * step.run_percent / 100;
            cpu.delay_us += STEP_US * step.delayed_percent / 100;
        }
        s.window_bytes = step.window_bytes;
        s.streams.open = u64::from(is_of_another);
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
    // A bucket that was full at first lets a copy have more than the policer's rate on the whole.
    let is_policer = limit == Limit::Policer;
    let least = match before {
        _ if is_policer => facts.path.rates.mean() / 2.0,
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

/// Bits on the wire for each bit of a TCP stream, which is what a forecast names.
const HEADERS: f64 = 1500.0 / 1448.0;

/// The most that any sample of a record shows the path to have carried, bits per second.
fn most_measured(trace: &Trace) -> f64 {
    let pairs = trace.journal.sender().windows(2).map(|pair| pair[1].what.since(&pair[0].what));
    let delivered = pairs.map(|step| step.bytes_delivered() as f64 * 8e6 / step.time_us.max(1) as f64);
    delivered.fold(0.0, f64::max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Neither what limited nor what would help names a rate that the path was not seen to carry: not with
    /// twice the CPU, nor with no outage.
    #[test]
    fn no_rate_of_a_random_record_is_above_what_was_measured(steps in steps(), is_of_another in any::<bool>()) {
        let trace = record(&steps, is_of_another);
        let most = most_measured(&trace) * HEADERS * (1.0 + ROUNDED) + LEAST_SHOWN;
        let why = explain(&trace);
        prop_assert!(why.predicted_bps.is_none_or(|bps| bps <= most), "{} in {why:#?}", rate(most));
        prop_assert_eq!(why.predicted_bps.is_some(), why.predicted_bound.is_some());
        if let Some(forecast) = &why.fobs {
            prop_assert!(forecast.p10_bps.max(forecast.rate_bps) <= most, "{} in {why:#?}", rate(most));
        }
        let found = Causes::of(&trace);
        // The user's own figures are no rates of the path.
        let of_the_path = |limit: &&Limit| !matches!(limit, Limit::RateCap | Limit::RemoteLimit);
        for facts in &found.facts {
            let sender = facts.sender().expect("samples");
            for limit in Limit::ALL.iter().filter(of_the_path) {
                let row = limit.row();
                let mut texts = (row.evidence)(facts, sender);
                texts.extend([(row.phrase)(facts), (row.fix)(facts), crate::limits::spare(facts)]);
                let named = texts.iter().flat_map(|text| rates_in(text)).fold(0.0, f64::max);
                prop_assert!(named <= most, "{limit:?}: {} of {}: {texts:?}", rate(named), rate(most));
                let predicted = (row.prediction)(facts, 0.99).map_or(0.0, |found| found.bps());
                prop_assert!(predicted <= most, "{limit:?}: {} of {}", rate(predicted), rate(most));
            }
        }
    }
}

/// Of 27 Mbit/s a starved CPU would make 214: the path was seen to carry 35.
#[test]
fn a_whole_cpu_gives_no_more_than_the_path_was_seen_to_carry() {
    let why = explain(&trace_of("auto", |step, s, _| {
        s.waits.add_us(Wait::Pacer, STEP_US / 20);
        s.cpu.run_us += STEP_US / 10;
        s.cpu.delay_us += if step < 6 { STEP_US / 20 } else { STEP_US * 8 / 10 };
        send(s, if step < 6 { 350 } else { 250 }, 0);
    }));
    assert_eq!(why.limit, Some(Limit::SenderCpu), "{why:#?}");
    assert!(why.predicted_bps.is_some_and(|bps| (bps - 35e6).abs() < 1e6), "{why:#?}");
    assert_eq!(why.predicted_bound, Some(Bound::AtLeast), "{why:#?}");
    let says = "at least 35.0 Mbit/s instead of 27.0 Mbit/s; whether the path carries more was not tried";
    assert!(why.fix.contains(says) && why.advice().contains(says), "{}", why.fix);
}

/// A radio link that holds everything back for 0.2 s, and then delivers it at once.
#[test]
fn acks_that_come_at_once_are_no_rate_of_the_path() {
    let trace = trace_of("auto", |step, s, _| {
        s.waits.add_us(Wait::Source, STEP_US / 2);
        work(&mut s.reader, 90, 0);
        let arrived = s.bytes_acked;
        send(s, 800, 0);
        s.bytes_acked = if step % 3 == 2 { s.bytes_sent } else { arrived };
    });
    let (why, sent) = (explain(&trace), 80e6);
    let most = why.predicted_bps.unwrap_or(why.goodput_bps);
    assert!(most <= 1.01 * sent && !why.sentence.contains("to spare"), "{why:#?}");
}

/// A starved receiver leaves packets in its socket for 0.4 s at a time, and then takes all of them in 0.1 s.
#[test]
fn what_piled_up_at_the_receiver_is_no_rate_of_the_path() {
    let trace = trace_of("auto", |step, s, r| {
        s.waits.add_us(Wait::Pacer, WAIT_US);
        let arrived = s.bytes_acked;
        send(s, 1000, 0);
        let drains = step % 5 == 4;
        s.bytes_acked = if drains { s.bytes_sent } else { arrived + 50 * PACKET };
        r.cpu.run_us += STEP_US / 10;
        r.cpu.delay_us += if drains { 0 } else { STEP_US * 85 / 100 };
        r.wait_us -= if drains { 0 } else { STEP_US * 85 / 100 };
        (s.rtt_us, s.rtt_low_us) = if drains { (20_000, 20_000) } else { (300_000, 280_000) };
    });
    let (why, sent) = (explain(&trace), 100e6);
    assert!(why.predicted_bps.is_none_or(|bps| bps <= 1.01 * sent), "{why:#?}");
    let named = rates_in(&why.text()).into_iter().fold(0.0, f64::max);
    assert!(named <= 1.01 * sent, "{}", why.text());
}

/// What is said to a user of rsync has no option of `fobs`, and the other way round.
#[test]
fn advice_names_options_of_the_program_that_copied() {
    let own = ["--rate", "--cc", "--transport", "--priority", "--deadline", "--fsync", " -C if", "--explain"];
    for is_of_another in [false, true] {
        let steps = [Step {
            wait: 3,
            waited_percent: 90,
            sent: 500,
            lost_percent: 1,
            acked: true,
            queue_us: 9_000,
            there: true,
            late: 0,
            behind_us: 0,
            cap_mbit: 0,
            run_percent: 5,
            delayed_percent: 0,
            window_bytes: 0,
        }];
        let trace = record(&steps, is_of_another);
        let facts = Facts::of(&trace);
        for (first, second) in Limit::ALL.iter().flat_map(|a| Limit::ALL.iter().map(move |b| (*a, *b))) {
            // Only a sender of ours has these, and a receiver that syncs.
            if is_of_another && matches!(first, Limit::Deadline | Limit::RemoteLimit) {
                continue;
            }
            let texts = [
                (first.row().fix)(&facts),
                (first.row().phrase)(&facts),
                crate::decide::decide(first, Some(second), is_of_another).to_owned(),
                crate::decide::decide(first, None, is_of_another).to_owned(),
            ];
            for text in texts {
                let foreign = if is_of_another { &own[..] } else { &["rsync", "scp", "--limit-rate"][..] };
                let found = foreign.iter().find(|option| text.contains(**option));
                assert_eq!(found, None, "{first:?} of another program: {is_of_another}: {text}");
            }
        }
    }
}

#[test]
fn rates_are_found_in_a_text() {
    let text = "it drops what exceeds 93.4 Mbit/s; up to 1.20 Gbit/s (0.00 kbit/s) in 20 ms";
    assert_eq!(rates_in(text), [93.4e6, 1.2e9, 0.0]);
}
