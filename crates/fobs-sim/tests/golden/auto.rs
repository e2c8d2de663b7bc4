//! `auto` alone over rates, round trips, queues and losses.

use crate::support::each;
use crate::{CELLS, Figures, MBIT, SEEDS, compare};
use fobs_proto::congestion::CongestionControl;
use fobs_sim::Scene;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::rng::Chance;
use fobs_sim::time::{MS, Nanos, SEC, US};
use std::fmt::Write as _;

const RTTS: [Nanos; 4] = [200 * US, 26 * MS, 65 * MS, 200 * MS];
/// Shortest queue, bytes: 40 full packets.
const QUEUE_MIN: u64 = 60_000;

/// Whole transfers at one rate.
fn table(rate: u64, mebibytes: u64) {
    let runs: Vec<(Nanos, u32, u64, u64)> = RTTS
        .iter()
        .flat_map(|rtt| CELLS.map(|(_, loss, quarters)| (*rtt, loss, quarters)))
        .flat_map(|(rtt, loss, quarters)| SEEDS.map(|seed| (rtt, loss, quarters, seed)))
        .collect();
    let figures = each(&runs, |(rtt, loss_ppm, quarters, seed)| {
        let product = (u128::from(rate) * u128::from(*rtt) / u128::from(8 * SEC)) as u64;
        let mut played = Scene::new(rate, *rtt)
            .seed(*seed)
            .lasts(1_000 * SEC)
            .queue((product * quarters / 4).max(QUEUE_MIN))
            .link(|link| link.faults.loss = Chance::ppm(*loss_ppm))
            .fobs(FobsConfig::new(Object::Bytes(mebibytes << 20), CongestionControl::Auto))
            .play();
        assert!(played.flow(0).outcome.is_complete(), "{rtt} ns, {loss_ppm} ppm, {quarters}/4, seed {seed}");
        Figures::of(&mut played)
    });
    let mut text = format!(
        "auto, {mebibytes} MiB at {} Mbit/s: goodput and waste in %, median delay in the queue in ms.\n\n{:>6}",
        rate / MBIT,
        "RTT ms"
    );
    text += &CELLS.map(|cell| format!(" |{:^17}", cell.0)).concat();
    text += &format!("\n{:>6}{}\n", "", format!(" |{}", Figures::HEAD).repeat(CELLS.len()));
    for (rtt, row) in RTTS.iter().zip(figures.chunks(CELLS.len() * SEEDS.len())) {
        write!(text, "{:>6.1}", *rtt as f64 / MS as f64).expect("a string");
        for cell in row.chunks(SEEDS.len()) {
            write!(text, " |{}", Figures::cell(cell)).expect("a string");
        }
        text.push('\n');
    }
    compare(&format!("auto-{}", rate / MBIT), &text);
}

#[test]
fn auto_does_as_the_table_of_100_mbit_says() {
    table(100 * MBIT, 64);
}

#[test]
#[cfg(feature = "long")]
fn auto_does_as_the_table_of_10_mbit_says() {
    table(10 * MBIT, 64);
}

#[test]
#[cfg(feature = "long")]
fn auto_does_as_the_table_of_1000_mbit_says() {
    table(1000 * MBIT, 256);
}
