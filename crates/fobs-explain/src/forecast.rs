//! What `fobs` would make of the path over which another program copied: by a table that the laboratory
//! plays in its simulator (`fobs-lab sim forecast`).

use super::limits::{Facts, Limit};
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
    /// Nine of ten simulated copies were faster, file bits per second; not below what the copy had.
    pub p10_bps: f64,
    /// One of ten was; `None` where the copy did not find out what the path carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90_bps: Option<f64>,
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
        if !facts.is_of_another() || !path_limits(limit) {
            return None;
        }
        let ceiling = match limit {
            Limit::Policer | Limit::NarrowPath => facts.ceiling(),
            _ => facts.seen(),
        };
        let is_known = ceiling.is_known();
        let rate_bps = ceiling.bps().max(facts.goodput_bps) * TCP_HEADERS;
        let rtt_ms = facts.sender()?.rtt_min_us as f64 / 1e3;
        let loss = if limit == Limit::RandomLoss { facts.path.loss } else { 0.0 };
        if rate_bps <= 0.0 || rtt_ms <= 0.0 {
            return None;
        }
        let row = nearest(rate_bps / 1e6, rtt_ms, loss)?;
        // The path carried what the copy had: `fobs` would have no less of it.
        let no_less = |part: f64| (part * rate_bps).max(facts.goodput_bps);
        let (p10_bps, p90_bps) = (no_less(row.p10), is_known.then(|| no_less(row.p90)));
        Some(Forecast { p10_bps, p90_bps, rate_bps, rtt_ms, loss })
    }
}

impl std::fmt::Display for Forecast {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (least, link) = (rate(self.p10_bps), rate(self.rate_bps));
        match self.p90_bps {
            Some(most) => write!(
                f,
                "{least} to {} (the tenth and the ninetieth of a hundred simulated copies, where the path carries the \
                 {link} that it was seen to carry",
                rate(most)
            )?,
            None => write!(
                f,
                "at least {least} (the tenth of a hundred simulated copies, where the path carries no more than the \
                 {link} of this copy's best moment: whether it carries more was not tried"
            )?,
        }
        write!(f, "; with a round trip of {:.1} ms and a loss of {})", self.rtt_ms, percent(self.loss))
    }
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
