//! `fobs submit` and `fobs jobs`: the ends of a keeper's API for people and programs.

mod launch;
mod list;
mod page;
mod place;
mod reach;
mod room;
mod serve;
mod show;
mod size;
mod ssh;
mod submit;
mod token;
mod work;

use std::io::{self, Write};
use std::time::Duration;

use fobs::{Error, ErrorKind, Result};
use fobs_jobs::{Change, Client, ClientError, JobId, JobView, Limits, Phase};
use serde_json::{Value, json};

use crate::args::jobs::{CleanJobs, JobsArgs, JobsCommand, LimitsArgs, SomeJobs};
use crate::exit;
use crate::output;

use place::Choice;
pub use submit::run as submit;

/// Version of the lines of `--json`.
const VERSION: u8 = 1;
/// How long one request waits for a job.
const WAIT_EACH: Duration = Duration::from_secs(30);
/// Exit code of a job that failed without an attempt that said why: its deadline, or a job before it.
const FAILED_WITHOUT: u8 = 30;

/// Runs `fobs jobs`; returns the exit code.
pub fn run(args: &JobsArgs) -> u8 {
    match act(args) {
        Ok(code) => code,
        Err(error) => {
            output::complain(&error);
            error.kind.exit_code()
        }
    }
}

/// The jobs that are not over, where a keeper runs: none is started for a look.
pub fn open() -> Vec<JobView> {
    let client = place::socket(Choice::Usual).ok().and_then(|socket| Client::new(&socket).ok());
    client.and_then(|client| client.open_jobs().ok()).unwrap_or_default()
}

/// All jobs, likewise.
pub fn known() -> Vec<JobView> {
    let client = place::socket(Choice::Usual).ok().and_then(|socket| Client::new(&socket).ok());
    client.and_then(|client| client.jobs().ok()).unwrap_or_default()
}

/// Changes a job; how it stands then, in words.
///
/// # Errors
/// The keeper's.
pub fn change_one(id: JobId, change: Change) -> Result<String> {
    let client = reach::client(Choice::Usual)?;
    let view = reach::again(&client, |client| client.change(id, change))?;
    Ok(format!("job {id}: {}", view.standing.phase.name()))
}

fn act(args: &JobsArgs) -> Result<u8> {
    if let Some(JobsCommand::Serve(keeper)) = &args.command {
        return serve::run(keeper, Choice::of(args.system)).map(|()| exit::SUCCESS);
    }
    if let Some(JobsCommand::Token(command)) = &args.command {
        return token::run(command, args).map(|()| exit::SUCCESS);
    }
    if let Some(JobsCommand::Page(page)) = &args.command {
        return page::run(page, Choice::of(args.system)).map(|()| exit::SUCCESS);
    }
    if let Some(JobsCommand::Room(wanted)) = &args.command {
        return room::run(wanted).map(|()| exit::SUCCESS);
    }
    match &args.command {
        Some(JobsCommand::Examine(words)) => {
            return room::examine(&words.words).map(|()| exit::SUCCESS);
        }
        Some(JobsCommand::Launch) => return launch::run().map(|()| exit::SUCCESS),
        _ => {}
    }
    let client = match reach::far(args)? {
        Some(client) => client,
        None => match reach::client_if_any(Choice::of(args.system))? {
            Some(client) => client,
            None => return without_jobs(args),
        },
    };
    match &args.command {
        None => list::run(&client, args)?,
        Some(JobsCommand::Show(one)) => show::run(&client, JobId(one.id), args.json)?,
        Some(JobsCommand::Log(one)) => show::log(&client, JobId(one.id), args.json)?,
        Some(JobsCommand::Wait(some)) => return wait(&client, some, args.json),
        Some(JobsCommand::Cancel(some)) => change(&client, some, Change::Cancel, args.json)?,
        Some(JobsCommand::Pause(some)) => change(&client, some, Change::Pause, args.json)?,
        Some(JobsCommand::Resume(some)) => change(&client, some, Change::Resume, args.json)?,
        Some(JobsCommand::Retry(some)) => change(&client, some, Change::Retry, args.json)?,
        Some(JobsCommand::Clean(clean)) => forget(&client, clean, args.json)?,
        Some(JobsCommand::Limits(limits)) => set_limits(&client, limits, args.json)?,
        // They need no keeper, or a way of their own.
        Some(
            JobsCommand::Serve(_)
            | JobsCommand::Token(_)
            | JobsCommand::Page(_)
            | JobsCommand::Room(_)
            | JobsCommand::Examine(_)
            | JobsCommand::Launch,
        ) => {}
    }
    Ok(exit::SUCCESS)
}

