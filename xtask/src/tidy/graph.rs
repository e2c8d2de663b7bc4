//! Which crate may depend on what: crates of ours on each other, and what an installed program must not link.

use super::Finding;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// A crate of ours and the crates of ours that it may use outside its tests.
const MAY_USE: &[(&str, &[&str])] = &[
    ("fobs-proto", &[]),
    ("fobs-sys", &[]),
    ("fobs-rng", &[]),
    ("fobs-diagnose", &["fobs-proto", "fobs-rng"]),
    ("fobs-model", &["fobs-proto"]),
    ("fobs-filter", &["fobs-model"]),
    ("fobs-store", &["fobs-model", "fobs-filter", "fobs-sys"]),
    ("fobs-channel", &["fobs-model", "fobs-sys"]),
    ("fobs-explain", &["fobs-model"]),
    ("fobs-engine", &["fobs-proto", "fobs-diagnose", "fobs-sys", "fobs-model", "fobs-store", "fobs-channel"]),
    (
        "fobs",
        &[
            "fobs-proto",
            "fobs-sys",
            "fobs-model",
            "fobs-filter",
            "fobs-store",
            "fobs-channel",
            "fobs-explain",
            "fobs-engine",
        ],
    ),
    (
        "fobs-daemon",
        &[
            "fobs",
            "fobs-proto",
            "fobs-sys",
            "fobs-model",
            "fobs-filter",
            "fobs-store",
            "fobs-channel",
            "fobs-explain",
            "fobs-engine",
        ],
    ),
    ("fobs-sim", &["fobs-proto", "fobs-diagnose", "fobs-rng"]),
    ("fobs-cli", &["fobs", "fobs-daemon"]),
    ("fobs-lab", &["fobs-proto", "fobs-diagnose", "fobs-sim", "fobs-sys", "fobs-rng"]),
    ("fobs-python", &["fobs"]),
    ("fobs-c", &["fobs"]),
    ("xtask", &[]),
];

/// What the program that users install must not link, directly or not: research, and a runtime.
const NOT_IN_FOBS: &[&str] = &["plotters", "nalgebra", "fobs-sim", "tokio"];

/// Edges that should not be.
///
/// # Errors
///
/// Where cargo cannot be run or its answer not be read.
pub fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let answer = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !answer.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&answer.stderr)));
    }
    let metadata: Value =
        serde_json::from_slice(&answer.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    Ok(judge(&edges(&metadata)))
}

/// Names of the crates that each crate links outside its tests and build scripts.
type Edges = BTreeMap<String, BTreeSet<String>>;

fn edges(metadata: &Value) -> Edges {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names: BTreeMap<String, String> = list(&metadata["packages"])
        .iter()
        .map(|package| (text(&package["id"]), text(&package["name"])))
        .collect();
    let mut edges = Edges::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let linked = list(&node["deps"])
            .into_iter()
            .filter(|dependency| list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()));
        let linked = linked.filter_map(|dependency| names.get(&text(&dependency["pkg"])).cloned());
        let name = names.get(&text(&node["id"])).cloned().unwrap_or_default();
        edges.entry(name).or_default().extend(linked);
    }
    edges
}

fn judge(edges: &Edges) -> Vec<Finding> {
    let manifest = Path::new("Cargo.toml");
    let mut findings = Vec::new();
    let ours: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    for (name, used) in edges {
        let Some(allowed) = ours.get(name.as_str()) else { continue };
        for other in used.iter().filter(|other| ours.contains_key(other.as_str())) {
            if !allowed.contains(&other.as_str()) {
                findings.push(Finding::new(manifest, 0, format!("{name} must not depend on {other}")));
            }
        }
    }
    let (mut linked, mut open) = (BTreeSet::new(), vec!["fobs-cli".to_owned()]);
    while let Some(name) = open.pop() {
        if linked.insert(name.clone()) {
            open.extend(edges.get(&name).into_iter().flatten().cloned());
        }
    }
    for name in NOT_IN_FOBS.iter().filter(|name| linked.contains(**name)) {
        findings.push(Finding::new(manifest, 0, format!("the program `fobs` must not link {name}")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges_of(list: &[(&str, &[&str])]) -> Edges {
        list.iter()
            .map(|(name, used)| ((*name).to_owned(), used.iter().map(|&n| n.to_owned()).collect()))
            .collect()
    }

    #[test]
    fn forbidden_edges_are_found_also_indirect_ones() {
        let good = edges_of(&[("fobs-cli", &["fobs", "fobs-daemon"]), ("fobs", &["fobs-proto", "serde"])]);
        assert_eq!(judge(&good), []);
        let direct = edges_of(&[("fobs-proto", &["fobs-sys"])]);
        assert_eq!(judge(&direct).len(), 1);
        let indirect = edges_of(&[("fobs-cli", &["serde"]), ("serde", &["plotters"])]);
        assert_eq!(judge(&indirect).len(), 1);
    }
}
