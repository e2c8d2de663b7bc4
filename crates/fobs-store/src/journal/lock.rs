//! The journal's file as the lock of a destination: one transfer at a time. A session that replaces an
//! earlier one of the same command takes over; so does one of the same client and transfer, if that client is
//! absent.

use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fobs_model::units::ABSENT_AFTER;
use rustix::fs::{self, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::Strays;
use super::format::{
    Claim, ClientId, Due, HEADER_LEN, Holder, Origin, TransferId, decode_claim, decode_holder, decode_origin,
    encode_claim,
};
use super::store::{FileStore, Store};
use crate::at;
use crate::at::open_beneath;
use crate::beneath::{Links, kind, sentence};
use crate::held::is_shared;
use crate::own::{is_marked, open_own};
use fobs_filter::path::show;
use fobs_model::error::{Busy, Error, ErrorKind};
use fobs_model::name::Component;
use fobs_model::options::Sight;

/// How long a session waits for the one that it takes over to end: two of its heartbeats and the last write.
const TAKEOVER_WAIT: Duration = Duration::from_secs(10);
/// Between two attempts to lock.
const RETRY_EVERY: Duration = Duration::from_millis(20);
/// How long a lock may be held before its journal says by whom.
const NAMELESS_WAIT: Duration = Duration::from_secs(1);
/// How long a lock may be held after its transfer: a process that this one starts (ssh, or what a program
/// that embeds the library runs) has copies of all descriptors until it becomes another program.
const FORKED_WAIT: Duration = Duration::from_millis(200);

/// Who wants the lock.
pub(super) struct Asker<'a> {
    pub(super) transfer_id: TransferId,
    /// Who its client is; `None` where no other session of it can be running.
    pub(super) client: Option<ClientId>,
    /// A hash of what is copied where.
    pub(super) key: [u8; 16],
    /// The destination as the user named it.
    pub(super) destination: &'a [u8],
    /// Whether it may know who else is at work there.
    pub(super) sight: Sight,
}

/// What the journal of a running transfer says of it.
struct Running {
    origin: Origin,
    holder: Holder,
    claim: Claim,
}

/// What was asked of a holder.
struct Asked {
    holder: Holder,
    generation: u64,
}

impl Asker<'_> {
    /// When a holder is to give way to this session; `None`: not before it is done.
    fn due(&self, running: &Running) -> Option<Due> {
        let Running { origin, holder, .. } = running;
        if holder.transfer_id == self.transfer_id && self.transfer_id != TransferId::default() {
            return Some(Due::Now);
        }
        let is_same = origin.key == self.key && holder.client == self.client;
        (is_same && self.client.is_some()).then_some(Due::IfAbsent)
    }
}

/// The lock, or why the transfer goes without a journal.
pub(super) enum Lock {
    /// It is held as long as this is open; and what an earlier run may have left, if the file was there.
    Held(FileStore, Strays),
    /// The file system has no locks or no room.
    None,
    /// Another user may make names in the directory, and what has the journal's name is not ours: it must not
    /// forbid the destination's name for ever.
    Planted,
}

impl Lock {
    /// The journal's file, or none, of which the user is told where another user has brought it about.
    pub(super) fn or_told(
        self,
        sight: Sight,
        name: Component<'_>,
        notices: &mut Vec<String>,
    ) -> Option<(FileStore, Strays)> {
        match self {
            Lock::Held(file, strays) => return Some((file, strays)),
            Lock::None => {}
            Lock::Planted => notices.extend(planted(sight, name)),
        }
        None
    }
}

