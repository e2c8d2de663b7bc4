//! Runs and watches a program of another make.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fobs::explain::Trace;
use fobs::watch::{LOOK_EVERY, Watch, WatchError};
use fobs::{Error, ErrorKind, Result};
use signal_hook::consts::SIGINT;

/// Exit code of a shell for a program that a signal ended: this and the signal's number.
const BY_SIGNAL: i32 = 128;

fn refused(error: &WatchError) -> Error {
    Error::new(ErrorKind::NoSource, error.to_string())
}

/// Watches a process until it ends or the user interrupts.
///
/// # Errors
/// `NoSource` if it cannot be watched or explained.
pub fn watch(pid: u32) -> Result<Trace> {
    let interrupted = interrupts()?;
    let mut watch = Watch::new(pid).map_err(|error| refused(&error))?;
    while watch.look().map_err(|error| refused(&error))? && !interrupted.load(Ordering::Relaxed) {
        thread::sleep(LOOK_EVERY);
    }
    watch.finish().map_err(|error| refused(&error))
}

/// Runs a command to its end; with its exit code.
///
/// # Errors
/// `Usage` if it cannot be started.
pub fn run(command: &[OsString]) -> Result<(std::result::Result<Trace, WatchError>, u8)> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Error::new(
            ErrorKind::Usage,
            "there is no command behind --: fobs explain -- rsync ...".to_owned(),
        ));
    };
    // An interrupt reaches the command too; what it did until then is explained.
    let _interrupted = interrupts()?;
    let mut child = Command::new(program).args(arguments).spawn().map_err(|error| {
        Error::new(ErrorKind::Usage, format!("cannot start {}: {error}; check its name", program.display()))
    })?;
    let watched = watch_child(&mut child);
    let status = child.wait().map_err(|error| {
        Error::new(ErrorKind::Internal, format!("cannot wait for {}: {error}", program.display()))
    })?;
    let code = status.code().or(status.signal().map(|signal| BY_SIGNAL + signal)).unwrap_or(1);
    Ok((watched, u8::try_from(code).unwrap_or(1)))
}

fn watch_child(child: &mut Child) -> std::result::Result<Trace, WatchError> {
    let mut watch = Watch::new(child.id())?;
    while watch.look()? && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(LOOK_EVERY);
    }
    watch.finish()
}

/// Set by an interrupt, which then ends the watching instead of this program.
fn interrupts() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGINT, Arc::clone(&interrupted))
        .map_err(|error| Error::new(ErrorKind::Internal, format!("cannot handle signals: {error}")))?;
    Ok(interrupted)
}
