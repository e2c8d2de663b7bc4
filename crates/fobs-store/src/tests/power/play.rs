//! What is copied, and how: both ends of a session in one thread, with their calls noted.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use fobs_rng::Rng;
use rustix::fs::{XattrFlags, setxattr};
use rustix::io::Errno;
use tempfile::TempDir;

use super::super::super::delta::{NameKey, Offers, Pays, Segment};
use super::super::super::faults::{Call, Lasts, forget, plan_for};
use super::super::super::survey::{Checksums, Compare, Decision, ListingForm, Parts, Rules, decode_batch};
use super::super::super::*;
use super::super::beside::Beside;
use super::super::support::*;
use super::cuts::Log;
use super::model::{Files, Known, Unfinished, differ};
use crate::recorder::{self, Recording};
use crate::temporary::beside::write_beside;
use fobs_filter::Filter;
use fobs_model::filter_rules::FilterRules;
use fobs_model::name::BackupSuffix;
use fobs_model::options::sync::{Delete, DeleteWhen, Delta, Enter, SyncOptions};
use fobs_model::options::{Preserve, Privileges};

/// Most file data of a chunk, bytes: the files of a scene take several.
const DATA_MAX: usize = 128 << 10;
/// A file that has more than its content, and what.
pub const KEPT: &str = "kept";
pub const XATTR: &str = "user.kept";
/// How much earlier than the run what was there before it seems to have been made, seconds.
const BEFORE: i64 = 1000;

/// What kind of command is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Copy,
    Sync,
}

/// A command, and what it finds.
#[derive(Debug)]
pub struct Scene {
    command: Command,
    fsync: bool,
    delete: Option<DeleteWhen>,
    hard_links: bool,
    backup: bool,
    delta: bool,
    times: bool,
    xattrs: bool,
    seed: u64,
    /// Holds the sources, and the destination of the first run.
    place: TempDir,
    /// What the command makes of that.
    expected: Option<Files>,
}

/// A call of a run that fails.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub call: Call,
    pub spared: u32,
    pub errno: Errno,
    pub lasts: Lasts,
}

/// What a run left, and under which mount that is now.
pub struct Left {
    pub files: Files,
    pub mount: u8,
    /// What may stay of it for good.
    pub leaves: Unfinished,
}

/// A recorded run.
pub struct Recorded {
    pub log: Log,
    pub mount: u8,
    /// What it may leave for good.
    pub leaves: Unfinished,
}

/// Where many small trees are made and removed: in memory, where there is such a place.
/// How long threads of a run may hold what it opened.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

pub fn place() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

impl Scene {
    pub fn draw(rng: &mut Rng) -> Scene {
        let command = if rng.below(3) == 0 { Command::Copy } else { Command::Sync };
        let is_sync = command == Command::Sync;
        let deletes = is_sync && rng.below(2) == 0;
        let when = if rng.below(2) == 0 { DeleteWhen::During } else { DeleteWhen::After };
        let mut scene = Scene {
            command,
            fsync: rng.below(3) == 0,
            delete: deletes.then_some(when),
            hard_links: is_sync && rng.below(2) == 0,
            backup: is_sync && rng.below(4) == 0,
            delta: is_sync && rng.below(3) == 0,
            times: is_sync,
            xattrs: false,
            seed: rng.bits(),
            place: place(),
            expected: None,
        };
        scene.prepare();
        scene
    }

    /// A sync whose deletions come last, with this.
    pub fn of_faults(fsync: bool, delta: bool) -> Scene {
        let mut scene = Scene {
            command: Command::Sync,
            fsync,
            delete: Some(DeleteWhen::After),
            hard_links: true,
            backup: false,
            delta,
            times: true,
            xattrs: true,
            seed: 7,
            place: place(),
            expected: None,
        };
        scene.prepare();
        scene
    }

    /// Makes it, and finds out what the command makes of it.
    fn prepare(&mut self) {
        let scene = self;
        scene.make(&mut Rng::new(scene.seed));
        let other = place();
        let to = scene.place.path().join("to");
        Files::read(&to, &|real| (real, None)).put_at(other.path());
        assert_eq!(scene.run(other.path(), &mut || ()).all(), Vec::<String>::new(), "{scene:?}");
        scene.expected = Some(Files::read(other.path(), &|real| (real, None)));
    }

