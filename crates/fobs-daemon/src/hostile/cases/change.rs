//! What is changed in a step, and how the step is then.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::leaves::{Place, Turn, put};
use super::super::records::{pack_chunk, pack_rows, unpack_chunk, unpack_rows};
use super::super::session::{Chunk, Step};
use super::super::values::grow;

/// What is changed in a step. It is small: what is large is made when the case is played.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// These steps come in its place.
    Steps(Vec<Step>),
    /// Its message has something else at a place, or nothing.
    Member(Place, Option<Value>),
    /// What is packed in it is edited.
    Packed(Packed, Edit),
}

/// Where a list of rows or records is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packed {
    /// In the `entries` of a message.
    Rows,
    /// In the `object` of one.
    Object,
    /// In a chunk.
    Chunk,
}

/// A change of a list of rows or records.
#[derive(Debug, Clone)]
pub(super) enum Edit {
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
    pub(super) fn item(&self, list: &Value) -> Option<Value> {
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
    pub(super) fn of(&self, list: &Value) -> Value {
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

impl Change {
    /// What comes in the place of a step.
    pub(super) fn of(&self, step: &Step) -> Vec<Step> {
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

pub(super) fn object_of(message: &Value) -> Option<Vec<u8>> {
    message["object"].as_str().and_then(|text| STANDARD.decode(text).ok())
}

/// A message with a value at a place.
fn with(message: &Value, place: &[Turn], new: Option<Value>) -> Step {
    let mut changed = message.clone();
    put(&mut changed, place, new);
    Step::Say(changed)
}
