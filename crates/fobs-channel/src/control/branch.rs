//! One channel as several (protocol 2.18): a branch is a channel of its own inside another one, so that two
//! objects move at once over one connection. Its bytes are data frames of the channel around it.
//!
//! Each branch has a window of bytes that may wait for its reader, which the reader renews: so one whose
//! reader rests holds up neither the other branches nor the messages beside them.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fobs_model::error::{Error, ErrorKind, Result};
use fobs_sys::confine;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::frame::{broken, encode_data};
use super::outlet::{Load, Outlet};
use super::pair::ShutOnDrop;
use super::timed::ReadDeadline;
use super::{ControlChannel, named};

/// Bytes of a branch that wait for their reader at most: what a channel carries in 80 ms at 100 Mbit/s.
const WINDOW_BYTES: usize = 1 << 20;
/// Bytes of one frame: with what is before them within the largest data frame.
const PIECE_BYTES: usize = 60 << 10;
/// The longest wait for room in the channel before it is looked at again.
const ROOM_WAIT: Duration = Duration::from_millis(50);

/// What a data frame of a branch is: its first byte. The second one is the branch.
const BYTES: u8 = 0;
/// Its reader has taken this number of bytes (u32, big-endian).
const TAKEN: u8 = 1;
/// Nothing follows.
const END: u8 = 2;
const HEAD_BYTES: usize = 2;

impl ControlChannel {
    /// From now on this channel has `count` branches; both sides make the same number. Messages are read and
    /// sent as before, and must be read all the time: that brings the branches' bytes.
    ///
    /// # Errors
    /// `Socket` where the process may open no more files, `Internal` where it may start no more threads.
    pub fn branch(&mut self, count: u8) -> Result<Vec<ControlChannel>> {
        let descriptor =
            self.writer.outlet.poll_descriptor().map_err(|error| named(&self.writer.peer, broken(&error)))?;
        let way = Arc::new(Way { outlet: self.writer.outlet.clone(), descriptor });
        let mut inlets = Vec::new();
        let mut branches = Vec::new();
        for index in 0..count {
            let (inlet, branch) = self.one(index, &way)?;
            inlets.push(inlet);
            branches.push(branch);
        }
        self.reader.branches = Some(Branches(inlets));
        Ok(branches)
    }

    fn one(&self, index: u8, way: &Arc<Way>) -> Result<(Inlet, ControlChannel)> {
        let (near, far) = UnixStream::pair().map_err(|error| {
            let message = format!("cannot make a socket: {error}; raise the limit of open files (ulimit -n)");
            Error::new(ErrorKind::Socket, message)
        })?;
        let inlet = Inlet::default();
        let (to, credit) = (way.clone(), inlet.clone());
        confine::spawn("fobs-branch", move || carry(index, far, &to, &credit)).map_err(Error::internal)?;
        let deadline = ReadDeadline::default();
        let reader = BranchReader {
            index,
            inlet: inlet.clone(),
            way: way.clone(),
            untold: 0,
            deadline: deadline.clone(),
        };
        let writer = ShutOnDrop(near);
        let branch = ControlChannel::over_timed(reader, deadline, writer, self.carrier, self.peer.clone());
        Ok((inlet, branch))
    }
}

/// The way out of all branches.
struct Way {
    outlet: Arc<dyn Outlet>,
    /// Polls as writable where the channel has room.
    descriptor: OwnedFd,
}

impl Way {
    /// Sends a frame once there is room for it, and waits until it has left.
    fn send(&self, kind: u8, index: u8, bytes: &[u8]) -> io::Result<()> {
        let frame = encode_data(&[&[kind, index], bytes].concat());
        let mark = loop {
            if let Some(mark) = self.outlet.push(&frame, Load::Data)? {
                break mark;
            }
            self.outlet.drain()?;
            self.wait_for_room();
        };
        while self.outlet.drain()? < mark {
            self.wait_for_room();
        }
        Ok(())
    }

    fn wait_for_room(&self) {
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(ROOM_WAIT.subsec_nanos()) };
        let mut waiting = [PollFd::new(&self.descriptor, PollFlags::OUT)];
        // Where it fails, the next push or drain says why.
        let _ = poll(&mut waiting, Some(&timeout));
    }
}

/// What both threads of a branch and the channel's reader share.
#[derive(Clone)]
struct Inlet(Arc<(Mutex<BranchState>, Condvar)>);

struct BranchState {
    /// What has come and is not read.
    arrived: VecDeque<u8>,
    ending: Ending,
    /// Bytes that may still be sent.
    room: usize,
}

