//! Makes the variants of one session.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::leaves::{Kind, Place, Turn, get, kind_of, places, shown};
use super::super::records::{pack_records, pack_rows, rare_records, unpack_chunk, unpack_rows};
use super::super::session::{Session, Step};
use super::super::values::replacements;
use super::Variant;
use super::change::{Change, Edit, Packed, item_changes, list_edits, object_of};
use super::vocabulary::{Vocabulary, text};

/// Messages that decide nothing, or the same in every session: their members are tried in two sessions, and
/// sent as they are in all.
const DISPLAYED: [&str; 7] =
    ["hello", "sender_sample", "receiver_sample", "standing", "way", "finished", "complete"];
/// The sessions in which they are.
const DISPLAYING: [&str; 2] = ["push", "pull"];

/// Makes the variants of one session.
pub(super) struct Varying<'a> {
    pub(super) vocabulary: &'a Vocabulary,
    pub(super) session: &'a Session,
    pub(super) index: usize,
    pub(super) variants: &'a mut Vec<Variant>,
}

impl Varying<'_> {
    fn add(&mut self, what: String, at: usize, change: Change) {
        let name = format!("{}/{what}", self.session.name);
        self.variants.push(Variant { name, session: self.index, at, change });
    }

    pub(super) fn run(&mut self) {
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
