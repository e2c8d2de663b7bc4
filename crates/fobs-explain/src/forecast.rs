//! What `fobs` would make of the path over which another program copied: by a table that the laboratory
//! plays in its simulator (`fobs-lab sim forecast`).

use super::limits::{Facts, Limit};
use super::trace::Head;
use fobs_model::words::{percent, rate};
use serde::{Deserialize, Serialize};

/// The table: a line for each path.
const TABLE: &str = include_str!("forecast.jsonl");
/// Bits on the link for each bit of a TCP stream: headers of a full segment.
const TCP_HEADERS: f64 = 1500.0 / 1448.0;
/// Loss that counts as none where distances are taken, so that there is a logarithm.
const LOSS_LEAST: f64 = 1e-4;

/// What `fobs` would make of a path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    /// Nine of ten simulated copies were faster, file bits per second.
    pub p10_bps: f64,
    /// One of ten was.
    pub p90_bps: f64,
    /// The rate that the path was seen to carry, bits per second on the wire: it may carry more.
    pub rate_bps: f64,
    /// Its smallest round trip, milliseconds.
    pub rtt_ms: f64,
    /// The share of packets that it loses at any rate.
    pub loss: f64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Row {
    rate_mbit: f64,
    rtt_ms: f64,
    loss: f64,
    p10: f64,
    p90: f64,
}

impl Forecast {
    /// The forecast for what was measured of another program; `None` where an end would limit `fobs` as well,
    /// or too little is known of the path.
    pub(crate) fn of(facts: &Facts, limit: Limit) -> Option<Forecast> {
        if !is_of_another(&facts.trace.head) || !path_limits(limit) {
            return None;
        }
        let rate_bps = facts.path.best_bps * TCP_HEADERS;
        let rtt_ms = facts.sender()?.rtt_min_us as f64 / 1e3;
        let loss = if limit == Limit::RandomLoss { facts.path.loss } else { 0.0 };
        if rate_bps <= 0.0 || rtt_ms <= 0.0 {
            return None;
        }
        let row = nearest(rate_bps / 1e6, rtt_ms, loss)?;
        let (p10_bps, p90_bps) = (row.p10 * rate_bps, row.p90 * rate_bps);
        Some(Forecast { p10_bps, p90_bps, rate_bps, rtt_ms, loss })
    }
}

impl std::fmt::Display for Forecast {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} to {} (the tenth and the ninetieth of a hundred simulated copies, where the path carries the {} that \
             it was seen to carry, with a round trip of {:.1} ms and a loss of {})",
            rate(self.p10_bps),
            rate(self.p90_bps),
            rate(self.rate_bps),
            self.rtt_ms,
            percent(self.loss)
        )
    }
}

/// Whether a record is of a program of another make: it names no cipher of ours.
fn is_of_another(head: &Head) -> bool {
    head.transport == "tcp" && head.cipher.is_empty()
}

/// Whether it is the path, or how TCP uses it, that limits: `fobs` may do better.
fn path_limits(limit: Limit) -> bool {
    matches!(
        limit,
        Limit::NarrowPath
            | Limit::Policer
            | Limit::RandomLoss
            | Limit::Reordering
            | Limit::StartUp
            | Limit::StreamPath
            | Limit::StreamWindow
            | Limit::StreamBuffer
            | Limit::ChannelWindow
            | Limit::RouteChange
    )
}

/// The row of the table that is nearest by the ratios.
fn nearest(rate_mbit: f64, rtt_ms: f64, loss: f64) -> Option<Row> {
    let apart = |a: f64, b: f64| (a / b).ln().abs();
    let distance = |row: &Row| {
        apart(row.rate_mbit, rate_mbit)
            + apart(row.rtt_ms, rtt_ms)
            + apart(row.loss.max(LOSS_LEAST), loss.max(LOSS_LEAST))
    };
    let rows = TABLE.lines().filter_map(|line| serde_json::from_str::<Row>(line).ok());
    rows.min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_can_be_read_and_found() {
        let rows: Vec<Row> = TABLE.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
        assert!(rows.len() >= 64, "{}", rows.len());
        for row in rows {
            assert!(0.0 < row.p10 && row.p10 <= row.p90 && row.p90 <= 1.0, "{row:?}");
            let found = nearest(row.rate_mbit * 1.1, row.rtt_ms, row.loss).expect("a row");
            assert_eq!((found.rate_mbit, found.rtt_ms), (row.rate_mbit, row.rtt_ms));
        }
    }
}
