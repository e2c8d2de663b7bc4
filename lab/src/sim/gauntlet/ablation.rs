//! `--ablate` and `--without`: what each rule of `auto` is worth.
//!
//! A rule is removed by numbers that make it idle, so that what ships has no switch for it. Every variant
//! plays the same cells. A cell's figure is the goodput over the best of all variants and of the other
//! controllers; beside neighbours it is how near the transfer came to its fair share. The figures are taken
//! over all cells and over the cells of each kind, and a rule's worth is what they lose without it, in the
//! kind that loses most.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fobs_proto::congestion::{CongestionControl, Params};
use fobs_sim::gauntlet::{Cell, Contestant, Outcomes, draw, play_tuned};

use super::table::at;
use super::{GauntletArgs, on_threads};
use crate::failure::Failure;
use crate::output::print;

/// Least cells of a kind that is looked at alone.
const KIND_MIN: usize = 12;
/// Loss of the median, and of the 5th percentile, from which a rule pays.
const PAYS: (f64, f64) = (0.01, 0.03);
/// The same of the waste: a rule that keeps the 95th percentile lower by this much pays.
const PAYS_WASTE: f64 = 0.01;

/// A rule, and the numbers that make it idle.
struct Rule {
    name: &'static str,
    idle: &'static [(&'static str, f64)],
}

const fn rule(name: &'static str, idle: &'static [(&'static str, f64)]) -> Rule {
    Rule { name, idle }
}

/// The rules of `auto`, in the order of docs/controllers.md.
const RULES: &[Rule] = &[
    rule("ramp-faster", &[("ramp_rounds", 20.0)]),
    rule("noise", &[("noise_deviations", 0.0)]),
    rule("target-by-window", &[("queue_window", 1.0), ("long_path", 10_000.0)]),
    rule("target-long-path", &[("long_path", 10_000.0)]),
    rule("target-packets", &[("queue_packets", 1.0)]),
    // The floor, and the bounds of the target.
    rule("floor", &[("scale_min", 0.01)]),
    rule("creep", &[("creep_max", 0.0)]),
    rule("drain-cycle", &[("drain_cycle_min", 60_000.0)]),
    // What was yielded, and another flow that joined.
    rule("resume", &[("resume_share", 0.0)]),
    // What persistent losses, self-induced queues, bursts and longer paths are believed by.
    rule("in-a-row", &[("in_a_row", 1000.0)]),
    rule("loss-compensated", &[("loss_share_max", 0.0)]),
    rule("chance", &[("sigmas", 0.0), ("few_packets", 1.0)]),
    rule("collapse", &[("collapse_share", 1.0)]),
    rule("bursts", &[("steep_min", 1.0)]),
    rule("crowd", &[("crowd_rounds", 1000.0)]),
    rule("patience", &[("patience_rounds", 0.0)]),
    rule("longer", &[("longer_still", 0.0)]),
];

/// These numbers without some rules.
pub fn without(mut params: Params, names: &[String]) -> Result<Params, Failure> {
    for name in names {
        let rule = RULES.iter().find(|rule| rule.name == name).ok_or_else(|| {
            let known: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
            Failure::new(format!("auto has no rule {name}; the rules are {}", known.join(", ")))
        })?;
        remove(&mut params, rule)?;
    }
    Ok(params)
}

fn remove(params: &mut Params, rule: &Rule) -> Result<(), Failure> {
    for (name, value) in rule.idle {
        let set = params.set(name, *value);
        set.map_err(|error| Failure::new(format!("the rule {} cannot be removed: {error}", rule.name)))?;
    }
    Ok(())
}

/// What one variant made of all cells.
struct Variant {
    name: &'static str,
    outcomes: Vec<Outcomes>,
}

/// Plays all cells with all variants and prints what each rule is worth.
pub fn run(from: u64, args: &GauntletArgs, params: &Params) -> Result<(), Failure> {
    let drawn = (0..args.cells).map(|index| draw(from.wrapping_add(index)));
    let cells: Vec<Cell> = drawn.filter(|cell| args.only.is_none_or(|only| only.has(cell))).collect();
    let mut played = vec![Variant { name: "", outcomes: play(args, &cells, params) }];
    for rule in RULES {
        let mut params = *params;
        remove(&mut params, rule)?;
        played.push(Variant { name: rule.name, outcomes: play(args, &cells, &params) });
    }
    let best = best(args, &cells, &played);
    let kinds = kinds(&cells);
    let whole = Figures::of(&cells, &played[0], &best, &kinds);
    print(&format!(
        "{} cells from seed {from}; what is lost without each rule, in points; of the kind that loses most\n\n{}",
        cells.len(),
        HEAD
    ))?;
    for variant in &played[1..] {
        let figures = Figures::of(&cells, variant, &best, &kinds);
        print(&line(variant, &figures, &whole, changed(variant, &played[0])))?;
    }
    Ok(())
}

fn play(args: &GauntletArgs, cells: &[Cell], params: &Params) -> Vec<Outcomes> {
    let auto = Contestant::Fobs(CongestionControl::Auto);
    on_threads(args.threads, cells, |cell| play_tuned(cell, auto, params))
}

/// The best goodput in each cell, of all that played it.
fn best(args: &GauntletArgs, cells: &[Cell], played: &[Variant]) -> Vec<f64> {
    let others: Vec<CongestionControl> =
        args.cc.0.iter().copied().filter(|cc| !matches!(cc, CongestionControl::Auto)).collect();
    let theirs = on_threads(args.threads, cells, |cell| {
        let alone = others.iter().filter(|_| cell.neighbours.is_empty());
        let goodput = alone.map(|cc| play_tuned(cell, Contestant::Fobs(*cc), &Params::default()).goodput);
        goodput.fold(0.0, f64::max)
    });
    let ours = |index: usize| played.iter().map(|one| one.outcomes[index].goodput).fold(0.0, f64::max);
    theirs.iter().enumerate().map(|(index, theirs)| theirs.max(ours(index)).max(f64::MIN_POSITIVE)).collect()
}

/// Cells by what is odd about them; a cell may be in several.
fn kinds(cells: &[Cell]) -> BTreeMap<&'static str, Vec<usize>> {
    let mut kinds: BTreeMap<&'static str, Vec<usize>> = BTreeMap::new();
    for (index, cell) in cells.iter().enumerate() {
        match cell.neighbours.first() {
            Some(algorithm) => kinds.entry(algorithm.name()).or_default().push(index),
            None => {
                kinds.entry("alone").or_default().push(index);
                for quirk in &cell.quirks {
                    kinds.entry(quirk.kind()).or_default().push(index);
                }
                let queue = if cell.queue_products < 0.25 { "shallow" } else { "deep" };
                kinds.entry(queue).or_default().push(index);
            }
        }
    }
    kinds.retain(|_, indices| indices.len() >= KIND_MIN);
    kinds
}

/// Median and 5th percentile of the goodput, or of the fairness, and 95th of the waste, by kind.
struct Figures(BTreeMap<&'static str, (f64, f64, f64)>);

impl Figures {
    fn of(
        cells: &[Cell],
        variant: &Variant,
        best: &[f64],
        kinds: &BTreeMap<&'static str, Vec<usize>>,
    ) -> Figures {
        let score = |index: usize| {
            let one = &variant.outcomes[index];
            match (cells[index].neighbours.is_empty(), one.beside) {
                (true, _) => one.goodput / best[index],
                (false, Some(b)) => {
                    (b.own / b.neighbour.max(1e-6)).min(b.neighbour / b.own.max(1e-6)).min(1.0)
                }
                (false, None) => 1.0,
            }
        };
        let sorted = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values
        };
        let each = kinds.iter().map(|(kind, indices)| {
            let scores = sorted(indices.iter().map(|index| score(*index)).collect());
            let waste = sorted(indices.iter().map(|index| variant.outcomes[*index].excess).collect());
            (*kind, (at(&scores, 0.5), at(&scores, 0.05), at(&waste, 0.95)))
        });
        Figures(each.collect())
    }

    /// What is lost against `whole` by one figure, in the kind that loses most.
    fn lost(&self, whole: &Figures, figure: impl Fn(&(f64, f64, f64)) -> f64) -> (f64, &'static str) {
        let each = self.0.iter().map(|(kind, mine)| (figure(&whole.0[kind]) - figure(mine), *kind));
        each.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, "none"))
    }
}

