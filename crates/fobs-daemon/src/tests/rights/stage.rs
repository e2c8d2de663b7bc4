//! A daemon with something that no client may learn of, and a client's files.

use crate::served::{Served, content};
use fobs::{Session, Transfer};
use fobs_model::event::{Event, EventSink, Outcome};
use fobs_model::options::sync::{Enter, SyncOptions};
use fobs_model::options::{Location, Preserve, SignedTicket, TransferOptions};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What one entry is, to the last bit that a client could change.
type Entry = (u32, u64, i64, u64, Vec<u8>);

/// All that stands below a directory.
pub(super) type Standing = BTreeMap<PathBuf, Entry>;

/// A daemon, and another one to fetch from.
pub(super) struct Stage {
    pub(super) served: Served,
    other: Served,
}

/// The events of a client, as text.
#[derive(Default)]
pub(super) struct Told(Mutex<Vec<String>>);

impl EventSink for Told {
    fn event(&self, event: Event) {
        // Rates and times differ between runs.
        let told = match event {
            Event::FileDone(fobs_model::event::FileDone { path, bytes, .. }) => {
                format!("done {} {bytes}", show(&path))
            }
            Event::FileFailed(error) => format!("failed {}: {}", show(&error.path), error.message),
            Event::Changed { changes, path, .. } => format!("{changes} {}", show(&path)),
            Event::Deleted { path, .. } => format!("deleted {}", show(&path)),
            Event::Notice(text) => format!("notice {text}"),
            _ => return,
        };
        self.0.lock().unwrap().push(told);
    }
}

impl Told {
    /// Sorted: threads report beside each other.
    pub(super) fn all(&self) -> Vec<String> {
        let mut all = self.0.lock().unwrap().clone();
        // The first connection of a daemon pins its key.
        all.retain(|told| !told.contains("is now pinned"));
        all.sort();
        all
    }
}

fn show(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// The names below which the stage has everything.
pub(super) const BASE: &str = "in";
/// Names that only the daemon has.
pub(super) const SECRETS: [&str; 3] = ["secret", "deep", "hidden"];

impl Stage {
    pub(super) fn new(read_only: bool) -> Stage {
        let served = Served::start(|options| {
            options.third_party = true;
            options.read_only = read_only;
        });
        Stage { served, other: Served::start(|_| ()) }
    }

    /// Puts everything in its place again.
    pub(super) fn fresh(&self) {
        clear(&self.served.root());
        clear(&self.source());
        clear(&self.other.root());
        let base = self.base();
        fs::create_dir_all(base.join("dir/hidden")).unwrap();
        fs::create_dir_all(base.join("older")).unwrap();
        fs::write(base.join("secret"), "one").unwrap();
        fs::write(base.join("dir/deep"), "two").unwrap();
        fs::write(base.join("same"), "equal").unwrap();
        fs::write(self.other.root().join("fetched"), "from the other").unwrap();
        let source = self.source();
        fs::create_dir(source.join("dir")).unwrap();
        fs::write(source.join("dir/inner"), content(20_000)).unwrap();
        fs::write(source.join("same"), "equal").unwrap();
        fs::write(source.join("new"), "content").unwrap();
        symlink("same", source.join("link")).unwrap();
    }

    /// What is served and in reach of every key of the tests.
    pub(super) fn base(&self) -> PathBuf {
        self.served.root().join(BASE)
    }

    /// The client's files.
    pub(super) fn source(&self) -> PathBuf {
        self.served.directory("source")
    }

    pub(super) fn ticket(&self) -> SignedTicket {
        open(&self.other).call().ticket(&["fetched"], 1000, Duration::from_secs(60), None).unwrap()
    }

    pub(super) fn session(&self) -> Session {
        open(&self.served)
    }

    /// Pushes what is in the client's directory.
    pub(super) fn push(&self, options: TransferOptions) -> (Outcome, Vec<String>) {
        self.push_from("", options)
    }

    /// The same of a name there.
    pub(super) fn push_from(&self, name: &str, options: TransferOptions) -> (Outcome, Vec<String>) {
        let from = Location::Local(self.source().join(name));
        let from = match from {
            Location::Local(path) if name.is_empty() => Location::Local(path.join("")),
            named => named,
        };
        self.run(from, self.served.remote(BASE), options)
    }

    /// Pulls all.
    pub(super) fn pull(&self, options: TransferOptions) -> (Outcome, Vec<String>) {
        let to = self.served.directory("pulled");
        clear(&to);
        self.run(self.served.remote(&format!("{BASE}/")), Location::Local(to), options)
    }

    fn run(&self, from: Location, to: Location, options: TransferOptions) -> (Outcome, Vec<String>) {
        let told = Arc::new(Told::default());
        let events: Arc<dyn EventSink> = told.clone();
        let started = Transfer::builder([from], to).options(options).events(events).start();
        let outcome = started.and_then(|transfer| transfer.wait());
        (outcome, told.all())
    }

    /// Options of a copy.
    pub(super) fn copy(&self) -> TransferOptions {
        TransferOptions { recursive: true, ..self.served.options() }
    }

    /// Options of `fobs sync -a`, changed.
    pub(super) fn sync(&self, change: &dyn Fn(&mut SyncOptions)) -> TransferOptions {
        let preserve = Preserve { modes: true, times: true, ..Preserve::default() };
        let mut sync = SyncOptions { preserve, directories: Enter::All, ..SyncOptions::default() };
        change(&mut sync);
        TransferOptions { sync: Some(Arc::new(sync)), ..self.served.options() }
    }

    /// Everything that is served.
    pub(super) fn standing(&self) -> Standing {
        standing(&self.served.root())
    }
}

/// Everything below a directory.
pub(super) fn standing(top: &Path) -> Standing {
    let entries = walkdir::WalkDir::new(top).into_iter().map(|entry| entry.unwrap().into_path());
    let of = |path: &PathBuf| {
        let meta = fs::symlink_metadata(path).unwrap();
        let text = match (meta.is_file(), meta.is_symlink()) {
            (true, _) => fs::read(path).unwrap(),
            (_, true) => fs::read_link(path).unwrap().into_os_string().into_encoded_bytes(),
            _ => Vec::new(),
        };
        (meta.mode(), meta.nlink(), meta.mtime_nsec() + meta.mtime() * 1_000_000_000, meta.ino(), text)
    };
    entries.map(|path| (path.clone(), of(&path))).collect()
}

fn open(served: &Served) -> Session {
    let Location::Remote(remote) = served.remote("") else { panic!("a remote") };
    Session::builder(remote).options(served.options()).open().unwrap()
}

fn clear(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.symlink_metadata().unwrap().is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
    }
}
