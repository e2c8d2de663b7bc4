//! `fobs-lab link`: the emulator as a command.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
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
///
/// Several descriptions are several paths between the same hosts, in one emulator: their namespaces have a
/// device for each.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Description of the path (TOML); repeatable
    #[arg(required_unless_present = "self_test", value_name = "SPEC.toml")]
    specs: Vec<PathBuf>,
    /// Socket for queries and changes; further paths have SOCKET.1 and so on [default:
    /// /run/fobs-lab-PID.sock]
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Set a key of the description, as in rate=50Mbit or forward.loss=1%; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// End also when standard input ends
    #[arg(long)]
    until_eof: bool,
    /// Emulate known paths and compare measurements with expected values
    #[arg(long, conflicts_with_all = ["specs", "control", "set", "until_eof"])]
    self_test: bool,
}

/// Runs the command.
pub fn main(args: &Args) -> ExitCode {
    outcome(if args.self_test { self_test::run() } else { emulate(args) })
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

fn read(path: &Path, args: &Args) -> Result<LinkSpec, Failure> {
    let shown = path.display();
    let text =
        fs::read_to_string(path).map_err(|error| Failure::new(format!("cannot read {shown}: {error}")))?;
    LinkSpec::read(&text, &args.set).map_err(|error| Failure::new(format!("{shown}: {error}")))
}

fn emulate(args: &Args) -> Result<ExitCode, Failure> {
    let specs = args.specs.iter().map(|path| read(path, args)).collect::<Result<Vec<_>, _>>()?;
    // Before anything is created, so that an early signal leaves nothing behind.
    let ends = Ends::listen(args.until_eof)
        .map_err(|error| Failure::new(format!("cannot install signal handlers: {error}")))?;
    let emulator = Emulator::start_all(&specs)?;
    let control = args.control.clone().unwrap_or_else(default_control_path);
    let (mut sockets, mut paths) = (Vec::new(), Vec::new());
    for (place, remote) in emulator.remotes().iter().enumerate() {
        let at = control_of(&control, place);
        let socket = ControlSocket::listen(&at, remote)
            .map_err(|error| Failure::new(format!("cannot listen at {}: {error}", at.display())))?;
        sockets.push(socket);
        paths.push(json!({ "name": specs[place].name, "hosts": emulator.paths()[place], "control": at }));
    }
    println!(
        "{}",
        json!({ "event": "ready", "hosts": emulator.hosts(), "control": control, "paths": paths })
    );
    ends.wait();
    drop(sockets);
    let Some(all) = emulator.stop() else {
        return Err(Failure::new("the emulator's thread panicked; its message is above"));
    };
    for (place, counters) in all.into_iter().enumerate() {
        let mut counters = serde_json::to_value(counters).unwrap_or_default();
        counters["event"] = json!("counters");
        if specs.len() > 1 {
            counters["path"] = json!(place);
        }
        println!("{counters}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The control socket of the `place`-th path.
fn control_of(first: &Path, place: usize) -> PathBuf {
    if place == 0 {
        return first.to_owned();
    }
    let mut name = first.as_os_str().to_owned();
    name.push(format!(".{place}"));
    PathBuf::from(name)
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
