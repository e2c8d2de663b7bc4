//! `fobs-lab`: a wide-area path on one machine, the papers' experiments over it, and reports of them.
//!
//! - `link` emulates a path between network namespaces ([`link`]),
//! - `run` puts tools over such paths as a plan says and writes records ([`plan`], [`tool`], [`run`],
//!   [`record`]),
//! - `report` makes tables, plots and a page of records ([`report`]),
//! - `bench` measures FOBS beside other tools on one machine ([`bench`]),
//! - `analyse` makes the tables that documents quote, of records, of virtual time and of trials
//!   ([`analyse`]).
//!
//! For real sockets it drives installed binaries, FOBS among them; for virtual time it links the simulator.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod analyse;
mod bench;
mod link;
mod plan;
mod record;
mod report;
mod run;
mod tool;
mod units;

/// Exit code of a command line or a plan that makes no sense, or a run that could not be made.
pub const EXIT_USAGE: u8 = 1;
/// Exit code of what needs root and has not got it: test harnesses read it as "skipped".
pub const EXIT_NO_ROOT: u8 = 77;

#[derive(Parser)]
#[command(name = "fobs-lab", version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Link(link::Args),
    Run(run::Args),
    Report(report::Args),
    Bench(bench::Args),
    Analyse(analyse::Args),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Link(args) => link::main(&args),
        Command::Run(args) => run::main(&args),
        Command::Report(args) => report::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Analyse(args) => analyse::main(&args),
    }
}
