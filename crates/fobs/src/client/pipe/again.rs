//! The way back to a pipe whose connection broke (protocol 2.19).

use std::time::{Duration, Instant};

use super::super::persist::{is_of_the_connection, reason, rest};
use super::super::{Client, blame};
use super::line::Line;
use super::near::Near;
use super::{Joined, PipeManner};
use crate::pipe::returns::proof;
use fobs_model::bytes::SecretText;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::Event;
use fobs_model::message::{PipeOpen, PipeRequest, PipeResume, PipeTicket};
use fobs_model::options::Remote;

/// Wait before the first attempt; it doubles.
const WAIT_FIRST: Duration = Duration::from_millis(250);
/// Longest wait: a server waits for a minute at least.
const WAIT_MAX: Duration = Duration::from_secs(8);

/// Returns in a row that may bring nothing and be over within this time: some cuts in a row, but no more.
const IN_VAIN_MAX: u32 = 8;
const IN_VAIN_WITHIN: Duration = Duration::from_secs(5);

/// What this client may return to.
pub(super) struct ReturnTo {
    pipe: String,
    secret: blake3::Hash,
    /// The newest return.
    turn: u32,
    pub(super) window: u64,
    /// Returns in a row that brought nothing and were soon over, and when and where the newest one began.
    in_vain: u32,
    newest: Option<(Instant, u64)>,
}

impl ReturnTo {
    /// `None` of a server that gave no secret which could be one.
    pub(super) fn of(ticket: PipeTicket) -> Option<ReturnTo> {
        let secret = blake3::Hash::from_hex(ticket.secret.as_str()).ok()?;
        Some(ReturnTo { pipe: ticket.pipe, secret, turn: 0, window: ticket.window, in_vain: 0, newest: None })
    }

    /// Another connection in the place of the one that broke so.
    ///
    /// # Errors
    /// `Timeout` where none came about in `--timeout`, and why the server has the pipe no more.
    pub(super) fn over_another<'a>(
        &mut self,
        near: &Near,
        broken: Error,
        remote: &Remote,
        manner: PipeManner<'a>,
    ) -> Result<Line<'a>> {
        let PipeManner { options, sending, cancel, .. } = manner;
        if self.is_in_vain(near) {
            return Err(broken);
        }
        sending.event(Event::Notice(format!("{}; the pipe goes on over a new connection", reason(&broken))));
        let until = Instant::now() + options.timeout;
        let (mut wait, mut last) = (WAIT_FIRST, broken);
        loop {
            if Instant::now() >= until {
                let message = format!(
                    "no new connection came about within {} s (--timeout); the last error: {}",
                    options.timeout.as_secs(),
                    reason(&last)
                );
                return Err(Error::new(ErrorKind::Timeout, message));
            }
            rest(wait.min(until.saturating_duration_since(Instant::now())), cancel)?;
            match self.once(near, remote, manner) {
                Ok(line) => {
                    self.newest = Some((Instant::now(), near.bytes()));
                    let notice = format!("connected again: the pipe goes on at byte {}", line.begin);
                    sending.event(Event::Notice(notice));
                    return Ok(line);
                }
                Err(error) if is_of_the_connection(&error, cancel) => last = error,
                Err(error) => return Err(error),
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
    }

    /// Whether connections come about and break at once, whatever is done.
    fn is_in_vain(&mut self, near: &Near) -> bool {
        let soon = |(at, bytes): (Instant, u64)| at.elapsed() < IN_VAIN_WITHIN && bytes == near.bytes();
        self.in_vain = if self.newest.is_some_and(soon) { self.in_vain + 1 } else { 0 };
        self.in_vain >= IN_VAIN_MAX
    }

    fn once<'a>(&mut self, near: &Near, remote: &Remote, manner: PipeManner<'a>) -> Result<Line<'a>> {
        let PipeManner { options, sending, cancel, .. } = manner;
        let mut client = Client::call(remote, options, sending.clone(), cancel)?;
        self.turn += 1;
        let resume = PipeResume {
            pipe: self.pipe.clone(),
            turn: self.turn,
            proof: SecretText::new(proof(&self.secret, self.turn).to_hex().to_string()),
            have: near.valve.position(),
            errors: near.errors.position(),
        };
        let joined = client.join(PipeOpen::from(PipeRequest::Resume(resume)));
        let (branches, Joined { have, .. }) =
            joined.map_err(|error| cancel.explain(blame(error, client.ssh.as_ref(), cancel)))?;
        Ok(Line { client, branches, begin: have })
    }
}
