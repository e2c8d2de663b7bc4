//! Every controller beside TCP, and beside flows of its own kind.

use crate::support::{each, median};
use crate::{Contestant, MBIT, SEEDS, compare};
use fobs_sim::Scene;
use fobs_sim::flow::tcp::Algorithm;
use fobs_sim::report::jain;
use fobs_sim::time::{MS, Nanos, SEC};
use std::fmt::Write as _;

const RATE: u64 = 100 * MBIT;

/// Flows through one bottleneck that start at these times: what each gets between two moments.
fn shares(flows: &[(Contestant, Nanos)], seed: u64, from: Nanos, until: Nanos) -> Vec<f64> {
    let mut scene = Scene::new(RATE, 26 * MS).seed(seed).interface_rate(2 * RATE).lasts(until);
    for (contestant, start) in flows {
        scene = scene.flow(contestant.traffic(RATE, None)).starts(*start);
    }
    scene.start().shares(from, until)
}

/// What a TCP flow keeps, percent of what both get.
fn tcp_keeps(algorithm: Algorithm, contestant: Contestant, seed: u64) -> f64 {
    let flows = [(Contestant::Tcp(algorithm), 0), (contestant, 3 * SEC)];
    let shares = shares(&flows, seed, 10 * SEC, 30 * SEC);
    shares[0] * 100.0 / (shares[0] + shares[1])
}

/// Jain's index of `count` flows, percent.
fn fairness(count: u64, contestant: Contestant, seed: u64) -> f64 {
    let flows: Vec<_> = (0..count).map(|i| (contestant, i * 2 * SEC)).collect();
    let last = (count - 1) * 2 * SEC;
    jain(&shares(&flows, seed, last + 5 * SEC, last + 15 * SEC)) * 100.0
}

#[test]
#[cfg(feature = "long")]
fn every_controller_treats_others_as_the_table_says() {
    let contestants = Contestant::all();
    let rows = each(&contestants, |contestant| {
        let row = SEEDS.map(|seed| {
            let tcp = [Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr];
            let tcp = tcp.map(|algorithm| tcp_keeps(algorithm, *contestant, seed));
            let own = [2, 4, 8].map(|count| fairness(count, *contestant, seed));
            [tcp, own].concat()
        });
        let figures = (0..6).map(|column| median(&row, |figures| figures[column]));
        figures.map(|figure| format!(" {figure:>6.0}")).collect::<String>()
    });
    let mut text = String::from(
        "100 Mbit/s, 26 ms, a queue of one bandwidth-delay product; all in %. Left: what a TCP flow keeps of what both \
         get, 10\nto 30 s after its start, where the flow of the row starts 3 s after it. Right: Jain's index of 2, 4 and \
         8 flows of the\nrow that start every 2 s, from 5 to 15 s after the last.\n\n",
    );
    let heads = ["reno", "cubic", "bbr", "2", "4", "8"].map(|head| format!(" {head:>6}")).concat();
    writeln!(text, "{:<14}{heads}", "").expect("a string");
    for (contestant, row) in contestants.iter().zip(rows) {
        writeln!(text, "{:<14}{row}", contestant.name()).expect("a string");
    }
    compare("fairness", &text);
}
