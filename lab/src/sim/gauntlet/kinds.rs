//! `--kinds`: paths of one kind after the other, `auto` beside the simulator's TCP flows on the same ones.

use std::fmt::Write as _;
use std::str::FromStr;

use fobs_proto::congestion::Params;
use fobs_sim::flow::tcp::Algorithm;
use fobs_sim::gauntlet::{Cell, Contestant, Kind, Outcomes, draw_kind, play_tuned, play_watched};
use fobs_sim::time::MS;

use super::table::{at, sorted};
use super::{GauntletArgs, on_threads, trace};
use crate::failure::Failure;
use crate::output::print;

/// The kinds to play.
#[derive(Debug, Clone)]
pub struct Kinds(Vec<Kind>);

impl FromStr for Kinds {
    type Err = String;

    fn from_str(text: &str) -> Result<Kinds, String> {
        if text == "all" {
            return Ok(Kinds(Kind::ALL.to_vec()));
        }
        let one = |name: &str| {
            Kind::ALL.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| {
                let known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
                format!("there is no kind {name}; the kinds are {}", known.join(", "))
            })
        };
        text.split(',').map(one).collect::<Result<_, _>>().map(Kinds)
    }
}

const HEAD: &str = "\
| kind | contestant | cells | complete | of the link, %: p5 | median | over tcp-bbr: p10 | median | excess waste, %: median | p95 | queue, ms: p95 |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
";

/// Plays them and prints a table.
pub fn run(from: u64, args: &GauntletArgs, kinds: &Kinds, params: &Params) -> Result<(), Failure> {
    let mut contestants: Vec<Contestant> = args.cc.0.iter().map(|cc| Contestant::Fobs(*cc)).collect();
    contestants.extend([Algorithm::Bbr, Algorithm::Cubic].map(Contestant::Tcp));
    print(&format!("{} cells of each kind from seed {from}\n\n{HEAD}", args.cells))?;
    for kind in &kinds.0 {
        let cells: Vec<Cell> =
            (0..args.cells).map(|index| draw_kind(*kind, from.wrapping_add(index))).collect();
        let jobs: Vec<(&Cell, Contestant)> =
            cells.iter().flat_map(|cell| contestants.iter().map(move |who| (cell, *who))).collect();
        let outcomes = on_threads(args.threads, &jobs, |(cell, who)| match args.trace {
            Some(every) => play_watched(cell, *who, params, &mut trace::printer(&who.name(), every * MS)),
            None => play_tuned(cell, *who, params),
        });
        let played: Vec<(&Cell, &[Outcomes])> =
            cells.iter().zip(outcomes.chunks(contestants.len())).collect();
        if args.verbose {
            print(&lines(&contestants, &played))?;
        }
        print(&rows(*kind, &contestants, &played))?;
    }
    Ok(())
}

/// A line for each cell: the shares of the link, and excess waste, in the order of the contestants.
fn lines(contestants: &[Contestant], played: &[(&Cell, &[Outcomes])]) -> String {
    let mut out = String::new();
    for (cell, outcomes) in played {
        let _ = write!(out, "{:>8} {cell}:", cell.seed);
        for (who, one) in contestants.iter().zip(*outcomes) {
            let (share, excess) = (one.of_link * 100.0, one.excess * 100.0);
            let _ = write!(out, " {} {share:.1} ({excess:.1})", who.name());
        }
        out.push('\n');
    }
    out
}

fn rows(kind: Kind, contestants: &[Contestant], played: &[(&Cell, &[Outcomes])]) -> String {
    let mut out = String::new();
    let reference = contestants.iter().position(|who| *who == Contestant::Tcp(Algorithm::Bbr)).unwrap_or(0);
    for (index, who) in contestants.iter().enumerate() {
        let of =
            |value: &dyn Fn(&[Outcomes]) -> f64| sorted(played.iter().map(|(_, all)| value(all)).collect());
        let share = of(&|all| all[index].of_link * 100.0);
        let ratio = of(&|all| all[index].of_link / all[reference].of_link.max(f64::MIN_POSITIVE));
        let excess = of(&|all| all[index].excess * 100.0);
        let queue = of(&|all| all[index].queue_ms);
        let complete = played.iter().filter(|(_, all)| all[index].complete).count();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {complete} | {:.1} | {:.1} | {:.2} | {:.2} | {:.2} | {:.1} | {:.0} |",
            kind.name(),
            who.name(),
            played.len(),
            at(&share, 0.05),
            at(&share, 0.5),
            at(&ratio, 0.1),
            at(&ratio, 0.5),
            at(&excess, 0.5),
            at(&excess, 0.95),
            at(&queue, 0.5),
        );
    }
    out
}
