//! Transfers that need no data plane: an object in one message of the control channel (protocol 2.8).

use super::{Policy, SessionFigures, Told, push_sink, source_of};
use crate::direct::{Filled, completion, pass, store};
use fobs_channel::control::ControlChannel;
use fobs_engine::{Clock, Reporter};
use fobs_model::cancel::CancelToken;
use fobs_model::direction::TransferDirection;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::OtherEntries;
use fobs_model::message::{Accept, Message, Open};

/// Stores the object of a push.
pub(super) fn receive(
    channel: &ControlChannel,
    policy: Policy,
    open: Open,
    object: &[u8],
    cancel: &CancelToken,
) -> Result<SessionFigures> {
    if open.direction != TransferDirection::Push || open.sync.is_some() || open.probe.is_some() {
        return Err(Error::new(
            ErrorKind::Usage,
            "an object comes with a request that none belongs to; only a push of a copy may bring one",
        ));
    }
    let began = Clock::start();
    pass(&policy.throttle, object.len(), cancel)?;
    let sink = push_sink(
        open,
        policy.base,
        &policy.permit,
        &policy.within,
        channel,
        (&policy.budget, &policy.here),
    )?;
    let reporter = Reporter::new(policy.events, channel.writer.clone());
    let (summary, closing) = store(object, sink, &reporter)?;
    // A client that misses the answer sends all of it again, so nothing need be kept for it.
    closing.acknowledged();
    channel.writer.send(&Message::Complete(completion(&summary, began)))?;
    Ok(SessionFigures {
        direction: TransferDirection::Push,
        files: summary.files,
        bytes: summary.bytes,
        resumed_bytes: 0,
        others: summary.others,
        failed: reporter.failed_count(),
        seconds: began.seconds(),
        datagrams_rejected: 0,
    })
}

/// Answers a pull with the object itself, if it fits in the client's `room`.
pub(super) fn send(
    channel: &ControlChannel,
    policy: &Policy,
    open: &Open,
    room: u32,
    cancel: &CancelToken,
) -> Result<Told> {
    if open.sync.is_some() || open.probe.is_some() {
        return Ok(Told::Nothing);
    }
    let began = Clock::start();
    let source = source_of(policy.base_again()?, open, &policy.permit, policy.size_max, &policy.budget)?;
    let shape = source.shape();
    let Some(mut filled) = Filled::all_of(source, room as usize)? else { return Ok(Told::Nothing) };
    pass(&policy.throttle, filled.chunk.len(), cancel)?;
    let object = std::mem::take(&mut filled.chunk);
    channel.writer.send(&Message::Accept(Accept {
        udp_addresses: Vec::new(),
        tcp_addresses: Vec::new(),
        lanes: None,
        late_lanes: None,
        secret: None,
        key_schedule: 1,
        cipher: String::new(),
        shape: Some(shape),
        chunk_limit: 0,
        survey: false,
        limit_bps: None,
        withholds: false,
        made: None,
        object: Some(object),
    }))?;
    let reporter = Reporter::new(policy.events.clone(), channel.writer.clone());
    let (files, bytes, failed) = (filled.files.len() as u64, filled.data_bytes, filled.failures.len() as u64);
    filled.report(&reporter);
    Ok(Told::All(SessionFigures {
        direction: TransferDirection::Pull,
        files,
        bytes,
        resumed_bytes: 0,
        others: OtherEntries::default(),
        failed,
        seconds: began.seconds(),
        datagrams_rejected: 0,
    }))
}