/// What becomes of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Open,
    /// The other side has ended it.
    Ended,
    /// The channel around it is over.
    Broken,
}

impl Default for Inlet {
    fn default() -> Inlet {
        let state = BranchState { arrived: VecDeque::new(), ending: Ending::Open, room: WINDOW_BYTES };
        Inlet(Arc::new((Mutex::new(state), Condvar::new())))
    }
}

impl Inlet {
    fn state(&self) -> MutexGuard<'_, BranchState> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut BranchState)) {
        change(&mut self.state());
        self.0.1.notify_all();
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, BranchState>,
        until: Option<Instant>,
    ) -> MutexGuard<'a, BranchState> {
        match until {
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                self.0.1.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Takes room for at most `wanted` bytes; waits until there is some. `None` once nobody reads them.
    fn take_room(&self, wanted: usize) -> Option<usize> {
        let mut state = self.state();
        while state.room == 0 && state.ending != Ending::Broken {
            state = self.wait(state, None);
        }
        if state.ending == Ending::Broken {
            return None;
        }
        let taken = wanted.min(state.room);
        state.room -= taken;
        Some(taken)
    }
}

/// Carries what this side writes on a branch to the channel, until it ends or the channel does.
fn carry(index: u8, mut from: UnixStream, to: &Way, inlet: &Inlet) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = match from.read(&mut piece) {
            Ok(0) => {
                // A channel that is over has ended it already.
                let _ = to.send(END, index, &[]);
                return;
            }
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let mut rest = &piece[..count];
        while !rest.is_empty() {
            let Some(room) = inlet.take_room(rest.len()) else { return };
            let (now, later) = rest.split_at(room);
            if to.send(BYTES, index, now).is_err() {
                return;
            }
            rest = later;
        }
    }
}

/// Where the channel's reader puts the bytes of its branches. Dropping it ends them all.
pub(super) struct Branches(Vec<Inlet>);

impl Branches {
    /// Takes a data frame.
    ///
    /// # Errors
    /// `Protocol` for one that is of no branch, or beyond what its reader has room for.
    pub(super) fn take(&self, record: &[u8]) -> Result<()> {
        let Some((&[kind, index], body)) = record.split_first_chunk::<HEAD_BYTES>() else {
            return Err(violated("a frame of a branch is too short"));
        };
        let inlet =
            self.0.get(usize::from(index)).ok_or_else(|| violated("a frame is of a branch that is none"))?;
        let mut state = inlet.state();
        match (kind, body) {
            (BYTES, bytes) => {
                if state.ending != Ending::Open || state.arrived.len() + bytes.len() > WINDOW_BYTES {
                    return Err(violated("more of a branch came than its reader has room for"));
                }
                state.arrived.extend(bytes);
            }
            (TAKEN, &[a, b, c, d]) => {
                let taken = u32::from_be_bytes([a, b, c, d]) as usize;
                state.room = state.room.saturating_add(taken);
                if state.room > WINDOW_BYTES {
                    return Err(violated("more of a branch was taken than was sent"));
                }
            }
            (END, []) => state.ending = Ending::Ended,
            _ => return Err(violated("a frame of a branch is malformed")),
        }
        drop(state);
        inlet.0.1.notify_all();
        Ok(())
    }
}

impl Drop for Branches {
    fn drop(&mut self) {
        for inlet in &self.0 {
            inlet.change(|state| state.ending = Ending::Broken);
        }
    }
}

fn violated(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("{what}; install the same version of fobs on both sides"))
}

/// The receiving half of a branch.
struct BranchReader {
    index: u8,
    inlet: Inlet,
    way: Arc<Way>,
    /// Bytes that were read, and of which the other side has not been told.
    untold: usize,
    deadline: ReadDeadline,
}

impl Read for BranchReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.inlet.state();
        while state.arrived.is_empty() {
            match state.ending {
                Ending::Open => {}
                Ending::Ended => return Ok(0),
                Ending::Broken => return Err(io::ErrorKind::ConnectionReset.into()),
            }
            let until = self.deadline.get();
            if until.is_some_and(|until| until <= Instant::now()) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nothing came in time"));
            }
            state = self.inlet.wait(state, until);
        }
        let count = state.arrived.read(buffer)?;
        drop(state);
        self.untold += count;
        if self.untold >= WINDOW_BYTES / 4 {
            let taken = u32::try_from(std::mem::take(&mut self.untold)).unwrap_or(u32::MAX);
            // A channel that is over says so at the next read.
            let _ = self.way.send(TAKEN, self.index, &taken.to_be_bytes());
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
