//! `unsafe` lives where the kernel is called and nowhere else.

use super::Finding;
use super::source::Tree;

/// Crates that call the kernel: each `unsafe` block there has its SAFETY comment (clippy checks it).
const MAY: &[&str] = &["crates/fobs-sys/src/lib.rs"];
/// A crate with one such room denies it everywhere else, since `forbid` knows no exception.
const DENIES: &[&str] = &["bindings/c/src/lib.rs", "bindings/python/src/lib.rs", "lab/src/main.rs"];

/// Crate roots that do not forbid it.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, syntax) in tree.rust() {
        let path = file.path.to_string_lossy();
        let root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
        if !root || MAY.contains(&path.as_ref()) {
            continue;
        }
        let level = if DENIES.contains(&path.as_ref()) { "deny" } else { "forbid" };
        let stated = syntax.attrs.iter().any(|attribute| {
            attribute.path().is_ident(level)
                && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string() == "unsafe_code")
        });
        if !stated {
            findings.push(Finding::new(&file.path, 0, format!("the crate needs `#![{level}(unsafe_code)]`")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_must_forbid_unsafe_code() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "#![forbid(unsafe_code)]"),
            ("crates/b/src/lib.rs", "#![deny(unsafe_code)]"),
            ("crates/c/src/main.rs", ""),
            ("crates/c/src/other.rs", ""),
            ("crates/fobs-sys/src/lib.rs", ""),
            ("lab/src/main.rs", "#![deny(unsafe_code)]"),
        ]);
        let found: Vec<String> = check(&tree).iter().map(|f| f.path.display().to_string()).collect();
        assert_eq!(found, ["crates/b/src/lib.rs", "crates/c/src/main.rs"]);
    }
}
