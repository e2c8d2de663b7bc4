//! `vary`: one table of a plan that stands for many.
//!
//! ```toml
//! label = "fobs"
//! flow = [{ tool = "fobs" }]
//! vary = { "flow.0.ack_every" = [1, 4, 16], "flow.0.burst" = [1, 2] }   # six of them
//! ```
//!
//! The last part of a key is the parameter's name in records (the whole key where two would have the same
//! name), and `{name}` in the label is its value.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use toml::{Table, Value};

/// Most values that a product may have before it is multiplied out.
const VALUES_MAX: usize = 1000;

/// One of the tables that a table stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The table, without `vary`.
    pub table: Table,
    /// What was varied, by name.
    pub parameters: BTreeMap<String, Json>,
}

/// The tables that `table` stands for, in the order of the values, the last key fastest. `label` is the key
/// whose text may have braces.
pub fn variants(table: &Table, label: &str, most: usize) -> Result<Vec<Variant>, String> {
    let mut plain = table.clone();
    let varied = match plain.remove("vary") {
        None => Table::new(),
        Some(Value::Table(varied)) => varied,
        Some(_) => return Err("vary is not a table: write vary = { \"key\" = [..] }".to_owned()),
    };
    let mut variants = vec![Variant { table: plain, parameters: BTreeMap::new() }];
    for (key, values) in &varied {
        let values = values.as_array().filter(|values| !values.is_empty() && values.len() <= VALUES_MAX);
        let values =
            values.ok_or_else(|| format!("vary of {key:?} is no list of 1 to {VALUES_MAX} values"))?;
        if variants.len() * values.len() > most {
            return Err(format!("vary makes more than {most} of it"));
        }
        let name = name(key, &varied);
        let mut more = Vec::with_capacity(variants.len() * values.len());
        for variant in &variants {
            for value in values {
                let mut next = variant.clone();
                set(&mut next.table, key, value)?;
                next.parameters.insert(name.clone(), json(value)?);
                more.push(next);
            }
        }
        variants = more;
    }
    for variant in &mut variants {
        if let Some(Value::String(text)) = variant.table.get_mut(label) {
            *text = filled(text, &variant.parameters)?;
        }
    }
    Ok(variants)
}

/// The last part of the key, or all of it where another key has the same last part.
fn name(key: &str, all: &Table) -> String {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let short = last(key);
    let alone = all.keys().filter(|other| last(other) == short).count() == 1;
    if alone { short } else { key.to_owned() }
}

/// Puts a value at the place of a key like `flow.0.ack_every` or `forward.loss`; missing tables are made.
fn set(table: &mut Table, key: &str, value: &Value) -> Result<(), String> {
    let (parents, last) = key.rsplit_once('.').map_or((None, key), |(parents, last)| (Some(parents), last));
    let mut place = table;
    let mut parts = parents.into_iter().flat_map(|parents| parents.split('.'));
    while let Some(part) = parts.next() {
        let member = place.entry(part).or_insert_with(|| Value::Table(Table::new()));
        place = match member {
            Value::Table(inner) => inner,
            Value::Array(list) => {
                let index = parts.next().unwrap_or(last);
                let member = index.parse::<usize>().ok().and_then(|index| list.get_mut(index));
                let member = member.and_then(Value::as_table_mut);
                member.ok_or_else(|| format!("vary has {key:?}, but {part} has no table number {index:?}"))?
            }
            _ => return Err(format!("vary has {key:?}, but {part} is neither a table nor a list")),
        };
    }
    place.insert(last.to_owned(), value.clone());
    Ok(())
}

/// The text with values for names in braces.
fn filled(text: &str, parameters: &BTreeMap<String, Json>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) =
            after.split_once('}').ok_or_else(|| format!("{text:?} has a brace that stays open"))?;
        let value =
            parameters.get(name).ok_or_else(|| format!("{text:?} has {{{name}}}, which vary has not"))?;
        out.push_str(before);
        match value {
            Json::String(value) => out.push_str(value),
            value => out.push_str(&value.to_string()),
        }
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// The value as it stands in records.
fn json(value: &Value) -> Result<Json, String> {
    serde_json::to_value(value).map_err(|error| format!("vary has a value that no record can hold: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn without_vary_a_table_stands_for_itself() {
        let plain = table("label = \"x\"\nbytes = \"1MB\"");
        let made = variants(&plain, "label", 10).unwrap();
        assert_eq!(made, [Variant { table: plain, parameters: BTreeMap::new() }]);
    }

    #[test]
    fn values_multiply_and_go_where_their_keys_say() {
        let text = r#"
            label = "fobs {ack_every}"
            flow = [{ tool = "fobs" }, { tool = "iperf3" }]
            vary = { "flow.0.ack_every" = [1, 16], "forward.queue.red.min" = ["1BDP", "2BDP", "3BDP"] }
        "#;
        let made = variants(&table(text), "label", 10).unwrap();
        assert_eq!(made.len(), 6);
        let one = &made[4];
        assert_eq!(one.table["label"].as_str(), Some("fobs 16"));
        assert_eq!(one.table["flow"][0]["ack_every"].as_integer(), Some(16));
        assert_eq!(one.table["flow"][1].get("ack_every"), None);
        assert_eq!(one.table["forward"]["queue"]["red"]["min"].as_str(), Some("2BDP"));
        assert!(!one.table.contains_key("vary"));
        assert_eq!(one.parameters["ack_every"], json!(16));
        assert_eq!(one.parameters["min"], json!("2BDP"));
    }

    #[test]
    fn keys_with_the_same_end_keep_their_whole_name() {
        let text = r#"
            label = "x"
            flow = [{}, {}]
            vary = { "flow.0.cc" = ["auto"], "flow.1.cc" = ["bbr"], bytes = ["1MB"] }
        "#;
        let made = variants(&table(text), "label", 10).unwrap();
        let names: Vec<&String> = made[0].parameters.keys().collect();
        assert_eq!(names, ["bytes", "flow.0.cc", "flow.1.cc"]);
    }

    #[test]
    fn what_cannot_be_varied_is_named() {
        for (text, said) in [
            ("vary = 3", "vary is not a table"),
            ("vary = { x = [] }", "\"x\""),
            ("vary = { x = 1 }", "\"x\""),
            ("vary = { x = [1,2,3], y = [1,2,3,4] }", "more than 10"),
            ("flow = [{}]\nvary = { \"flow.1.cc\" = [1] }", "no table number \"1\""),
            ("flow = [{}]\nvary = { \"flow.first.cc\" = [1] }", "\"first\""),
            ("a = 1\nvary = { \"a.b\" = [1] }", "neither a table nor a list"),
            ("label = \"{y}\"\nvary = { x = [1] }", "{y}"),
            ("label = \"{x\"\nvary = { x = [1] }", "stays open"),
        ] {
            let error = variants(&table(text), "label", 10).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
