//! The rules that hold in the directory of a walk.

use std::hash::RandomState;
use std::sync::Arc;
use std::{io, iter, mem};

use super::glob::mask_of;
use super::pattern::NameKind;
use super::rule::{Action, DirectoryFile, PatternRule, Side, Written};
use super::rule_list::{Judged, RuleList};
use super::work::{STEPS_FREE, STEPS_PER_NAME, Work};
use super::xattrs::XattrRules;
use super::{DIRECTORY_FILES_MAX, Filter, Rule};
use crate::path::show;
use fobs_model::budget::{MemoryBudget, Spent};
use fobs_model::error::{Error, ErrorKind};

/// Largest filter file of a directory, bytes; the walk reports a larger one.
pub const DIRECTORY_FILE_MAX: usize = 64 << 10;
/// Most rules of the directory files on one path: each directory's file may have as many.
const INHERITED_MAX: usize = 65_536;

/// The rules of one directory file in a directory: its own there, before those of the directories above.
/// Those are shared.
#[derive(Debug)]
struct FileRules {
    own: Vec<Part>,
    above: Inherited,
    /// All together.
    count: usize,
}

type Inherited = Option<Arc<FileRules>>;

/// The rules of each directory file in one directory, those that rules of the first ones name behind them.
/// Directories without such files share it.
type Level = Arc<[Inherited]>;

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
    top_mask: u64,
    parts: Vec<Part>,
    /// Those of the filter, then those that directory files name, up to the current directory.
    files: Vec<Arc<DirectoryFile>>,
    /// How many the filter has.
    own_files: usize,
    /// For each directory entered; empty without directory files.
    levels: Vec<Level>,
    /// How many levels there were with the outermost whose rules are not known; there and below nothing is
    /// taken, since a rule that could not be read may have left it out.
    unknown_from: Option<usize>,
    hashes: RandomState,
    budget: MemoryBudget,
    work: Work,
    /// The budget had no room for the rules.
    spent: Option<Spent>,
}

/// A part of the filter.
#[derive(Debug)]
enum Part {
    Rules(RuleList),
    /// The directory file with this number.
    File(usize),
}

impl Chain {
    /// The rules of one side. `top` is the absolute path of the directory that paths are relative to, for
    /// rules with absolute patterns.
    pub fn new(filter: Arc<Filter>, side: Side, top: &[u8]) -> Chain {
        Chain::build(filter, side, top, &MemoryBudget::of(usize::MAX))
    }

    /// The same, charged to the budget of a session.
    ///
    /// # Errors
    /// The rules do not fit it.
    pub fn within(
        filter: Arc<Filter>,
        side: Side,
        top: &[u8],
        budget: &MemoryBudget,
    ) -> Result<Chain, Spent> {
        let mut chain = Chain::build(filter, side, top, budget);
        match chain.spent.take() {
            None => Ok(chain),
            Some(spent) => Err(spent),
        }
    }

    fn build(filter: Arc<Filter>, side: Side, top: &[u8], budget: &MemoryBudget) -> Chain {
        let end = top.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        let start = top[..end].iter().position(|&byte| byte != b'/').unwrap_or(end);
        let mut chain = Chain {
            filter,
            side,
            top: top[start..end].to_vec(),
            top_mask: mask_of(&top[start..end]),
            parts: Vec::new(),
            files: Vec::new(),
            own_files: 0,
            levels: Vec::new(),
            unknown_from: None,
            hashes: RandomState::new(),
            budget: budget.clone(),
            work: Work::new(),
            spent: None,
        };
        let mut rules = Vec::new();
        for rule in &Arc::clone(&chain.filter).rules {
            match rule {
                Rule::Pattern(rule) => rules.push(Arc::clone(rule)),
                Rule::DirectoryFile(file) => {
                    chain.add(mem::take(&mut rules));
                    chain.parts.push(Part::File(chain.files.len()));
                    chain.files.push(Arc::clone(file));
                }
            }
        }
        chain.add(rules);
        chain.own_files = chain.files.len();
        chain
    }

    fn add(&mut self, rules: Vec<Arc<PatternRule>>) {
        if rules.is_empty() {
            return;
        }
        match RuleList::new(rules, &self.top, &self.hashes, &self.budget) {
            Ok(list) => self.parts.push(Part::Rules(list)),
            Err(spent) => self.spent = Some(spent),
        }
    }

