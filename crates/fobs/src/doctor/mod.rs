//! What will limit a transfer, found out before it runs (docs/guide.md "Before a copy: doctor").
//!
//! ```text
//!   facts     what is found out of the path; of each end by itself: `examine/`
//!   visit     the other end and the path; budget is how long it may take
//!   findings  facts to sentences: what each allows, and the command that mends it
//!   verdict   findings to the one that limits a transfer
//! ```
//!
//! `findings` and `verdict` are pure functions of the facts.

mod budget;
mod facts;
mod findings;
mod verdict;
mod visit;

#[cfg(test)]
mod tests;

pub use facts::{
    Carried, CipherSpeed, DiskFacts, DiskSpeed, Examination, HostFacts, InterfaceFacts, KeyFacts,
    MemoryFacts, PacketSpeed, PathFacts, PathOutcome, PeerFacts, SocketFacts,
};
pub use findings::{Finding, Mend, Spot, Subject};
pub use verdict::{Bottleneck, Diagnosis, diagnose};

pub use crate::examine::PROBE_MAX;
use crate::examine::{DiskProbe, examine, interface};
use budget::Budget;

use fobs_model::cancel::CancelToken;
use fobs_model::error::Result;
use fobs_model::event::EventSink;
use fobs_model::options::{Remote, TransferOptions};
use fobs_store::Base;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// An examination of this end, or of both ends and the path between them.
///
/// ```no_run
/// use fobs::doctor::{Checkup, diagnose};
/// use fobs::{CancelToken, Carrier, Event, Remote, TransferOptions};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// # fn main() -> fobs::Result<()> {
/// let checkup = Checkup {
///     directory: ".".into(),
///     remote: Some(Remote {
///         carrier: Carrier::Daemon,
///         user: None,
///         host: "data.example.org".to_owned(),
///         port: None,
///         path: b"incoming".to_vec(),
///     }),
///     options: TransferOptions::default(),
///     time: Duration::from_secs(2),
///     whole: Some(Duration::from_secs(5)),
/// };
/// let facts = checkup.run(Arc::new(|_: Event| ()), &CancelToken::new())?;
/// println!("{}", diagnose(&facts).verdict);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Checkup {
    /// The directory here whose disk is tried.
    pub directory: PathBuf,
    /// The other end, and the directory there; `None` examines only this end.
    pub remote: Option<Remote>,
    /// How the other end is reached, and how data is sent there.
    pub options: TransferOptions,
    /// How long data is sent in each direction at most; at most [`PROBE_MAX`].
    pub time: Duration,
    /// How long all of it may take: data is sent for less time then, for a second in each direction at least.
    pub whole: Option<Duration>,
}

impl Checkup {
    /// Examines. Data that was sent is thrown away, and no file stays at either end. Notices (a pinned key)
    /// go to `events`.
    ///
    /// # Errors
    /// Those of reaching the other end over the control channel; `Protocol` if it runs a version that cannot
    /// be examined; `Interrupted` once cancelled. A path that carries no data is no error but a fact.
    pub fn run(&self, events: Arc<dyn EventSink>, cancel: &CancelToken) -> Result<Examination> {
        let directory = self.directory.as_os_str().as_bytes();
        let disk = DiskProbe::At { base: &Base::Ambient, directory };
        let Some(remote) = &self.remote else {
            let here = examine(None, &disk, cancel);
            cancel.check()?;
            return Ok(Examination { here, there: None });
        };
        // This end examines itself while the other one is reached and does, before the path is tried.
        let (visited, here) = std::thread::scope(|scope| {
            let here = std::thread::Builder::new().name("fobs-examine".to_owned());
            let here = here.spawn_scoped(scope, || examine(None, &disk, cancel));
            let visited = visit::visit(self, remote, Budget::of(self), events, cancel);
            (visited, here.ok().and_then(|here| here.join().ok()))
        });
        let (peer, there) = visited?;
        let here = here.unwrap_or_else(|| examine(None, &disk, cancel));
        cancel.check()?;
        Ok(Examination { here: HostFacts { interface: interface(peer), ..here }, there: Some(there) })
    }
}
