//! A stream for tasks of tokio. Its readiness comes from tokio's own reactor: the traits of futures-io bring
//! none, and one of our own would be a thread for each stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

use super::{Stream, StreamBuilder};
use crate::client::pipe::Piped;
use fobs_model::error::{Error, ErrorKind, Result};

/// A [`Stream`] whose reads and writes are awaited; `tokio::io::split` makes two halves of it.
///
/// `poll_shutdown` is [`Stream::shutdown_write`]: what comes may be read on. Dropping one that is not
/// [finished](AsyncStream::finish) fails at the other end.
pub struct AsyncStream {
    /// A second descriptor of the same socket.
    ready: UnixStream,
    stream: Stream,
}

impl StreamBuilder {
    /// As [`open`](StreamBuilder::open), for a task of tokio.
    ///
    /// # Errors
    /// As [`open`](StreamBuilder::open).
    ///
    /// # Panics
    /// Outside of a runtime whose I/O is enabled, as everything of tokio that waits for a descriptor.
    pub async fn open_async(self) -> Result<AsyncStream> {
        let stream = self.start()?;
        poll_fn(|context| stream.state.poll_opened(context)).await?;
        AsyncStream::new(stream)
    }
}

impl AsyncStream {
    /// One of an open stream.
    ///
    /// # Errors
    /// `Socket` where the reactor does not take its descriptor.
    ///
    /// # Panics
    /// As [`open_async`](StreamBuilder::open_async).
    pub fn new(stream: Stream) -> Result<AsyncStream> {
        let made = stream.set_nonblocking(true).and_then(|()| stream.near.try_clone());
        let made = made.and_then(UnixStream::from_std);
        let cannot = |error| Error::new(ErrorKind::Socket, format!("cannot wait for a stream: {error}"));
        made.map(|ready| AsyncStream { ready, stream }).map_err(cannot)
    }

    /// The stream, for what does not wait.
    pub fn get_ref(&self) -> &Stream {
        &self.stream
    }

    /// As [`Stream::finish`].
    ///
    /// # Errors
    /// As [`Stream::finish`].
    pub async fn finish(self) -> Result<Piped> {
        self.stream.begin_to_finish()?;
        poll_fn(|context| self.stream.state.poll_outcome(context)).await
    }
}

impl AsyncRead for AsyncStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, has_room) = (room.filled().len(), room.remaining() > 0);
        let read = ready!(Pin::new(&mut self.ready).poll_read(context, room));
        let read = read.map(|()| room.filled().len() - before);
        Poll::Ready(self.stream.told_of_reading(read, has_room).map(drop))
    }
}

impl AsyncWrite for AsyncStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.ready).poll_write(context, bytes));
        Poll::Ready(self.stream.told_of_writing(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown_write())
    }
}
