//! Objects that travel in the messages of the control channel (protocol 2.8), at the client.

use super::ends::{local_sources, open_source};
use super::hearing::{Awaited, Hearing};
use super::persist::Course;
use super::request::out_of_turn;
use super::{Client, Done, control_word, hang_up};
use crate::direct::{DIRECT_LEN_MAX, Filled, completion, store};
use crate::session::summary;
use fobs_channel::control::ControlChannel;
use fobs_channel::secure::datagram::{Cipher, Direction};
use fobs_engine::{Clock, Reporter, refused};
use fobs_model::direction::TransferDirection;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{Event, EventSink, Summary};
use fobs_model::message::{Accept, Complete, Finished, Message, Open, Reuse};
use fobs_model::options::{Location, TransferOptions, Transport};
use fobs_model::text::printable;
use fobs_store::{Sink, SourceShape};
use fobs_sys::confine;
use fobs_sys::confine::Domain;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Hexadecimal digits of a root that are shown.
const ROOT_DIGITS: usize = 2 * blake3::OUT_LEN;

/// Whether an object may travel so: what says how fast and in which packets it goes is for the data plane,
/// and a sync compares.
pub(super) fn may_be_direct(options: &TransferOptions) -> bool {
    let goes_as_it_likes =
        options.rate_limit.is_none() && options.packet_size.is_none() && options.transport == Transport::Auto;
    goes_as_it_likes
        && options.sync.is_none()
        && !options.append_verify
        && !options.checksum
        && !options.delta
}

/// Most file data that a copy sends with its request, bytes: in base64 and with its records it fits in the
/// first flight of a TCP connection (RFC 6928), so it takes one round trip where the data plane takes three.
const COPY_DATA_MAX: u64 = 8 << 10;
/// The room that a copy offers: that data, and records of some files.
pub(super) const COPY_ROOM: u32 = COPY_DATA_MAX as u32 + (2 << 10);

/// Whether a copy may go so: one that leaves everything about the data plane as it is.
pub(super) fn copy_may_be_direct(options: &TransferOptions) -> bool {
    let defaults = TransferOptions::default();
    let chooses_nothing = options.congestion_control == defaults.congestion_control
        && (options.ack_every, options.burst, options.deadline, options.min_rate) == (None, None, None, None)
        && options.udp_ports.is_none()
        && !options.lanes.are_chosen();
    let is_plain = !options.preserve && !options.compress && !options.fsync && !options.recursive;
    may_be_direct(options) && chooses_nothing && is_plain
}

/// The whole object of a push, if its sources are files and small.
pub(super) fn small_object(
    sources: &[Location],
    options: &TransferOptions,
) -> Result<Option<(Filled, SourceShape)>> {
    let len = |location: &Location| match location {
        Location::Local(path) => {
            let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
            found.map_or(u64::MAX, |found| found.len())
        }
        Location::Remote(_) | Location::Stdio => u64::MAX,
    };
    let total = sources.iter().map(len).fold(0, u64::saturating_add);
    if !copy_may_be_direct(options) || total > COPY_DATA_MAX {
        return Ok(None);
    }
    let source = open_source(local_sources(sources)?, b"", options)?;
    let shape = source.shape();
    // A file may have grown.
    Ok(Filled::all_of(source, COPY_ROOM as usize)?.map(|object| (object, shape)))
}

/// The room that is offered for such an object.
pub(super) const ROOM: u32 = DIRECT_LEN_MAX as u32;

