//! Verdicts compared with labels: a table by cause, scenario and loss band, and the acceptance bars.

use std::collections::BTreeMap;
use std::fmt;

use fobs_proto::loss_cause::Verdict;
use fobs_proto::loss_cause::mixture::LOST_MIN;
use fobs_proto::loss_cause::paper::LOSS_RATE_MIN;

use fobs_diagnose::splice::{NETWORK_SHARE_MIN, is_congestion};
use fobs_diagnose::{Cause, Window};

/// Lower bounds of the loss bands after the first, which is not scored. Loss rates.
pub const BANDS: [f64; 4] = [LOSS_RATE_MIN, 5e-4, 5e-3, 5e-2];
/// Names of the bands.
pub const BAND_NAMES: [&str; 5] = ["<8e-5", "8e-5..5e-4", "5e-4..5e-3", "5e-3..5e-2", ">5e-2"];
/// Windows with fewer packets are held to the bars of the short reference.
const SHORT_WINDOW: u32 = 40_000;

/// Counts of verdicts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// "receiver".
    pub receiver: u32,
    /// "network".
    pub network: u32,
    /// "inconclusive".
    pub inconclusive: u32,
}

impl Tally {
    fn add(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Receiver => self.receiver += 1,
            Verdict::Network => self.network += 1,
            Verdict::Inconclusive => self.inconclusive += 1,
        }
    }

    fn join(&mut self, other: Tally) {
        self.receiver += other.receiver;
        self.network += other.network;
        self.inconclusive += other.inconclusive;
    }

    /// The number of verdicts.
    pub fn total(self) -> u32 {
        self.receiver + self.network + self.inconclusive
    }

    /// `count` as a share of all verdicts; `None` without any.
    fn share(self, count: u32) -> Option<f64> {
        (self.total() > 0).then(|| f64::from(count) / f64::from(self.total()))
    }
}

/// Verdicts by cause, scenario and band.
#[derive(Debug, Clone, Default)]
pub struct Scores {
    rows: BTreeMap<(Cause, String), Row>,
}

/// One scenario.
#[derive(Debug, Clone, Copy, Default)]
pub struct Row {
    /// By loss band.
    pub bands: [Tally; 5],
    /// Windows with enough loss for the bars: a rate of 8e-5, in short windows 8 packets.
    pub scored: Tally,
    /// Of those, hybrid windows with at least 5% of the losses in the network.
    pub hybrid: Tally,
    congestion: bool,
}

impl Scores {
    /// Counts a verdict on a labelled window; ignores unlabelled ones.
    pub fn add(&mut self, window: &Window, verdict: Verdict) {
        let Some(cause) = window.cause.filter(|_| window.signature.lost() > 0) else {
            return;
        };
        let row = self.rows.entry((cause, window.scenario.clone())).or_default();
        row.congestion = is_congestion(window);
        let rate = window.signature.loss_rate();
        row.bands[BANDS.iter().filter(|from| rate >= **from).count()].add(verdict);
        let enough = if window.signature.packets() < SHORT_WINDOW {
            window.signature.lost() >= LOST_MIN
        } else {
            rate >= LOSS_RATE_MIN
        };
        if enough {
            row.scored.add(verdict);
            if cause == Cause::Hybrid
                && window.network_share().is_some_and(|share| share >= NETWORK_SHARE_MIN)
            {
                row.hybrid.add(verdict);
            }
        }
    }

    /// The rows, by cause and scenario.
    pub fn rows(&self) -> impl Iterator<Item = (Cause, &str, &Row)> {
        self.rows.iter().map(|((cause, scenario), row)| (*cause, scenario.as_str(), row))
    }

    fn sum(&self, keep: impl Fn(Cause, &Row) -> bool, of: impl Fn(&Row) -> Tally) -> Tally {
        let mut sum = Tally::default();
        self.rows().filter(|(cause, _, row)| keep(*cause, row)).for_each(|(_, _, row)| sum.join(of(row)));
        sum
    }

    /// The bars for windows of this length.
    pub fn bars(&self, length: Length) -> Vec<Bar> {
        let limits = length.limits();
        let cpu = self.sum(|cause, _| cause == Cause::Cpu, |row| row.scored);
        let congestion = self.sum(|_, row| row.congestion, |row| row.scored);
        let worst = self
            .rows()
            .filter(|(_, _, row)| row.congestion)
            .filter_map(|(_, scenario, row)| Some((row.scored.share(row.scored.receiver)?, scenario)))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let hybrid = self.sum(|cause, _| cause == Cause::Hybrid, |row| row.hybrid);
        let worst_name = worst.map_or_else(String::new, |(_, scenario)| format!(" ({scenario})"));
        vec![
            Bar::at_least("cpu called receiver", cpu.share(cpu.receiver), limits[0]),
            Bar::at_most("congestion called receiver", congestion.share(congestion.receiver), limits[1]),
            Bar::at_most(
                &format!("the same, worst scenario{worst_name}"),
                worst.map(|(share, _)| share),
                limits[2],
            ),
            Bar::at_least("congestion called network", congestion.share(congestion.network), limits[3]),
            Bar::at_most(
                "hybrid, network share >= 5%, called receiver",
                hybrid.share(hybrid.receiver),
                limits[4],
            ),
        ]
    }
}

