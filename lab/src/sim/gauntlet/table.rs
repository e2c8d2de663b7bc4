//! What a run of the gauntlet prints: distributions, and the worst cells with what replays them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fobs_sim::flow::tcp::Algorithm;
use fobs_sim::gauntlet::{Beside, Cell};
use fobs_sim::time::MS;

use super::Played;

/// Cells that are named for each figure.
const WORST: usize = 6;

/// One cell and contestant.
pub fn line(one: &Played, best: f64) -> String {
    let o = &one.outcomes;
    let beside = o.beside.map_or(String::new(), |b| format!(" beside {:.2}:{:.2}", b.own, b.neighbour));
    format!(
        "{:<10} {} {:<9} {:.2}M {:.3} of best, {:.2}s, first byte {:.0}ms, silent {:.0}ms, excess {:.2}%, queue {:.1}ms{beside}\n",
        one.name,
        one.cell,
        o.end,
        o.goodput,
        o.goodput / best.max(f64::MIN_POSITIVE),
        o.seconds,
        o.first_byte_ms,
        o.silence_ms,
        o.excess * 100.0,
        o.queue_ms,
    )
}

/// The command that plays a cell again.
pub fn replay(cell: &Cell) -> String {
    format!("fobs-lab sim gauntlet --cells 1 --seed {} --cc auto --trace 100", cell.seed)
}

/// A value at a share of the sorted ones.
pub fn at(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
}

/// In ascending order.
pub fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn is_alone(one: &&Played) -> bool {
    one.cell.neighbours.is_empty()
}

/// All tables.
pub fn table(played: &[Played], best: &BTreeMap<u64, f64>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for one in played {
        if !names.contains(&one.name.as_str()) {
            names.push(&one.name);
        }
    }
    let mut out = String::new();
    alone(&mut out, &names, played, best);
    beside(&mut out, &names, played);
    worst(&mut out, names.first().copied().unwrap_or_default(), played, best);
    out
}

fn alone(out: &mut String, names: &[&str], played: &[Played], best: &BTreeMap<u64, f64>) {
    if !played.iter().any(|one| is_alone(&one)) {
        return;
    }
    let _ = writeln!(
        out,
        "\nalone        cells  done | of best: p0    p5   p50 | excess % p50   p95 | queue ms p50    p95 | first byte, RTT p50   p95 | silent ms p50    p95"
    );
    for name in names.iter().filter(|name| !name.starts_with("tcp-")) {
        let mine: Vec<&Played> = played.iter().filter(is_alone).filter(|one| one.name == *name).collect();
        let of = |value: &dyn Fn(&Played) -> f64| sorted(mine.iter().map(|one| value(one)).collect());
        let share = of(&|one| one.outcomes.goodput / best[&one.cell.seed].max(f64::MIN_POSITIVE));
        let excess = of(&|one| one.outcomes.excess * 100.0);
        let queue = of(&|one| one.outcomes.queue_ms);
        let first = of(&|one| one.outcomes.first_byte_ms * MS as f64 / one.cell.rtt as f64);
        let silent = of(&|one| one.outcomes.silence_ms);
        let done = mine.iter().filter(|one| one.outcomes.complete).count();
        let _ = writeln!(
            out,
            "{name:<12} {:>5} {done:>5} |     {:.3} {:.3} {:.3} |   {:>7.2} {:>5.1} |  {:>7.1} {:>6.1} |             {:>7.1} {:>5.1} |      {:>7.0} {:>6.0}",
            mine.len(),
            at(&share, 0.0),
            at(&share, 0.05),
            at(&share, 0.5),
            at(&excess, 0.5),
            at(&excess, 0.95),
            at(&queue, 0.5),
            at(&queue, 0.95),
            at(&first, 0.5),
            at(&first, 0.95),
            at(&silent, 0.5),
            at(&silent, 0.95),
        );
    }
}

/// Cells with neighbours of one kind, as they are compared.
struct Company {
    title: &'static str,
    has: fn(&Cell) -> bool,
}

const COMPANIES: [Company; 4] = [
    Company {
        title: "one cubic, 1/4 to 4 BDP",
        has: |cell| cell.neighbours == [Algorithm::Cubic] && (0.25..=4.0).contains(&cell.queue_products),
    },
    Company { title: "one bbr", has: |cell| cell.neighbours == [Algorithm::Bbr] },
    Company { title: "cubic or reno", has: |cell| !cell.neighbours.contains(&Algorithm::Bbr) },
    Company { title: "bbr", has: |cell| cell.neighbours.contains(&Algorithm::Bbr) },
];

