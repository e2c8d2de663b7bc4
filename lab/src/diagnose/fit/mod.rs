//! The models of paper 001 fitted to recorded windows, and its figures 4, 5 and 6 drawn again.
//!
//! For windows of 70,000 and of 10,000 packets: the complexity C1 as two exponentials of the loss rate for
//! network loss and one for a receiver without CPU (section 3.1.6), the success proportion below a loss rate
//! of 0.0005 (3.1.5), Shapiro and Wilk's test of normality in each bin of loss rates, and 95% bands. Only
//! what the paper measured is fitted: constant flows at a tail-drop queue, and multitasking.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use fobs_diagnose::window::{Cause, Windows};
use fobs_proto::loss_cause::Features;
use fobs_proto::loss_cause::complexity::WordCounter;

use crate::failure::Failure;

mod curve;
mod draw;
mod normality;
#[cfg(test)]
mod tests;
mod words;

use curve::{Curve, Parameter};
use normality::shapiro_wilk;
use words::significant;

/// Scenarios of the recorded windows that are what the paper measured (001, section 3.1.4).
const NETWORK: [&str; 1] = ["cbr"];
const MULTITASKING: [&str; 5] = ["paper", "light", "spark", "sparkbig", "rps"];
/// Packets of a window (001, section 3.3).
const LENGTHS: [u32; 2] = [70_000, 10_000];
/// Loss rates at which success proportions and complexities are read (001, sections 3.1.5 and 3.3).
const LOSS_RATE_MIN: f64 = 8e-5;
const COMPLEXITY_FROM: f64 = 5e-4;
const LOSS_RATE_MAX: f64 = 5e-2;
/// The standard deviation of the success proportion is not below this: few windows have a loss rate that low.
const DEVIATION_MIN: f64 = 0.01;
/// Bins of loss rates from [`COMPLEXITY_FROM`] to [`LOSS_RATE_MAX`], each as wide as the others on a
/// logarithmic scale.
const BINS: usize = 8;
/// Windows that a bin needs for a test of normality.
const NORMALITY_MIN: usize = 8;
/// Probability below which normality is rejected.
const REJECTED_BELOW: f64 = 0.05;

/// Options of `fit`.
#[derive(Debug, clap::Args)]
#[command(about = "Fit the models of paper 001 to recorded windows and draw its figures 4 to 6")]
pub struct FitArgs {
    /// Files of recorded windows
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the fits as a model of the method `paper`
    #[arg(long, value_name = "FILE.json")]
    out: Option<PathBuf>,
    /// Draw figures 4 to 6 as SVG into this directory
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
}

/// Fits and prints.
pub fn run(args: &FitArgs) -> Result<(), Failure> {
    fit(args).map_err(Failure::new)
}

fn fit(args: &FitArgs) -> Result<(), String> {
    let mut fits = Vec::new();
    for packets in LENGTHS {
        let rows = rows(&args.files, packets)?;
        if rows.is_empty() {
            return Err(format!(
                "there are no windows of {packets} packets in these files: give longer ones"
            ));
        }
        let fit = Fit::of(&rows, packets)?;
        print!("{}", fit.text());
        if let Some(folder) = &args.figures {
            draw::figures(&fit, &rows, folder)?;
        }
        fits.push(fit);
    }
    if let Some(path) = &args.out {
        let lines: Vec<String> = fits.iter().map(Fit::line).collect();
        let made = "fobs-lab diagnose fit, constant flows and multitasking (docs/classifier.md)";
        let text = format!(
            "{{\"version\": 1, \"method\": \"paper\", \"made\": \"{made}\", \"fits\": [\n{}\n]}}\n",
            lines.join(",\n")
        );
        fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

/// A recorded window with loss.
#[derive(Clone, Debug)]
struct Row {
    loss_rate: f64,
    complexity: f64,
    success: f64,
    side: Option<Side>,
    /// Whether the paper measured such windows.
    of_the_paper: bool,
}

/// Where a window's packets were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Network,
    Receiver,
}

impl Side {
    const BOTH: [Side; 2] = [Side::Network, Side::Receiver];

    fn name(self) -> &'static str {
        match self {
            Side::Network => "network",
            Side::Receiver => "receiver",
        }
    }

    /// Start and bounds of the parameters: two exponentials for the network, one for a receiver.
    fn parameters(self) -> &'static [Parameter] {
        const TWO: [Parameter; 4] = [
            Parameter { start: 0.45, low: 0.05, high: 1.0 },
            Parameter { start: 2.0, low: -5.0, high: 30.0 },
            Parameter { start: -0.2, low: -1.0, high: 0.0 },
            Parameter { start: -100.0, low: -2000.0, high: -5.0 },
        ];
        const ONE: [Parameter; 2] = [
            Parameter { start: 0.3, low: 0.05, high: 1.0 },
            Parameter { start: 1.0, low: -20.0, high: 30.0 },
        ];
        match self {
            Side::Network => &TWO,
            Side::Receiver => &ONE,
        }
    }
}

