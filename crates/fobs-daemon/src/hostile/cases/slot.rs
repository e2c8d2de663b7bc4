//! The places of sessions that are changed. The changes of a place are made when they are asked for: all of
//! them together are many, and a run plays a few.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::leaves::{Place, Turn, get, kind_of, places, shown};
use super::super::records::{pack_records, pack_rows, rare_records, unpack_chunk, unpack_rows};
use super::super::session::{Session, Step};
use super::super::values::{Replacement, replacements};
use super::change::{Change, Edit, Packed, object_of};
use super::vocabulary::{Vocabulary, text};

/// Messages that decide nothing, or the same in every session: their members are tried in two sessions, and
/// sent as they are in all.
const DISPLAYED: &[&str] =
    &["hello", "sender_sample", "receiver_sample", "standing", "way", "finished", "complete"];
/// The sessions in which they are.
const DISPLAYING: &[&str] = &["push", "pull"];

/// A place of a session, with a change for each value that is tried there.
#[derive(Debug)]
pub(super) struct Slot {
    /// The step, by its number.
    pub(super) at: usize,
    /// The step in the name of a case: `open`, `chunk0`, `standing#1`.
    label: String,
    spot: Spot,
}

/// What is changed in the step.
#[derive(Debug)]
enum Spot {
    /// The message itself.
    Whole,
    /// A member that others of its type have, and this one lacks.
    Added(String),
    /// A value of the message, or of a member that it lacks.
    Member(Place),
    /// A list of rows or records that is packed in it.
    Packed(Packed, Part),
}

/// What is changed in such a list.
#[derive(Debug)]
enum Part {
    Order,
    /// One item as a whole.
    Item(usize),
    /// A value of one.
    Value(Place),
    /// One more item, of the [`rare_records`].
    Rare(usize),
    /// A value of that one.
    RareValue(usize, Place),
}

/// Every slot of a session, in order.
pub(super) fn slots(session: &Session, vocabulary: &Vocabulary) -> Vec<Slot> {
    let (mut seen, mut chunks) = (BTreeMap::<String, usize>::new(), 0);
    let mut slots = Vec::new();
    for (at, step) in session.steps.iter().enumerate() {
        let mut add = |label: &str, spot| slots.push(Slot { at, label: label.to_owned(), spot });
        match step {
            Step::Say(message) => {
                let kind = text(message, "type");
                let count = seen.entry(kind.to_owned()).or_default();
                let label = if *count == 0 { kind.to_owned() } else { format!("{kind}#{count}") };
                *count += 1;
                add(&label, Spot::Whole);
                let shown = DISPLAYING.contains(&session.name) || !DISPLAYED.contains(&kind);
                if shown && label == kind {
                    members(message, vocabulary, |spot| add(&label, spot));
                }
            }
            Step::Chunk(_) => {
                list(Packed::Chunk, step, |spot| add(&format!("chunk{chunks}"), spot));
                chunks += 1;
            }
            Step::Hear(_) | Step::Take | Step::Raw(_) => {}
        }
    }
    slots
}

/// The slots of the members of a message, of those that others have added, and of what is packed in them.
fn members(message: &Value, vocabulary: &Vocabulary, mut add: impl FnMut(Spot)) {
    let known = vocabulary.members.get(text(message, "type"));
    let lacking =
        || known.into_iter().flatten().map(|(name, _)| name).filter(|name| message.get(name).is_none());
    lacking().for_each(|name| add(Spot::Added(name.clone())));
    for (place, _) in places(message) {
        if !place.is_empty() && place != [Turn::Member("type".to_owned())] {
            add(Spot::Member(place));
        }
    }
    lacking().for_each(|name| add(Spot::Member(vec![Turn::Member(name.clone())])));
    let step = Step::Say(message.clone());
    list(Packed::Rows, &step, &mut add);
    list(Packed::Object, &step, add);
}

/// The slots of a list that is packed in a step; none where there is no such list.
fn list(packed: Packed, step: &Step, mut add: impl FnMut(Spot)) {
    let Some(list) = unpacked(packed, step) else { return };
    let mut add = |part| add(Spot::Packed(packed, part));
    add(Part::Order);
    for index in 0..list.as_array().map_or(0, Vec::len) {
        add(Part::Item(index));
        item_places(&list, index).into_iter().for_each(|place| add(Part::Value(place)));
    }
    if packed == Packed::Rows {
        return;
    }
    for (number, rare) in rare_records().into_iter().enumerate() {
        add(Part::Rare(number));
        let longer = Edit::Push(rare, None).of(&list);
        let places = item_places(&longer, last_of(&longer));
        places.into_iter().for_each(|place| add(Part::RareValue(number, place)));
    }
}

/// The rows or records that are packed in a step.
fn unpacked(packed: Packed, step: &Step) -> Option<Value> {
    match (packed, step) {
        (Packed::Rows, Step::Say(message)) => unpack_rows(&message["entries"]),
        (Packed::Object, Step::Say(message)) => Some(unpack_chunk(&object_of(message)?)?.1),
        (Packed::Chunk, Step::Chunk(chunk)) => Some(unpack_chunk(&chunk.decoded())?.1),
        _ => None,
    }
}