    /// What is at the destination before, and what the command makes of it.
    pub fn before_and_after(&self) -> (Files, &Files) {
        let before = Files::read(&self.place.path().join("to"), &|real| (real, None));
        (before, self.expected.as_ref().expect("it was prepared"))
    }

    fn from(&self) -> PathBuf {
        self.place.path().join("from")
    }

    /// How a tree differs from what the command is to make.
    pub fn differs(&self, there: &Files, unfinished: Unfinished) -> Option<String> {
        differ(there, self.expected.as_ref()?, self.times, unfinished)
    }

    pub fn has_backups(&self) -> bool {
        self.backup
    }

    /// Makes sources, and what is at the destination before.
    fn make(&self, rng: &mut Rng) {
        let (from, to) = (self.from(), self.place.path().join("to"));
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        for directory in [&from, &to, &from.join("d"), &from.join("d/e")] {
            fs::create_dir(directory).expect("a directory");
        }
        let places = ["", "d/", "d/e/"];
        let files = 2 + rng.below(5);
        for number in 0..files {
            let path = format!("{}f{number}", places[rng.below(3)]);
            let sizes = [0, 1, 700, 5000, 70_000, 200_000, 400_000];
            let len = sizes[rng.below(sizes.len())];
            let new = content(len, rng.bits());
            fs::write(from.join(&path), &new).expect("a file");
            let time = old + Duration::from_secs(number as u64);
            File::open(from.join(&path)).and_then(|it| it.set_modified(time)).expect("own file");
            // Some are there before, in another version, sometimes of that length.
            if rng.below(2) == 0 {
                let before = to.join(&path);
                fs::create_dir_all(before.parent().expect("a parent")).expect("directories");
                let mut old_content = new.clone();
                if let Some(byte) = old_content.get_mut(len / 2) {
                    *byte ^= 1;
                }
                old_content.truncate(if rng.below(2) == 0 { len } else { len / 3 });
                fs::write(&before, old_content).expect("a file");
                let earlier = old - Duration::from_secs(5);
                File::open(&before).and_then(|it| it.set_modified(earlier)).expect("own file");
            }
            if rng.below(3) == 0 {
                fs::hard_link(from.join(&path), from.join(format!("h{number}"))).expect("a name");
            }
        }
        if self.command == Command::Sync {
            symlink("f0", from.join("link")).expect("a link");
            if self.xattrs {
                let kept = from.join(KEPT);
                fs::write(&kept, b"with more beside it").expect("a file");
                setxattr(&kept, XATTR, b"value", XattrFlags::empty()).expect("memory has them");
                File::open(&kept).and_then(|it| it.set_modified(old)).expect("own file");
            }
            fs::write(to.join("extraneous"), b"of another time").expect("a file");
            fs::create_dir_all(to.join("gone/with")).expect("directories");
            fs::write(to.join("gone/with/it"), b"too").expect("a file");
        }
    }

    fn options(&self) -> SyncOptions {
        let (hard_links, xattrs) = (self.hard_links, self.xattrs);
        let preserve = Preserve { hard_links, xattrs, ..Preserve::as_cp(true) };
        SyncOptions {
            preserve,
            directories: Enter::All,
            delete: self.delete.map(|when| Delete { when, max: None }),
            backup: self.backup.then(|| BackupSuffix::new(b"~".to_vec()).expect("a suffix")),
            filter: self.filter(),
            delta: if self.delta { Delta::Always } else { Delta::Never },
            ..SyncOptions::default()
        }
    }

    /// As the command line has it: backups of earlier runs stay.
    fn filter(&self) -> FilterRules {
        let mut filter = Filter::default();
        if self.backup && self.delete.is_some() {
            filter.add_rule(b"P *~", &mut |_| unreachable!()).expect("a rule");
        }
        filter.rules()
    }

    /// Gives the command; what failed. `check` is called after each chunk. Nothing of it stays open.
    pub fn run(&self, to: &Path, check: &mut dyn FnMut()) -> Failures {
        let failures = self.run_holding(to, check);
        let end = std::time::Instant::now() + CLOSE_WAIT;
        while !held(to).is_empty() && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        let held = held(to);
        assert!(held.is_empty(), "still open: {held:?}, {failures:?}\n{self:?}");
        failures
    }

