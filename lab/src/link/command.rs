//! `fobs-lab link`: the emulator as a command.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::control::ControlSocket;
use super::emulator::Emulator;
use super::host::{HostError, default_control_path};
use super::self_test;
use super::spec::LinkSpec;
use crate::failure::{EXIT_NO_ROOT, EXIT_USAGE, Failure};

/// Emulate a path between network namespaces until a signal arrives.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Description of the path (TOML)
    #[arg(required_unless_present = "self_test", value_name = "SPEC.toml")]
    spec: Option<PathBuf>,
    /// Socket for queries and changes [default: /run/fobs-lab-PID.sock]
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Set a key of the description, as in rate=50Mbit or forward.loss=1%; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// End also when standard input ends
    #[arg(long)]
    until_eof: bool,
    /// Emulate known paths and compare measurements with expected values
    #[arg(long, conflicts_with_all = ["spec", "control", "set", "until_eof"])]
    self_test: bool,
}

/// Runs the command.
pub fn main(args: &Args) -> ExitCode {
    let Some(path) = args.spec.as_ref().filter(|_| !args.self_test) else {
        return outcome(self_test::run());
    };
    outcome(emulate(path, args))
}

fn outcome(result: Result<ExitCode, Failure>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Failure {
        let code = match error {
            HostError::NoRoot => EXIT_NO_ROOT,
            HostError::Failed(_) => EXIT_USAGE,
        };
        Failure::with_code(code, error.to_string())
    }
}

fn emulate(path: &PathBuf, args: &Args) -> Result<ExitCode, Failure> {
    let shown = path.display();
    let text =
        fs::read_to_string(path).map_err(|error| Failure::new(format!("cannot read {shown}: {error}")))?;
    let spec = LinkSpec::read(&text, &args.set).map_err(|error| Failure::new(format!("{shown}: {error}")))?;
    // Before anything is created, so that an early signal leaves nothing behind.
    let ends = Ends::listen(args.until_eof)
        .map_err(|error| Failure::new(format!("cannot install signal handlers: {error}")))?;
    let emulator = Emulator::start(&spec)?;
    let control = args.control.clone().unwrap_or_else(default_control_path);
    let socket = ControlSocket::listen(&control, emulator.remote())
        .map_err(|error| Failure::new(format!("cannot listen at {}: {error}", control.display())))?;
    println!("{}", json!({ "event": "ready", "hosts": emulator.hosts(), "control": control }));
    ends.wait();
    drop(socket);
    let Some(counters) = emulator.stop() else {
        return Err(Failure::new("the emulator's thread panicked; its message is above"));
    };
    let mut counters = serde_json::to_value(counters).unwrap_or_default();
    counters["event"] = json!("counters");
    println!("{counters}");
    Ok(ExitCode::SUCCESS)
}

/// What ends the emulator: a signal, or the end of standard input.
struct Ends {
    receiver: std::sync::mpsc::Receiver<()>,
}

impl Ends {
    fn listen(until_eof: bool) -> io::Result<Ends> {
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let on_signal = sender.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            signals.forever().take(1).for_each(|_| {
                let _ = on_signal.send(());
            });
        })?;
        if until_eof {
            std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
                // An error is an end, too.
                let mut buffer = [0; 512];
                while io::stdin().read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
                let _ = sender.send(());
            })?;
        }
        Ok(Ends { receiver })
    }

    fn wait(&self) {
        // Both senders closed is an end, too.
        let _ = self.receiver.recv();
    }
}
