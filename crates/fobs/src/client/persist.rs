//! A transfer goes on over a new connection after the old one broke: attempts until it is complete, until an
//! error that another attempt would meet again, or until nothing new arrives for too long.

mod course;

pub(super) use course::{Course, Start, Telling};

use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use std::fmt;
use std::time::{Duration, Instant};

/// Wait before the second attempt; it doubles with each one that brought nothing.
const WAIT_FIRST: Duration = Duration::from_secs(1);
/// Longest wait: a host that has restarted is found within this time.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How often a wait looks for cancellation.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// How an attempt ended.
#[derive(Debug)]
pub(super) struct Attempt<T> {
    pub(super) outcome: Result<T>,
    /// When it verified something for the last time.
    pub(super) verified_at: Option<Instant>,
    /// Whether a new connection may mend a failure.
    pub(super) remedy: Remedy,
}

/// What may mend a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Another attempt, if the error is of the connection.
    Reconnect,
    /// Nothing that this program can do: the user chose this end, or the data cannot be read twice.
    None,
}

/// The connection broke with this error; the next attempt follows after the wait.
#[derive(Debug, PartialEq)]
pub(super) struct Interlude<'a> {
    error: &'a Error,
    wait: Duration,
}

impl fmt::Display for Interlude<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; the next attempt follows in {} s", reason(self.error), self.wait.as_secs().max(1))
    }
}

/// The first clause of an error: what failed and why. What to do about it is done here.
pub(super) fn reason(error: &Error) -> &str {
    error.message.split(';').next().unwrap_or_default()
}

/// Calls `attempt` as long as it makes sense; `timeout` is the longest time without anything new. `tell` gets
/// what happens in between.
pub(super) fn persist<T>(
    timeout: Duration,
    cancel: &CancelToken,
    tell: impl Fn(Interlude<'_>),
    mut attempt: impl FnMut() -> Attempt<T>,
) -> Result<T> {
    let mut patience = Patience::new(timeout);
    loop {
        let Attempt { outcome, verified_at, remedy } = attempt();
        let error = match outcome {
            Err(error) if remedy == Remedy::Reconnect && is_of_the_connection(&error, cancel) => error,
            outcome => return outcome,
        };
        let wait = match patience.after_failure(Instant::now(), verified_at) {
            Next::In(wait) => wait,
            Next::Fail => return Err(error),
            Next::GiveUp => return Err(gave_up(timeout, &error)),
        };
        tell(Interlude { error: &error, wait });
        rest(wait, cancel)?;
    }
}

/// Waits, unless the user cancels.
pub(super) fn rest(wait: Duration, cancel: &CancelToken) -> Result<()> {
    let end = Instant::now() + wait;
    while Instant::now() < end {
        cancel.check()?;
        std::thread::sleep(CANCEL_POLL.min(end.saturating_duration_since(Instant::now())));
    }
    cancel.check()
}

/// Whether the error is one of the way to the other host, or of that host's restart.
pub(super) fn is_of_the_connection(error: &Error, cancel: &CancelToken) -> bool {
    match error.kind {
        ErrorKind::Connect | ErrorKind::Timeout | ErrorKind::Ssh | ErrorKind::Socket => {
            !cancel.is_cancelled()
        }
        // The other side's interruption: a server that was told to stop.
        ErrorKind::Interrupted => !cancel.is_cancelled(),
        _ => false,
    }
}

fn gave_up(timeout: Duration, last: &Error) -> Error {
    let message = format!(
        "nothing new arrived for {} s (--timeout), over several connections; the last error: {}",
        timeout.as_secs(),
        reason(last)
    );
    Error::new(ErrorKind::Timeout, message)
}

/// What follows a failure.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Another attempt, after this time.
    In(Duration),
    /// Nothing has arrived at all: the user sees the error as it is.
    Fail,
    /// Nothing new has arrived for too long.
    GiveUp,
}

/// When to try again, and when to give up.
#[derive(Debug)]
struct Patience {
    timeout: Duration,
    /// When something new was verified for the last time.
    verified_at: Option<Instant>,
    /// Failures since.
    failures: u32,
}

impl Patience {
    fn new(timeout: Duration) -> Patience {
        Patience { timeout, verified_at: None, failures: 0 }
    }

    fn after_failure(&mut self, now: Instant, verified_at: Option<Instant>) -> Next {
        if verified_at > self.verified_at {
            self.verified_at = verified_at;
            self.failures = 0;
        }
        let Some(verified_at) = self.verified_at else { return Next::Fail };
        let left = (verified_at + self.timeout).saturating_duration_since(now);
        if left.is_zero() {
            return if self.failures == 0 { Next::Fail } else { Next::GiveUp };
        }
        let wait = WAIT_FIRST * 2_u32.pow(self.failures.min(WAIT_MAX.as_secs().ilog2() + 1));
        self.failures += 1;
        Next::In(wait.min(WAIT_MAX).min(left))
    }
}

#[cfg(test)]
mod tests;
