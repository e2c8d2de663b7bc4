//! What nobody refers to is clutter, and what is referred to exists.

use super::Finding;
use super::source::{File, Tree};
use regex::Regex;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

/// Folders whose files must be named by a document, a script, a source or the Makefile. Every scenario has a
/// reader without that: the simulator's tests play the whole folder.
const KEPT_FOR_READERS: &[&str] = &["docs", "lab/results", "lab/plans", "scripts"];

static LINK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\]\(([^)#\s]*)(?:#([^)]*))?\)").expect("a valid pattern"));

/// Dead links and files without a reader.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = dead_links(tree);
    for file in tree.files.iter().filter(|file| KEPT_FOR_READERS.iter().any(|f| file.path.starts_with(f))) {
        if !is_referenced(tree, file) {
            findings.push(Finding::new(&file.path, 0, "nothing refers to this file: link it or delete it"));
        }
    }
    findings
}

fn dead_links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for document in tree.documents() {
        let folder = document.path.parent().unwrap_or(Path::new(""));
        for (number, line) in document.text.lines().enumerate() {
            for link in LINK.captures_iter(line) {
                let target = &link[1];
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let path =
                    if target.is_empty() { document.path.clone() } else { normal(&folder.join(target)) };
                let mut found = tree.files.iter().filter(|file| file.path.starts_with(&path)).peekable();
                let place = link.get(2).map(|anchor| anchor.as_str());
                let dead = match (found.peek(), place) {
                    (None, _) => Some(format!("the link to {target} leads nowhere")),
                    (Some(file), Some(anchor))
                        if file.path == path && !headings(&file.text).any(|h| h == anchor) =>
                    {
                        Some(format!("{} has no heading #{anchor}", path.display()))
                    }
                    _ => None,
                };
                findings.extend(dead.map(|message| Finding::new(&document.path, number + 1, message)));
            }
        }
    }
    findings
}

/// The anchors of a document's headings, as its readers' programs make them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

/// Without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// Whether another file names it: by its name, or, as records and plans do, by its stem.
fn is_referenced(tree: &Tree, file: &File) -> bool {
    let Some(name) = file.path.file_name().and_then(|name| name.to_str()) else { return true };
    let stem = name.split('.').next().unwrap_or(name);
    let page = format!("{stem}.md");
    tree.files.iter().filter(|other| other.path != file.path).any(|other| {
        other.text.contains(name)
            // A record belongs to the page and the plan of its name.
            || other.path.ends_with(Path::new("docs/experiments").join(&page)) && file.path.starts_with("lab")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(|finding| finding.path.display().to_string()).collect()
    }

    #[test]
    fn a_link_must_lead_somewhere() {
        let read = ("README.md", "[a](docs/a.md) [b](https://example.org) [c](docs/a.md#a-part)");
        assert_eq!(
            findings(&[read, ("docs/a.md", "# `A` part\n[up](../README.md) [here](#a-part)")]),
            [""; 0]
        );
        assert_eq!(findings(&[read, ("docs/a.md", "# Another part")]), ["README.md"]);
        assert_eq!(findings(&[("README.md", "[a](docs/b.md)")]), ["README.md"]);
    }

    #[test]
    fn a_record_without_a_page_is_found() {
        let plan = ("docs/experiments/grid.md", "`lab/plans/grid.toml`");
        let read = ("README.md", "docs/experiments/grid.md");
        let files = [plan, read, ("lab/plans/grid.toml", ""), ("lab/results/grid.jsonl", "")];
        assert_eq!(findings(&files), [""; 0]);
        let trial = ("lab/results/grid-trial.jsonl", "");
        assert_eq!(findings(&[plan, read, trial]), ["lab/results/grid-trial.jsonl"]);
    }
}
