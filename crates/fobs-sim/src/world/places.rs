//! Where the flows of a world are: their routes, and the sessions of which they are lanes.

use super::{Config, ConfigError};
use crate::flow::fobs::FobsConfig;
use crate::flow::{FlowConfig, Traffic};
use crate::net::Routes;
use crate::session::Session;
use crate::topology::{Edge, route, route_through};
use fobs_proto::session::LANES_MAX;

/// The sessions of which flows are lanes.
pub(super) fn sessions(config: &Config) -> Result<Vec<Session>, ConfigError> {
    let mut lanes: Vec<Vec<&FobsConfig>> = Vec::new();
    for flow in &config.flows {
        let Traffic::Fobs(fobs) = &flow.traffic else { continue };
        let Some(seat) = fobs.seat else { continue };
        if seat.session == lanes.len() {
            lanes.push(Vec::new());
        }
        let other = lanes.len().wrapping_sub(1) != seat.session;
        match lanes.last_mut() {
            Some(lanes) if !other && lanes.len() == seat.lane && seat.lane < LANES_MAX => lanes.push(fobs),
            _ => return Err(ConfigError::Lanes { flow: flow.name.clone() }),
        }
    }
    Ok(lanes
        .iter()
        .map(|lanes| Session::new(lanes[0].object.clone(), lanes.len(), lanes[0].sender_chunks))
        .collect())
}

pub(super) fn routes(edges: &[Edge], flow: &FlowConfig) -> Result<Routes, ConfigError> {
    let missing =
        || ConfigError::NoRoute { flow: flow.name.clone(), from: flow.from.clone(), to: flow.to.clone() };
    let (data, acks) = if flow.via.is_empty() {
        (route(edges, &flow.from, &flow.to), route(edges, &flow.to, &flow.from))
    } else {
        let back: Vec<String> = flow.via.iter().rev().cloned().collect();
        let ends = (flow.via.first(), flow.via.last()) == (Some(&flow.from), Some(&flow.to));
        (route_through(edges, &flow.via).filter(|_| ends), route_through(edges, &back))
    };
    // One-way sources need no way back.
    let acks = if matches!(flow.traffic, Traffic::Source(_)) { Some(acks.unwrap_or_default()) } else { acks };
    let data = data.filter(|links| (1..=usize::from(u8::MAX)).contains(&links.len())).ok_or_else(missing)?;
    let acks = acks.filter(|links| links.len() <= usize::from(u8::MAX)).ok_or_else(missing)?;
    Ok(Routes { data, acks })
}
