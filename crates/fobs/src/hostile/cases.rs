//! Every case: a session, a right, a way, and one thing in it that is not as it was recorded.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::leaves::{Kind, Place, Turn, get, kind_of, places, put, shown};
use super::records::{pack_chunk, pack_records, pack_rows, rare_records, unpack_chunk, unpack_rows};
use super::right::{Right, known};
use super::session::{Chunk, Session, Step, Way, all};
use super::values::{grow, replacements};
use crate::control::message::Message;

/// Examples of every message, those of servers among them.
const EXAMPLES: &str = include_str!("../control/message/recorded.jsonl");
/// Messages that decide nothing, or the same in every session: their members are tried in two sessions, and sent as they are in all.
const DISPLAYED: [&str; 7] =
    ["hello", "sender_sample", "receiver_sample", "standing", "way", "finished", "complete"];
/// The sessions in which they are, and in which hello's members are tried.
const DISPLAYING: [&str; 2] = ["push", "pull"];

/// What is changed in a step. It is small: what is large is made when the case is played.
#[derive(Debug, Clone)]
enum Change {
    /// These steps come in its place.
    Steps(Vec<Step>),
    /// Its message has something else at a place, or nothing.
    Member(Place, Option<Value>),
    /// What is packed in it is edited.
    Packed(Packed, Edit),
}

/// Where a list of rows or records is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packed {
    /// In the `entries` of a message.
    Rows,
    /// In the `object` of one.
    Object,
    /// In a chunk.
    Chunk,
}

/// A change of a list of rows or records.
#[derive(Debug, Clone)]
enum Edit {
    /// One is left out.
    Without(usize),
    /// One comes twice.
    Twice(usize),
    Backwards,
    /// One has something else at a place of the list.
    Put(Place, Option<Value>),
    /// One more comes, with a change of its own.
    Push(Value, Option<(Place, Option<Value>)>),
}

impl Edit {
    /// What it brings into the list, if it brings anything new.
    fn item(&self, list: &Value) -> Option<Value> {
        let (mut item, change) = match self {
            Edit::Put(place, new) => match place.first() {
                Some(Turn::Item(index)) => (list.get(index)?.clone(), Some((place, new))),
                _ => return None,
            },
            Edit::Push(item, change) => (item.clone(), change.as_ref().map(|(place, new)| (place, new))),
            Edit::Without(_) | Edit::Twice(_) | Edit::Backwards => return None,
        };
        if let Some((place, new)) = change {
            let mut new = new.clone();
            new.iter_mut().for_each(grow);
            put(&mut item, &place[1..], new);
        }
        Some(item)
    }

    /// The list as it is after that.
    fn of(&self, list: &Value) -> Value {
        let mut edited = list.clone();
        if let Value::Array(items) = &mut edited {
            match self {
                Edit::Without(index) => drop(items.remove(*index)),
                Edit::Twice(index) => items.insert(*index, items[*index].clone()),
                Edit::Backwards => items.reverse(),
                Edit::Push(item, _) => items.push(item.clone()),
                Edit::Put(..) => {}
            }
        }
        if let Edit::Put(place, new) | Edit::Push(_, Some((place, new))) = self {
            let mut new = new.clone();
            new.iter_mut().for_each(grow);
            put(&mut edited, place, new);
        }
        edited
    }
}

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

/// What is known of messages from all sessions together.
struct Vocabulary {
    /// Words of a member, by its name.
    words: BTreeMap<String, BTreeSet<String>>,
    /// Members of a type of message, with a value that one had.
    members: BTreeMap<String, BTreeMap<String, Value>>,
    /// One message of each type.
    examples: BTreeMap<String, Value>,
}

