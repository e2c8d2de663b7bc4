//! Rules in their order, arranged so that one without wildcards costs a look-up and not a comparison for each
//! name, and one with wildcards mostly a comparison of two words.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::glob::mask_of;
use super::pattern::{Fixed, NameKind, Subject};
use super::rule::PatternRule;
use super::work::Steps;
use fobs_model::budget::{Charge, Keeps, MemoryBudget, Spent};

/// Lists of fewer rules are compared one by one.
const LOOKED_UP_MIN: usize = 32;
/// Rules that are passed over in the time of one step of a match.
const PASSED_OVER_A_STEP: usize = 4;

/// A list of rules.
#[derive(Debug)]
pub(super) struct RuleList {
    /// Those of paths.
    rules: Vec<Arc<PatternRule>>,
    /// Those of names of extended attributes, in their order.
    pub(super) of_xattrs: Vec<Arc<PatternRule>>,
    /// Hashes of what a path must be, or end in, and the rules that say so; in order.
    fixed: Vec<(u64, u32)>,
    /// How many last components such rules compare, each number once.
    lengths: Vec<usize>,
    /// The other rules, in order.
    others: Vec<Other>,
    _charge: Charge,
}

/// A rule that is not looked up.
#[derive(Debug, Clone, Copy)]
struct Other {
    /// The bytes that a path must have ([`mask_of`]).
    mask: u64,
    index: u32,
    /// They must be in its last component.
    in_name: bool,
}

/// A name that is judged.
pub(super) struct Judged<'a> {
    path: &'a [u8],
    kind: NameKind,
    top: &'a [u8],
    hashes: &'a RandomState,
    /// The bytes in the last component, and in the whole absolute path.
    name_mask: u64,
    path_mask: u64,
}

impl<'a> Judged<'a> {
    /// `top` is the absolute path above it, and has the bytes of `top_mask`.
    pub(super) fn new(
        path: &'a [u8],
        kind: NameKind,
        (top, top_mask): (&'a [u8], u64),
        hashes: &'a RandomState,
    ) -> Judged<'a> {
        let slash = mask_of(b"/");
        let start = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        // A directory is compared with a slash at its end, too.
        let name_mask = mask_of(&path[start..]) | slash;
        let path_mask = mask_of(&path[..start]) | name_mask | top_mask;
        Judged { path, kind, top, hashes, name_mask, path_mask }
    }

    pub(super) fn matches(&self, rule: &PatternRule, steps: &mut Steps<'_>) -> bool {
        rule.matches(self.path, self.kind, self.top, &mut steps.taken)
    }
}

