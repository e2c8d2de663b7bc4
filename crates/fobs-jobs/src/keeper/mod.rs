//! The keeper: starts the attempts of jobs, watches them, and writes down what becomes of them.
//!
//! It starts the installed program as a child, in a process group of its own: a job runs what a person would
//! type, goes on by itself where it was interrupted, and a transfer that crashes takes nothing with it. When
//! the keeper ends, its attempts go on; the next one finds and adopts them.

mod attempt;
mod core;
mod elsewhere;
mod launch;
mod meters;
mod needs;
mod notify;
mod orders;
mod output;
mod process;
mod rates;
mod reading;
mod recover;
mod room;
mod shown;
#[cfg(test)]
mod tests;
mod tokens;
mod traces;
mod users;
mod view;

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::Zoned;
use tokio::sync::watch;

use crate::job::{Owner, Spec, SpecError};
use crate::schedule::Moment;
use crate::store::{Store, StoreError};
use core::Core;

pub use launch::{LAUNCH_BYTES_MAX, Launch};
pub use orders::{Change, OrderError};
pub use reading::Figures;
pub use room::room_at;
pub use shown::{Overview, Shown, Tried};
pub use tokens::TokenRefusal;
pub use view::JobView;

/// Longest time between two looks at the clock: it may have been set.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// How a keeper works.
#[derive(Debug, Clone)]
pub struct KeeperConfig {
    /// The directory of its state.
    pub directory: PathBuf,
    /// The program that runs jobs: `fobs`.
    pub program: PathBuf,
    /// What names this start of the host, instead of the kernel's own; for tests.
    pub boot: Option<String>,
    /// Asks a running copy, by its process, what limits it; none where nothing can be asked.
    pub limit_of: Option<fn(u32) -> Option<String>>,
    /// It ends when there was nothing to do for this time, and nobody watched; never if none.
    pub idle: Option<Duration>,
    /// Whom it serves.
    pub serves: Serves,
    /// Checks and fills in what a client did not that only hands in words: it knows the program's arguments.
    pub examine: Option<Examine>,
}

impl KeeperConfig {
    /// A keeper that runs this program, with its state in this directory; with nothing chosen.
    pub fn new(directory: PathBuf, program: PathBuf) -> KeeperConfig {
        KeeperConfig {
            directory,
            program,
            boot: None,
            limit_of: None,
            idle: None,
            serves: Serves::User,
            examine: None,
        }
    }
}

/// Whom a keeper serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serves {
    /// The user that it runs as.
    User,
    /// All users of its host: each job runs as its submitter.
    Host,
}

/// What fills in a job's destinations, sources and environment, or says why it cannot be one.
pub type Examine = fn(&mut Spec) -> Result<(), SpecError>;

/// A keeper.
#[derive(Debug, Clone)]
pub struct Keeper(Arc<Shared>, Option<Owner>);

#[derive(Debug)]
struct Shared {
    core: Mutex<Core>,
    wake: Condvar,
    ends: AtomicBool,
    /// Counts changes, for those who wait for one.
    changes: watch::Sender<u64>,
    idle: Option<Duration>,
}

impl Keeper {
    /// Opens the state, and takes up what an earlier keeper has left. With what a user should know of it.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn open(config: KeeperConfig) -> Result<(Keeper, Vec<String>), StoreError> {
        let (store, said) = Store::open(&config.directory)?;
        let idle = config.idle;
        let core = Core::new(config, store)?;
        let shared = Shared {
            core: Mutex::new(core),
            wake: Condvar::new(),
            ends: AtomicBool::new(false),
            changes: watch::Sender::new(0),
            idle,
        };
        let keeper = Keeper(Arc::new(shared), None);
        let mut said: Vec<String> = said.into_iter().collect();
        said.extend(keeper.core().recover(&keeper)?);
        Ok((keeper, said))
    }

    /// The same for a user of the host: it knows the jobs of that user alone, for root all.
    #[must_use]
    pub fn asked_by(&self, owner: Owner) -> Keeper {
        Keeper(self.0.clone(), Some(owner))
    }

    /// Whom it serves.
    pub fn serves(&self) -> Serves {
        self.core().config.serves
    }

    /// Works until [`Keeper::end`], or until it was idle for as long as it was told.
    pub fn run(&self) {
        let mut idle_since = Instant::now();
        let is_watched = room::watch(self).is_ok();
        let asks = elsewhere::watch(self).is_ok();
        while !self.0.ends.load(Ordering::Acquire) {
            if !is_watched {
                room::look(self);
            }
            let mut core = self.core();
            if !asks {
                core.ask_nobody(now());
            }
            let next = core.work(self);
            // Each page that is open waits for changes.
            if !core.is_idle() || self.0.changes.receiver_count() > 0 {
                idle_since = Instant::now();
            }
            if self.0.idle.is_some_and(|idle| idle_since.elapsed() >= idle) {
                self.0.ends.store(true, Ordering::Release);
            } else {
                let time = self.0.idle.map_or(next, |idle| next.min(idle));
                drop(self.0.wake.wait_timeout(core, time).unwrap_or_else(PoisonError::into_inner));
            }
        }
        self.changed();
    }

    /// Ends [`Keeper::run`]. Attempts go on; the next keeper adopts them.
    pub fn end(&self) {
        self.0.ends.store(true, Ordering::Release);
        self.nudge();
        self.changed();
    }

    /// Whether it has ended or is about to.
    pub fn has_ended(&self) -> bool {
        self.0.ends.load(Ordering::Acquire)
    }

    /// Counts changes of jobs: for those who wait for one.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// The program that runs jobs, to be given its arguments, with the umask of the keeper's start: its own
    /// is another one by now.
    pub(crate) fn program(&self) -> Command {
        let core = self.core();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "umask \"$0\" && exec \"$@\"", &format!("{:o}", core.umask)]);
        command.arg(&core.config.program);
        command
    }

    fn changed(&self) {
        self.0.changes.send_modify(|count| *count += 1);
    }

    /// There is something to do.
    fn nudge(&self) {
        // Taken, so that a keeper between its look and its sleep is not missed.
        drop(self.core());
        self.0.wake.notify_all();
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.0.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now() -> Moment {
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let time = Zoned::now().time();
    let day_second = (i32::from(time.hour()) * 60 + i32::from(time.minute())) * 60 + i32::from(time.second());
    Moment { ms: u64::try_from(ms).unwrap_or(u64::MAX), day_second: day_second.unsigned_abs() }
}
