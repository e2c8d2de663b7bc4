//! What can fail is dropped only with a reason beside it.

use super::Finding;
use super::rooms::is_test;
use super::source::{File, Tree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The programs and libraries that users get.
const ROOMS: &[&str] = &["bindings", "crates"];
/// Instruments within them, whose failures are a test's.
const INSTRUMENTS: &[&str] =
    &["crates/fobs-daemon/src/fuzzing", "crates/fobs-daemon/src/hostile", "crates/fobs-sim"];
/// Lines above in which the reason may stand: the statement before may share it.
const LINES_ABOVE: usize = 2;

/// `let _ =` and `unwrap_or(false)` without a comment.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let rooms = |(file, _): &(&File, _)| {
        ROOMS.iter().any(|room| file.path.starts_with(room))
            && !INSTRUMENTS.iter().any(|room| file.path.starts_with(room))
            && !is_test(file)
    };
    for (file, syntax) in tree.rust().filter(rooms) {
        let mut drops = Drops::default();
        drops.visit_file(syntax);
        let lines: Vec<&str> = file.text.lines().collect();
        for (line, what) in drops.found {
            let near = &lines[(line - 1).saturating_sub(LINES_ABOVE)..line];
            if !near.iter().any(|line| line.contains("//")) {
                let message = format!("`{what}` drops a failure: say above it why that is right");
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings
}

#[derive(Default)]
struct Drops {
    found: Vec<(usize, &'static str)>,
}

impl<'ast> Visit<'ast> for Drops {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let tests = |attribute: &syn::Attribute| {
            matches!(&attribute.meta, syn::Meta::List(list) if list.path.is_ident("cfg")
                && list.tokens.to_string().starts_with("test"))
        };
        if !item.attrs.iter().any(tests) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        // Writing to a text does not fail, nor does what a call has returned long before.
        let cannot_fail = |init: &syn::Expr| matches!(init, syn::Expr::Macro(_) | syn::Expr::Path(_));
        let fails = local.init.as_ref().is_some_and(|init| !cannot_fail(&init.expr));
        if matches!(local.pat, syn::Pat::Wild(_)) && fails {
            self.found.push((local.span().start().line, "let _ ="));
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let is_false = |argument: &syn::Expr| matches!(argument, syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Bool(value), .. }) if !value.value);
        if call.method == "unwrap_or" && call.args.first().is_some_and(is_false) {
            self.found.push((call.method.span().start().line, "unwrap_or(false)"));
        }
        visit::visit_expr_method_call(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_dropped_with_a_reason() {
        let table = [
            ("fn f() {\n    let _ = g();\n}", 1),
            ("fn f() {\n    // It may be gone.\n    let _ = g();\n}", 0),
            ("fn f() {\n    // Both may be gone.\n    let _ = g();\n    let _ = h();\n}", 0),
            ("fn f() {\n    g().unwrap_or(false)\n}", 1),
            ("fn f() {\n    g().unwrap_or(true)\n}", 0),
            ("fn f(t: &mut String) {\n    let _ = write!(t, \"a\");\n}", 0),
            ("#[cfg(test)]\nmod tests {\n    fn f() {\n        let _ = g();\n    }\n}", 0),
        ];
        for (text, expected) in table {
            assert_eq!(check(&Tree::of(&[("crates/a/src/b.rs", text)])).len(), expected, "{text}");
        }
        assert_eq!(check(&Tree::of(&[("lab/src/b.rs", "fn f() { let _ = g(); }")])), []);
    }
}
