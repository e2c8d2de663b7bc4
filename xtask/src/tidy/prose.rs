//! Plain English in comments and documents: the words of the field, in the present tense (docs/glossary.md).

use super::Finding;
use super::source::Tree;
use regex::Regex;
use std::sync::LazyLock;

/// Expressions of the old dialect and what to write instead.
const BANNED: &[(&str, &str)] = &[
    (r"\b[Ww]hoever\b", "name it: the flow, the peer, the user"),
    (r"\b(he|him|his)\b", "a flow is `it`"),
    (r"\b(is|are|was|were|be) on (its|their) way\b", "`in flight`"),
    (r"\bunder way\b", "`in flight` or `running`"),
    (r"\bbeyond the product\b", "`in excess of the bandwidth-delay product`"),
    (r"\b[Bb]y turns\b", "`interleaved`"),
    (r"\bof late\b", "`recently`"),
    (r"\bsomebody\b", "name it: another flow, the peer, the user"),
    (
        r"\b(the|a) (train|probe|drain|path|kernel|ack) (tells|told|says|said|hears|heard)\b",
        "`measures`, `shows`, `reports`",
    ),
    (r"\bfor want of\b", "`for lack of`, or say what is missing"),
    (r"\b[Ss]o (many|much|few|little) ([a-z]{2,}s|more|of|is|was|from|longer)\b", "name the parameter"),
    (r"\bhas its own idea\b", "say what differs"),
    (
        r"\b[Ww]ho (has|gives|joins|resumes|sends|learns|loses|delivers|yields|knows|drives|finds)\b",
        "name it",
    ),
];

static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    BANNED
        .iter()
        .map(|&(pattern, instead)| (Regex::new(pattern).expect("a valid pattern"), instead))
        .collect()
});

/// Where the old dialect is spoken.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let source = file.syntax.is_some();
        let prose = source || file.path.extension().is_some_and(|extension| extension == "md");
        // The glossary names the words that it retires.
        if !prose || file.path.ends_with("docs/glossary.md") || file.path.ends_with("tidy/prose.rs") {
            continue;
        }
        for (number, line) in file.text.lines().enumerate() {
            let text = if source { comment(line) } else { Some(line) };
            let Some(text) = text else { continue };
            for (pattern, instead) in PATTERNS.iter() {
                if let Some(found) = pattern.find(text) {
                    let message = format!("{:?}: {instead}", found.as_str());
                    findings.push(Finding::new(&file.path, number + 1, message));
                }
            }
        }
    }
    findings
}

/// The comment that a line of Rust is, if it is one.
fn comment(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn the_old_dialect_is_found_in_prose_and_not_in_code() {
        assert_eq!(findings("a.rs", "/// Whoever gives way, whoever does not.\nfn f() {}"), 1);
        assert_eq!(findings("a.rs", "// whoever gives way does so while he can\nfn f() {}"), 2);
        assert_eq!(findings("a.rs", "fn whoever() {}"), 0);
        assert_eq!(findings("a.rs", "    // Whoever asks has it.\nfn f() {}"), 1);
        assert_eq!(findings("a.rs", "/// Nothing gets through for so many milliseconds.\nfn f() {}"), 1);
        assert_eq!(findings("a.rs", "/// So many streams are to be open.\nfn f() {}"), 1);
        assert_eq!(findings("a.rs", "/// Not so much as one, and so many that none fits.\nfn f() {}"), 0);
        assert_eq!(findings("a.rs", "/// The head of the list is the header.\nfn f() {}"), 0);
        assert_eq!(findings("docs/a.md", "bytes that are on their way"), 1);
        assert_eq!(findings("docs/a.md", "bytes in flight"), 0);
        assert_eq!(findings("docs/glossary.md", "bytes that are on their way"), 0);
    }
}