/// Locks the journal `name` in `directory`, making it if need be.
pub(super) fn lock(directory: &OwnedFd, name: Component<'_>, asker: &Asker<'_>) -> Result<Lock, Error> {
    let begin = Instant::now();
    let mut asked = None;
    loop {
        let (file, strays) = match open(directory, name) {
            Ok(opened) => opened,
            // It was made, or removed, in between.
            Err(Unopened::Made(Errno::EXIST)) if begin.elapsed() < NAMELESS_WAIT => continue,
            Err(Unopened::Found(errno) | Unopened::Made(errno)) if is_of_others(errno) => {
                return not_ours(directory, name);
            }
            Err(Unopened::Found(errno)) => {
                return Err(unknown("open the journal", name, errno));
            }
            Err(Unopened::Made(_)) => return Ok(Lock::None),
        };
        if !is_plain(&file) {
            return not_ours(directory, name);
        }
        match lock_file(&file) {
            Ok(()) if has_name(&file, directory, name) => {
                return Ok(Lock::Held(FileStore(file), strays));
            }
            // Its last holder removed it.
            Ok(()) | Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => {
                let store = FileStore(file);
                let running = running(&store);
                let patience = match &running {
                    None => NAMELESS_WAIT,
                    Some(running) if running.claim.ending => TAKEOVER_WAIT,
                    Some(running) => match asker.due(running) {
                        Some(due) => ask(&store, running, due, &mut asked),
                        None => FORKED_WAIT,
                    },
                };
                if begin.elapsed() >= patience {
                    let may_know =
                        |holder: &&Holder| asker.sight == Sight::Whole || holder.client == asker.client;
                    let holder = running.as_ref().map(|running| &running.holder).filter(may_know);
                    return Err(in_use(asker.destination, holder));
                }
            }
            Err(errno) if goes_without(&file, directory, name, (strays, errno)) => return Ok(Lock::None),
            Err(errno) => return Err(unknown("lock the journal", name, errno)),
        }
        if begin.elapsed() >= ABSENT_AFTER + TAKEOVER_WAIT {
            return Err(in_use(asker.destination, None));
        }
        sleep(RETRY_EVERY);
    }
}

/// Asks the holder to give way, once; how long to wait for that, from the beginning.
fn ask(store: &FileStore, running: &Running, due: Due, asked: &mut Option<Asked>) -> Duration {
    let Running { origin, holder, claim } = running;
    let stands = asked.as_ref().filter(|asked| {
        // The holder, or another that asks, may have written over it.
        asked.holder == *holder
            && claim.generation >= asked.generation
            && (claim.due == due || due != Due::Now)
    });
    match stands {
        Some(asked) if due == Due::IfAbsent && claim.refused >= asked.generation => return Duration::ZERO,
        Some(_) => {}
        None => {
            let generation = claim.generation.saturating_add(1);
            let (bytes, at) = encode_claim(&origin.salt, &Claim { generation, due, ..*claim });
            // Without it the wait ends in the message that the destination is in use.
            let _ = store.write_at(&bytes, at);
            *asked = Some(Asked { holder: holder.clone(), generation });
        }
    }
    match due {
        Due::Now => TAKEOVER_WAIT,
        Due::IfAbsent => ABSENT_AFTER + TAKEOVER_WAIT,
    }
}

/// Why a journal is not open.
enum Unopened {
    /// It stands there.
    Found(Errno),
    /// It could not be made.
    Made(Errno),
}

/// Opens a journal, without following a link or waiting for a fifo's other end, or makes it: then no earlier
/// run left anything.
fn open(directory: &OwnedFd, name: Component<'_>) -> Result<(OwnedFd, Strays), Unopened> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let there = open_beneath(directory, name.as_bytes(), flags, Mode::empty(), Links::Refuse);
    #[cfg(test)]
    let there = there.and_then(|file| crate::faults::strike(crate::faults::Call::Open).map(|()| file));
    match there {
        Err(Errno::NOENT) => match open_own(directory, name, flags | OFlags::CREATE | OFlags::EXCL) {
            Ok(made) => Ok((made, Strays::None)),
            Err(errno) => Err(Unopened::Made(errno)),
        },
        Err(errno) => Err(Unopened::Found(errno)),
        Ok(found) => Ok((found, Strays::Possible)),
    }
}

/// Whether an error means that what has the name is no journal of this user.
fn is_of_others(errno: Errno) -> bool {
    matches!(errno, Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::ACCESS | Errno::PERM)
}

