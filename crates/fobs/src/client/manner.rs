//! How a client goes about its work.

use std::sync::Arc;

use fobs_engine::Steering;
use fobs_model::cancel::CancelToken;
use fobs_model::event::EventSink;
use fobs_model::options::TransferOptions;

/// How a transfer is made.
#[derive(Clone, Copy)]
pub struct Manner<'m> {
    pub options: &'m TransferOptions,
    pub events: &'m Arc<dyn EventSink>,
    pub cancel: &'m CancelToken,
    pub steering: &'m Steering,
}
