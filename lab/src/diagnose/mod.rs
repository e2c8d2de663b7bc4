//! `fobs-lab diagnose`: recorded loss windows classified, classifiers trained and scored
//! (docs/classifier.md).
//!
//! ```text
//!   classify  probability and verdict of a window, by the paper's method or ours
//!   score     tables of verdicts against labels, and the acceptance bars
//!   train     a model from labelled windows
//!   fit       the models of paper 001, and its figures 4 to 6
//!   validate  training scored on windows that were left out
//!   generate  windows of network loss from the simulator's link (`fobs_sim::signatures`)
//!   record    windows of a real receiver that has too little CPU time
//! ```
//!
//! Files of windows and models, and what trains a model after a copy, are in `fobs-diagnose`, which `fobs`
//! uses too.

pub mod args;
mod classify;
mod commands;
mod fit;
mod record;
mod score;
#[cfg(test)]
mod tests;
mod train;
mod validate;

use std::process::ExitCode;

use fobs_diagnose::ReadError;
use fobs_diagnose::model::{MixtureFile, ModelFileError, PaperFile};

use crate::failure::{self, EXIT_INTERNAL, EXIT_NO_SOURCE, Failure};
pub use args::DiagnoseArgs as Args;
use args::{DiagnoseCommand, MethodArgs};
pub use classify::{Classifier, Method};

/// Runs the command.
pub fn main(args: &Args) -> ExitCode {
    failure::exit_code(match &args.command {
        DiagnoseCommand::Classify(args) => commands::classify(args),
        DiagnoseCommand::Eval(args) => commands::eval(args),
        DiagnoseCommand::Train(args) => commands::train(args),
        DiagnoseCommand::Fit(args) => fit::run(args),
        DiagnoseCommand::Generate(args) => commands::generate(args),
        DiagnoseCommand::Record(args) => record::run(args),
    })
}

/// The classifier that the options select.
pub fn classifier(args: &MethodArgs) -> Result<Classifier, Failure> {
    let method = Method::from(args.method);
    let unusable = |error: ModelFileError| Failure::with_code(EXIT_NO_SOURCE, error.to_string());
    let built = match (&args.model, method) {
        (None, method) => return Ok(Classifier::shipped(method)),
        (Some(path), Method::Paper) => Classifier::paper(&PaperFile::load(path).map_err(unusable)?),
        (Some(path), Method::Signature) => Classifier::signature(&MixtureFile::load(path).map_err(unusable)?),
    };
    built.map_err(|reason| {
        Failure::with_code(EXIT_INTERNAL, format!("a validated model is invalid: {reason}"))
    })
}

/// The failure of reading windows.
pub fn unreadable(error: ReadError) -> Failure {
    Failure::with_code(EXIT_NO_SOURCE, error.to_string())
}
