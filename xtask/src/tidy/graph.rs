//! Which crate depends on what: crates of ours on each other as the table of ARCHITECTURE.md says, and what
//! an installed program must not link.

use super::Finding;
use super::source::Tree;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Where the table is, and what its first line is.
const DOCUMENT: &str = "ARCHITECTURE.md";
const HEADER: &str = "| crate | is | uses |";

/// What the program that users install must not link, directly or not: research.
const NOT_IN_FOBS: &[&str] = &["plotters", "nalgebra", "fobs-sim"];

/// Crates of others that one crate of ours alone may name.
const OF_ONE: &[(&str, &str)] = &[("tokio", "fobs-jobs"), ("axum", "fobs-jobs"), ("rusqlite", "fobs-jobs")];

/// Edges that the table does not name, and those that only the table has.
///
/// # Errors
///
/// Where cargo cannot be run or its answer not be read.
pub fn check(tree: &Tree, root: &Path) -> Result<Vec<Finding>, String> {
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
    let document = tree.files.iter().find(|file| file.path.as_path() == Path::new(DOCUMENT));
    let mut findings = compare(document.map_or("", |file| &file.text), &ours(&metadata));
    findings.extend(judge(&edges(&metadata)));
    findings.extend(of_one(&ours(&metadata), &edges(&metadata)));
    Ok(findings)
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

/// The crates of this repository and the crates of it that each links.
fn ours(metadata: &Value) -> Edges {
    let members = metadata["workspace_members"].as_array().cloned().unwrap_or_default();
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let packages = packages.iter().filter(|package| members.contains(&package["id"]));
    let names: BTreeSet<String> =
        packages.filter_map(|package| package["name"].as_str()).map(str::to_owned).collect();
    let mut ours = edges(metadata);
    ours.retain(|name, _| names.contains(name));
    ours.values_mut().for_each(|used| used.retain(|name| names.contains(name)));
    ours
}

/// Where the table of the document differs from cargo's edges, or has a crate above what it uses.
fn compare(document: &str, ours: &Edges) -> Vec<Finding> {
    let finding = |line, message: String| Finding::new(Path::new(DOCUMENT), line, message);
    let mut lines = document.lines().zip(1..).skip_while(|(line, _)| *line != HEADER);
    let Some((_, header)) = lines.next() else {
        return vec![finding(0, format!("the table of crates, which begins with {HEADER:?}, is missing"))];
    };
    let mut findings = Vec::new();
    let mut above = BTreeSet::new();
    for (line, number) in lines.skip(1).take_while(|(line, _)| line.starts_with('|')) {
        let columns: Vec<&str> = line.trim_matches('|').split('|').collect();
        let (name, uses) = (columns[0].trim().trim_matches('`'), columns.last().copied().unwrap_or_default());
        let said: BTreeSet<&str> = uses
            .split(',')
            .map(|name| name.trim().trim_matches('`'))
            .filter(|name| !name.is_empty())
            .collect();
        let Some(used) = ours.get(name) else {
            findings.push(finding(number, format!("there is no crate {name}")));
            continue;
        };
        for other in used.iter().filter(|other| !said.contains(other.as_str())) {
            findings.push(finding(
                number,
                format!("{name} must not depend on {other}: the table has no such edge"),
            ));
        }
        for other in said.iter().filter(|other| !used.contains(**other)) {
            findings
                .push(finding(number, format!("{name} does not depend on {other}: cargo has no such edge")));
        }
        for other in said.iter().filter(|other| !above.contains(**other)) {
            findings.push(finding(number, format!("{other} must stand above {name}, which uses it")));
        }
        above.insert(name);
    }
    for name in ours.keys().filter(|name| !above.contains(name.as_str())) {
        findings.push(finding(header, format!("the table has no line for the crate {name}")));
    }
    findings
}

/// What the installed program links, directly or not, and must not.
fn judge(edges: &Edges) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut linked, mut open) = (BTreeSet::new(), vec!["fobs-cli".to_owned()]);
    while let Some(name) = open.pop() {
        if linked.insert(name.clone()) {
            open.extend(edges.get(&name).into_iter().flatten().cloned());
        }
    }
    for name in NOT_IN_FOBS.iter().filter(|name| linked.contains(**name)) {
        findings.push(Finding::new(
            Path::new("Cargo.toml"),
            0,
            format!("the program `fobs` must not link {name}"),
        ));
    }
    findings
}

