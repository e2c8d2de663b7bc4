//! Parsing helpers: text or table, command-line assignments, changes at run time.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::SpecError;

/// Deserialises a text (also a bare number) or a table. Unlike serde's untagged enums, errors name the wrong
/// part.
pub fn text_or_table<'de, D, Out, Table>(
    deserializer: D,
    expected: &'static str,
    of_text: impl Fn(&str) -> Result<Out, SpecError>,
    of_table: impl Fn(Table) -> Result<Out, SpecError>,
) -> Result<Out, D::Error>
where
    D: Deserializer<'de>,
    Table: Deserialize<'de>,
{
    struct Either<OfText, OfTable, Out, Table> {
        expected: &'static str,
        of_text: OfText,
        of_table: OfTable,
        kinds: PhantomData<(Out, Table)>,
    }

    impl<'de, OfText, OfTable, Out, Table> Visitor<'de> for Either<OfText, OfTable, Out, Table>
    where
        OfText: Fn(&str) -> Result<Out, SpecError>,
        OfTable: Fn(Table) -> Result<Out, SpecError>,
        Table: Deserialize<'de>,
    {
        type Value = Out;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.expected)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Out, E> {
            (self.of_text)(text).map_err(E::custom)
        }

        fn visit_f64<E: Error>(self, number: f64) -> Result<Out, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<Out, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<Out, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Out, A::Error> {
            let table = Table::deserialize(MapAccessDeserializer::new(map))?;
            (self.of_table)(table).map_err(A::Error::custom)
        }
    }

    deserializer.deserialize_any(Either { expected, of_text, of_table, kinds: PhantomData })
}

/// Sets one key, as in `forward.loss=1%`. The value is parsed as TOML if possible, else as plain text.
pub fn assign(spec: &mut Value, assignment: &str) -> Result<(), SpecError> {
    let bad = || {
        SpecError::new(format!(
            "{assignment:?} is no assignment: write key=value, as rate=50Mbit or forward.loss=1%"
        ))
    };
    let (path, text) = assignment.split_once('=').ok_or_else(bad)?;
    let value = toml::from_str::<Map<String, Value>>(&format!("value = {text}"))
        .ok()
        .and_then(|mut table| if table.len() == 1 { table.remove("value") } else { None })
        .unwrap_or_else(|| Value::String(text.trim().to_owned()));
    let mut keys = path.split('.').map(str::trim).peekable();
    let mut place = spec;
    while let Some(key) = keys.next() {
        if key.is_empty() {
            return Err(bad());
        }
        let table = place.as_object_mut().ok_or_else(bad)?;
        if keys.peek().is_none() {
            table.insert(key.to_owned(), value);
            return Ok(());
        }
        place = table.entry(key).or_insert_with(|| Value::Object(Map::new()));
    }
    Err(bad())
}

/// Replaces keys of the two directions; `null` removes a key.
pub fn merge_directions(spec: &mut Value, change: &Value) -> Result<(), SpecError> {
    let wrong = || SpecError::new("a change is {\"forward\": {..}} or {\"backward\": {..}} or both");
    let spec = spec.as_object_mut().ok_or_else(wrong)?;
    for (way, keys) in change.as_object().ok_or_else(wrong)? {
        if !matches!(way.as_str(), "forward" | "backward") {
            return Err(SpecError::new(format!(
                "{way:?} cannot be changed while the path runs: only the directions"
            )));
        }
        let direction = spec.entry(way.as_str()).or_insert_with(|| Value::Object(Map::new()));
        let direction = direction.as_object_mut().ok_or_else(wrong)?;
        for (key, value) in keys.as_object().ok_or_else(wrong)? {
            if value.is_null() {
                direction.remove(key);
            } else {
                direction.insert(key.clone(), value.clone());
            }
        }
    }
    Ok(())
}
