//! Where keepers are: this user's, and that of the host.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fobs::{Error, ErrorKind, Result};
use fobs_jobs::{Client, Store};

use crate::live;

/// The socket's name. Not that of a copy, which `fobs top` would ask.
const SOCKET: &str = "jobs.socket";
/// Where the keeper of a host listens, and where its state is: root's alone, as systemd makes them.
const SYSTEM_RUN: &str = "/run/fobs-jobs";
/// See [`SYSTEM_RUN`].
const SYSTEM_STATE: &str = "/var/lib/fobs-jobs";
/// Another place for [`SYSTEM_RUN`], for tests; a release looks at none.
const SYSTEM_RUN_VARIABLE: &str = "FOBS_TEST_SYSTEM_RUN";

/// Which keeper is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// This user's where there is one; else the host's, if there is one.
    Usual,
    /// The host's.
    System,
}

impl Choice {
    /// As `--system` says.
    pub fn of(is_system: bool) -> Choice {
        if is_system { Choice::System } else { Choice::Usual }
    }
}

/// Where the state of this user's jobs is.
///
/// # Errors
/// `Destination` where the user has no home.
pub fn directory() -> Result<PathBuf> {
    fobs::state_directory().map(|state| state.join("jobs")).ok_or_else(|| {
        let message =
            "there is no place for jobs: neither XDG_STATE_HOME nor a home directory is known; set one";
        Error::new(ErrorKind::Destination, message)
    })
}

/// Where this user's keeper listens.
///
/// # Errors
/// As [`directory`].
pub fn own_socket() -> Result<PathBuf> {
    match live::private_directory() {
        Some(private) => Ok(private.join(SOCKET)),
        None => Ok(directory()?.join(SOCKET)),
    }
}

/// Where the host's keeper listens.
pub fn system_socket() -> PathBuf {
    let played = if cfg!(debug_assertions) { std::env::var_os(SYSTEM_RUN_VARIABLE) } else { None };
    played.map_or(SYSTEM_RUN.into(), PathBuf::from).join(SOCKET)
}

/// Where the keeper listens that is meant.
///
/// # Errors
/// As [`directory`].
pub fn socket(choice: Choice) -> Result<PathBuf> {
    let system = system_socket();
    if choice == Choice::System {
        return Ok(system);
    }
    let own = own_socket()?;
    if !system.exists() || Store::exists(&directory()?) {
        return Ok(own);
    }
    // One that runs may keep its jobs elsewhere than this shell would.
    let answers = Client::new(&own).is_ok_and(|client| client.about().is_ok());
    Ok(if answers { own } else { system })
}

/// The directories of the host's keeper, for its state and for its socket: those that systemd has made, or
/// the usual ones.
///
/// # Errors
/// `Usage` for another user than root, `Destination` where the socket's directory is open to others.
pub fn of_system() -> Result<(PathBuf, PathBuf)> {
    if !rustix::process::geteuid().is_root() {
        let message = "only root keeps the jobs of all users: fobs jobs serve without --system keeps yours";
        return Err(Error::new(ErrorKind::Usage, message));
    }
    let named = |variable: &str, usual: &str| {
        let first = std::env::var(variable).ok().and_then(|all| Some(all.split(':').next()?.to_owned()));
        first.filter(|first| first.starts_with('/')).map_or(usual.into(), PathBuf::from)
    };
    let (state, run) = (named("STATE_DIRECTORY", SYSTEM_STATE), named("RUNTIME_DIRECTORY", SYSTEM_RUN));
    make_readable(&run).map_err(|why| {
        Error::new(ErrorKind::Destination, format!("cannot listen in {}: {why}", run.display()))
    })?;
    Ok((state, run.join(SOCKET)))
}

/// Makes a directory that others may enter and not change.
fn make_readable(path: &Path) -> std::result::Result<(), String> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    match std::fs::DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error.to_string()),
        _ => {}
    }
    let found = std::fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !found.is_dir() || found.uid() != 0 || found.mode() & 0o022 != 0 {
        return Err("it is no directory that root alone may change; remove it".to_owned());
    }
    let opened = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755));
    opened.map_err(|error| error.to_string())
}
