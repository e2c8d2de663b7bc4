//! The answering side of one session, over either carrier.

mod direct;
mod files;
mod grant;
mod host;
mod kept;
mod lanes;
pub mod login;
mod opened;
mod outgoing;
mod pipe;
mod reach;
mod request;
mod stores;
mod streams;
mod wanted;

use grant::{Granted, accept, grant};
pub use host::{Answered, Fetch, Host, Leave, SessionFigures, StillThere, no_patterns};
pub use lanes::LanesAt;
pub use login::{StdioError, serve_stdio};
pub use opened::{Opened, open_session};
use outgoing::SendManner;
pub use reach::Reach;
use request::{Heard, OPEN_WAIT, Request, hear_request};
use stores::{push_sink, source_of};
pub use streams::{PORT_OF_THE_CHANNEL, SharedPort, StreamEntrance};
pub use wanted::{Wanted, Work};

use crate::examine::{DiskProbe, Zeros, examine, memory};
use crate::session::{
    check_bases, cp_rules, cp_survey, delta_of, listing_form, preserved, pursuit, receiver_config,
    sync_survey, uses_later_features,
};
use fobs_channel::control::ControlChannel;
use fobs_engine::{Clock, Endurance, ReceiveJob, RemedyPolicy, Reporter, Steering, Throttle};
use fobs_model::budget::MemoryBudget;
use fobs_model::cancel::CancelToken;
use fobs_model::direction::TransferDirection;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::EventSink;
use fobs_model::host_facts::{HostFacts, KeyFacts};
use fobs_model::message::{Accept, Hello, Message, Open, PULSE, WAITS};
use fobs_model::options::{Privileges, Stamps};
use fobs_model::permit::{Needs, Permit};
use fobs_model::text::sane;
use fobs_store::{Base, Source, SourcesHere};
use rustix::process::geteuid;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Most sources of one session: more than a command line holds.
const PATHS_MAX: usize = 100_000;

/// What a client is told that asked for times or permissions, and may not choose them.
const OUR_STAMPS: &str = "the server gives what it stores its own time, and permissions less its umask: the rights \
                          of this key leave it no choice of them";

/// What a client may do, and where the server binds.
pub struct Policy {
    pub base: Base,
    pub permit: Permit,
    /// What tells restricted logins of one user apart; else empty.
    pub within: Vec<u8>,
    /// Where UDP sockets are bound.
    pub udp_ip: IpAddr,
    /// Where those of lanes are, which come by several paths.
    pub lanes_at: LanesAt,
    pub udp_ports: (u16, u16),
    /// How streams over TCP get in.
    pub streams: StreamEntrance,
    /// Addresses of this host to offer beside the one that the client connected to.
    pub addresses: Vec<String>,
    /// The client's address where the channel does not know it (SSH).
    pub client: Option<IpAddr>,
    /// What the session may move at most, with others of its key.
    pub throttle: Throttle,
    /// Most file bytes that a pull may have.
    pub size_max: Option<u64>,
    /// What the transfer may keep.
    pub budget: MemoryBudget,
    /// Where the client's sources are, if they are on this host.
    pub here: SourcesHere,
    /// Receives the session's events; its client shows its own.
    pub events: Arc<dyn EventSink>,
}

impl Policy {
    /// The same for another transfer of the session, whose streams get in there.
    fn of_flow(&self, streams: StreamEntrance) -> Result<Policy> {
        Ok(Policy {
            base: self.base_again()?,
            permit: self.permit.clone(),
            within: self.within.clone(),
            udp_ip: self.udp_ip,
            lanes_at: self.lanes_at,
            udp_ports: self.udp_ports,
            streams,
            addresses: self.addresses.clone(),
            client: self.client,
            throttle: self.throttle.another(),
            size_max: None,
            budget: self.budget.clone(),
            here: self.here.clone(),
            events: self.events.clone(),
        })
    }

    /// What paths are relative to, for one more use.
    pub fn base_again(&self) -> Result<Base> {
        self.base.try_clone().map_err(|error| {
            Error::new(ErrorKind::FileIo, format!("the server cannot open its root: {error}"))
        })
    }
}

/// What was sent of an object with the answer.
enum Told {
    Nothing,
    All(SessionFigures),
}

/// Lets the host say to a client of any request that it waits, where that client listens.
fn let_tell(channel: &ControlChannel, hello: &Hello, host: &mut dyn Host) {
    if hello.has(WAITS) {
        host.may_tell(channel.writer.clone());
    }
}

