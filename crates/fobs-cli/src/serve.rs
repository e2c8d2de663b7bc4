//! `fobs serve`: the daemon, its log and its signals.

use fobs::{CancelToken, Error, ErrorKind, Result};
use fobs_daemon::Server;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::args::ServeArgs;
use crate::log::{self, LogForm};
use crate::{resolve, signals, systemd};

/// Serves until a signal ends it.
///
/// # Errors
/// Those of [`Server::bind`] and [`Server::run`].
pub fn run(args: &ServeArgs) -> Result<()> {
    let sockets = systemd::sockets()?;
    let options = resolve::serve(args)?;
    if !sockets.is_empty() && !args.listen.is_empty() {
        let message =
            "systemd has passed the sockets to listen at: leave --listen out, or stop its socket unit";
        return Err(Error::new(ErrorKind::Usage, message));
    }
    log::install(if args.log_json { LogForm::Json } else { LogForm::Text });
    raise_descriptor_limit();
    let server = match sockets {
        sockets if sockets.is_empty() => Server::bind(&options)?,
        sockets => Server::with_listeners(&options, sockets)?,
    };
    let cancel = CancelToken::new();
    signals::install_for_server(&server.handle(), &cancel)?;
    systemd::report(&server.handle(), options.drain);
    let ended = server.run(&cancel);
    // A server without sessions ends before anyone has looked at it.
    systemd::stopping(options.drain);
    ended
}

/// Lets the process open as many files as it may at all. Shells and systemd start with 1024 (for `select`,
/// which is not used here), which is enough for two sessions.
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If it fails, the server says whether what there is suffices.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
