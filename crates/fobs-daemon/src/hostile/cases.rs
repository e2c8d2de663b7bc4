//! Every case: a session, a right, a way, and one thing in it that is not as it was recorded.

mod change;
mod varying;
mod vocabulary;

use std::collections::{BTreeMap, BTreeSet};

use super::right::{Right, known};
use super::session::{Session, Step, Way, all};
use change::Change;
use varying::Varying;
use vocabulary::Vocabulary;

/// One change of one session.
#[derive(Debug, Clone)]
pub(super) struct Variant {
    /// `sync-push/open.sync.backup=dotdot`.
    pub(super) name: String,
    session: usize,
    /// The step.
    at: usize,
    change: Change,
}

/// A case.
#[derive(Debug, Clone)]
pub(super) struct Case {
    /// `tls/read-write+path/sync-push/open.sync.backup=dotdot`: the same in every run.
    pub(super) name: String,
    pub(super) way: Way,
    pub(super) right: Right,
    pub(super) steps: Vec<Step>,
}

/// All that can be played.
pub(super) struct Catalogue {
    sessions: Vec<Session>,
    variants: Vec<Variant>,
    rights: Vec<Right>,
}

/// The place of a case in the catalogue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    variant: usize,
    right: usize,
    way: Way,
}

impl Catalogue {
    pub(super) fn new() -> Catalogue {
        let sessions = all();
        let vocabulary = Vocabulary::of(&sessions);
        let mut variants = Vec::new();
        for (index, session) in sessions.iter().enumerate() {
            Varying { vocabulary: &vocabulary, session, index, variants: &mut variants }.run();
        }
        // Two replacements of one place may be equal; a name stands for one.
        let mut names = BTreeSet::new();
        variants.retain(|variant| names.insert(variant.name.clone()));
        Catalogue { sessions, variants, rights: known() }
    }

    /// Every case's place, in the order in which a seed has them played: of each part of each session one
    /// after the other, so that a sample is of all alike.
    pub(super) fn numbers(&self, seed: u64, only: Option<&str>) -> Vec<Number> {
        let mut numbers = self.all_numbers();
        numbers.retain(|number| only.is_none_or(|only| self.name(*number).contains(only)));
        let mut random = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
        for last in (1..numbers.len()).rev() {
            let mut bytes = [0; 8];
            random.fill(&mut bytes);
            numbers.swap(last, (u64::from_le_bytes(bytes) % (last as u64 + 1)) as usize);
        }
        let mut turns = BTreeMap::<&str, usize>::new();
        let mut ordered: Vec<(usize, Number)> = Vec::with_capacity(numbers.len());
        for number in numbers {
            let turn = turns.entry(part_of(&self.variants[number.variant].name)).or_default();
            ordered.push((*turn, number));
            *turn += 1;
        }
        ordered.sort_by_key(|(turn, _)| *turn);
        ordered.into_iter().map(|(_, number)| number).collect()
    }

    fn all_numbers(&self) -> Vec<Number> {
        let mut numbers = Vec::new();
        for (variant, it) in self.variants.iter().enumerate() {
            for way in self.sessions[it.session].ways() {
                for (right, its) in self.rights.iter().enumerate() {
                    // Over ssh a part of the root is a root.
                    if *way == Way::Tls || !its.part {
                        numbers.push(Number { variant, right, way: *way });
                    }
                }
            }
        }
        numbers
    }

    pub(super) fn name(&self, number: Number) -> String {
        let (variant, right) = (&self.variants[number.variant], self.rights[number.right]);
        format!("{}/{}/{}", number.way.name(), right.name(), variant.name)
    }

    pub(super) fn case(&self, number: Number) -> Case {
        let variant = &self.variants[number.variant];
        let mut steps = self.sessions[variant.session].steps.clone();
        let new = variant.change.of(&steps[variant.at]);
        steps.splice(variant.at..=variant.at, new);
        Case { name: self.name(number), way: number.way, right: self.rights[number.right], steps }
    }

    /// The sessions as they were recorded, for every way and right.
    pub(super) fn good(&self) -> Vec<(Session, Way, Right)> {
        let mut good = Vec::new();
        for session in &self.sessions {
            for way in session.ways() {
                for right in &self.rights {
                    if *way == Way::Tls || !right.part {
                        good.push((session.clone(), *way, *right));
                    }
                }
            }
        }
        good
    }
}

/// The part of a session that a variant is of: `sync-push/open`, `sync-push/listing.rows`.
fn part_of(name: &str) -> &str {
    let begin = name.find('/').map_or(0, |slash| slash + 1);
    let packed =
        [".rows", ".records"].iter().find_map(|word| name[begin..].find(word).map(|at| at + word.len()));
    let end = packed.or_else(|| name[begin..].find(['.', ':', '=', '#'])).unwrap_or(name.len() - begin);
    &name[..begin + end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_of_every_part_of_every_session() {
        for (name, part) in [
            ("push/open.sync.backup=dot", "push/open"),
            ("push/open:twice", "push/open"),
            ("push/open.object.records[1].Extent.len=0", "push/open.object.records"),
            ("sync-dry/listing.rows[5].path=dot", "sync-dry/listing.rows"),
            ("push/chunk0.records+Fifo[3]=null", "push/chunk0.records"),
        ] {
            assert_eq!(part_of(name), part);
        }
        let catalogue = Catalogue::new();
        let parts = |numbers: &[Number]| {
            let names = numbers.iter().map(|number| part_of(&catalogue.variants[number.variant].name));
            names.collect::<BTreeSet<_>>().len()
        };
        let numbers = catalogue.numbers(1, None);
        let all = parts(&numbers);
        assert!(all > 40 && parts(&numbers[..all]) == all, "{all}");
    }
}