fn serve_request(
    channel: ControlChannel,
    request: Box<Request>,
    hello: &Hello,
    cancel: &CancelToken,
    host: &mut dyn Host,
) -> Result<SessionFigures> {
    let Request { examine, open } = *request;
    cancel.check()?;
    let_tell(&channel, hello, host);
    let policy = host.judge(Wanted::Transfer { open: &open, examine: examine.as_deref() })?;
    if let Some(directory) = examine {
        let client = channel.peer.address.or(policy.client);
        let facts = examined(&directory, &policy, client, cancel);
        channel.writer.send(&Message::Examined(Box::new(facts)))?;
        cancel.check()?;
    }
    answer(channel, policy, open, hello, cancel)
}

/// Examines this host for a client: its disk only where the client may have it tried.
fn examined(directory: &[u8], policy: &Policy, client: Option<IpAddr>, cancel: &CancelToken) -> HostFacts {
    let disk = match policy.permit.check(&Needs::of_disk(directory)) {
        Ok(()) => DiskProbe::At { base: &policy.base, directory },
        Err(why) => DiskProbe::Refused(why.message),
    };
    let (may_pull, may_push) = policy.permit.directions();
    let access = policy.permit.access().map(|access| access.name().to_owned());
    let rate_bps = policy.throttle.cap(None);
    let key = (access.is_some() || rate_bps.is_some()).then(|| KeyFacts {
        access: access.unwrap_or_default(),
        may_pull,
        may_push,
        rate_bps,
    });
    let memory = Some(memory(&policy.budget));
    HostFacts { key, memory, ..examine(client, &disk, cancel) }
}

fn answer(
    mut channel: ControlChannel,
    mut policy: Policy,
    mut open: Open,
    hello: &Hello,
    cancel: &CancelToken,
) -> Result<SessionFigures> {
    check_form(&open)?;
    policy.permit.check(&Needs::of_transfer(&open))?;
    if let Some(object) = open.reuse.object.take() {
        return direct::receive(&channel, policy, open, &object, cancel);
    }
    if let (Some(room), TransferDirection::Pull) = (open.reuse.room, open.direction)
        && let Told::All(figures) = direct::send(&channel, &policy, &open, room, cancel)?
    {
        return Ok(figures);
    }
    let granted = grant(&mut channel, &mut policy, &open, hello)?;
    match open.direction {
        TransferDirection::Push => receive_push(channel, policy, open, (granted, hello), cancel),
        TransferDirection::Pull => send_pull(channel, policy, open, (granted, hello), cancel),
    }
}

/// Where the backup of the destination itself would lie, if that is one name: beside it, which may be outside
/// the subtree of a key.
fn backup_beside(open: &Open) -> Option<Vec<u8>> {
    let suffix = open.sync.as_ref()?.backup.as_ref()?;
    let destination = open.paths.first()?;
    let end = destination.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    Some([&destination[..end], suffix.as_bytes()].concat())
}

/// What is put up with of a client.
fn endurance_of(client: &Hello, timeout: Option<Duration>) -> Endurance {
    if client.has(PULSE) { Endurance::for_client_that_tells(timeout) } else { Endurance::for_peer(timeout) }
}