impl RuleList {
    /// The rules in this order; of those that say the same only the first. `top` is the absolute path above
    /// the names that they will judge.
    ///
    /// # Errors
    /// They do not fit the budget.
    pub(super) fn new(
        rules: Vec<Arc<PatternRule>>,
        top: &[u8],
        hashes: &RandomState,
        budget: &MemoryBudget,
    ) -> Result<RuleList, Spent> {
        let mut charge = budget.charge(Keeps::Rules);
        charge.grow(rules.capacity() * size_of::<Arc<PatternRule>>())?;
        charge.grow(rules.iter().map(|rule| rule.memory()).sum())?;
        let (rules, of_xattrs): (Vec<_>, Vec<_>) =
            rules.into_iter().partition(|rule| rule.subject == Subject::Path);
        let (mut fixed, mut lengths, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (rule, index) in rules.iter().zip(0_u32..) {
            let text = if rules.len() < LOOKED_UP_MIN { None } else { rule.fixed(top) };
            match text {
                Some(Fixed::Path(path)) => {
                    charge.push(&mut fixed, (hash_of(hashes, Place::Path, &path), index))?;
                }
                Some(Fixed::End(text, count)) => {
                    charge.push(&mut fixed, (hash_of(hashes, Place::End, text), index))?;
                    if !lengths.contains(&count) {
                        charge.push(&mut lengths, count)?;
                    }
                }
                Some(Fixed::Never) => {}
                None => {
                    let (mask, in_name) = rule.mask();
                    charge.push(&mut others, Other { mask, index, in_name })?;
                }
            }
        }
        fixed.sort_unstable();
        let mut list = RuleList { rules, of_xattrs, fixed, lengths, others, _charge: charge };
        if list.rules.len() >= LOOKED_UP_MIN {
            list.drop_hidden(hashes);
        }
        Ok(list)
    }

    /// Leaves out rules that never count, since one before them says the same.
    fn drop_hidden(&mut self, hashes: &RandomState) {
        let RuleList { rules, fixed, others, .. } = self;
        let hidden = |later: u32, earlier: u32| match (rules.get(later as usize), rules.get(earlier as usize))
        {
            (Some(later), Some(earlier)) => later.is_hidden_by(earlier),
            _ => false,
        };
        // Those of one text follow each other: few say different things of it.
        let mut kept: Vec<(u64, u32)> = Vec::new();
        fixed.retain(|&(hash, index)| {
            if kept.last().is_some_and(|last| last.0 != hash) {
                kept.clear();
            }
            let is_new = !kept.iter().any(|&(_, earlier)| hidden(index, earlier));
            if is_new {
                kept.push((hash, index));
            }
            is_new
        });
        let mut by_text: Vec<(u64, u32)> = others
            .iter()
            .filter_map(|other| {
                Some((hashes.hash_one(rules.get(other.index as usize)?.pattern_text()), other.index))
            })
            .collect();
        by_text.sort_unstable();
        let same = by_text.windows(2).filter(|two| two[0].0 == two[1].0 && hidden(two[1].1, two[0].1));
        let mut dropped: Vec<u32> = same.map(|two| two[1].1).collect();
        dropped.sort_unstable();
        others.retain(|other| dropped.binary_search(&other.index).is_err());
    }

    /// The first rule that matches among those that count.
    pub(super) fn find(
        &self,
        name: &Judged<'_>,
        counts: &dyn Fn(&PatternRule) -> bool,
        steps: &mut Steps<'_>,
    ) -> Option<&PatternRule> {
        let looked_up = self.look_up(name, counts, steps);
        let before = looked_up.map_or(u32::MAX, |(index, _)| index);
        let mut passed_over = 0;
        for &Other { mask, index, in_name } in &self.others {
            if index > before || steps.are_spent() {
                break;
            }
            passed_over += 1;
            if passed_over % PASSED_OVER_A_STEP == 0 {
                steps.taken += 1;
            }
            let there = if in_name { name.name_mask } else { name.path_mask };
            if mask & !there != 0 {
                continue;
            }
            let rule = self.rules.get(index as usize)?;
            if counts(rule) && name.matches(rule, steps) {
                return Some(rule);
            }
        }
        looked_up.map(|(_, rule)| rule)
    }

    /// The first rule without wildcards that matches.
    fn look_up(
        &self,
        name: &Judged<'_>,
        counts: &dyn Fn(&PatternRule) -> bool,
        steps: &mut Steps<'_>,
    ) -> Option<(u32, &PatternRule)> {
        if self.fixed.is_empty() {
            return None;
        }
        let ends = self.lengths.iter().filter_map(|&count| Some((Place::End, end_of(name.path, count)?)));
        let mut first: Option<(u32, &PatternRule)> = None;
        for (place, text) in ends.chain([(Place::Path, name.path)]) {
            steps.taken += 1 + text.len() as u64 / 8;
            let hash = hash_of(name.hashes, place, text);
            let from = self.fixed.partition_point(|(other, _)| *other < hash);
            for &(other, index) in self.fixed.get(from..).unwrap_or_default() {
                if other != hash || first.is_some_and(|(before, _)| before < index) {
                    break;
                }
                let Some(rule) = self.rules.get(index as usize) else { break };
                if counts(rule) && name.matches(rule, steps) {
                    first = Some((index, rule));
                    break;
                }
            }
        }
        first
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Path,
    End,
}

fn hash_of(hashes: &RandomState, place: Place, text: &[u8]) -> u64 {
    hashes.hash_one((place, text))
}

/// The last `count` components of a path; `None` if it has fewer.
fn end_of(path: &[u8], count: usize) -> Option<&[u8]> {
    let mut end = path.len();
    for left in (0..count).rev() {
        match path[..end].iter().rposition(|&byte| byte == b'/') {
            Some(slash) if left == 0 => return path.get(slash + 1..),
            Some(slash) => end = slash,
            None => return (left == 0).then_some(path),
        }
    }
    None
}
