//! The licence texts of everything that is linked into `fobs`, as one document for its packages.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package whose dependencies count.
const PROGRAM: &str = "fobs-cli";
/// How deep below a crate its vendored C libraries keep their licences: `zstd-sys/zstd/LICENSE`.
const DEPTH_MAX: usize = 2;
/// What a file with a licence is called, in small letters, up to its ending.
const NAMES: &[&str] = &["license", "licence", "copying", "copyright", "notice", "unlicense"];

/// A crate, or something else that is linked.
struct Part {
    /// Name and version.
    title: String,
    /// Its SPDX expression.
    licence: String,
    /// The texts it comes with.
    texts: BTreeSet<String>,
}

/// The document for a target; `also` names files of what is linked beside crates, as `NAME=FILE`.
pub fn document(root: &Path, target: &str, also: &[String]) -> Result<String, String> {
    let mut parts = crates(&metadata(root, target)?)?;
    for pair in also {
        let (name, file) = pair.split_once('=').ok_or_else(|| format!("{pair:?} is not NAME=FILE"))?;
        let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        let licence = "see its text".to_owned();
        parts.push(Part { title: name.to_owned(), licence, texts: BTreeSet::from([normal(&text)]) });
    }
    let bare: Vec<_> = parts.iter().filter(|part| part.texts.is_empty()).collect();
    if let Some(part) = bare.iter().find(|part| !is_covered(&part.licence, &parts)) {
        return Err(format!(
            "{} ({}) comes without its licence's text, and no other crate brings that one; look for it at its authors'",
            part.title, part.licence
        ));
    }
    Ok(written(&parts))
}

fn metadata(root: &Path, target: &str) -> Result<Value, String> {
    let arguments = ["metadata", "--locked", "--format-version=1", "--filter-platform", target];
    let output = Command::new("cargo")
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// The crates that the program links, itself and its house left out.
fn crates(metadata: &Value) -> Result<Vec<Part>, String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|package| (text(&package["id"]), package)).collect();
    let links: BTreeMap<String, Vec<Value>> = list(&metadata["resolve"]["nodes"])
        .into_iter()
        .map(|node| (text(&node["id"]), list(&node["deps"])))
        .collect();
    let program = packages.iter().find(|(_, package)| package["name"] == PROGRAM);
    let mut next = vec![program.ok_or_else(|| format!("there is no package {PROGRAM}"))?.0.clone()];
    let mut linked = BTreeSet::new();
    while let Some(id) = next.pop() {
        if !linked.insert(id.clone()) {
            continue;
        }
        // Build scripts and tests leave nothing in the binary; `null` is an ordinary dependency.
        let dependencies = links.get(&id).into_iter().flatten();
        let kept =
            dependencies.filter(|dep| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()));
        next.extend(kept.map(|dep| text(&dep["pkg"])));
    }
    linked
        .iter()
        .filter_map(|id| packages.get(id))
        .filter(|package| !package["source"].is_null())
        .map(|package| {
            let folder = PathBuf::from(text(&package["manifest_path"]));
            let mut texts = BTreeSet::new();
            collect(folder.parent().unwrap_or(Path::new("")), DEPTH_MAX, &mut texts)?;
            let title = format!("{} {}", text(&package["name"]), text(&package["version"]));
            Ok(Part { title, licence: text(&package["license"]), texts })
        })
        .collect()
}

/// Texts of licences in a folder and those below it.
fn collect(folder: &Path, depth: usize, texts: &mut BTreeSet<String>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        if path.is_dir() {
            if depth > 0 {
                collect(&path, depth - 1, texts)?;
            }
        } else if is_licence(&entry.file_name().to_string_lossy()) {
            let bytes = fs::read(&path).map_err(failed)?;
            texts.insert(normal(&String::from_utf8_lossy(&bytes)));
        }
    }
    Ok(())
}

fn is_licence(name: &str) -> bool {
    let name = name.to_lowercase();
    let is_code = [".rs", ".c", ".h", ".py", ".go"].iter().any(|ending| name.ends_with(ending));
    !is_code && NAMES.iter().any(|start| name.starts_with(start))
}

/// Without what differs between copies of one text: line ends, and blanks at the ends of lines.
fn normal(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_matches('\n').to_owned()
}

/// Whether the text of one of the licences to choose from is in the document because of another part.
fn is_covered(licence: &str, parts: &[Part]) -> bool {
    let alternatives = |text: &str| -> BTreeSet<String> {
        text.split([' ', '/', '(', ')'])
            .filter(|word| !["OR", "AND", "WITH", ""].contains(word))
            .map(str::to_owned)
            .collect()
    };
    let wanted = alternatives(licence);
    parts
        .iter()
        .filter(|part| !part.texts.is_empty())
        .any(|part| !alternatives(&part.licence).is_disjoint(&wanted))
}

/// Each text once, below the parts that it belongs to.
fn written(parts: &[Part]) -> String {
    let mut by_text: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for part in parts {
        for text in &part.texts {
            by_text.entry(text).or_default().push(&part.title);
        }
    }
    let mut document = String::from("Licences of what is linked into fobs.\n\n");
    for part in parts {
        let _ = writeln!(document, "{}: {}", part.title, part.licence);
    }
    for (text, titles) in by_text {
        let _ = write!(document, "\n{}\n{}\n\n{text}\n", "=".repeat(79), titles.join(", "));
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(title: &str, licence: &str, texts: &[&str]) -> Part {
        let texts = texts.iter().map(|text| normal(text)).collect();
        Part { title: title.to_owned(), licence: licence.to_owned(), texts }
    }

    #[test]
    fn each_text_stands_once_with_all_that_it_covers() {
        let parts = [part("a 1", "MIT", &["Be  \r\nkind\n"]), part("b 2", "MIT", &["Be\nkind"])];
        let document = written(&parts);
        assert_eq!(document.matches("Be\nkind").count(), 1, "{document}");
        assert!(document.contains("a 1, b 2\n\nBe"), "{document}");
    }

    #[test]
    fn a_licence_without_any_text_is_noticed() {
        let parts = [part("a 1", "MIT", &["text"]), part("b 2", "MIT OR Zlib", &[]), part("c 3", "ISC", &[])];
        assert!(is_covered("MIT OR Zlib", &parts) && is_covered("Apache-2.0/MIT", &parts));
        assert!(!is_covered("ISC", &parts));
    }

    #[test]
    fn licences_are_known_by_their_names() {
        assert!(["LICENSE", "LICENSE-MIT", "COPYING.txt", "UNLICENSE"].iter().all(|name| is_licence(name)));
        assert!(!["license.rs", "README.md", "lib.rs"].iter().any(|name| is_licence(name)));
    }
}
