//! What a server sends to a client that is granted it: one place for transfers and pipes.

use super::grant::{Granted, accept};
use crate::session::{sender_config, with_lanes};
use fobs_channel::control::ControlChannel;
use fobs_engine::memory::history::RememberedPath;
use fobs_engine::memory::lessons::Lessons;
use fobs_engine::{Clock, Endurance, LaneConfig, Reporter, SendJob, SendOutcome, Steering, Throttle};
use fobs_model::cancel::CancelToken;
use fobs_model::error::Result;
use fobs_model::event::EventSink;
use fobs_model::message::{Accept, Open, Sending};
use fobs_model::options::Priority;
use fobs_model::options::sync::Delta;
use fobs_store::Source;
use fobs_store::survey::ListingForm;
use std::sync::Arc;
use std::time::Duration;

/// How an object is sent.
pub(super) struct SendManner {
    /// What is listed before, if a survey was asked for.
    pub(super) survey: Option<ListingForm>,
    pub(super) delta: Delta,
    pub(super) endurance: Endurance,
    /// The time that is left, and the highest priority that may be used to meet it.
    pub(super) deadline: Option<(Duration, Priority)>,
    /// What the session may move at most.
    pub(super) throttle: Throttle,
    pub(super) events: Arc<dyn EventSink>,
}

/// Accepts the request, and sends the object to its end; with what was reported of it.
pub(super) fn send(
    channel: ControlChannel,
    granted: Granted,
    (open, source): (&Open, Source),
    manner: SendManner,
    cancel: &CancelToken,
) -> Result<(SendOutcome, Arc<Reporter>)> {
    let Granted { answer, mut link, lanes, late, streams, transit, .. } = granted;
    let SendManner { survey, delta, endurance, deadline, throttle, events } = manner;
    let far_limit_bps = throttle.cap(None);
    // The client's first datagram carries the credit, so none is known here.
    let limit_bps = throttle.cap(open.sending.limit_bps);
    let sending = Sending { limit_bps, ..open.sending.clone() };
    let make = |sending: &Sending| sender_config(sending, open.payload_size, 0, transit.chunks());
    let (config, lanes) = with_lanes(make(&sending)?, lanes, &sending, make)?;
    let (chosen, payload_size, chunks_max) = (sending.clone(), open.payload_size, transit.chunks());
    let more: LaneConfig = Box::new(move || sender_config(&chosen, payload_size, 0, chunks_max));
    let ports = format!("port {}", link.socket.local_addr().port());
    accept(&channel.writer, Accept { shape: Some(source.shape()), ..answer })?;
    link.clock = Clock::start();
    let lessons = Lessons::of_the_user(&channel.peer);
    let reporter = Reporter::new(events, channel.writer.clone());
    let mut outcome = fobs_engine::send(SendJob {
        link,
        lanes,
        late: late.map(|late| (late, more)),
        streams,
        source,
        survey,
        delta,
        config,
        endurance,
        deadline,
        remembered: RememberedPath::of_the_user(&channel.peer),
        reader: channel.reader,
        writer: channel.writer,
        reporter: reporter.clone(),
        cancel: cancel.clone(),
        far_limit_bps,
        throttle,
        // The client sends the first datagram.
        answered: None,
        lessons: lessons.clone(),
        steering: Steering::new(),
        peer_name: channel.peer.description,
        ports,
    })?;
    lessons.keep(std::mem::take(&mut outcome.taught));
    Ok((outcome, reporter))
}