/// The windows of `packets` packets in which something was lost.
fn rows(files: &[PathBuf], packets: u32) -> Result<Vec<Row>, String> {
    let (mut rows, mut words) = (Vec::new(), WordCounter::new());
    for file in files {
        for read in Windows::open(file).map_err(|error| error.to_string())? {
            let (_, window) = read.map_err(|error| error.to_string())?;
            for part in window.slices(packets) {
                let Some(features) =
                    Features::of(&part.signature).filter(|_| part.signature.packets() == packets)
                else {
                    continue;
                };
                let side = match part.cause {
                    Some(Cause::Net) => Some(Side::Network),
                    Some(Cause::Cpu) => Some(Side::Receiver),
                    Some(Cause::Hybrid) | None => None,
                };
                let scenario = part.scenario.as_str();
                rows.push(Row {
                    loss_rate: f64::from(part.signature.lost()) / f64::from(packets),
                    complexity: words.complexity(&part.signature),
                    success: features.success_proportion,
                    side,
                    of_the_paper: match side {
                        Some(Side::Network) => NETWORK.contains(&scenario),
                        Some(Side::Receiver) => MULTITASKING.contains(&scenario),
                        None => false,
                    },
                });
            }
        }
    }
    Ok(rows)
}

/// What was fitted to windows of one length.
struct Fit {
    packets: u32,
    sides: [SideFit; 2],
}

/// What was fitted to the windows of one side.
struct SideFit {
    side: Side,
    loss_rates: Vec<f64>,
    complexities: Vec<f64>,
    curve: Curve,
    /// Of the windows with loss rates below [`COMPLEXITY_FROM`].
    successes: Vec<f64>,
}

impl Fit {
    fn of(rows: &[Row], packets: u32) -> Result<Fit, String> {
        let [network, receiver] = Side::BOTH.map(|side| SideFit::of(rows, side, packets));
        Ok(Fit { packets, sides: [network?, receiver?] })
    }

    /// The fits in words.
    fn text(&self) -> String {
        let head = format!("windows of {} packets\n", self.packets);
        head + &self.sides.iter().map(SideFit::text).collect::<String>()
    }

    /// The fits as a member of a model file.
    fn line(&self) -> String {
        let members: Vec<String> = self.sides.iter().map(SideFit::members).collect();
        format!("{{\"packets\": {}, {}}}", self.packets, members.join(", "))
    }
}

