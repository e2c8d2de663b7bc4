//! From a request to a stream: its thread is started, and the other end is waited for.

use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use super::Stream;
use super::state::{StreamState, failed};
use crate::client::pipe::{NearEnds, PipeEnds, PipeManner, Turned, run};
use fobs_engine::Steering;
use fobs_model::cancel::{CancelHook, CancelToken};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{Event, EventSink};
use fobs_model::message::pipe::PipeRequest;
use fobs_model::options::{Carrier, Remote, TransferOptions};

/// Bytes of a socket between a program and its stream: what comes in some milliseconds at 1 Gbit/s. The
/// kernel gives less where `net.core.wmem_max` is less.
const SOCKET_BYTES: usize = 1 << 20;

/// What a [`Stream`] is made of.
pub struct StreamBuilder {
    remote: Remote,
    request: PipeRequest,
    options: TransferOptions,
    sending: Arc<dyn EventSink>,
    receiving: Arc<dyn EventSink>,
    cancel: CancelToken,
    errors: Option<OwnedFd>,
}

impl Stream {
    /// A stream to what a server has: at a daemon to what has the name that is the path of `remote`, the
    /// command of the key's line or the stream that listens there.
    pub fn to(remote: Remote) -> StreamBuilder {
        let name = String::from_utf8_lossy(&remote.path).trim_end_matches('/').to_owned();
        StreamBuilder::new(remote, PipeRequest::Name { name })
    }

    /// A stream to a command, which the shell of the user at the host of `remote` reads: over ssh.
    pub fn command(remote: Remote, line: impl Into<Vec<u8>>) -> StreamBuilder {
        StreamBuilder::new(remote, PipeRequest::command(line.into()))
    }

    /// A stream to the next one that asks the daemon of `remote` for `name`, of which
    /// [`open`](StreamBuilder::open) waits `wait` for, a day at most.
    pub fn listen(remote: Remote, name: impl Into<String>, wait: Duration) -> StreamBuilder {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        StreamBuilder::new(remote, PipeRequest::Listen { name: name.into(), wait_ms })
    }
}

impl StreamBuilder {
    fn new(remote: Remote, request: PipeRequest) -> StreamBuilder {
        StreamBuilder {
            remote,
            request,
            options: TransferOptions::default(),
            sending: Arc::new(|_: Event| ()),
            receiving: Arc::new(|_: Event| ()),
            cancel: CancelToken::new(),
            errors: None,
        }
    }

    /// Replaces all options; those about files are not used.
    pub fn options(mut self, options: TransferOptions) -> StreamBuilder {
        self.options = options;
        self
    }

    /// Where events of the bytes that are written go, and of neither direction; see [`EventSink`].
    pub fn sending(mut self, sink: Arc<dyn EventSink>) -> StreamBuilder {
        self.sending = sink;
        self
    }

    /// Where events of the bytes that are read go.
    pub fn receiving(mut self, sink: Arc<dyn EventSink>) -> StreamBuilder {
        self.receiving = sink;
        self
    }

    /// Ends the wait for the other end, and the stream.
    pub fn cancel_token(mut self, token: CancelToken) -> StreamBuilder {
        self.cancel = token;
        self
    }

    /// Where a command's standard error goes; without it nowhere.
    pub fn errors(mut self, to: impl Into<OwnedFd>) -> StreamBuilder {
        self.errors = Some(to.into());
        self
    }

    /// Connects, and waits until the other end is there.
    ///
    /// # Errors
    /// `Usage` for a request that is not possible; `NoSource` where nothing has the name, `Denied` where the
    /// key may not, `Timeout` where nobody came, and what keeps the client from the server.
    pub fn open(self) -> Result<Stream> {
        let stream = self.start()?;
        stream.opened()?;
        Ok(stream)
    }