fn receive_push(
    channel: ControlChannel,
    policy: Policy,
    open: Open,
    (granted, peer): (Granted, &Hello),
    cancel: &CancelToken,
) -> Result<SessionFigures> {
    let Granted { answer, mut link, lanes, late, streams, transit, knows_survey, .. } = granted;
    let (resuming, sync) = (&open.resuming, open.sync.clone());
    let rules = cp_rules(resuming.append_verify, resuming.checksum);
    let (wants_survey, wants_delta) = (resuming.survey, resuming.delta);
    let privileges = policy.permit.privileges();
    let preserve = preserved(sync.as_deref(), open.preserve);
    let stamps_are_ours =
        policy.permit.terms().stamps == Stamps::Ours && (preserve.modes || preserve.times || preserve.acls);
    let withholds = privileges == Privileges::Withheld && geteuid().is_root() && preserve.needs_privileges();
    let (ack_every, endurance) = (open.ack_every, endurance_of(peer, open.timeout));
    let remedies = RemedyPolicy::of(open.sending.loss_cause.as_deref().unwrap_or_default());
    let (beside, held) = (backup_beside(&open), (&policy.budget, &policy.here));
    let mut sink = push_sink(open, policy.base, &policy.permit, &policy.within, &channel, held)?;
    check_bases(&sink, Some(&policy.permit))?;
    if let Some(path) = beside.filter(|_| sink.is_one_name()) {
        policy.permit.check_path(&path)?;
    }
    let survey = knows_survey && (wants_survey || sink.history().is_some());
    let mut survey = match sync {
        Some(sync) => Some(sync_survey(&mut sink, sync, privileges, |feature| peer.has(feature))?),
        None => survey.then(|| cp_survey(&mut sink, rules, wants_delta)),
    };
    uses_later_features(survey.as_mut(), |feature| peer.has(feature));
    let (limit_bps, survey_follows) = (policy.throttle.cap(None), survey.is_some());
    let made = sink.directories_made().filter(|_| survey_follows);
    accept(&channel.writer, Accept { survey: survey_follows, limit_bps, withholds, made, ..answer })?;
    link.clock = Clock::start();
    let reporter = Reporter::new(policy.events, channel.writer.clone());
    if stamps_are_ours {
        reporter.notice_here(OUR_STAMPS.to_owned());
    }
    sink.take_notices().into_iter().for_each(|notice| reporter.notice_here(notice));
    let complete = fobs_engine::receive(ReceiveJob {
        ports: format!("port {}", link.socket.local_addr().port()),
        link,
        lanes,
        late,
        streams,
        sink,
        survey,
        config: receiver_config(ack_every, transit.chunks()),
        endurance,
        remedies,
        reader: channel.reader,
        writer: channel.writer,
        reporter: reporter.clone(),
        cancel: cancel.clone(),
        throttle: policy.throttle,
        steering: Steering::new(),
        peer_name: channel.peer.description,
    })?
    .complete;
    Ok(SessionFigures {
        direction: TransferDirection::Push,
        files: complete.files,
        bytes: complete.bytes,
        resumed_bytes: complete.resumed_bytes,
        others: complete.others,
        failed: reporter.failed_count(),
        seconds: sane(complete.seconds),
        datagrams_rejected: complete.datagrams_rejected,
    })
}

fn send_pull(
    channel: ControlChannel,
    policy: Policy,
    open: Open,
    (granted, hello): (Granted, &Hello),
    cancel: &CancelToken,
) -> Result<SessionFigures> {
    let (knows_survey, knows_parts) = (granted.knows_survey, granted.knows_parts);
    let mut source = match open.probe {
        Some(time) => Source::from_stream(Box::new(Zeros::new(time)), false),
        None => source_of(policy.base, &open, &policy.permit, policy.size_max, &policy.budget),
    }?;
    if knows_survey {
        source.tell_identities();
    }
    let manner = SendManner {
        survey: (open.sync.is_some() || knows_survey && open.resuming.survey)
            .then(|| listing_form(open.sync.as_deref(), open.resuming.checksum, knows_parts)),
        delta: delta_of(open.sync.as_deref(), open.resuming.delta),
        endurance: endurance_of(hello, open.timeout),
        deadline: pursuit(&open.sending),
        throttle: policy.throttle,
        events: policy.events,
    };
    let (outcome, reporter) = outgoing::send(channel, granted, (&open, source), manner, cancel)?;
    let complete = outcome.complete;
    Ok(SessionFigures {
        direction: TransferDirection::Pull,
        files: complete.files,
        bytes: complete.bytes,
        resumed_bytes: complete.resumed_bytes,
        others: complete.others,
        failed: reporter.failed_count(),
        seconds: sane(complete.seconds),
        datagrams_rejected: outcome.finished.datagrams_rejected,
    })
}

/// Refuses requests whose members contradict each other.
fn check_form(open: &Open) -> Result<()> {
    if open.paths.is_empty() || open.paths.len() > PATHS_MAX {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("a session names 1 to {PATHS_MAX} paths, not {}", open.paths.len()),
        ));
    }
    if open.direction == TransferDirection::Push && open.paths.len() > 1 {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("a push has one destination, not {}; name the directory for all", open.paths.len()),
        ));
    }
    let is_part = open.reuse.range.is_some();
    if is_part && (open.direction == TransferDirection::Push || open.paths.len() > 1 || open.sync.is_some()) {
        let message = "a part is read of one file, by a pull that is no sync; ask for each file by itself";
        return Err(Error::new(ErrorKind::Usage, message));
    }
    let moves = is_part || open.sync.is_some() || open.reuse.object.is_some();
    if open.probe.is_some() && moves {
        let message = "a session that tries the path moves no file; ask for each by itself";
        return Err(Error::new(ErrorKind::Usage, message));
    }
    Ok(())
}
