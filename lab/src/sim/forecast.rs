//! `fobs-lab sim forecast`: what `auto` makes of a path of a known rate, round trip and loss.
//!
//! `fobs explain -- rsync ...` says what `fobs` would make of the same path. The program that users have
//! links no simulator, so this writes the table that it looks into.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::ValueHint;
use fobs_proto::congestion::CongestionControl;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::report::span;
use fobs_sim::rng::{Chance, Rng};
use fobs_sim::scene::Scene;
use fobs_sim::time::{MS, Nanos, SEC, seconds, time_for};
use serde_json::json;

use crate::failure::{EXIT_INTERNAL, Failure};
use crate::output::{print, write_file};

/// Stream of the draws: no actor's.
const STREAM: u64 = 0x6ec5;
/// The paths: Mbit/s, ms, share of the packets that is lost.
const RATES: [u64; 4] = [2, 10, 40, 100];
const RTTS: [u64; 4] = [1, 10, 40, 150];
const LOSSES: [f64; 4] = [0.0, 0.001, 0.01, 0.03];
/// Copies over each, with queues drawn between these bandwidth-delay products.
const COPIES: u64 = 8;
const QUEUES: (f64, f64) = (0.1, 2.0);
/// Shortest queue, bytes.
const QUEUE_MIN: f64 = 30_000.0;
/// How long a copy takes at the path's rate.
const LASTS: Nanos = 8 * SEC;
/// Places of the tenth and the ninetieth of a hundred in a sorted list, of [`COPIES`] at least.
const SHARES: (f64, f64) = (0.1, 0.9);

/// Write what auto makes of paths of known rate, round trip and loss.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct ForecastArgs {
    /// Write the table to this file instead of standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
}

pub fn run(args: &ForecastArgs) -> Result<(), Failure> {
    let mut text = String::new();
    for rate in RATES {
        for rtt in RTTS {
            for loss in LOSSES {
                let (p10, p90) = of_path(rate * 1_000_000, rtt * MS, loss)
                    .map_err(|error| Failure::with_code(EXIT_INTERNAL, error))?;
                let row = json!({ "rate_mbit": rate, "rtt_ms": rtt, "loss": loss, "p10": p10, "p90": p90 });
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{row}");
            }
        }
    }
    match &args.out {
        Some(path) => write_file(path, &text),
        None => print(&text),
    }
}

/// The tenth and the ninetieth of a hundred copies, as parts of the rate.
fn of_path(rate: u64, rtt: Nanos, loss: f64) -> Result<(f64, f64), String> {
    let mut parts = Vec::new();
    for seed in 0..COPIES {
        parts.push(copy(rate, rtt, loss, seed)?);
    }
    parts.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = ((parts.len() - 1) as f64 * share).round() as usize;
        parts.get(place).map_or(0.0, |part| (part * 1e3).round() / 1e3)
    };
    Ok((at(SHARES.0), at(SHARES.1)))
}

fn copy(rate: u64, rtt: Nanos, loss: f64, seed: u64) -> Result<f64, String> {
    let bytes = (u128::from(rate) * u128::from(LASTS) / u128::from(8 * SEC)) as u64;
    let product = rate as f64 / 8.0 * seconds(rtt);
    let queue = product * Rng::stream(seed, STREAM).log_uniform(QUEUES.0, QUEUES.1);
    let mut played = Scene::new(rate, rtt)
        .seed(seed + 1)
        .queue(queue.max(QUEUE_MIN) as u64)
        .link(|link| link.faults.loss = Chance::of(loss))
        .lasts(20 * LASTS)
        .fobs(FobsConfig::new(Object::Bytes(bytes), CongestionControl::Auto))
        .start();
    let end = played.world.config().duration;
    played.world.run_until(end).map_err(|violation| format!("seed {seed}: {violation}"))?;
    let view = played.flow(0);
    let took = span(&view.figures, view.outcome, played.world.now()).max(1);
    Ok(time_for(bytes, rate) as f64 / took as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_path_is_filled_and_a_lossy_one_loses_what_it_loses() {
        let (p10, p90) = of_path(10_000_000, 10 * MS, 0.0).expect("it plays");
        assert!(0.8 < p10 && p10 <= p90 && p90 <= 1.0, "{p10} {p90}");
        let (_, lossy) = of_path(10_000_000, 10 * MS, 0.03).expect("it plays");
        assert!(lossy < p90, "{lossy}");
    }
}
