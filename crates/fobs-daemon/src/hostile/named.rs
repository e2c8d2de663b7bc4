//! Attacks that have names: those that succeeded once, and their siblings. They are in every sample.

mod backups;
mod bombs;
mod write_only;

use std::io;

use serde_json::Value;

use super::arena::Arena;
use super::judge::{Breach, Rule};
use super::leaves::{Turn, put};
use super::play::{Outcome, Played};
use super::records::{pack_chunk, pack_rows, unpack_chunk, unpack_rows};
use super::right::Right;
use super::session::{Chunk, Step, Way, all};
use fobs_model::rights::Access;

/// An attack that is always played.
pub(super) struct Named {
    /// `backup/leads-out/...`: the same in every run.
    pub(super) name: String,
    way: Way,
    right: Right,
    attack: Attack,
}

/// What is played, and what is looked at besides the rules.
#[derive(Clone, Copy)]
enum Attack {
    /// A suffix of backups that is a path.
    Suffix(backups::Place, &'static str),
    /// A suffix that makes files with names of our own.
    OwnNames(&'static str),
    /// Something that a key which only writes must not do.
    WriteOnly(write_only::Deed),
    /// Something that grows beyond what a session may take.
    Bomb(bombs::Bomb),
}

impl Named {
    /// Plays it, and says which rules it broke.
    pub(super) fn play(&self, arena: &mut Arena) -> io::Result<Vec<Breach>> {
        let (way, right) = (self.way, self.right);
        match self.attack {
            Attack::Suffix(place, suffix) => backups::leads_out(arena, way, right, place, suffix),
            Attack::OwnNames(suffix) => backups::plants(arena, way, right, suffix),
            Attack::WriteOnly(deed) => write_only::play(arena, way, right, deed),
            Attack::Bomb(bomb) => bombs::play(arena, way, right, bomb),
        }
    }
}

const fn right(access: Access, part: bool) -> Right {
    Right { access, privileged: false, part }
}

/// Every named attack.
pub(super) fn every() -> Vec<Named> {
    let mut all = Vec::new();
    let mut add = |name: String, way: Way, right: Right, attack: Attack| {
        let name = format!("{name}/{}/{}", way.name(), right.name());
        all.push(Named { name, way, right, attack });
    };
    let writers = [
        (Way::Tls, right(Access::ReadWrite, true)),
        (Way::Tls, right(Access::ReadWrite, false)),
        (Way::Tls, right(Access::WriteOnly, true)),
        (Way::Ssh, right(Access::WriteOnly, false)),
        (Way::Ssh, right(Access::ReadWrite, false)),
    ];
    for (way, right) in writers {
        for (label, suffix) in backups::SUFFIXES {
            for (place, named) in backups::PLACES {
                add(format!("backup-suffix/{named}/{label}"), way, right, Attack::Suffix(*place, suffix));
            }
        }
        for (label, suffix) in backups::OWN {
            add(format!("backup-suffix/own-name/{label}"), way, right, Attack::OwnNames(suffix));
        }
    }
    for (way, right) in [
        (Way::Tls, right(Access::WriteOnly, true)),
        (Way::Tls, right(Access::WriteOnly, false)),
        (Way::Ssh, right(Access::WriteOnly, false)),
        (Way::Tls, right(Access::AppendOnly, true)),
        (Way::Ssh, right(Access::AppendOnly, false)),
    ] {
        for (deed, named) in write_only::DEEDS {
            add(format!("write-only/{named}"), way, right, Attack::WriteOnly(*deed));
        }
    }
    for (way, right) in [
        (Way::Tls, right(Access::ReadOnly, true)),
        (Way::Ssh, right(Access::ReadOnly, false)),
        (Way::Tls, right(Access::ReadWrite, true)),
        (Way::Ssh, right(Access::WriteOnly, false)),
    ] {
        for (bomb, named) in bombs::BOMBS {
            add(format!("bomb/{named}"), way, right, Attack::Bomb(*bomb));
        }
    }
    all
}

/// The steps of a good session.
fn session(name: &str) -> io::Result<Vec<Step>> {
    let found = all().into_iter().find(|session| session.name == name);
    found.map(|session| session.steps).ok_or_else(|| io::Error::other(format!("no session {name}")))
}

/// Puts a value into the first message of a type: `set(steps, "open", "sync.backup", ..)`.
fn set(steps: &mut [Step], kind: &str, path: &str, new: Value) {
    let place: Vec<Turn> = path.split('.').map(|name| Turn::Member(name.to_owned())).collect();
    for step in steps {
        if let Step::Say(message) = step
            && message["type"] == kind
        {
            put(message, &place, Some(new));
            return;
        }
    }
}

/// Edits the rows of every listing, and the records of every chunk.
fn edit(steps: &mut [Step], change: &dyn Fn(&mut Vec<Value>)) {
    for step in steps {
        match step {
            Step::Say(message) => {
                if let Some(Value::Array(mut rows)) = unpack_rows(&message["entries"]) {
                    change(&mut rows);
                    if let Some(packed) = pack_rows(&Value::Array(rows)) {
                        message["entries"] = packed;
                    }
                }
            }
            Step::Chunk(chunk) => {
                if let Some((data, Value::Array(mut records))) = unpack_chunk(&chunk.decoded()) {
                    change(&mut records);
                    if let Some(packed) = pack_chunk(&data, &Value::Array(records)) {
                        *chunk = Chunk::of(&packed, chunk.last);
                    }
                }
            }
            Step::Hear(_) | Step::Take | Step::Raw(_) => {}
        }
    }
}

/// The server must end the session with a sentence.
fn refused(played: &Played, why: &str, breaches: &mut Vec<Breach>) {
    let abort = played.messages.iter().find(|message| message["type"] == "abort");
    if played.outcome != Outcome::Ended || abort.is_none() {
        breaches.push(Breach {
            rule: Rule::Rights,
            what: format!("{why} was not refused: {:?}", played.outcome),
        });
    }
}
