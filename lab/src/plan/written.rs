//! Tables as a plan file has them, checked and turned into paths, contests and flows.

use serde::Deserialize;
use toml::Table;

use super::expand::Variant;
use super::{Contest, FLOWS_MAX, LoadSpec, PlannedFlow, PlannedPath, Role};
use crate::link::spec::LinkSpec;
use crate::tool;
use crate::units::{Rate, Size, Time};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenPlan {
    pub name: String,
    pub repetitions: u32,
    pub timeout: Option<Time>,
    #[serde(default = "default_seed")]
    pub seed: u64,
    pub path: Vec<Table>,
    pub contest: Vec<Table>,
    // What the report reads; checked by its own type.
    #[serde(default, rename = "title")]
    _title: String,
    #[serde(default, rename = "reading")]
    _reading: Option<String>,
    #[serde(default, rename = "figure")]
    _figure: Vec<Table>,
    #[serde(default, rename = "expect")]
    _expect: Vec<Table>,
}

/// What a `[[path]]` has beside the keys of a [`LinkSpec`].
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct WrittenPathKeys {
    host_rate: Option<Rate>,
    bytes: Option<Size>,
    duration: Option<Time>,
    pub timeout: Option<Time>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenContest {
    label: String,
    flow: Vec<Table>,
    #[serde(default)]
    paths: Vec<String>,
    load: Option<LoadSpec>,
    bytes: Option<Size>,
    duration: Option<Time>,
    pub timeout: Option<Time>,
}

/// The keys of a flow that are not its tool's.
#[derive(Deserialize)]
pub struct WrittenFlow {
    tool: String,
    label: Option<String>,
    #[serde(default)]
    start: Time,
    #[serde(default)]
    role: Role,
    from: Option<String>,
    to: Option<String>,
    bytes: Option<Size>,
    duration: Option<Time>,
}

/// The names of [`WrittenFlow`]'s members, and of [`WrittenPathKeys`]'s: what is left is for the tool, and
/// the link.
const FLOW_KEYS: [&str; 8] = ["tool", "label", "start", "role", "from", "to", "bytes", "duration"];
const PATH_KEYS: [&str; 4] = ["host_rate", "bytes", "duration", "timeout"];

fn default_seed() -> u64 {
    1
}

/// A message of the TOML reader in one line.
pub fn sentence(error: &toml::de::Error) -> String {
    error.to_string().trim().replace('\n', ", ")
}

pub fn path(variant: Variant, timeout: Time) -> Result<PlannedPath, String> {
    let (keys, spec) = split(variant.table, &PATH_KEYS);
    let keys = WrittenPathKeys::deserialize(keys).map_err(|error| sentence(&error))?;
    // Not `LinkSpec::deserialize`, which is the derived function beneath the trait's and checks nothing.
    let spec: LinkSpec = spec.try_into().map_err(|error| sentence(&error))?;
    let WrittenPathKeys { host_rate, bytes, duration, timeout: own } = keys;
    let parameters = variant.parameters;
    Ok(PlannedPath { spec, parameters, host_rate, bytes, duration, timeout: own.or(Some(timeout)) })
}

pub fn contest(variant: Variant) -> Result<Contest, String> {
    let written = WrittenContest::deserialize(variant.table).map_err(|error| sentence(&error))?;
    if written.flow.is_empty() || written.flow.len() > FLOWS_MAX {
        return Err(format!("it has {} flows: 1 to {FLOWS_MAX} are possible", written.flow.len()));
    }
    let mut flows = Vec::new();
    for (index, table) in written.flow.into_iter().enumerate() {
        let alone = flow(table, &written.label).map_err(|error| format!("flow {index}: {error}"))?;
        flows.push(alone);
    }
    let WrittenContest { label, paths, load, bytes, duration, timeout, .. } = written;
    load.as_ref().map_or(Ok(()), LoadSpec::check)?;
    Ok(Contest { label, parameters: variant.parameters, flows, load, paths, bytes, duration, timeout })
}

fn flow(table: Table, contest: &str) -> Result<PlannedFlow, String> {
    let (keys, options) = split(table, &FLOW_KEYS);
    let written = WrittenFlow::deserialize(keys).map_err(|error| sentence(&error))?;
    let tool = tool::by_name(&written.tool).ok_or_else(|| {
        format!(
            "tool is {:?}, which is none of {}",
            written.tool,
            tool::names().collect::<Vec<_>>().join(", ")
        )
    })?;
    tool.check(&options).map_err(|error| format!("{}: {error}", written.tool))?;
    if written.role == Role::Background && (written.bytes.is_some() || written.duration.is_some()) {
        return Err("a background flow lasts as long as the others: leave out bytes and duration".to_owned());
    }
    Ok(PlannedFlow {
        tool,
        label: written.label.unwrap_or_else(|| contest.to_owned()),
        start: written.start.duration(),
        role: written.role,
        options,
        from: written.from,
        to: written.to,
        bytes: written.bytes,
        duration: written.duration,
    })
}

/// The members with these names, and the others.
fn split(table: Table, names: &[&str]) -> (Table, Table) {
    table.into_iter().partition(|(name, _)| names.contains(&name.as_str()))
}
