//! Who plays a cell.

use crate::flow::tcp::Algorithm;
use fobs_proto::congestion::CongestionControl;

/// What plays a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contestant {
    /// A FOBS transfer.
    Fobs(CongestionControl),
    /// A TCP transfer, by a model.
    Tcp(Algorithm),
}

impl Contestant {
    /// Its name.
    pub fn name(self) -> String {
        match self {
            Contestant::Fobs(cc) => cc.name().to_owned(),
            Contestant::Tcp(algorithm) => format!("tcp-{}", algorithm.name()),
        }
    }
}
