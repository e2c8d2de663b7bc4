//! Trying again where a server had no room for a connection: it ended that before it said a word, or said
//! that it is full; or where another copy into the destination is running. Nothing has happened at either end
//! then.

use super::manner::Manner;
use super::persist::{reason, rest};
use fobs_model::error::{Busy, Error, Result};
use fobs_model::event::Event;
use fobs_model::options::{Taken, TransferOptions};
use std::time::{Duration, Instant};

/// How long a server that ends connections without a word is tried: what listens there may be no server, and
/// a person waits to read that.
const CLOSED_WAIT: Duration = Duration::from_secs(20);
/// How long a server is tried that says that it is full. It lets a client wait for a session by itself
/// ([`queue_wait`](fobs_model::options::ServeOptions::queue_wait)), which is part of this time.
const FULL_WAIT: Duration = Duration::from_secs(60);
/// First pause before another attempt; each further one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// Longest pause. With 500 clients that wait, a server does 125 handshakes a second.
const PAUSE_MAX: Duration = Duration::from_secs(4);
/// The same for a destination that is taken, which is asked at the cost of a file that is opened.
const TAKEN_PAUSE_MAX: Duration = Duration::from_millis(800);

/// Makes attempts until the server has room for one, or for as long as it makes sense, which `--timeout`
/// bounds.
pub(super) fn outlast<T>(manner: Manner<'_>, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let mut siege = Siege::new(Instant::now(), manner.options.timeout);
    loop {
        let error = match attempt() {
            Err(error) if may_pass(&error, manner.options) => error,
            outcome => return outcome,
        };
        // What is over by the user's own word did not fail for lack of room.
        manner.cancel.check()?;
        match siege.after(&error, Instant::now(), random()) {
            Next::In(pause) => {
                if siege.failures == 1 {
                    let (why, seconds) = (reason(&error), siege.patience(&error).as_secs());
                    manner.events.event(Event::Notice(format!("{why}; trying again for up to {seconds} s")));
                }
                rest(pause, manner.cancel)?;
            }
            Next::GiveUp => return Err(siege.gave_up(error, Instant::now())),
        }
    }
}

/// Whether the same may succeed by waiting, and the user wants that.
fn may_pass(error: &Error, options: &TransferOptions) -> bool {
    match error.busy() {
        None => false,
        Some(Busy::Taken) => options.taken == Taken::Awaited,
        Some(Busy::Closed | Busy::Full) => true,
    }
}

/// What follows an attempt for which there was no room.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    In(Duration),
    GiveUp,
}

/// The attempts of one request.
#[derive(Debug)]
struct Siege {
    began: Instant,
    timeout: Duration,
    failures: u32,
}

impl Siege {
    fn new(began: Instant, timeout: Duration) -> Siege {
        Siege { began, timeout, failures: 0 }
    }

