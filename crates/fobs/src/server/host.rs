//! What a server does around the transfers of a connection.

use super::{Policy, SessionFigures, Wanted};
use crate::control::message::PathRole;
use crate::error::{Error, ErrorKind, Result};
use crate::secure::ticket::Ticket;
use std::path::PathBuf;

/// What surrounds the transfers of a connection.
pub(crate) trait Host {
    /// What the client may do, and a seat for its transfer. Only here does the client read a refusal, and can
    /// the log name the request.
    fn judge(&mut self, wanted: Wanted<'_>) -> Result<Policy>;

    /// What paths of a request stand for. A daemon has neither homes nor a shell's patterns.
    fn expand(&mut self, _paths: &[Vec<u8>], _role: PathRole) -> Result<Vec<Vec<u8>>> {
        let message = "this server expands no patterns; name the files, or their directory with -r";
        Err(Error::new(ErrorKind::Usage, message))
    }

    /// A ticket takes the place of the client's own rights, for its next request.
    fn redeem(&mut self, _ticket: &str) -> Result<()> {
        Err(no_daemon())
    }

    /// A ticket as text, signed by the server's key.
    fn sign(&mut self, _ticket: &Ticket) -> Result<String> {
        Err(no_daemon())
    }

    /// The identity file with which the server itself pulls for a client.
    fn own_identity(&mut self) -> Result<PathBuf> {
        Err(no_daemon())
    }

    /// A transfer has ended after which another may come: it is logged, and its seat is free.
    fn ended(&mut self, outcome: &Result<SessionFigures>);

    /// A request about files by name is answered, or refused.
    fn answered(&mut self, _outcome: &Result<()>) {}

    /// The client has been sent why the connection ends.
    fn told(&mut self) {}

    /// A place for the connection while it rests, until what is returned is dropped, or called when a request
    /// has come; `hang_up` ends it where the place is needed. `None` where there is none for this client.
    fn rest(&mut self, hang_up: Box<dyn FnOnce() + Send>) -> Option<Leave>;
}

fn no_daemon() -> Error {
    Error::new(ErrorKind::Usage, "tickets are for daemons (fobs serve); over ssh use the login of each host")
}

/// Leaves a place, and says whether it was still there: else the connection was hung up on.
pub(crate) type Leave = Box<dyn FnOnce() -> StillThere>;

/// Whether a connection had its place until now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StillThere {
    Yes,
    No,
}
