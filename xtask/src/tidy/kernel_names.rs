//! Calls of the kernel that take a name stand in one module, where a name is a type that was checked.

use super::Finding;
use super::rooms::{Paths, is_test};
use super::source::Tree;
use syn::visit::Visit;

/// The crates that handle names of a peer.
const ROOMS: &[&str] = &["crates/fobs", "crates/fobs-daemon", "crates/fobs-engine", "crates/fobs-store"];
/// The one module that makes the calls.
const MODULE: &str = "crates/fobs-store/src/at.rs";
/// What resolves a name relative to a directory.
const CALLS: &[&str] = &[
    "accessat",
    "chmodat",
    "chownat",
    "linkat",
    "mkdirat",
    "mknodat",
    "openat",
    "openat2",
    "readlinkat",
    "renameat",
    "renameat_with",
    "statat",
    "statx",
    "symlinkat",
    "unlinkat",
    "utimensat",
];

/// Such calls elsewhere.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let rooms = |(file, _): &(&super::source::File, _)| {
        ROOMS.iter().any(|room| file.path.starts_with(room)) && !file.path.ends_with(MODULE) && !is_test(file)
    };
    for (file, syntax) in tree.rust().filter(rooms) {
        let mut paths = Paths::default();
        paths.visit_file(syntax);
        for (path, line) in paths.found {
            let call = path.rsplit("::").next().unwrap_or_default();
            if CALLS.contains(&call) {
                let message =
                    format!("`{call}` takes a name that nothing has checked: call at.rs of fobs-store");
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reaches_the_kernel_through_one_module() {
        let table = [
            ("crates/fobs-store/src/tree.rs", "fn f() { rustix::fs::unlinkat(d, n, flags); }", 1),
            ("crates/fobs-store/src/tree.rs", "use rustix::fs::{Mode, renameat};", 1),
            ("crates/fobs/src/server.rs", "fn f() { fs::openat(d, n) }", 1),
            ("crates/fobs-store/src/at.rs", "fn f() { fs::unlinkat(d, n) }", 0),
            ("crates/fobs-store/src/tests/faults.rs", "fn f() { fs::unlinkat(d, n) }", 0),
            ("crates/fobs-store/src/tree.rs", "fn f() { at::unlink(d, n) }", 0),
            ("crates/fobs-cli/src/live.rs", "fn f() { fs::statat(d, n) }", 0),
        ];
        for (path, text, expected) in table {
            assert_eq!(check(&Tree::of(&[(path, text)])).len(), expected, "{path}: {text}");
        }
    }
}
