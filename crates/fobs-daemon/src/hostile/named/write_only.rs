//! What a key that only writes must not do: remove, list, read, compare.

use std::{fs, io};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::arena::Arena;
use super::super::cases::Case;
use super::super::judge::{Breach, Judge, Rule};
use super::super::right::Right;
use super::super::session::{Step, Way};
use super::{edit, refused, session, set};

/// What is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// `sync --delete` of nothing: everything is removed.
    Empty,
    /// `sync --delete`.
    Delete,
    /// The same with `-n`: each name is told.
    List,
    /// `-c -n`: whether a guess of a file's content is right.
    Guess,
    /// A request by name.
    Verb(&'static str),
    /// A pull.
    Pull(&'static str),
}

pub(super) const DEEDS: &[(Deed, &str)] = &[
    (Deed::Empty, "empties"),
    (Deed::Delete, "deletes"),
    (Deed::List, "lists"),
    (Deed::Guess, "compares"),
    (Deed::Verb("list"), "list-verb"),
    (Deed::Verb("stat"), "stat-verb"),
    (Deed::Verb("hash"), "hash-verb"),
    (Deed::Verb("remove"), "remove-verb"),
    (Deed::Pull("pull"), "pull"),
    (Deed::Pull("pull-object"), "pull-object"),
    (Deed::Pull("pull-range"), "pull-range"),
];

pub(super) fn play(arena: &mut Arena, way: Way, right: Right, deed: Deed) -> io::Result<Vec<Breach>> {
    let mut refusing = Vec::new();
    let steps = match deed {
        Deed::Empty => emptying()?,
        Deed::Delete => session("sync-push")?,
        Deed::List => session("sync-dry")?,
        Deed::Guess => return guesses(arena, way, right),
        Deed::Verb(name) | Deed::Pull(name) => session(name)?,
    };
    let verdicts = arena.play(&Case { name: String::new(), way, right, steps })?;
    refused(&verdicts.played, "what a key that only writes asked for", &mut refusing);
    Ok(verdicts.breaches.into_iter().chain(refusing).collect())
}

/// `fobs sync -a --delete empty/ vault:`: only the top directory is listed.
fn emptying() -> io::Result<Vec<Step>> {
    let mut steps = session("sync-push")?;
    set(&mut steps, "open", "sync.backup", Value::Null);
    edit(&mut steps, &|entries| {
        entries.retain(|entry| entry["path"] == json!([]) && entry["path"].is_array())
    });
    Ok(steps)
}

/// Whether the server answers a right guess as a wrong one: of content, with `-c`.
fn guesses(arena: &mut Arena, way: Way, right: Right) -> io::Result<Vec<Breach>> {
    let held = fs::read(arena.world.part().join("d/ab"))?;
    let answers = |arena: &mut Arena, guess: &[u8]| -> io::Result<(Vec<Value>, Vec<Breach>)> {
        let mut steps = session("sync-dry")?;
        let (sum, len) = (json!(blake3::hash(guess).as_bytes()), json!(guess.len()));
        edit(&mut steps, &|rows| {
            // The object itself is not compared.
            rows.retain(|row| row["path"].is_array());
            for row in rows.iter_mut().filter(|row| row["path"] == json!(b"ab")) {
                row["kind"] = json!("File");
                row["checksum"] = sum.clone();
                row["identity"]["size"] = len.clone();
            }
        });
        let mut judge = Judge::default();
        let played = arena.play_steps(way, right, &steps, &mut judge)?;
        let decisions = played.messages.iter().filter(|message| message["type"] == "decisions");
        let choices = decisions.map(|message| message["choices"].clone()).collect();
        Ok((choices, judge.breaches))
    };
    let mut wrong = held.clone();
    wrong[0] ^= 1;
    let (of_right, mut breaches) = answers(arena, &held)?;
    let (of_wrong, others) = answers(arena, &wrong)?;
    breaches.extend(others);
    if of_right != of_wrong {
        let length = |choices: &[Value]| -> usize {
            choices.iter().filter_map(|it| STANDARD.decode(it.as_str()?).ok()).map(|it| it.len()).sum()
        };
        let what = format!(
            "a right guess is answered otherwise than a wrong one ({} and {} bytes)",
            length(&of_right),
            length(&of_wrong)
        );
        breaches.push(Breach { rule: Rule::Rights, what });
    }
    arena.restore()?;
    Ok(breaches)
}
