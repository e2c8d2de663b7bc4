//! What a client waits for over the control channel where no engine runs. Each wait ends with `--timeout`: a
//! test finds any other way to receive a message here.

use fobs_channel::control::ControlChannel;
use fobs_model::error::Result;
use fobs_model::event::{Event, EventSink};
use fobs_model::message::Message;
use fobs_model::text::printable;
use std::time::{Duration, Instant};

/// Longest time that the server may leave a request unread.
const UNREAD_MAX: Duration = Duration::from_secs(60);

/// Most notices before an answer, and most characters of each: a server says once that the client waits.
const NOTICES_MAX: usize = 8;
const NOTICE_CHARS_MAX: usize = 300;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// What paths stand for.
    Paths,
    /// The answer to the request of a transfer, and before it that to an examination.
    Answer,
    /// That an object which went with its request is stored.
    Stored,
    /// The answer about files by name.
    Entries,
    /// The other end of a pipe.
    Pipe,
}

impl Awaited {
    /// All of them.
    #[cfg(test)]
    pub const ALL: &[Awaited] =
        &[Awaited::Paths, Awaited::Answer, Awaited::Stored, Awaited::Entries, Awaited::Pipe];
}

/// A wait for messages. What the channel waited for before it is over.
pub(super) struct Hearing<'c> {
    pub(super) channel: &'c mut ControlChannel,
    timeout: Duration,
}

impl Hearing<'_> {
    /// Waits for this, from now on.
    pub(super) fn of(_: Awaited, channel: &mut ControlChannel, timeout: Duration) -> Hearing<'_> {
        channel.writer.set_timeout(timeout.min(UNREAD_MAX));
        let mut hearing = Hearing { channel, timeout };
        hearing.begin_anew();
        hearing
    }

    /// Something new has come: the time until now does not count.
    pub(super) fn begin_anew(&mut self) {
        self.channel.set_read_deadline(Instant::now().checked_add(self.timeout));
    }

    /// The next message, as [`ControlReader::recv`](fobs_channel::control::ControlReader::recv) gives it.
    fn next(&mut self) -> Result<Option<Message>> {
        self.channel.reader.recv()
    }

    /// The next message that is no notice: what the server says of a wait goes to `events`.
    pub(super) fn next_told(&mut self, events: &dyn EventSink) -> Result<Option<Message>> {
        for _ in 0..NOTICES_MAX {
            match self.next()? {
                Some(Message::Notice { text }) => {
                    self.begin_anew();
                    events.event(Event::Notice(printable(&text, NOTICE_CHARS_MAX)));
                }
                other => return Ok(other),
            }
        }
        self.next()
    }
}

impl Drop for Hearing<'_> {
    fn drop(&mut self) {
        self.channel.set_read_deadline(None);
    }
}

#[cfg(test)]
mod tests;
