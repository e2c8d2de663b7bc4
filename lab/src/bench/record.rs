//! What the bench measured: one JSON object a line, the machine first, then every run.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::report::Spread;

/// Version of the records.
const VERSION: u32 = 1;
/// The runs that only connect, and the contestants that connect that way and do not report how long it took.
pub const CONNECT: &str = "ssh, nothing moved";
const CONNECTING: [&str; 3] = ["rsync", "scp", "tar, ssh"];

/// CPU seconds by thread name.
pub type ThreadTimes = BTreeMap<String, f64>;

/// A figure of each end.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Ends<T> {
    /// Where the data comes from.
    pub client: T,
    /// Where it goes.
    pub server: T,
}

/// The machine, without which no figure means anything.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Facts {
    pub v: u32,
    pub part: String,
    pub name: String,
    /// UTC, RFC 3339.
    pub time: String,
    pub cpu: String,
    pub cpus: usize,
    /// With its unit.
    pub memory: String,
    pub kernel: String,
    /// Load average over a minute, before the first run.
    pub load: f64,
    /// TCP's congestion control.
    pub tcp: String,
    pub ssh: String,
    pub rsync: String,
    pub iperf3: String,
    pub commit: String,
    /// ssh into /dev/null with each cipher, Gbit/s.
    pub ciphers: BTreeMap<String, f64>,
    /// Of the large file.
    pub bytes: u64,
}

/// One run of one contestant.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Record {
    pub v: u32,
    pub part: String,
    pub name: String,
    /// Repetition, from 0.
    pub rep: u32,
    /// Of the whole command.
    pub seconds: f64,
    /// CPU seconds; none without control groups.
    pub cpu_s: Ends<Option<f64>>,
    /// Largest peak of resident memory of any one process.
    pub rss_bytes: Ends<u64>,
    /// CPU seconds of each end by thread name, where they were watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<Ends<ThreadTimes>>,
    pub bytes: u64,
    /// Gbit/s over the whole command; none for a run that moves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gbps: Option<f64>,
    /// FOBS's `done` event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fobs: Option<Value>,
    /// Gbit/s from the first byte on, where the contestant reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_gbps: Option<f64>,
    /// Congestion control that iperf3 used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<String>,
}

impl Record {
    /// Version of new records.
    pub fn version() -> u32 {
        VERSION
    }
}

/// All records of one bench.
#[derive(Default)]
pub struct Results {
    pub facts: Option<Facts>,
    pub records: Vec<Record>,
    file: Option<(File, PathBuf)>,
}

impl Results {
    /// Empty, and every record is written to a new file as soon as it is added.
    ///
    /// # Errors
    /// One sentence if the file cannot be created.
    pub fn create(path: &Path) -> Result<Results, String> {
        let failed = |error| format!("cannot write {}: {error}", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = File::create(path).map_err(failed)?;
        Ok(Results { file: Some((file, path.to_owned())), ..Results::default() })
    }

    /// The records of a file.
    ///
    /// # Errors
    /// One sentence that names the file and the line.
    pub fn read(path: &Path) -> Result<Results, String> {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {name}: {error}"))?;
        let mut results = Results::default();
        for (index, line) in text.lines().enumerate() {
            let wrong =
                |error: serde_json::Error| format!("{name}:{}: no record of a bench: {error}", index + 1);
            let value: Value = serde_json::from_str(line).map_err(wrong)?;
            if value["part"] == "machine" {
                results.facts = Some(serde_json::from_value(value).map_err(wrong)?);
            } else {
                results.records.push(serde_json::from_value(value).map_err(wrong)?);
            }
        }
        Ok(results)
    }

    /// Adds what is known of the machine.
    pub fn add_facts(&mut self, facts: Facts) -> Result<(), String> {
        self.write(&facts)?;
        self.facts = Some(facts);
        Ok(())
    }

    /// Adds a run.
    pub fn add(&mut self, record: Record) -> Result<(), String> {
        self.write(&record)?;
        self.records.push(record);
        Ok(())
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), String> {
        let Some((file, path)) = &mut self.file else { return Ok(()) };
        let failed = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
        let mut text = serde_json::to_string(line).map_err(|error| failed(error.into()))?;
        text.push('\n');
        file.write_all(text.as_bytes()).map_err(failed)
    }

    /// The runs of one contestant.
    pub fn runs<'a>(&'a self, part: &'a str, name: &'a str) -> impl Iterator<Item = &'a Record> {
        self.records.iter().filter(move |record| record.part == part && record.name == name)
    }

    /// A figure over the repetitions.
    pub fn spread(&self, part: &str, name: &str, figure: impl Fn(&Record) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.runs(part, name).filter_map(figure))
    }

    /// Median Gbit/s over whole commands.
    pub fn rate(&self, part: &str, name: &str) -> Option<f64> {
        self.spread(part, name, |record| record.gbps).map(|spread| spread.median)
    }

    /// Median seconds of the whole command.
    pub fn seconds(&self, part: &str, name: &str) -> Option<f64> {
        self.spread(part, name, |record| Some(record.seconds)).map(|spread| spread.median)
    }

    /// Median Gbit/s from the first byte on: as the contestant reports it, or over its time less the time of
    /// connecting in the same bench.
    pub fn data_rate(&self, part: &str, name: &str) -> Option<f64> {
        if !CONNECTING.contains(&name) {
            return self.spread(part, name, |record| record.data_gbps).map(|spread| spread.median);
        }
        let bytes = self.runs(part, name).next()?.bytes;
        let seconds = self.seconds(part, name)? - self.seconds(part, CONNECT)?;
        Some(bytes as f64 * 8.0 / seconds / 1e9)
    }

    /// Contestants of a part, in the order of their first runs.
    pub fn names(&self, part: &str) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for record in self.records.iter().filter(|record| record.part == part) {
            if !names.contains(&record.name.as_str()) {
                names.push(&record.name);
            }
        }
        names
    }
}
