//! `fobs pipe`: standard input and output of this process, and a command on another host.

mod shown;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use fobs::event::EventSink;
use fobs::options::flag::CommandName;
use fobs::options::{Carrier, Remote};
use fobs::{
    CancelToken, Error, ErrorKind, PipeEnds, PipeManner, PipeRequest, Piped, Result, Steering,
    TransferOptions, pipe,
};

use crate::args::pipe::PipeArgs;
use crate::explain::TraceFile;
use crate::{ctl, live, location, output, push, resolve, signals};
use shown::{Direction, Shown};

/// Where `--listen` waits, if no host is named.
const LOCAL_DAEMON: &str = "fobs://localhost/";

/// Runs `fobs pipe`; returns the exit code: the command's, unless the pipe itself failed.
pub fn run(args: &PipeArgs) -> u8 {
    let shown = Arc::new(Shown::new(&args.way.0.chosen.program));
    let trace = args.way.0.chosen.program.trace.as_deref();
    let done = plan(args).and_then(|plan| {
        // First, so that an impossible place is found out before anything runs.
        let trace = trace.map(TraceFile::create).transpose()?;
        let done = carry_out(args, &plan, &shown);
        let traced = trace.map_or(Ok(()), |file| shown.write_trace(file, &done));
        done.and_then(|piped| traced.map(|()| piped))
    });
    if let Err(error) = &done
        && !args.way.0.chosen.program.json
    {
        output::complain(error);
    }
    shown.finish(&done);
    match done {
        Ok(piped) => piped.end.exit_code(),
        Err(error) => error.kind.exit_code(),
    }
}

/// A pipe, ready to run.
#[derive(Debug, PartialEq)]
struct Plan {
    remote: Remote,
    request: PipeRequest,
    options: TransferOptions,
}

/// Resolves the arguments.
fn plan(args: &PipeArgs) -> Result<Plan> {
    resolve::refuse_mistyped(args.host.as_slice())?;
    let host = args.host.clone().unwrap_or_else(|| LOCAL_DAEMON.into());
    let remote = location::host(&host)?;
    args.way.0.check(CommandName::Pipe, remote.carrier)?;
    let mut options = resolve::transfer(&args.way.0.chosen)?;
    if args.way.0.chosen.program.quiet {
        // As scp -q does.
        options.ssh.options.push("LogLevel=ERROR".to_owned());
    }
    let name = || String::from_utf8_lossy(&remote.path).trim_end_matches('/').to_owned();
    let request = match (&args.listen, remote.carrier) {
        (Some(name), Carrier::Daemon) if remote.path.is_empty() => {
            let wait_ms = u64::try_from(options.timeout.as_millis()).unwrap_or(u64::MAX);
            PipeRequest::Listen { name: name.clone(), wait_ms }
        }
        (Some(_), Carrier::Daemon) => {
            return Err(usage("--listen has the name of the pipe, and the host none: give fobs://host"));
        }
        (Some(_), Carrier::Ssh) => {
            return Err(usage("pipes meet by name at a daemon only: give --listen NAME fobs://host"));
        }
        (None, Carrier::Daemon) if !args.command.is_empty() => {
            return Err(usage(
                "a daemon runs no command that a client names: leave it out, and give the name of the pipe as in \
                 fobs://host/NAME",
            ));
        }
        (None, Carrier::Daemon) => PipeRequest::Name { name: name() },
        (None, Carrier::Ssh) if !remote.path.is_empty() => {
            return Err(usage(
                "a pipe leads to a command and no file: give the host alone, then -- and the command",
            ));
        }
        (None, Carrier::Ssh) if args.command.is_empty() => {
            return Err(usage("a pipe over ssh needs a command: fobs pipe HOST -- COMMAND"));
        }
        (None, Carrier::Ssh) => PipeRequest::command(joined(&args.command)),
    };
    Ok(Plan { remote, request, options })
}

