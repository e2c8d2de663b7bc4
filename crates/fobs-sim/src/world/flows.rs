//! How the flows of a world are made: their routes, the sessions of which they are lanes, and what lanes of
//! one route share.

use super::{Config, ConfigError};
use crate::flow::fobs::{FobsConfig, FobsFlow, LaneShared, controller_of, first_datagram};
use crate::flow::source::Source;
use crate::flow::tcp::TcpFlow;
use crate::flow::{Flow, FlowConfig, Identity, Traffic};
use crate::net::Routes;
use crate::session::Session;
use crate::time::stamp;
use crate::topology::{Edge, route, route_through};
use fobs_proto::Rate;
use fobs_proto::congestion::PathShare;
use fobs_proto::pacing::SharedLimit;
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

/// What lanes share: those of a session its limit on the rate, and those of them that take the same route a
/// controller. `None` for other flows.
pub(super) fn shared_by_lanes(config: &Config) -> Vec<Option<LaneShared>> {
    let mut paths: Vec<(usize, &FlowConfig, PathShare)> = Vec::new();
    let mut limits: Vec<SharedLimit> = Vec::new();
    let of_lane = |flow: &'_ FlowConfig| match &flow.traffic {
        Traffic::Fobs(fobs) => fobs.seat.map(|seat| (seat.session, fobs.clone())),
        Traffic::Tcp(_) | Traffic::Source(_) => None,
    };
    let mut all = Vec::new();
    for flow in &config.flows {
        all.push(of_lane(flow).map(|(session, fobs)| {
            let start = stamp(flow.start);
            if session == limits.len() {
                limits.push(SharedLimit::new(start, fobs.rate_limit.map(Rate::bits_per_second)));
            }
            let known = paths.iter().find(|(other, first, _)| *other == session && first.via == flow.via);
            let path = known.map(|(.., path)| path.clone()).unwrap_or_else(|| {
                let path = PathShare::new(controller_of(&fobs), first_datagram(&fobs));
                paths.push((session, flow, path.clone()));
                path
            });
            LaneShared { controller: path.lane(), limit: limits[session].share(start) }
        }));
    }
    all
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

/// A flow, with what it shares where it is a lane.
pub(super) fn make_flow(
    config: &Config,
    flow: &FlowConfig,
    me: Identity,
    shared: Option<LaneShared>,
) -> Result<Flow, ConfigError> {
    let host = |name: &str| {
        config
            .hosts
            .iter()
            .find(|host| host.name == name)
            .ok_or_else(|| ConfigError::NoHost { flow: flow.name.clone(), host: name.to_owned() })
    };
    let (from, to) = (host(&flow.from)?, host(&flow.to)?);
    Ok(match &flow.traffic {
        Traffic::Fobs(fobs) => {
            Flow::Fobs(Box::new(FobsFlow::new(me, (**fobs).clone(), (from, to), config.seed, shared)))
        }
        Traffic::Tcp(tcp) => Flow::Tcp(Box::new(TcpFlow::new(me, *tcp))),
        Traffic::Source(source) => Flow::Source(Box::new(Source::new(me, *source, config.seed))),
    })
}
