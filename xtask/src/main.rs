//! Chores of this repository that a shell script would do badly.

#![forbid(unsafe_code)]

mod licences;
mod tidy;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
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
    /// Print which module of each crate names which, one arrow a line with a place
    Rooms {
        /// The repository
        #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/.."))]
        root: PathBuf,
    },
    /// Print the licence texts of everything that is linked into fobs for a target
    Licences {
        /// The target, as rustc names it
        target: String,
        /// A licence of what is linked beside crates
        #[arg(long, value_name = "NAME=FILE")]
        also: Vec<String>,
        /// The repository
        #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/.."))]
        root: PathBuf,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().chore {
        Chore::Tidy { root } => tidy(&root),
        Chore::Rooms { root } => match tidy::rooms_of(&root) {
            Ok(arrows) => {
                print!("{arrows}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("rooms: {error}");
                ExitCode::FAILURE
            }
        },
        Chore::Licences { target, also, root } => match licences::document(&root, &target, &also) {
            Ok(document) => {
                print!("{document}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("licences: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

fn tidy(root: &Path) -> ExitCode {
    match tidy::check(root) {
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
