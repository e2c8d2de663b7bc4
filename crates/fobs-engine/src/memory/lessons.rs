//! Losses of known cause on the way to each peer, and the classifier retrained with them (docs/classifier.md,
//! "Learning"). The receiver's kernel counters give the cause.
//!
//! ```text
//!   a transfer    its sender labels windows; a sample is taken, spread over the transfer
//!   after it      the sample is added to the peer's file, and the model is trained again from the file
//!   the next one  uses that model, if it was better than the shipped one on held-out windows
//! ```
//!
//! The training runs in a thread of low priority after the transfer is complete. The caller waits for it for
//! a bounded time, because the end of the process would end it. It takes about 0.1 s; if it takes longer than
//! the wait and the process ends, only a hint is lost.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, SystemTime};

use fobs_diagnose::learn::learn;
use fobs_diagnose::model::MixtureFile;
use fobs_diagnose::window::{self, Windows};
use fobs_diagnose::{Cause, Window};
use fobs_proto::loss_cause::{Judge, Lesson, Verdict};
use fobs_sys::thread::set_nice;

use fobs_channel::control::Peer;
use fobs_channel::state;
use fobs_channel::state::{AGE_MAX, now};
use fobs_sys::confine::{Errand, outside};

/// Most windows of each cause from one transfer: neighbouring windows are alike.
const PER_TRANSFER_MAX: usize = 8;
/// Windows of each cause that are kept, the newest; twice what a model needs
/// (`fobs_diagnose::learn::GROUP_WINDOWS_MIN`).
const WINDOWS_MAX: usize = 64;
/// Windows with more runs of losses are not kept.
const RUNS_MAX: usize = 512;
/// Longest file of windows that is read, bytes: 128 windows with 512 runs each have 800 kB, most files a
/// tenth.
const FILE_MAX: u64 = 1 << 20;
/// Peers whose windows are kept, the newest: with their models, some megabytes.
const PEERS_MAX: usize = 64;
/// Characters of a peer's name in its file names; a digest distinguishes longer ones.
const NAME_MAX: usize = 48;
/// File names have the version of the format, because every line is a window.
const WINDOWS_SUFFIX: &str = ".v1.jsonl";
const MODEL_SUFFIX: &str = ".v1.model.json";
/// The scenario of windows from transfers.
const SCENARIO: &str = "ledger";
/// How long a caller waits for the training.
const TRAINING_WAIT: Duration = Duration::from_secs(2);
/// The nice value of the training: the lowest priority.
const NICE: i32 = 19;

/// The files of one peer.
#[derive(Debug, Clone)]
pub struct Lessons {
    /// The files' common path without suffix; `None` without a state directory.
    stem: Option<PathBuf>,
}

impl Lessons {
    /// In the user's state directory.
    pub fn of_the_user(peer: &Peer) -> Lessons {
        match state::directory() {
            Some(directory) => Lessons::in_directory(&directory.join("losses"), &peer.remembered_as()),
            None => Lessons { stem: None },
        }
    }

    fn in_directory(directory: &Path, peer: &str) -> Lessons {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_@".contains(c) { c } else { '_' };
        let shown: String = peer.chars().take(NAME_MAX).map(plain).collect();
        let digest = blake3::hash(peer.as_bytes()).to_hex();
        Lessons { stem: Some(directory.join(format!("{shown}-{}", &digest[..16]))) }
    }

    /// Kept nowhere.
    pub fn nowhere() -> Lessons {
        Lessons { stem: None }
    }

    /// The judge with the peer's own model, if it uses models and there is one; and how many windows that was
    /// trained with, 0 for the shipped one.
    pub(crate) fn teach(&self, judge: Judge) -> (Judge, u32) {
        if !judge.has_mixture() {
            return (judge, 0);
        }
        let path = self.file(MODEL_SUFFIX);
        let Some(file) = outside(Errand::State, move || path.and_then(|path| MixtureFile::load(&path).ok()))
        else {
            return (judge, 0);
        };
        let of_this_one = file.learned.filter(|learned| learned.shipped == MixtureFile::shipped_mark());
        match (of_this_one, file.build()) {
            (Some(learned), Ok(mixture)) => (judge.with_mixture(mixture), learned.windows),
            _ => (judge, 0),
        }
    }

    /// Keeps a transfer's windows and trains with them. Returns after the training, or after
    /// `TRAINING_WAIT`.
    pub fn keep(&self, taught: Vec<Lesson>) {
        let lessons = self.clone();
        outside(Errand::State, move || lessons.keep_here(taught));
    }

    fn keep_here(&self, taught: Vec<Lesson>) {
        let Some(windows) = self.add(taught, now()) else { return };
        let (done, finished) = sync_channel(1);
        let lessons = self.clone();
        let train = move || {
            // Without it the training disturbs more.
            let _ = set_nice(NICE);
            lessons.train(&windows);
            // Nobody waits after `TRAINING_WAIT`.
            let _ = done.send(());
        };
        if std::thread::Builder::new().name("fobs-learn".to_owned()).spawn(train).is_ok() {
            // It goes on by itself then, and the program may end before it.
            let _ = finished.recv_timeout(TRAINING_WAIT);
        }
    }

