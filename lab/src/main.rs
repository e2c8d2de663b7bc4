//! `fobs-lab`: everything for research on FOBS that a user of `fobs` does not install.
//!
//! - `link` emulates a path between network namespaces ([`link`]),
//! - `run` runs tools over such paths as a plan says, and writes records ([`run`], [`record`]),
//! - `report` makes tables, plots and a page of records ([`report`]),
//! - `bench` measures FOBS beside other tools on one machine ([`mod@bench`]),
//! - `trees` measures copies and syncs of trees over an emulated path ([`trees`]),
//! - `crash` kills either side of real copies and goes on with them ([`crash`]),
//! - `flood` copies while forged datagrams arrive ([`flood`]),
//! - `hostile` plays clients that break the rules against a server ([`hostile`]),
//! - `analyse` makes the tables that documents quote, of records, virtual time and trials ([`analyse`]),
//! - `sim` runs the protocol in virtual time ([`sim`]),
//! - `diagnose` classifies recorded losses, and trains and scores classifiers ([`diagnose`]).
//!
//! Experiments on real sockets run installed binaries only, `fobs` among them; the crate `fobs` is not
//! linked. `sim`, `analyse` and `diagnose` link `fobs-sim`, `fobs-proto` and `fobs-diagnose`.

#![deny(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod analyse;
mod bench;
mod crash;
mod delta;
mod diagnose;
mod failure;
mod flood;
mod hostile;
mod link;
mod output;
mod plan;
mod record;
mod report;
mod run;
mod sim;
mod tool;
mod trees;
mod units;

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
    Sim(sim::Args),
    Diagnose(diagnose::Args),
    Bench(bench::Args),
    Trees(trees::Args),
    Delta(delta::Args),
    Crash(crash::Args),
    Flood(flood::Args),
    Hostile(hostile::Args),
    Analyse(analyse::Args),
}

fn main() -> ExitCode {
    let command = match Arguments::try_parse() {
        Ok(arguments) => arguments.command,
        Err(error) => {
            // A reader that has closed the pipe is no failure.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { failure::EXIT_USAGE } else { 0 });
        }
    };
    match command {
        Command::Link(args) => link::main(&args),
        Command::Run(args) => run::main(&args),
        Command::Report(args) => report::main(&args),
        Command::Sim(args) => sim::main(&args),
        Command::Diagnose(args) => diagnose::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Trees(args) => trees::main(&args),
        Command::Delta(args) => delta::main(&args),
        Command::Crash(args) => crash::main(&args),
        Command::Flood(args) => flood::main(&args),
        Command::Hostile(args) => hostile::main(&args),
        Command::Analyse(args) => analyse::main(&args),
    }
}
