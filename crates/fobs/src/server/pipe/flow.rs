//! One of the two objects of a pipe, at the server: asked for and answered on its own branch.

use std::time::{Duration, Instant};

use super::super::grant::{Granted, accept, grant};
use super::super::outgoing::{self, SendManner};
use super::super::{Policy, endurance_of};
use crate::pipe::draw::Drawn;
use crate::pipe::hearken::{Bell, Happening, Told};
use crate::pipe::pour::Valve;
use crate::session::receiver_config;
use fobs_channel::control::{ControlChannel, ControlWriter};
use fobs_engine::{Clock, EndsAt, Endurance, ReceiveJob, RemedyPolicy, Reporter, Steering, tell_abort};
use fobs_model::cancel::CancelToken;
use fobs_model::direction::TransferDirection;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::{Accept, Hello, Message, Open, Resuming};
use fobs_model::options::sync::Delta;
use fobs_store::{Sink, Source};
use fobs_sys::confine;

/// How long a client may take to ask for the objects of its pipe, which it does at once.
const OPEN_WAIT: Duration = Duration::from_secs(60);

/// What an object needs.
pub(super) struct Flow {
    pub(super) channel: ControlChannel,
    /// Of the channel around it.
    pub(super) around: ControlWriter,
    pub(super) policy: Policy,
    pub(super) hello: Hello,
    pub(super) cancel: CancelToken,
    pub(super) bell: Bell,
}

/// Receives the client's bytes, in a thread of its own.
pub(super) fn receive(flow: Flow, valve: &Valve) -> Result<()> {
    let valve = valve.clone();
    run("fobs-pipe-in", flow, Happening::Received, move |flow| receive_now(flow, &valve))
}

/// Sends the client what there is for it, in a thread of its own.
pub(super) fn send(flow: Flow, drawn: Drawn) -> Result<()> {
    run("fobs-pipe-out", flow, Happening::Sent, move |flow| send_now(flow, drawn))
}

fn run(
    name: &str,
    flow: Flow,
    tell: fn(Result<u64>) -> Happening,
    act: impl FnOnce(Flow) -> Result<u64> + Send + 'static,
) -> Result<()> {
    let (writer, bell) = (flow.channel.writer.clone(), flow.bell.clone());
    let moving = move || {
        // Whatever happens there is told.
        let mut told = Told { bell, tell, outcome: None };
        let outcome = act(flow).inspect_err(|error| tell_abort(&writer, error));
        writer.close();
        told.outcome = Some(outcome);
    };
    confine::spawn(name, moving).map(drop).map_err(Error::internal)
}

/// The client's request for an object.
fn hear(channel: &mut ControlChannel, wanted: TransferDirection) -> Result<Open> {
    channel.set_read_deadline(Some(Instant::now() + OPEN_WAIT));
    let message = channel.reader.recv()?;
    channel.set_read_deadline(None);
    let open = match message {
        Some(Message::Open(open)) => *open,
        Some(other) => {
            let refused = fobs_engine::aborted(&channel.peer.description, &other);
            return Err(refused.unwrap_or_else(|| odd("the client spoke out of turn")));
        }
        None => return Err(Error::new(ErrorKind::Connect, "the client ended a part of its pipe")),
    };
    open.check()?;
    let Open { direction, probe, resuming, sync, reuse, lanes, .. } = &open;
    let Resuming { survey, append_verify, checksum, delta, .. } = resuming;
    let is_plain = probe.is_none()
        && sync.is_none()
        && reuse.range.is_none()
        && reuse.object.is_none()
        && lanes.is_none()
        && ![survey, append_verify, checksum, delta].into_iter().any(|it| *it);
    if *direction == wanted && is_plain { Ok(open) } else { Err(odd("the client asks for what no pipe has")) }
}

fn odd(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("{what}; install the same version of fobs on both sides"))
}

/// What is put up with: a program may say or take nothing for as long as it likes.
fn patience(flow: &Flow, open: &Open) -> Endurance {
    Endurance { standstill: EndsAt::SilenceOnly, ..endurance_of(&flow.hello, open.timeout) }
}

fn receive_now(mut flow: Flow, valve: &Valve) -> Result<u64> {
    let open = hear(&mut flow.channel, TransferDirection::Push)?;
    let Granted { answer, mut link, streams, transit, .. } =
        grant(&mut flow.channel, &mut flow.policy, &open, &flow.hello)?;
    let endurance = patience(&flow, &open);
    // The connection endures what the objects do.
    flow.around.set_timeout(endurance.timeout);
    let Flow { channel, policy, cancel, .. } = flow;
    let sink = Sink::to_pipe(valve.writer(), policy.budget.clone());
    let ports = format!("port {}", link.socket.local_addr().port());
    accept(&channel.writer, Accept { limit_bps: policy.throttle.cap(None), ..answer })?;
    link.clock = Clock::start();
    let outcome = fobs_engine::receive(ReceiveJob {
        link,
        lanes: None,
        late: None,
        streams,
        sink,
        survey: None,
        config: receiver_config(open.ack_every, transit.chunks()),
        endurance,
        remedies: RemedyPolicy::of(open.sending.loss_cause.as_deref().unwrap_or_default()),
        reader: channel.reader,
        writer: channel.writer.clone(),
        reporter: Reporter::new(policy.events, channel.writer),
        cancel,
        throttle: policy.throttle,
        steering: Steering::new(),
        peer_name: channel.peer.description,
        ports,
    })?;
    Ok(outcome.complete.bytes)
}

fn send_now(mut flow: Flow, drawn: Drawn) -> Result<u64> {
    let open = hear(&mut flow.channel, TransferDirection::Pull)?;
    let granted = grant(&mut flow.channel, &mut flow.policy, &open, &flow.hello)?;
    let endurance = patience(&flow, &open);
    let Flow { channel, policy, cancel, .. } = flow;
    let source = Source::from_pipe(Box::new(drawn), open.compress, policy.budget.clone())?;
    let Policy { throttle, events, .. } = policy;
    let manner =
        SendManner { survey: None, delta: Delta::Never, endurance, deadline: None, throttle, events };
    let (outcome, _) = outgoing::send(channel, granted, (&open, source), manner, &cancel)?;
    Ok(outcome.complete.bytes)
}
