//! A copy whose destination loses its power, once or several times.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use super::{Disk, Figures, KILL_WITHIN_MS, PATIENCE, Place, Random, Route, Verb, names, remove, tree};

/// What is cut. Those with `sync` compare by size and time, which a power cut must not deceive.
const VERBS: [Verb; 7] = [
    Verb::COPY,
    Verb::COPY,
    Verb(&["sync", "-a"]),
    Verb(&["sync", "-a", "--delete"]),
    Verb(&["sync", "-a", "--delete-before"]),
    Verb(&["sync", "-a", "--fsync"]),
    Verb(&["sync", "-a", "--remove-source-files"]),
];

impl Verb {
    fn syncs(self) -> bool {
        self.0.first() == Some(&"sync")
    }

    fn has(self, option: &str) -> bool {
        self.0.contains(&option)
    }

    /// Whether its end says that the device keeps all of it.
    fn is_durable(self) -> bool {
        self.has("--fsync") || self.has("--remove-source-files")
    }
}

/// Rates of what is cut, bits a second: most runs outlast the time between two syncs of a journal.
const RATES: [&str; 3] = ["24Mbit", "60Mbit", "400Mbit"];
/// Longest time from a run's end to the cut, ms.
const AFTER_END_MS: u64 = 800;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Complete,
    Early,
}

impl Place {
    /// Pushes something new onto a disk whose power is cut up to `cuts` times, and compares it. What is
    /// served lies on the disk.
    pub fn push_through_cuts(
        &mut self,
        cuts: u64,
        disk: &mut Disk,
        figures: &mut Figures,
    ) -> Result<(), String> {
        let name = format!("copy{}", figures.copies);
        let verb = VERBS[self.random.below(VERBS.len() as u64) as usize];
        let (from, to) = (self.directory.join("local"), self.directory.join("served"));
        let (source, copy) = (from.join(&name), to.join(&name));
        self.rate = RATES[self.random.below(RATES.len() as u64) as usize];
        let bytes = self.make(&source).map_err(|error| format!("cannot make files: {error}"))?;
        if verb.syncs() && self.random.below(2) == 0 {
            make_older(&source, &copy, &mut self.random).map_err(|error| format!("older files: {error}"))?;
            settle(&to)?;
        }
        let expected = (tree(&source)?, stamps(&source)?);
        another_syncs(&to)?;
        let mut expected_names = names(&to)?;
        for _ in 0..cuts.min(1 + self.random.below(4)) {
            let ended = self.cut_once(verb, &name, disk)?;
            figures.kills += 1;
            if ended == Ended::Complete {
                if verb.is_durable() {
                    let kept = differences(verb, &copy, &expected);
                    kept.map_err(|error| format!("{verb:?} had ended, and a cut later {error}"))?;
                }
                break;
            }
            figures.resumed += u64::from(self.kept(&to)? > 0);
        }
        if source.exists() {
            self.rate = RATES[2];
            self.run_to_the_end(verb, &name, Route::PUSH)?;
        }
        differences(verb, &copy, &expected).map_err(|error| format!("{verb:?} of '{name}': {error}"))?;
        if !expected_names.contains(&name) {
            expected_names.push(name.clone());
            expected_names.sort();
        }
        let found = names(&to)?;
        if found != expected_names {
            return Err(format!("{verb:?}: the destination holds {found:?}, not {expected_names:?}"));
        }
        let ours = ours_below(&copy)?;
        if !ours.is_empty() {
            return Err(format!("{verb:?}: {ours:?} were left over"));
        }
        self.daemon = None;
        // A single file may be gone from its source.
        for top in [&source, &copy].into_iter().filter(|top| top.exists()) {
            remove(top).map_err(|error| error.to_string())?;
        }
        // Or the next cut brings it back.
        settle(&to)?;
        figures.copies += 1;
        figures.bytes += bytes;
        Ok(())
    }

    /// Runs the command and cuts the power under it. Half of the cuts end the boot as well.
    fn cut_once(&mut self, verb: Verb, name: &str, disk: &mut Disk) -> Result<Ended, String> {
        self.serve(Route::PUSH)?;
        let mut client = self.client(verb, name, Route::PUSH)?;
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE && !self.has_begun() && matches!(client.0.try_wait(), Ok(None)) {
            sleep(Duration::from_millis(5));
        }
        // A third of them before the journal's first sync, the others anywhere.
        let within = if self.random.below(3) == 0 { KILL_WITHIN_MS / 5 } else { 6 * KILL_WITHIN_MS };
        let mut cut_at = Instant::now() + Duration::from_millis(self.random.below(within));
        let (others_sync, mut runs) = (self.random.below(2) == 0, true);
        while Instant::now() < cut_at {
            if runs && !matches!(client.0.try_wait(), Ok(None)) {
                // It may be complete, and the device was perhaps never asked.
                runs = false;
                cut_at = cut_at.min(Instant::now() + Duration::from_millis(self.random.below(AFTER_END_MS)));
            }
            if others_sync && self.random.below(8) == 0 {
                another_syncs(&self.directory.join("served"))?;
            }
            sleep(Duration::from_millis(5));
        }
        if let Ok(Some(status)) = client.0.try_wait()
            && !status.success()
        {
            return Err(self.said("the client failed by itself"));
        }
        disk.cut()?;
        let ended = match client.0.try_wait() {
            Ok(Some(status)) if status.success() => Ended::Complete,
            _ => Ended::Early,
        };
        client.kill();
        self.daemon = None;
        disk.come_back()?;
        if self.random.below(2) == 0 {
            self.boot_anew()?;
        }
        Ok(ended)
    }
}

