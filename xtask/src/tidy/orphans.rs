//! Every source is compiled: a file that no module names is checked by nothing and runs no test. And the root
//! of the repository holds what a newcomer is to see first: results of a run there were committed unseen.

use super::Finding;
use super::source::Tree;
use proc_macro2::TokenTree;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// Folders of which each file is a target of its own.
const TARGETS: &[&str] = &["benches", "bin", "examples", "fuzz_targets", "tests"];

/// The macro whose rows declare files.
const TABLE: &str = "family";

/// The files of the root.
const ROOT: &[&str] = &[
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "deny.toml",
    "rustfmt.toml",
];

/// Files of the root that are not in its list, sources that are no target of cargo's and that no `mod` leads
/// to.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Named { mut plain, listed } = named(tree);
    plain.extend(listed);
    let named = plain;
    let orphans = tree.rust().filter(|(file, _)| !is_target(&file.path) && !named.contains(&file.path));
    let orphans = orphans.map(|(file, _)| {
        Finding::new(&file.path, 0, "no `mod` names this file, so nothing of it is compiled")
    });
    let is_in_root = |path: &Path| path.parent().is_some_and(|folder| folder.as_os_str().is_empty());
    let strays = tree.files.iter().map(|file| &file.path);
    let strays = strays.filter(|path| is_in_root(path) && !ROOT.iter().any(|name| path.as_os_str() == *name));
    let strays = strays
        .map(|path| Finding::new(path, 0, "the list of the root's files (tidy/orphans.rs) lacks this one"));
    orphans.chain(strays).collect()
}

/// Files that declarations name.
pub struct Named {
    /// By `mod` in the source.
    pub plain: BTreeSet<PathBuf>,
    /// By `mod FILE { ROWS }` in a table, which is a macro's: `cargo fmt` does not see these.
    pub listed: BTreeSet<PathBuf>,
}

/// The files that the sources of the tree name, also those that are not there.
pub fn named(tree: &Tree) -> Named {
    let mut named = Named { plain: BTreeSet::new(), listed: BTreeSet::new() };
    for (file, syntax) in tree.rust() {
        let mut modules = Modules { inside: folder_of(&file.path), beside: &file.path, named: &mut named };
        modules.visit_file(syntax);
    }
    named
}

fn is_target(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let mut above = path.ancestors().skip(1).map(|folder| folder.file_name().unwrap_or_default());
    let (folder, grandparent) = (above.next().unwrap_or_default(), above.next().unwrap_or_default());
    let is_of = |folder: &std::ffi::OsStr| TARGETS.iter().any(|target| folder == *target);
    // A folder of modules may have the name of one of them: then the module's own file is beside it.
    let is_root = name == "lib.rs" || name == "main.rs" || name == "build.rs";
    (is_root && (folder == "src" || is_of(grandparent) || name == "build.rs"))
        || (is_of(folder) && grandparent != "src" && !path.components().any(|part| part.as_os_str() == "src"))
        || (folder == "bin" && grandparent == "src")
}

/// Where the modules of a file lie that it names without a path.
fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().unwrap_or(Path::new(""));
    let stem = path.file_stem().unwrap_or_default();
    let is_top = stem == "mod" || is_target(path);
    if is_top { folder.to_owned() } else { folder.join(stem) }
}

struct Modules<'a> {
    inside: PathBuf,
    beside: &'a Path,
    named: &'a mut Named,
}

impl<'ast> Visit<'ast> for Modules<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_some() {
            self.inside.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.inside.pop();
            return;
        }
        let path = item.attrs.iter().find_map(|attribute| path_of(&attribute.meta));
        match path {
            Some(path) => {
                self.named.plain.insert(self.beside.with_file_name(path));
            }
            None => {
                self.named.plain.extend(files_of(&self.inside, &item.ident.to_string()));
            }
        }
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if item.mac.path.is_ident(TABLE) {
            let tokens: Vec<TokenTree> = item.mac.tokens.clone().into_iter().collect();
            let rows = tokens.windows(2).filter_map(|pair| match pair {
                [TokenTree::Ident(word), TokenTree::Ident(name)] if word == "mod" => Some(name.to_string()),
                _ => None,
            });
            self.named.listed.extend(rows.flat_map(|name| files_of(&self.inside, &name)));
            let attributes = tokens.iter().filter_map(|token| match token {
                TokenTree::Group(group) => syn::parse2::<syn::MetaNameValue>(group.stream()).ok(),
                _ => None,
            });
            let paths = attributes.filter_map(|pair| path_of(&syn::Meta::NameValue(pair)));
            self.named.listed.extend(paths.map(|path| self.beside.with_file_name(path)));
        }
    }
}

/// What `path = "..."` says.
fn path_of(meta: &syn::Meta) -> Option<String> {
    match meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    }
}

/// Where the module of this name may be.
fn files_of(inside: &Path, name: &str) -> [PathBuf; 2] {
    [inside.join(format!("{name}.rs")), inside.join(name).join("mod.rs")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_mod_line_is_found() {
        let tree = Tree::of(&[
            (
                "crates/a/src/lib.rs",
                "mod b; mod c; mod tests { mod inner; } family! { mod row { X \"x\" } \
              #[path = \"far.rs\"] mod away { Y \"y\" } }",
            ),
            ("crates/a/src/far.rs", ""),
            ("crates/a/src/row.rs", ""),
            ("crates/a/src/b.rs", "mod d; #[path = \"other.rs\"] mod e;"),
            ("crates/a/src/b/d.rs", ""),
            ("crates/a/src/other.rs", ""),
            ("crates/a/src/c/mod.rs", "mod d;"),
            ("crates/a/src/c/d.rs", ""),
            ("crates/a/src/c/lost.rs", ""),
            ("crates/a/src/tests/inner.rs", ""),
            ("crates/a/src/tests/lost.rs", ""),
            ("crates/a/src/bin/x.rs", ""),
            ("crates/a/tests/x.rs", "mod y;"),
            ("crates/a/tests/e2e/main.rs", "mod case;"),
            ("crates/a/tests/e2e/case.rs", ""),
            ("crates/a/tests/e2e/lost.rs", ""),
            ("crates/a/build.rs", ""),
            ("fuzz/fuzz_targets/z.rs", ""),
            ("Makefile", ""),
            ("bench-1.jsonl", ""),
        ]);
        let found: Vec<String> =
            check(&tree).iter().map(|finding| finding.path.display().to_string()).collect();
        let lost = ["crates/a/src/c/lost.rs", "crates/a/src/tests/lost.rs", "crates/a/tests/e2e/lost.rs"];
        assert_eq!(found, [&lost[..], &["bench-1.jsonl"]].concat());
    }
}