    fn run_holding(&self, to: &Path, check: &mut dyn FnMut()) -> Failures {
        let sync = (self.command == Command::Sync).then(|| Arc::new(self.options()));
        let from = format!("{}/", self.from().display());
        let preserve = sync.as_ref().map(|sync| sync.preserve.clone()).unwrap_or_default();
        let mut source = Source::open(SourceSpec {
            preserve: preserve.clone(),
            sync: sync.clone(),
            ..spec(&[Path::new(&from)])
        })
        .expect("the sources can be read");
        source.tell_identities();
        let sink = Sink::open(SinkSpec {
            preserve,
            keep: Partial::Keep,
            fsync: self.fsync,
            names: top_names(&[from.into_bytes()]),
            ..sink_spec(to, source.shape())
        });
        let mut sink = match sink {
            Ok(sink) => sink,
            Err(error) => return Failures { stored: vec![error.message], deleted: Vec::new() },
        };
        let compare = match sync {
            Some(sync) => {
                sink.follow(&sync);
                Some(Compare::for_sync(&mut sink, sync, Privileges::OfTheUser).expect("it is possible"))
            }
            None => sink.history().is_some().then(|| Compare::new(&mut sink, Rules::default())),
        };
        let mut session = Session { failures: Failures::default(), lists: None, answering: None };
        if let Some(compare) = compare {
            session.survey(self, &mut source, &mut sink, compare);
        }
        session.store(&mut source, sink, check);
        session.failures
    }
}

/// What this process has open at a place.
fn held(place: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir("/proc/self/fd").expect("our own");
    let leads = all.flatten().filter_map(|it| fs::read_link(it.path()).ok());
    leads.filter(|path| path.starts_with(place)).collect()
}

/// What a command says that failed.
#[derive(Debug, Default)]
pub struct Failures {
    pub stored: Vec<String>,
    pub deleted: Vec<String>,
}

impl Failures {
    pub fn all(self) -> Vec<String> {
        [self.stored, self.deleted].concat()
    }
}

/// A running session.
struct Session {
    failures: Failures,
    /// What the receiver has for patches.
    lists: Option<Offers>,
    answering: Option<Arc<Answering>>,
}

impl Session {
    fn survey(&mut self, scene: &Scene, source: &mut Source, sink: &mut Sink, mut compare: Compare) {
        let key = NameKey::new([1; 32]);
        let lists = scene.delta.then(|| {
            compare.offer(sink);
            let (lists, answering) = answering(source.budget(), sink.offers(), key.clone());
            self.answering = Some(answering);
            source.match_with(lists.clone(), key.clone(), Pays::new(Delta::Always));
            lists
        });
        self.lists = sink.offers().filter(|_| scene.delta);
        let form = ListingForm { checksums: Checksums::Omitted, parts: Parts::Told };
        let answers = Answers::default();
        let mut lister = source.survey(Box::new(answers.clone()), form).expect("a tree");
        while let Some(batch) = lister.next_batch().expect("the source can be read") {
            for (row, listed) in decode_batch(&batch.bytes).expect("our own").iter().zip(batch.entries) {
                let ruling = compare.rule(row);
                let choice = compare.carry_out(row, ruling, &|| false).expect("within bounds");
                compare.take_deleted().into_iter().for_each(|it| self.deleted(it));
                if let Decision::Failed(why) = &choice.decision {
                    self.failures.stored.push(why.clone());
                }
                answers.0.lock().expect("not poisoned").push_back((listed, choice));
            }
        }
        compare.delete(&mut |it| self.deleted(it));
        if let (Some(offers), Some(lists)) = (&self.lists, lists) {
            offers.are_complete();
            while let Some(job) = offers.next_job() {
                let row = job.row;
                let mut take = |segment: Segment| lists.take(segment.part_of(row));
                job.list(offers, &key, &mut take).expect("our own list");
            }
        }
    }

    fn deleted(&mut self, deleted: Deleted) {
        if let Deleted::Failed(failure) = deleted {
            self.failures.deleted.push(failure.message);
        }
    }

