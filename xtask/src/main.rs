//! Chores of this repository that a shell script would do badly.

#![forbid(unsafe_code)]

mod changelog;
mod chart;
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
    /// Print the next section of CHANGELOG.md from the files of changes/, or put it there and remove them
    Changelog {
        /// The version that is released
        #[arg(long, value_name = "VERSION", requires = "date")]
        release: Option<String>,
        /// The day of it, YYYY-MM-DD
        #[arg(long, requires = "release")]
        date: Option<String>,
        /// The repository
        #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/.."))]
        root: PathBuf,
    },
    /// Draw the chart of README.md from its table
    Chart {
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
        Chore::Rooms { root } => print("rooms", tidy::rooms_of(&root)),
        Chore::Changelog { release, date, root } => {
            let release = release.zip(date).map(|(version, date)| changelog::Release { version, date });
            print("changelog", changelog::make(&root, release.as_ref()))
        }
        Chore::Chart { root } => print("chart", chart(&root)),
        Chore::Licences { target, also, root } => {
            print("licences", licences::document(&root, &target, &also))
        }
    }
}

/// Draws the chart and puts it into its place.
fn chart(root: &Path) -> Result<String, String> {
    let failed = |what: &str, error: std::io::Error| format!("cannot {what}: {error}");
    let readme =
        std::fs::read_to_string(root.join(chart::SOURCE)).map_err(|e| failed("read README.md", e))?;
    std::fs::write(root.join(chart::PICTURE), chart::draw(&readme)?)
        .map_err(|e| failed("write the chart", e))?;
    Ok(format!("{}\n", chart::PICTURE))
}

/// Prints what a chore made, or why it made nothing.
fn print(chore: &str, made: Result<String, String>) -> ExitCode {
    match made {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{chore}: {error}");
            ExitCode::FAILURE
        }
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
