//! A path that a user names is opened through no other user's link: by `fobs_sys::named`, and by nothing
//! else.

use super::Finding;
use super::rooms::is_test;
use super::source::Tree;
use syn::visit::{self, Visit};

/// The crates whose programs open what a user names.
const ROOMS: &[&str] = &[
    "crates/fobs/src",
    "crates/fobs-channel/src",
    "crates/fobs-cli/src",
    "crates/fobs-daemon/src",
    "crates/fobs-engine/src",
    "crates/fobs-store/src",
];
/// Parts of them that only tests run.
const INSTRUMENTS: &[&str] = &["crates/fobs-daemon/src/fuzzing", "crates/fobs-daemon/src/hostile"];
/// What opens a path and follows each link, by its last two names.
const OPENERS: &[(&str, &str)] = &[
    ("File", "create"),
    ("File", "create_new"),
    ("File", "open"),
    ("File", "options"),
    ("OpenOptions", "new"),
    ("fs", "copy"),
    ("fs", "open"),
    ("fs", "read"),
    ("fs", "read_to_string"),
    ("fs", "write"),
];
/// The kernel's own, where nobody makes a link.
const OF_THE_KERNEL: &[&str] = &["/dev/", "/proc/", "/sys/"];
/// Sources in which such a path is no literal.
const KERNEL_PATHS: &[&str] = &[
    "crates/fobs/src/examine/host.rs",
    "crates/fobs-engine/src/streams/tuning.rs",
    "crates/fobs/src/watch/processes.rs",
];

/// Openers with another path.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, syntax) in tree.rust() {
        let path = &file.path;
        let apart = INSTRUMENTS.iter().chain(KERNEL_PATHS).any(|apart| path.starts_with(apart));
        if apart || is_test(file) || !ROOMS.iter().any(|room| path.starts_with(room)) {
            continue;
        }
        let mut calls = Calls::default();
        calls.visit_file(syntax);
        findings.extend(calls.found.into_iter().map(|(line, call)| {
            let message =
                format!("`{call}` follows the links of every user: open the path by fobs_sys::named");
            Finding::new(path, line, message)
        }));
    }
    findings
}

#[derive(Default)]
struct Calls {
    found: Vec<(usize, String)>,
}

impl<'ast> Visit<'ast> for Calls {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_of_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_of_tests(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Some(opener) = opener(&call.func)
            && !call.args.first().is_some_and(is_of_the_kernel)
        {
            self.found.push((line_of(&call.func), opener));
        }
        call.args.iter().for_each(|argument| self.visit_expr(argument));
        if opener(&call.func).is_none() {
            self.visit_expr(&call.func);
        }
    }

    /// Named without a call, as in `and_then(fs::read)`.
    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        let expression = syn::Expr::Path(path.clone());
        self.found.extend(opener(&expression).map(|opener| (line_of(&expression), opener)));
    }
}

fn is_of_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        matches!(&attribute.meta, syn::Meta::List(list) if list.path.is_ident("cfg")
            && list.tokens.to_string().contains("test"))
    })
}

fn line_of(expression: &syn::Expr) -> usize {
    use syn::spanned::Spanned;
    expression.span().start().line
}

fn opener(expression: &syn::Expr) -> Option<String> {
    let syn::Expr::Path(path) = expression else { return None };
    let names: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    let [.., room, call] = names.as_slice() else { return None };
    let is_one = OPENERS.iter().any(|(of, name)| of == room && name == call);
    is_one.then(|| format!("{room}::{call}"))
}

/// Whether a path begins with a place of the kernel's.
fn is_of_the_kernel(argument: &syn::Expr) -> bool {
    let begins = |text: &str| OF_THE_KERNEL.iter().any(|place| text.starts_with(place));
    match argument {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => begins(&text.value()),
        syn::Expr::Macro(made) if made.mac.path.is_ident("format") => {
            begins(made.mac.tokens.to_string().trim_start_matches('"'))
        }
        syn::Expr::Reference(to) => is_of_the_kernel(&to.expr),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_names_is_opened_in_one_way() {
        let table = [
            ("crates/fobs-cli/src/log.rs", "fn f(p: &Path) { File::open(p); }", 1),
            ("crates/fobs-cli/src/log.rs", "fn f(p: &Path) { std::fs::read(p); }", 1),
            ("crates/fobs-cli/src/log.rs", "fn f() { OpenOptions::new().append(true).open(p); }", 1),
            ("crates/fobs-cli/src/log.rs", "fn f() { p.and_then(fs::read_to_string); }", 1),
            ("crates/fobs-cli/src/log.rs", "fn f() { g(fs::read(p)); }", 1),
            ("crates/fobs-cli/src/log.rs", "fn f() { fobs::named::open(p); }", 0),
            ("crates/fobs-cli/src/log.rs", "fn f() { File::open(\"/dev/null\"); }", 0),
            ("crates/fobs-cli/src/log.rs", "fn f() { fs::read(format!(\"/proc/{pid}/io\")); }", 0),
            ("crates/fobs-cli/src/log.rs", "fn f() { fs::read(format!(\"{home}/proc/\")); }", 1),
            ("crates/fobs-cli/src/log.rs", "#[cfg(test)]\nmod tests { fn f() { fs::read(p); } }", 0),
            ("crates/fobs-proto/src/log.rs", "fn f() { fs::read(p); }", 0),
        ];
        for (path, text, expected) in table {
            assert_eq!(check(&Tree::of(&[(path, text)])).len(), expected, "{path}: {text}");
        }
    }
}
