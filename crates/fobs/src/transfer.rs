//! A running transfer and its handle: [`Transfer`].

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::client;
use fobs_engine::Steering;
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{Event, EventSink, Progress, Summary};
use fobs_model::options::{Location, TransferOptions};

/// A transfer that runs in threads of its own. Any number of them may run in one process; each buffers up to
/// 170 MiB.
///
/// ```no_run
/// use fobs::{Carrier, Location, Remote, Transfer};
///
/// # fn main() -> fobs::Result<()> {
/// let destination = Location::Remote(Remote {
///     carrier: Carrier::Ssh,
///     user: None,
///     host: "archive.example.org".to_owned(),
///     port: None,
///     path: b"data/".to_vec(),
/// });
/// let transfer = Transfer::builder([Location::Local("genome.fa".into())], destination).start()?;
/// println!("{} bytes so far", transfer.progress().bytes);
/// let summary = transfer.wait()?;
/// println!("{} files, {:.0} bit/s", summary.files, summary.goodput_bps);
/// # Ok(())
/// # }
/// ```
///
/// Dropping the handle cancels the transfer and waits until it has ended and removed its unfinished files.
#[derive(Debug)]
pub struct Transfer {
    cancel: CancelToken,
    progress: Arc<ProgressTap>,
    /// `None` once it is joined.
    thread: Option<JoinHandle<Result<Summary>>>,
}

/// What a [`Transfer`] is made of. Made by [`Transfer::builder`].
pub struct TransferBuilder {
    sources: Vec<Location>,
    destination: Location,
    options: TransferOptions,
    events: Arc<dyn EventSink>,
    cancel: CancelToken,
    steering: Steering,
}

impl Transfer {
    /// A transfer of `sources` to `destination`, of which exactly one side is remote, with default options.
    pub fn builder(sources: impl Into<Vec<Location>>, destination: Location) -> TransferBuilder {
        TransferBuilder {
            sources: sources.into(),
            destination,
            options: TransferOptions::default(),
            events: Arc::new(|_: Event| ()),
            cancel: CancelToken::new(),
            steering: Steering::new(),
        }
    }

    /// Ends the transfer with [`ErrorKind::Interrupted`] unless it is complete already. Returns without
    /// waiting for the end; may be called again.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// The newest progress; all zero before the first one. It is renewed five times a second.
    pub fn progress(&self) -> Progress {
        self.progress.newest()
    }

    /// Whether the transfer has ended, so that [`wait`](Self::wait) returns at once.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end. The figures come even where some files failed: see [`Summary::errors`].
    ///
    /// # Errors
    /// Any [`ErrorKind`] but `Partial`: what stopped the whole transfer. `Internal` if one of its threads
    /// panicked, an event sink included.
    pub fn wait(mut self) -> Result<Summary> {
        self.join()
    }

    fn join(&mut self) -> Result<Summary> {
        let panicked = || {
            Err(Error::new(
                ErrorKind::Internal,
                "the transfer's thread failed; report this bug, unless an event sink panicked",
            ))
        };
        self.thread.take().map_or_else(panicked, |thread| thread.join().unwrap_or_else(|_| panicked()))
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.cancel.cancel();
            // How it ended is of no interest to a caller that dropped the handle.
            let _ = self.join();
        }
    }
}

impl TransferBuilder {
    /// Replaces all options.
    pub fn options(mut self, options: TransferOptions) -> TransferBuilder {
        self.options = options;
        self
    }

    /// Where events go. The sink is called on the transfer's threads while they work; see [`EventSink`].
    pub fn events(mut self, sink: Arc<dyn EventSink>) -> TransferBuilder {
        self.events = sink;
        self
    }

    /// A token that also cancels the transfer, for instance one that several transfers share. By default it
    /// has its own.
    pub fn cancel_token(mut self, token: CancelToken) -> TransferBuilder {
        self.cancel = token;
        self
    }

    /// What changes the transfer while it runs.
    pub fn steering(mut self, steering: Steering) -> TransferBuilder {
        self.steering = steering;
        self
    }

    /// Starts the transfer in a new thread and returns its handle.
    ///
    /// # Errors
    /// `Usage` for options or locations that are not possible, `Interrupted` if the token is cancelled
    /// already, `Internal` if no thread can be started. What needs files or the network fails in
    /// [`Transfer::wait`].
    pub fn start(self) -> Result<Transfer> {
        let TransferBuilder { sources, destination, options, events, cancel, steering } = self;
        cancel.check()?;
        client::check(&sources, &destination, &options)?;
        let progress = Arc::new(ProgressTap { events, newest: Mutex::new(Progress::default()) });
        let (token, sink) = (cancel.clone(), progress.clone());
        let run = move || client::copy(&sources, &destination, &options, sink, &token, steering);
        let thread = std::thread::Builder::new().name("fobs-transfer".to_owned()).spawn(run);
        let thread = thread.map_err(|error| {
            let message = format!(
                "cannot start a thread: {error}; raise the limit of processes (ulimit -u) or try again later"
            );
            Error::new(ErrorKind::Internal, message)
        })?;
        Ok(Transfer { cancel, progress, thread: Some(thread) })
    }
}

/// Keeps the newest progress on its way to the caller's sink.
struct ProgressTap {
    events: Arc<dyn EventSink>,
    newest: Mutex<Progress>,
}

impl ProgressTap {
    fn newest(&self) -> Progress {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl std::fmt::Debug for ProgressTap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.newest().fmt(f)
    }
}

impl EventSink for ProgressTap {
    fn event(&self, event: Event) {
        if let Event::Progress(progress) = &event {
            self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone_from(progress);
        }
        self.events.event(event);
    }
}
