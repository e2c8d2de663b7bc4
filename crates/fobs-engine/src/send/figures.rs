//! The sender's figures for the peer and for the summary.

use crate::streams::StreamFigures;
use fobs_model::deltas::Literal;
use fobs_model::message::{Finished, Standing};
use fobs_proto::sender::{Sender, SenderStats};
use fobs_store::Known;
use fobs_sys::Usage;

/// Progress figures, sent with every heartbeat.
pub(super) fn standing(
    machine: &Sender,
    stats: SenderStats,
    known: &Known,
    streams: &StreamFigures,
) -> Standing {
    let rtt = machine.rtt();
    Standing {
        bytes: known.bytes,
        scan_complete: known.scan_complete,
        rtt_ms: rtt.latest().map(|_| rtt.smoothed().as_secs_f64() * 1e3),
        loss_rate: ratio(stats.packets_lost.saturating_sub(stats.packets_late), stats.packets_sent),
        waste: stats.waste(),
        late_seconds: machine.late().map(|late| late.as_secs_f64()),
        streams: streams.connections,
    }
}

/// Final figures; `rejected` counts datagrams that were not the peer's or not new.
pub(super) fn finished(
    machine: &Sender,
    stats: SenderStats,
    rejected: u64,
    streams: &StreamFigures,
    literal: Literal,
    usage: Usage,
) -> Finished {
    Finished {
        packets_needed: stats.packets_needed,
        packets_sent: stats.packets_sent + stats.packets_framed,
        packets_lost: stats.packets_lost.saturating_sub(stats.packets_late),
        rtt_ms_min: machine.rtt().min_ever().map(|rtt| rtt.as_secs_f64() * 1e3),
        packet_size: machine.payload_size(),
        cc: machine.controller().name().to_owned(),
        datagrams_rejected: rejected,
        cpu_seconds: usage.cpu_seconds,
        max_rss_bytes: usage.max_rss_bytes,
        transport: carrier(&stats, streams).to_owned(),
        streams: streams.connections_max,
        bytes_framed: stats.bytes_framed,
        literal,
        lanes: Vec::new(),
        read: Vec::new(),
    }
}

/// What carried most bytes: those that datagrams brought, or what streams did. The end of a small transfer
/// may overtake the count of what arrived; what was sent tells then.
fn carrier(stats: &SenderStats, streams: &StreamFigures) -> &'static str {
    let by_streams = if streams.connections_max > 0 { "tcp" } else { "channel" };
    let brought = streams.channel_bytes + streams.connection_bytes + stats.bytes_acked;
    if brought == 0 && stats.bytes_framed > stats.bytes_sent {
        return by_streams;
    }
    let ways =
        [(streams.channel_bytes, "channel"), (streams.connection_bytes, "tcp"), (stats.bytes_acked, "udp")];
    ways.into_iter().max_by_key(|(bytes, _)| *bytes).map_or("udp", |(_, name)| name)
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