/// Where nothing was ever submitted, no keeper is started to say so.
fn without_jobs(args: &JobsArgs) -> Result<u8> {
    match &args.command {
        None | Some(JobsCommand::Clean(_) | JobsCommand::Limits(_)) => {
            if !args.json {
                output::note("there are no jobs; fobs submit hands one in");
            }
            Ok(exit::SUCCESS)
        }
        Some(_) => Err(Error::new(ErrorKind::NoSource, "there are no jobs; fobs submit hands one in")),
    }
}

fn wait(client: &Client, some: &SomeJobs, json: bool) -> Result<u8> {
    let mut code = exit::SUCCESS;
    for &id in &some.ids {
        let id = JobId(id);
        let runs = reach::asked(client.job(id))?.standing.runs;
        let view = loop {
            let view = match client.wait(id, runs, WAIT_EACH) {
                // It was killed meanwhile: the next one knows the job, too.
                Err(ClientError::Broken(_) | ClientError::NotThere(_)) => {
                    reach::again(client, |client| client.job(id))?
                }
                answer => reach::asked(answer)?,
            };
            if view.standing.phase.is_final() || view.standing.runs > runs {
                break view;
            }
        };
        if json {
            print_json(&serde_json::to_value(&view).unwrap_or_default())?;
        }
        if code == exit::SUCCESS {
            code = code_of(&view);
        }
    }
    Ok(code)
}

/// The exit code of a job that is over, or of its last run.
fn code_of(view: &JobView) -> u8 {
    let standing = &view.standing;
    let own = standing.exit_code.and_then(|code| u8::try_from(code).ok());
    match (standing.phase, own) {
        (Phase::Cancelled, _) => ErrorKind::Interrupted.exit_code(),
        (Phase::Failed, None | Some(exit::SUCCESS)) => FAILED_WITHOUT,
        (_, own) => own.unwrap_or(exit::SUCCESS),
    }
}

fn change(client: &Client, some: &SomeJobs, change: Change, json: bool) -> Result<()> {
    let mut first = Ok(());
    for &id in &some.ids {
        match reach::again(client, |client| client.change(JobId(id), change)) {
            Ok(view) if json => print_json(&serde_json::to_value(&view).unwrap_or_default())?,
            Ok(_) => {}
            // The others are changed all the same.
            Err(error) if first.is_ok() => first = Err(error),
            Err(error) => output::complain(&error),
        }
    }
    first
}

fn forget(client: &Client, clean: &CleanJobs, json: bool) -> Result<()> {
    let forgotten = reach::asked(client.clean(clean.older_than))?;
    if json {
        return print_json(&json!({"forgotten": forgotten}));
    }
    print(&format!("{forgotten} jobs forgotten\n"))
}

fn set_limits(client: &Client, given: &LimitsArgs, json: bool) -> Result<()> {
    let old = reach::asked(client.limits())?;
    let limits = Limits {
        total: given.total.unwrap_or(old.total),
        per_host: given.per_host.unwrap_or(old.per_host),
        per_source: given.per_source.unwrap_or(old.per_source),
    };
    let limits = if limits == old { old } else { reach::asked(client.set_limits(limits))? };
    if json {
        return print_json(&serde_json::to_value(limits).unwrap_or_default());
    }
    let Limits { total, per_host, per_source } = limits;
    print(&format!(
        "at once: {total} together, {per_host} to one destination, {per_source} from one source\n"
    ))
}

/// One object with its version, on a line.
fn print_json(value: &Value) -> Result<()> {
    let mut value = value.clone();
    if let Value::Object(members) = &mut value {
        members.insert("v".to_owned(), VERSION.into());
    }
    print(&format!("{value}\n"))
}

fn print(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let message = format!("cannot write to standard output: {error}");
            Err(Error::new(ErrorKind::FileIo, message))
        }
        _ => Ok(()),
    }
}
