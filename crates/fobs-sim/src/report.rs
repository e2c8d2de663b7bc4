//! The results of a run: one structure, as JSON and as a table. The same configuration and seed give the same
//! bytes.

mod sessions;

pub use sessions::SessionReport;

use crate::flow::{FlowConfig, FlowFigures, Outcome, Traffic};
use crate::time::{MS, Nanos, SEC, seconds};
use crate::world::{FlowView, World};
use fobs_proto::congestion::ModeChange;
use serde::Serialize;
use std::fmt::Write as _;

/// Changes of a flow's state that a table shows; JSON has more.
const MODES_SHOWN: usize = 16;

/// Results of a simulation run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimReport {
    /// Version of this structure.
    pub v: u32,
    /// Name of the world.
    pub name: String,
    /// Its seed.
    pub seed: u64,
    /// Virtual seconds that it lasted.
    pub seconds: f64,
    /// Events.
    pub events: u64,
    /// Packets that reached their hosts.
    pub packets: u64,
    /// Flows.
    pub flows: Vec<FlowReport>,
    /// Sessions whose lanes are flows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionReport>,
    /// Links.
    pub links: Vec<LinkReport>,
}

/// A flow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowReport {
    /// Its name.
    pub name: String,
    /// `fobs`, `tcp` or `source`.
    pub kind: &'static str,
    /// Congestion control algorithm.
    pub cc: String,
    /// How it ended.
    pub outcome: &'static str,
    /// Virtual seconds from its first packet to its last useful byte, or to the end of the run.
    pub seconds: f64,
    /// Seconds between its end and its deadline, below 0 if that was missed; none where there is no deadline
    /// or no end.
    pub deadline_margin_s: Option<f64>,
    /// Useful bytes that arrived.
    pub bytes: u64,
    /// Useful bits per second, in millions.
    pub goodput_mbit: f64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets declared lost that did not come after all.
    pub packets_lost: u64,
    /// Of those, packets that were the receiver's and did not slow the sender down.
    pub packets_spared: u64,
    /// Packets that carried what had been sent before, as a share of the others.
    pub waste: f64,
    /// Smallest round-trip time.
    pub rtt_ms_min: Option<f64>,
    /// Datagrams that the receiving socket had no room for.
    pub socket_drops: u64,
    /// Damaged datagrams that were refused.
    pub damaged: u64,
    /// Bytes that a crash of the receiving host would not lose.
    pub durable_bytes: u64,
    /// Seconds that competitors kept the receiving thread from its CPU.
    pub off_cpu_seconds: f64,
    /// Changes of its controller's state, the first 256.
    pub modes: Vec<ModePoint>,
    /// The flow over time.
    pub samples: Vec<FlowPoint>,
}

/// A change of a controller's state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModePoint {
    /// When, seconds.
    pub t: f64,
    /// The state before.
    pub from: &'static str,
    /// The state after.
    pub to: &'static str,
    /// Why.
    pub reason: String,
    /// The part of the queueing delay that stood.
    pub queue_ms: f64,
    /// Millions of bits per second that were delivered.
    pub delivered_mbit: f64,
}

impl ModePoint {
    fn of(change: &ModeChange) -> ModePoint {
        ModePoint {
            t: seconds(change.at.as_nanos()),
            from: change.from,
            to: change.to,
            reason: change.reason.to_string(),
            queue_ms: change.queue.as_secs_f64() * 1e3,
            delivered_mbit: change.delivered.as_bytes() as f64 * 8.0 / 1e6,
        }
    }
}

/// A flow between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FlowPoint {
    /// End of the interval, seconds.
    pub t: f64,
    /// Useful bits per second in the interval, in millions.
    pub goodput_mbit: f64,
    /// Newest round-trip time.
    pub rtt_ms: Option<f64>,
    /// Rate of departures, millions of bits per second.
    pub pacing_mbit: Option<f64>,
    /// Congestion window.
    pub window_bytes: Option<u64>,
    /// Its data in the queues of its route, bytes with IP headers.
    pub queued_bytes: u64,
}

/// A link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkReport {
    /// Its name.
    pub name: String,
    /// Millions of bits per second; 0 without a limit.
    pub rate_mbit: f64,
    /// Share of its rate that was used over the run.
    pub utilisation: Option<f64>,
    /// Packets delivered.
    pub delivered: u64,
    /// Packets that a full queue dropped.
    pub dropped_full: u64,
    /// Packets that the queue's management dropped early.
    pub dropped_early: u64,
    /// Packets that the policer dropped.
    pub policed: u64,
    /// Packets lost behind the link: loss, outage, size.
    pub lost: u64,
    /// Packets marked.
    pub marked: u64,
    /// Delay in the queue that half of the packets stayed below.
    pub queue_ms_median: f64,
    /// Delay in the queue that 95% of the packets stayed below.
    pub queue_ms_p95: f64,
    /// Longest queue.
    pub queue_bytes_max: u64,
    /// Delay in the queue over time: seconds, milliseconds.
    pub samples: Vec<(f64, f64)>,
}

