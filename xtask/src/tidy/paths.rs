//! Documents name files and folders that exist.
//!
//! What is looked at is a path in backticks from the root of the repository, or from a crate's `src` behind
//! the crate's name: `fobs-engine/send.rs`, `fobs-proto/sender/{drain,schedule}.rs`.

use super::Finding;
use super::source::{File, Tree};
use regex::Regex;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

/// Not looked at: they say what was.
const OF_THE_PAST: &[&str] = &["docs/experiments", "CHANGELOG.md", "changes"];

static SPAN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"`([A-Za-z0-9._-]+/(?:[A-Za-z._{*][A-Za-z0-9._/{},*-]*)?)`").expect("a valid pattern")
});

/// Paths that lead nowhere.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let places = places(tree);
    let crates: BTreeSet<&str> = places
        .iter()
        .filter_map(|place| place.strip_prefix("crates/"))
        .filter(|name| !name.contains('/'))
        .collect();
    let roots: BTreeSet<&str> =
        places.iter().filter(|place| !place.contains('/')).map(String::as_str).collect();
    let mut findings = Vec::new();
    for document in
        tree.documents().filter(|file| !OF_THE_PAST.iter().any(|past| file.path.starts_with(past)))
    {
        for (line, number) in document.text.lines().zip(1..) {
            for span in SPAN.captures_iter(line) {
                for path in expand(&span[1]) {
                    let first = path.split('/').next().unwrap_or_default();
                    // A crate's name may be another folder's too: Python's package, a command's argument.
                    let found = if crates.contains(first) {
                        ["crates/", "bindings/python/python/"].iter().any(|base| {
                            let rest = &path[first.len()..];
                            exists(&places, &format!("{base}{first}/src{rest}"))
                                || exists(&places, &format!("{base}{first}{rest}"))
                        })
                    } else {
                        !roots.contains(first) || exists(&places, &path)
                    };
                    if !found {
                        findings.push(Finding::new(&document.path, number, format!("there is no {path}")));
                    }
                }
            }
        }
    }
    findings
}

/// Every file and every folder.
fn places(tree: &Tree) -> BTreeSet<String> {
    let above = |file: &File| -> Vec<String> {
        let places = file.path.ancestors().filter(|path| *path != Path::new(""));
        places.map(|path| path.to_string_lossy().into_owned()).collect()
    };
    tree.files.iter().flat_map(above).collect()
}

/// Whether something has this path, up to the first component that is a pattern, or a word in capitals that
/// stands for a name.
fn exists(places: &BTreeSet<String>, path: &str) -> bool {
    let stands_for_a_name = |part: &&str| {
        let stem = part.split('.').next().unwrap_or_default();
        part.contains('*') || stem.len() > 1 && stem.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    let known: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty()).take_while(|part| !stands_for_a_name(part)).collect();
    places.contains(&known.join("/"))
}

/// The paths of one with alternatives in braces.
fn expand(path: &str) -> Vec<String> {
    let braces = path.find('{').and_then(|open| Some((open, open + path[open..].find('}')?)));
    match braces {
        Some((open, close)) => path[open + 1..close]
            .split(',')
            .flat_map(|one| expand(&format!("{}{one}{}", &path[..open], &path[close + 1..])))
            .collect(),
        None => vec![path.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let sources = [("crates/fobs/src/client/line.rs", ""), ("crates/fobs/src/client/dial.rs", "")];
        let files = [&sources[..], &[("docs/a.md", text), ("scripts/b.sh", "")]].concat();
        check(&Tree::of(&files)).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_path_in_a_document_exists() {
        let all =
            "`crates/fobs/src/client/` `fobs/client/{line,dial}.rs` `fobs/src` `scripts/*.sh` `docs/NAME.md`";
        assert_eq!(findings(all), [""; 0]);
        assert_eq!(findings("`host:data/` `/etc/fobs/keys` `data/x` scripts/c.sh"), [""; 0]);
        assert_eq!(findings("`scripts/c.sh`"), ["there is no scripts/c.sh"]);
        assert_eq!(findings("`fobs/client/{line,persist}.rs`"), ["there is no fobs/client/persist.rs"]);
        assert_eq!(findings("`crates/fobs/src/storage/`"), ["there is no crates/fobs/src/storage/"]);
    }
}
