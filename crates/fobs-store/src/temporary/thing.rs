//! What is made in one step and moved to its name when it has all that it is to have: links, devices, fifos,
//! sockets and further names.

use super::*;
use crate::held::Inode;
use crate::stamp::name_count;
use crate::stat::Meta;
use rustix::fs::Stat;
use rustix::process::geteuid;

/// What is moved to its name in one step.
pub(crate) enum Thing<'a> {
    /// A symbolic link to this target.
    Symlink(&'a [u8]),
    /// A device, fifo or socket, and the device's number.
    Special(FileType, u64),
    /// One more name of what is held.
    Name(&'a OwnedFd),
}

/// What became of something that has its name now.
pub(crate) struct Placed {
    /// What it is.
    pub(crate) stat: Stat,
    /// `Err`: not all that is kept could be set.
    pub(crate) set: Result<(), Unset>,
}

/// Makes something other than a file under a temporary name and moves it to `name`. What is dressed is what
/// was made, or nothing: another user who may write in the directory can exchange it at any moment.
pub(crate) fn place(
    names: &Names,
    directory: &Arc<OwnedFd>,
    name: Component<'_>,
    thing: &Thing<'_>,
    meta: Meta,
    attributes: Option<&Attributes>,
    applier: &Applier,
) -> Result<Placed, Errno> {
    let mut temporary = make(names, directory, name, thing)?;
    let held = Arc::clone(&temporary.held);
    let held = Handle::Held(held.as_fd());
    let mut set = match thing {
        Thing::Symlink(_) => {
            if applier.keeping.times || applier.preserve.atimes {
                // The time of a link does not matter enough to fail.
                let _ = applier.set_times(held, meta, attributes);
            }
            attributes.map_or(Ok(()), |attributes| applier.dress_link(held, attributes))
        }
        Thing::Special(..) => applier.dress(held, applier.made_in(directory, None), meta, attributes),
        // Its first name has it all.
        Thing::Name(..) => Ok(()),
    };
    let movable = Movable::in_directory(directory);
    if applier.keeping.overwrite == Overwrite::Refuse {
        temporary.take_new(name, movable)?;
    } else {
        match temporary.rename_to_new(name, movable) {
            Err(Errno::EXIST | Errno::INVAL | Errno::NOSYS) => {
                let is_special = matches!(thing, Thing::Special(..));
                if is_special && let Some(mode) = temporary.kept_mode(name, is_special, meta, applier)? {
                    set = set.and(set_mode(held, mode));
                }
                temporary.rename(name, movable)?;
                // A rename of one name of a file to another leaves both: the temporary one is removed.
                temporary.in_place = !matches!(thing, Thing::Name(..));
            }
            result => result?,
        }
    }
    let stat = fs::fstat(&temporary.held)?;
    Ok(Placed { stat, set })
}

/// Makes it and holds it.
fn make(
    names: &Names,
    directory: &Arc<OwnedFd>,
    name: Component<'_>,
    thing: &Thing<'_>,
) -> Result<Temporary, Errno> {
    let mode = Mode::from_raw_mode(OWN_MODE & 0o777);
    let (name, ()) = names.make(directory, name, |made| match thing {
        Thing::Symlink(target) => at::symlink(target, directory, made),
        Thing::Special(kind, device) => at::make_node(directory, made, *kind, mode, *device),
        Thing::Name(held) => at::link_held(held, directory, made),
    })?;
    let held = match at::hold(directory, name.as_component()) {
        Ok(held) => held,
        Err(errno) => {
            // The first failure is the one that is reported.
            let _ = at::unlink(directory, name.as_component());
            return Err(errno);
        }
    };
    // What stands there instead is another user's, and stays.
    if !is_what_was_made(&held, directory, thing)? {
        return Err(Errno::STALE);
    }
    Ok(Temporary { directory: Arc::clone(directory), name, held: Arc::new(held), in_place: false })
}

fn is_what_was_made(held: &OwnedFd, directory: &Arc<OwnedFd>, thing: &Thing<'_>) -> Result<bool, Errno> {
    let stat = fs::fstat(held)?;
    let is_new =
        |wanted: FileType| kind(&stat) == wanted && name_count(&stat) == 1 && is_made_here(&stat, directory);
    match thing {
        Thing::Symlink(target) => Ok(is_new(FileType::Symlink) && at::target_of_held(held)? == *target),
        Thing::Special(wanted, device) => Ok(is_new(*wanted) && stat.st_rdev == *device),
        Thing::Name(file) => Ok(Inode::of_held(file)? == Inode::of(&stat)),
    }
}

/// Whether this process can have made what has this status in this directory: it is its user's, or the file
/// system gives what is made there to another one.
pub(crate) fn is_made_here(stat: &Stat, directory: &Arc<OwnedFd>) -> bool {
    let user = geteuid().as_raw();
    stat.st_uid == user || owner_of_made(directory).is_ok_and(|owner| owner != user && owner == stat.st_uid)
}

/// To whom the file system gives what is made in a directory: some give everything to one user.
fn owner_of_made(directory: &Arc<OwnedFd>) -> Result<u32, Errno> {
    let probe = Component::new(b"owner")?;
    let names = Names::alone(&**directory, b"owner");
    let file = TemporaryFile::create(&names, Arc::clone(directory), probe, 0)?;
    fs::fstat(file.file()).map(|stat| stat.st_uid)
}
