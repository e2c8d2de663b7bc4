//! The neighbour: another user of the host who owns a directory of the tree, or may write in it. A thread of
//! this process with that user's rights, which does to each name there what a name allows.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Uid, inotify};
use rustix::io::Errno;

use super::{MARK, NEIGHBOUR, PRIVATE, Random, SECRET};

/// Names of the neighbour's own things, which it exchanges for others.
const BAITS: [&str; 6] = ["bait-file", "bait-link", "bait-hard", "bait-fifo", "bait-directory", "bait-other"];
/// Files made at most until one has the number of the one that was removed.
const REUSE_TRIES: usize = 40;

/// What the neighbour did and saw.
#[derive(Debug, Default)]
pub struct Deeds {
    /// Names that it exchanged, replaced, linked, cut short or removed.
    pub acts: u64,
    /// Where it read what it must not read.
    pub leaks: Vec<String>,
    /// Likewise what lies in a private directory.
    pub looked_in: Vec<String>,
}

/// A neighbour at work.
pub struct Attacker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Deeds>>,
}

impl Attacker {
    /// Sets it on a directory. `outside` is what must stay as it is; `favourite` is a name that is exchanged
    /// in a loop, or `None` where names are taken as they come.
    pub fn start(directory: &Path, outside: &Path, favourite: Option<&'static str>, seed: u64) -> Attacker {
        let stop = Arc::new(AtomicBool::new(false));
        let (ours, directory, outside) = (Arc::clone(&stop), directory.to_owned(), outside.to_owned());
        let thread = std::thread::spawn(move || {
            become_neighbour().expect("root may become another user");
            let mut neighbour = Neighbour::new(directory, outside, seed).expect("its own directory");
            while !ours.load(Ordering::Relaxed) {
                match favourite {
                    Some(name) => neighbour.exchange_in_a_loop(name),
                    None => neighbour.take_what_comes(),
                }
                neighbour.look_around();
            }
            neighbour.deeds
        });
        Attacker { stop, thread: Some(thread) }
    }

