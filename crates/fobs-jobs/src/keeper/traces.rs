//! What attempts have measured, for the pages that explain them: of each job the newest record, and of jobs
//! the newest ones.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::job::JobId;

/// Most records that are kept: one has at most some 2 MB (2048 samples of each end).
const TRACES_MAX: usize = 64;

/// The record of an attempt and its page, below the state's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TraceFiles {
    pub record: PathBuf,
    pub page: PathBuf,
}

/// Where they are.
fn folder(directory: &Path) -> PathBuf {
    directory.join("why")
}

impl TraceFiles {
    /// Those of an attempt; the directory is made. None where it cannot be: the attempt goes on without.
    pub(super) fn of(directory: &Path, job: JobId, number: u64) -> Option<TraceFiles> {
        let folder = folder(directory);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
        let name = |end| folder.join(format!("{job}.{number}.{end}"));
        Some(TraceFiles { record: name("jsonl"), page: name("html") })
    }

    /// Those of the newest attempt of a job that has written a record.
    pub(super) fn newest(directory: &Path, job: JobId) -> Option<TraceFiles> {
        let written = |name: &Name| name.job == job && name.is_record && name.bytes > 0;
        let number = names(directory).into_iter().filter(written).map(|name| name.number).max()?;
        TraceFiles::of(directory, job, number)
    }
}

/// Jobs that have a record.
pub(super) fn jobs(directory: &Path) -> BTreeSet<JobId> {
    let written = |name: &Name| name.is_record && name.bytes > 0;
    names(directory).into_iter().filter(written).map(|name| name.job).collect()
}

/// Removes what is older than the newest record of each job, what is of no job that is kept, and the oldest
/// beyond the bound; nothing of attempts that run.
pub(super) fn prune(directory: &Path, runs: &BTreeSet<(JobId, u64)>, is_kept: impl Fn(JobId) -> bool) {
    let mut names = names(directory);
    names.sort_by_key(|name| (name.changed, name.number));
    let mut kept = BTreeSet::new();
    for name in names.iter().rev().filter(|name| name.is_record && name.bytes > 0) {
        if kept.len() < TRACES_MAX
            && is_kept(name.job)
            && !kept.iter().any(|(job, _): &(JobId, u64)| *job == name.job)
        {
            kept.insert((name.job, name.number));
        }
    }
    for name in names {
        let of = (name.job, name.number);
        if !runs.contains(&of) && !kept.contains(&of) {
            // The next time is soon enough.
            let _ = fs::remove_file(name.path);
        }
    }
}

/// A file of the directory.
#[derive(Debug)]
struct Name {
    path: PathBuf,
    job: JobId,
    number: u64,
    is_record: bool,
    bytes: u64,
    changed: SystemTime,
}

fn names(directory: &Path) -> Vec<Name> {
    let entries = fs::read_dir(folder(directory)).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| {
        let text = entry.file_name();
        let mut parts = text.to_str()?.split('.');
        let (job, number, end) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
        let metadata = entry.metadata().ok()?;
        Some(Name {
            path: entry.path(),
            job: JobId(job),
            number,
            is_record: end == "jsonl",
            bytes: metadata.len(),
            changed: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        })
    };
    entries.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, job: u64, number: u64, text: &str) -> TraceFiles {
        let files = TraceFiles::of(directory, JobId(job), number).expect("own directory");
        fs::write(&files.record, text).expect("room");
        files
    }

    #[test]
    fn the_newest_record_of_each_job_is_kept_within_the_bound() {
        let home = tempfile::tempdir().expect("a directory");
        let directory = home.path();
        assert_eq!(TraceFiles::newest(directory, JobId(1)), None);
        let old = write(directory, 1, 1, "old");
        let new = write(directory, 1, 2, "new");
        // Killed before it wrote one; one that runs; one of a job that was forgotten.
        let empty = write(directory, 2, 1, "");
        let running = write(directory, 3, 1, "");
        let foreign = write(directory, 4, 1, "x");
        assert_eq!(TraceFiles::newest(directory, JobId(1)), Some(new.clone()));
        assert_eq!(TraceFiles::newest(directory, JobId(2)), None);
        prune(directory, &BTreeSet::from([(JobId(3), 1)]), |job| job != JobId(4));
        let is_there = |files: &TraceFiles| files.record.exists();
        assert_eq!([&old, &new, &empty, &running, &foreign].map(is_there), [false, true, false, true, false]);
        for job in 10..200 {
            write(directory, job, 1, "x");
        }
        prune(directory, &BTreeSet::new(), |_| true);
        assert_eq!(jobs(directory).len(), TRACES_MAX);
    }
}
