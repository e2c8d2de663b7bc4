//! `--remove-source-files`: what the receiver has is removed from the source, once all of it is stored.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::Mode;
use rustix::io::Errno;

use super::Source;
use crate::at;
use crate::at::open_beneath;
use crate::beneath::{HOLD_DIRECTORY, Links, sentence};
use crate::open_file::OpenFile;
use crate::stamp::{Marks, Stamp};
use crate::walk::{Origin, Unopened};
use fobs_filter::path;
use fobs_filter::path::show;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::error::Result;
use fobs_model::event::FileError;
use fobs_model::name::Component;

/// Most bytes of paths and marks that wait; further files stay, and that is said. About 1.5 million files.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// What is to be removed, in the order of the walk. Of a path only what differs from the one before is kept.
pub struct Removal {
    /// The sources; entries follow each other.
    places: Vec<Unopened>,
    waiting: Vec<Waiting>,
    rests: Vec<u8>,
    /// The path added last.
    last: Vec<u8>,
    /// Files that found no room.
    left: u64,
    kept: Charge,
}

/// The path of an entry that is gone, or why it stays.
pub type OneRemoval<'p> = std::result::Result<&'p [u8], FileError>;

struct Waiting {
    /// Index in `places`.
    place: u32,
    /// Bytes of the path before; paths have at most 4096.
    shared: u16,
    rest: u16,
    marks: Marks,
}

impl Source {
    /// What is to be removed once the receiver has everything.
    pub fn take_removal(&mut self) -> Option<Removal> {
        self.removal.take()
    }

    /// The receiver has an entry, or will have it at the end.
    pub(super) fn leaves(&mut self, path: &[u8], origin: &Origin) {
        if let Some(removal) = &mut self.removal {
            removal.add(path, &origin.stamp, &origin.place);
        }
    }

    /// A file is read whole.
    pub(super) fn file_leaves(&mut self, file: &OpenFile) {
        let origin = self.origin.take();
        if let (Some(removal), Some(origin), Some(stamp)) = (&mut self.removal, origin, file.stamp()) {
            removal.add(&file.path, stamp, &origin.place);
        }
    }
}

impl Removal {
    pub(super) fn new(budget: &MemoryBudget) -> Removal {
        Removal {
            places: Vec::new(),
            waiting: Vec::new(),
            rests: Vec::new(),
            last: Vec::new(),
            left: 0,
            kept: budget.charge(Keeps::Removals),
        }
    }

    /// Makes room for one more.
    fn has_room(&mut self, path: &[u8]) -> bool {
        let Removal { places, waiting, rests, kept, .. } = self;
        let used = rests.len() + waiting.len() * size_of::<Waiting>();
        used + path.len() <= WAITING_BYTES_MAX
            && kept.room_in_vec(rests, path.len()).is_ok()
            && kept.room_in_vec(waiting, 1).is_ok()
            && kept.room_in_vec(places, 1).is_ok()
    }

    fn add(&mut self, path: &[u8], stamp: &Stamp, place: &Unopened) {
        if !self.has_room(path) {
            self.left += 1;
            return;
        }
        if self.places.last().is_none_or(|last| !last.is_same(place)) {
            self.places.push(place.clone());
        }
        let shared = path.iter().zip(&self.last).take_while(|(one, other)| one == other).count();
        self.rests.extend_from_slice(&path[shared..]);
        self.waiting.push(Waiting {
            place: self.places.len() as u32 - 1,
            shared: shared as u16,
            rest: (path.len() - shared) as u16,
            marks: stamp.marks(),
        });
        self.last = path.to_vec();
    }