    /// Ends it.
    pub fn finish(mut self) -> Deeds {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or_else(Deeds::default, |thread| thread.join().expect("it does not panic"))
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Gives this thread, and no other one, the neighbour's rights.
fn become_neighbour() -> Result<(), Errno> {
    let (user, group) = (Uid::from_raw(NEIGHBOUR), Gid::from_raw(NEIGHBOUR));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)
}

struct Neighbour {
    path: PathBuf,
    directory: OwnedFd,
    outside: PathBuf,
    events: OwnedFd,
    random: Random,
    fifo: Option<OwnedFd>,
    deeds: Deeds,
}

impl Neighbour {
    fn new(path: PathBuf, outside: PathBuf, seed: u64) -> Result<Neighbour, Errno> {
        let directory = fs::open(&path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let events = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
        let flags = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::MODIFY;
        inotify::add_watch(&events, &path, flags)?;
        let deeds = Deeds::default();
        Ok(Neighbour { path, directory, outside, events, random: Random(seed), fifo: None, deeds })
    }

    fn count(&mut self, done: Result<(), Errno>) {
        self.deeds.acts += u64::from(done.is_ok());
    }

    /// Makes those of its baits that are gone.
    fn lay_baits(&mut self) {
        let directory = &self.directory;
        let _ = write(directory, "bait-file", MARK, 0o777);
        let _ = write(directory, "bait-other", &MARK.repeat(400), 0o666);
        let _ = fs::symlinkat(self.outside.join("secret"), directory, "bait-link");
        let mode = Mode::from_raw_mode(0o777);
        if fs::mknodat(directory, "bait-fifo", FileType::Fifo, mode, 0).is_ok() {
            // Open for both, so that a program that writes to it does not wait.
            self.fifo =
                fs::openat(directory, "bait-fifo", OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()).ok();
        }
        if fs::mkdirat(directory, "bait-directory", mode).is_ok() {
            let _ = write(directory, "bait-directory/inside", MARK, 0o666);
        }
    }

    fn exchange_in_a_loop(&mut self, name: &str) {
        self.lay_baits();
        for _ in 0..200 {
            let bait = BAITS[self.random.below(BAITS.len() as u64) as usize];
            for _ in 0..2 {
                let done = self.exchange(name, bait);
                self.count(done);
            }
        }
    }

    fn exchange(&self, one: &str, other: &str) -> Result<(), Errno> {
        let directory = &self.directory;
        fs::renameat_with(directory, one, directory, other, RenameFlags::EXCHANGE)
    }

    /// Acts on each name that appears, and on some that stand there.
    fn take_what_comes(&mut self) {
        self.lay_baits();
        for name in self.appeared() {
            if !name.starts_with("bait-") {
                let done = self.act(&name);
                self.count(done);
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }

    fn appeared(&self) -> Vec<String> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.events, &mut buffer);
        let mut names = Vec::new();
        while names.len() < 64
            && let Ok(event) = reader.next()
        {
            names.extend(event.file_name().and_then(|name| name.to_str().ok()).map(str::to_owned));
        }
        names
    }

    fn act(&mut self, name: &str) -> Result<(), Errno> {
        let (act, bait) = (self.random.below(8), self.random.below(BAITS.len() as u64) as usize);
        let other = self.random.below(20);
        let directory = &self.directory;
        match act {
            0..3 => self.exchange(name, BAITS[bait]),
            3 => {
                fs::unlinkat(directory, name, AtFlags::empty())?;
                fs::symlinkat(self.outside.join("secret"), directory, name)
            }
            4 => fs::linkat(directory, name, directory, format!("kept-{other}"), AtFlags::empty()),
            5 => {
                let file = fs::openat(
                    directory,
                    name,
                    OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK,
                    Mode::empty(),
                )?;
                fs::ftruncate(&file, 0)?;
                rustix::io::write(&file, MARK).map(drop)
            }
            6 => self.replace_by_the_same_number(name),
            _ => fs::renameat(directory, name, directory, format!("moved-{other}")),
        }
    }

    /// Puts a file of its own in a name's place, of the same size and, if the file system gives it, the same
    /// inode number.
    fn replace_by_the_same_number(&self, name: &str) -> Result<(), Errno> {
        let directory = &self.directory;
        let before = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        fs::unlinkat(directory, name, AtFlags::empty())?;
        let size = usize::try_from(before.st_size).unwrap_or(0).min(16 << 20);
        let content: Vec<u8> = MARK.iter().copied().cycle().take(size.max(MARK.len())).collect();
        for attempt in 0..REUSE_TRIES {
            let own = format!("reused-{attempt}");
            write(directory, &own, &content, 0o666)?;
            let made = fs::statat(directory, &own, AtFlags::SYMLINK_NOFOLLOW)?;
            if made.st_ino == before.st_ino || attempt + 1 == REUSE_TRIES {
                fs::renameat(directory, &own, directory, name)?;
                break;
            }
        }
        for attempt in 0..REUSE_TRIES {
            let _ = fs::unlinkat(directory, format!("reused-{attempt}"), AtFlags::empty());
        }
        Ok(())
    }

    /// Reads whatever it can open.
    fn look_around(&mut self) {
        let mut found = Vec::new();
        look_in(&self.path, 3, &mut found, &mut self.deeds.looked_in);
        if let Some(fifo) = &self.fifo {
            let mut bytes = [0; 4096];
            if let Ok(count @ 1..) = rustix::io::read(fifo, &mut bytes) {
                found.push(format!("{count} bytes came through a fifo"));
            }
        }
        self.deeds.leaks.extend(found);
    }
}

/// Looks for what must not be read.
fn look_in(directory: &Path, depth: usize, found: &mut Vec<String>, private: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        if kind.as_ref().is_ok_and(|kind| kind.is_dir()) && depth > 0 {
            look_in(&path, depth - 1, found, private);
        } else if kind.is_ok_and(|kind| kind.is_file()) {
            let mut head = [0; SECRET.len()];
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let read =
                fs::open(&path, flags, Mode::empty()).and_then(|file| rustix::io::read(file, &mut head));
            let words = || format!("{} could be read", path.display());
            match read.map(|len| &head[..len]) {
                Ok(head) if head == SECRET => found.push(words()),
                Ok(head) if PRIVATE.starts_with(head) && !head.is_empty() => private.push(words()),
                _ => {}
            }
        }
    }
}

fn write(directory: &OwnedFd, name: &str, content: &[u8], mode: u32) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = fs::openat(directory, name, flags, Mode::from_raw_mode(mode))?;
    let mut rest = content;
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&file, rest)?..];
    }
    Ok(())
}
