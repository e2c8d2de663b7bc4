//! Small requests that make a server work or remember much.

use std::{fs, io};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::arena::Arena;
use super::super::cases::Case;
use super::super::judge::Breach;
use super::super::right::Right;
use super::super::session::{Step, Way};
use super::{session, set};
use fobs_model::rights::Access;

/// What grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bomb {
    /// `--files-from` with one name of this many levels.
    DeepName(usize),
    /// `--files-from` with this many names of 4 kB, none like another.
    LongNames(usize),
    /// This many rules that each name a file of rules in every directory.
    DirectoryRules(usize),
    /// This many rules, over this many names.
    Rules(usize, usize),
    /// Rules whose patterns take long.
    Stars(usize),
    /// This many paths in a pull.
    Paths(usize),
    /// This many patterns, each of which is looked for in every directory.
    Patterns(usize),
}

pub(super) const BOMBS: &[(Bomb, &str)] = &[
    (Bomb::DeepName(150_000), "files-from-deep"),
    (Bomb::LongNames(160), "files-from-long"),
    (Bomb::DirectoryRules(120_000), "rules-of-directories"),
    (Bomb::Rules(60_000, 20_000), "rules-over-names"),
    (Bomb::Stars(2_000), "rules-of-stars"),
    (Bomb::Paths(45_000), "paths"),
    (Bomb::Patterns(50_000), "patterns"),
];

fn base64(bytes: impl AsRef<[u8]>) -> Value {
    json!(STANDARD.encode(bytes))
}

/// Levels of the tree for rules of directories.
const LEVELS: usize = 100;

/// A name of 4 kB that differs from all others in its first level.
fn long_name(number: usize) -> String {
    let mut name = format!("n{number:04}");
    while name.len() < 4_000 {
        name.push_str("/d");
    }
    name
}

fn steps_of(bomb: Bomb, right: Right) -> io::Result<Vec<Step>> {
    // Both ends have the names and rules of a sync: a key that may not pull sends them with a push.
    let pulls = right.access == Access::ReadOnly;
    let mut steps = session(if pulls { "sync-pull" } else { "sync-push" })?;
    set(&mut steps, "open", "sync.remove_source_files", json!(false));
    let many = if pulls { "in/ann/many/" } else { "in/ann/many" };
    let rules = |rule: &str, count: usize| json!({ "rules": vec![STANDARD.encode(rule); count] });
    match bomb {
        Bomb::DeepName(levels) => set(&mut steps, "open", "sync.names", json!([base64("a/".repeat(levels))])),
        Bomb::LongNames(count) => {
            let names: Vec<Value> = (0..count).map(|number| base64(long_name(number))).collect();
            set(&mut steps, "open", "sync.names", json!(names));
        }
        Bomb::DirectoryRules(count) => {
            set(&mut steps, "open", "sync.filter", rules(": a", count));
            set(&mut steps, "open", "paths", json!([base64(many)]));
        }
        Bomb::Rules(count, _) => {
            set(&mut steps, "open", "sync.filter", rules("- x", count));
            set(&mut steps, "open", "paths", json!([base64(many)]));
        }
        Bomb::Stars(count) => {
            let rule = format!("- {}b", "*a".repeat(30));
            set(&mut steps, "open", "sync.filter", rules(&rule, count));
            set(&mut steps, "open", "paths", json!([base64(many)]));
        }
        Bomb::Paths(count) => {
            steps = session("pull")?;
            set(&mut steps, "open", "paths", json!(vec![base64("in/ann/abc"); count]));
        }
        Bomb::Patterns(count) => {
            steps = session("pull-pattern")?;
            set(&mut steps, "expand", "paths", json!(vec![base64("in/*/*"); count]));
        }
    }
    Ok(steps)
}

/// Plays it; the rules about memory, time and life say whether it went off.
pub(super) fn play(arena: &mut Arena, way: Way, right: Right, bomb: Bomb) -> io::Result<Vec<Breach>> {
    let many = match bomb {
        Bomb::Rules(_, names) => names,
        Bomb::Stars(_) => 50,
        _ => 0,
    };
    if let Bomb::DirectoryRules(_) = bomb {
        fs::create_dir_all(arena.world.part().join("many").join("d/".repeat(LEVELS)))?;
    }
    if many > 0 {
        let directory = arena.world.part().join("many");
        fs::create_dir(&directory)?;
        for number in 0..many {
            fs::write(directory.join(format!("{}-{number}", "a".repeat(40))), "")?;
        }
    }
    let verdicts = arena.play(&Case { name: String::new(), way, right, steps: steps_of(bomb, right)? })?;
    arena.restore()?;
    Ok(verdicts.breaches)
}
