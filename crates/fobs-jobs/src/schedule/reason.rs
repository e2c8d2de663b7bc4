//! Why a job does not run, and what would let it.

use std::fmt;

use fobs_page::figures::show_bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::{JobId, Window};

/// What a job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Reason {
    /// A user has paused it.
    Paused,
    /// Other jobs have not succeeded yet.
    After {
        /// Which.
        jobs: Vec<JobId>,
    },
    /// The time it was given (`--at`).
    At {
        /// Ms since 1970.
        until_ms: u64,
    },
    /// The next run of a repeated job.
    NextRun {
        /// Ms since 1970.
        until_ms: u64,
    },
    /// The pause after a failure.
    Retry {
        /// Ms since 1970.
        until_ms: u64,
        /// Failures so far.
        failures: u32,
        /// How often it is tried again at most.
        retries: u32,
    },
    /// Its part of the day (`--between`).
    Closed {
        /// Which part.
        window: Window,
    },
    /// As many jobs run as may at once.
    Total {
        /// How many.
        running: u32,
    },
    /// As many run to its destination as may.
    Host {
        /// The destination.
        host: String,
        /// How many.
        running: u32,
    },
    /// As many run from its source as may.
    Source {
        /// The source.
        source: String,
        /// How many.
        running: u32,
    },
    /// There is less room where it writes than it needs.
    Room {
        /// What it has still to write.
        needed_bytes: u64,
        /// What is free there, and held by no job that runs.
        free_bytes: u64,
    },
    /// It was not looked yet how much room there is where it writes.
    Unmeasured,
    /// It may run, and begins at once.
    Turn,
}

impl Reason {
    /// The time that ends it, ms since 1970; none where it is no time that does.
    pub fn until_ms(&self) -> Option<u64> {
        match self {
            Reason::At { until_ms } | Reason::NextRun { until_ms } | Reason::Retry { until_ms, .. } => {
                Some(*until_ms)
            }
            _ => None,
        }
    }
}

/// One sentence; it names no time of the clock, which [`Reason::until_ms`] has.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = |count: u32| if count == 1 { "once".to_owned() } else { format!("{count} times") };
        match self {
            Reason::Paused => write!(f, "paused; fobs jobs resume lets it go on"),
            Reason::After { jobs } => {
                let jobs: Vec<String> = jobs.iter().map(JobId::to_string).collect();
                write!(f, "waits until {} has succeeded", jobs.join(", "))
            }
            Reason::At { .. } => write!(f, "waits for its time"),
            Reason::NextRun { .. } => write!(f, "waits for its next run"),
            Reason::Retry { failures, retries, .. } => {
                write!(f, "failed {} of {}, and is tried again", times(*failures), retries + 1)
            }
            Reason::Closed { window } => write!(f, "runs between {window} only"),
            Reason::Total { running } => {
                write!(f, "{running} jobs run, which is the limit; fobs jobs limits --total changes it")
            }
            Reason::Host { host, running } => {
                write!(
                    f,
                    "{running} jobs run to {host}, which is the limit; fobs jobs limits --per-host changes it"
                )
            }
            Reason::Source { source, running } => write!(
                f,
                "{running} jobs run from {source}, which is the limit; fobs jobs limits --per-source changes it"
            ),
            Reason::Room { needed_bytes, free_bytes } => write!(
                f,
                "needs {} where it writes, and {} are free beside the jobs that run; make room, and it begins",
                show_bytes(*needed_bytes),
                show_bytes(*free_bytes)
            ),
            Reason::Unmeasured => write!(f, "waits for a look at the room where it writes"),
            Reason::Turn => write!(f, "begins at once"),
        }
    }
}