/// Cells whose outcome is another without the rule.
fn changed(variant: &Variant, whole: &Variant) -> usize {
    variant.outcomes.iter().zip(&whole.outcomes).filter(|(a, b)| a != b).count()
}

const HEAD: &str = "\
| without | cells that change | median | 5th percentile | waste, 95th percentile | pays |
|---|---:|---:|---:|---:|---|
";

fn line(variant: &Variant, figures: &Figures, whole: &Figures, changed: usize) -> String {
    let median = figures.lost(whole, |one| one.0);
    let low = figures.lost(whole, |one| one.1);
    let waste = figures.lost(whole, |one| -one.2);
    let pays = median.0 >= PAYS.0 || low.0 >= PAYS.1 || waste.0 >= PAYS_WASTE;
    let mut out = format!("| {} | {changed} |", variant.name);
    for (lost, kind) in [median, low, waste] {
        let _ = write!(out, " {:.1} {kind} |", lost * 100.0);
    }
    let _ = writeln!(out, " {} |", if pays { "yes" } else { "no" });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_can_be_removed() {
        for rule in RULES {
            let mut params = Params::default();
            remove(&mut params, rule).expect("numbers in their ranges");
            assert_ne!(params, Params::default(), "{} changes nothing", rule.name);
        }
    }

    #[test]
    fn the_document_counts_the_numbers() {
        let text = include_str!("../../../../docs/controllers.md");
        let count = format!("Its {} numbers are fields of `Params`", Params::NAMES.len());
        assert!(text.contains(&count), "docs/controllers.md lacks: {count}");
    }
}
