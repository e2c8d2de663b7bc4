//! Files, functions and comments have a largest size.

use super::Finding;
use super::source::Tree;
use proc_macro2::Span;
use std::path::Path;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Lines of a Rust source: about 300 is the aim, this is the wall.
const FILE_LINES_MAX: usize = 500;
/// Lines of a function with its signature.
const FUNCTION_LINES_MAX: usize = 70;
/// Columns of a line that is a comment.
const COMMENT_COLUMNS_MAX: usize = 110;
/// Lines of the README, which is an overview.
const README_LINES_MAX: usize = 120;

/// What is too long.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, syntax) in tree.rust() {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            let message = format!("{lines} lines, more than {FILE_LINES_MAX}: divide the file by purpose");
            findings.push(Finding::new(&file.path, 0, message));
        }
        for (number, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if line.trim_start().starts_with("//") && columns > COMMENT_COLUMNS_MAX {
                let message = format!("a comment of {columns} columns, more than {COMMENT_COLUMNS_MAX}");
                findings.push(Finding::new(&file.path, number + 1, message));
            }
        }
        let mut functions = Functions { path: &file.path, findings: &mut findings };
        functions.visit_file(syntax);
    }
    for file in tree.documents().filter(|file| file.path == Path::new("README.md")) {
        let lines = file.text.lines().count();
        if lines > README_LINES_MAX {
            let message =
                format!("{lines} lines, more than {README_LINES_MAX}: move details to docs/guide.md");
            findings.push(Finding::new(&file.path, 0, message));
        }
    }
    findings
}

struct Functions<'a> {
    path: &'a Path,
    findings: &'a mut Vec<Finding>,
}

impl Functions<'_> {
    fn measure(&mut self, name: &syn::Ident, whole: Span) {
        let lines = whole.end().line - whole.start().line + 1;
        if lines > FUNCTION_LINES_MAX {
            let message =
                format!("`{name}` has {lines} lines, more than {FUNCTION_LINES_MAX}: divide it by step");
            self.findings.push(Finding::new(self.path, whole.start().line, message));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        let start = function.sig.span();
        self.measure(&function.sig.ident, start.join(function.block.span()).unwrap_or(start));
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        let start = function.sig.span();
        self.measure(&function.sig.ident, start.join(function.block.span()).unwrap_or(start));
        visit::visit_impl_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<Finding> {
        check(&Tree::of(&[(path, text)]))
    }

    #[test]
    fn long_functions_files_and_comments_are_found() {
        let body = "    let _ = 1;\n";
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", body.repeat(lines - 2));
        assert_eq!(findings("a.rs", &function(FUNCTION_LINES_MAX)), []);
        assert_eq!(findings("a.rs", &function(FUNCTION_LINES_MAX + 1)).len(), 1);
        assert_eq!(findings("a.rs", &"// x\n".repeat(FILE_LINES_MAX)), []);
        assert_eq!(findings("a.rs", &"// x\n".repeat(FILE_LINES_MAX + 1)).len(), 1);
        let comment = |columns: usize| format!("//{}\n", "x".repeat(columns - 2));
        assert_eq!(findings("a.rs", &comment(COMMENT_COLUMNS_MAX)), []);
        assert_eq!(findings("a.rs", &comment(COMMENT_COLUMNS_MAX + 1)).len(), 1);
        assert_eq!(findings("README.md", &"x\n".repeat(README_LINES_MAX + 1)).len(), 1);
        assert_eq!(findings("docs/a.md", &"x\n".repeat(README_LINES_MAX + 1)), []);
    }
}
