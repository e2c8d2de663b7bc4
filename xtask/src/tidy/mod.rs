//! The rules of the house, each a function from the tree to findings.
//!
//! A new rule is one file here and one line in [`check`].

mod arrays;
mod changes;
mod circles;
mod dropped;
mod formatted;
mod graph;
mod kernel_names;
mod lengths;
mod modules;
mod names;
mod opened;
mod orphans;
mod paths;
mod prose;
mod references;
mod rooms;
mod source;
mod unsafe_code;

use source::Tree;
use std::fmt;
use std::path::{Path, PathBuf};

/// A rule that is broken at one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Relative to the repository.
    path: PathBuf,
    /// From 1; 0 for the whole file.
    line: usize,
    /// What is wrong and what to do.
    message: String,
}

impl Finding {
    fn new(path: &Path, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.message)
    }
}

/// Checks the repository at `root`.
///
/// # Errors
///
/// A sentence where a file cannot be read, a source cannot be parsed or cargo cannot be asked.
pub fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let tree = Tree::read(root)?;
    let mut findings = Vec::new();
    findings.extend(lengths::check(&tree));
    findings.extend(arrays::check(&tree));
    findings.extend(rooms::check(&tree));
    findings.extend(circles::check(&tree));
    findings.extend(kernel_names::check(&tree));
    findings.extend(dropped::check(&tree));
    findings.extend(opened::check(&tree));
    findings.extend(prose::check(&tree));
    findings.extend(names::check(&tree));
    findings.extend(unsafe_code::check(&tree));
    findings.extend(references::check(&tree));
    findings.extend(orphans::check(&tree));
    findings.extend(paths::check(&tree));
    findings.extend(changes::check(&tree));
    findings.extend(graph::check(&tree, root)?);
    findings.extend(formatted::check(&tree, root)?);
    findings.sort();
    Ok(findings)
}

/// Which module of each crate names which: the crate's folder, both modules, and a place.
///
/// # Errors
///
/// A sentence where a file cannot be read or a source cannot be parsed.
pub fn rooms_of(root: &Path) -> Result<String, String> {
    let mut lines = String::new();
    for of in modules::crates(&Tree::read(root)?) {
        for ((from, to), (path, line)) in &of.arrows {
            let (from, to) = (from.join("::"), to.join("::"));
            lines += &format!("{}\t{from}\t{to}\t{}:{line}\n", of.folder.display(), path.display());
        }
    }
    Ok(lines)
}
