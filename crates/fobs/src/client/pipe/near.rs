//! This side's ends of a pipe, over all of its connections.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::super::persist::Course;
use super::super::resume::transfer_id;
use super::{NearEnds, PipeEnds, Piped, Turned};
use crate::pipe::draw::Well;
use crate::pipe::hearken::{Receipts, said};
use crate::pipe::pour::Valve;
use fobs_channel::control::ControlWriter;
use fobs_engine::Steering;
use fobs_model::error::{Error, Result};
use fobs_model::event::Summary;
use fobs_model::message::PipeEnd;
use fobs_model::options::TransferOptions;

/// Parts of the window after which the server is told what has arrived, beside the times.
const RECEIPTS: u64 = 8;

/// The ends.
pub(super) struct Near {
    /// What goes to the other side.
    pub(super) well: Well,
    /// Where what comes from there goes.
    pub(super) valve: Valve,
    /// Where what a command says beside that goes.
    pub(super) errors: Valve,
    pub(super) on: Box<dyn Fn(Turned) + Send + Sync>,
    /// Bytes after which more is said of what has arrived.
    pub(super) every: u64,
    /// Whether another connection may follow.
    pub(super) may_return: bool,
    pub(super) sent: Figures,
    pub(super) received: Figures,
}

impl Near {
    pub(super) fn new(ends: NearEnds, options: &TransferOptions, window: Option<u64>) -> Near {
        let NearEnds { ends: PipeEnds { input, output, errors }, at_end, on } = ends;
        let well = Well::new(input, at_end);
        if window.is_some() {
            well.keep(options.resume_window);
        }
        Near {
            well,
            valve: Valve::new(output),
            errors: errors.map_or_else(Valve::nowhere, Valve::new),
            on,
            every: window.map_or(u64::MAX, |window| (window / RECEIPTS).max(1)),
            may_return: window.is_some(),
            sent: Figures::default(),
            received: Figures::default(),
        }
    }

    pub(super) fn receipts(&self, writer: &ControlWriter) -> Option<Receipts> {
        self.may_return.then(|| Receipts::new(writer.clone()))
    }

    /// Bytes that have arrived for good, of all directions.
    pub(super) fn bytes(&self) -> u64 {
        self.valve.position() + self.errors.position() + self.well.confirmed()
    }

    /// The error of a pipe that has failed, with what had arrived.
    pub(super) fn given_up(&self, why: Error) -> Error {
        let (given, there) = (self.valve.given(), self.well.confirmed());
        let known = if self.may_return { format!(", {there} were known to be there") } else { String::new() };
        let message = format!("{}; {given} bytes had come from there{known}", said(&why));
        why.reworded(message)
    }

    pub(super) fn piped(&self, end: PipeEnd, began: Instant) -> Piped {
        let sent = self.sent.of_all(self.well.taken(), began);
        Piped { end, sent, received: self.received.of_all(self.valve.position(), began) }
    }
}

/// The figures of a direction.
#[derive(Default)]
pub(super) struct Figures(Mutex<(Summary, u32)>);

impl Figures {
    /// Those of an object that is moved; its bytes.
    pub(super) fn keep(&self, summary: Summary) -> Result<u64> {
        let bytes = summary.bytes;
        let mut figures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        figures.0 = summary;
        Ok(bytes)
    }

    /// One more connection begins to move it.
    pub(super) fn begin(&self) -> u32 {
        let mut figures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        figures.1 += 1;
        figures.1
    }

    /// The last ones; over several connections with the bytes and the time of all.
    fn of_all(&self, bytes: u64, began: Instant) -> Summary {
        let (last, connections) = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if connections < 2 {
            return last;
        }
        let seconds = began.elapsed().as_secs_f64();
        Summary { bytes, seconds, goodput_bps: bytes as f64 * 8.0 / seconds.max(1e-9), ..last }
    }
}

/// Of an object that is changed by this.
pub(super) fn course_of(steering: &Steering) -> Course {
    let mut course = Course::of_pipe(transfer_id());
    course.steering = steering.clone();
    course
}
