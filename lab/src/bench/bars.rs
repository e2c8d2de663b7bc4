//! The bars that the bench is to clear, each with what was measured.

use super::record::Results;

/// Peak resident memory of either end with the large file, MiB.
const RSS_BAR_MIB: f64 = 256.0;
/// Contestants that FOBS is compared with over one large file, and the least ratio of the data's rates.
const PEERS: [(&str, f64); 3] = [("rsync", 2.0), ("scp", 2.0), ("iperf3 TCP", 0.5)];
/// How FOBS is carried.
const CARRIERS: [&str; 2] = ["fobs, daemon", "fobs, ssh"];

/// One row of the table.
struct Row {
    what: String,
    asked: String,
    measured: String,
    outcome: Outcome,
}

/// The outcome of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    NotMeasured,
    /// No bar: a figure to read the others by.
    Context,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Outcome::Passed => "pass",
            Outcome::Failed => "FAIL",
            Outcome::NotMeasured => "not measured",
            Outcome::Context => "",
        }
    }
}

/// A figure's side of its bar.
#[derive(Clone, Copy)]
enum Asked {
    AtLeast(f64),
    AtMost(f64),
}

/// The rows in their order.
#[derive(Default)]
pub struct Bars {
    rows: Vec<Row>,
}

impl Bars {
    /// The bars of a bench.
    pub fn of(results: &Results) -> Bars {
        let mut bars = Bars::default();
        for part in ["wire", "super"] {
            bars.large_file(results, part);
        }
        let large = results.records.iter().filter(|record| ["wire", "super"].contains(&record.part.as_str()));
        let ours = large.filter(|record| record.name.starts_with("fobs"));
        let peak = ours.map(|record| record.rss_bytes.client.max(record.rss_bytes.server)).max();
        let mib = peak.map(|bytes| bytes as f64 / f64::from(1 << 20));
        bars.add("peak RSS of either end, big file".to_owned(), mib, Asked::AtMost(RSS_BAR_MIB), " MiB");
        for carrier in CARRIERS {
            let value = ratio(results.rate("small", carrier), results.rate("small", "tar, ssh"));
            bars.add(format!("small files: {carrier} / tar, ssh"), value, Asked::AtLeast(1.0), "x");
        }
        for carrier in CARRIERS {
            let baseline = baseline_of(carrier);
            if let Some(value) = ratio(results.rate("small", carrier), results.rate("small", &baseline)) {
                bars.context(format!("small: {carrier} / {baseline}"), Some(value));
            }
        }
        let greedy =
            results.spread("greedy", "fobs --cc greedy", |record| record.fobs.as_ref()?["waste"].as_f64());
        let waste = greedy.map(|waste| 100.0 * waste.max);
        let what = "greedy into 100 Mbit/s with back-pressure: waste".to_owned();
        bars.add(what, waste, Asked::AtMost(3.0), "%");
        bars
    }

    /// One large file: bars are over the data's time, which is goodput and what iperf3 reports; whole
    /// commands follow.
    fn large_file(&mut self, results: &Results, part: &str) {
        let data = |name: &str| results.data_rate(part, name);
        let whole = |name: &str| results.rate(part, name);
        for (peer, bar) in PEERS {
            for carrier in CARRIERS {
                let value = ratio(data(carrier), data(peer));
                self.add(format!("{part}: {carrier} / {peer}"), value, Asked::AtLeast(bar), "x");
            }
        }
        // The most that any protocol around the same kernel calls, cipher and hash could reach on this
        // machine.
        for (peer, _) in PEERS {
            self.context(format!("{part}: ceiling / {peer}"), ratio(whole("ceiling"), whole(peer)));
        }
        for (peer, _) in PEERS {
            for carrier in CARRIERS {
                let value = ratio(whole(carrier), whole(peer));
                self.context(format!("{part}: {carrier} / {peer}, whole commands"), value);
            }
        }
        let value = ratio(whole("fobs, daemon"), whole("ceiling"));
        self.context(format!("{part}: fobs, daemon / ceiling"), value);
        for carrier in CARRIERS {
            let baseline = baseline_of(carrier);
            if let Some(value) = ratio(data(carrier), data(&baseline)) {
                self.context(format!("{part}: {carrier} / {baseline}"), Some(value));
            }
        }
    }

    fn add(&mut self, what: String, value: Option<f64>, asked: Asked, unit: &str) {
        let (asked, passes) = match asked {
            Asked::AtLeast(bar) => (format!(">= {bar}{unit}"), value.map(|value| value >= bar)),
            Asked::AtMost(bar) => (format!("<= {bar}{unit}"), value.map(|value| value <= bar)),
        };
        let outcome = match passes {
            Some(true) => Outcome::Passed,
            Some(false) => Outcome::Failed,
            None => Outcome::NotMeasured,
        };
        self.rows.push(Row { what, asked, measured: shown(value, unit), outcome });
    }

    fn context(&mut self, what: String, value: Option<f64>) {
        self.rows.push(Row {
            what,
            asked: String::new(),
            measured: shown(value, "x"),
            outcome: Outcome::Context,
        });
    }

    /// As Markdown.
    pub fn table(&self) -> String {
        let mut text = String::from("| bar | asked | measured | |\n|---|---|---|---|\n");
        for Row { what, asked, measured, outcome } in &self.rows {
            text += &format!("| {what} | {asked} | {measured} | {} |\n", outcome.word());
        }
        text
    }

    /// Whether every bar was measured and cleared.
    pub fn passed(&self) -> bool {
        self.rows.iter().all(|row| matches!(row.outcome, Outcome::Passed | Outcome::Context))
    }
}

/// The same carrier of the program that FOBS is compared with.
fn baseline_of(carrier: &str) -> String {
    carrier.replacen("fobs", "baseline", 1)
}

fn shown(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.2}{unit}"))
}

fn ratio(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    let (one, other) = (one?, other?);
    (one != 0.0 && other != 0.0).then(|| one / other)
}
