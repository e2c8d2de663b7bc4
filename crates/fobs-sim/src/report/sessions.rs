//! The sessions of a run whose lanes are flows.

use super::{mbit, span};
use crate::flow::Traffic;
use crate::time::seconds;
use crate::world::World;
use serde::Serialize;

/// A session of several lanes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionReport {
    /// Its name: that of its flows without their number.
    pub name: String,
    /// How many lanes it began with.
    pub lanes: usize,
    /// Virtual seconds from its first packet to its last verified chunk, or to the end of the run.
    pub seconds: f64,
    /// Bytes that are verified, each once.
    pub bytes: u64,
    /// Verified bits per second, in millions.
    pub goodput_mbit: f64,
    /// Chunks that an idle lane took over because it would be faster.
    pub taken_over: u64,
    /// Chunks that another lane took because theirs was silent.
    pub given_up: u64,
    /// Copies of chunks that were withdrawn because another lane was first.
    pub withdrawn: u64,
    /// Bytes of chunks that more than one lane was given.
    pub bytes_twice: u64,
    /// Bytes of chunks that more than one lane delivered.
    pub bytes_delivered_twice: u64,
    /// Most chunks that were verified behind one that was not.
    pub parked_max: u64,
}

impl SessionReport {
    /// All sessions of a world.
    pub(super) fn all(world: &mut World) -> Vec<SessionReport> {
        let mut lanes: Vec<(String, Vec<usize>)> = Vec::new();
        for (id, flow) in world.config().flows.iter().enumerate() {
            let Traffic::Fobs(fobs) = &flow.traffic else { continue };
            let Some(seat) = fobs.seat else { continue };
            if seat.lane == 0 {
                let name = flow.name.rsplit_once('.').map_or(flow.name.as_str(), |(name, _)| name);
                lanes.push((name.to_owned(), Vec::new()));
            }
            if let Some((_, flows)) = lanes.get_mut(seat.session) {
                flows.push(id);
            }
        }
        let of = |(session, (name, flows)): (usize, (String, Vec<usize>))| {
            SessionReport::of(world, session, name, &flows)
        };
        lanes.into_iter().enumerate().filter_map(of).collect()
    }

    fn of(world: &mut World, session: usize, name: String, flows: &[usize]) -> Option<SessionReport> {
        let figures = world.session(session)?;
        let views: Vec<_> = flows.iter().map(|id| world.flow(*id)).collect();
        let began = views.iter().filter_map(|view| view.figures.began).min();
        let mut whole = views.first()?.figures;
        (whole.began, whole.ended) = (began, figures.ended);
        let time = span(&whole, views.first()?.outcome, world.now());
        Some(SessionReport {
            name,
            lanes: flows.len(),
            seconds: seconds(time),
            bytes: figures.delivered,
            goodput_mbit: mbit(figures.delivered, time),
            taken_over: figures.counts.taken_over,
            given_up: figures.counts.given_up,
            withdrawn: figures.counts.withdrawn,
            bytes_twice: figures.counts.bytes_twice,
            bytes_delivered_twice: figures.delivered_twice,
            parked_max: figures.parked_max,
        })
    }

    /// As a line to read.
    pub(super) fn line(&self) -> String {
        format!(
            "{}: {} lanes, {:.3} s, {:.2} Mbit/s, {:.1} MB; chunks: {} taken over, {} of silent lanes, {} \
             withdrawn, at most {} parked; {:.1} MB were given to two lanes, {:.1} MB came twice",
            self.name,
            self.lanes,
            self.seconds,
            self.goodput_mbit,
            self.bytes as f64 / 1e6,
            self.taken_over,
            self.given_up,
            self.withdrawn,
            self.parked_max,
            self.bytes_twice as f64 / 1e6,
            self.bytes_delivered_twice as f64 / 1e6,
        )
    }
}
