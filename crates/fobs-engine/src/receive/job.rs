//! A receiving session as its caller describes it, and its result.

use crate::lanes::{LanesSetup, LateLanes};
use crate::streams::StreamSetup;
use crate::{Endurance, LinkSetup, RemedyPolicy, Reporter, Steering, Throttle};
use fobs_channel::control::{ControlReader, ControlWriter};
use fobs_model::cancel::CancelToken;
use fobs_model::message::{Complete, Finished};
use fobs_proto::receiver::ReceiverConfig;
use fobs_store::Sink;
use fobs_store::survey::Compare;
use std::sync::Arc;

/// What a receiving session needs.
pub struct ReceiveJob {
    /// Where packets come from.
    pub link: LinkSetup,
    /// Lanes beside the first, if there are any.
    pub lanes: Option<LanesSetup>,
    /// What lanes need that may be added, where there may be any.
    pub late: Option<LateLanes>,
    /// What makes streams, where the peer knows them and the user wants them.
    pub streams: Option<StreamSetup>,
    /// Where chunks go.
    pub sink: Sink,
    /// What decides which entries are sent, where the sender lists them.
    pub survey: Option<Compare>,
    /// How the receiving machine is set up.
    pub config: ReceiverConfig,
    /// What is tried against losses at this host.
    pub remedies: RemedyPolicy,
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
    /// What the user changes meanwhile.
    pub steering: Steering,
    /// For messages to the user.
    pub peer_name: String,
    /// The ports named where UDP is blocked.
    pub ports: String,
}

/// The result of a receiving session.
#[derive(Debug)]
pub struct ReceiveOutcome {
    pub complete: Complete,
    pub finished: Finished,
}