/// Reference lengths of windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// 70,000 packets.
    Long,
    /// 10,000 packets.
    Short,
}

impl Length {
    /// The reference length for windows of `packets`.
    pub fn of(packets: u32) -> Length {
        if packets < SHORT_WINDOW { Length::Short } else { Length::Long }
    }

    /// Bounds of the bars, in the order of [`Scores::bars`].
    fn limits(self) -> [f64; 5] {
        match self {
            Length::Long => [0.97, 0.001, 0.01, 0.96, 0.005],
            Length::Short => [0.96, 0.003, 0.02, 0.92, 0.005],
        }
    }
}

/// An acceptance bar and the value reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// What is measured.
    pub name: String,
    /// The value reached; `None` without windows to measure it on.
    pub value: Option<f64>,
    /// The bar.
    pub bound: Bound,
}

/// Which side of a bar passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

impl Bar {
    fn at_least(name: &str, value: Option<f64>, bound: f64) -> Bar {
        Bar { name: name.to_owned(), value, bound: Bound::AtLeast(bound) }
    }

    fn at_most(name: &str, value: Option<f64>, bound: f64) -> Bar {
        Bar { name: name.to_owned(), value, bound: Bound::AtMost(bound) }
    }

    /// Whether the value passes; `None` without a value.
    pub fn passed(&self) -> Option<bool> {
        self.value.map(|value| match self.bound {
            Bound::AtLeast(bound) => value >= bound,
            Bound::AtMost(bound) => value <= bound,
        })
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, bound) = match self.bound {
            Bound::AtLeast(bound) => (">=", bound),
            Bound::AtMost(bound) => ("<=", bound),
        };
        let value =
            self.value.map_or_else(|| "no windows".to_owned(), |value| format!("{:.2}%", 100.0 * value));
        let passed = match self.passed() {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "-",
        };
        write!(f, "{passed:<5}{:<55}{value:>10}  bar {sign} {}%", self.name, 100.0 * bound)
    }
}

impl fmt::Display for Scores {
    /// Verdicts receiver/network/inconclusive by band, one line for each scenario.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = |tally: Tally| match tally.total() {
            0 => "-".to_owned(),
            _ => format!("{}/{}/{}", tally.receiver, tally.network, tally.inconclusive),
        };
        write!(f, "{:<8}{:<24}", "cause", "scenario")?;
        for name in BAND_NAMES {
            write!(f, "{name:>16}")?;
        }
        writeln!(f, "{:>16}", "scored")?;
        for (cause, scenario, row) in self.rows() {
            write!(f, "{:<8}{:<24}", cause.name(), scenario)?;
            for tally in row.bands {
                write!(f, "{:>16}", cell(tally))?;
            }
            writeln!(f, "{:>16}", cell(row.scored))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_proto::loss_cause::Signature;

    fn window(cause: Cause, scenario: &str, packets: u64, lost: u64, host_lost: Option<u64>) -> Window {
        let signature = Signature::from_gaps(packets, 1, [(100, lost)]).expect("good");
        Window { signature, cause: Some(cause), scenario: scenario.to_owned(), run: 0, host_lost }
    }

    #[test]
    fn bars_count_the_windows_they_name() {
        let mut scores = Scores::default();
        for i in 0..100 {
            let verdict = if i < 98 { Verdict::Receiver } else { Verdict::Inconclusive };
            scores.add(&window(Cause::Cpu, "light", 70_000, 600, None), verdict);
            let verdict = if i < 2 { Verdict::Receiver } else { Verdict::Network };
            scores.add(&window(Cause::Net, "red", 70_000, 600, None), verdict);
            scores.add(&window(Cause::Net, "cbr", 70_000, 600, None), Verdict::Network);
            // Not counted: an outage is no congestion, and 3 lost packets are too few.
            scores.add(&window(Cause::Net, "outage", 70_000, 600, None), Verdict::Receiver);
            scores.add(&window(Cause::Net, "red", 70_000, 3, None), Verdict::Receiver);
            scores.add(&window(Cause::Hybrid, "mix", 70_000, 600, Some(590)), Verdict::Receiver);
        }
        scores.add(&window(Cause::Hybrid, "mix", 70_000, 600, Some(300)), Verdict::Network);
        let bars = scores.bars(Length::Long);
        let values: Vec<f64> = bars.iter().map(|bar| bar.value.expect("some windows")).collect();
        assert_eq!(values, [0.98, 0.01, 0.02, 0.99, 0.0]);
        let passed: Vec<bool> = bars.iter().map(|bar| bar.passed().expect("judged")).collect();
        assert_eq!(passed, [true, false, false, true, true]);
        assert!(bars[2].to_string().contains("red"), "{}", bars[2]);
        assert!(scores.to_string().contains("98/0/2"), "{scores}");
    }

    #[test]
    fn bars_without_windows_do_not_pass() {
        assert!(Scores::default().bars(Length::Short).iter().all(|bar| bar.passed().is_none()));
    }
}