impl SimReport {
    /// The results of a world so far.
    pub fn of(world: &mut World) -> SimReport {
        let now = world.now();
        let config = world.config().clone();
        let flows = config.flows.iter().enumerate().map(|(id, flow)| {
            let view = world.flow(id);
            let (kind, cc) = match &flow.traffic {
                Traffic::Fobs(fobs) => ("fobs", fobs.controller.name().to_owned()),
                Traffic::Tcp(tcp) => ("tcp", tcp.algorithm.name().to_owned()),
                Traffic::Source(_) => ("source", String::new()),
            };
            let deadline_margin_s = margin(flow, &view);
            FlowReport { deadline_margin_s, ..FlowReport::of(&flow.name, kind, cc, &view, now) }
        });
        SimReport {
            v: 1,
            name: config.name.clone(),
            seed: config.seed,
            flows: flows.collect(),
            sessions: SessionReport::all(world),
            links: (0..config.edges.len()).map(|id| LinkReport::of(world, id)).collect(),
            seconds: seconds(now),
            events: world.events(),
            packets: world.packets(),
        }
    }

    /// As JSON, with a line feed at the end.
    pub fn json(&self) -> String {
        // Numbers and strings only: serialisation cannot fail.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        text + "\n"
    }

    /// As a table to read.
    pub fn table(&self) -> String {
        let mut lines = vec![
            format!(
                "{}: seed {}, {:.3} virtual seconds, {} packets",
                self.name, self.seed, self.seconds, self.packets
            ),
            String::new(),
            format!(
                "{:<16} {:<6} {:<10} {:<12} {:>9} {:>10} {:>9} {:>8} {:>7} {:>8} {:>8}",
                "flow",
                "kind",
                "cc",
                "outcome",
                "seconds",
                "Mbit/s",
                "MB",
                "lost",
                "waste%",
                "RTT ms",
                "sockdrop"
            ),
        ];
        lines.extend(self.flows.iter().map(FlowReport::row));
        lines.extend(self.flows.iter().flat_map(FlowReport::remarks));
        lines.extend(self.sessions.iter().map(SessionReport::line));
        lines.push(String::new());
        lines.push(format!(
            "{:<16} {:>10} {:>6} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>10} {:>8}",
            "link",
            "Mbit/s",
            "used%",
            "delivered",
            "full",
            "early",
            "policed",
            "lost",
            "marked",
            "queue ms",
            "p95 ms"
        ));
        lines.extend(self.links.iter().filter(|link| link.delivered > 0).map(LinkReport::row));
        lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

impl FlowReport {
    fn row(&self) -> String {
        let rtt = self.rtt_ms_min.map_or("-".to_owned(), |ms| format!("{ms:.2}"));
        format!(
            "{:<16} {:<6} {:<10} {:<12} {:>9.3} {:>10.2} {:>9.1} {:>8} {:>7.2} {:>8} {:>8}",
            self.name,
            self.kind,
            self.cc,
            self.outcome,
            self.seconds,
            self.goodput_mbit,
            self.bytes as f64 / 1e6,
            self.packets_lost,
            self.waste * 100.0,
            rtt,
            self.socket_drops,
        )
    }

    /// Lines about changes of the controller's state, and about the deadline.
    fn remarks(&self) -> Vec<String> {
        let change = |mode: &ModePoint| {
            format!(
                "{}: {} to {} at {:.3} s, {:.1} Mbit/s behind a queue of {:.1} ms: {}",
                self.name, mode.from, mode.to, mode.t, mode.delivered_mbit, mode.queue_ms, mode.reason
            )
        };
        let mut lines: Vec<String> = self.modes.iter().take(MODES_SHOWN).map(change).collect();
        if self.modes.len() > MODES_SHOWN {
            lines.push(format!("{}: and {} more changes", self.name, self.modes.len() - MODES_SHOWN));
        }
        if let Some(margin) = self.deadline_margin_s {
            let side = if margin < 0.0 { "after" } else { "before" };
            lines.push(format!("{}: complete {:.3} s {side} its deadline", self.name, margin.abs()));
        }
        lines
    }

    fn of(name: &str, kind: &'static str, cc: String, view: &FlowView, now: Nanos) -> FlowReport {
        let figures = &view.figures;
        let time = span(figures, view.outcome, now);
        FlowReport {
            name: name.to_owned(),
            kind,
            cc,
            outcome: view.outcome.word(),
            seconds: seconds(time),
            deadline_margin_s: None,
            bytes: figures.delivered,
            goodput_mbit: mbit(figures.delivered, time),
            packets_sent: figures.sent,
            packets_lost: figures.lost,
            packets_spared: figures.spared,
            waste: figures.waste(),
            rtt_ms_min: figures.rtt_min.map(millis),
            socket_drops: figures.socket_drops,
            damaged: figures.damaged,
            durable_bytes: figures.durable,
            off_cpu_seconds: seconds(figures.off_cpu),
            modes: view.modes.iter().map(ModePoint::of).collect(),
            samples: points(view),
        }
    }
}

impl LinkReport {
    fn row(&self) -> String {
        let used = self.utilisation.map_or("-".to_owned(), |share| format!("{:.1}", share * 100.0));
        format!(
            "{:<16} {:>10.1} {:>6} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>10.1} {:>8.1}",
            self.name,
            self.rate_mbit,
            used,
            self.delivered,
            self.dropped_full,
            self.dropped_early,
            self.policed,
            self.lost,
            self.marked,
            self.queue_ms_median,
            self.queue_ms_p95,
        )
    }

    fn of(world: &World, id: usize) -> LinkReport {
        let (config, view, now) = (&world.config().edges[id].link, world.link(id), world.now());
        let stats = view.stats;
        let capacity = config.rate as f64 / 8.0 * seconds(now);
        LinkReport {
            name: config.name.clone(),
            rate_mbit: config.rate as f64 / 1e6,
            utilisation: (capacity > 0.0).then(|| stats.delivered_bytes as f64 / capacity),
            delivered: stats.delivered,
            dropped_full: stats.dropped_full,
            dropped_early: stats.dropped_early,
            policed: stats.policed,
            lost: stats.lost,
            marked: stats.marked,
            queue_ms_median: millis(view.queue_delay.0),
            queue_ms_p95: millis(view.queue_delay.1),
            queue_bytes_max: stats.queue_max,
            samples: view.samples.iter().map(|s| (seconds(s.at), millis(s.waiting))).collect(),
        }
    }
}

/// Seconds from the end of a flow to its deadline.
fn margin(flow: &FlowConfig, view: &FlowView) -> Option<f64> {
    let Traffic::Fobs(fobs) = &flow.traffic else { return None };
    let ended = view.figures.ended.filter(|_| view.outcome == Outcome::Complete)?;
    let deadline = flow.start.saturating_add(fobs.deadline?);
    Some(seconds(deadline.saturating_sub(ended)) - seconds(ended.saturating_sub(deadline)))
}

/// Time from a flow's first packet to its last useful byte, or to the end of the run.
pub fn span(figures: &FlowFigures, outcome: Outcome, now: Nanos) -> Nanos {
    let end = if outcome.is_running() { now } else { figures.ended.unwrap_or(now) };
    figures.began.map_or(0, |began| end.saturating_sub(began))
}

/// Millions of bits per second; 0 in no time.
pub fn mbit(bytes: u64, time: Nanos) -> f64 {
    if time == 0 { 0.0 } else { bytes as f64 * 8.0 * 1e3 / time as f64 }
}

/// Jain's fairness index of some shares: 1 if all are equal, 1/n if one has everything (Jain, Chiu and Hawe
/// 1984).
pub fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

fn millis(ns: Nanos) -> f64 {
    ns as f64 / MS as f64
}

fn points(view: &FlowView) -> Vec<FlowPoint> {
    let mut before = (0, 0);
    let mut points = Vec::with_capacity(view.samples.len());
    for sample in &view.samples {
        let goodput_mbit = mbit(sample.delivered.saturating_sub(before.1), sample.at - before.0);
        before = (sample.at, sample.delivered);
        points.push(FlowPoint {
            t: seconds(sample.at),
            goodput_mbit,
            rtt_ms: sample.rtt.map(millis),
            pacing_mbit: sample.pacing.map(|rate| rate as f64 / 1e6),
            window_bytes: sample.window,
            queued_bytes: sample.queued,
        });
    }
    points
}

/// `9.41 s`, for swarm lines.
pub(crate) fn show_seconds(ns: Nanos) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(text, "{}.{:03} s", ns / SEC, ns % SEC / MS);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_for_equals_and_one_nth_for_one() {
        assert!((jain(&[3.0, 3.0, 3.0]) - 1.0).abs() < 1e-12);
        assert!((jain(&[5.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!((jain(&[]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn rates_are_bits_over_time() {
        assert!((mbit(12_500_000, SEC) - 100.0).abs() < 1e-9);
        assert!(mbit(1, 0).abs() < 1e-12);
        assert_eq!(show_seconds(9_412_900_000), "9.412 s");
    }
}
