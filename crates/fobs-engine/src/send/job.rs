//! A sending session as its caller describes it, and its result.

use crate::lanes::{LaneConfig, LanesSetup, LateLanes};
use crate::memory::history::RememberedPath;
use crate::memory::lessons::Lessons;
use crate::streams::StreamSetup;
use crate::{Endurance, LinkSetup, Reporter, Steering, Throttle};
use fobs_channel::control::{ControlReader, ControlWriter};
use fobs_model::cancel::CancelToken;
use fobs_model::message::{Complete, Finished};
use fobs_model::options::sync::Delta;
use fobs_proto::congestion::Priority;
use fobs_proto::loss_cause::Lesson;
use fobs_proto::sender::SenderConfig;
use fobs_store::Source;
use fobs_store::survey::ListingForm;
use std::sync::Arc;
use std::time::Duration;

/// What a sending session needs.
pub struct SendJob {
    /// Where packets go.
    pub link: LinkSetup,
    /// Lanes beside the first, if there are any, with their configurations: `config` is that of the first.
    pub lanes: Option<(LanesSetup, Vec<SenderConfig>)>,
    /// What lanes need that may be added, where there may be any.
    pub late: Option<(LateLanes, LaneConfig)>,
    /// What makes streams, where the peer knows them and the user wants them.
    pub streams: Option<StreamSetup>,
    /// Where chunks come from.
    pub source: Source,
    /// How to list it, where the receiver says what to send.
    pub survey: Option<ListingForm>,
    /// When pieces that the receiver lists of what it has are of use (protocol 7.9); `Never`: it lists none.
    pub delta: Delta,
    /// The machine's configuration, without what the link knows.
    pub config: SenderConfig,
    /// How long silence and crawling are borne.
    pub endurance: Endurance,
    /// The receiving half of the control channel.
    pub reader: ControlReader,
    /// The sending half.
    pub writer: ControlWriter,
    /// Who is told what happens.
    pub reporter: Arc<Reporter>,
    /// Ends the transfer.
    pub cancel: CancelToken,
    /// What the session may move at most.
    pub throttle: Throttle,
    /// The rate that the daemon at one of the ends gives this client, bits per second; the machine's cap is
    /// no higher.
    pub far_limit_bps: Option<u64>,
    /// Time left until the deadline, and the highest priority that may be used to meet it.
    pub deadline: Option<(Duration, Priority)>,
    /// The path to the peer, as earlier transfers found it.
    pub remembered: RememberedPath,
    /// Time from the question to the peer's answer in the session's set-up. `None` where the peer's first
    /// datagram is that answer, and the link's clock began with the question.
    pub answered: Option<Duration>,
    /// What earlier transfers taught about the causes of losses.
    pub lessons: Lessons,
    /// What the user changes meanwhile.
    pub steering: Steering,
    /// For messages to the user.
    pub peer_name: String,
    /// The ports named where UDP is blocked.
    pub ports: String,
}

/// The result of a sending session.
#[derive(Debug)]
pub struct SendOutcome {
    /// What the receiver said at the end.
    pub complete: Complete,
    /// Figures of this end.
    pub finished: Finished,
    /// Windows of losses of known cause, for [`Lessons::keep`].
    pub taught: Vec<Lesson>,
}