/// An equal share is one within this factor of the neighbour's.
const EQUAL: f64 = 1.6;

fn beside(out: &mut String, names: &[&str], played: &[Played]) {
    let cubic: BTreeMap<u64, Beside> = played
        .iter()
        .filter(|one| one.name == "tcp-cubic")
        .filter_map(|one| Some((one.cell.seed, one.outcomes.beside?)))
        .collect();
    for Company { title, has } in &COMPANIES {
        let met: Vec<(&Played, Beside)> = played
            .iter()
            .filter(|one| !one.cell.neighbours.is_empty() && has(&one.cell))
            .filter_map(|one| Some((one, one.outcomes.beside?)))
            .collect();
        if met.is_empty() {
            continue;
        }
        let _ = writeln!(
            out,
            "\n{title:<25} cells | own/neighbour: p10   p50    p90 equal % | own / cubic's in our place: p10   p50  >=1 % | neighbour / beside cubic: p10   p50"
        );
        for name in names {
            let mine: Vec<(u64, Beside)> =
                met.iter().filter(|(one, _)| one.name == *name).map(|(one, b)| (one.cell.seed, *b)).collect();
            let ratio = sorted(mine.iter().map(|(_, b)| b.own / b.neighbour.max(1e-6)).collect());
            let own = mine.iter().filter_map(|(seed, b)| Some(b.own / cubic.get(seed)?.own.max(1e-6)));
            let own = sorted(own.collect());
            let left =
                mine.iter().filter_map(|(seed, b)| Some(b.neighbour / cubic.get(seed)?.neighbour.max(1e-6)));
            let left = sorted(left.collect());
            let part = |all: &[f64], is: &dyn Fn(f64) -> bool| {
                all.iter().filter(|value| is(**value)).count() as f64 * 100.0 / all.len().max(1) as f64
            };
            let _ = writeln!(
                out,
                "{name:<25} {:>5} |              {:>6.2} {:>5.2} {:>6.1} {:>7.0} |                           {:>5.2} {:>5.2} {:>6.0} |                         {:>5.2} {:>5.2}",
                mine.len(),
                at(&ratio, 0.1),
                at(&ratio, 0.5),
                at(&ratio, 0.9),
                part(&ratio, &|ratio| (1.0 / EQUAL..=EQUAL).contains(&ratio)),
                at(&own, 0.1),
                at(&own, 0.5),
                part(&own, &|own| own >= 1.0),
                at(&left, 0.1),
                at(&left, 0.5),
            );
        }
    }
}

fn worst(out: &mut String, name: &str, played: &[Played], best: &BTreeMap<u64, f64>) {
    let mine: Vec<&Played> = played.iter().filter(|one| one.name == name).collect();
    let share = |one: &Played| one.outcomes.goodput / best[&one.cell.seed].max(f64::MIN_POSITIVE);
    let mut list = |title: &str, unit: &str, value: &dyn Fn(&Played) -> Option<f64>| {
        let mut ranked: Vec<(f64, &Played)> =
            mine.iter().filter_map(|one| Some((value(one)?, *one))).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let _ = writeln!(out, "\n{name}, {title}:");
        for (value, one) in ranked.into_iter().take(WORST) {
            let _ = writeln!(out, "  {value:.3}{unit}  {}  ({})", one.cell, replay(&one.cell));
        }
    };
    let alone = |one: &Played| one.cell.neighbours.is_empty();
    list("farthest from the best", " lost", &|one| alone(one).then(|| 1.0 - share(one)));
    list("most excess waste", "", &|one| alone(one).then_some(one.outcomes.excess));
    list("longest queue, round trips", "", &|one| {
        alone(one).then(|| one.outcomes.queue_ms * 1e6 / one.cell.rtt as f64)
    });
    list("longest without progress, ms", "", &|one| alone(one).then_some(one.outcomes.silence_ms));
    list("least beside neighbours (neighbour/own)", "", &|one| {
        one.outcomes.beside.map(|b| b.neighbour / b.own.max(1e-6))
    });
    list("most beside neighbours (own/neighbour)", "", &|one| {
        one.outcomes.beside.map(|b| b.own / b.neighbour.max(1e-6))
    });
    let unfinished = mine.iter().filter(|one| is_alone(one) && !one.outcomes.complete);
    for one in unfinished {
        let _ = writeln!(out, "not complete ({}): {}  ({})", one.outcomes.end, one.cell, replay(&one.cell));
    }
}
