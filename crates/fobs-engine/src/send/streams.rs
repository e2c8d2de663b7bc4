//! The sending thread and its streams: frames out, news in, and which way data takes.

use super::{Sending, figures};
use crate::Link;
use crate::failure::{StreamsTried, chunk_not_held};
use crate::lanes::LanesSetup;
use crate::letters::{Post, ToSender};
use crate::memory::history::RememberedPath;
use crate::streams::{FrameJob, OutNews, Outgoing, StreamFigures, StreamSetup};
use fobs_model::error::Result;
use fobs_model::message::Standing;
use fobs_model::sample::StreamsSample;
use fobs_proto::Timestamp;
use fobs_proto::object::CHUNK_LEN_MAX;
use fobs_proto::sender::{FrameOut, Route, SendLimit, SenderConfig, TransmitFrame};
use fobs_proto::session::{
    StreamBrake, StreamTarget, StreamsOpen, TransportChoice, TransportConfig, TransportPolicy, TransportSeen,
};
use fobs_proto::wire::{FRAME_DATA_MAX, FRAME_HEADER_LEN};
use std::ops::Range;
use std::time::Duration;

/// Frames that a chunk has at most, for places in the data.
const FRAMES_PER_CHUNK: u64 = (CHUNK_LEN_MAX as u64).div_ceil(FRAME_DATA_MAX as u64);

/// What keeps frames from leaving now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FramesWait {
    /// The streams take no more now.
    Streams,
    /// The user's rate, until then.
    Until(Timestamp),
    /// There is no frame to send, or none may be sent.
    Nothing,
}

impl Sending {
    /// Takes what the streams' thread has to say.
    pub(super) fn take_stream_news(&mut self) {
        let Some(streams) = &self.streams else { return };
        let OutNews { delivered, lost, late, acks, failures } = streams.take_news();
        let now = self.link.clock().now();
        for id in delivered {
            self.machine.handle_frame_delivered(now, id);
        }
        for id in lost {
            self.machine.handle_frame_lost(now, id);
        }
        for id in late {
            self.machine.handle_frame_late(now, id);
        }
        for ack in acks {
            self.machine.handle_stream_ack(now, &ack);
        }
        failures.into_iter().for_each(|why| self.peer.stream_failed(why));
    }

    /// Hands frames to the streams until one of the two has enough.
    pub(super) fn put_frames(&mut self) -> Result<FramesWait> {
        self.routing.wait = self.fill_streams()?;
        Ok(self.routing.wait)
    }

    fn fill_streams(&mut self) -> Result<FramesWait> {
        let Some(streams) = &self.streams else { return Ok(FramesWait::Nothing) };
        if !self.machine.route().has_frames() {
            return Ok(FramesWait::Nothing);
        }
        for _ in 0..streams.room() {
            match self.machine.poll_frame(self.link.clock().now()) {
                TransmitFrame::Frame(frame) => {
                    let job = job_of(&frame, streams, |range| self.chunk_bytes(frame.chunk, range))
                        .ok_or_else(chunk_not_held)?;
                    streams.put(job);
                }
                TransmitFrame::WaitUntil(at) => return Ok(FramesWait::Until(at)),
                TransmitFrame::Wait => return Ok(FramesWait::Nothing),
            }
        }
        Ok(FramesWait::Streams)
    }

    /// Datagrams have nothing to send but what is in frames: slow streams are not waited for.
    pub(super) fn note_idle_datagrams(&mut self, idle: bool) {
        if let Some(streams) = &self.streams {
            let waiting =
                matches!(self.machine.limit(), SendLimit::Data | SendLimit::Credit | SendLimit::Answers);
            let works = self.machine.route().has_datagrams() && self.link.last_heard().is_some();
            streams.set_datagrams_idle(idle && waiting && works);
        }
    }

    /// Decides which way data takes, and how many streams there should be.
    ///
    /// # Errors
    /// `Connect` if only streams may carry data, and there has been none for too long.
    pub(super) fn choose_route(&mut self, now: Timestamp) -> Result<()> {
        let Some(streams) = &self.streams else { return Ok(()) };
        let figures = streams.figures();
        let connecting = self.routing.policy.directive().streams.saturating_sub(figures.open);
        let round_trip = Duration::from_micros(figures.sample.rtt_us);
        let brake = self.routing.brake(&figures.sample);
        let open = StreamsOpen { open: figures.open, connecting, round_trip, brake };
        let mut seen = TransportSeen::of(&self.machine, now, self.link.last_heard(), open);
        // A machine that was not asked for another frame has not said that there is none.
        seen.idle &= self.routing.wait != FramesWait::Streams;
        seen.datagrams.waiting &= !self.steered.is_paused();
        let directive = self.routing.policy.observe(&seen);
        streams.want(directive.streams);
        self.machine.set_route(now, directive.route);
        while let Some(change) = self.routing.policy.poll_change() {
            self.reporter.route_changed(&change, directive.streams);
        }
        let without = self.routing.without_stream(now, directive.route, figures.open);
        let endured = match self.last_heard() {
            None => self.peer.streamless_max(),
            Some(_) => self.routing.patience,
        };
        let others = self.lanes.as_ref().is_some_and(|lanes| lanes.others_answer());
        if without >= endured && !others { Err(self.peer.no_stream(without)) } else { Ok(()) }
    }

