//! The program `fobs`: parses the command line, calls the `fobs` crate, prints events and results, and exits
//! with a published exit code. It contains no algorithm of the transfer.

#![forbid(unsafe_code)]

mod args;
mod clean;
mod config;
mod doctor;
mod endurance;
mod exit;
mod explain;
mod generate;
mod log;
mod moment;
mod moved;
mod output;
mod ports;
mod resolve;
mod serve;
mod signals;
mod sync;
mod systemd;
mod units;
mod usage;

use fobs::location;
use std::process::ExitCode;
use std::sync::Arc;

use args::{Command, CpArgs};
use config::Refusal;
use explain::{Meanwhile, TraceFile};
use fobs::{CancelToken, Result, Transfer};

fn main() -> ExitCode {
    let code = match config::parse() {
        Ok(cli) => run(cli.command),
        Err(Refusal::Parser(error)) => usage::report(&error),
        Err(Refusal::Configuration(error)) => usage::refuse(&error),
    };
    ExitCode::from(code)
}

fn run(command: Command) -> u8 {
    let done = match command {
        Command::Cp(args) => return copy(&args),
        Command::Sync(args) => return sync::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Server(args) => {
            let cancel = CancelToken::new();
            let restriction = resolve::server(&args);
            signals::install(&cancel).and_then(|()| fobs::serve_stdio(restriction.as_ref(), &cancel))
        }
        Command::Keygen(args) => generate::key(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Doctor(args) => return doctor::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Clean(args) => clean::run(&args),
        Command::Man(args) => generate::man(&args),
        Command::Completions(args) => generate::completions(args.shell),
        Command::Sim(_) => Err(moved::error("sim")),
        Command::Diagnose(_) => Err(moved::error("diagnose")),
    };
    ended(&done)
}

fn copy(args: &CpArgs) -> u8 {
    let reporter = output::of_copy(args.json, args.quiet, args.verbose);
    let meanwhile = if args.explain { Meanwhile::Explain } else { Meanwhile::Silent };
    let recording = Arc::new(explain::Recording::new(reporter.clone(), meanwhile));
    let mut trace = None;
    let outcome = resolve::copy(args).and_then(|copy| {
        trace = args.trace.as_deref().map(TraceFile::create).transpose()?;
        let cancel = CancelToken::new();
        signals::install(&cancel)?;
        let (events, asked) = (recording.clone(), recording.clone());
        signals::show_status(move || asked.show_status())?;
        Transfer::builder(copy.sources, copy.destination)
            .options(copy.options)
            .events(events)
            .cancel_token(cancel)
            .start()?
            .wait()
    });
    let traced = trace.map_or(Ok(()), |file| recording.write_trace(file, &outcome));
    // `--json` always contains it.
    let why = (args.explain || args.json).then(|| recording.explanation(&outcome));
    let reported = reporter.finish(&outcome, why.as_ref()).and(traced);
    // The copy's exit code takes precedence over a failure to report it.
    match (output::exit_code(&outcome), &outcome) {
        (code, Err(error)) => {
            output::complain(error);
            code
        }
        (exit::SUCCESS, Ok(_)) => ended(&reported),
        (code, Ok(_)) => {
            ended(&reported);
            code
        }
    }
}

fn ended(done: &Result<()>) -> u8 {
    match done {
        Ok(()) => exit::SUCCESS,
        Err(error) => {
            output::complain(error);
            error.kind.exit_code()
        }
    }
}
