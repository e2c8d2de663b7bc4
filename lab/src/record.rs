//! Result records: what `run` writes and `report` reads, one JSON object a line.
//!
//! The first line of a file is the header, the others are runs and what was skipped. A reader takes a file of
//! a newer [`SCHEMA`] for an error, and members that it does not know for news that do not concern it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::link::counters::Counters;

/// Version of the records: it grows when a member changes its meaning or goes away, not when one is added.
pub const SCHEMA: u32 = 1;

/// One line of a result file.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Record {
    /// What the file is: always its first line, and only that.
    Header(Box<Header>),
    /// One contest over one path, once.
    Run(Box<Run>),
    /// What the plan asked for and this machine could not do.
    Skip(Skip),
}

impl Record {
    /// The record as a line, with the line feed.
    pub fn to_line(&self) -> serde_json::Result<String> {
        let mut line = serde_json::to_string(self)?;
        line.push('\n');
        Ok(line)
    }

    /// The record that a line holds.
    pub fn from_line(line: &str) -> serde_json::Result<Record> {
        serde_json::from_str(line)
    }
}

/// What was run, when and on what.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Header {
    /// [`SCHEMA`] of the program that wrote the file.
    pub schema: u32,
    /// The plan, whole, as it was read.
    pub plan: String,
    /// Start of the first run, UTC, RFC 3339.
    pub time: String,
    /// Repetitions that were asked for.
    pub repetitions: u32,
    /// Where it ran.
    pub machine: Machine,
    /// Tool to the line it calls its version; what is not installed is missing.
    pub versions: BTreeMap<String, String>,
}

/// The machine that a file's runs were made on.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Machine {
    /// The processor's name for itself.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// Load averages over 1, 5 and 15 minutes before the first run.
    pub load: [f64; 3],
}

/// One contest over one path, once.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Run {
    /// Label of the contest, with the values that its braces ask for.
    pub contest: String,
    /// What `vary` changed in the contest or in the path: last part of the key to its value.
    #[serde(default)]
    pub parameters: BTreeMap<String, Value>,
    /// Name of the path.
    pub path: String,
    /// Repetition, from 1.
    pub repetition: u32,
    /// Place in the order of the runs, from 1.
    #[serde(default)]
    pub order: u32,
    /// Bytes that each flow moves, unless the contest is timed.
    pub bytes: Option<u64>,
    /// Seconds that each flow lasts, if the contest is timed.
    #[serde(default)]
    pub duration_s: Option<f64>,
    /// The path in figures, for axes.
    pub link: Link,
    /// The flows, in the plan's order.
    pub flows: Vec<Flow>,
    /// Jain's index of the flows' goodputs while all of them ran; with one flow there is none.
    pub jain: Option<f64>,
    /// The emulator's counters of both directions.
    pub wire: Counters,
    /// Round trips of small packets during the run; none without `ping`.
    pub rtt_ms: Option<RoundTrips>,
    /// The load that the plan put on a host, and what it did there; none without.
    #[serde(default)]
    pub load: Option<Load>,
    /// Whether the figures mean something: the emulator was not the bottleneck and the runner saw nothing
    /// odd. A tool that fails or does not finish is a result and leaves the run valid: see [`Flow::end`].
    pub valid: bool,
    /// Why not.
    #[serde(default)]
    pub invalid_because: Vec<String>,
    /// Seconds from the first client's start to the last one's end.
    pub elapsed_s: f64,
}

/// The path in figures: those of the direction in which the first flow's data goes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Link {
    /// Bits per second of whole IP packets.
    pub rate_bps: f64,
    /// Bits per second at which each host's own device sends, with back-pressure; none if that has no limit.
    #[serde(default)]
    pub host_rate_bps: Option<f64>,
    /// Round trip without queues, milliseconds.
    pub rtt_ms: f64,
    /// Mean share of packets lost at random, whatever the queue does.
    pub loss: f64,
    /// Bytes that the bottleneck's queue holds.
    pub queue_bytes: u64,
    /// Largest IP packet, bytes.
    #[serde(default)]
    pub mtu: u32,
    /// Share of `mtu` that is FOBS's payload at best: without IP, UDP, header and tag.
    pub payload_share: f64,
}

