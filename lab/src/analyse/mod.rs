//! `fobs-lab analyse`: the tables that documents quote.

use std::process::ExitCode;

/// Options of `analyse`.
#[derive(clap::Args)]
pub struct Args {}

pub fn main(_: &Args) -> ExitCode {
    ExitCode::SUCCESS
}
