//! The numbers that describe a run.

use serde::{Deserialize, Serialize};

use crate::link::counters::DirectionReport;
use crate::record::{End, Flow, LoadSample, Run};

/// Something that is measured, in the unit that [`Measure::title`] names.
///
/// Of a contest with several flows the figures of the flows are added up (rates, CPU seconds), or the longest
/// counts (times); a figure per flow takes one flow alone.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Payload of the data phase as a share of the link's rate.
    #[default]
    Share,
    /// The same over the whole time, from the command's start to its end.
    WallShare,
    /// Payload of all flows from the first start to the last end, as a share of the link's rate.
    TotalShare,
    /// Payload of the data phase as a share of what cross traffic left of the link in this run: its nominal
    /// mean is far from that of a few seconds. None without cross traffic.
    ShareOfLeft,
    /// While all flows ran: what a flow got, as a share of an equal part of the link's payload rate.
    FairShare,
    /// Payload of the data phase, Mbit/s.
    Goodput,
    /// Packets sent more than were needed, as the sender counts them (FOBS only).
    Waste,
    /// Packets that got lost, as the sender counts them (FOBS only).
    LossSeen,
    /// Datagrams that the receiver's full socket buffer dropped (FOBS only).
    SocketDrops,
    /// Datagrams that the receiving host's sockets dropped, of all that reached it (under a load of the plan
    /// only).
    SocketLoss,
    /// Processes that compete for the receiver's processor (under a load of the plan only).
    Competitors,
    /// Segments sent again (TCP by iperf3 only).
    Retransmits,
    /// Bytes of IP packets that entered the path in the data's direction, more than the payload.
    Overhead,
    /// Packets dropped by the bottleneck's queue.
    QueueDrops,
    /// Seconds from start to end.
    WallSeconds,
    /// Seconds of the data phase.
    DataSeconds,
    /// CPU seconds of the sending end for each GB of payload.
    CpuSender,
    /// CPU seconds of the receiving end for each GB of payload.
    CpuReceiver,
    /// Round trip under load, median.
    RttMedian,
    /// Round trip under load, 95th percentile.
    RttP95,
    /// How much the load adds to the round trip at the 95th percentile.
    RttAdded,
    /// Jain's index of fairness between the flows.
    Jain,
}

impl Measure {
    /// What it is, with its unit: the title of an axis or a column.
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
        }
    }

    /// What a figure over time shows, with its unit.
    pub fn course_title(self) -> &'static str {
        match self {
            Measure::SocketLoss | Measure::Competitors => self.title(),
            _ => "Rate (Mbit/s)",
        }
    }

    /// The course of the run as a whole, for measures that are not a flow's.
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

    /// The course of a flow: seconds after the run's start, and what [`Measure::course_title`] names.
    pub fn course_of_flow(flow: &Flow) -> Vec<[f64; 2]> {
        flow.series.iter().map(|[at, rate]| [*at, rate / 1e6]).collect()
    }

    /// Where the axis ends in any case: a share is seen against the whole.
    pub fn full_scale(self) -> Option<f64> {
        match self {
            Measure::Share | Measure::WallShare | Measure::TotalShare => Some(100.0),
            Measure::Jain => Some(1.0),
            _ => None,
        }
    }

    /// Of the whole run, all its flows together; none if nothing was measured.
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
            Measure::FairShare | Measure::Waste | Measure::LossSeen => match flows.as_slice() {
                [flow] => self.of_flow(run, flow),
                _ => None,
            },
        }
        .filter(|value| value.is_finite())
    }

    /// Of one flow of the run; what is not a flow's own (round trips, queues) is the run's.
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

/// The direction in which the data went.
fn of_data(run: &Run) -> &DirectionReport {
    let west_to_east = run.wire.forward.bytes_in >= run.wire.backward.bytes_in;
    if west_to_east { &run.wire.forward } else { &run.wire.backward }
}

/// What cross traffic offered in the direction of the data, as a share of the link: what the full queue
/// dropped of it counts, too. A dropped packet counts with the path's full size, which is what plans send.
fn taken_by_cross(run: &Run) -> f64 {
    let wire = of_data(run);
    let bytes = wire.cross_bytes + wire.cross_drops * u64::from(run.link.mtu);
    bytes as f64 * 8.0 / run.wire.elapsed_s / run.link.rate_bps
}

/// A number in what the tool itself reported.
fn said(flow: &Flow, pointer: &str) -> Option<f64> {
    flow.report.pointer(pointer)?.as_f64()
}

/// Dropped datagrams of all that arrived, percent.
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
    fn what_is_left_is_what_cross_traffic_did_not_offer_in_this_run() {
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
