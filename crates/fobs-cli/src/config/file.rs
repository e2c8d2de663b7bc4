//! The text of a configuration file: a pure function from TOML to entries with their lines. Which keys exist
//! is not known here.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Largest file that is read, bytes: a thousand blocks of twenty lines.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// What a file says.
#[derive(Debug, Default, PartialEq)]
pub struct Document {
    /// Entries above the first block, in the order of their lines.
    pub general: Vec<Entry>,
    /// Blocks, in the order of their lines.
    pub blocks: Vec<Block>,
}

/// A table `[host."PATTERN"]`.
#[derive(Debug, PartialEq)]
pub struct Block {
    /// The pattern, as written.
    pub pattern: String,
    /// Its entries, in the order of their lines.
    pub entries: Vec<Entry>,
}

/// A line `key = value`.
#[derive(Debug, PartialEq)]
pub struct Entry {
    /// The key, as written.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Its line, from 1.
    pub line: usize,
}

/// A value of a type that an option can have.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Flag(bool),
    /// A number, as written.
    Number(String),
    /// A text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
}

/// What is wrong with a file.
#[derive(Debug, PartialEq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// One sentence.
    pub message: String,
}

/// Parses a file.
///
/// # Errors
/// The first [`Problem`]: no TOML, or a value that no option can have.
pub fn parse(text: &str) -> Result<Document, Problem> {
    let table = DeTable::parse(text).map_err(|error| Problem {
        line: line_at(text, error.span().map_or(0, |span| span.start)),
        message: named(text, error.span().map_or(0, |span| span.start), error.message()),
    })?;
    let mut document = Document::default();
    for (name, value) in in_order(table.get_ref()) {
        if name.get_ref() == "host" {
            document.blocks = blocks(text, value)?;
        } else {
            document.general.push(entry(text, name, value)?);
        }
    }
    Ok(document)
}

/// What the parser says, with the key on whose line it is: the parser knows none.
fn named(text: &str, offset: usize, message: &str) -> String {
    let message = message.trim_end().replace('\n', "; ");
    let line = text.lines().nth(line_at(text, offset) - 1).unwrap_or_default();
    match line.split_once('=') {
        Some((key, _)) if !key.trim().is_empty() && !key.contains('"') => {
            format!("{}: {message}", key.trim())
        }
        _ => message,
    }
}

type Name<'a> = Spanned<std::borrow::Cow<'a, str>>;

/// The members of a table as they stand in the file.
fn in_order<'t, 'a>(table: &'t DeTable<'a>) -> Vec<(&'t Name<'a>, &'t Spanned<DeValue<'a>>)> {
    let mut members: Vec<_> = table.iter().collect();
    members.sort_by_key(|(name, _)| name.span().start);
    members
}

fn blocks(text: &str, hosts: &Spanned<DeValue<'_>>) -> Result<Vec<Block>, Problem> {
    let whole = || "host is for blocks: write [host.\"NAME\"] on a line of its own";
    let DeValue::Table(hosts) = hosts.get_ref() else {
        return Err(problem(text, hosts.span().start, whole()));
    };
    in_order(hosts)
        .into_iter()
        .map(|(pattern, body)| {
            let DeValue::Table(body) = body.get_ref() else {
                return Err(problem(text, pattern.span().start, whole()));
            };
            let entries = in_order(body)
                .into_iter()
                .map(|(name, value)| entry(text, name, value))
                .collect::<Result<_, _>>()?;
            Ok(Block { pattern: pattern.get_ref().to_string(), entries })
        })
        .collect()
}

fn entry(text: &str, name: &Name<'_>, value: &Spanned<DeValue<'_>>) -> Result<Entry, Problem> {
    let key = name.get_ref().to_string();
    let wrong = |what: &str| problem(text, value.span().start, format!("{key} cannot be {what}"));
    let read = match value.get_ref() {
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Integer(number) if number.radix() == 10 => Value::Number(number.as_str().replace('_', "")),
        DeValue::Integer(_) => return Err(wrong("a number that is not decimal")),
        DeValue::Float(number) => Value::Number(number.as_str().replace('_', "")),
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
            Value::List(texts.collect::<Option<_>>().ok_or_else(|| wrong("a list of anything but texts"))?)
        }
        DeValue::Table(_) => return Err(wrong("a table; blocks are [host.\"NAME\"]")),
        DeValue::Datetime(_) => return Err(wrong("a date without quotes")),
    };
    Ok(Entry { key, value: read, line: line_at(text, name.span().start) })
}

fn problem(text: &str, offset: usize, message: impl Into<String>) -> Problem {
    Problem { line: line_at(text, offset), message: message.into() }
}

/// The line of a byte, from 1.
fn line_at(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_their_lines_and_blocks_their_order() {
        let text = "# a comment\nrate = \"1Gbit\"\nack-every = 1_0\n\n[host.\"z*\"]\ncompress = true\n\
                    [host.a]\nssh-option = [\"A=1\",\n \"B=2\"]\n";
        let document = parse(text).expect("valid");
        let general: Vec<_> = document.general.iter().map(|e| (e.key.as_str(), e.line)).collect();
        assert_eq!(general, [("rate", 2), ("ack-every", 3)]);
        assert_eq!(document.general[1].value, Value::Number("10".to_owned()));
        let blocks: Vec<_> =
            document.blocks.iter().map(|b| (b.pattern.as_str(), b.entries[0].line)).collect();
        assert_eq!(blocks, [("z*", 6), ("a", 8)]);
        assert_eq!(
            document.blocks[1].entries[0].value,
            Value::List(vec!["A=1".to_owned(), "B=2".to_owned()])
        );
    }

    #[test]
    fn problems_name_their_line() {
        for (text, line, part) in [
            ("rate = \n", 1, ""),
            ("a = 1\na = 2\n", 2, "duplicate"),
            ("x = 1\nhost = 5\n", 2, "write [host.\"NAME\"]"),
            ("[host]\na = 1\n", 2, "write [host.\"NAME\"]"),
            ("\n[hosts.x]\nrate = 1\n", 2, "hosts cannot be a table"),
            ("o = [1]\n", 1, "list of anything but texts"),
            ("d = 2026-11-23\n", 1, "a date without quotes"),
            ("n = 0x10\n", 1, "not decimal"),
            ("[host.a]\nrate = {x = 1}\n", 2, "cannot be a table"),
        ] {
            let problem = parse(text).expect_err(text);
            assert_eq!(problem.line, line, "{text:?}: {problem:?}");
            assert!(
                problem.message.contains(part) && !problem.message.contains('\n'),
                "{text:?}: {problem:?}"
            );
        }
    }

    #[test]
    fn deep_nesting_is_an_error() {
        parse(&format!("a = {}", "[".repeat(100_000))).expect_err("too deep");
    }
}
