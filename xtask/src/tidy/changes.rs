//! What users will notice is in files of its own, so that branches do not conflict (changes/README.md); and
//! the picture of README.md is of its table.

use super::Finding;
use super::source::Tree;
use crate::changelog::parse;
use crate::chart;
use std::path::Path;

/// Changes without a kind, and a changelog that was edited by hand.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let of_the_folder = file.path.starts_with("changes") && !file.path.ends_with("README.md");
        if let (true, Err(error)) = (of_the_folder, parse(&file.text)) {
            findings.push(Finding::new(&file.path, 1, error));
        }
        if file.path == Path::new(chart::SOURCE) {
            let drawn = tree.files.iter().find(|other| other.path == Path::new(chart::PICTURE));
            let current = chart::draw(&file.text);
            if let (Some(drawn), Ok(current)) = (drawn, current)
                && drawn.text != current
            {
                let why = "the chart is of another table than README.md's: run cargo xtask chart";
                findings.push(Finding::new(&drawn.path, 1, why));
            }
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
    fn a_chart_of_another_table_is_found() {
        let table = "| | data, Mbit/s | c |\n|---|---|---|\n| a | 1 | 1 |\n| b | 2 | 2 |\n";
        let svg = chart::draw(table).expect("a table");
        let found = |readme: &str| check(&Tree::of(&[("README.md", readme), (chart::PICTURE, &svg)])).len();
        assert_eq!(found(table), 0);
        assert_eq!(found(&table.replace("| 2 | 2 |", "| 3 | 2 |")), 1);
    }

    #[test]
    fn a_change_is_a_file_with_a_kind() {
        let found = |path: &str, text: &str| check(&Tree::of(&[(path, text)])).len();
        assert_eq!(found("changes/a.md", "Fixed: it works."), 0);
        assert_eq!(found("changes/a.md", "It works."), 1);
        assert_eq!(found("changes/README.md", "# Changes"), 0);
        assert_eq!(found("CHANGELOG.md", "## [Unreleased]\n"), 1);
    }
}
