//! What a server does around the transfers of a connection.

use super::{Policy, StreamEntrance, Wanted};
use crate::pipe::join::Meeting;
use crate::pipe::program::Launcher;
use crate::pipe::returns::Returns;
use fobs_channel::control::ControlWriter;
use fobs_channel::secure::ticket::Ticket;
use fobs_model::cancel::CancelToken;
use fobs_model::direction::TransferDirection;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::OtherEntries;
use fobs_model::message::files::WireEntry;
use fobs_model::message::{Hello, PathRole, PipeOpen};
use fobs_model::options::{PickedNames, SignedTicket};
use fobs_model::public_key::PublicKey;

/// What a request did, for the server's log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answered {
    /// Names that are gone.
    pub removed: u64,
}

/// The figures of a session, for the server's log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionFigures {
    pub direction: TransferDirection,
    pub files: u64,
    pub bytes: u64,
    /// Those of them that an earlier attempt had verified.
    pub resumed_bytes: u64,
    /// What else is in place.
    pub others: OtherEntries,
    /// Files that were not moved.
    pub failed: u64,
    pub seconds: f64,
    /// Datagrams that this side dropped as malformed, forged or replayed.
    pub datagrams_rejected: u64,
}

/// A client's request that the server pulls from another one.
pub struct Fetch<'a> {
    /// Where to, below the root.
    pub directory: &'a [u8],
    /// What, and from where.
    pub ticket: &'a SignedTicket,
    /// Only these names of the directory that the ticket is for.
    pub picked: Option<&'a PickedNames>,
    /// What the client may do here.
    pub policy: &'a Policy,
    /// The client's key.
    pub client: Option<&'a PublicKey>,
    /// Ends it.
    pub cancel: &'a CancelToken,
    /// Called all the while; an error ends it.
    pub go_on: &'a mut dyn FnMut() -> Result<()>,
}

/// What surrounds the transfers of a connection.
pub trait Host {
    /// What the client may do, and a seat for its transfer. Only here does the client read a refusal, and can
    /// the log name the request.
    fn judge(&mut self, wanted: Wanted<'_>) -> Result<Policy>;

    /// The client takes notices on this writer while it waits for its answer.
    fn may_tell(&mut self, _writer: ControlWriter) {}

    /// Why the client will be refused whatever it asks for, if that is known: it need not ask at length.
    fn denial(&self) -> Option<Error> {
        None
    }

    /// What paths of a request stand for. A daemon has neither homes nor a shell's patterns.
    fn expand(&mut self, _paths: &[Vec<u8>], _role: PathRole) -> Result<Vec<Vec<u8>>> {
        Err(no_patterns())
    }

    /// A ticket takes the place of the client's own rights, for its next request.
    fn redeem(&mut self, _ticket: &str) -> Result<()> {
        Err(no_daemon())
    }

    /// A ticket as text, signed by the server's key.
    fn sign(&mut self, _ticket: &Ticket) -> Result<String> {
        Err(no_daemon())
    }

    /// Pulls what a ticket names for the client; the files that came.
    fn fetch(&mut self, _asked: Fetch<'_>) -> Result<Vec<WireEntry>> {
        Err(no_daemon())
    }

    /// What starts the commands of pipes, where any may run.
    fn launcher(&self) -> Option<Launcher> {
        None
    }

    /// Where clients with pipes meet by name.
    fn meeting(&self) -> Option<Meeting> {
        None
    }

    /// Where clients come back to their pipes.
    fn returns(&self) -> Option<Returns> {
        None
    }

    /// A client may come back to the pipe of this name.
    fn awaits(&self, _pipe: &str) {}

    /// Serves a client that comes back to a pipe which another process of this user has, to the end of its
    /// connection; false where none has it.
    fn hands_over(&self, _open: &PipeOpen, _hello: &Hello, _cancel: &CancelToken) -> bool {
        false
    }

    /// The client's key.
    fn key(&self) -> Option<PublicKey> {
        None
    }

    /// Whether the client is still there.
    fn is_there(&self) -> bool {
        true
    }

    /// How streams of the second object of a pipe get in.
    fn another_entrance(&mut self) -> StreamEntrance {
        StreamEntrance::Own
    }

    /// A transfer has ended after which another may come: it is logged, and its seat is free.
    fn ended(&mut self, outcome: &Result<SessionFigures>);

    /// A request about files by name is answered, or refused.
    fn answered(&mut self, _outcome: &Result<Answered>) {}

    /// The client has been sent why the connection ends.
    fn told(&mut self) {}

    /// A place for the connection while it rests, until what is returned is dropped, or called when a request
    /// has come; `hang_up` ends it where the place is needed. `None` where there is none for this client.
    fn rest(&mut self, hang_up: Box<dyn FnOnce() + Send>) -> Option<Leave>;
}

pub fn no_patterns() -> Error {
    let message = "this server expands no patterns; name the files, or their directory with -r";
    Error::new(ErrorKind::Usage, message)
}

fn no_daemon() -> Error {
    Error::new(ErrorKind::Usage, "tickets are for daemons (fobs serve); over ssh use the login of each host")
}

/// Leaves a place, and says whether it was still there: else the connection was hung up on.
pub type Leave = Box<dyn FnOnce() -> StillThere>;

/// Whether a connection had its place until now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StillThere {
    Yes,
    No,
}