/// How a flow ended.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// All bytes (or all of the time), with the tool's blessing and, for files, ours.
    Complete,
    /// As the plan says: its time was over, or it was a background flow and the others were done.
    Stopped,
    /// Not within the plan's timeout.
    TimedOut,
    /// The tool failed, or what arrived is not what was sent.
    Failed,
}

/// What one flow did.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Flow {
    /// Name of the tool.
    pub tool: String,
    /// The flow's name in figures: its own, or the contest's.
    pub label: String,
    /// The tool's options, as the plan has them with the values of `vary`.
    #[serde(default)]
    pub options: Value,
    /// Host that the data comes from.
    pub from: String,
    /// Host that it goes to.
    pub to: String,
    /// Seconds after the run's start at which the client was started.
    #[serde(default)]
    pub start_s: f64,
    /// Seconds from the client's start to its end.
    pub wall_s: f64,
    /// Seconds of the data phase, as the tool says; without hand-shakes where it tells them apart.
    pub data_s: Option<f64>,
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// Payload bits per second of the data phase (where a tool does not tell it apart: of the wall time).
    pub goodput_bps: Option<f64>,
    /// Payload bits per second of the wall time.
    pub wall_goodput_bps: Option<f64>,
    /// `goodput_bps` as a share of the link's rate in the data's direction.
    pub share: Option<f64>,
    /// Bits per second while all flows of the run were running (of IP packets if `series_of` is `interface`).
    #[serde(default)]
    pub overlap_bps: Option<f64>,
    /// CPU seconds of the sending end, helpers (ssh, sshd, daemons) included; none without control groups.
    pub cpu_sender_s: Option<f64>,
    /// CPU seconds of the receiving end.
    pub cpu_receiver_s: Option<f64>,
    /// Whether the content that arrived was compared and equal; none if nothing was stored.
    pub verified: Option<bool>,
    /// How it ended.
    pub end: End,
    /// The client's exit code; none if a signal ended it.
    pub exit: Option<i32>,
    /// What went wrong, one sentence.
    pub error: Option<String>,
    /// What the tool said: FOBS's `done` event, iperf3's `end`, ...
    #[serde(default)]
    pub report: Value,
    /// What `series` counts.
    #[serde(default)]
    pub series_of: Option<SeriesOf>,
    /// Time series: seconds after the run's start (end of the interval), bits per second in the interval.
    #[serde(default)]
    pub series: Vec<[f64; 2]>,
}

/// Where a time series comes from.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum SeriesOf {
    /// IP bytes that the receiving host's device took in: exact where no other flow goes to that host.
    Interface,
    /// Payload bytes, as the tool reports them.
    Tool,
}

/// Processes that competed for a host's processor, and what its sockets lost meanwhile.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Load {
    /// The host.
    pub host: String,
    /// The processor that the host's programs and the competitors shared.
    pub cpu: usize,
    /// In order of time.
    pub series: Vec<LoadSample>,
}

/// One interval of a run under load.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct LoadSample {
    /// End of the interval, seconds after the run's start.
    pub t_s: f64,
    /// Competitors at its end.
    pub competitors: u32,
    /// UDP datagrams that programs on the host took from their sockets' kernel in the interval.
    pub delivered: u64,
    /// UDP datagrams that the host's sockets dropped because their buffers were full.
    pub dropped: u64,
}

/// Round trips of echoes (ICMP) through the same queues while the flows ran, milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct RoundTrips {
    /// Smallest of those before the flows started.
    pub base: f64,
    /// Median under load.
    pub p50: f64,
    /// 95th percentile under load.
    pub p95: f64,
    /// Largest under load.
    pub max: f64,
    /// Answers under load.
    pub count: u32,
    /// Echoes under load without an answer.
    pub lost: u32,
}

