//! `fobs doctor`: what will limit copies, and what would help.

use std::io::{self, Write};
use std::time::Duration;

use fobs::doctor::{Checkup, Diagnosis, Examination, diagnose};
use fobs::options::Remote;
use fobs::options::flag::CommandName;
use fobs::{CancelToken, Error, ErrorKind, Result};
use serde::Serialize;

use crate::args::doctor::DoctorArgs;
use crate::{exit, location, output, push, signals};

/// How long data is sent in each direction at most, and how long all of it is to take, without `--seconds`:
/// 5 s less what a busy host takes longer.
const TIME: Duration = Duration::from_secs(2);
const WHOLE: Duration = Duration::from_millis(4500);

/// Runs `fobs doctor`; returns the exit code: that of a copy where none is possible.
pub fn run(args: &DoctorArgs) -> u8 {
    match examine(args) {
        Ok(diagnosis) => diagnosis.failure.map_or(exit::SUCCESS, ErrorKind::exit_code),
        Err(error) => {
            output::complain(&error);
            if args.json {
                // A failure to write the line does not change the exit code.
                let _ = output::json_failure(&error, |error| error.kind.exit_code());
            }
            error.kind.exit_code()
        }
    }
}

fn examine(args: &DoctorArgs) -> Result<Diagnosis> {
    let checkup = checkup(args)?;
    let cancel = CancelToken::new();
    signals::install(&cancel)?;
    let remotes: Vec<Remote> = checkup.remote.iter().cloned().collect();
    let facts = push::with_consent(&args.way.0, &remotes, checkup.options.clone(), |options| {
        Checkup { options, ..checkup.clone() }.run(output::of_notices(), &cancel)
    })?;
    let diagnosis = diagnose(&facts);
    let text = if args.json {
        json(&facts, &diagnosis)?
    } else {
        output::for_terminal(&output::printable_lines(&diagnosis.text()), io::stdout())
    };
    match io::stdout().write_all(text.as_bytes()) {
        // A closed pipe is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::new(ErrorKind::FileIo, format!("cannot write to standard output: {error}")))
        }
        _ => Ok(diagnosis),
    }
}

/// One object, on one line.
fn json(facts: &Examination, diagnosis: &Diagnosis) -> Result<String> {
    #[derive(Serialize)]
    struct Line<'a> {
        v: u32,
        event: &'static str,
        facts: &'a Examination,
        #[serde(flatten)]
        diagnosis: &'a Diagnosis,
    }
    let line = serde_json::to_string(&Line { v: 1, event: "doctor", facts, diagnosis });
    line.map(|line| line + "\n")
        .map_err(|error| Error::new(ErrorKind::Internal, format!("cannot write the facts as JSON: {error}")))
}

/// The arguments as an examination.
fn checkup(args: &DoctorArgs) -> Result<Checkup> {
    let way = &args.way.0;
    crate::resolve::refuse_mistyped(args.host.as_slice())?;
    let remote = args.host.as_deref().map(location::host).transpose()?;
    if let Some(Remote { carrier, .. }) = remote {
        way.check(CommandName::Doctor, carrier)?;
    }
    let options = way.chosen.options.clone();
    let (time, whole) = match args.seconds {
        Some(seconds) => (Duration::from_secs(seconds), None),
        None => (TIME, Some(WHOLE)),
    };
    Ok(Checkup { directory: args.dir.clone(), remote, options, time, whole })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use fobs::options::Carrier;

    fn of(words: &str) -> Result<Checkup> {
        let cli = Cli::try_parse_from(["fobs", "doctor"].into_iter().chain(words.split_whitespace()));
        match cli.expect("it parses").command {
            Command::Doctor(args) => checkup(&args),
            _ => unreachable!("doctor was given"),
        }
    }

    #[test]
    fn a_host_may_name_a_directory() {
        assert_eq!(of("").unwrap().remote, None);
        for (words, carrier, path) in [
            ("host", Carrier::Ssh, &b""[..]),
            ("me@host:/srv", Carrier::Ssh, b"/srv"),
            ("fobs://host/sets", Carrier::Daemon, b"sets"),
        ] {
            let remote = of(words).unwrap().remote.expect(words);
            assert_eq!((remote.carrier, &remote.path[..]), (carrier, path), "{words}");
        }
        assert_eq!(of("--seconds 7 --dir /x").unwrap().time, Duration::from_secs(7));
    }

    #[test]
    fn options_of_the_other_carrier_are_refused() {
        for (words, flag) in [("-J jump fobs://host", "-J"), ("--known-hosts f host:", "--known-hosts")] {
            let error = of(words).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Usage);
            assert!(error.message.starts_with(flag), "{}", error.message);
        }
    }
}