    /// Why names are not judged any more: the rules took more work than they may. Then every name is
    /// excluded, which transfers and deletes nothing.
    pub fn failure(&self) -> Option<Error> {
        self.work.is_spent().then(|| {
            let message = format!(
                "the filter rules take too much work: {STEPS_FREE} steps of matching, and {STEPS_PER_NAME} more for \
                 each name; use fewer patterns with wildcards, or shorter ones"
            );
            Error::new(ErrorKind::Usage, message)
        })
    }

    /// Enters a directory, and reads its filter files with `read`, which returns `None` where there is none.
    ///
    /// # Errors
    /// One sentence for each file that could not be used; then everything in the directory is excluded.
    pub fn enter(&mut self, directory: &[u8], read: &mut ReadFile<'_>) -> Vec<String> {
        if self.files.is_empty() {
            return Vec::new();
        }
        let mut failures = Vec::new();
        let outer = self.levels.last().cloned();
        let shared: Arc<[u8]> = directory.into();
        let mut level: Vec<Inherited> = Vec::new();
        // A file may name further ones, which are read in this directory too.
        while let Some(file) = self.files.get(level.len()).cloned() {
            let inherited = match &outer {
                Some(outer) if !file.local => outer.get(level.len()).cloned().flatten(),
                _ => Inherited::default(),
            };
            if !file.style.is_for(self.side) {
                level.push(inherited);
                continue;
            }
            let read = read(&file.name).map_err(|error| error.to_string()).and_then(|text| match text {
                Some(text) => self.rules(&file, &text, &shared, &inherited),
                None => Ok(inherited.clone()),
            });
            level.push(read.unwrap_or_else(|why| {
                let name = crate::path::join(directory, &file.name);
                failures.push(format!("cannot use the filter file '{}': {why}", show(&name)));
                inherited
            }));
        }
        let is_outer = |outer: &Level| {
            outer.len() == level.len() && outer.iter().zip(&level).all(|(outer, inner)| is_same(outer, inner))
        };
        self.levels.push(outer.filter(is_outer).unwrap_or_else(|| level.into()));
        if !failures.is_empty() {
            self.unknown_from.get_or_insert(self.levels.len());
        }
        failures
    }

    /// Leaves the directory that was entered last.
    pub fn leave(&mut self) {
        self.levels.pop();
        self.unknown_from = self.unknown_from.filter(|&count| count <= self.levels.len());
        let known = self.levels.last().map_or(self.own_files, |level| level.len());
        self.files.truncate(known);
    }

    /// What the first rule that matches says of a name; `None` if none does. See also
    /// [`failure`](Self::failure).
    pub fn judge(&self, path: &[u8], kind: NameKind, perishable: Perishable) -> Option<Action> {
        if self.unknown_from.is_some() {
            return Some(Action::Exclude);
        }
        if self.parts.is_empty() {
            return None;
        }
        let counts = |rule: &PatternRule| {
            rule.sides.include(self.side, self.filter.delete_excluded)
                && !(rule.perishable && perishable == Perishable::Ignored)
        };
        let name = Judged::new(path, kind, (&self.top, self.top_mask), &self.hashes);
        let mut steps = self.work.begin();
        let found = find(&self.parts, self.levels.last(), &mut |list| list.find(&name, &counts, &mut steps));
        if steps.are_spent() {
            return Some(Action::Exclude);
        }
        found.map(|rule| rule.action)
    }

    /// Whether a name is left out.
    pub fn excludes(&self, path: &[u8], kind: NameKind) -> bool {
        self.judge(path, kind, Perishable::Counted) == Some(Action::Exclude)
    }

    /// The rules for names of extended attributes in the directory that was entered last, where the files of
    /// directories have such; the filter's own are [`XattrRules::of`].
    pub fn xattr_rules(&self) -> Option<XattrRules> {
        let level = self.levels.last()?;
        let is_said = |rules: &FileRules| {
            rules.own.iter().any(|part| matches!(part, Part::Rules(list) if !list.of_xattrs.is_empty()))
        };
        let all =
            level.iter().flat_map(|file| iter::successors(file.as_deref(), |file| file.above.as_deref()));
        if !all.into_iter().any(is_said) {
            return None;
        }
        let mut rules = Vec::new();
        find(&self.parts, Some(level), &mut |list| {
            rules.extend(list.of_xattrs.iter().cloned());
            None
        });
        Some(XattrRules::new(rules, self.side, self.filter.delete_excluded))
    }