/// What was skipped, by name, and why.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Skip {
    /// Label of the contest, or the tool's name.
    pub contest: String,
    /// Name of the path, or `*`.
    pub path: String,
    /// One sentence: why, and what to do.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A run as a file has it, in full.
    fn run() -> Value {
        json!({
            "kind": "run", "contest": "fobs auto", "parameters": {"ack_every": 16, "cc": "auto"},
            "path": "100M-65ms", "repetition": 1, "order": 3, "bytes": 64_000_000u64, "duration_s": null,
            "link": {"rate_bps": 1e8, "rtt_ms": 65.0, "loss": 0.01, "queue_bytes": 812_500, "mtu": 1500,
                "payload_share": 0.963},
            "flows": [{"tool": "fobs", "label": "fobs auto",
                "options": {"cc": "auto", "ack_every": 16}, "from": "a", "to": "b", "start_s": 0.0,
                "wall_s": 5.9, "data_s": 5.5, "bytes": 64_000_000u64, "goodput_bps": 9.3e7,
                "wall_goodput_bps": 8.7e7, "share": 0.93, "overlap_bps": null, "cpu_sender_s": 0.4,
                "cpu_receiver_s": 0.3, "verified": true, "end": "complete", "exit": 0, "error": null,
                "report": {"event": "done"}, "series_of": "interface", "series": [[0.1, 1e7], [0.2, 9.9e7]]}],
            "jain": null,
            "wire": {"forward": {"packets_in": 45_000, "bytes_by_protocol": {"udp": 66_000_000u64},
                "queue_delay_us": {"p50": 12}, "novelty": 1}, "backward": {}, "lateness_us": {"p99": 80}},
            "rtt_ms": {"base": 65.1, "p50": 70.0, "p95": 72.5, "max": 80.0, "count": 110, "lost": 1},
            "valid": true, "invalid_because": [], "elapsed_s": 5.9
        })
    }

    #[test]
    fn a_run_comes_back_as_it_was_written() {
        let Record::Run(first) = Record::from_line(&run().to_string()).unwrap() else { panic!("not a run") };
        assert_eq!(first.flows[0].end, End::Complete);
        assert_eq!(first.flows[0].series, [[0.1, 1e7], [0.2, 9.9e7]]);
        assert_eq!(first.wire.forward.bytes_by_protocol.udp, 66_000_000);
        assert_eq!(first.wire.forward.more["novelty"], json!(1));
        assert_eq!(first.wire.lateness_us.p99, 80);
        let record = Record::Run(first);
        let line = record.to_line().unwrap();
        assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line}");
        assert_eq!(Record::from_line(&line).unwrap(), record);
    }

    #[test]
    fn headers_and_skips_come_back_as_they_were_written() {
        let header = Header {
            schema: SCHEMA,
            plan: "name = \"x\"\n".to_owned(),
            time: "2026-01-02T03:04:05Z".to_owned(),
            repetitions: 3,
            machine: Machine { cpu: "a".to_owned(), cores: 2, load: [0.5, 0.25, 0.0], ..Machine::default() },
            versions: BTreeMap::from([("iperf3".to_owned(), "iperf 3.12".to_owned())]),
        };
        let skip = Skip { contest: "udt".into(), path: "*".into(), reason: "not installed".into() };
        for record in [Record::Header(Box::new(header)), Record::Skip(skip)] {
            assert_eq!(Record::from_line(&record.to_line().unwrap()).unwrap(), record);
        }
    }

    #[test]
    fn a_line_that_is_no_record_is_an_error_that_says_so() {
        for (line, said) in [("{}", "kind"), (r#"{"kind":"walk"}"#, "walk"), (r#"{"kind":"run"}"#, "contest")]
        {
            let error = Record::from_line(line).unwrap_err().to_string();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
