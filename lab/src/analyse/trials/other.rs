//! Programs of another make: `fobs explain -- rsync ...` instead of `fobs cp --explain`.

use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;

use super::case::Case;
use super::limits::CpuQuota;
use crate::run::namespace::Namespace;
use crate::tool::{Launch, Output, Programs};

/// What copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Copier {
    Fobs,
    Rsync,
    Scp,
    Sftp,
}

/// What can be made scarce for a program that copies over ssh, and seen from outside of it.
const SEEN: [Case; 7] = [
    Case::SourceDisk,
    Case::DestinationDisk,
    Case::SenderCpu,
    Case::SmallTcpWindow,
    Case::RandomLoss,
    Case::NarrowLink,
    Case::CubicFlows,
];

impl Copier {
    /// The name of the laboratory's tool.
    pub fn name(self) -> &'static str {
        match self {
            Copier::Fobs => "fobs",
            Copier::Rsync => "rsync",
            Copier::Scp => "scp",
            Copier::Sftp => "sftp",
        }
    }

    /// Whether the case says something of it.
    pub fn meets(self, case: Case) -> bool {
        self == Copier::Fobs || SEEN.contains(&case)
    }
}

/// Has `fobs explain` watch the client; of a CPU quota the program has part, and the watcher has not.
pub fn watched(
    launch: &mut Launch,
    programs: &Programs,
    quota: Option<&CpuQuota>,
    record: Option<&Path>,
) -> Result<(), String> {
    let fobs = programs.find("fobs", "build it (cargo build --release) and name it with --fobs")?;
    let mut words: Vec<OsString> = vec![fobs.into()];
    words.extend(["explain", "--json"].map(OsString::from));
    if let Some(record) = record {
        words.extend(["--record".into(), record.as_os_str().to_owned()]);
    }
    words.push("--".into());
    if let Some(quota) = quota {
        let enter = format!("echo $$ > {} && exec \"$@\"", quota.processes().display());
        words.extend(["sh".into(), "-c".into(), enter.into(), "sh".into()]);
    }
    launch.client.words.splice(0..0, words);
    Ok(())
}

/// TCP as most hosts have it: CUBIC, and nothing remembered of the last trial.
pub fn settle(hosts: &[Namespace; 2]) -> Result<(), String> {
    let settings = [
        ("net/ipv4/tcp_congestion_control", "cubic".to_owned()),
        ("net/ipv4/tcp_no_metrics_save", "1".to_owned()),
    ];
    hosts.iter().try_for_each(|host| host.set_sysctls(&settings))
}

/// The explanation among what the watched program printed; nothing if there is none.
pub fn explanation(output: &Output) -> Value {
    let lines = output.stderr.lines().rev();
    lines
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|value| value["limit"].is_string())
        .unwrap_or_default()
}