    /// Steps of matching that are left.
    #[cfg(test)]
    pub(super) fn steps_left(&self) -> u64 {
        self.work.left().get()
    }

    /// Sets how many are left.
    #[cfg(any(test, feature = "testing"))]
    pub fn leave_steps(&self, left: u64) {
        self.work.left().set(left);
    }

    /// The rules of a directory's file, before those that it inherits.
    fn rules(
        &mut self,
        file: &DirectoryFile,
        text: &[u8],
        directory: &Arc<[u8]>,
        inherited: &Inherited,
    ) -> Result<Inherited, String> {
        if text.len() > DIRECTORY_FILE_MAX {
            return Err(format!("it is larger than {} KiB", DIRECTORY_FILE_MAX >> 10));
        }
        let mut named = Vec::new();
        let (mut own, mut rules, mut count) = (Vec::new(), Vec::new(), 0);
        let mut above = inherited.clone();
        for (line, number) in file.style.split(text, self.filter.separator).into_iter().zip(1..) {
            let written = file.style.parse(line, Some(directory));
            for written in
                // What a file says is not for everybody who may name it.
                written.map_err(|why| format!("its rule {number} is not possible: {why}"))?
            {
                match written {
                    Written::Pattern(rule) => {
                        count += 1;
                        rules.push(rule);
                    }
                    Written::Clear => {
                        (own, rules, count) = (Vec::new(), Vec::new(), 0);
                        named.clear();
                        above = None;
                    }
                    // As rsync: one that was named already counts where it was.
                    Written::DirectoryFile(file) if !self.is_new(&file, &named) => {}
                    Written::DirectoryFile(file) => {
                        own.extend(self.list(mem::take(&mut rules))?);
                        own.push(Part::File(self.files.len() + named.len()));
                        named.push(file);
                    }
                    // `parse` refuses them in a directory's file.
                    Written::File { .. } => {}
                }
            }
        }
        if self.files.len() + named.len() > DIRECTORY_FILES_MAX {
            return Err(format!(
                "more than {DIRECTORY_FILES_MAX} rules name a file of each directory; name fewer files"
            ));
        }
        count += above.as_ref().map_or(0, |above| above.count);
        if count > INHERITED_MAX {
            return Err(format!(
                "with those of the directories above, it has more than {INHERITED_MAX} rules"
            ));
        }
        own.extend(self.list(rules)?);
        if own.is_empty() {
            return Ok(above);
        }
        self.files.append(&mut named);
        Ok(Some(Arc::new(FileRules { own, above, count })))
    }

    /// Whether a file of each directory is for this side and was not named yet.
    fn is_new(&self, file: &DirectoryFile, named: &[Arc<DirectoryFile>]) -> bool {
        let is_known = self.files.iter().chain(named).any(|known| known.name == file.name);
        !is_known && file.style.is_for(self.side)
    }

    /// The part of these rules; none of none.
    fn list(&self, rules: Vec<Arc<PatternRule>>) -> Result<Option<Part>, String> {
        if rules.is_empty() {
            return Ok(None);
        }
        let list = RuleList::new(rules, &self.top, &self.hashes, &self.budget);
        list.map(|list| Some(Part::Rules(list))).map_err(|spent| spent.to_string())
    }
}

/// The first rule of the parts, in their order, that is found in a list. A file is part of one list alone, so
/// none is looked into twice.
fn find<'a>(
    parts: &'a [Part],
    level: Option<&'a Level>,
    find_in: &mut dyn FnMut(&'a RuleList) -> Option<&'a PatternRule>,
) -> Option<&'a PatternRule> {
    parts.iter().find_map(|part| match part {
        Part::Rules(list) => find_in(list),
        Part::File(index) => {
            let first = level.and_then(|level| level.get(*index)?.as_deref());
            let mut files = iter::successors(first, |file| file.above.as_deref());
            files.find_map(|file| find(&file.own, level, find_in))
        }
    })
}

/// Whether both are the rules of one directory.
fn is_same(one: &Inherited, other: &Inherited) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}
