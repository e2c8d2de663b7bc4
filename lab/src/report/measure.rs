//! Measures of a run.

use serde::{Deserialize, Serialize};

use crate::link::counters::DirectionReport;
use crate::record::{End, Flow, LoadSample, Run};

/// A measure, in the unit that [`Measure::title`] names.
///
/// For a contest with several flows, rates and CPU seconds are sums and times are maxima; in a figure by
/// flow, each flow counts alone.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Goodput of the data phase as a share of the link's rate.
    #[default]
    Share,
    /// Goodput from the command's start to its end as a share of the link's rate.
    WallShare,
    /// Payload of all flows from the first start to the last end, as a share of the link's rate.
    TotalShare,
    /// Goodput of the data phase as a share of the capacity that cross traffic left in this run: its nominal
    /// mean differs from a few seconds of a random process. `None` without cross traffic.
    ShareOfLeft,
    /// While all flows run: a flow's goodput as a share of an equal part of the link's payload rate.
    FairShare,
    /// Goodput of the data phase, Mbit/s.
    Goodput,
    /// Packets sent in excess of those needed, counted by the sender (FOBS only).
    Waste,
    /// Packets lost, counted by the sender (FOBS only).
    LossSeen,
    /// Datagrams that the receiver's full socket buffer dropped (FOBS only).
    SocketDrops,
    /// Share of datagrams that the receiving host's sockets dropped, of those that reached it (only with a
    /// load).
    SocketLoss,
    /// Processes that compete for the receiver's CPU (only with a load).
    Competitors,
    /// Retransmitted segments (TCP by iperf3 only).
    Retransmits,
    /// Bytes of IP packets in the data's direction in excess of the payload.
    Overhead,
    /// Packets dropped at the bottleneck queue.
    QueueDrops,
    /// Seconds from start to end.
    WallSeconds,
    /// Seconds of the data phase.
    DataSeconds,
    /// CPU seconds of the sending end for each GB of payload.
    CpuSender,
    /// CPU seconds of the receiving end for each GB of payload.
    CpuReceiver,
    /// Median round-trip time under load.
    RttMedian,
    /// 95th percentile of the round-trip time under load.
    RttP95,
    /// Increase of the 95th percentile of the round-trip time under load.
    RttAdded,
    /// Jain's fairness index of the flows.
    Jain,
    /// TCP connections that carry data (FOBS only): over time, or the most at once.
    Streams,
}

