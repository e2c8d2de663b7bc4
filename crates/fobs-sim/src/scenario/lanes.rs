//! A flow that is a session of several lanes, each with a route of its own.

use super::ScenarioError;
use super::bounds::Table;
use super::file::{FlowKind, FlowTable};
use crate::flow::fobs::LaneSeat;
use crate::flow::{FlowConfig, Traffic};
use fobs_proto::session::LANES_MAX;

/// The flows of a table: the flow itself, or its lanes, which are those of the `session`-th session.
pub(super) fn build(
    table: &Table,
    file: &FlowTable,
    flow: FlowConfig,
    session: usize,
) -> Result<Vec<FlowConfig>, ScenarioError> {
    if file.lanes.is_empty() {
        return Ok(vec![flow]);
    }
    let refuse = |reason: String| Err(table.refuse("lanes", reason));
    if !matches!(file.kind, FlowKind::Fobs) {
        return refuse("only a fobs flow has lanes".to_owned());
    }
    if file.lanes.len() > LANES_MAX {
        return refuse(format!("{} lanes are too many; give 1 to {LANES_MAX}", file.lanes.len()));
    }
    for (key, is_given) in [("via", !file.via.is_empty()), ("deadline_s", file.deadline_s.is_some())] {
        if is_given {
            return Err(table.refuse(key, "a flow with lanes has none: leave it out"));
        }
    }
    let lanes = file.lanes.iter().enumerate().map(|(lane, via)| {
        let mut traffic = flow.traffic.clone();
        if let Traffic::Fobs(fobs) = &mut traffic {
            fobs.seat = Some(LaneSeat { session, lane });
        }
        FlowConfig { name: format!("{}.{lane}", flow.name), via: via.clone(), traffic, ..flow.clone() }
    });
    Ok(lanes.collect())
}

/// Sessions among these flows.
pub(super) fn count(flows: &[FlowConfig]) -> usize {
    let is_first = |flow: &&FlowConfig| match &flow.traffic {
        Traffic::Fobs(fobs) => fobs.seat.is_some_and(|seat| seat.lane == 0),
        Traffic::Tcp(_) | Traffic::Source(_) => false,
    };
    flows.iter().filter(is_first).count()
}
