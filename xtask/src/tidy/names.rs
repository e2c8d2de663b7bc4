//! Type names whose meanings could meet in one reader's head are unique in the workspace (docs/glossary.md).

use super::Finding;
use super::source::Tree;
use std::collections::BTreeMap;
use syn::visit::{self, Visit};

/// Names that may stand for one type only.
const UNIQUE: &[&str] = &["Intake", "Ledger", "Limit", "Report", "State", "Verdict", "Wait"];

/// Second and later definitions.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut findings = Vec::new();
    for (file, syntax) in tree.rust() {
        let mut types = Types::default();
        types.visit_file(syntax);
        for (name, line) in types.found.into_iter().filter(|(name, _)| UNIQUE.contains(&name.as_str())) {
            let place = format!("{}:{line}", file.path.display());
            if let Some(first) = seen.get(&name) {
                let message = format!("a second type `{name}`, after {first}: say what this one means");
                findings.push(Finding::new(&file.path, line, message));
            } else {
                seen.insert(name, place);
            }
        }
    }
    findings
}

#[derive(Default)]
struct Types {
    found: Vec<(String, usize)>,
}

impl Types {
    fn take(&mut self, name: &syn::Ident) {
        self.found.push((name.to_string(), name.span().start().line));
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.take(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.take(&item.ident);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.take(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.take(&item.ident);
        visit::visit_item_trait(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_meaning_of_a_word_is_found() {
        let found = check(&Tree::of(&[
            ("a.rs", "struct Verdict; struct Verdicts; mod inner { enum State {} }"),
            ("b.rs", "enum Verdict {} struct Other;"),
        ]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.contains("a.rs:1"), "{}", found[0].message);
    }
}
