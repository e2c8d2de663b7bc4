//! Requests made of any bytes: which session, under which right, and what is changed in it. A fuzzer so plays
//! messages that are understood, not bytes that are refused at the door.

use std::os::unix::net::UnixStream;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::judge::{Judge, ROOT, Rule};
use super::leaves::{Turn, get, places, put};
use super::link::Link;
use super::manifest::Manifest;
use super::play::{Filling, Played, Player};
use super::program::ports_of_one;
use super::right::{Right, known};
use super::session::{Session, Step, Way, all};
use super::values::replacements;
use super::world::{Extent, World};
use fobs::server::login::serve_over;
use fobs_channel::control::{ControlChannel, Peer};
use fobs_model::cancel::CancelToken;
use fobs_model::options::Carrier;
use fobs_model::rights::Action;

/// Most changes of one session.
const CHANGES_MAX: usize = 4;
/// How long the server may be silent before the client goes on.
const QUIET: Duration = Duration::from_millis(30);

/// One world for all inputs: it is made good again after those that change it.
static WORLD: LazyLock<Mutex<World>> =
    LazyLock::new(|| Mutex::new(World::new().expect("a temporary directory")));

/// `[session u8, right u8, (step u8, place u8, value u8)*]`.
///
/// # Panics
/// Where a rule is broken that a fuzzer is to find: something outside changed or was told, or a key did more
/// than its right.
pub(crate) fn fuzzed(input: &[u8]) {
    let (Some(&session), Some(&right)) = (input.first(), input.get(1)) else { return };
    let choose = |sessions: Vec<Session>| -> Session {
        let index = usize::from(session) % sessions.len();
        sessions.into_iter().nth(index).expect("it is one of them")
    };
    // An examination takes a second.
    let of_ssh = |it: &Session| it.ways().contains(&Way::Ssh) && it.name != "probe";
    let Session { name, mut steps, .. } = choose(all().into_iter().filter(of_ssh).collect());
    let rights: Vec<Right> = known().into_iter().filter(|right| !right.part).collect();
    let right = rights[usize::from(right) % rights.len()];
    for change in input[2..].chunks_exact(3).take(CHANGES_MAX) {
        apply(&mut steps, change);
    }
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    let before = Manifest::of(&world.top()).expect("it can be read");
    let mut judge = Judge::default();
    play(&world, right, &steps, QUIET, &mut judge);
    let after = Manifest::of(&world.top()).expect("it can be read");
    judge.tree(right, &before, &after, ROOT);
    if before != after {
        world.restore(Extent::Root).expect("it can be written");
    }
    let broken: Vec<_> = judge
        .breaches
        .iter()
        .filter(|breach| matches!(breach.rule, Rule::Outside | Rule::Secrecy | Rule::Rights))
        .collect();
    assert!(broken.is_empty(), "{name} under {}: {broken:?}", right.name());
}

/// Changes one place of one message.
fn apply(steps: &mut [Step], change: &[u8]) {
    let index = usize::from(change[0]) % steps.len();
    let Step::Say(message) = &mut steps[index] else { return };
    let places = places(message);
    let (place, kind) = &places[usize::from(change[1]) % places.len()];
    if place.is_empty() || *place == [Turn::Member("type".to_owned())] {
        return;
    }
    let Some(old) = get(message, place).cloned() else { return };
    let values = replacements(*kind, &old, &[]);
    let (_, new) = &values[usize::from(change[2]) % values.len()];
    put(message, place, new.clone());
}

/// Plays steps against a server in a thread of this process.
fn play(world: &World, right: Right, steps: &[Step], quiet: Duration, judge: &mut Judge) -> Played {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let restriction = right.restriction(world.root()).expect("a right that a key can have");
    let serving = thread::spawn(move || {
        let peer = Peer { description: "a fuzzer".to_owned(), address: None, zone: 0, key: None };
        let write = theirs.try_clone().expect("a descriptor");
        let channel = ControlChannel::over(theirs, write, Carrier::Ssh, peer);
        // It was told.
        let _ = serve_over(channel, &restriction, &CancelToken::new());
    });
    let hangup = ours.try_clone().expect("a descriptor");
    let mut link = Link::over(ours.try_clone().expect("a descriptor"), ours);
    let filling = Filling {
        top: world.top().display().to_string(),
        udp_ports: ports_of_one(),
        port: 0,
        key: Vec::new(),
        ticket: String::new(),
    };
    let played = Player::new(&mut link, &filling, quiet).play(steps);
    link.close();
    // The writing thread and the reading one hold the socket too.
    let _ = hangup.shutdown(std::net::Shutdown::Write);
    serving.join().expect("the server does not panic");
    judge.answers(right, right.allows(Action::Read), &played);
    played
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile::play::Outcome;
    use fobs_model::rights::Access;

    #[test]
    fn sessions_go_through_in_this_process_too() {
        let world = World::new().unwrap();
        let right = Right { access: Access::ReadWrite, privileged: false, part: false };
        for name in ["push-object", "sync-push", "sync-pull", "remove"] {
            let session = all().into_iter().find(|it| it.name == name).unwrap();
            let mut judge = Judge::default();
            let played = play(&world, right, &session.steps, Duration::from_secs(20), &mut judge);
            let last = played.messages.last().map(ToString::to_string);
            assert_eq!(played.outcome, Outcome::Through, "{name}: {last:?}");
            world.restore(Extent::Root).unwrap();
        }
    }
}
