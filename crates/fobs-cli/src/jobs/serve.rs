//! `fobs jobs serve`: the keeper.

use std::thread;
use std::time::Duration;

use fobs::{CancelToken, Error, ErrorKind, Result};
use fobs_jobs::api::{CertificateFiles, Network};
use fobs_jobs::{Keeper, KeeperConfig, Serves, StoreError, api};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, setsid};

use super::place::{self, Choice};
use super::submit;
use crate::args::jobs::KeeperArgs;
use crate::{live, output, signals};

/// A keeper that was started on demand ends after this time without jobs: the next submission starts one.
const IDLE: Duration = Duration::from_secs(60);
/// How often it is looked whether a signal came.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Another start of the host, for tests; a release looks at the kernel's alone.
const BOOT_VARIABLE: &str = "FOBS_TEST_BOOT_ID";

/// Keeps jobs until a signal ends it.
///
/// # Errors
/// Where the state cannot be used, or another keeper has it.
pub fn run(args: &KeeperArgs, choice: Choice) -> Result<()> {
    if args.on_demand {
        // One that leads a session by now is apart from its terminal.
        let _ = setsid();
    }
    let (directory, socket) = match choice {
        Choice::Usual => (place::directory()?, None),
        Choice::System => place::of_system().map(|(state, socket)| (state, Some(socket)))?,
    };
    let program = std::env::current_exe();
    let program = program.map_err(|error| Error::internal(format!("cannot find this program: {error}")))?;
    let boot = if cfg!(debug_assertions) { std::env::var(BOOT_VARIABLE).ok() } else { None };
    let idle = args.on_demand.then_some(IDLE);
    let state = directory.clone();
    let examine = Some(submit::examine as fobs_jobs::Examine);
    let usual = KeeperConfig { boot, idle, ..KeeperConfig::new(directory, program) };
    let config = match choice {
        Choice::Usual => KeeperConfig { limit_of: Some(limit_of), examine, ..usual },
        // What is a user's is looked at with that user's rights.
        Choice::System => KeeperConfig { serves: Serves::Host, ..usual },
    };
    let (keeper, said) = Keeper::open(config).map_err(refused)?;
    said.iter().for_each(|sentence| output::note(sentence));
    // Each attempt has three descriptors; if it fails, an attempt that has none is tried again.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let socket = match socket {
        Some(socket) => socket,
        None => place::own_socket()?,
    };
    let _listening = api::serve(keeper.clone(), &socket).map_err(|error| {
        let message = format!("cannot listen at {}: {error}", socket.display());
        Error::new(ErrorKind::Socket, message)
    })?;
    if let Some(address) = args.listen {
        let files = args.cert.clone().zip(args.key.clone());
        let certificate = files.map(|(certificate, key)| CertificateFiles { certificate, key });
        let network = Network { address, certificate, directory: state };
        let reached =
            api::listen(keeper.clone(), &network).map_err(|why| Error::new(ErrorKind::Socket, why))?;
        output::note(&format!(
            "listening at https://{} (certificate's SHA-256: {}); fobs jobs token create lets clients in",
            reached.address, reached.fingerprint
        ));
    }
    let cancel = CancelToken::new();
    signals::install(&cancel)?;
    let ended = keeper.clone();
    let watch = move || {
        while !cancel.is_cancelled() {
            thread::sleep(LOOK_EVERY);
        }
        ended.end();
    };
    let watching = thread::Builder::new().name("ends".to_owned()).spawn(watch);
    watching.map_err(|error| Error::internal(format!("cannot start a thread: {error}")))?;
    keeper.run();
    Ok(())
}

/// What limits a running copy, in a sentence, where it answers.
fn limit_of(process: u32) -> Option<String> {
    match live::ask(process, &live::Ask::Status) {
        Ok(live::Answer::Status(snapshot)) => Some(snapshot.limit),
        _ => None,
    }
}

fn refused(error: StoreError) -> Error {
    let kind = match error {
        StoreError::Taken(_) => ErrorKind::Usage,
        _ => ErrorKind::Destination,
    };
    Error::new(kind, error.to_string())
}
