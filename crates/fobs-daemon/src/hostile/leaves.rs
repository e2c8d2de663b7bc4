//! Every place in a message, and what kind of value stands there.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// A step into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Turn {
    Member(String),
    Item(usize),
}

/// Where a value stands in a message.
pub(super) type Place = Vec<Turn>;

/// What a value means, so that its replacements are those that matter there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A path or a part of a name, in base64.
    Name,
    /// The same as a list of numbers.
    NameBytes,
    /// A filter rule, in base64.
    Rule,
    /// Other bytes, in base64.
    Bytes,
    Number,
    Bool,
    /// A text, which may be one of a set of words.
    Text,
    List,
    Object,
    Null,
}

/// Members that hold names, wherever they stand.
const NAMES: &[&str] =
    &["paths", "names", "link_dest", "path", "directory", "backup", "suffix", "target", "first", "name"];
/// Members that hold other bytes in base64.
const BYTES: &[&str] = &["object", "entries", "choices", "transfer_id", "key", "holder"];

/// All places of a value, the value itself first.
pub(super) fn places(value: &Value) -> Vec<(Place, Kind)> {
    let mut places = Vec::new();
    walk(value, &mut Vec::new(), &mut places);
    places
}

fn walk(value: &Value, at: &mut Place, places: &mut Vec<(Place, Kind)>) {
    let kind = kind_of(value, at);
    places.push((at.clone(), kind));
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                at.push(Turn::Member(name.clone()));
                walk(member, at, places);
                at.pop();
            }
        }
        Value::Array(items) if kind == Kind::List => {
            // Items of one list are alike: its first and its last one stand for all.
            for index in [0, items.len().wrapping_sub(1)].into_iter().take(items.len().min(2)) {
                at.push(Turn::Item(index));
                walk(&items[index], at, places);
                at.pop();
            }
        }
        _ => {}
    }
}

/// What a value at this place means.
pub(super) fn kind_of(value: &Value, at: &[Turn]) -> Kind {
    let member = at.iter().rev().find_map(|turn| match turn {
        Turn::Member(name) => Some(name.as_str()),
        Turn::Item(_) => None,
    });
    let member = member.unwrap_or_default();
    let is_base64 = |text: &str| STANDARD.decode(text).is_ok();
    match value {
        Value::Null => Kind::Null,
        Value::Bool(_) => Kind::Bool,
        Value::Number(_) => Kind::Number,
        Value::Object(_) => Kind::Object,
        Value::Array(items) => {
            let bytes = items.iter().all(|item| item.as_u64().is_some_and(|byte| byte < 256));
            let listed = matches!(at.last(), Some(Turn::Member(_)));
            if NAMES.contains(&member) && listed && bytes && !items.is_empty() {
                Kind::NameBytes
            } else {
                Kind::List
            }
        }
        Value::String(text) if NAMES.contains(&member) && is_base64(text) => Kind::Name,
        Value::String(text) if member == "rules" && is_base64(text) => Kind::Rule,
        Value::String(text) if BYTES.contains(&member) && is_base64(text) => Kind::Bytes,
        Value::String(_) => Kind::Text,
    }
}

/// A place as the name of a case has it: `sync.names[0]`.
pub(super) fn shown(place: &[Turn]) -> String {
    let mut shown = String::new();
    for turn in place {
        match turn {
            Turn::Member(name) if shown.is_empty() => shown.push_str(name),
            Turn::Member(name) => {
                shown.push('.');
                shown.push_str(name);
            }
            Turn::Item(index) => shown.push_str(&format!("[{index}]")),
        }
    }
    shown
}

/// The value at a place.
pub(super) fn get<'a>(value: &'a Value, place: &[Turn]) -> Option<&'a Value> {
    place.iter().try_fold(value, |value, turn| match turn {
        Turn::Member(name) => value.get(name),
        Turn::Item(index) => value.get(index),
    })
}

/// Puts a value at a place; `None` takes away what is there.
pub(super) fn put(value: &mut Value, place: &[Turn], new: Option<Value>) {
    let Some((last, before)) = place.split_last() else {
        *value = new.unwrap_or(Value::Null);
        return;
    };
    let within = before.iter().try_fold(value, |value, turn| match turn {
        Turn::Member(name) => value.get_mut(name),
        Turn::Item(index) => value.get_mut(index),
    });
    match (within, last, new) {
        (Some(Value::Object(members)), Turn::Member(name), Some(new)) => {
            members.insert(name.clone(), new);
        }
        (Some(Value::Object(members)), Turn::Member(name), None) => {
            members.remove(name);
        }
        (Some(Value::Array(items)), Turn::Item(index), Some(new)) if *index < items.len() => {
            items[*index] = new;
        }
        (Some(Value::Array(items)), Turn::Item(index), None) if *index < items.len() => {
            items.remove(*index);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_place_of_a_message_is_found_once() {
        let message = json!({
            "type": "open", "paths": ["YQ=="], "sync": { "backup": [126, 126], "names": null, "max": 3 },
            "udp_ports": [1, 2], "recursive": false, "filter": { "rules": ["LSAqLm8="] },
        });
        let found: Vec<(String, Kind)> =
            places(&message).into_iter().map(|(place, kind)| (shown(&place), kind)).collect();
        for expected in [
            ("", Kind::Object),
            ("paths", Kind::List),
            ("paths[0]", Kind::Name),
            ("sync.backup", Kind::NameBytes),
            ("sync.names", Kind::Null),
            ("sync.max", Kind::Number),
            ("udp_ports[1]", Kind::Number),
            ("filter.rules[0]", Kind::Rule),
            ("recursive", Kind::Bool),
            ("type", Kind::Text),
        ] {
            let (name, kind) = expected;
            let count = found.iter().filter(|(shown, found)| shown == name && *found == kind).count();
            assert_eq!(count, 1, "{name}: {found:?}");
        }
    }

    #[test]
    fn what_is_put_at_a_place_stands_there() {
        let mut message = json!({ "a": { "b": [1, 2] } });
        let place = [Turn::Member("a".into()), Turn::Member("b".into()), Turn::Item(1)];
        put(&mut message, &place, Some(json!("x")));
        assert_eq!(get(&message, &place), Some(&json!("x")));
        put(&mut message, &place[..2], None);
        assert_eq!(message, json!({ "a": {} }));
    }
}
