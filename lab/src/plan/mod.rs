//! Plan files: what is to be run, how often, over which paths.
//!
//! A plan is read and checked whole before anything runs: every unknown key, every value out of range and
//! every missing host is an error that names its place.
//!
//! ```toml
//! name = "example"                 # letters, digits, '-', '_', '.': the result is example.jsonl
//! title = "..."                    # this, reading, [[figure]] and [[expect]] are the report's
//! repetitions = 3
//! timeout = "60s"                  # of one run; a path or a contest may have its own
//! seed = 1                         # of the files' content
//!
//! [[path]]                         # the keys of a LinkSpec, and the default amount of its contests
//! name = "{rate}-65ms"
//! rtt = "65ms"
//! hosts = { west = ["a", "c"], east = ["b", "d"] }
//! vary = { rate = ["100Mbit", "1Gbit"] }
//! bytes = "64MB"                   # or duration = "10s"
//! host_rate = "200Mbit"            # optional: see run::shaping
//!
//! [[contest]]
//! label = "fobs against cubic"
//! paths = ["100M*"]                # optional: only these
//! bytes = "32MB"                   # optional: instead of the path's; or duration
//! vary = { "flow.0.ack_every" = [1, 16] }
//! load = { host = "b", cpu = 0, periods = [{ at = "5s", for = "5s", competitors = 3 }] }   # run::load
//! flow = [
//!     { tool = "fobs", label = "fobs" },
//!     { tool = "iperf3", cc = "cubic", from = "c", to = "d", start = "2s", role = "background" },
//! ]
//! ```
//!
//! A flow's data goes from the first host in the west to the first in the east, unless `from` and `to` are
//! given. What is neither there nor `tool`, `label`, `start`, `role`, `bytes` or `duration` is an option of
//! the tool. Flows whose rates are to be compared should go to different hosts: then the rates are the
//! devices' and exact.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use toml::Table;

use crate::link::spec::LinkSpec;
use crate::report::{Shown, matches};
use crate::tool::{Options, Tool};
use crate::units::{Rate, Size, Time};

mod contest;
mod expand;
mod load;
mod written;

use written::{WrittenPlan, contest, path};

use expand::Variant;
pub use expand::variants;
pub use load::LoadSpec;

/// Most flows at a time: more do not fit their distance of ports ([`PORT_STRIDE`](crate::tool::PORT_STRIDE)).
const FLOWS_MAX: usize = 32;
/// Most paths or contests after `vary`: a typing error in a product should not start a run of weeks.
const VARIANTS_MAX: usize = 2000;
/// Bytes of one flow's file: it lies in memory twice.
const BYTES_MAX: u64 = 16 << 30;
/// Most repetitions: medians need no more.
const REPETITIONS_MAX: u32 = 1000;
/// Longest time of a run, unless the plan has another.
const TIMEOUT: &str = "60s";

/// A plan that makes sense.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Short name, for files.
    pub name: String,
    /// How often everything is run.
    pub repetitions: u32,
    /// Of the files' content.
    pub seed: u64,
    /// Paths, in order.
    pub paths: Vec<PlannedPath>,
    /// Contests, in order.
    pub contests: Vec<Contest>,
    /// The file as it was read.
    pub text: String,
}

/// A path, and the defaults of contests over it.
#[derive(Clone, Debug)]
pub struct PlannedPath {
    /// What the emulator makes.
    pub spec: LinkSpec,
    /// What `vary` changed.
    pub parameters: BTreeMap<String, Value>,
    /// What every host's own device sends at most, as a network card would: with back-pressure.
    pub host_rate: Option<Rate>,
    bytes: Option<Size>,
    duration: Option<Time>,
    timeout: Option<Time>,
}

/// Flows that run at the same time.
#[derive(Clone, Debug)]
pub struct Contest {
    /// Its name, with the values that its braces ask for.
    pub label: String,
    /// What `vary` changed.
    pub parameters: BTreeMap<String, Value>,
    /// The flows.
    pub flows: Vec<PlannedFlow>,
    /// What competes with a host's programs for its processor.
    pub load: Option<LoadSpec>,
    paths: Vec<String>,
    bytes: Option<Size>,
    duration: Option<Time>,
    timeout: Option<Time>,
}

/// One flow of a contest.
#[derive(Clone)]
pub struct PlannedFlow {
    /// What moves the bytes.
    pub tool: &'static dyn Tool,
    /// Its name in figures.
    pub label: String,
    /// Seconds after the run's start.
    pub start: Duration,
    /// What it is for.
    pub role: Role,
    /// The tool's own keys.
    pub options: Options,
    from: Option<String>,
    to: Option<String>,
    bytes: Option<Size>,
    duration: Option<Time>,
}

impl std::fmt::Debug for PlannedFlow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlannedFlow").field("tool", &self.tool.name()).field("label", &self.label).finish()
    }
}

/// What a flow is for.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The run lasts until it is done.
    #[default]
    Main,
    /// It runs as long as the others, and is then stopped.
    Background,
}

/// How much a flow moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// This many bytes.
    Bytes(u64),
    /// As much as it can in this time.
    Time(Duration),
    /// As much as it can until the others are done.
    Rest,
}

/// One contest over one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Repetition, from 1.
    pub repetition: u32,
    /// Index of the path.
    pub path: usize,
    /// Index of the contest.
    pub contest: usize,
}