    /// `random` spreads clients that came at once over time: between a half and three halves of the pause.
    fn after(&mut self, error: &Error, now: Instant, random: u32) -> Next {
        let left = (self.began + self.patience(error)).saturating_duration_since(now);
        if left.is_zero() {
            return Next::GiveUp;
        }
        let doubled = PAUSE_FIRST * 2_u32.pow(self.failures.min(16));
        let spread = 0.5 + f64::from(random) / f64::from(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        let longest = if error.busy() == Some(Busy::Taken) { TAKEN_PAUSE_MAX } else { PAUSE_MAX };
        // The last attempt comes at the end of the time.
        Next::In(doubled.min(longest).mul_f64(spread).min(left))
    }

    /// How long such a server is tried, from the first attempt on.
    fn patience(&self, error: &Error) -> Duration {
        let patience = match error.busy() {
            Some(Busy::Full) => FULL_WAIT,
            Some(Busy::Closed) | None => CLOSED_WAIT,
            Some(Busy::Taken) => self.timeout,
        };
        patience.min(self.timeout)
    }

    /// The last error, with what was done about it.
    fn gave_up(&self, error: Error, now: Instant) -> Error {
        let seconds = now.saturating_duration_since(self.began).as_secs_f64();
        let (what, advice) = error.message.split_once(';').unwrap_or((&error.message, " try again later"));
        let times = self.failures + 1;
        let message = format!("{what}, as in all {times} attempts in {seconds:.0} s;{advice}");
        error.reworded(message)
    }
}

/// From the operating system: clients that were started together must not come together again.
fn random() -> u32 {
    let mut bytes = [0; 4];
    // Without randomness each pause has the same length.
    let _ = getrandom::fill(&mut bytes);
    u32::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_engine::Steering;
    use fobs_model::cancel::CancelToken;
    use fobs_model::error::ErrorKind;
    use fobs_model::event::EventSink;
    use std::sync::{Arc, Mutex};
    use std::thread;

    fn busy(how: Busy) -> Error {
        Error::new(ErrorKind::Connect, "it is busy: why; try again later, or not").of_busy(how)
    }

    /// Plays attempts of 1 ms each; the time of each, and how it ended.
    fn play(how: Busy, timeout: Duration, random: u32) -> (Vec<Duration>, Error) {
        let start = Instant::now();
        let (mut now, mut siege, mut times) = (start, Siege::new(start, timeout), Vec::new());
        loop {
            times.push(now - start);
            now += Duration::from_millis(1);
            match siege.after(&busy(how), now, random) {
                Next::In(pause) => now += pause,
                Next::GiveUp => return (times, siege.gave_up(busy(how), now)),
            }
        }
    }

    #[test]
    fn pauses_grow_are_spread_and_end_with_the_time() {
        let (long, spread) = (Duration::from_secs(600), [0, u32::MAX / 2, u32::MAX]);
        for (how, patience) in [(Busy::Closed, CLOSED_WAIT), (Busy::Full, FULL_WAIT)] {
            let runs = spread.map(|random| play(how, long, random).0);
            for (times, share) in runs.iter().zip([0.5, 1.0, 1.5]) {
                let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
                let first = PAUSE_FIRST.mul_f64(share);
                assert!(pauses[0] >= first && pauses[0] < first + Duration::from_millis(2), "{pauses:?}");
                assert!(pauses[..4].windows(2).all(|pair| pair[1] > pair[0]), "{pauses:?}");
                assert!(pauses.iter().all(|pause| *pause <= PAUSE_MAX.mul_f64(1.51)), "{pauses:?}");
                let last = *times.last().unwrap();
                assert!(last >= patience && last < patience + Duration::from_millis(2), "{last:?}");
            }
            assert_ne!(runs[0], runs[2], "who came together comes apart");
        }
        let short = Duration::from_secs(2);
        let (times, error) = play(Busy::Full, short, 0);
        assert!(times.last().unwrap() < &(short + Duration::from_millis(2)), "--timeout: {times:?}");
        let count = times.len();
        let says = format!("it is busy: why, as in all {count} attempts in 2 s; try again later, or not");
        assert_eq!((error.message, error.kind), (says, ErrorKind::Connect));
    }

    /// Lets a server have room after `failures` attempts, or have `error` end all.
    fn outlasts(failures: u32, error: &Error, cancel: &CancelToken) -> (Result<u32>, u32, Vec<String>) {
        outlasts_with(&TransferOptions::default(), failures, error, cancel)
    }

    fn outlasts_with(
        options: &TransferOptions,
        failures: u32,
        error: &Error,
        cancel: &CancelToken,
    ) -> (Result<u32>, u32, Vec<String>) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let notices = told.clone();
        let events: Arc<dyn EventSink> = Arc::new(move |event| {
            if let Event::Notice(line) = event {
                notices.lock().unwrap().push(line);
            }
        });
        let steering = Steering::new();
        let manner = Manner { options, events: &events, cancel, steering: &steering };
        let mut count = 0;
        let outcome = outlast(manner, || {
            count += 1;
            if count > failures { Ok(count) } else { Err(error.clone()) }
        });
        let told = told.lock().unwrap().clone();
        (outcome, count, told)
    }

    #[test]
    fn only_a_busy_server_is_tried_again_and_that_is_said_once() {
        let cancel = CancelToken::new();
        let (outcome, _, told) = outlasts(3, &busy(Busy::Closed), &cancel);
        assert_eq!(outcome, Ok(4));
        assert_eq!(told, ["it is busy: why; trying again for up to 20 s"]);
        let broken = Error::new(ErrorKind::Connect, "nothing listens there");
        assert_eq!(outlasts(3, &broken, &cancel), (Err(broken), 1, Vec::new()));
    }

    #[test]
    fn a_taken_destination_is_waited_for_where_that_is_wanted() {
        let cancel = CancelToken::new();
        let taken = Error::new(ErrorKind::Destination, "it is taken; wait").of_busy(Busy::Taken);
        assert_eq!(outlasts(3, &taken, &cancel), (Err(taken.clone()), 1, Vec::new()));
        let timeout = Duration::from_secs(1);
        let options = TransferOptions { taken: Taken::Awaited, timeout, ..TransferOptions::default() };
        assert_eq!(outlasts_with(&options, 3, &taken, &cancel).0, Ok(4));
        let (outcome, count, _) = outlasts_with(&options, u32::MAX, &taken, &cancel);
        let error = outcome.unwrap_err();
        assert!(count > 1 && error.message.contains("in all"), "{error}");
        assert_eq!(error.busy(), Some(Busy::Taken));
    }

    #[test]
    fn the_user_ends_a_pause() {
        let cancel = CancelToken::new();
        let began = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(300));
                cancel.cancel();
            });
            let (outcome, ..) = outlasts(u32::MAX, &busy(Busy::Full), &cancel);
            assert_eq!(outcome.unwrap_err().kind, ErrorKind::Interrupted);
        });
        assert!(began.elapsed() < CLOSED_WAIT, "{:?}", began.elapsed());
    }
}
