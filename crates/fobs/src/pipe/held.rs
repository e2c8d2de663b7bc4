//! A server's end of a pipe, which may outlive a connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fobs_model::budget::Charge;
use fobs_model::error::{Error, Result};
use fobs_model::message::{PipeEnd, PipeRequest};
use fobs_sys::confine;

use super::draw::Well;
use super::hearken::{Bell, Happening};
use super::pour::Valve;
use super::{FarEnd, Party};

/// Bytes of a command's standard error that are kept until the client has passed them on: what a branch and
/// its sockets hold, and room.
const ERRORS_WINDOW: u64 = 4 << 20;

/// The end.
pub(crate) struct Held {
    pub(crate) party: Arc<dyn Party>,
    /// What goes into it.
    pub(crate) valve: Valve,
    /// What comes out of it.
    pub(crate) well: Well,
    /// What a command says beside that.
    pub(crate) errors: Option<Well>,
    pub(crate) exit: Exit,
    /// What was asked for.
    pub(crate) request: PipeRequest,
    pub(crate) keeping: Option<Keeping>,
}

/// How it outlives a connection.
pub(crate) struct Keeping {
    /// Bytes that are kept until they are confirmed.
    pub(crate) window: u64,
    /// How long a client may be away whose connection ended.
    pub(crate) wait: Duration,
    /// The room for the window.
    pub(crate) _room: Charge,
}

impl Held {
    /// # Errors
    /// `Internal` where no thread can be started.
    pub(crate) fn new(far: FarEnd, request: PipeRequest, keeping: Option<Keeping>) -> Result<Held> {
        let FarEnd { input, output, errors, party } = far;
        let asked = party.clone();
        let well = Well::new(output, Box::new(move |ended| ended.and_then(|()| asked.spoke_to_end())));
        let errors = errors.map(|errors| Well::new(errors, Box::new(|ended| ended)));
        if let Some(keeping) = &keeping {
            well.keep(keeping.window);
            errors.iter().for_each(|errors| errors.keep(ERRORS_WINDOW));
        }
        let exit = Exit::default();
        let (waited, ended) = (party.clone(), exit.clone());
        confine::spawn("fobs-wait", move || ended.is(waited.wait())).map_err(Error::internal)?;
        Ok(Held { party, valve: Valve::new(input), well, errors, exit, request, keeping })
    }

    /// The client has what comes before these positions.
    pub(crate) fn is_confirmed(&self, bytes: u64, errors: u64) {
        self.well.is_confirmed(bytes);
        self.errors.iter().for_each(|it| it.is_confirmed(errors));
    }
}

/// How the program has ended, once it has. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Exit(Arc<Mutex<Ending>>);

#[derive(Default)]
struct Ending {
    ended: Option<Result<PipeEnd>>,
    bell: Option<Bell>,
}

impl Exit {
    fn is(&self, end: Result<PipeEnd>) {
        let mut ending = self.locked();
        ending.ended = Some(end.clone());
        let bell = ending.bell.take();
        drop(ending);
        // The pipe may have been given up.
        let _ = bell.map(|bell| bell.send(Happening::Exited(end)));
    }

    /// It is told there, now or then.
    pub(crate) fn tell(&self, bell: Bell) {
        let mut ending = self.locked();
        match ending.ended.clone() {
            Some(end) => {
                drop(ending);
                // Likewise.
                let _ = bell.send(Happening::Exited(end));
            }
            None => ending.bell = Some(bell),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Ending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
