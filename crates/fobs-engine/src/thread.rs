//! The engine's threads: how they are started and scheduled.

use fobs_model::error::{Error, ErrorKind};
use fobs_sys::{ThreadDuty, hint_scheduler, set_timer_slack_ns};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Timer slack of the threads that pace, ns: the kernel's default of 50 us is half a burst at 5 Gbit/s.
const TIMER_SLACK_NS: u64 = 1_000;

/// Starts a thread.
pub(super) fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Error> {
    fobs_sys::confine::spawn(name, body).map_err(|error| {
        let message = format!(
            "cannot start a thread: {error}; raise the limit of processes (ulimit -u) or try again later"
        );
        Error::new(ErrorKind::Internal, message)
    })
}

/// How long a session waits for a thread that it has told to end, for its last figures.
const END_WAIT: Duration = Duration::from_millis(200);
/// How often it looks.
const END_POLL: Duration = Duration::from_millis(1);

/// Waits for the end of a thread that has been told to end, for a bounded time: it may wait for this one.
pub(super) fn await_end(handle: &mut Option<JoinHandle<()>>) {
    let Some(handle) = handle.take() else { return };
    let until = Instant::now() + END_WAIT;
    while !handle.is_finished() && Instant::now() < until {
        std::thread::sleep(END_POLL);
    }
}

/// Makes the calling thread a punctual one, which wakes when its timer says so.
pub(super) fn be_punctual() {
    set_timer_slack_ns(TIMER_SLACK_NS);
    hint_scheduler(ThreadDuty::Punctual);
}