    /// As [`open`](StreamBuilder::open), and does not wait: what is written leaves once the other end is
    /// there, and one that cannot be opened is one that fails. [`Stream::abort`] ends the wait.
    ///
    /// # Errors
    /// `Usage` for a request that is not possible, `Socket` or `Internal` where this process may have no more
    /// descriptors or threads.
    pub fn start(self) -> Result<Stream> {
        self.check()?;
        let StreamBuilder { remote, request, options, sending, receiving, cancel, errors } = self;
        let pair = UnixStream::pair().and_then(|(near, far)| {
            for end in [&near, &far] {
                rustix::net::sockopt::set_socket_send_buffer_size(end, SOCKET_BYTES)?;
            }
            Ok((near, far))
        });
        let (near, far) = pair.map_err(|error| {
            let message = format!("cannot make a socket for a stream: {error}; raise the limit (ulimit -n)");
            Error::new(ErrorKind::Socket, message)
        })?;
        let (state, own) = (Arc::<StreamState>::default(), CancelToken::new());
        let stream = Stream::new(near, state.clone(), own.clone());
        let sending = Arc::new(Verified { state: state.clone(), next: sending });
        let work = Work { state: state.clone(), cancel: own, far, errors, sending, receiving };
        let hook = work.ends_with(&cancel);
        let act = move || work.run(&remote, request, &options, hook);
        Builder::new().name("fobs-stream".to_owned()).spawn(act).map_err(Error::internal)?;
        Ok(stream)
    }

    fn check(&self) -> Result<()> {
        let usage = |message: &str| Err(Error::new(ErrorKind::Usage, message));
        match (&self.request, self.remote.carrier) {
            (PipeRequest::Command { .. }, Carrier::Daemon) => usage(
                "a daemon runs no command that a client names; give the name of a stream (fobs://host/NAME)",
            ),
            (PipeRequest::Command { line }, Carrier::Ssh) if line.0.is_empty() => {
                usage("the command of a stream is empty; give one, as 'cat'")
            }
            (PipeRequest::Name { .. } | PipeRequest::Listen { .. }, Carrier::Ssh) => {
                usage("streams have names at a daemon only (fobs://host/NAME); over ssh give a command")
            }
            _ => Ok(()),
        }
    }
}

/// The thread of a stream.
struct Work {
    state: Arc<StreamState>,
    cancel: CancelToken,
    far: UnixStream,
    errors: Option<OwnedFd>,
    sending: Arc<dyn EventSink>,
    receiving: Arc<dyn EventSink>,
}

impl Work {
    /// Has it end with the token of the builder, which may be that of other things too.
    fn ends_with(&self, cancel: &CancelToken) -> CancelHook {
        let own = self.cancel.clone();
        cancel.on_cancel(move || own.cancel())
    }

    fn run(self, remote: &Remote, request: PipeRequest, options: &TransferOptions, hook: CancelHook) {
        let Work { state, cancel, far, errors, sending, receiving } = self;
        let opened = state.clone();
        let ends = move || {
            let ends = near_ends(&opened, far, errors)?;
            opened.is_open();
            Ok(ends)
        };
        let steering = [Steering::new(), Steering::new()];
        let manner = PipeManner {
            options,
            sending: &sending,
            receiving: &receiving,
            steering: &steering,
            cancel: &cancel,
        };
        let moved = AssertUnwindSafe(|| run(remote, request, ends, manner));
        let outcome = catch_unwind(moved).unwrap_or_else(|_| Err(failed()));
        drop(hook);
        state.is_over(outcome);
    }
}

/// The ends of a pipe at the other side of the program's descriptor.
fn near_ends(state: &Arc<StreamState>, far: UnixStream, errors: Option<OwnedFd>) -> Result<NearEnds> {
    let made = far.try_clone().and_then(|output| Ok((output, far.try_clone()?)));
    let (output, turning) = made.map_err(|error| {
        Error::new(ErrorKind::Socket, format!("cannot make a socket for a stream: {error}"))
    })?;
    let (asked, told) = (state.clone(), state.clone());
    let on = move |turned: Turned| {
        told.turned(turned);
        let half = match turned {
            Turned::AllReceived => Shutdown::Write,
            Turned::Unread => Shutdown::Read,
        };
        // The program may have closed its descriptor.
        let _ = turning.shutdown(half);
    };
    Ok(NearEnds {
        ends: PipeEnds { input: far.into(), output: output.into(), errors },
        at_end: Box::new(move |ended| asked.ended_writing(ended)),
        on: Box::new(on),
    })
}

/// Counts what is verified of the bytes that are sent.
struct Verified {
    state: Arc<StreamState>,
    next: Arc<dyn EventSink>,
}

impl EventSink for Verified {
    fn event(&self, event: Event) {
        if let Event::Progress(progress) = &event {
            self.state.are_verified(progress.bytes);
        }
        self.next.event(event);
    }
}
