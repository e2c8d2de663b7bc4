//! What a page shows: the jobs that run, those that are next, those that were over last, and why an attempt
//! was as fast as it was.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::traces::{self, TraceFiles};
use super::{JobView, Keeper, OrderError, now};
use crate::job::{JobId, Phase, RatePoint};
use crate::store::StoreError;

/// Jobs of each kind that are shown: more than a person looks through, and a page that is drawn twice a
/// second at most stays small.
const SHOWN_MAX: usize = 50;
/// How long the page of a record may take: it is drawn from some megabytes.
const PAGE_PATIENCE: Duration = Duration::from_secs(20);
/// How often the end of its program is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Largest page, bytes: the usual one has some 100 kB.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// The jobs of a keeper at a moment, the first ones of each kind.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Those that run.
    pub running: Vec<Shown>,
    /// Those that wait or are paused, the next ones first.
    pub waiting: Vec<Shown>,
    /// Those that are over, the newest first.
    pub over: Vec<Shown>,
    /// Jobs that wait or are paused, in all.
    pub waiting_count: usize,
    /// Jobs that are over, in all.
    pub over_count: usize,
}

/// A job with its newest attempt.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The job.
    pub view: JobView,
    /// Of its newest attempt; none where there was none.
    pub tried: Option<Tried>,
    /// Whether there is an explanation of an attempt.
    pub is_explained: bool,
}

/// What is shown of an attempt.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    /// Its number.
    pub number: u64,
    /// Its rate over time.
    pub rates: Vec<RatePoint>,
    /// What limited it, in a sentence.
    pub limit: Option<String>,
}

impl Keeper {
    /// The jobs at this moment.
    ///
    /// # Errors
    /// Where the state cannot be read.
    pub fn overview(&self) -> Result<Overview, OrderError> {
        // The page is one of a user's own keeper.
        self.needs_own_keeper()?;
        let core = self.core();
        let now = now();
        let explained = traces::jobs(&core.config.directory);
        let view = |record| core.view(record, now);
        let open: Vec<JobView> = core.store.open_jobs()?.into_iter().map(view).collect();
        let (running, mut waiting): (Vec<JobView>, Vec<JobView>) =
            open.into_iter().partition(|job| job.standing.phase == Phase::Running);
        // Paused ones last: nothing happens to them by themselves.
        waiting.sort_by_key(|job| {
            let spec = &job.spec;
            (job.standing.phase == Phase::Paused, -i16::from(spec.priority), job.standing.next_ms, job.id)
        });
        let (waiting_count, over_count) = (waiting.len(), core.store.over_count()?);
        let over = core.store.over(SHOWN_MAX)?.into_iter().map(view).collect();
        let shown = |jobs: Vec<JobView>| -> Result<Vec<Shown>, OrderError> {
            let show = |view: JobView| {
                let tried = core.tried(view.id)?;
                Ok(Shown { is_explained: explained.contains(&view.id), view, tried })
            };
            jobs.into_iter().take(SHOWN_MAX).map(show).collect()
        };
        Ok(Overview {
            running: shown(running)?,
            waiting: shown(waiting)?,
            over: shown(over)?,
            waiting_count,
            over_count,
        })
    }

    /// The page that explains the newest attempt of a job that has ended, complete.
    ///
    /// # Errors
    /// `NoJob`; `Value` where no attempt has left a record, or the page cannot be drawn.
    pub fn explanation(&self, id: JobId) -> Result<Vec<u8>, OrderError> {
        self.needs_own_keeper()?;
        let (directory, program) = {
            let core = self.core();
            core.store.job(id)?;
            (core.config.directory.clone(), core.config.program.clone())
        };
        let Some(files) = TraceFiles::newest(&directory, id) else {
            let why = format!(
                "job {id} has no record of an attempt: it runs for the first time, ended before the copy began, or its \
                 record was one of the oldest; retry it, and look again when it has ended"
            );
            return Err(OrderError::Value(why));
        };
        let failed = |why: &dyn std::fmt::Display| {
            OrderError::Value(format!("cannot draw the page of job {id}: {why}"))
        };
        if !files.page.exists() {
            let mut draw = Command::new(&program);
            draw.args(["explain", "--html"]).arg(&files.page).arg(&files.record);
            draw.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let drawn = run(&mut draw).map_err(|error| failed(&error))?;
            if !drawn {
                return Err(failed(&"fobs explain ended with an error; fobs jobs log has what was said"));
            }
        }
        let bytes = fs::metadata(&files.page).map_err(|error| failed(&error))?.len();
        if bytes > PAGE_BYTES_MAX {
            return Err(failed(&format!("it has {bytes} bytes, and may have {PAGE_BYTES_MAX}")));
        }
        fs::read(&files.page).map_err(|error| failed(&error))
    }
}

/// Runs a program to its end; whether it succeeded.
fn run(command: &mut Command) -> std::io::Result<bool> {
    let mut child = command.spawn()?;
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if begin.elapsed() > PAGE_PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

impl super::core::Core {
    /// The newest attempt of a job, as far as it is known.
    fn tried(&self, id: JobId) -> Result<Option<Tried>, StoreError> {
        let Some(attempt) = self.store.last_attempt(id)? else { return Ok(None) };
        let (rates, limit) = match self.live.get(&id) {
            Some(running) => (running.live.rates(), running.live.figures().limit),
            None => (attempt.rates, attempt.limit),
        };
        Ok(Some(Tried { number: attempt.number, rates, limit }))
    }
}
