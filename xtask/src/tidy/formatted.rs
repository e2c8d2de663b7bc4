//! Sources that a table declares are formatted like all others, though `cargo fmt` follows no macro to them.

use super::source::Tree;
use super::{Finding, orphans};
use std::path::Path;
use std::process::Command;

/// Listed files that rustfmt would change, with the command that does.
///
/// # Errors
/// A sentence where rustfmt cannot be run.
pub fn check(tree: &Tree, root: &Path) -> Result<Vec<Finding>, String> {
    let listed = orphans::named(tree).listed;
    let here = tree.files.iter().map(|file| &file.path).filter(|path| listed.contains(*path));
    let here: Vec<&Path> = here.map(|path| path.as_path()).collect();
    if here.is_empty() {
        return Ok(Vec::new());
    }
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024", "--check", "--files-with-diff"]).args(&here).current_dir(root);
    let done = rustfmt.output().map_err(|error| format!("cannot run rustfmt: {error}"))?;
    let changed = String::from_utf8_lossy(&done.stdout);
    let root = &root.canonicalize().map_err(|error| format!("cannot look at {}: {error}", root.display()))?;
    Ok(changed.lines().filter_map(|line| of(root, line)).collect())
}

fn of(root: &Path, line: &str) -> Option<Finding> {
    let path = Path::new(line.trim());
    let path = path.strip_prefix(root).unwrap_or(path);
    path.extension()?;
    let message = format!("cargo fmt does not see it: run rustfmt --edition 2024 {}", path.display());
    Some(Finding::new(path, 0, message))
}