impl Measure {
    /// Name with unit, as title of an axis or a column.
    pub fn title(self) -> &'static str {
        match self {
            Measure::Share => "Share of the link's rate (%)",
            Measure::WallShare => "Share of the link's rate, wall time (%)",
            Measure::TotalShare => "Share of the link's rate, all flows (%)",
            Measure::ShareOfLeft => "Share of what cross traffic left (%)",
            Measure::FairShare => "Share of an equal part (%)",
            Measure::Goodput => "Goodput (Mbit/s)",
            Measure::Waste => "Waste (% of packets needed)",
            Measure::LossSeen => "Packets lost (%)",
            Measure::SocketDrops => "Dropped by the receiver's socket (datagrams)",
            Measure::SocketLoss => "Lost at the receiver's socket (%)",
            Measure::Competitors => "Competing processes",
            Measure::Retransmits => "Segments sent again",
            Measure::Overhead => "Bytes on the wire beyond the payload (%)",
            Measure::QueueDrops => "Dropped by the queue (packets)",
            Measure::WallSeconds => "Wall time (s)",
            Measure::DataSeconds => "Data phase (s)",
            Measure::CpuSender => "CPU, sender (s/GB)",
            Measure::CpuReceiver => "CPU, receiver (s/GB)",
            Measure::RttMedian => "Round trip under load, median (ms)",
            Measure::RttP95 => "Round trip under load, 95th percentile (ms)",
            Measure::RttAdded => "Added to the round trip, 95th percentile (ms)",
            Measure::Jain => "Jain's index",
            Measure::Streams => "Streams",
        }
    }

    /// Quantity of a figure over time, with its unit.
    pub fn course_title(self) -> &'static str {
        match self {
            Measure::SocketLoss | Measure::Competitors | Measure::Streams => self.title(),
            _ => "Rate (Mbit/s)",
        }
    }

    /// Time series of the whole run, for measures that do not belong to a flow.
    pub fn course_of_run(self, run: &Run) -> Option<Vec<[f64; 2]>> {
        let samples = run.load.as_ref().map(|load| load.series.as_slice()).unwrap_or_default();
        let value = |sample: &LoadSample| match self {
            Measure::Competitors => Some(f64::from(sample.competitors)),
            Measure::SocketLoss => Some(socket_loss(sample.delivered, sample.dropped)),
            _ => None,
        };
        match self {
            Measure::SocketLoss | Measure::Competitors => {
                Some(samples.iter().filter_map(|sample| Some([sample.t_s, value(sample)?])).collect())
            }
            _ => None,
        }
    }

    /// Time series of a flow: seconds since the run's start, and the quantity of [`Measure::course_title`].
    pub fn course_of_flow(self, flow: &Flow) -> Vec<[f64; 2]> {
        if self == Measure::Streams {
            let course = flow.report.get("streams_over_time").cloned().unwrap_or_default();
            return serde_json::from_value(course).unwrap_or_default();
        }
        flow.series.iter().map(|[at, rate]| [*at, rate / 1e6]).collect()
    }

    /// Minimum end of the axis: a share is shown against the whole.
    pub fn full_scale(self) -> Option<f64> {
        match self {
            Measure::Share | Measure::WallShare | Measure::TotalShare => Some(100.0),
            Measure::Jain => Some(1.0),
            _ => None,
        }
    }

    /// Value for the whole run with all its flows; `None` if not measured.
    pub fn of_run(self, run: &Run) -> Option<f64> {
        let flows: Vec<&Flow> = run.flows.iter().filter(|flow| flow.end != End::Failed).collect();
        let all = || !flows.is_empty() && flows.len() == run.flows.len();
        let sum =
            |value: fn(&Flow) -> Option<f64>| -> Option<f64> { flows.iter().map(|flow| value(flow)).sum() };
        let longest =
            |value: fn(&Flow) -> Option<f64>| flows.iter().filter_map(|flow| value(flow)).reduce(f64::max);
        let bytes = || flows.iter().map(|flow| flow.bytes as f64).sum::<f64>();
        match self {
            Measure::Jain => run.jain,
            Measure::QueueDrops => {
                Some((run.wire.forward.queue_drops + run.wire.backward.queue_drops) as f64)
            }
            Measure::RttMedian => run.rtt_ms.map(|rtt| rtt.p50),
            Measure::RttP95 => run.rtt_ms.map(|rtt| rtt.p95),
            Measure::RttAdded => run.rtt_ms.map(|rtt| (rtt.p95 - rtt.base).max(0.0)),
            Measure::SocketLoss => run.load.as_ref().map(|load| {
                let sum = |count: fn(&LoadSample) -> u64| load.series.iter().map(count).sum();
                socket_loss(sum(|sample| sample.delivered), sum(|sample| sample.dropped))
            }),
            Measure::Competitors => {
                let most = run.load.as_ref()?.series.iter().map(|sample| sample.competitors).max();
                most.map(f64::from)
            }
            _ if !all() => None,
            Measure::TotalShare => Some(percent(bytes() * 8.0 / run.elapsed_s / run.link.rate_bps)),
            Measure::Share => sum(|flow| flow.share).map(percent),
            Measure::ShareOfLeft => {
                let taken = taken_by_cross(run);
                sum(|flow| flow.share).filter(|_| taken > 0.0).map(|share| percent(share / (1.0 - taken)))
            }
            Measure::WallShare => {
                sum(|flow| flow.wall_goodput_bps).map(|rate| percent(rate / run.link.rate_bps))
            }
            Measure::Goodput => sum(|flow| flow.goodput_bps).map(|rate| rate / 1e6),
            Measure::WallSeconds => longest(|flow| Some(flow.wall_s)),
            Measure::DataSeconds => longest(|flow| flow.data_s),
            Measure::CpuSender => sum(|flow| flow.cpu_sender_s).map(|s| s * 1e9 / bytes()),
            Measure::CpuReceiver => sum(|flow| flow.cpu_receiver_s).map(|s| s * 1e9 / bytes()),
            Measure::Overhead => Some(percent(of_data(run).bytes_in as f64 / bytes() - 1.0)),
            Measure::SocketDrops => sum(|flow| said(flow, "/socket_drops")),
            Measure::Retransmits => sum(|flow| said(flow, "/sum_sent/retransmits")),
            Measure::Streams => sum(|flow| said(flow, "/streams")),
            Measure::FairShare | Measure::Waste | Measure::LossSeen => match flows.as_slice() {
                [flow] => self.of_flow(run, flow),
                _ => None,
            },
        }
        .filter(|value| value.is_finite())
    }

    /// Value for one flow; measures that do not belong to a flow (round trips, queues) are the run's.
    pub fn of_flow(self, run: &Run, flow: &Flow) -> Option<f64> {
        if flow.end == End::Failed {
            return None;
        }
        let own = Run { flows: vec![flow.clone()], ..run.clone() };
        match self {
            Measure::FairShare => {
                let equal = run.link.rate_bps * run.link.payload_share / run.flows.len() as f64;
                flow.overlap_bps.or(flow.goodput_bps).map(|rate| percent(rate / equal))
            }
            Measure::Waste => said(flow, "/waste").map(percent),
            Measure::LossSeen => said(flow, "/loss_rate").map(percent),
            _ => self.of_run(&own),
        }
    }
}