    /// Removes everything but what `has_failed` and what changed since. `go_on` is called before each entry,
    /// and ends the removal with its error. `report` gets each path that is gone, or why it stays.
    pub fn carry_out(
        self,
        has_failed: &dyn Fn(&[u8]) -> bool,
        report: &mut dyn FnMut(OneRemoval<'_>),
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut path: Vec<u8> = Vec::new();
        let mut rests = &self.rests[..];
        let mut held: Option<Held> = None;
        for Waiting { place, shared, rest, marks } in self.waiting {
            let (new, others) = rests.split_at(rest.into());
            rests = others;
            path.truncate(shared.into());
            path.extend_from_slice(new);
            go_on()?;
            if has_failed(&path) {
                continue;
            }
            let message = match remove(&self.places[place as usize], &path, &marks, &mut held) {
                Ok(Removed::Gone) => {
                    report(Ok(&path));
                    continue;
                }
                // Someone else was faster.
                Err(Errno::NOENT) => continue,
                Ok(Removed::Changed) => format!(
                    "'{}' changed since it was read, so it was not removed from the source; sync it again",
                    show(&path)
                ),
                Err(errno) => sentence("remove from the source", &path, errno),
            };
            report(Err(FileError { path: path.clone(), message }));
        }
        if self.left > 0 {
            let message = format!("{} more files were not removed from the source: sync again", self.left);
            report(Err(FileError { path: Vec::new(), message }));
        }
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Removed {
    Gone,
    Changed,
}

/// The directory used last: the source's root, and the path below it.
struct Held {
    root: Arc<OwnedFd>,
    below: Vec<u8>,
    directory: OwnedFd,
}

fn remove(
    place: &Unopened,
    path: &[u8],
    before: &Marks,
    held: &mut Option<Held>,
) -> std::result::Result<Removed, Errno> {
    match place.place() {
        Unopened::Below(root, prefix_len) => {
            let (parent, name) = path::split_name(path.get(*prefix_len..).unwrap_or_default())?;
            if held.as_ref().is_none_or(|held| !Arc::ptr_eq(&held.root, root) || held.below != parent) {
                let directory = open_beneath(root, parent, HOLD_DIRECTORY, Mode::empty(), Links::Refuse)?;
                *held = Some(Held { root: Arc::clone(root), below: parent.to_vec(), directory });
            }
            held.as_ref().map_or(Err(Errno::BADF), |held| remove_in(&held.directory, name, before))
        }
        // A request that follows links removes no source.
        Unopened::Followed(_) | Unopened::Ruled(..) => Err(Errno::OPNOTSUPP),
        Unopened::Named(base, named) => {
            let (parent, name) = path::split_name(named)?;
            let parent = if parent.is_empty() && named.starts_with(b"/") { b"/" } else { parent };
            remove_in(&base.open_place(parent, HOLD_DIRECTORY)?, name, before)
        }
    }
}

fn remove_in(
    directory: &OwnedFd,
    name: Component<'_>,
    before: &Marks,
) -> std::result::Result<Removed, Errno> {
    let stat = at::stat(directory, name)?;
    if !before.is_same_content(&Stamp::of(&stat).marks()) {
        return Ok(Removed::Changed);
    }
    at::unlink(directory, name).map(|()| Removed::Gone)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;
    use fobs_model::error::{Error, ErrorKind};

    const PATHS: [&str; 6] = ["a", "dir/aa", "dir/ab", "dir/link", "dir/second", "z"];

    /// A tree with all of the paths, and its removal.
    fn tree(top: &Path) -> Removal {
        fs::create_dir(top.join("dir")).expect("a fresh directory");
        for path in ["a", "dir/aa", "dir/ab", "z"] {
            fs::write(top.join(path), path).expect("a fresh file");
        }
        fs::hard_link(top.join("dir/aa"), top.join("dir/second")).expect("a second name");
        symlink("aa", top.join("dir/link")).expect("a link");
        let root = Arc::new(OwnedFd::from(fs::File::open(top).expect("own directory")));
        let mut removal = Removal::new(&MemoryBudget::default());
        for path in PATHS {
            let (parent, name) = path::split_name(path.as_bytes()).expect("a name");
            let parent = open_beneath(&root, parent, HOLD_DIRECTORY, Mode::empty(), Links::Refuse)
                .expect("a directory");
            let stat = at::stat(&parent, name).expect("it is there");
            removal.add(path.as_bytes(), &Stamp::of(&stat), &Unopened::Below(Arc::clone(&root), 0));
        }
        removal
    }

    /// What is left, and what was reported.
    fn carry_out(
        top: &Path,
        removal: Removal,
        has_failed: &dyn Fn(&[u8]) -> bool,
    ) -> (Vec<&'static str>, Vec<String>) {
        let (mut told, mut gone) = (Vec::new(), Vec::new());
        let mut report = |removed: OneRemoval<'_>| match removed {
            Ok(path) => gone.push(String::from_utf8_lossy(path).into_owned()),
            Err(failure) => told.push(failure.message),
        };
        let done = removal.carry_out(has_failed, &mut report, &mut || Ok(()));
        assert!(gone.iter().all(|path| top.join(path).symlink_metadata().is_err()), "{gone:?}");
        assert_eq!(done, Ok(()));
        let left = PATHS.into_iter().filter(|path| top.join(path).symlink_metadata().is_ok());
        (left.collect(), told)
    }

    #[test]
    fn what_has_no_room_stays_and_is_counted() {
        let top = tempfile::tempdir().expect("a directory");
        let whole = tree(top.path());
        let root = Arc::new(OwnedFd::from(fs::File::open(top.path()).expect("own directory")));
        let stat = at::stat(&root, Component::new(b"a").expect("a name")).expect("it is there");
        let budget = MemoryBudget::of(whole.kept.bytes() - 1);
        let mut removal = Removal::new(&budget);
        for path in PATHS {
            removal.add(path.as_bytes(), &Stamp::of(&stat), &Unopened::Below(Arc::clone(&root), 0));
        }
        assert!(removal.left > 0 && removal.waiting.len() < PATHS.len());
        let (_, told) = carry_out(top.path(), removal, &|_| true);
        assert!(told.len() == 1 && told[0].contains("more files were not removed"), "{told:?}");
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn everything_goes_but_directories() {
        let top = tempfile::tempdir().expect("a directory");
        let removal = tree(top.path());
        // Someone else removed it.
        fs::remove_file(top.path().join("z")).expect("own file");
        assert_eq!(carry_out(top.path(), removal, &|_| false), (Vec::new(), Vec::new()));
        assert!(top.path().join("dir").is_dir());
    }

    #[test]
    fn what_failed_stays() {
        let top = tempfile::tempdir().expect("a directory");
        let removal = tree(top.path());
        let left = carry_out(top.path(), removal, &|path| path == b"dir/ab" || path == b"dir/link");
        assert_eq!(left, (vec!["dir/ab", "dir/link"], Vec::new()));
    }

    #[test]
    fn what_changed_stays_and_is_named() {
        let top = tempfile::tempdir().expect("a directory");
        let removal = tree(top.path());
        let old = fs::metadata(top.path().join("a")).expect("it is there").modified().expect("a time");
        std::thread::sleep(std::time::Duration::from_millis(20));
        // Of equal size, and with its old time: only the time of the change shows it.
        fs::write(top.path().join("a"), "b").expect("own file");
        let file = fs::File::options().write(true).open(top.path().join("a")).expect("own file");
        file.set_modified(old).expect("own file");
        fs::remove_file(top.path().join("dir/link")).expect("own link");
        symlink("ab", top.path().join("dir/link")).expect("another link");
        let (left, told) = carry_out(top.path(), removal, &|_| false);
        assert_eq!(left, ["a", "dir/link"]);
        assert!(told.len() == 2 && told[0].contains("'a' changed") && told[1].contains("'dir/link' changed"));
    }

    #[test]
    fn a_source_directory_that_became_a_link_is_not_followed() {
        let top = tempfile::tempdir().expect("a directory");
        let elsewhere = tempfile::tempdir().expect("a directory");
        let removal = tree(top.path());
        fs::rename(top.path().join("dir"), elsewhere.path().join("dir")).expect("own directory");
        symlink(elsewhere.path().join("dir"), top.path().join("dir")).expect("a link");
        let (_, told) = carry_out(top.path(), removal, &|_| false);
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(elsewhere.path().join("dir/ab").exists());
    }

    #[test]
    fn a_cancelled_removal_leaves_the_rest() {
        let top = tempfile::tempdir().expect("a directory");
        let removal = tree(top.path());
        let mut steps = 0;
        let mut go_on = || {
            steps += 1;
            if steps > 2 { Err(Error::new(ErrorKind::Interrupted, "stop")) } else { Ok(()) }
        };
        assert!(removal.carry_out(&|_| false, &mut |_| (), &mut go_on).is_err());
        assert!(!top.path().join("dir/aa").exists() && top.path().join("dir/ab").exists());
    }
}