impl SideFit {
    fn of(rows: &[Row], side: Side, packets: u32) -> Result<SideFit, String> {
        let these = || rows.iter().filter(|row| row.side == Some(side) && row.of_the_paper);
        let measured = || these().filter(|row| (COMPLEXITY_FROM..=LOSS_RATE_MAX).contains(&row.loss_rate));
        let loss_rates: Vec<f64> = measured().map(|row| row.loss_rate).collect();
        let complexities: Vec<f64> = measured().map(|row| row.complexity).collect();
        let curve = Curve::fit(side.parameters(), &loss_rates, &complexities)
            .map_err(|error| format!("{}, windows of {packets} packets: {error}", side.name()))?;
        let low = these().filter(|row| (LOSS_RATE_MIN..COMPLEXITY_FROM).contains(&row.loss_rate));
        let successes = low.map(|row| row.success).collect();
        Ok(SideFit { side, loss_rates, complexities, curve, successes })
    }

    /// Mean and standard deviation of the success proportion; without windows, what the paper expects.
    fn success(&self) -> (f64, f64) {
        let count = self.successes.len() as f64;
        if self.successes.is_empty() {
            return (if self.side == Side::Receiver { 1.0 } else { 0.0 }, 0.0);
        }
        let mean = self.successes.iter().sum::<f64>() / count;
        let squares: f64 = self.successes.iter().map(|success| (success - mean).powi(2)).sum();
        (mean, (squares / count).sqrt())
    }

    /// Loss rates, complexities of each bin: (low, high, complexities less the curve, complexities).
    fn bins(&self) -> Vec<Bin> {
        let edge = |index: usize| {
            COMPLEXITY_FROM * (LOSS_RATE_MAX / COMPLEXITY_FROM).powf(index as f64 / BINS as f64)
        };
        let bins = (0..BINS).map(|index| {
            let (low, high) = (edge(index), edge(index + 1));
            let inside = || {
                let pairs = self.loss_rates.iter().zip(&self.complexities);
                pairs.filter(move |(rate, _)| (low..high).contains(*rate))
            };
            Bin {
                low,
                high,
                left: inside().map(|(rate, complexity)| complexity - self.curve.at(*rate)).collect(),
                complexities: inside().map(|(_, complexity)| *complexity).collect(),
            }
        });
        bins.collect()
    }

    fn text(&self) -> String {
        let (name, curve) = (self.side.name(), &self.curve);
        let errors = curve.errors();
        let values = curve.values.iter().zip(&errors);
        let values = values.map(|(v, e)| format!("{} +- {}", significant(*v, 4), significant(*e, 2)));
        let values = values.collect::<Vec<_>>().join(", ");
        let (count, deviation) = (self.loss_rates.len(), curve.deviation);
        let mut text = format!("  C1, {name}: {count} windows; {values}; deviation {deviation:.4}\n");
        for bin in self.bins().iter().filter(|bin| bin.left.len() >= NORMALITY_MIN) {
            let Some(p) = shapiro_wilk(&bin.left) else { continue };
            let word = if p < REJECTED_BELOW { "rejected" } else { "not rejected" };
            let (low, high, count) = (bin.low, bin.high, bin.left.len());
            let p = significant(p, 2);
            let _ = writeln!(text, "    loss {low:.4}..{high:.4}: {count} windows, normal {word} (p = {p})");
        }
        let (mean, spread) = self.success();
        let count = self.successes.len();
        text + &format!("  success proportion, {name}: {count} windows; {mean:.4}, deviation {spread:.4}\n")
    }

    fn members(&self) -> String {
        let rounded = |value: f64| format!("{:?}", (value * 1e6).round() / 1e6);
        let pairs = self.curve.values.chunks_exact(2);
        let pairs: Vec<String> =
            pairs.map(|pair| format!("[{}, {}]", rounded(pair[0]), rounded(pair[1]))).collect();
        let (mean, spread) = self.success();
        let name = self.side.name();
        format!(
            "\"{name}\": [[{}], {}], \"{name}_success\": [{}, {}]",
            pairs.join(", "),
            rounded(self.curve.deviation),
            rounded(mean),
            rounded(spread.max(DEVIATION_MIN)),
        )
    }
}

/// The windows of a bin of loss rates.
struct Bin {
    low: f64,
    high: f64,
    /// Complexities less the curve.
    left: Vec<f64>,
    complexities: Vec<f64>,
}
