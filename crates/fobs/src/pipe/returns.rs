//! Pipes of a server whose clients may come back over another connection (protocol 2.19). A pipe is found by
//! its name and a proof that only its client can make, with the key that it was begun with; each return is
//! good once.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fobs_channel::secure::random_bytes;
use fobs_model::bytes::SecretText;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::{PipeResume, PipeTicket};
use fobs_model::public_key::PublicKey;
use fobs_sys::confine;

use super::hearken::{Bell, Happening};
use super::held::Held;

/// Pipes at a server that may be returned to, and those of one key: as many as clients that listen.
const PIPES_MAX: usize = 64;
const PIPES_OF_KEY_MAX: usize = 16;
/// How long a connection has to let go of a pipe whose client is back: the engine's own time to end, and
/// some.
const LEAVE_WAIT: Duration = Duration::from_secs(15);
/// What the proof of a return is over, before its number.
const CONTEXT: &[u8] = b"fobs pipe return 1\0";

/// What proves that a client returns for the `turn`th time.
pub(crate) fn proof(secret: &blake3::Hash, turn: u32) -> blake3::Hash {
    blake3::keyed_hash(secret.as_bytes(), &[CONTEXT, &turn.to_be_bytes()].concat())
}

/// The pipes. Clones are the same.
#[derive(Clone, Default)]
pub struct Returns(Arc<Shared>);

#[derive(Default)]
struct Shared {
    pipes: Mutex<Pipes>,
    changed: Condvar,
}

#[derive(Default)]
struct Pipes {
    by_name: BTreeMap<String, Entry>,
    /// Pipes that are being given up: their programs end first.
    ending: usize,
    stands: Stands,
}

/// Whether clients come back at all.
#[derive(Default, PartialEq, Eq)]
enum Stands {
    #[default]
    Open,
    Closed,
}

struct Entry {
    key: Option<PublicKey>,
    secret: blake3::Hash,
    /// The newest return.
    turn: u32,
    place: Place,
}

enum Place {
    /// A connection has it, which is told there when its client is back.
    Connected(Bell),
    /// It waits for its client.
    Waits { held: Box<Held>, until: Instant },
}

/// A pipe's entry, for the connection that has the pipe. Dropped, there is none any more.
pub(crate) struct Berth {
    returns: Returns,
    name: String,
    turn: u32,
}

impl Returns {
    /// Enters a pipe; `None` where there is no room. `bell` is rung when its client is back.
    pub(crate) fn enter(
        &self,
        key: Option<PublicKey>,
        window: u64,
        bell: Bell,
    ) -> Option<(Berth, PipeTicket)> {
        let mut pipes = self.pipes();
        let of_key = pipes.by_name.values().filter(|it| it.key == key).count();
        let has_room = pipes.by_name.len() < PIPES_MAX && of_key < PIPES_OF_KEY_MAX;
        if !has_room || pipes.stands == Stands::Closed {
            return None;
        }
        let name = hex(&random_bytes::<16>());
        let secret = blake3::Hash::from_bytes(random_bytes());
        let entry = Entry { key, secret, turn: 0, place: Place::Connected(bell) };
        pipes.by_name.insert(name.clone(), entry);
        let ticket =
            PipeTicket { pipe: name.clone(), secret: SecretText::new(secret.to_hex().to_string()), window };
        Some((Berth { returns: self.clone(), name, turn: 0 }, ticket))
    }

