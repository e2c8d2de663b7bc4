//! The rules that hold in the directory of a walk.

use std::io;
use std::sync::Arc;

use super::super::path::show;
use super::pattern::NameKind;
use super::rule::{Action, DirectoryFile, PatternRule, Side, Written};
use super::{Filter, Rule};

/// Largest filter file of a directory, bytes; the walk reports a larger one.
pub const DIRECTORY_FILE_MAX: usize = 64 << 10;

/// The rules of one directory file, those of inner directories first.
type Inherited = Arc<[Arc<PatternRule>]>;

/// Whether perishable rules count: not in a directory that is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Perishable {
    /// They do.
    Counted,
    /// They do not.
    Ignored,
}

/// Reads a filter file of a directory, by its path; `None` where there is none.
pub type ReadFile<'a> = dyn FnMut(&[u8]) -> io::Result<Option<Vec<u8>>> + 'a;

/// A filter on the walk through a tree. Paths are relative to the transfer's top.
#[derive(Debug)]
pub struct Chain {
    filter: Arc<Filter>,
    side: Side,
    /// The absolute path of the top, without slashes around it.
    top: Vec<u8>,
    /// For each directory entered, the rules of each directory file of the filter; empty without such files.
    levels: Vec<Vec<Inherited>>,
}

impl Chain {
    /// The rules of one side. `top` is the absolute path of the directory that paths are relative to, for
    /// rules with absolute patterns.
    pub fn new(filter: Arc<Filter>, side: Side, top: &[u8]) -> Chain {
        let end = top.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        let start = top[..end].iter().position(|&byte| byte != b'/').unwrap_or(end);
        Chain { filter, side, top: top[start..end].to_vec(), levels: Vec::new() }
    }

    /// Enters a directory, and reads its filter files with `read`, which returns `None` where there is none.
    ///
    /// # Errors
    /// One sentence for each file that could not be used; the directory is entered all the same.
    pub fn enter(&mut self, directory: &[u8], read: &mut ReadFile<'_>) -> Vec<String> {
        if !self.filter.has_directory_files() {
            return Vec::new();
        }
        let mut failures = Vec::new();
        let outer = self.levels.last();
        let files = self.filter.rules.iter().filter_map(|rule| match rule {
            Rule::DirectoryFile(file) => Some(file),
            Rule::Pattern(_) => None,
        });
        let level = files.enumerate().map(|(index, file)| {
            let inherited = match outer {
                Some(level) if !file.local => Arc::clone(&level[index]),
                _ => Inherited::default(),
            };
            if !file.style.is_for(self.side) {
                return inherited;
            }
            let read = read(&file.name).map_err(|error| error.to_string()).and_then(|text| match text {
                Some(text) => self.rules(file, &text, directory, &inherited),
                None => Ok(Arc::clone(&inherited)),
            });
            read.unwrap_or_else(|why| {
                let name = super::super::path::join(directory, &file.name);
                failures.push(format!("cannot use the filter file '{}': {why}", show(&name)));
                inherited
            })
        });
        let level = level.collect();
        self.levels.push(level);
        failures
    }

    /// Leaves the directory that was entered last.
    pub fn leave(&mut self) {
        self.levels.pop();
    }

    /// What the first rule that matches says of a name; `None` if none does.
    pub fn judge(&self, path: &[u8], kind: NameKind, perishable: Perishable) -> Option<Action> {
        let counts = |rule: &PatternRule| {
            rule.sides.include(self.side, self.filter.delete_excluded)
                && !(rule.perishable && perishable == Perishable::Ignored)
                && rule.matches(path, kind, &self.top)
        };
        let mut files = 0;
        for rule in &self.filter.rules {
            let found = match rule {
                Rule::Pattern(rule) => counts(rule).then_some(rule),
                Rule::DirectoryFile(_) => {
                    files += 1;
                    let inherited = self.levels.last().map(|level| &level[files - 1]);
                    inherited.and_then(|rules| rules.iter().find(|rule| counts(rule)))
                }
            };
            if let Some(rule) = found {
                return Some(rule.action);
            }
        }
        None
    }

    /// Whether a name is left out.
    pub fn excludes(&self, path: &[u8], kind: NameKind) -> bool {
        self.judge(path, kind, Perishable::Counted) == Some(Action::Exclude)
    }

    /// The rules of a directory's file, before those that it inherits.
    fn rules(
        &self,
        file: &DirectoryFile,
        text: &[u8],
        directory: &[u8],
        inherited: &Inherited,
    ) -> Result<Inherited, String> {
        if text.len() > DIRECTORY_FILE_MAX {
            return Err(format!("it is larger than {} KiB", DIRECTORY_FILE_MAX >> 10));
        }
        let mut rules = Vec::new();
        let mut after: &[Arc<PatternRule>] = inherited;
        for line in file.style.split(text, self.filter.separator) {
            let written = file.style.parse(line, Some(directory));
            for written in
                written.map_err(|why| format!("the rule '{}' is not possible: {why}", show(line)))?
            {
                match written {
                    Written::Pattern(rule) => rules.push(rule),
                    Written::Clear => {
                        rules.clear();
                        after = &[];
                    }
                    // `parse` refuses them in a directory's file.
                    Written::File { .. } | Written::DirectoryFile(_) => {}
                }
            }
        }
        if rules.len() + after.len() > INHERITED_MAX {
            return Err(format!(
                "with those of the directories above, it has more than {INHERITED_MAX} rules"
            ));
        }
        Ok(rules.iter().chain(after).cloned().collect())
    }
}

/// Most rules of the directory files on one path: each directory's file may have as many.
const INHERITED_MAX: usize = 65_536;