/// Crates of ours that name what another one alone may.
fn of_one(ours: &Edges, edges: &Edges) -> Vec<Finding> {
    let names = |user: &str, used: &str| edges.get(user).is_some_and(|all| all.contains(used));
    let mut findings = Vec::new();
    for (used, only) in OF_ONE {
        for user in ours.keys().filter(|user| user.as_str() != *only && names(user, used)) {
            let message = format!("{user} must not name {used}: {only} alone does");
            findings.push(Finding::new(Path::new("Cargo.toml"), 0, message));
        }
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
    fn what_users_must_not_link_is_found_also_indirectly() {
        assert_eq!(judge(&edges_of(&[("fobs-cli", &["fobs"]), ("fobs", &["serde"])])), []);
        let indirect = edges_of(&[("fobs-cli", &["serde"]), ("serde", &["plotters"])]);
        assert_eq!(judge(&indirect).len(), 1);
    }

    #[test]
    fn a_runtime_is_named_by_one_crate() {
        let ours = edges_of(&[("fobs-jobs", &[]), ("fobs-daemon", &[])]);
        let named = edges_of(&[("fobs-jobs", &["tokio"]), ("axum", &["tokio"]), ("fobs-daemon", &["serde"])]);
        assert_eq!(of_one(&ours, &named), []);
        let named = edges_of(&[("fobs-jobs", &["tokio"]), ("fobs-daemon", &["tokio"])]);
        assert_eq!(of_one(&ours, &named).len(), 1);
    }

    #[test]
    fn the_table_must_equal_the_edges_of_cargo() {
        let table =
            |rows: &str| format!("# Crates\n\n{HEADER}\n|---|---|---|\n{rows}\n\n| another | table |\n");
        let found = |rows: &str, edges: &[(&str, &[&str])]| -> Vec<String> {
            compare(&table(rows), &edges_of(edges)).into_iter().map(|finding| finding.message).collect()
        };
        let edges: &[(&str, &[&str])] =
            &[("fobs", &["fobs-proto", "fobs-sys"]), ("fobs-proto", &[]), ("fobs-sys", &[])];
        let (proto, sys) = ("| `fobs-proto` | the core | |\n", "| `fobs-sys` | the kernel | |\n");
        let both = "| `fobs` | the face | `fobs-sys`, `fobs-proto` |";
        assert_eq!(found(&format!("{proto}{sys}{both}"), edges), [""; 0]);
        assert_eq!(
            found(&format!("{proto}{sys}| `fobs` | the face | `fobs-sys` |"), edges),
            ["fobs must not depend on fobs-proto: the table has no such edge"]
        );
        assert_eq!(
            found(&format!("{proto}| `fobs-sys` | the kernel | `fobs-proto` |\n{both}"), edges),
            ["fobs-sys does not depend on fobs-proto: cargo has no such edge"]
        );
        assert_eq!(
            found(&format!("{proto}{both}\n{sys}"), edges),
            ["fobs-sys must stand above fobs, which uses it"]
        );
        assert_eq!(found(&format!("{proto}{sys}{both}"), &edges[1..]), ["there is no crate fobs"]);
        assert_eq!(found(&format!("{proto}{sys}"), edges), ["the table has no line for the crate fobs"]);
        assert_eq!(compare("# Crates", &edges_of(edges)).len(), 1);
    }
}