    /// Gives a pipe to its client, which is back; waits until the connection before has let go of it.
    ///
    /// # Errors
    /// `NoSource` where there is none, or it is not this client's.
    pub(crate) fn take(
        &self,
        asked: &PipeResume,
        key: Option<PublicKey>,
        bell: &Bell,
    ) -> Result<(Berth, Box<Held>)> {
        let mut pipes = self.pipes();
        let entry = pipes.by_name.get_mut(&asked.pipe).filter(|it| it.key == key).ok_or_else(gone)?;
        let shown = blake3::Hash::from_hex(asked.proof.as_str()).map_err(|_| gone())?;
        // Compared in constant time.
        if asked.turn <= entry.turn || shown != proof(&entry.secret, asked.turn) {
            return Err(gone());
        }
        entry.turn = asked.turn;
        if let Place::Connected(before) = &entry.place {
            // One that is full is looked at all the time, and finds its channel broken.
            let _ = before.try_send(Happening::Superseded);
        }
        let until = Instant::now() + LEAVE_WAIT;
        loop {
            let entry = pipes.by_name.get_mut(&asked.pipe).filter(|it| it.turn == asked.turn);
            let entry = entry.ok_or_else(gone)?;
            if matches!(entry.place, Place::Waits { .. })
                && let Place::Waits { held, .. } =
                    std::mem::replace(&mut entry.place, Place::Connected(bell.clone()))
            {
                let berth = Berth { returns: self.clone(), name: asked.pipe.clone(), turn: asked.turn };
                return Ok((berth, held));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let message = "the connection before does not end; try again in a minute";
                return Err(Error::new(ErrorKind::Connect, message));
            }
            pipes = self.0.changed.wait_timeout(pipes, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Gives up those whose clients stayed away, in a thread of its own: their programs may take time to end.
    pub fn expire(&self, now: Instant) {
        self.give_up(|until| until <= now, "the client did not come back to its pipe");
    }

    /// From now on no client comes back; those that are waited for are given up.
    pub fn close(&self) {
        self.pipes().stands = Stands::Closed;
        self.give_up(|_| true, "the server shuts down");
    }

    /// Pipes that wait for their clients.
    pub fn waiting(&self) -> usize {
        self.pipes().by_name.values().filter(|it| matches!(it.place, Place::Waits { .. })).count()
    }

    /// Whether there is any pipe, or one whose program still ends.
    pub fn is_empty(&self) -> bool {
        let pipes = self.pipes();
        pipes.by_name.is_empty() && pipes.ending == 0
    }

    /// Whether there is one of this name.
    pub(crate) fn has(&self, pipe: &str) -> bool {
        self.pipes().by_name.contains_key(pipe)
    }

    fn give_up(&self, which: impl Fn(Instant) -> bool, why: &'static str) {
        let mut pipes = self.pipes();
        let is_over = |entry: &Entry| matches!(&entry.place, Place::Waits { until, .. } if which(*until));
        let names: Vec<String> =
            pipes.by_name.iter().filter(|(_, it)| is_over(it)).map(|(name, _)| name.clone()).collect();
        let over: Vec<Entry> = names.iter().filter_map(|name| pipes.by_name.remove(name)).collect();
        let ending = Ending { returns: self.clone(), count: over.len() };
        pipes.ending += over.len();
        drop(pipes);
        self.0.changed.notify_all();
        if over.is_empty() {
            return;
        }
        let end = move || {
            let _ending = ending;
            for entry in over {
                if let Place::Waits { held, .. } = entry.place {
                    held.give_up_away(why);
                }
            }
        };
        // Without a thread they end with their descriptors, as those of a server that is killed.
        let _ = confine::spawn("fobs-returns", end);
    }

    fn pipes(&self) -> MutexGuard<'_, Pipes> {
        self.0.pipes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pipes that are being given up, until it is dropped.
struct Ending {
    returns: Returns,
    count: usize,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.returns.pipes().ending -= self.count;
    }
}

impl Berth {
    /// The pipe waits for its client, for so long. It is given up at once where none can come any more.
    pub(crate) fn wait(mut self, held: Held, wait: Duration) {
        let returns = self.returns.clone();
        let mut pipes = returns.pipes();
        let is_open = pipes.stands == Stands::Open;
        match pipes.by_name.get_mut(&self.name) {
            Some(entry) if is_open => {
                entry.place = Place::Waits { held: Box::new(held), until: Instant::now() + wait };
                // Its entry stays.
                self.name.clear();
                drop(pipes);
                returns.0.changed.notify_all();
            }
            _ => {
                drop(pipes);
                held.give_up_away("the server shuts down");
            }
        }
    }
}

impl Drop for Berth {
    fn drop(&mut self) {
        let mut pipes = self.returns.pipes();
        // Also where its client is back and waits: there is nothing to come back to.
        if pipes.by_name.get(&self.name).is_some_and(|entry| entry.turn >= self.turn) {
            pipes.by_name.remove(&self.name);
        }
        drop(pipes);
        self.returns.0.changed.notify_all();
    }
}

impl Held {
    /// Ends it while its client is away.
    fn give_up_away(&self, why: &str) {
        let message = format!("{why}; {} bytes had reached the other end of the pipe", self.valve.given());
        self.party.give_up(&Error::new(ErrorKind::Connect, message));
    }
}

/// One answer, whatever is wrong: names of others' pipes are not to be found out.
fn gone() -> Error {
    let message = "this pipe is not there any more: its program has ended, or was not waited for any longer";
    Error::new(ErrorKind::NoSource, message)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
