//! Filters: which names are part of a transfer and which may be deleted, in rsync's language.
//!
//! [`Filter`] is the list of rules that a user gave; [`Chain`] is the list on the walk through a tree, with
//! the rules of the directories' own filter files. [`names_from`] is the list of `--files-from`. The first
//! rule that matches a name decides. The sender filters what it lists; the receiver's rules protect names
//! from deletion.
//!
//! A rule enters as a user wrote it ([`Filter::add_rule`]) and travels as text
//! ([`FilterRules`]), which the other end parses again
//! ([`Filter::of`]): what a filter costs is bounded there. On a walk each directory is entered
//! ([`Chain::enter`]), each of its names judged ([`Chain::judge`]), and the directory left.
//!
//! It must not know files: the walk hands in the text of a filter file and asks about paths as bytes.

#![forbid(unsafe_code)]

mod chain;
pub mod glob;
pub mod names_from;
pub mod path;
mod pattern;
mod rule;
mod rule_list;
mod work;
mod xattrs;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use crate::path::show;
pub use chain::{Chain, DIRECTORY_FILE_MAX, Perishable, ReadFile};
pub use fobs_model::filter_rules::{FilterRules, Separator};
pub use glob::PATTERN_LEN_MAX;
pub use pattern::NameKind;
pub use rule::{Action, Side};
use rule::{DirectoryFile, FileStyle, PatternRule, Written};
pub use xattrs::XattrRules;

/// Most bytes of rules: as base64 they fit a control frame of 1 MiB beside 16 KiB of other members.
pub const RULES_LEN_MAX: usize = 640 << 10;
/// Most rules: four bytes each as text, more than lists of names have in practice.
pub const RULES_MAX: usize = 100_000;
/// Most files of rules that every directory may have: each costs an attempt to open it in every directory.
pub const DIRECTORY_FILES_MAX: usize = 64;
/// Files of rules within files of rules: more is a circle.
const DEPTH_MAX: usize = 16;

/// Why a filter is not possible: one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FilterError(String);

/// An ordered list of filter rules.
///
/// ```
/// use fobs_filter::{Action, Filter};
///
/// let mut filter = Filter::default();
/// filter.add_pattern(Action::Exclude, b"*.o")?;
/// filter.add_rule(b"protect /lost+found", &mut |_| unreachable!("it names no file"))?;
/// assert!(!filter.is_empty());
/// # Ok::<(), fobs_filter::FilterError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    rules: Vec<Rule>,
    /// Bytes of the rules as text.
    len: usize,
    /// Rules that name a file of each directory.
    directory_files: usize,
    /// How lines end in files of rules.
    separator: Separator,
    /// Rules without a side are for the sender only.
    delete_excluded: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Pattern(Arc<PatternRule>),
    DirectoryFile(Arc<DirectoryFile>),
}

/// Reads a file of rules by its name, `-` for standard input.
pub type ReadRules<'a> = dyn FnMut(&[u8]) -> io::Result<Vec<u8>> + 'a;