fn last_of(list: &Value) -> usize {
    list.as_array().map_or(0, |items| items.len().saturating_sub(1))
}

/// The places of an item, as places of its list.
fn item_places(list: &Value, index: usize) -> Vec<Place> {
    let below = places(&list[index]).into_iter();
    below.map(|(place, _)| std::iter::once(Turn::Item(index)).chain(place).collect()).collect()
}

/// What is tried at a place of an item.
fn item_values(list: &Value, place: &Place) -> Vec<Replacement> {
    let Some(old) = get(list, place) else { return Vec::new() };
    let of_device = matches!(place.last(), Some(Turn::Member(name)) if name == "major" || name == "minor");
    // Numbers of devices that this host may have are left alone.
    let tried = |value: &str| !of_device || ["0", "2^31"].contains(&value);
    let mut values = replacements(kind_of(old, &place[1..]), old, &[]);
    values.retain(|(value, _)| tried(value));
    values
}

impl Slot {
    /// Every change of this place, with what it adds to the session's name in the name of a case.
    pub(super) fn changes(&self, session: &Session, vocabulary: &Vocabulary) -> Vec<(String, Change)> {
        let (label, step) = (&self.label, &session.steps[self.at]);
        match (&self.spot, step) {
            (Spot::Packed(packed, part), step) => {
                let Some(list) = unpacked(*packed, step) else { return Vec::new() };
                let within = match packed {
                    Packed::Rows => ".rows",
                    Packed::Object => ".object.records",
                    Packed::Chunk => ".records",
                };
                let mut edits = part.edits(&list);
                edits.retain(|(_, edit)| can_be_packed(*packed, edit, &list));
                let change = |(what, edit)| (format!("{label}{within}{what}"), Change::Packed(*packed, edit));
                edits.into_iter().map(change).collect()
            }
            (Spot::Whole, Step::Say(message)) => whole(label, message, vocabulary),
            (Spot::Added(name), Step::Say(message)) => {
                let place = vec![Turn::Member(name.clone())];
                let what = format!("{label}.{}:added", shown(&place));
                let added = vocabulary.value_of(message, name).cloned();
                vec![(what, Change::Member(place, added))]
            }
            (Spot::Member(place), Step::Say(message)) => {
                let lacking = || match &place[..] {
                    [Turn::Member(name)] => vocabulary.value_of(message, name),
                    _ => None,
                };
                let Some(old) = get(message, place).or_else(lacking) else { return Vec::new() };
                let values = replacements(kind_of(old, place), old, &vocabulary.words_at(message, place));
                let change = |(value, new)| {
                    (format!("{label}.{}={value}", shown(place)), Change::Member(place.clone(), new))
                };
                values.into_iter().map(change).collect()
            }
            (Spot::Whole | Spot::Added(_) | Spot::Member(_), _) => Vec::new(),
        }
    }
}

impl Part {
    fn edits(&self, list: &Value) -> Vec<(String, Edit)> {
        let at = |place: &Place, value: &str| format!("{}={value}", shown(place));
        match self {
            Part::Order => vec![(":backwards".to_owned(), Edit::Backwards)],
            Part::Item(index) => vec![
                (format!("[{index}]:left-out"), Edit::Without(*index)),
                (format!("[{index}]:twice"), Edit::Twice(*index)),
            ],
            Part::Value(place) => {
                let put = |(value, new): Replacement| (at(place, &value), Edit::Put(place.clone(), new));
                item_values(list, place).into_iter().map(put).collect()
            }
            Part::Rare(number) => {
                let rare = rare_records().swap_remove(*number);
                vec![(format!("+{}", kind_of_record(&rare)), Edit::Push(rare, None))]
            }
            Part::RareValue(number, place) => {
                let rare = rare_records().swap_remove(*number);
                let kind = kind_of_record(&rare);
                let values = item_values(&Edit::Push(rare.clone(), None).of(list), place).into_iter();
                let push = |(value, new): Replacement| {
                    let edit = Edit::Push(rare.clone(), Some((place.clone(), new)));
                    (format!("+{kind}{}", at(place, &value)), edit)
                };
                values.map(push).collect()
            }
        }
    }
}

fn kind_of_record(record: &Value) -> String {
    record.as_object().and_then(|members| members.keys().next().cloned()).unwrap_or_default()
}

/// Whether what an edit brings can be written as a row or a record.
fn can_be_packed(packed: Packed, edit: &Edit, list: &Value) -> bool {
    edit.item(list).is_none_or(|item| match packed {
        Packed::Rows => pack_rows(&json!([item])).is_some(),
        Packed::Object | Packed::Chunk => pack_records(&json!([item])).is_some(),
    })
}

/// The message left out, said twice, or replaced by any other one, and frames that are none.
fn whole(label: &str, message: &Value, vocabulary: &Vocabulary) -> Vec<(String, Change)> {
    let say = |message: &Value| Step::Say(message.clone());
    let mut changes = Vec::new();
    let mut add = |what: String, steps| changes.push((format!("{label}:{what}"), Change::Steps(steps)));
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
    changes
}
