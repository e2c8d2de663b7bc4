//! Calls of the kernel that take a name stand in one module, where a name is a type that was checked; and
//! there few things are done by a name. What gets a mode, an owner, an attribute, a time or one more name is
//! held open.

use super::Finding;
use super::rooms::{Paths, is_test};
use super::source::{File, Tree};
use syn::visit::{self, Visit};

/// The crates that handle names of a peer.
const ROOMS: &[&str] = &["crates/fobs", "crates/fobs-daemon", "crates/fobs-engine", "crates/fobs-store"];
/// The one module that makes the calls.
const MODULE: &str = "crates/fobs-store/src/at.rs";
/// What of it takes a name: to open, look, make, rename or remove.
const TAKERS: &[&str] = &[
    "hold",
    "link_held",
    "make_directory",
    "make_node",
    "move_to",
    "move_to_new",
    "one",
    "open_ambient",
    "open_below",
    "open_beneath",
    "or_dot",
    "read_link",
    "remove_directory",
    "rename",
    "rename_new",
    "stat",
    "symlink",
    "unlink",
];
/// The module that dresses what is held, some of it by way of `/proc`.
const HANDLE: &str = "crates/fobs-store/src/attributes/handle.rs";
/// Where `/proc` has what is held.
const HELD: &str = "/proc/self/fd";
/// What dresses a path.
const BY_PATH: &[&str] = &[
    "chmod",
    "chown",
    "getxattr",
    "lchown",
    "lgetxattr",
    "link",
    "listxattr",
    "llistxattr",
    "lremovexattr",
    "lsetxattr",
    "removexattr",
    "set_permissions",
    "setxattr",
    "utimes",
];
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
            let is_of_the_kernel = path.ends_with(&format!("fs::{call}"));
            if is_in_store(file)
                && is_of_the_kernel
                && BY_PATH.contains(&call)
                && !file.path.ends_with(HANDLE)
            {
                let message = format!("`{call}` dresses what has a name by now: hold it, and use a `Handle`");
                findings.push(Finding::new(&file.path, line, message));
            }
        }
        if is_in_store(file) && file.text.contains(HELD) {
            let line = file.text.lines().position(|line| line.contains(HELD)).map_or(1, |at| at + 1);
            let message = "what is held is reached through at.rs of fobs-store".to_owned();
            findings.push(Finding::new(&file.path, line, message));
        }
    }
    findings.extend(tree.rust().filter(|(file, _)| file.path.ends_with(MODULE)).flat_map(takers));
    findings.dedup();
    findings
}

fn is_in_store(file: &File) -> bool {
    file.path.starts_with("crates/fobs-store/src")
}

/// Functions of the module that take a name, and are none of the few.
fn takers((file, syntax): (&File, &syn::File)) -> Vec<Finding> {
    let mut found = Signatures::default();
    syntax
        .items
        .iter()
        .filter(|item| !matches!(item, syn::Item::Mod(_)))
        .for_each(|item| found.visit_item(item));
    let unknown = found.0.into_iter().filter(|(name, _)| !TAKERS.contains(&name.as_str()));
    let finding = |(name, line)| {
        let message = format!(
            "`{name}` takes a name, and another user may have given that to something else by now: take what is held"
        );
        Finding::new(&file.path, line, message)
    };
    unknown.map(finding).collect()
}

/// Functions with a parameter that is a name or a path, with their lines.
#[derive(Default)]
struct Signatures(Vec<(String, usize)>);

impl<'ast> Visit<'ast> for Signatures {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        let mut types = Paths::default();
        let is_bytes = |input: &syn::FnArg| match input {
            syn::FnArg::Typed(input) => {
                matches!(&*input.ty, syn::Type::Reference(to) if matches!(&*to.elem, syn::Type::Slice(_)))
            }
            syn::FnArg::Receiver(_) => false,
        };
        signature.inputs.iter().for_each(|input| types.visit_fn_arg(input));
        let is_name = |(path, _): &(String, usize)| {
            matches!(path.rsplit("::").next(), Some("Component" | "ComponentBuf" | "Path" | "str" | "CStr"))
        };
        if types.found.iter().any(is_name) || signature.inputs.iter().any(is_bytes) {
            let line = signature.ident.span().start().line;
            self.0.push((signature.ident.to_string(), line));
        }
        visit::visit_signature(self, signature);
    }
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
            ("crates/fobs-store/src/tree.rs", "fn f() { fs::chmod(n, m) }", 1),
            ("crates/fobs-store/src/tree.rs", "fn f() { std::fs::set_permissions(n, m) }", 1),
            ("crates/fobs-store/src/attributes/handle.rs", "fn f() { fs::chmod(at::place_of(h), m) }", 0),
            ("crates/fobs-store/src/tree.rs", "fn f() { open(\"/proc/self/fd/3\") }", 1),
            ("crates/fobs-store/src/at.rs", "fn stat(d: impl AsFd, n: Component<'_>) {}", 0),
            ("crates/fobs-store/src/at.rs", "fn set_mode(d: impl AsFd, n: Component<'_>) {}", 1),
            ("crates/fobs-store/src/at.rs", "fn link(d: impl AsFd, path: &[u8]) {}", 1),
            ("crates/fobs-store/src/at.rs", "fn set_mode_of_held(held: BorrowedFd<'_>) {}", 0),
        ];
        for (path, text, expected) in table {
            assert_eq!(check(&Tree::of(&[(path, text)])).len(), expected, "{path}: {text}");
        }
    }
}