    /// Adds windows to the file. Returns all of its windows, `None` if none was added.
    fn add(&self, taught: Vec<Lesson>, now: u64) -> Option<Vec<Window>> {
        let path = self.file(WINDOWS_SUFFIX)?;
        let mut new: Vec<Window> = taught
            .into_iter()
            .filter(|lesson| lesson.signature.runs().len() <= RUNS_MAX)
            .filter_map(|lesson| window_of(lesson, now))
            .collect();
        if new.is_empty() {
            return None;
        }
        let mut windows = read(&path);
        windows.retain(|window| now.saturating_sub(window.run) <= AGE_MAX.as_secs());
        windows.append(&mut new);
        for cause in [Cause::Cpu, Cause::Net] {
            let count = windows.iter().filter(|window| window.cause == Some(cause)).count();
            let mut surplus = count.saturating_sub(WINDOWS_MAX);
            windows.retain(|window| {
                let oldest = surplus > 0 && window.cause == Some(cause);
                surplus -= usize::from(oldest);
                !oldest
            });
        }
        let text: String = windows.iter().map(|window| window::line(window) + "\n").collect();
        state::replace(&path, text.as_bytes());
        forget_old_peers(path.parent()?);
        Some(windows)
    }

    /// Trains the model with these windows, or removes it if it is not better than the shipped one.
    fn train(&self, windows: &[Window]) {
        let Some(path) = self.file(MODEL_SUFFIX) else { return };
        match learn(&MixtureFile::shipped(), windows).ok().and_then(|model| serde_json::to_vec(&model).ok()) {
            Some(bytes) => state::replace(&path, &bytes),
            None => {
                // There may be none.
                let _ = fs::remove_file(path);
            }
        }
    }

    fn file(&self, suffix: &str) -> Option<PathBuf> {
        let mut path = self.stem.clone()?.into_os_string();
        path.push(suffix);
        Some(path.into())
    }
}

fn window_of(lesson: Lesson, now: u64) -> Option<Window> {
    let cause = match lesson.cause {
        Verdict::Receiver => Cause::Cpu,
        Verdict::Network => Cause::Net,
        Verdict::Inconclusive => return None,
    };
    Some(Window {
        signature: lesson.signature,
        cause: Some(cause),
        scenario: SCENARIO.to_owned(),
        run: now,
        host_lost: Some(u64::from(lesson.host_drops)),
    })
}

/// The windows of a file; none if it is missing, too long or damaged.
fn read(path: &Path) -> Vec<Window> {
    if fs::metadata(path).map_or(true, |data| data.len() > FILE_MAX) {
        return Vec::new();
    }
    let windows = Windows::open(path).and_then(|windows| windows.map(|read| Ok(read?.1)).collect());
    windows.unwrap_or_default()
}

/// Removes the files of the peers whose last transfer is longest ago.
fn forget_old_peers(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut peers: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let path = entry.path();
            let is_ours = path.file_name().and_then(OsStr::to_str)?.ends_with(WINDOWS_SUFFIX);
            is_ours.then_some((entry.metadata().ok()?.modified().ok()?, path))
        })
        .collect();
    peers.sort();
    for (_, path) in &peers[..peers.len().saturating_sub(PEERS_MAX)] {
        let stem = path.to_string_lossy();
        let stem = stem.trim_end_matches(WINDOWS_SUFFIX);
        // What stays is found the next time.
        let _ = fs::remove_file(format!("{stem}{MODEL_SUFFIX}"));
        let _ = fs::remove_file(path);
    }
}

/// A sample of one transfer's lessons, at most [`PER_TRANSFER_MAX`] of each cause, spread over the transfer.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    receiver: Spread,
    network: Spread,
}

impl Taken {
    /// Offers one more.
    pub(crate) fn push(&mut self, lesson: Lesson) {
        match lesson.cause {
            Verdict::Receiver => self.receiver.push(lesson),
            Verdict::Network => self.network.push(lesson),
            Verdict::Inconclusive => {}
        }
    }

    /// The sample.
    pub(crate) fn into_lessons(self) -> Vec<Lesson> {
        self.receiver.kept.into_iter().chain(self.network.kept).collect()
    }
}

/// Keeps one in [`Spread::stride`]; when that becomes too many, drops every second one.
#[derive(Debug)]
struct Spread {
    kept: Vec<Lesson>,
    seen: u64,
    stride: u64,
}

impl Default for Spread {
    fn default() -> Spread {
        Spread { kept: Vec::new(), seen: 0, stride: 1 }
    }
}

impl Spread {
    fn push(&mut self, lesson: Lesson) {
        if self.seen.is_multiple_of(self.stride) {
            self.kept.push(lesson);
        }
        self.seen += 1;
        if self.kept.len() > PER_TRANSFER_MAX {
            let mut place = 0..;
            self.kept.retain(|_| place.next().is_some_and(|place| place % 2 == 0));
            self.stride *= 2;
        }
    }
}

#[cfg(test)]
mod tests;
