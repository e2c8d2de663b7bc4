//! Whether good sessions go through: a suite against a server that refuses everything would find nothing.

use std::io;

use super::arena::Arena;
use super::cases::Catalogue;
use super::judge::Judge;
use super::play::Outcome;
use super::program::Program;
use super::session::{Needs, Session, Way};
use fobs_model::rights::Access;

/// How many sessions have gone through, each over all its carriers with the least right that allows it.
///
/// # Errors
/// Where one does not, or breaks a rule.
pub fn good_sessions(program: &Program) -> io::Result<usize> {
    let mut arena = Arena::patient(program)?;
    let mut through = 0;
    for (session, way, right) in Catalogue::new().good() {
        let Session { name, steps, needs } = &session;
        let least = match needs {
            Needs::Read => Access::ReadOnly,
            Needs::Write => Access::WriteOnly,
            Needs::Change | Needs::Both => Access::ReadWrite,
        };
        // The examination of `probe` takes a second.
        if right.access != least || right.privileged || (*name == "probe" && (right.part || way == Way::Ssh))
        {
            continue;
        }
        let mut judge = Judge::default();
        let played = arena.play_steps(way, right, steps, &mut judge)?;
        arena.restore()?;
        if played.outcome != Outcome::Through || !judge.breaches.is_empty() {
            let last = played.messages.last().map(ToString::to_string).unwrap_or_default();
            let last: String = last.chars().take(300).collect();
            let (way, right, outcome) = (way.name(), right.name(), played.outcome);
            let breaches = judge.breaches;
            let what = format!("{way}/{right}/{name} as it was recorded: {outcome:?}, {breaches:?}, {last}");
            return Err(io::Error::other(what));
        }
        through += 1;
    }
    Ok(through)
}
