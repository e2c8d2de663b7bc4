//! Chores of this repository that a shell script would do badly.

#![forbid(unsafe_code)]

mod tidy;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of this repository")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check the rules of the house: rooms, lengths, prose, references, names, dependencies
    Tidy {
        /// The repository
        #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/.."))]
        root: PathBuf,
    },
}

fn main() -> ExitCode {
    let Chore::Tidy { root } = Arguments::parse().chore;
    match tidy::check(&root) {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in &findings {
                eprintln!("{finding}");
            }
            eprintln!(
                "tidy: {} findings; docs: CONTRIBUTING.md, \"Rules that enforce themselves\"",
                findings.len()
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("tidy: {error}");
            ExitCode::from(2)
        }
    }
}