    /// The peer's newest sign of life, by either way.
    pub(super) fn last_heard(&self) -> Option<Timestamp> {
        let streams = self.streams.as_ref().and_then(Outgoing::heard);
        self.link.last_heard().max(streams)
    }

    /// Progress figures for both ends.
    pub(super) fn standing(&self) -> Standing {
        figures::standing(&self.machine, self.stats(), &self.known, &self.stream_figures())
    }

    /// Keeps how many connections were found best, for the next transfer to this peer.
    pub(super) fn keep_streams(&self) {
        if let Some(found) = self.routing.policy.streams_found() {
            self.remembered.keep_streams(found);
        }
    }

    /// The streams' state, all zero where there are none.
    pub(super) fn stream_figures(&self) -> StreamFigures {
        self.streams.as_ref().map(Outgoing::figures).unwrap_or_default()
    }
}

/// The plaintext of a frame's record; `None` if its chunk is not held.
fn job_of<'a>(
    frame: &FrameOut,
    streams: &Outgoing,
    chunk_bytes: impl Fn(Range<usize>) -> Option<&'a [u8]>,
) -> Option<FrameJob> {
    let (offset, len) = (frame.offset as usize, frame.len as usize);
    let data = chunk_bytes(offset..offset + len)?;
    let mut plain = streams.buffer();
    plain.clear();
    plain.resize(FRAME_HEADER_LEN, 0);
    frame.header.encode(&mut plain);
    plain.extend_from_slice(data);
    let part = u64::from(frame.chunk) * FRAMES_PER_CHUNK + frame.offset as u64 / FRAME_DATA_MAX as u64;
    Some(FrameJob { id: frame.id, part, plain })
}

/// Which way data takes, and how long there has been none.
pub(super) struct Routing {
    policy: TransportPolicy,
    patience: Duration,
    /// Why frames did not leave when they were last asked for.
    wait: FramesWait,
    /// Since when only streams may carry data and there is none.
    none_since: Option<Timestamp>,
    /// What the kernel had said of the streams when they were last looked at.
    sample: StreamsSample,
}

impl Routing {
    /// What has held the streams back since the last look.
    fn brake(&mut self, now: &StreamsSample) -> StreamBrake {
        let since = now.since(&self.sample);
        self.sample = now.clone();
        let micros = Duration::from_micros;
        StreamBrake::of(
            micros(since.busy_us),
            micros(since.peer_window_us.saturating_add(since.send_buffer_us)),
            micros(now.rtt_us),
            micros(now.rtt_min_us),
        )
    }

    /// How long there has been no stream where only streams may carry data.
    fn without_stream(&mut self, now: Timestamp, route: Route, open: u32) -> Duration {
        if route.has_datagrams() || open > 0 {
            self.none_since = None;
            return Duration::ZERO;
        }
        now - *self.none_since.get_or_insert(now)
    }
}

/// Starts the thread of the streams, where there may be any. `remembered` has
/// the number that an earlier transfer found best; `patience`: how long the path may be down once
/// the peer has been heard.
pub(super) fn start(
    (setup, lanes): (Option<StreamSetup>, Option<&(LanesSetup, Vec<SenderConfig>)>),
    (link, post, remembered): (&Link, &Post<ToSender>, &RememberedPath),
    patience: Duration,
) -> Result<(Option<Outgoing>, Routing, StreamsTried)> {
    let config = TransportConfig {
        began: link.clock().now(),
        choice: setup.as_ref().map_or(TransportChoice::Udp, |setup| setup.choice),
        peer_has_streams: setup.is_some(),
        streams: match setup.as_ref().map(|setup| setup.target) {
            Some(StreamTarget::Found { .. }) => {
                StreamTarget::Found { remembered: remembered.recall_streams() }
            }
            fixed => fixed.unwrap_or(StreamTarget::Fixed(1)),
        },
    };
    let routing = Routing {
        policy: TransportPolicy::new(config),
        patience,
        wait: FramesWait::Nothing,
        none_since: None,
        sample: StreamsSample::default(),
    };
    let Some(setup) = setup else { return Ok((None, routing, StreamsTried::without(lanes))) };
    let alarm = post.alarm(ToSender::ReadFailed);
    let outgoing = Outgoing::start(setup, link.clock(), link.waker(), alarm)?;
    Ok((Some(outgoing), routing, StreamsTried::Yes(None)))
}
