//! The keys of a scenario file. Units are the last word of a key; docs/simulator.md has the defaults.

use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Option<String>,
    #[serde(default = "one")]
    pub(super) seed: u64,
    pub(super) duration_s: f64,
    pub(super) sample_ms: Option<f64>,
    #[serde(default)]
    pub(super) host: Vec<Host>,
    #[serde(default)]
    pub(super) link: Vec<LinkTable>,
    #[serde(default)]
    pub(super) flow: Vec<FlowTable>,
    #[serde(default)]
    pub(super) change: Vec<ChangeTable>,
}

fn one() -> u64 {
    1
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HostKind {
    Ordinary,
    Ideal,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) kind: Option<HostKind>,
    #[serde(default)]
    pub(super) competitors: u32,
    pub(super) competitors_during_s: Option<[f64; 2]>,
    #[serde(default)]
    pub(super) stalls_s: Vec<[f64; 2]>,
    pub(super) packet_us: Option<f64>,
    pub(super) receive_buffer_kb: Option<f64>,
    pub(super) send_buffer_kb: Option<f64>,
    pub(super) hash_mbyte: Option<f64>,
    pub(super) crash_s: Option<f64>,
    pub(super) disk: Option<DiskTable>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SyncKind {
    Never,
    End,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DiskTable {
    pub(super) rate_mbyte: Option<f64>,
    pub(super) cache_mb: Option<f64>,
    pub(super) capacity_mb: Option<f64>,
    pub(super) fails_s: Option<f64>,
    #[serde(default)]
    pub(super) stalls_s: Vec<[f64; 2]>,
    pub(super) sync: Option<SyncKind>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Aqm {
    DropTail,
    Red,
    Codel,
    FqCodel,
    Mark,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkTable {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) one_way: bool,
    pub(super) rate_mbit: Option<f64>,
    pub(super) delay_ms: f64,
    pub(super) queue_kb: Option<f64>,
    pub(super) queue_ms: Option<f64>,
    pub(super) mtu: Option<u32>,
    pub(super) aqm: Option<Aqm>,
    pub(super) red_low_kb: Option<f64>,
    pub(super) red_high_kb: Option<f64>,
    pub(super) red_probability: Option<f64>,
    pub(super) codel_target_ms: Option<f64>,
    pub(super) codel_interval_ms: Option<f64>,
    pub(super) mark_above_kb: Option<f64>,
    #[serde(default)]
    pub(super) ecn: bool,
    pub(super) policer: Option<PolicerTable>,
    #[serde(default)]
    pub(super) loss: f64,
    pub(super) loss_bursts: Option<BurstsTable>,
    #[serde(default)]
    pub(super) corruption: f64,
    #[serde(default)]
    pub(super) duplication: f64,
    #[serde(default)]
    pub(super) reordering: f64,
    #[serde(default)]
    pub(super) reordering_ms: f64,
    #[serde(default)]
    pub(super) reordering_deviation_ms: f64,
    #[serde(default)]
    pub(super) jitter_ms: f64,
    #[serde(default)]
    pub(super) turns_ms: f64,
    #[serde(default)]
    pub(super) outages_s: Vec<[f64; 2]>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicerTable {
    pub(super) rate_mbit: f64,
    pub(super) depth_kb: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BurstsTable {
    pub(super) begin: f64,
    pub(super) end: f64,
    pub(super) loss: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FlowKind {
    Fobs,
    Tcp,
    Source,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PatternKind {
    Constant,
    Poisson,
    OnOff,
}

/// One table for all kinds, so that an error can name its key; `build` refuses keys of other kinds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowTable {
    pub(super) kind: FlowKind,
    pub(super) name: Option<String>,
    pub(super) from: String,
    pub(super) to: String,
    #[serde(default)]
    pub(super) via: Vec<String>,
    #[serde(default)]
    pub(super) lanes: Vec<Vec<String>>,
    #[serde(default)]
    pub(super) start_s: f64,
    pub(super) stop_s: Option<f64>,
    pub(super) size_mb: Option<f64>,
    pub(super) cc: Option<String>,
    pub(super) priority: Option<String>,
    #[serde(default)]
    pub(super) params: BTreeMap<String, f64>,
    pub(super) deadline_s: Option<f64>,
    pub(super) loss_cause: Option<String>,
    pub(super) rate_mbit: Option<f64>,
    pub(super) payload: Option<u16>,
    pub(super) burst: Option<u32>,
    pub(super) circular: Option<bool>,
    pub(super) ack_every: Option<u32>,
    pub(super) chunks: Option<u32>,
    pub(super) window_mb: Option<f64>,
    pub(super) pattern: Option<PatternKind>,
    pub(super) packet: Option<u32>,
    pub(super) on_ms: Option<f64>,
    pub(super) off_ms: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeTable {
    pub(super) at_s: f64,
    #[serde(default)]
    pub(super) calm: bool,
    pub(super) link: Option<String>,
    pub(super) rate_mbit: Option<f64>,
    pub(super) delay_ms: Option<f64>,
    pub(super) loss: Option<f64>,
    pub(super) mtu: Option<u32>,
}
