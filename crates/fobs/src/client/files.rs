//! Requests about files by name, over a connection that is kept (protocol 2.12).

use super::busy::outlast;
use super::hang_up;
use super::hearing::{Awaited, Hearing};
use super::line::{Caller, Line, Reached};
use super::manner::Manner;
use fobs_engine::refused;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::listing::Entry;
use fobs_model::message::files::FileRequest;
use fobs_model::message::{Bytes, Message};

/// Most entries of one answer: a server that sends more than this for one directory is ended. They take
/// about 100 MB here.
const ENTRIES_MAX: usize = 1_000_000;
/// Most bytes of names and values in one answer.
const ANSWER_BYTES_MAX: usize = 512 << 20;

impl Caller {
    /// Asks about files by name. A connection that broke while it rested costs nothing.
    pub(crate) fn ask(&mut self, request: &FileRequest, manner: Manner<'_>) -> Result<Vec<Entry>> {
        outlast(manner, || self.ask_again(request, manner))
    }

    fn ask_again(&mut self, request: &FileRequest, manner: Manner<'_>) -> Result<Vec<Entry>> {
        let rested = self.has_line();
        match self.ask_once(request, manner) {
            Err(error)
                if rested
                    && !self.has_line()
                    && !manner.cancel.is_cancelled()
                    && error.kind == ErrorKind::Connect =>
            {
                self.ask_once(request, manner)
            }
            outcome => outcome,
        }
    }

    fn ask_once(&mut self, request: &FileRequest, manner: Manner<'_>) -> Result<Vec<Entry>> {
        // A new connection has the request for its first word: who may not rest there hears why.
        let mut line = match self.reach(manner)? {
            Reached::Line(line) => *line,
            // A server that keeps no connection does not know the request either.
            Reached::Once(client) => {
                hang_up(&client.channel.writer, client.ssh);
                return Err(too_old(&self.remote.host));
            }
        };
        let mut refusal = None;
        if !line.knows(request.feature()) && line.awaits_hello() {
            // Any answer comes after the hello; what it says is of no interest, unless no other one comes.
            let look = FileRequest::Stat { path: Bytes(request.path().to_vec()), links: false };
            refusal = line.ask(&look, manner).err();
            if refusal.as_ref().is_some_and(|error| !error.kind.leaves_channel()) {
                self.put_back(line, false);
                return Err(refusal.unwrap_or_else(|| too_old(&self.remote.host)));
            }
        }
        let outcome = if line.knows(request.feature()) {
            line.ask(request, manner)
        } else {
            Err(too_old(&self.remote.host))
        };
        let is_sound = match &outcome {
            Ok(_) => true,
            Err(error) => error.kind.leaves_channel() && !manner.cancel.is_cancelled(),
        };
        let refused_here = matches!(&outcome, Err(error) if error.kind == ErrorKind::RemoteMissing);
        self.put_back(line, is_sound || refused_here);
        match (outcome, refusal) {
            // The server has ended the connection with its first refusal.
            (Err(error), Some(refusal)) if error.kind == ErrorKind::Connect => Err(refusal),
            (outcome, _) => outcome,
        }
    }
}

impl Line {
    fn ask(&mut self, request: &FileRequest, manner: Manner<'_>) -> Result<Vec<Entry>> {
        let Manner { options, cancel, events, .. } = manner;
        let mut channel = self.lease();
        let writer = channel.writer.clone();
        let hook = self.ends_with(cancel);
        let outcome = (|| {
            let peer = channel.peer.description.clone();
            let mut hearing = Hearing::of(Awaited::Entries, &mut channel, options.timeout);
            let mut sent = writer.send(&Message::Files(request.clone()));
            if matches!(&sent, Err(error) if error.kind == ErrorKind::Usage) {
                // Too long to be sent at all: no answer will come.
                return sent.map(|()| Vec::new());
            }
            let (mut found, mut bytes) = (Vec::new(), 0);
            loop {
                // A server that refuses this client may close the channel before it is asked: its reason is
                // the better error.
                let heard = hearing.next_told(events.as_ref());
                if !matches!(heard, Ok(Some(Message::Abort { .. }))) {
                    std::mem::replace(&mut sent, Ok(()))?;
                }
                match heard? {
                    Some(Message::Answer { entries, last }) => {
                        // An empty one says that something was done since the one before.
                        hearing.begin_anew();
                        bytes += entries.iter().map(|entry| entry.name.0.len()).sum::<usize>();
                        if found.len() + entries.len() > ENTRIES_MAX || bytes > ANSWER_BYTES_MAX {
                            return Err(too_many(&peer));
                        }
                        found.extend(entries.into_iter().map(Entry::from));
                        if last {
                            return Ok(found);
                        }
                    }
                    Some(other) => {
                        if let Some(refusal) = refused(&peer, &other) {
                            return Err(refusal);
                        }
                        let message = format!("{peer} answered out of turn; install the same version there");
                        return Err(Error::new(ErrorKind::Protocol, message));
                    }
                    None => {
                        let message = format!("{peer} ended the connection instead of answering; try again");
                        return Err(Error::new(ErrorKind::Connect, message));
                    }
                }
            }
        })();
        drop(channel);
        writer.close();
        drop(hook);
        self.rests();
        outcome.map_err(|error| cancel.explain(error))
    }
}

fn too_old(host: &str) -> Error {
    let message = format!(
        "{host} has an older fobs, which knows no such request about files by name; install the same version \
         there"
    );
    Error::new(ErrorKind::RemoteMissing, message)
}

fn too_many(peer: &str) -> Error {
    let message = format!("{peer} answers with more than {ENTRIES_MAX} entries; copy the directory instead");
    Error::new(ErrorKind::Protocol, message)
}
