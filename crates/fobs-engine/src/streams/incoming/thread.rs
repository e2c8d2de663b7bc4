//! The thread that reads frames from streams.

use super::{Exchange, FAILURES_MAX, FRAMES_MAX, FrameIn, Shared};
use crate::Clock;
use crate::streams::TURN_MAX;
use crate::streams::pool::Pool;
use crate::streams::wire::End;
use crate::thread::be_punctual;
use fobs_model::error::{Error, ErrorKind};
use fobs_proto::Timestamp;
use fobs_proto::wire::{Ack, Frame, FrameReport, WireError};
use std::sync::Arc;

/// What a receiver keeps of a stream.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Frames that the session's thread has taken, and how many the sender knows of.
    frames: u64,
    reported: u64,
    /// The turn in which something came last.
    active: u64,
}

pub(super) struct Receiving {
    pool: Pool<Taken>,
    shared: Arc<Shared>,
    clock: Clock,
    turn: u64,
    ack: Option<Ack>,
    /// Where the next ack goes if nothing has come since the last one.
    next: usize,
    last_ack_turn: u64,
    full: bool,
}

impl Receiving {
    pub(super) fn new(pool: Pool<Taken>, shared: Arc<Shared>, clock: Clock) -> Receiving {
        Receiving { pool, shared, clock, turn: 0, ack: None, next: 0, last_ack_turn: 0, full: false }
    }

    /// Until the session ends.
    pub(super) fn run(mut self) {
        be_punctual();
        while !self.shared.lock().ending {
            self.turn += 1;
            let now = self.clock.now();
            self.admit();
            self.read(now);
            self.report();
            self.let_go();
            self.publish();
            let full = self.full;
            let waited = self.pool.wait(TURN_MAX, |stream| (!full, stream.is_open() && !stream.is_idle()));
            if let Err(error) = waited {
                // Without poll(2) no stream works: the session goes on without them.
                for stream in &mut self.pool.streams {
                    stream.end.get_or_insert(End::Broken(error.to_string()));
                }
                std::thread::sleep(TURN_MAX);
            }
        }
    }

    fn admit(&mut self) {
        for failure in self.pool.admit() {
            note(&mut self.shared.lock(), failure);
        }
    }

    /// Reads while there is room.
    fn read(&mut self, now: Timestamp) {
        let Receiving { pool, shared, turn, full, .. } = self;
        let (mut heard, mut came) = (false, false);
        // Not the same stream first each time: where there is little room all have their turn.
        let streams = pool.streams.len().max(1);
        pool.streams.rotate_left(usize::try_from(*turn).unwrap_or_default() % streams.min(2));
        for stream in &mut pool.streams {
            *full = shared.lock().frames.len() >= FRAMES_MAX;
            if *full {
                break;
            }
            let index = stream.index;
            let active = stream.receive(
                || shared.lock().buffer(),
                |_, plain| {
                    heard = true;
                    came |= take(shared, index, plain)?;
                    Ok(())
                },
            );
            if active {
                stream.role.active = *turn;
            }
        }
        let mut exchange = shared.lock();
        *full = exchange.frames.len() >= FRAMES_MAX;
        if heard {
            exchange.heard = Some(now);
        }
        if came || *full || exchange.failure.is_some() {
            shared.owner.wake();
        }
    }

    /// Tells the sender what was taken.
    fn report(&mut self) {
        {
            let mut exchange = self.shared.lock();
            if let Some(ack) = exchange.ack.take() {
                self.ack = Some(ack);
            }
            for (index, count) in std::mem::take(&mut exchange.taken) {
                // Frames of a stream that has ended: the ack reports what is in them.
                if let Some(stream) = self.pool.streams.iter_mut().find(|stream| stream.index == index) {
                    stream.role.frames += count;
                }
            }
        }
        let mut carrier = if self.ack.is_some() { self.ack_carrier() } else { None };
        for (place, stream) in self.pool.streams.iter_mut().enumerate() {
            stream.flush();
            let carries = carrier == Some(place);
            if !stream.is_idle() || !carries && stream.role.reported == stream.role.frames {
                continue;
            }
            let ack = if carries { self.ack.take() } else { None };
            if carries {
                (carrier, self.last_ack_turn) = (None, self.turn);
            }
            stream.report(&FrameReport { delivered: stream.role.frames, ack });
            stream.role.reported = stream.role.frames;
        }
    }

    /// The stream for the newest ack: one that has just shown that it works, or each in turn.
    fn ack_carrier(&mut self) -> Option<usize> {
        let since = self.last_ack_turn;
        // Asked once: the channel's lane becomes idle, and ceases to be, by another thread.
        let places = 0..self.pool.streams.len();
        let idle: Vec<usize> = places.filter(|place| self.pool.streams[*place].is_idle()).collect();
        let active = idle.iter().copied().max_by_key(|place| self.pool.streams[*place].role.active)?;
        if self.pool.streams[active].role.active > since {
            return Some(active);
        }
        self.next = self.next.wrapping_add(1);
        idle.get(self.next % idle.len()).copied()
    }

    fn let_go(&mut self) {
        for (stream, end) in self.pool.take_ended() {
            drop(stream);
            note(&mut self.shared.lock(), end.to_string());
        }
    }

    fn publish(&mut self) {
        self.shared.lock().open = self.pool.streams.len() as u32;
    }
}

/// Takes an authentic record; whether a frame with data came.
fn take(shared: &Shared, stream: u16, plain: Vec<u8>) -> Result<bool, End> {
    let header = match Frame::decode(&plain) {
        Ok(Frame::Data(header, _)) => header,
        // The sender's greeting.
        Ok(Frame::Report(_)) => {
            shared.lock().spare.push(plain);
            return Ok(false);
        }
        Err(WireError::OutOfBounds) => {
            shared.lock().failure.get_or_insert_with(out_of_range);
            return Err(End::Unexpected("a frame out of range"));
        }
        Err(_) => return Err(End::Unexpected("a record that is no frame")),
    };
    shared.lock().frames.push_back(FrameIn { stream, header, plain });
    Ok(true)
}

/// An authentic frame is not what it says: the peer's program is wrong, and nothing it sends can be trusted.
pub fn out_of_range() -> Error {
    Error::new(
        ErrorKind::Protocol,
        "a frame came on a stream that is out of the range of the data; use the same version of fobs on both sides",
    )
}

fn note(exchange: &mut Exchange, failure: String) {
    if exchange.failures.len() < FAILURES_MAX {
        exchange.failures.push(failure);
    }
}
