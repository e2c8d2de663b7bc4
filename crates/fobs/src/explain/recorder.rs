//! Makes a record of a transfer's events.

use super::journal::{At, Journal};
use super::trace::{End, Head, Trace};
use crate::event::{Event, Outcome};
use std::time::{Duration, Instant};

/// Records one transfer.
#[derive(Debug)]
pub struct Recorder {
    began: Instant,
    head: Head,
    journal: Journal,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder { began: Instant::now(), head: Head::default(), journal: Journal::new() }
    }
}

impl Recorder {
    /// A recorder whose time begins now.
    pub fn new() -> Recorder {
        Recorder::default()
    }

    /// Records an event, at the time of the call.
    pub fn record(&mut self, event: &Event) {
        let what = match event {
            Event::Started { control, transport, cipher, cc } => {
                self.head = Head {
                    control: (*control).to_owned(),
                    transport: (*transport).to_owned(),
                    cipher: (*cipher).to_owned(),
                    cc: (*cc).to_owned(),
                };
                return;
            }
            Event::Measured(measured) => (**measured).clone(),
            Event::Progress(_)
            | Event::FileDone { .. }
            | Event::FileFailed(_)
            | Event::Changed { .. }
            | Event::Deleted { .. }
            | Event::Notice(_) => return,
        };
        let at_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.journal.push(At { at_us, what });
    }

    /// Time since it was made.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The record so far, as if the transfer failed now.
    pub fn so_far(&self) -> Trace {
        let end = End::Failed { message: "it is not over".to_owned() };
        Trace { head: self.head.clone(), journal: self.journal.clone(), end }
    }

    /// The record of a transfer with this outcome.
    pub fn trace(&self, outcome: &Outcome) -> Trace {
        let end = match outcome {
            Ok(summary) => End::Done {
                bytes: summary.bytes,
                seconds: summary.seconds,
                packet_size: summary.packet_size,
                deadline_margin_s: summary.deadline_margin_s,
            },
            Err(error) => End::Failed { message: error.message.clone() },
        };
        Trace { head: self.head.clone(), journal: self.journal.clone(), end }
    }
}
