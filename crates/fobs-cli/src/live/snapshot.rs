//! How a copy stands.

use std::time::Duration;

use fobs::event::Progress;
use fobs::explain::Explanation;
use serde::{Deserialize, Serialize};

use super::Left;
use crate::units::{fitting, show_bytes, show_clock, show_rate, show_share};

/// A copy at one moment. Members that are missing are unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Its process.
    pub id: u32,
    /// The sources, as given.
    pub sources: Vec<String>,
    /// The destination, as given.
    pub destination: String,
    /// Since it began.
    pub elapsed_s: f64,
    /// File bytes verified.
    pub bytes: u64,
    /// File bytes known.
    pub bytes_known: u64,
    /// Whether that is all.
    pub scan_complete: bool,
    /// File bits per second.
    pub rate_bps: f64,
    /// Round-trip time, ms.
    pub rtt_ms: Option<f64>,
    /// Share of packets lost.
    pub loss_rate: f64,
    /// Whether its user has paused it.
    pub paused: bool,
    /// Time left.
    pub left: Option<Left>,
    /// What limits it, in a sentence.
    pub limit: String,
    /// Where the time went.
    pub budget: Vec<Stage>,
}

/// A part of the time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// 0 to 1.
    pub share: f64,
}

impl Snapshot {
    /// With what a copy reports of itself.
    pub fn with(self, elapsed: Duration, progress: &Progress, why: &Explanation) -> Snapshot {
        let stage = |spent: &fobs::explain::Spent| Stage {
            name: spent.stage.name().to_owned(),
            share: if spent.share.is_finite() { spent.share } else { 0.0 },
        };
        Snapshot {
            elapsed_s: elapsed.as_secs_f64(),
            bytes: progress.bytes,
            bytes_known: progress.bytes_known,
            scan_complete: progress.scan_complete,
            rate_bps: if progress.rate_bps.is_finite() { progress.rate_bps } else { 0.0 },
            rtt_ms: progress.rtt_ms,
            loss_rate: if progress.loss_rate.is_finite() { progress.loss_rate } else { 0.0 },
            limit: why.limit.map_or_else(String::new, |_| why.sentence.clone()),
            budget: why.budget.iter().map(stage).collect(),
            ..self
        }
    }

    /// What is copied where.
    pub fn title(&self) -> String {
        format!("{} \u{2192} {}", self.sources.join(" "), self.destination)
    }

    /// The share that is done, where all is known.
    pub fn share(&self) -> Option<f64> {
        (self.scan_complete && self.bytes_known > 0)
            .then(|| (self.bytes as f64 / self.bytes_known as f64).clamp(0.0, 1.0))
    }

    /// Figures in one line, of this number of columns at most.
    pub fn figures_in(&self, columns: usize) -> String {
        let share = self.share().map(|share| format!("{:.0}%", share * 100.0));
        let rtt = self.rtt_ms.map(|rtt| format!("RTT {rtt:.1} ms"));
        let rate = if self.paused { "paused".to_owned() } else { show_rate(self.rate_bps) };
        let left = self.time_left();
        // Where its span does not fit, the time itself may.
        let whole = left.as_ref().map_or(0, |(_, span)| span.len());
        let ranked = |span: bool| {
            let left =
                left.as_ref().map(|(left, width)| if span { format!("{left}{width}") } else { left.clone() });
            // In the order in which they are shown, with their rank.
            let words = [
                (2, share.clone()),
                (3, Some(show_bytes(self.bytes))),
                (0, Some(rate.clone())),
                (1, left),
                (4, rtt.clone()),
                (5, Some(format!("loss {}", show_share(self.loss_rate)))),
            ];
            fitting(words.into_iter().filter_map(|(rank, word)| Some((rank, word?))), columns)
        };
        let all = ranked(false);
        if all.chars().count() + whole <= columns { ranked(true) } else { all }
    }

    /// `ETA 5:00 (4:10 to 7:30)`, with a span only where it is one.
    fn time_left(&self) -> Option<(String, String)> {
        let left = self.left.filter(|_| !self.paused)?;
        let clock = |seconds: f64| Duration::try_from_secs_f64(seconds).ok().map(show_clock);
        let (likely, least) = (clock(left.likely_s)?, clock(left.least_s)?);
        let most = left.most_s.and_then(clock).unwrap_or_else(|| "?".to_owned());
        let span = if least == most { String::new() } else { format!(" ({least} to {most})") };
        Some((format!("ETA {likely}"), span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_what_is_known() {
        let nothing = Snapshot::default();
        assert_eq!(nothing.figures_in(200), "0 bytes  0 bit/s  loss 0.00%");
        let running = Snapshot {
            bytes: 2_500_000_000,
            bytes_known: 10_000_000_000,
            scan_complete: true,
            rate_bps: 1e9,
            rtt_ms: Some(65.0),
            loss_rate: 0.001,
            left: Some(Left { likely_s: 60.0, least_s: 50.0, most_s: Some(90.0) }),
            ..Snapshot::default()
        };
        assert_eq!(
            running.figures_in(200),
            "25%  2.50 GB  1.00 Gbit/s  ETA 1:00 (0:50 to 1:30)  RTT 65.0 ms  loss 0.10%"
        );
        let left = |likely_s, least_s, most_s| {
            let left = Some(Left { likely_s, least_s, most_s });
            let (left, span) = Snapshot { left, ..running.clone() }.time_left().expect("there is some left");
            left + &span
        };
        assert_eq!(left(30.2, 30.0, Some(30.9)), "ETA 0:30");
        assert_eq!(left(30.2, 29.0, Some(30.9)), "ETA 0:30 (0:29 to 0:30)");
        assert_eq!(left(30.2, 30.0, None), "ETA 0:30 (0:30 to ?)");
        for (columns, line) in [
            (80, "25%  2.50 GB  1.00 Gbit/s  ETA 1:00 (0:50 to 1:30)  RTT 65.0 ms  loss 0.10%"),
            (71, "25%  2.50 GB  1.00 Gbit/s  ETA 1:00  RTT 65.0 ms  loss 0.10%"),
            (40, "25%  2.50 GB  1.00 Gbit/s  ETA 1:00"),
            (31, "25%  1.00 Gbit/s  ETA 1:00"),
            (12, "1.00 Gbit/s"),
        ] {
            assert_eq!(running.figures_in(columns), line, "{columns} columns");
        }
        let paused = Snapshot { paused: true, ..running };
        assert_eq!(paused.figures_in(200), "25%  2.50 GB  paused  RTT 65.0 ms  loss 0.10%");
    }

    #[test]
    fn an_older_or_newer_copy_is_understood() {
        let read: Snapshot = serde_json::from_str(r#"{"id": 7, "colour": "red"}"#).expect("an object");
        assert_eq!((read.id, read.bytes), (7, 0));
    }
}
