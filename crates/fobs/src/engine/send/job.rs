//! A sending session as its caller describes it, and its result.

use crate::cancel::CancelToken;
use crate::control::message::{Complete, Finished};
use crate::control::{ControlReader, ControlWriter};
use crate::engine::streams::StreamSetup;
use crate::engine::{Endurance, LinkSetup, Reporter, Steering, Throttle};
use crate::history::RememberedPath;
use crate::lessons::Lessons;
use crate::storage::Source;
use crate::storage::survey::Checksums;
use fobs_proto::congestion::Priority;
use fobs_proto::loss_cause::Lesson;
use fobs_proto::sender::SenderConfig;
use std::sync::Arc;
use std::time::Duration;

/// What a sending session needs.
pub(crate) struct SendJob {
    pub(crate) link: LinkSetup,
    /// What makes streams, where the peer knows them and the user wants them.
    pub(crate) streams: Option<StreamSetup>,
    pub(crate) source: Source,
    /// How to list it, where the receiver says what to send.
    pub(crate) survey: Option<Checksums>,
    /// The machine's configuration, without what the link knows.
    pub(crate) config: SenderConfig,
    pub(crate) endurance: Endurance,
    pub(crate) reader: ControlReader,
    pub(crate) writer: ControlWriter,
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) cancel: CancelToken,
    /// What the session may move at most.
    pub(crate) throttle: Throttle,
    /// Time left until the deadline, and the highest priority that may be used to meet it.
    pub(crate) deadline: Option<(Duration, Priority)>,
    /// The path to the peer, as earlier transfers found it.
    pub(crate) remembered: RememberedPath,
    /// Time from the question to the peer's answer in the session's set-up. `None` where the peer's first
    /// datagram is that answer, and the link's clock began with the question.
    pub(crate) answered: Option<Duration>,
    /// What earlier transfers taught about the causes of losses.
    pub(crate) lessons: Lessons,
    /// What the user changes meanwhile.
    pub(crate) steering: Steering,
    /// For messages to the user.
    pub(crate) peer_name: String,
    /// The ports named where UDP is blocked.
    pub(crate) ports: String,
}

/// The result of a sending session.
#[derive(Debug)]
pub(crate) struct SendOutcome {
    pub(crate) complete: Complete,
    pub(crate) finished: Finished,
    /// Windows of losses of known cause, for [`Lessons::keep`].
    pub(crate) taught: Vec<Lesson>,
}
