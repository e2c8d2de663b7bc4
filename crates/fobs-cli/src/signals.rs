//! SIGINT, SIGTERM and SIGHUP: the first signal ends the copy after cleaning up, the second at once. SIGXFSZ
//! is without effect. SIGUSR1 has a copy say how it stands.

use std::io::IsTerminal;
use std::sync::Arc;
use std::thread;

use fobs::{CancelToken, Error, ErrorKind, Result};
use fobs_daemon::ServerHandle;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};
use tracing::info;

/// Starts the thread that waits for signals; the first one cancels `cancel`.
///
/// `SIGHUP` stays ignored if it was ignored at the start, as under `nohup`. `SIGINT` does not: shells start
/// the background jobs of a script with it ignored, and `kill -INT` must end those. `SIGXFSZ` does not kill:
/// a write beyond `ulimit -f` fails with `EFBIG` instead, and so does its file alone.
///
/// # Errors
/// `Internal` if the kernel refuses the handlers or the thread.
pub fn install(cancel: &CancelToken) -> Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hangup = (!is_ignored(SIGHUP, &status)).then_some(SIGHUP);
    let mut signals =
        Signals::new([SIGINT, SIGTERM].into_iter().chain(hangup)).map_err(|error| failed(&error))?;
    // A handler that has nothing to do: `ssh` still gets the default, as it would not from an ignored signal.
    flag::register(SIGXFSZ, Arc::default()).map_err(|error| failed(&error))?;
    let cancel = cancel.clone();
    let wait = move || {
        let mut arrived = signals.forever();
        if arrived.next().is_some() {
            cancel.cancel();
        }
        if arrived.next().is_some() {
            // Without destructors, which may be what hangs.
            low_level::exit(i32::from(ErrorKind::Interrupted.exit_code()));
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(|error| failed(&error))?;
    Ok(())
}

/// Starts the thread that waits for signals of a server: `SIGTERM` drains it and, the second time, ends it as
/// `SIGINT` does; the second `SIGINT` ends the process at once. `SIGHUP` drains a server whose terminal is
/// gone; another one has nothing to reload.
///
/// # Errors
/// As [`install`].
pub fn install_for_server(server: &ServerHandle, cancel: &CancelToken) -> Result<()> {
    let on_terminal = std::io::stdin().is_terminal();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|error| failed(&error))?;
    flag::register(SIGXFSZ, Arc::default()).map_err(|error| failed(&error))?;
    let (server, cancel) = (server.clone(), cancel.clone());
    let mut drains = false;
    let wait = move || {
        for signal in signals.forever() {
            match signal {
                SIGHUP if !on_terminal => {
                    info!(
                        event = "hangup",
                        "SIGHUP: nothing to do; the file of keys is read for each client"
                    );
                }
                SIGTERM | SIGHUP if !drains => {
                    drains = true;
                    server.drain();
                }
                _ if cancel.is_cancelled() => {
                    low_level::exit(i32::from(ErrorKind::Interrupted.exit_code()));
                }
                _ => cancel.cancel(),
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(|error| failed(&error))?;
    Ok(())
}

/// Starts the thread that runs `show` for each SIGUSR1.
///
/// # Errors
/// As [`install`].
pub fn show_status(show: impl Fn() + Send + 'static) -> Result<()> {
    let mut signals = Signals::new([SIGUSR1]).map_err(|error| failed(&error))?;
    let wait = move || signals.forever().for_each(|_| show());
    thread::Builder::new().name("status".to_owned()).spawn(wait).map_err(|error| failed(&error))?;
    Ok(())
}

fn failed(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("cannot install signal handlers: {error}; please report this"))
}

/// Whether the `SigIgn` line of proc(5) `status` contains the signal: bit n-1 is signal n. False if
/// unreadable.
fn is_ignored(signal: i32, status: &str) -> bool {
    let digits = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    u64::from_str_radix(digits.trim(), 16).unwrap_or(0) >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_recognised() {
        let nohup =
            "Name:\tfobs\nSigBlk:\t0000000000004000\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        assert_eq!([SIGHUP, SIGINT, SIGTERM].map(|signal| is_ignored(signal, nohup)), [true, false, false]);
        for nothing in ["", "SigIgn:", "SigIgn:\tzz"] {
            assert!(!is_ignored(SIGHUP, nothing), "{nothing:?}");
        }
    }
}
