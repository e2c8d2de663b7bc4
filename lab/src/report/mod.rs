//! `fobs-lab report`: tables and a page with figures from result files.
//!
//! Only valid runs are shown, as medians with their spread; the others are counted and named. The plan
//! defines the figures ([`figure`]) and is part of the result file's header, so the plan's file is not
//! needed. Steps: [`read`] a file, group runs into [`panel`]s by [`measure`]s, [`plot`] them, make
//! [`table`]s, and write [`markdown`] or a [`page`].

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

mod aggregate;
pub mod figure;
mod markdown;
mod measure;
mod page;
pub mod palette;
mod panel;
mod place;
pub mod plot;
pub mod read;
#[cfg(test)]
mod sample;
mod table;
mod words;

pub use aggregate::Spread;
pub use figure::{Shown, matches};

/// Options of `report`.
#[derive(clap::Args)]
#[command(about = "Make tables and an HTML page with plots from result files")]
pub struct Args {
    /// Result files of `fobs-lab run`
    #[arg(required = true, value_name = "RESULT.jsonl")]
    results: Vec<PathBuf>,
    /// Write one self-contained HTML page to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write tables in Markdown to FILE [default without --html: standard output]
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// Why the report could not be made.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error(transparent)]
    Read(#[from] read::ReadError),
    #[error(transparent)]
    Draw(#[from] plot::DrawError),
    #[error("cannot write {file}: {error}")]
    Write { file: String, error: io::Error },
}

/// Makes the report; errors are printed to standard error, one sentence each.
pub fn main(args: &Args) -> ExitCode {
    match report(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fobs-lab: {error}");
            ExitCode::from(crate::failure::EXIT_USAGE)
        }
    }
}

fn report(args: &Args) -> Result<(), ReportError> {
    let results: Vec<read::Results> =
        args.results.iter().map(|file| read::results(file)).collect::<Result<_, _>>()?;
    if let Some(file) = &args.html {
        let page = page::page(&results)?;
        let failed = |error| ReportError::Write { file: file.display().to_string(), error };
        fs::write(file, page).map_err(failed)?;
    }
    if args.markdown.is_some() || args.html.is_none() {
        let text: String = results.iter().map(markdown::section).collect::<Vec<_>>().join("\n");
        match &args.markdown {
            Some(file) => fs::write(file, text)
                .map_err(|error| ReportError::Write { file: file.display().to_string(), error })?,
            None => match io::stdout().write_all(text.as_bytes()) {
                // A closed pipe is not an error.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                written => written
                    .map_err(|error| ReportError::Write { file: "to standard output".to_owned(), error })?,
            },
        }
    }
    Ok(())
}