impl Vocabulary {
    fn of(sessions: &[Session]) -> Vocabulary {
        let mut it =
            Vocabulary { words: BTreeMap::new(), members: BTreeMap::new(), examples: BTreeMap::new() };
        let said = sessions.iter().flat_map(|session| &session.steps).filter_map(|step| match step {
            Step::Say(message) => Some(message.clone()),
            _ => None,
        });
        let examples = EXAMPLES.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for message in said.chain(examples) {
            let kind = text(&message, "type").to_owned();
            for (place, _) in places(&message) {
                if let (Some(Turn::Member(name)), Some(Value::String(word))) =
                    (place.last(), get(&message, &place))
                {
                    // Types are replaced by whole messages.
                    if kind_of(&json!(word), &place) == Kind::Text && word.len() < 20 && name != "type" {
                        it.words.entry(name.clone()).or_default().insert(word.clone());
                    }
                }
            }
            if let Value::Object(members) = &message {
                let known = it.members.entry(kind.clone()).or_default();
                for (name, value) in members {
                    known.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
            it.examples.entry(kind).or_insert(message);
        }
        it
    }

    /// Words that may stand at a place: those that others had there, and those that the reader names when it
    /// is given none of them.
    fn words_at(&self, message: &Value, place: &[Turn]) -> Vec<String> {
        let name = place.iter().rev().find_map(|turn| match turn {
            Turn::Member(name) => Some(name),
            Turn::Item(_) => None,
        });
        let mut words = name.and_then(|name| self.words.get(name)).cloned().unwrap_or_default();
        let mut probe = message.clone();
        put(&mut probe, place, Some(json!("no such word")));
        if let Err(error) = serde_json::from_value::<Message>(probe) {
            words.extend(expected(&error.to_string()));
        }
        words.into_iter().collect()
    }
}

/// The words that serde's complaint names: "unknown variant `x`, expected one of `a`, `b`".
fn expected(complaint: &str) -> Vec<String> {
    let Some((_, words)) = complaint.split_once("expected ") else { return Vec::new() };
    if !complaint.contains("unknown variant") {
        return Vec::new();
    }
    words.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

impl Change {
    /// What comes in the place of a step.
    fn of(&self, step: &Step) -> Vec<Step> {
        match (self, step) {
            (Change::Steps(new), _) => new.clone(),
            (Change::Member(place, new), Step::Say(message)) => vec![with(message, place, new.clone())],
            (Change::Packed(packed, edit), step) => edited(*packed, edit, step).into_iter().collect(),
            (Change::Member(..), step) => vec![step.clone()],
        }
    }
}

/// A step whose packed list is edited; `None` where the edited one cannot be packed.
fn edited(packed: Packed, edit: &Edit, step: &Step) -> Option<Step> {
    let member = |name: &str| [Turn::Member(name.to_owned())];
    match (packed, step) {
        (Packed::Rows, Step::Say(message)) => {
            let rows = pack_rows(&edit.of(&unpack_rows(&message["entries"])?))?;
            Some(with(message, &member("entries"), Some(rows)))
        }
        (Packed::Object, Step::Say(message)) => {
            let (data, records) = unpack_chunk(&object_of(message)?)?;
            let chunk = pack_chunk(&data, &edit.of(&records))?;
            Some(with(message, &member("object"), Some(json!(STANDARD.encode(chunk)))))
        }
        (Packed::Chunk, Step::Chunk(chunk)) => {
            let (data, records) = unpack_chunk(&chunk.decoded())?;
            Some(Step::Chunk(Chunk::of(&pack_chunk(&data, &edit.of(&records))?, chunk.last)))
        }
        _ => None,
    }
}

fn object_of(message: &Value) -> Option<Vec<u8>> {
    message["object"].as_str().and_then(|text| STANDARD.decode(text).ok())
}

/// Makes the variants of one session.
struct Varying<'a> {
    vocabulary: &'a Vocabulary,
    session: &'a Session,
    index: usize,
    variants: &'a mut Vec<Variant>,
}

impl Varying<'_> {
    fn add(&mut self, what: String, at: usize, change: Change) {
        let name = format!("{}/{what}", self.session.name);
        self.variants.push(Variant { name, session: self.index, at, change });
    }

    fn run(&mut self) {
        let (mut seen, mut chunks) = (BTreeMap::<String, usize>::new(), 0);
        for (at, step) in self.session.steps.iter().enumerate() {
            match step {
                Step::Say(message) => {
                    let kind = text(message, "type");
                    let count = seen.entry(kind.to_owned()).or_default();
                    let label = if *count == 0 { kind.to_owned() } else { format!("{kind}#{count}") };
                    *count += 1;
                    self.whole(&label, at, message);
                    let shown = DISPLAYING.contains(&self.session.name) || !DISPLAYED.contains(&kind);
                    if shown && label == kind {
                        self.members(&label, at, message);
                    }
                }
                Step::Chunk(chunk) => {
                    if let Some((_, records)) = unpack_chunk(&chunk.decoded()) {
                        self.records(&format!("chunk{chunks}"), at, Packed::Chunk, &records);
                    }
                    chunks += 1;
                }
                Step::Hear(_) | Step::Take | Step::Raw(_) => {}
            }
        }
    }

    /// The message left out, said twice, or replaced by any other one, and frames that are none.
    fn whole(&mut self, label: &str, at: usize, message: &Value) {
        let say = |message: &Value| Step::Say(message.clone());
        let vocabulary = self.vocabulary;
        let mut add = |what: String, steps| self.add(format!("{label}:{what}"), at, Change::Steps(steps));
        add("left-out".to_owned(), Vec::new());
        add("twice".to_owned(), vec![say(message), say(message)]);
        for (kind, example) in &vocabulary.examples {
            add(format!("instead={kind}"), vec![say(example)]);
            add(format!("before={kind}"), vec![say(example), say(message)]);
        }
        let frames: [(&str, Vec<u8>); 6] = [
            ("empty", vec![0; 4]),
            ("longest", u32::MAX.to_be_bytes().to_vec()),
            ("too-long", (2_u32 << 20).to_be_bytes().to_vec()),
            ("record", [&(1_u32 << 31 | 100).to_be_bytes()[..], &[7; 100]].concat()),
            ("no-object", [&2_u32.to_be_bytes()[..], b"[]"].concat()),
            ("cut", [&1000_u32.to_be_bytes()[..], b"{\"type\":"].concat()),
        ];
        for (name, bytes) in frames {
            add(format!("frame={name}"), vec![Step::Raw(bytes), say(message)]);
        }
    }

    /// Each member replaced, each that others have added, and what is packed in it likewise.
    fn members(&mut self, label: &str, at: usize, message: &Value) {
        let mut all: Vec<(Place, Kind, Value)> = places(message)
            .into_iter()
            .filter(|(place, _)| !place.is_empty() && place != &[Turn::Member("type".to_owned())])
            .filter_map(|(place, kind)| get(message, &place).cloned().map(|old| (place, kind, old)))
            .collect();
        let known = self.vocabulary.members.get(text(message, "type")).cloned().unwrap_or_default();
        for (name, value) in known.into_iter().filter(|(name, _)| message.get(name).is_none()) {
            let place = vec![Turn::Member(name)];
            let what = format!("{label}.{}:added", shown(&place));
            self.add(what, at, Change::Member(place.clone(), Some(value.clone())));
            let kind = kind_of(&value, &place);
            all.push((place, kind, value));
        }
        for (place, kind, old) in all {
            let words = self.vocabulary.words_at(message, &place);
            for (value, new) in replacements(kind, &old, &words) {
                let what = format!("{label}.{}={value}", shown(&place));
                self.add(what, at, Change::Member(place.clone(), new));
            }
        }
        if let Some(rows) = unpack_rows(&message["entries"]) {
            for (what, edit) in list_edits(&rows) {
                if edit.item(&rows).is_none_or(|row| pack_rows(&json!([row])).is_some()) {
                    self.add(format!("{label}.rows{what}"), at, Change::Packed(Packed::Rows, edit));
                }
            }
        }
        if let Some((_, records)) = object_of(message).and_then(|object| unpack_chunk(&object)) {
            self.records(&format!("{label}.object"), at, Packed::Object, &records);
        }
    }

    fn records(&mut self, label: &str, at: usize, packed: Packed, records: &Value) {
        let mut edits = list_edits(records);
        for rare in rare_records() {
            let kind =
                rare.as_object().and_then(|members| members.keys().next().cloned()).unwrap_or_default();
            edits.push((format!("+{kind}"), Edit::Push(rare.clone(), None)));
            let longer = Edit::Push(rare.clone(), None).of(records);
            let last = longer.as_array().map_or(0, |items| items.len() - 1);
            for (what, place, new) in item_changes(&longer, last) {
                edits.push((format!("+{kind}{what}"), Edit::Push(rare.clone(), Some((place, new)))));
            }
        }
        for (what, edit) in edits {
            if edit.item(records).is_none_or(|record| pack_records(&json!([record])).is_some()) {
                self.add(format!("{label}.records{what}"), at, Change::Packed(packed, edit));
            }
        }
    }
}

/// A message with a value at a place.
fn with(message: &Value, place: &[Turn], new: Option<Value>) -> Step {
    let mut changed = message.clone();
    put(&mut changed, place, new);
    Step::Say(changed)
}

/// Every change of one item of a list of rows or records, and of their order.
fn list_edits(list: &Value) -> Vec<(String, Edit)> {
    let mut edits = vec![(":backwards".to_owned(), Edit::Backwards)];
    for index in 0..list.as_array().map_or(0, Vec::len) {
        edits.push((format!("[{index}]:left-out"), Edit::Without(index)));
        edits.push((format!("[{index}]:twice"), Edit::Twice(index)));
        let changes = item_changes(list, index).into_iter();
        edits.extend(changes.map(|(what, place, new)| (what, Edit::Put(place, new))));
    }
    edits
}

/// Every change of one item: its name, its place in the list, and what comes there.
fn item_changes(list: &Value, index: usize) -> Vec<(String, Place, Option<Value>)> {
    let mut changes = Vec::new();
    for (place, kind) in places(&list[index]) {
        let place: Place = std::iter::once(Turn::Item(index)).chain(place).collect();
        let Some(old) = get(list, &place) else { continue };
        let of_device =
            matches!(place.last(), Some(Turn::Member(name)) if name == "major" || name == "minor");
        // Numbers of devices that this host may have are left alone.
        let tried = |value: &str| !of_device || ["0", "2^31"].contains(&value);
        for (value, new) in replacements(kind, old, &[]).into_iter().filter(|(value, _)| tried(value)) {
            changes.push((format!("{}={value}", shown(&place)), place.clone(), new));
        }
    }
    changes
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

    #[test]
    fn the_words_of_a_member_are_learned_from_its_reader() {
        let complaint = "unknown variant `x`, expected one of `none`, `made`, `all`";
        assert_eq!(expected(complaint), ["none", "made", "all"]);
        assert_eq!(expected("unknown variant `x`, expected `push` or `pull`"), ["push", "pull"]);
        assert!(expected("invalid type: string, expected u64").is_empty());
    }
}
