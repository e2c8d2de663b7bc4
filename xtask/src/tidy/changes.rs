//! What users will notice is in files of its own, so that branches do not conflict (changes/README.md).

use super::Finding;
use super::source::Tree;
use crate::changelog::parse;
use std::path::Path;

/// Changes without a kind, and a changelog that was edited by hand.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let of_the_folder = file.path.starts_with("changes") && !file.path.ends_with("README.md");
        if let (true, Err(error)) = (of_the_folder, parse(&file.text)) {
            findings.push(Finding::new(&file.path, 1, error));
        }
        if file.path == Path::new("CHANGELOG.md") && file.text.contains("## [Unreleased]") {
            findings.push(Finding::new(&file.path, 0, "a change that is not released is a file in changes/"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_file_with_a_kind() {
        let found = |path: &str, text: &str| check(&Tree::of(&[(path, text)])).len();
        assert_eq!(found("changes/a.md", "Fixed: it works."), 0);
        assert_eq!(found("changes/a.md", "It works."), 1);
        assert_eq!(found("changes/README.md", "# Changes"), 0);
        assert_eq!(found("CHANGELOG.md", "## [Unreleased]\n"), 1);
    }
}
