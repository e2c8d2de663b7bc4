//! `fobs-lab analyse`: the tables that documents quote, made of records, of virtual time and of trials.
//!
//! - [`agreement`]: goodput of the laboratory beside that of the simulator, path by path,
//! - [`controllers`]: every congestion control over the paths of a plan,
//! - [`spared`]: how many losses the verdicts kept from the controller, from traces of copies,
//! - [`trials`]: one limit at a time put into real copies, and what `fobs cp --explain` names.

use std::process::ExitCode;

use clap::Subcommand;

mod agreement;
mod controllers;
mod spared;
mod trials;
mod virtual_path;

/// Options of `analyse`.
#[derive(clap::Args)]
#[command(about = "Make the tables that documents quote, of records, of virtual time and of trials")]
pub struct Args {
    #[command(subcommand)]
    analysis: Analysis,
}

#[derive(Subcommand)]
enum Analysis {
    Agreement(agreement::Args),
    Controllers(controllers::Args),
    Spared(spared::Args),
    ExplainTrials(trials::Args),
}

/// Runs an analysis; errors are one sentence on standard error.
pub fn main(args: &Args) -> ExitCode {
    let done = match &args.analysis {
        Analysis::Agreement(args) => agreement::run(args),
        Analysis::Controllers(args) => controllers::run(args),
        Analysis::Spared(args) => spared::run(args),
        Analysis::ExplainTrials(args) => return trials::main(args),
    };
    finish(done)
}

/// The exit code of an analysis, after its error.
fn finish(done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fobs-lab: {error}");
            ExitCode::from(crate::failure::EXIT_USAGE)
        }
    }
}