impl Client<'_> {
    /// Sends a whole object with the request.
    pub(super) fn push_direct(
        self,
        mut object: Filled,
        shape: SourceShape,
        names: Vec<Vec<u8>>,
        destination: Vec<u8>,
        course: &mut Course,
    ) -> Result<Done> {
        let resuming = self.resuming(course.id, names, false);
        let chunk = std::mem::take(&mut object.chunk);
        let template = self.plain_open(TransferDirection::Push, vec![destination], resuming);
        let template_keeps = template.reuse.keep;
        let reuse = Reuse { object: Some(chunk), ..template.reuse.clone() };
        let open = Open { shape: Some(shape), reuse, ..template };
        let Client { mut channel, ssh, events, cancel, options, .. } = self;
        let (asked, began) = (Instant::now(), course.began);
        let (events_of_copy, keeps) = (events.clone(), template_keeps);
        let reporter = Reporter::new(events, channel.writer.clone());
        object.failures.drain(..).for_each(|failure| reporter.failed(failure));
        let peer = channel.peer.description.clone();
        let mut hearing = Hearing::of(Awaited::Stored, &mut channel, options.timeout);
        let sent = hearing.channel.writer.send(&Message::Open(Box::new(open)));
        sent.map_err(|error| cancel.explain(error))?;
        let complete = loop {
            match hearing.next_told(events_of_copy.as_ref()).map_err(|error| cancel.explain(error))? {
                Some(Message::Complete(complete)) => break complete,
                Some(Message::Failed { path, reason }) => reporter.failed_there(path.0, &reason),
                Some(other) => return Err(refused(&peer, &other).unwrap_or_else(|| out_of_turn(&peer))),
                None => return Err(cancel.explain(hung_up(&peer))),
            }
        };
        drop(hearing);
        tell_start(&events_of_copy, &channel, options, keeps, course);
        if complete.root != object.root() {
            let theirs = printable(&complete.root, ROOT_DIGITS);
            let message =
                format!("the roots of the transfer differ: {peer} reports {theirs:?}; do not trust the copy");
            return Err(Error::new(ErrorKind::Integrity, message));
        }
        object.report(&reporter);
        reporter.tell_progress();
        course.reporter = Some(reporter.clone());
        let seconds = asked.elapsed().as_secs_f64();
        let done = figures(Direction::Sender, complete, seconds, began, &reporter);
        // The server ends by itself: its part is done.
        hang_up(&channel.writer, ssh);
        Ok((done, SystemTime::now()))
    }

    /// Stores an object that came with the answer.
    pub(super) fn take_direct(
        self,
        object: &[u8],
        sink: Sink,
        asked: Instant,
        course: &mut Course,
    ) -> Result<Done> {
        let reporter = Reporter::new(self.events.clone(), self.channel.writer.clone());
        tell_start(&self.events, &self.channel, self.options, self.reuse.keep, course);
        let (stored, closing) = match sink.writes_below()? {
            // Into memory, or a stream that is open already.
            none if none.is_empty() => store(object, sink, &reporter)?,
            directories => {
                let store = || store(object, sink, &reporter);
                confine::within(Domain::of_receiver(directories), "fobs-receive", store)
                    .map_err(Error::internal)??
            }
        };
        closing.acknowledged();
        reporter.tell_progress();
        course.reporter = Some(reporter.clone());
        let seconds = asked.elapsed().as_secs_f64();
        let done =
            figures(Direction::Receiver, completion(&stored, course.began), seconds, course.began, &reporter);
        hang_up(&self.channel.writer, self.ssh);
        Ok((done, SystemTime::now()))
    }
}

/// A copy begins, of which nothing is left to do. (A session's user has not asked for a copy.)
fn tell_start(
    events: &Arc<dyn EventSink>,
    channel: &ControlChannel,
    options: &TransferOptions,
    keeps: bool,
    course: &mut Course,
) {
    course.started();
    if !keeps {
        let control = control_word(channel, options);
        let key_exchange = channel.key_exchange;
        let (transport, cipher, cc) = ("control", "", "auto");
        events.event(Event::Started { control, key_exchange, transport, cipher, cc, walls: None });
    }
}

/// The object of an answer, if it was asked for.
pub(super) fn object_of(accept: &mut Accept, open_had_room: bool, peer: &str) -> Result<Option<Vec<u8>>> {
    match accept.object.take() {
        Some(_) if !open_had_room => Err(out_of_turn(peer)),
        object => Ok(object),
    }
}

fn figures(side: Direction, complete: Complete, seconds: f64, began: Clock, reporter: &Reporter) -> Summary {
    let complete = Complete { seconds, ..complete };
    // No packet was sealed, and no controller asked.
    let cipher = Cipher::best_here();
    let figures = summary(side, &complete, &Finished::default(), cipher, began, reporter.errors());
    Summary { transport: "control".to_owned(), cipher: String::new(), ..figures }
}

fn hung_up(peer: &str) -> Error {
    let message = format!("{peer} ended the connection instead of answering; look at what it says there");
    Error::new(ErrorKind::Connect, message)
}
