//! Detectors: each takes samples, keeps its own memory of them and returns a finding (`findings`). None
//! changes the model or the rate; what a finding leads to is the states' business.
//!
//! | detector | finding |
//! |---|---|
//! | [`QueueWatch`] | `QueueEvent`: the standing queue has just drained |
//! | [`BurstDetector`] | `Bursts`: cross traffic that takes all of the link and passes |
//! | [`CrowdDetector`] | `Crowd`: other flows hold the queue |
//! | [`JoinDetector`] | `Joined`: another `auto` flow takes its part |
//! | [`LongerDetector`] | `Longer`: the path has become longer |
//! | [`PolicerDetector`] | `Overload`: loss that chance does not explain, as of a policer |
//! | [`RelapseDetector`] | `Relapse`: what was resumed brought the queue back |

mod burst;
mod crowd;
mod joiner;
mod longer;
mod policer;
mod queue;
mod relapse;

pub(crate) use burst::{BurstDetector, BurstPath};
pub(crate) use crowd::{CrowdDetector, CrowdSample};
pub(crate) use joiner::JoinDetector;
pub(crate) use longer::{LongerDetector, LongerSample};
pub(crate) use policer::PolicerDetector;
pub(crate) use queue::QueueWatch;
pub(crate) use relapse::{RelapseDetector, ResumedPhase};

/// All of them.
#[derive(Debug)]
pub(crate) struct Detectors {
    pub(crate) queue: QueueWatch,
    pub(crate) bursts: BurstDetector,
    pub(crate) crowd: CrowdDetector,
    pub(crate) joiner: JoinDetector,
    pub(crate) longer: LongerDetector,
    pub(crate) policer: PolicerDetector,
    pub(crate) relapse: RelapseDetector,
}

impl Detectors {
    pub(crate) fn new() -> Detectors {
        Detectors {
            queue: QueueWatch::default(),
            bursts: BurstDetector::default(),
            crowd: CrowdDetector::default(),
            joiner: JoinDetector::default(),
            longer: LongerDetector::default(),
            policer: PolicerDetector::default(),
            relapse: RelapseDetector::default(),
        }
    }
}
