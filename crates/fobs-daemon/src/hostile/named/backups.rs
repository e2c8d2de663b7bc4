//! `--backup --suffix`: the end of a name that comes from the client.

use std::{fs, io};

use serde_json::{Value, json};

use super::super::arena::Arena;
use super::super::cases::Case;
use super::super::judge::{Breach, Rule};
use super::super::play::Outcome;
use super::super::right::Right;
use super::super::session::{Step, Way};
use super::{edit, refused, session, set};

/// Suffixes that lead out of the directory, where `ab` and a directory `abc` lie beside each other: `d`, its
/// parent `in/ann`, `in`, the root, `srv`. Each has a file there that must stay.
pub(super) const SUFFIXES: &[(&str, &str)] = &[
    ("key-file-beside-the-part", "c/../../../.ssh/authorized_keys"),
    ("key-file-beside-the-root", "c/../../../../../.ssh/authorized_keys"),
    ("new-file-beside-the-root", "c/../../../../../planted"),
    ("through-a-link", "c/../../up/planted"),
];
/// Suffixes of names of ours.
pub(super) const OWN: &[(&str, &str)] =
    &[("journal", ".fobs-journal"), ("temporary", ".fobs-abc123"), ("master", ".fobs-master")];

/// What makes the backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A file is replaced by its new content.
    Replaced,
    /// A file is deleted.
    Deleted,
    /// A file makes way for a link.
    MakesWay,
    /// A file is replaced by another name of one.
    Linked,
}

pub(super) const PLACES: &[(Place, &str)] = &[
    (Place::Replaced, "replaced"),
    (Place::Deleted, "deleted"),
    (Place::MakesWay, "makes-way"),
    (Place::Linked, "linked"),
];

/// Whether a row or record is of this path, or leads to it.
fn concerns(entry: &Value, name: &str) -> bool {
    let of = |member: &Value| member["path"] == json!(name.as_bytes());
    of(entry) || entry.as_object().is_some_and(|members| members.values().any(of))
}

fn steps_of(place: Place, suffix: &str) -> io::Result<Vec<Step>> {
    let mut steps = session(if place == Place::Replaced { "sync-names" } else { "sync-push" })?;
    set(&mut steps, "open", "sync.backup", json!(suffix.as_bytes()));
    if place == Place::Deleted {
        // Neither `ab` nor the file that it is another name of.
        edit(&mut steps, &|entries| {
            entries.retain(|entry| !concerns(entry, "ab") && !concerns(entry, "hard"))
        });
    }
    Ok(steps)
}

/// A suffix that is a path is refused, and writes nowhere.
pub(super) fn leads_out(
    arena: &mut Arena,
    way: Way,
    right: Right,
    place: Place,
    suffix: &'static str,
) -> io::Result<Vec<Breach>> {
    let d = arena.world.part().join("d");
    if place == Place::MakesWay {
        fs::write(d.join("link"), "a file where a link is to be")?;
        fs::create_dir(d.join("linkc"))?;
    }
    let name = String::new();
    let verdicts = arena.play(&Case { name, way, right, steps: steps_of(place, suffix)? })?;
    let mut breaches = verdicts.breaches;
    refused(&verdicts.played, "a suffix that is a path", &mut breaches);
    arena.restore()?;
    Ok(breaches)
}

/// A suffix that makes a name of ours is refused, and nobody's later copy fails by it.
pub(super) fn plants(
    arena: &mut Arena,
    way: Way,
    right: Right,
    suffix: &'static str,
) -> io::Result<Vec<Breach>> {
    let d = arena.world.part().join("d");
    // The journal of `ab` is `.ab.fobs-journal`.
    fs::write(d.join(".ab"), "what becomes a backup")?;
    let mut steps = session("sync-names")?;
    set(&mut steps, "open", "sync.backup", json!(suffix.as_bytes()));
    edit(&mut steps, &|entries| {
        for entry in entries.iter_mut() {
            let renamed = json!(b".ab");
            if entry["path"] == json!(b"ab") {
                entry["path"] = renamed;
            } else if let Some(member) = entry.as_object_mut().and_then(|members| members.values_mut().next())
                && member["path"] == json!(b"ab")
            {
                member["path"] = renamed;
            }
        }
    });
    let mut breaches = Vec::new();
    let mut judge = super::super::judge::Judge::default();
    let played = arena.play_steps(way, right, &steps, &mut judge)?;
    breaches.append(&mut judge.breaches);
    refused(&played, "a suffix of our own", &mut breaches);
    for entry in fs::read_dir(&d)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name == format!(".ab{suffix}") {
            breaches.push(Breach { rule: Rule::Rights, what: format!("{name} was planted") });
        }
    }
    let mut honest = session("push-object")?;
    set(&mut honest, "open", "paths", json!(["aW4vYW5uL2QvYWI="]));
    let after = arena.play_honest(&honest)?;
    if after.outcome != Outcome::Through {
        let said = after.messages.last().map(Value::to_string).unwrap_or_default();
        breaches.push(Breach { rule: Rule::Life, what: format!("the next copy to that name fails: {said}") });
    }
    arena.restore()?;
    Ok(breaches)
}
