//! Every case: a session, a right, a way, and one thing in it that is not as it was recorded.

mod change;
mod slot;
mod vocabulary;

use std::collections::{BTreeMap, BTreeSet};

use super::right::{Right, known};
use super::session::{Session, Step, Way, all};
use slot::{Slot, slots};
use vocabulary::Vocabulary;

/// One change of one session: where it is made, and its number among the changes there.
#[derive(Debug)]
struct Variant {
    /// `sync-push/open.sync.backup=dotdot`.
    name: Box<str>,
    session: u16,
    slot: u16,
    change: u16,
    /// The number of its [`part_of`].
    part: u16,
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

/// All that can be played: names and numbers. Messages are made one case at a time, by [`Catalogue::case`].
pub(super) struct Catalogue {
    sessions: Vec<Session>,
    vocabulary: Vocabulary,
    /// Of each session.
    slots: Vec<Vec<Slot>>,
    variants: Vec<Variant>,
    rights: Vec<Right>,
}

/// The place of a case in the catalogue. There is one for each of half a million cases.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    variant: u32,
    right: u8,
    way: Way,
}

const _: () = assert!(size_of::<Number>() == 8, "half a million are kept");

impl Catalogue {
    pub(super) fn new() -> Catalogue {
        let sessions = all();
        let vocabulary = Vocabulary::of(&sessions);
        let slots: Vec<Vec<Slot>> = sessions.iter().map(|session| slots(session, &vocabulary)).collect();
        let mut it = Catalogue { sessions, vocabulary, slots, variants: Vec::new(), rights: known() };
        it.variants = it.variants();
        it
    }

    fn variants(&self) -> Vec<Variant> {
        let (mut variants, mut names) = (Vec::new(), BTreeSet::new());
        let mut parts = BTreeMap::new();
        for (session, slots) in self.slots.iter().enumerate() {
            for (slot, it) in slots.iter().enumerate() {
                let changes = it.changes(&self.sessions[session], &self.vocabulary);
                for (change, (what, _)) in changes.into_iter().enumerate() {
                    let name: Box<str> = format!("{}/{what}", self.sessions[session].name).into();
                    let next = parts.len() as u16;
                    let part = *parts.entry(part_of(&name).to_owned()).or_insert(next);
                    let (session, slot, change) = (session as u16, slot as u16, change as u16);
                    // Two replacements of one place may be equal; a name stands for the first.
                    if names.insert(name.clone()) {
                        variants.push(Variant { name, session, slot, change, part });
                    }
                }
            }
        }
        variants
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
        let mut turns = BTreeMap::<u16, u32>::new();
        let mut ordered: Vec<(u32, Number)> = Vec::with_capacity(numbers.len());
        for number in numbers {
            let turn = turns.entry(self.variant(number).part).or_default();
            ordered.push((*turn, number));
            *turn += 1;
        }
        ordered.sort_by_key(|(turn, _)| *turn);
        ordered.into_iter().map(|(_, number)| number).collect()
    }

    fn all_numbers(&self) -> Vec<Number> {
        let mut numbers = Vec::new();
        for (variant, it) in self.variants.iter().enumerate() {
            for way in self.sessions[usize::from(it.session)].ways() {
                for (right, its) in self.rights.iter().enumerate() {
                    // Over ssh a part of the root is a root.
                    if *way == Way::Tls || !its.part {
                        numbers.push(Number { variant: variant as u32, right: right as u8, way: *way });
                    }
                }
            }
        }
        numbers
    }

    fn variant(&self, number: Number) -> &Variant {
        &self.variants[number.variant as usize]
    }

    pub(super) fn name(&self, number: Number) -> String {
        let right = self.rights[usize::from(number.right)];
        format!("{}/{}/{}", number.way.name(), right.name(), self.variant(number).name)
    }

    /// Makes a case.
    pub(super) fn case(&self, number: Number) -> Case {
        let Variant { session, slot, change, .. } = self.variant(number);
        let (session, slot) = (usize::from(*session), &self.slots[usize::from(*session)][usize::from(*slot)]);
        let mut changes = slot.changes(&self.sessions[session], &self.vocabulary);
        let (_, change) = changes.swap_remove(usize::from(*change));
        let mut steps = self.sessions[session].steps.clone();
        let new = change.of(&steps[slot.at]);
        steps.splice(slot.at..=slot.at, new);
        let right = self.rights[usize::from(number.right)];
        Case { name: self.name(number), way: number.way, right, steps }
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
            let names = numbers.iter().map(|number| part_of(&catalogue.variant(*number).name));
            names.collect::<BTreeSet<_>>().len()
        };
        let numbers = catalogue.numbers(1, None);
        let all = parts(&numbers);
        assert!(all > 40 && parts(&numbers[..all]) == all, "{all}");
    }

    #[test]
    fn cases_are_made_as_they_are_named() {
        let catalogue = Catalogue::new();
        let find = |name: &str| {
            let numbers = catalogue.numbers(1, Some(name));
            let found = numbers.into_iter().find(|number| catalogue.name(*number) == name);
            catalogue.case(found.unwrap())
        };
        let good = all().into_iter().find(|session| session.name == "push").unwrap();
        let case = find("ssh/read-only/push/open:left-out");
        assert_eq!((case.way, case.right.name()), (Way::Ssh, "read-only".to_owned()));
        assert_eq!(case.steps.len(), good.steps.len() - 1);
        let opened =
            |steps: &[Step]| steps.iter().any(|step| matches!(step, Step::Say(it) if it["type"] == "open"));
        assert!(opened(&good.steps) && !opened(&case.steps));
        let case = find("tls/read-write+path/push/open.recursive=a-number");
        assert!(case.steps.iter().any(|step| matches!(step, Step::Say(it) if it["recursive"] == 7)));
    }
}