/// Counters of the direction of the data.
fn of_data(run: &Run) -> &DirectionReport {
    let west_to_east = run.wire.forward.bytes_in >= run.wire.backward.bytes_in;
    if west_to_east { &run.wire.forward } else { &run.wire.backward }
}

/// Offered cross traffic in the direction of the data, as a share of the link, including its drops at the
/// full queue. Drops are counted with the path's full packet size, which plans use.
fn taken_by_cross(run: &Run) -> f64 {
    let wire = of_data(run);
    let bytes = wire.cross_bytes + wire.cross_drops * u64::from(run.link.mtu);
    bytes as f64 * 8.0 / run.wire.elapsed_s / run.link.rate_bps
}

/// A number in the tool's own report.
fn said(flow: &Flow, pointer: &str) -> Option<f64> {
    flow.report.pointer(pointer)?.as_f64()
}

/// Dropped datagrams over all arrivals, percent.
fn socket_loss(delivered: u64, dropped: u64) -> f64 {
    if dropped == 0 { 0.0 } else { percent(dropped as f64 / (delivered + dropped) as f64) }
}

/// A share, 0 to 1, in percent.
pub fn percent(share: f64) -> f64 {
    share * 100.0
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::record::Record;

    #[test]
    fn the_remaining_rate_excludes_offered_cross_traffic() {
        let lines = sample::lines();
        let Some(Ok(Record::Run(mut run))) = lines.lines().nth(1).map(Record::from_line) else {
            panic!("no run")
        };
        let share = Measure::Share.of_run(&run).unwrap();
        run.wire.elapsed_s = 4.0;
        assert_eq!(Measure::ShareOfLeft.of_run(&run), None, "no cross traffic");
        // 60% of the link: half of it sent, half of it dropped.
        let offered = (0.6 * run.link.rate_bps / 8.0 * 4.0) as u64;
        run.wire.forward.cross_bytes = offered / 2;
        run.wire.forward.cross_drops = offered / 2 / u64::from(run.link.mtu);
        let of_left = Measure::ShareOfLeft.of_run(&run).unwrap();
        assert!((of_left - share / 0.4).abs() < 0.01 * share, "{of_left} of {share}");
    }
}
