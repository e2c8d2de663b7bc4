//! `--stop-after` and `--stop-at`: a run that ends at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use fobs::{CancelToken, Error, ErrorKind, Result, Summary};

/// Between two looks at the clock, which may be set meanwhile.
const LOOK: Duration = Duration::from_secs(1);

/// The end of a run.
pub struct Stop {
    has_come: Arc<AtomicBool>,
}

impl Stop {
    /// Cancels a run at this time; the thread that waits ends with the process.
    pub fn at(time: Option<SystemTime>, cancel: &CancelToken) -> Option<Stop> {
        let time = time?;
        let has_come = Arc::new(AtomicBool::new(false));
        let (cancel, comes) = (cancel.clone(), Arc::clone(&has_come));
        thread::spawn(move || {
            while let Ok(left) = time.duration_since(SystemTime::now())
                && !left.is_zero()
            {
                thread::sleep(left.min(LOOK));
            }
            comes.store(true, Ordering::Release);
            cancel.cancel();
        });
        Some(Stop { has_come })
    }

    /// The outcome, as what it is if the time has come.
    pub fn explained(&self, outcome: Result<Summary>) -> Result<Summary> {
        match outcome {
            Err(error) if error.kind == ErrorKind::Interrupted && self.has_come.load(Ordering::Acquire) => {
                let message = "stopped at the time of --stop-after or --stop-at; the same command goes on";
                Err(Error::new(ErrorKind::Timeout, message))
            }
            outcome => outcome,
        }
    }
}
