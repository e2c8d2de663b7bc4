//! `fobs jobs page`: the page of jobs for a browser of this host, until Ctrl-C.

use fobs::{CancelToken, Error, ErrorKind, Result};
use fobs_jobs::front::{Front, Host};

use super::place::{self, Choice};
use super::{print, reach};
use crate::args::jobs::PageArgs;
use crate::{output, signals};

/// What the page's port does beside passing on.
struct Terminal;

impl Host for Terminal {
    fn start(&self) -> std::result::Result<(), String> {
        reach::client(Choice::Usual).map(|_| ()).map_err(|error| error.message)
    }

    fn show(&self, address: &str) {
        // Where standard output is gone, nobody waits for an address.
        let _ = print(&format!("{address}\n"));
    }
}

/// Serves the page until a signal ends it.
///
/// # Errors
/// Where no keeper can be started, or the port is taken.
pub fn run(args: &PageArgs, choice: Choice) -> Result<()> {
    let socket = place::socket(choice)?;
    if socket == place::system_socket() {
        let message =
            "the keeper of this host has no page: fobs jobs lists your jobs, and fobs top shows them";
        return Err(Error::new(ErrorKind::Usage, message));
    }
    reach::client(choice)?;
    let cancel = CancelToken::new();
    signals::install(&cancel)?;
    let failed = |error: std::io::Error| {
        let message = format!("cannot listen on port {} of this host: {error}; choose another", args.port);
        Error::new(ErrorKind::Socket, message)
    };
    output::note(
        "open this address in a browser of this host; it is good once, and the next one is printed then. Ctrl-C ends \
         the page, and no job",
    );
    let front = Front::open(args.port, &socket, Terminal).map_err(failed)?;
    front.run(|| cancel.is_cancelled()).map_err(failed)
}
