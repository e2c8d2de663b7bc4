//! The program `fobs`: parses the command line, calls the `fobs` crate, prints events and results, and exits
//! with a published exit code. It contains no algorithm of the transfer.

#![forbid(unsafe_code)]

mod args;
mod between;
mod clean;
mod cluster;
mod complete;
mod config;
mod ctl;
mod daemon_log;
mod doctor;
mod endurance;
mod exit;
mod explain;
mod flags;
mod generate;
mod here;
mod jobs;
mod live;
mod log;
mod moment;
mod moved;
mod output;
mod parts;
mod pipe;
mod ports;
mod push;
mod resolve;
mod serve;
mod signals;
mod spelling;
mod sync;
mod systemd;
mod times;
mod top;
mod units;
mod usage;

use fobs::location;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use args::{Command, CpArgs, ServerArgs};
use config::Refusal;
use explain::{Meanwhile, Recording, TraceFile};
use fobs::named::LinkOwners;
use fobs::options::TransferOptions;
use fobs::{CancelToken, ErrorKind, EventSink, Result, StdioError, Steering, Summary, Transfer};
use parts::Part;

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
        Command::Cp(args) => return copy(&args, Caller::User),
        Command::FarCopy => return far_copy(),
        Command::Complete(args) => return complete::run(&args),
        Command::Sync(args) => return sync::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Server(args) => return server(&args),
        Command::SelfCheck { hash } => push::self_check(&hash),
        Command::Keygen(args) => generate::key(&args),
        Command::Explain(args) => match explain::run(&args) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Doctor(args) => return doctor::run(&args),
        Command::Pipe(args) => return pipe::run(&args),
        Command::Submit(args) => return jobs::submit(&args),
        Command::Jobs(args) => return jobs::run(&args),
        Command::Ctl(args) => ctl::run(&args),
        Command::Log(args) => daemon_log::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Clean(args) => clean::run(&args),
        Command::Cluster(args) => Err(cluster::run(&args)),
        Command::Man(args) => generate::man(&args),
        Command::Completions(args) => generate::completions(args.shell),
        Command::Sim(_) => Err(moved::error("sim")),
        Command::Diagnose(_) => Err(moved::error("diagnose")),
    };
    ended(&done)
}

/// What the client was told is not printed as well: ssh would show it beside the client's own sentence.
fn server(args: &ServerArgs) -> u8 {
    if args.insecure_links {
        fobs::named::follow_links_of(LinkOwners::Anyone);
    }
    let cancel = CancelToken::new();
    let restriction = resolve::server(args);
    let installed = signals::install(&cancel).map_err(StdioError::Untold);
    match installed.and_then(|()| {
        fobs::serve_stdio(restriction.as_ref(), fobs::SourcesHere::open(&args.sources_in), &cancel)
    }) {
        Ok(()) => exit::SUCCESS,
        Err(StdioError::Told(error)) => error.kind.exit_code(),
        Err(StdioError::Untold(error)) => ended(&Err(error)),
    }
}

/// For whom a copy runs.
enum Caller {
    /// The user who started this process.
    User,
    /// Another host, whose user sees the events; standard input and output lead to a host with these names.
    FarUser(Vec<String>),
}

fn far_copy() -> u8 {
    match between::requested() {
        Ok((args, hosts)) => copy(&args, Caller::FarUser(hosts)),
        Err(error) => {
            // A failure to write the line does not change the exit code.
            let _ = output::of_far_copy().finish(&Err(error.clone()), None);
            error.kind.exit_code()
        }
    }
}

fn copy(args: &CpArgs, caller: Caller) -> u8 {
    let reporter = match &caller {
        Caller::User => {
            let name = args.paths.first().map(|source| location::file_name(source)).unwrap_or_default();
            let chosen = &args.chosen;
            output::of_copy(&chosen.program, &name, chosen.rate_limit())
        }
        Caller::FarUser(_) => output::of_far_copy(),
    };
    let meanwhile = if args.chosen.program.explain { Meanwhile::Explain } else { Meanwhile::Silent };
    let recording = Arc::new(Recording::new(reporter.clone(), meanwhile));
    if let [sources @ .., destination] = args.paths.as_slice() {
        recording.describe(sources, destination);
    }
    let mut trace = None;
    let outcome = resolve::copy(args).and_then(|mut copy| {
        trace = args.chosen.program.trace.as_deref().map(TraceFile::create).transpose()?;
        let cancel = CancelToken::new();
        signals::install(&cancel)?;
        let asked = recording.clone();
        signals::show_status(move || asked.show_status())?;
        if let Caller::FarUser(hosts) = &caller {
            copy.options.ssh.inherited = Some(hosts.clone());
        }
        run_copy(args, &copy, &recording, &cancel)
    });
    let traced = trace.map_or(Ok(()), |file| recording.write_trace(file, &outcome));
    explain::keep_for_keeper(&recording, &outcome);
    // `--json` always contains it.
    let why =
        (args.chosen.program.explain || args.chosen.program.json).then(|| recording.explanation(&outcome));
    let reported = reporter.finish(&outcome, why.as_ref()).and(traced);
    // The copy's exit code takes precedence over a failure to report it.
    match (output::exit_code(&outcome), &outcome, caller) {
        // Its user has read the last line.
        (code, _, Caller::FarUser(_)) => code,
        (code, Err(error), Caller::User) => {
            output::complain(error);
            if let Some(hint) = hint(error.kind, &args.paths) {
                output::note(&hint);
            }
            code
        }
        (exit::SUCCESS, Ok(_), Caller::User) => ended(&reported),
        (code, Ok(_), Caller::User) => {
            ended(&reported);
            code
        }
    }
}

/// What was probably meant by the names of a copy that failed.
fn hint(kind: ErrorKind, paths: &[OsString]) -> Option<String> {
    match kind {
        ErrorKind::Ssh | ErrorKind::Connect | ErrorKind::Usage => {
            location::mistaken(paths, |name| std::fs::symlink_metadata(name).is_ok())
        }
        ErrorKind::NoSource => location::unexpanded(paths),
        _ => None,
    }
}

/// Runs the parts of a copy, with a socket for those who ask about it meanwhile.
fn run_copy(
    args: &CpArgs,
    copy: &resolve::Copy,
    recording: &Arc<Recording>,
    cancel: &CancelToken,
) -> Result<Summary> {
    let steering = Steering::new();
    let _seat = live::Seat::take(ctl::answer(recording, &steering, &copy.options, cancel));
    let parts = parts::of(&copy.sources, &copy.destination)?;
    let run = |part: &Part, options: &TransferOptions| match part {
        Part::Between { from, paths, to } => {
            steering.reaches_nobody();
            let events: Arc<dyn EventSink> = recording.clone();
            between::run(args, (from, paths, to), options, &events, cancel)
        }
        Part::Here { sources, destination } => Transfer::builder(sources.clone(), destination.clone())
            .options(options.clone())
            .events(recording.clone())
            .cancel_token(cancel.clone())
            .steering(steering.clone())
            .start()?
            .wait(),
    };
    let mut sum: Option<Summary> = None;
    for part in &parts {
        let done = match part {
            Part::Between { .. } => run(part, &copy.options)?,
            Part::Here { .. } => {
                push::with_consent(args, &part.remotes(), copy.options.clone(), |options| {
                    run(part, &options)
                })?
            }
        };
        sum = Some(match sum.take() {
            Some(sum) => parts::add_up(sum, done),
            None => done,
        });
    }
    Ok(sum.unwrap_or_default())
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
