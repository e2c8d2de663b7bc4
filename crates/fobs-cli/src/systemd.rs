//! What `fobs serve` and systemd say to each other: sockets that are passed (`LISTEN_FDS`), readiness, status
//! and watchdog (`NOTIFY_SOCKET`). Without systemd all of it does nothing.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use fobs::{Error, ErrorKind, Result};
use fobs_daemon::ServerHandle;
use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;
use sd_notify::NotifyState;

/// How often the status is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A serving thread that was not at work for this long hangs; usually it is every 0.2 s.
const HANGS_AFTER: Duration = Duration::from_secs(10);
/// Time that the end of a server takes after its sessions have been ended.
const END_TIME: Duration = Duration::from_secs(15);

/// The listening sockets that systemd has opened for us; none if it has not. For the start of the process,
/// once: it takes them over and removes their variables from the environment.
///
/// # Errors
/// `Socket` for anything but a listening TCP socket.
pub fn sockets() -> Result<Vec<TcpListener>> {
    let mut passed = ListenFd::from_env();
    let refuse = |why: &str| {
        let message =
            format!("systemd passed a socket that is of no use: {why}; see ListenStream= of its unit");
        Error::new(ErrorKind::Socket, message)
    };
    let count = passed.len();
    // What cannot say that it listens is no listener.
    let take = |index| match passed.take_tcp_listener(index) {
        Ok(Some(socket)) if socket_acceptconn(&socket).unwrap_or(false) => Ok(socket),
        Ok(_) => Err(refuse("it does not listen")),
        Err(error) => Err(refuse(&error.to_string())),
    };
    (0..count).map(take).collect()
}

/// Tells systemd that the server is ready, and from then on how it is: its sessions, that it does not hang,
/// that it ends.
pub fn report(server: &ServerHandle, drain: Duration) {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    tell(&[NotifyState::Ready, NotifyState::Status(&status(server))]);
    let server = server.clone();
    // Without the thread the watchdog ends the service, which is its purpose.
    let _ = thread::Builder::new().name("systemd".to_owned()).spawn(move || watch(&server, drain));
}

/// Never returns: the process ends with its main thread.
fn watch(server: &ServerHandle, drain: Duration) {
    let watchdog = sd_notify::watchdog_enabled();
    let (mut shown, mut is_stopping) = (status(server), false);
    loop {
        if server.is_draining() && !is_stopping {
            is_stopping = true;
            stopping(drain);
        }
        let now = status(server);
        if now != shown {
            tell(&[NotifyState::Status(&now)]);
            shown = now;
        }
        if watchdog.is_some() && server.idle_for() < HANGS_AFTER {
            tell(&[NotifyState::Watchdog]);
        }
        // Twice in its time, as sd_watchdog_enabled(3) asks for.
        thread::sleep(watchdog.map_or(LOOK_EVERY, |time| LOOK_EVERY.min(time / 2)));
    }
}

/// Tells systemd that the server ends, and how long that may take; again at its very end is fine.
pub fn stopping(drain: Duration) {
    let extend = u32::try_from((drain + END_TIME).as_micros()).unwrap_or(u32::MAX);
    tell(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(extend)]);
}

fn status(server: &ServerHandle) -> String {
    let verb = if server.is_draining() { "shutting down" } else { "serving" };
    format!("{verb}: {} sessions, {} clients wait", server.sessions(), server.waiting())
}

/// Says something to systemd. One that does not listen has nothing to do with the service's work.
fn tell(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}
