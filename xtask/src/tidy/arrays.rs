//! A table that grows is a slice: a new row changes no number elsewhere.

use super::Finding;
use super::rooms::is_test;
use super::source::{File, Tree};
use std::path::Path;
use syn::visit::{self, Visit};

/// Constant arrays of a counted length in the crates; those of numbers may be as long as they mean.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, syntax) in tree.rust().filter(|(file, _): &(&File, _)| file.path.starts_with("crates")) {
        if !is_test(file) {
            let mut tables = Tables { path: &file.path, findings: Vec::new() };
            tables.visit_file(syntax);
            findings.append(&mut tables.findings);
        }
    }
    findings
}

struct Tables<'a> {
    path: &'a Path,
    findings: Vec<Finding>,
}

impl Tables<'_> {
    fn judge(&mut self, name: &syn::Ident, of: &syn::Type) {
        let syn::Type::Array(array) = of else { return };
        let is_counted = matches!(array.len, syn::Expr::Lit(_));
        let is_number = match &*array.elem {
            syn::Type::Path(path) => path.path.segments.last().is_some_and(|last| {
                last.ident.to_string().starts_with(|letter: char| letter.is_ascii_lowercase())
            }),
            syn::Type::Array(_) => true,
            _ => false,
        };
        if is_counted && !is_number {
            let message = format!("`{name}` has a length kept by hand: make it a slice, `&[...]`");
            self.findings.push(Finding::new(self.path, name.span().start().line, message));
        }
    }
}

impl<'ast> Visit<'ast> for Tables<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let is_tests = |attribute: &syn::Attribute| {
            matches!(&attribute.meta, syn::Meta::List(list) if list.path.is_ident("cfg")
                && list.tokens.to_string().starts_with("test"))
        };
        if !item.attrs.iter().any(is_tests) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.judge(&item.ident, &item.ty);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.judge(&item.ident, &item.ty);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.judge(&item.ident, &item.ty);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_a_slice() {
        let table = [
            ("const ALL: [Kind; 2] = [Kind::A, Kind::B];", 1),
            ("impl Kind {\n    pub const ALL: [Kind; 2] = [Kind::A, Kind::B];\n}", 1),
            ("static NAMES: [(&str, u8); 1] = [(\"a\", 1)];", 1),
            ("const ALL: &[Kind] = &[Kind::A, Kind::B];", 0),
            ("const TABLE: [(Kind, bool); Kind::ALL.len()] = make();", 0),
            ("const KEY: [u8; 32] = [0; 32];", 0),
            ("#[cfg(test)]\nmod tests {\n    const ALL: [Kind; 2] = [Kind::A, Kind::B];\n}", 0),
        ];
        for (text, expected) in table {
            assert_eq!(check(&Tree::of(&[("crates/a/src/b.rs", text)])).len(), expected, "{text}");
        }
        assert_eq!(check(&Tree::of(&[("crates/a/src/tests/b.rs", table[0].0)])), []);
    }
}