    fn store(&mut self, source: &mut Source, mut sink: Sink, check: &mut dyn FnMut()) {
        let (mut buf, mut scratch) = (vec![0; CHUNK_LEN_MAX], Vec::new());
        let mut beside = Beside::new(7);
        let failures = &mut self.failures;
        let mut note = |event| match event {
            SinkEvent::FileFailed(failure) | SinkEvent::SourceFailed(failure) => {
                failures.stored.push(failure.message);
            }
            SinkEvent::Deleted(Deleted::Failed(failure)) => failures.deleted.push(failure.message),
            _ => {}
        };
        loop {
            let filled = source.next_chunk(&mut buf, DATA_MAX).expect("the source can be read");
            let whole = &buf[..filled.len];
            let patched = filled.patch.as_ref().and_then(|patch| {
                let verified = verify_with(&patch.chunk, &mut scratch, self.lists.as_ref()).ok()?;
                Some((&patch.chunk[..], verified))
            });
            let (chunk, verified) = match patched {
                Some(patched) => patched,
                None => (whole, verify(whole, &mut scratch).expect("our own chunks verify")),
            };
            let stored = beside.store(&mut sink, (chunk, verified, &scratch), &mut note, check);
            check();
            if let Err(error) = stored {
                self.failures.stored.push(error.message);
                return;
            }
            if filled.is_final {
                break;
            }
        }
        match sink.finish(&mut note) {
            Ok((_, closing)) => closing.acknowledged(),
            Err(error) => self.failures.stored.push(error.message),
        }
    }
}

/// Numbers of recordings, which no two share.
static NUMBER: AtomicU64 = AtomicU64::new(1);

pub fn recording(mount: u8, known: Known, seed: u64) -> Recording {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    Recording { mount, known, number, coin: Rng::new(seed), ops: Vec::new() }
}

/// A tree as it is now, in the numbers of the recording.
fn read_back(top: &Path) -> Files {
    Files::read(top, &|real| (recorder::seen(real), None))
}

impl Recorded {
    /// Records a run into what the scene has at its destination, or into what another one left, under that
    /// mount, with a call that fails if there is one.
    pub fn of(scene: &Scene, left: Option<Left>, fault: Option<Fault>, seed: u64) -> Recorded {
        let other = place();
        // The last call removes the journal, and what it says is then for the next run.
        let leaves = if fault.is_some() { Unfinished::Tolerated } else { Unfinished::None };
        let leaves = left.as_ref().map_or(leaves, |left| left.leaves.or(leaves));
        let (to, before, mount, known) = match left {
            None => {
                let to = scene.place.path().join("to");
                let before = Files::read(&to, &|real| (real, Some(long_ago())));
                let known = before.nodes.iter().map(|(id, node)| (*id, (*id, node.birth))).collect();
                (to, before, 1, known)
            }
            Some(Left { files, mount, .. }) => {
                let known = files.put_at(other.path());
                (other.path().to_owned(), files, mount, known)
            }
        };
        recorder::begin(recording(mount, known, seed));
        let mut check = || {
            let (done, ops) = (read_back(&to), recorder::noted());
            let log = Log { before: before.clone(), ops, fsync: scene.fsync };
            let model = log.all(log.ops.len());
            let noted = || log.describe(log.ops.len());
            assert_eq!(
                differ(&model, &done, false, Unfinished::None),
                None,
                "a call was not noted\n{}",
                noted()
            );
        };
        check();
        if let Some(Fault { call, spared, errno, lasts }) = fault {
            plan_for(call, spared, errno, lasts);
        }
        write_beside(seed % 2 == 1);
        let failures = scene.run(&to, &mut check).all();
        write_beside(false);
        forget();
        assert!(fault.is_some() || failures.is_empty(), "seed {seed}, {scene:?}: {failures:?}");
        check();
        if failures.is_empty() {
            let done = read_back(&to);
            assert_eq!(
                scene.differs(&done, leaves),
                None,
                "seed {seed}, {scene:?}, {fault:?}: nothing failed"
            );
        }
        let ops = recorder::end().ops;
        Recorded { log: Log { before, ops, fsync: scene.fsync }, mount, leaves }
    }
}

/// When what was there before seems to have been made.
fn long_ago() -> (i64, u32) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (now.as_secs() as i64 - BEFORE, 0)
}

/// Gives the command again on what is left; why that was not right.
pub fn go_on(scene: &Scene, left: &Left) -> Result<(), String> {
    let to = place();
    let known = left.files.put_at(to.path());
    recorder::begin(recording(left.mount, known, scene.seed));
    let failures = scene.run(to.path(), &mut || ()).all();
    let there = Files::read(to.path(), &|real| (real, None));
    recorder::end();
    if !failures.is_empty() {
        return Err(format!("{failures:?}"));
    }
    scene.differs(&there, Unfinished::None).map_or(Ok(()), Err)
}
