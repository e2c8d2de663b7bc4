//! What is known of messages from all sessions together.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::leaves::{Kind, Turn, get, kind_of, places, put};
use super::super::session::{Session, Step};
use fobs_model::message::{Message, RECORDED};

/// What is known of messages from all sessions together.
pub(super) struct Vocabulary {
    /// Words of a member, by its name.
    words: BTreeMap<String, BTreeSet<String>>,
    /// Members of a type of message, with a value that one had.
    pub(super) members: BTreeMap<String, BTreeMap<String, Value>>,
    /// One message of each type.
    pub(super) examples: BTreeMap<String, Value>,
}

impl Vocabulary {
    pub(super) fn of(sessions: &[Session]) -> Vocabulary {
        let mut it =
            Vocabulary { words: BTreeMap::new(), members: BTreeMap::new(), examples: BTreeMap::new() };
        let said = sessions.iter().flat_map(|session| &session.steps).filter_map(|step| match step {
            Step::Say(message) => Some(message.clone()),
            _ => None,
        });
        let examples = RECORDED.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
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

    /// What others of a message's type have in a member.
    pub(super) fn value_of(&self, message: &Value, member: &str) -> Option<&Value> {
        self.members.get(text(message, "type"))?.get(member)
    }

    /// Words that may stand at a place: those that others had there, and those that the reader names when it
    /// is given none of them.
    pub(super) fn words_at(&self, message: &Value, place: &[Turn]) -> Vec<String> {
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

pub(super) fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_member_are_learned_from_its_reader() {
        let complaint = "unknown variant `x`, expected one of `none`, `made`, `all`";
        assert_eq!(expected(complaint), ["none", "made", "all"]);
        assert_eq!(expected("unknown variant `x`, expected `push` or `pull`"), ["push", "pull"]);
        assert!(expected("invalid type: string, expected u64").is_empty());
    }
}