fn lock_file(file: &OwnedFd) -> Result<(), Errno> {
    #[cfg(test)]
    crate::faults::strike(crate::faults::Call::Lock)?;
    fs::flock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Whether a journal that could not be locked says nothing, so that the transfer goes without one. It is
/// removed where no earlier run can have left files that are found by it: this one made it, or there are no
/// locks.
fn goes_without(
    file: &OwnedFd,
    directory: &OwnedFd,
    name: Component<'_>,
    (strays, errno): (Strays, Errno),
) -> bool {
    let is_marked_blank = || fs::fstat(file).is_ok_and(|stat| is_marked(&stat) && stat.st_size == 0);
    let is_blank = strays == Strays::None || is_marked_blank();
    let has_no_locks = matches!(errno, Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL);
    if is_blank && (strays == Strays::None || has_no_locks) && has_name(file, directory, name) {
        // If it stays, `fobs clean` finds it.
        let _ = at::unlink(directory, name);
    }
    is_blank
}

/// A journal stands there, and what it says cannot be known: a transfer may hold it, or go on from it.
fn unknown(what: &str, name: Component<'_>, errno: Errno) -> Error {
    Error::new(ErrorKind::Destination, sentence(what, name.as_bytes(), errno))
}

/// Whether it is a regular file of ours with one name at most.
pub(super) fn is_plain(file: &OwnedFd) -> bool {
    fs::fstat(file).is_ok_and(|stat| {
        kind(&stat) == FileType::RegularFile && stat.st_uid == geteuid().as_raw() && stat.st_nlink <= 1
    })
}

/// Whether `name` still is this file.
fn has_name(file: &OwnedFd, directory: &OwnedFd, name: Component<'_>) -> bool {
    let (Ok(open), Ok(named)) = (fs::fstat(file), at::stat(directory, name)) else {
        return false;
    };
    (open.st_dev, open.st_ino) == (named.st_dev, named.st_ino)
}

fn running(store: &FileStore) -> Option<Running> {
    let mut header = vec![0; HEADER_LEN];
    let filled = store.read_at(&mut header, 0).ok()?;
    let origin = decode_origin(&header[..filled]).ok()?;
    let holder = decode_holder(&origin.salt, &header)?;
    let claim = decode_claim(&origin.salt, &header)?;
    Some(Running { origin, holder, claim })
}

fn in_use(destination: &[u8], holder: Option<&Holder>) -> Error {
    let by = holder.map(|holder| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let seconds = now.saturating_sub(holder.since);
        let since = if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds / 60) };
        let Holder { description, pid, .. } = holder;
        format!(" ({}, process {pid}, for {since})", show(description.as_bytes()))
    });
    // Of a daemon's root and of a home directory the path is empty.
    let place = match destination {
        b"" => "the destination".to_owned(),
        named => format!("'{}'", show(named)),
    };
    Error::new(
        ErrorKind::Destination,
        format!(
            "cannot write to {place}: another copy into it is running{}; wait for its end, or end it",
            by.unwrap_or_default()
        ),
    )
    .of_busy(Busy::Taken)
}

/// Whether another user may make names in a directory.
pub(super) fn is_in_others_hands(directory: &OwnedFd) -> bool {
    is_shared(directory)
}

/// Whether a journal's file carries our mark, which no other program sets, in a directory where no other user
/// can have given it that name.
pub(super) fn is_ours_alone(file: &OwnedFd, directory: &OwnedFd) -> bool {
    fs::fstat(file).is_ok_and(|stat| is_marked(&stat)) && !is_in_others_hands(directory)
}

/// What the user is told whose copy goes without a journal, if they may look at the destination.
pub(super) fn planted(sight: Sight, name: Component<'_>) -> Option<String> {
    (sight == Sight::Whole).then(|| {
        format!(
            "this copy cannot be resumed: '{}' at the destination, where its journal would be, is not one of this \
             user's; have it moved away",
            show(name.as_bytes())
        )
    })
}

/// What has the journal's name is none of this user's.
fn not_ours(directory: &OwnedFd, name: Component<'_>) -> Result<Lock, Error> {
    if is_in_others_hands(directory) {
        return Ok(Lock::Planted);
    }
    let message = format!(
        "cannot lock the destination: '{}' there is not a regular file of this user; have it moved away",
        show(name.as_bytes())
    );
    Err(Error::new(ErrorKind::Destination, message))
}
