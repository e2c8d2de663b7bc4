//! A row of `fobs top`: a copy that runs, or a job that is not over.

use fobs_jobs::words::{does, title};
use fobs_jobs::{JobId, JobView, Phase};

use crate::live::Snapshot;
use crate::output::printable;
use crate::units::shortened;

/// What a row is of, whatever stands beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowId {
    /// A copy, by its process.
    Copy(u32),
    /// A job.
    Job(JobId),
}

/// A row.
#[derive(Debug, Clone)]
pub enum Row {
    /// A copy.
    Copy(Box<Snapshot>),
    /// A job.
    Job(Box<JobView>),
}

impl Row {
    /// Copies, then jobs: those that run first.
    pub fn all(copies: Vec<Snapshot>, mut jobs: Vec<JobView>) -> Vec<Row> {
        jobs.sort_by_key(|job| (job.standing.phase != Phase::Running, job.id));
        let copies = copies.into_iter().map(|copy| Row::Copy(Box::new(copy)));
        copies.chain(jobs.into_iter().map(|job| Row::Job(Box::new(job)))).collect()
    }

    /// What it is of.
    pub fn id(&self) -> RowId {
        match self {
            Row::Copy(copy) => RowId::Copy(copy.id),
            Row::Job(job) => RowId::Job(job.id),
        }
    }

    /// The copy, of a row of one.
    pub fn copy(&self) -> Option<&Snapshot> {
        match self {
            Row::Copy(copy) => Some(copy),
            Row::Job(_) => None,
        }
    }

    /// Whether its user has paused it.
    pub fn is_paused(&self) -> bool {
        match self {
            Row::Copy(copy) => copy.paused,
            Row::Job(job) => job.standing.phase == Phase::Paused,
        }
    }

    /// What stands before its title: `1234` or `job 7`.
    pub fn number(&self) -> String {
        match self {
            Row::Copy(copy) => copy.id.to_string(),
            Row::Job(job) => format!("job {}", job.id),
        }
    }

    /// What is copied where, or the job's name, in these columns.
    pub fn title_in(&self, columns: usize) -> String {
        let title = match self {
            Row::Copy(copy) => copy.title(),
            Row::Job(job) => title(job),
        };
        shortened(&printable(&title), columns)
    }

    /// How it stands, in these columns.
    pub fn figures_in(&self, columns: usize) -> String {
        match self {
            Row::Copy(copy) => copy.figures_in(columns),
            Row::Job(job) => {
                shortened(&printable(&format!("{}: {}", job.standing.phase.name(), does(job))), columns)
            }
        }
    }

    /// What limits it, in a sentence; empty where that is not known.
    pub fn limit(&self) -> &str {
        match self {
            Row::Copy(copy) => &copy.limit,
            Row::Job(job) => {
                job.figures.as_ref().and_then(|figures| figures.limit.as_deref()).unwrap_or_default()
            }
        }
    }
}