/// What differs from the source as it was.
fn differences(verb: Verb, copy: &Path, expected: &(Contents, Stamps)) -> Result<(), String> {
    let found = tree(copy)?;
    for (path, content) in &expected.0 {
        match found.get(path) {
            None => return Err(format!("{path:?} is missing")),
            Some(copied) if copied != content => return Err(differs(path, copied, content)),
            Some(_) => {}
        }
    }
    // Without `--delete` what only the destination has stays.
    let extra: Vec<_> = found.keys().filter(|path| !expected.0.contains_key(*path)).collect();
    let deletes = verb.0.iter().any(|word| word.starts_with("--delete"));
    if (deletes || !verb.syncs()) && !extra.is_empty() {
        return Err(format!("{extra:?} should not be there"));
    }
    if verb.syncs() && !verb.has("--remove-source-files") {
        let found = stamps(copy)?;
        for (path, stamp) in &expected.1 {
            if found.get(path) != Some(stamp) {
                return Err(format!("{path:?} has {:?}, not {stamp:?}", found.get(path)));
            }
        }
    }
    Ok(())
}

fn differs(path: &Path, copied: &[u8], content: &[u8]) -> String {
    let at = copied.iter().zip(content).position(|(one, other)| one != other);
    let zeros = copied[at.unwrap_or(copied.len())..].iter().take_while(|byte| **byte == 0).count();
    let (is, should_be) = (copied.len(), content.len());
    format!("{path:?} differs from byte {at:?} on ({zeros} zeros there); {is} bytes of {should_be}")
}

/// Makes an older version of `source`: some files are missing, some are others, some are only here.
fn make_older(source: &Path, copy: &Path, random: &mut Random) -> std::io::Result<()> {
    if !source.is_dir() {
        return write_older(copy, random);
    }
    fs::create_dir_all(copy)?;
    for entry in fs::read_dir(source)?.flatten() {
        let inner = copy.join(entry.file_name());
        if entry.path().is_dir() || random.below(3) == 0 {
            make_older(&entry.path(), &inner, random)?;
        }
    }
    write_older(&copy.join("only here"), random)
}

fn write_older(path: &Path, random: &mut Random) -> std::io::Result<()> {
    fs::write(path, vec![1 + random.below(255) as u8; random.below(300_000) as usize])?;
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(path)?.set_times(FileTimes::new().set_modified(long_ago))
}

type Contents = BTreeMap<PathBuf, Vec<u8>>;
type Stamps = BTreeMap<PathBuf, (u32, i64, i64)>;

/// Permissions and times of everything at or below `path`.
fn stamps(path: &Path) -> Result<Stamps, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![path.to_owned()];
    while let Some(next) = waiting.pop() {
        let stat = fs::symlink_metadata(&next).map_err(|error| format!("{}: {error}", next.display()))?;
        let inner = next.strip_prefix(path).unwrap_or(&next).to_owned();
        found.insert(inner, (stat.mode(), stat.mtime(), stat.mtime_nsec()));
        if stat.is_dir() {
            waiting.extend(names(&next)?.iter().map(|name| next.join(name)));
        }
    }
    Ok(found)
}

/// Has the device keep everything that is at `top`.
fn settle(top: &Path) -> Result<(), String> {
    let device = File::open(top).map_err(|error| error.to_string())?;
    rustix::fs::syncfs(&device).map_err(|error| error.to_string())
}

/// Another program has the device keep something: what names files have goes with it, their content not.
fn another_syncs(top: &Path) -> Result<(), String> {
    let written = File::create(top.join("another")).and_then(|mut file| {
        file.write_all(b"kept")?;
        file.sync_all()
    });
    written.map_err(|error| format!("another program cannot write: {error}"))
}

/// Names of unfinished files at or below `path`.
fn ours_below(path: &Path) -> Result<Vec<String>, String> {
    let paths = tree(path)?.into_keys();
    let names = paths.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    Ok(names.filter(|name| name.contains(".fobs-")).collect())
}