fn usage(message: &str) -> Error {
    Error::new(ErrorKind::Usage, message)
}

/// The words as ssh gives them to the shell there.
fn joined(words: &[OsString]) -> Vec<u8> {
    words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>().join(&b' ')
}

fn carry_out(args: &PipeArgs, plan: &Plan, shown: &Arc<Shown>) -> Result<Piped> {
    let Plan { remote, request, options } = plan;
    let cancel = CancelToken::new();
    signals::install(&cancel)?;
    let sending: Arc<dyn EventSink> = shown.direction(Direction::Sent);
    let receiving: Arc<dyn EventSink> = shown.direction(Direction::Received);
    let steering = [Steering::new(), Steering::new()];
    shown.describe("-", &subject(plan));
    let asked = shown.clone();
    let answer = ctl::answer_of_pipe(
        move || asked.snapshot(),
        steering.clone(),
        options.congestion_control,
        cancel.clone(),
    );
    let _seat = live::Seat::take(answer);
    push::with_consent(&args.way.0, std::slice::from_ref(remote), options.clone(), |options| {
        let manner = PipeManner {
            options: &options,
            sending: &sending,
            receiving: &receiving,
            steering: &steering,
            cancel: &cancel,
        };
        pipe(remote, request.clone(), || ends(shown), manner)
    })
}

/// What a pipe leads to, for `fobs top`.
fn subject(plan: &Plan) -> String {
    format!("{}: {}", plan.remote.host, plan.request.describe())
}

/// Takes standard input and output over, so that the programs before and behind this one learn of their ends
/// as soon as they are.
fn ends(shown: &Shown) -> Result<PipeEnds> {
    let taken = || -> io::Result<PipeEnds> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        let errors = Some(shown.errors()?);
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        // What is printed by mistake disturbs no data.
        rustix::stdio::dup2_stdout(io::stderr())?;
        Ok(PipeEnds { input, output, errors })
    };
    taken().map_err(|error| {
        Error::new(ErrorKind::FileIo, format!("cannot use standard input and output for the pipe: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use std::os::unix::ffi::OsStringExt;

    fn of(words: &[&str]) -> Result<Plan> {
        let cli = Cli::try_parse_from(["fobs", "pipe"].iter().chain(words));
        match cli.expect("it parses").command {
            Command::Pipe(args) => plan(&args),
            _ => unreachable!("pipe was given"),
        }
    }

    #[test]
    fn words_are_joined_as_ssh_does() {
        let Plan { remote, request, .. } = of(&["me@host", "--", "tar", "x", "-C", "/srv/a b"]).unwrap();
        assert_eq!((remote.carrier, remote.host.as_str()), (Carrier::Ssh, "host"));
        assert_eq!(request, PipeRequest::command(b"tar x -C /srv/a b".to_vec()));
        let words = OsString::from_vec(b"caf\xe9".to_vec());
        assert_eq!(joined(&["cat".into(), words]), b"cat caf\xe9");
    }

    #[test]
    fn names_are_for_daemons_and_commands_for_ssh() {
        let name = |name: &str| PipeRequest::Name { name: name.to_owned() };
        assert_eq!(of(&["fobs://host/db"]).unwrap().request, name("db"));
        assert_eq!(of(&["fobs://host"]).unwrap().request, name(""));
        let listen = PipeRequest::Listen { name: "db".to_owned(), wait_ms: 5000 };
        assert_eq!(of(&["--listen", "db", "--timeout", "5"]).unwrap().request, listen);
        assert_eq!(of(&["--listen", "db", "--timeout", "5", "fobs://h"]).unwrap().request, listen);
        for words in [
            &["host"][..],
            &["fobs://host/db", "--", "cat"],
            &["--listen", "db", "host"],
            &["--listen", "db", "fobs://host/other"],
            &["host:file", "--", "cat"],
        ] {
            assert_eq!(of(words).unwrap_err().kind, ErrorKind::Usage, "{words:?}");
        }
    }
}