impl Plan {
    /// Reads a plan. Errors are sentences that name the place.
    pub fn read(text: &str) -> Result<Plan, String> {
        let written: WrittenPlan = toml::from_str(text).map_err(|error| error.to_string())?;
        toml::from_str::<Shown>(text).map_err(|error| error.to_string())?;
        if written.repetitions == 0 || written.repetitions > REPETITIONS_MAX {
            return Err(format!("repetitions is {}: 1 to {REPETITIONS_MAX} make sense", written.repetitions));
        }
        let timeout = match written.timeout {
            Some(timeout) => timeout,
            None => TIMEOUT.parse::<Time>().map_err(|error| error.to_string())?,
        };
        let paths = all_variants("path", "name", &written.path, |variant| path(variant, timeout))?;
        let contests = all_variants("contest", "label", &written.contest, contest)?;
        let plan = Plan {
            name: written.name,
            repetitions: written.repetitions,
            seed: written.seed,
            paths,
            contests,
            text: text.to_owned(),
        };
        plan.check()?;
        Ok(plan)
    }

    /// Whether the contest is run over the path.
    pub fn meets(&self, contest: &Contest, path: &PlannedPath) -> bool {
        let patterns = &contest.paths;
        patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, &path.spec.name))
    }

    /// Every run, in the order in which they are made: repetition outermost, then path, then contest.
    /// Contests go forward in odd repetitions and backward in even ones, so that none always follows the same
    /// other.
    pub fn turns(&self) -> Vec<Turn> {
        let mut turns = Vec::new();
        for repetition in 1..=self.repetitions {
            for (path, planned) in self.paths.iter().enumerate() {
                let met =
                    self.contests.iter().enumerate().filter(|(_, contest)| self.meets(contest, planned));
                let mut met: Vec<usize> = met.map(|(index, _)| index).collect();
                if repetition % 2 == 0 {
                    met.reverse();
                }
                turns.extend(met.into_iter().map(|contest| Turn { repetition, path, contest }));
            }
        }
        turns
    }

    /// What only shows when paths and contests come together.
    fn check(&self) -> Result<(), String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.name.is_empty() || !self.name.chars().all(plain) {
            return Err(
                "name must consist of letters, digits, '-', '_' and '.': files are named by it".to_owned()
            );
        }
        let mut names = HashSet::new();
        if let Some(path) = self.paths.iter().find(|path| !names.insert(&path.spec.name)) {
            return Err(format!(
                "two paths have the name {:?}; put what varies in braces into it",
                path.spec.name
            ));
        }
        let mut labels = HashMap::new();
        for contest in &self.contests {
            if labels.insert((&contest.label, parameters_text(contest)), ()).is_some() {
                return Err(format!("two contests have the label {:?}", contest.label));
            }
            let named = |what: String| format!("contest {:?}: {what}", contest.label);
            if !contest.flows.iter().any(|flow| flow.role == Role::Main) {
                return Err(named("all flows are in the background, so it would never end".to_owned()));
            }
            let met: Vec<&PlannedPath> = self.paths.iter().filter(|path| self.meets(contest, path)).collect();
            for pattern in &contest.paths {
                if !met.iter().any(|path| matches(pattern, &path.spec.name)) {
                    return Err(named(format!("paths has {pattern:?}, which is no path of this plan")));
                }
            }
            for path in met {
                let place = |what| named(format!("over path {:?}: {what}", path.spec.name));
                for flow in &contest.flows {
                    self.check_flow(contest, path, flow).map_err(place)?;
                }
                let loaded = contest.load.iter().map(|load| &load.host);
                for name in loaded {
                    let mut hosts = path.spec.hosts.west.iter().chain(&path.spec.hosts.east);
                    if !hosts.any(|host| host.name == *name) {
                        return Err(place(format!("load is on {name:?}, which is no host of it")));
                    }
                }
            }
        }
        Ok(())
    }

    fn check_flow(&self, contest: &Contest, path: &PlannedPath, flow: &PlannedFlow) -> Result<(), String> {
        let extent = contest.extent(path, flow)?;
        contest.hosts(path, flow)?;
        let timeout = contest.timeout(path);
        let needs = match extent {
            Extent::Time(duration) => flow.start + duration,
            Extent::Bytes(_) | Extent::Rest => flow.start,
        };
        if needs >= timeout {
            let (tool, needs, timeout) = (flow.tool.name(), needs.as_secs_f64(), timeout.as_secs_f64());
            return Err(format!(
                "{tool} goes on for {needs} s, and timeout is {timeout} s: make timeout larger"
            ));
        }
        Ok(())
    }
}

fn parameters_text(contest: &Contest) -> String {
    contest.parameters.iter().map(|(name, value)| format!("{name}={value} ")).collect()
}

/// Every variant of every table, made into what it stands for; errors name the table by its place and its
/// label.
fn all_variants<T>(
    what: &str,
    label: &str,
    tables: &[Table],
    make: impl Fn(Variant) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let mut made = Vec::new();
    for (index, table) in tables.iter().enumerate() {
        let name = table.get(label).and_then(toml::Value::as_str);
        let name = name.map_or_else(|| format!("{what} {}", index + 1), |name| format!("{what} {name:?}"));
        let place = |error: String| format!("{name}: {error}");
        for variant in expand::variants(table, label, VARIANTS_MAX - made.len()).map_err(place)? {
            made.push(make(variant).map_err(place)?);
        }
    }
    if made.is_empty() { Err(format!("there is no [[{what}]]")) } else { Ok(made) }
}

#[cfg(test)]
mod tests;
