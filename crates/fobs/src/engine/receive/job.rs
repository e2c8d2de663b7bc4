//! A receiving session as its caller describes it, and its result.

use crate::cancel::CancelToken;
use crate::control::message::{Complete, Finished};
use crate::control::{ControlReader, ControlWriter};
use crate::engine::streams::StreamSetup;
use crate::engine::{Endurance, LinkSetup, RemedyPolicy, Reporter, Steering, Throttle};
use crate::storage::Sink;
use crate::storage::survey::Compare;
use fobs_proto::receiver::ReceiverConfig;
use std::sync::Arc;

/// What a receiving session needs.
pub(crate) struct ReceiveJob {
    pub(crate) link: LinkSetup,
    /// What makes streams, where the peer knows them and the user wants them.
    pub(crate) streams: Option<StreamSetup>,
    pub(crate) sink: Sink,
    /// What decides which entries are sent, where the sender lists them.
    pub(crate) survey: Option<Compare>,
    pub(crate) config: ReceiverConfig,
    pub(crate) remedies: RemedyPolicy,
    pub(crate) endurance: Endurance,
    pub(crate) reader: ControlReader,
    pub(crate) writer: ControlWriter,
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) cancel: CancelToken,
    /// What the session may move at most.
    pub(crate) throttle: Throttle,
    /// What the user changes meanwhile.
    pub(crate) steering: Steering,
    /// For messages to the user.
    pub(crate) peer_name: String,
    /// The ports named where UDP is blocked.
    pub(crate) ports: String,
}

/// The result of a receiving session.
#[derive(Debug)]
pub(crate) struct ReceiveOutcome {
    pub(crate) complete: Complete,
    pub(crate) finished: Finished,
}