impl Filter {
    /// An empty filter. `separator` ends the lines of files of rules; with `delete_excluded`, rules that say
    /// no side do not protect names at the receiver.
    pub fn new(separator: Separator, delete_excluded: bool) -> Filter {
        Filter { separator, delete_excluded, ..Filter::default() }
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Adds a rule as `--filter` takes it. `read` reads the files that it names.
    ///
    /// # Errors
    /// Rules that are malformed or not built, files that cannot be read, too many bytes of rules.
    pub fn add_rule(&mut self, rule: &[u8], read: &mut ReadRules<'_>) -> Result<(), FilterError> {
        self.add(rule, FileStyle::RULES, read, 0)
    }

    /// Adds a pattern as `--exclude` and `--include` take it.
    ///
    /// # Errors
    /// As [`add_rule`](Self::add_rule).
    pub fn add_pattern(&mut self, action: Action, pattern: &[u8]) -> Result<(), FilterError> {
        self.add(pattern, FileStyle::patterns(action), &mut no_files, 0)
    }

    /// Adds the lines of a file as `--exclude-from` and `--include-from` take it.
    ///
    /// # Errors
    /// As [`add_rule`](Self::add_rule).
    pub fn add_patterns(&mut self, action: Action, text: &[u8]) -> Result<(), FilterError> {
        let style = FileStyle::patterns(action);
        style
            .split(text, self.separator)
            .into_iter()
            .try_for_each(|line| self.add(line, style, &mut no_files, 0))
    }

    /// The rules, each as `--filter` takes it; no rule names a file to be read at once.
    pub fn to_rules(&self) -> Vec<Vec<u8>> {
        self.rules.iter().map(Rule::text).collect()
    }

    /// The same as data, for a request.
    pub fn rules(&self) -> FilterRules {
        FilterRules {
            rules: self.to_rules(),
            separator: self.separator,
            delete_excluded: self.delete_excluded,
        }
    }

    /// The filter with these rules, which may come from another host.
    ///
    /// # Errors
    /// As [`add_rule`](Self::add_rule), and a rule that names a file to be read at once.
    pub fn of(rules: &FilterRules) -> Result<Filter, FilterError> {
        let mut filter = Filter::new(rules.separator, rules.delete_excluded);
        for rule in &rules.rules {
            filter.add_rule(rule, &mut no_files)?;
        }
        Ok(filter)
    }

    /// The rules for this side up to the first that another host may judge otherwise: a file of each
    /// directory, or a pattern for absolute paths.
    pub fn portable(&self, side: Side) -> Filter {
        let known_anywhere = |rule: &&Rule| match rule {
            Rule::Pattern(rule) => !rule.is_absolute() || !rule.sides.include(side, self.delete_excluded),
            Rule::DirectoryFile(file) => !file.style.is_for(side),
        };
        Filter { rules: self.rules.iter().take_while(known_anywhere).cloned().collect(), ..*self }
    }

    fn add(
        &mut self,
        rule: &[u8],
        style: FileStyle,
        read: &mut ReadRules<'_>,
        depth: usize,
    ) -> Result<(), FilterError> {
        let fail =
            |why: String| FilterError(format!("the filter rule '{}' is not possible: {why}", show(rule)));
        for written in style.parse(rule, None).map_err(fail)? {
            match written {
                Written::Clear => (self.rules, self.len, self.directory_files) = (Vec::new(), 0, 0),
                Written::Pattern(pattern) => self.push(Rule::Pattern(pattern)).map_err(fail)?,
                Written::DirectoryFile(file) => self.push(Rule::DirectoryFile(file)).map_err(fail)?,
                Written::File { .. } if depth == DEPTH_MAX => {
                    return Err(fail(format!("files of rules name each other more than {DEPTH_MAX} deep")));
                }
                Written::File { name, style } => {
                    let text = read(&name).map_err(|error| fail(error.to_string()))?;
                    for line in style.split(&text, self.separator) {
                        self.add(line, style, read, depth + 1)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, rule: Rule) -> Result<(), String> {
        self.len += rule.text().len();
        if self.len > RULES_LEN_MAX {
            return Err(format!("all rules together are longer than {} KiB", RULES_LEN_MAX >> 10));
        }
        if self.rules.len() == RULES_MAX {
            return Err(format!("there are more than {RULES_MAX} rules; use patterns in place of names"));
        }
        if let Rule::DirectoryFile(_) = rule {
            self.directory_files += 1;
        }
        if self.directory_files > DIRECTORY_FILES_MAX {
            return Err(format!(
                "there are more than {DIRECTORY_FILES_MAX} rules that name a file of each directory; name fewer files"
            ));
        }
        self.rules.push(rule);
        Ok(())
    }
}

impl Rule {
    fn text(&self) -> Vec<u8> {
        match self {
            Rule::Pattern(rule) => rule.text(),
            Rule::DirectoryFile(file) => file.text(),
        }
    }
}

fn no_files(_: &[u8]) -> io::Result<Vec<u8>> {
    Err(io::Error::other("a file of rules cannot be named here"))
}
