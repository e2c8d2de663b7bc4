//! Devices that fail, for tests: a call of the test's own thread fails as if the kernel had refused it.

use std::cell::Cell;

use rustix::io::Errno;

/// A call that can fail, or several of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// Opening a journal that is there.
    Open,
    MakeFile,
    MakeDirectory,
    MakeLink,
    MakeNode,
    /// One more name of a file.
    Link,
    Rename,
    /// The rename that replaces nothing, which some file systems lack.
    RenameToNew,
    Unlink,
    RemoveDirectory,
    /// Room for a file.
    Reserve,
    Write,
    /// Whatever changes the length of a file.
    Truncate,
    Sync,
    /// What a file system tells when a file is closed.
    Close,
    Mode,
    Times,
    Owner,
    /// An extended attribute, or an ACL.
    Xattr,
    /// A write to a journal.
    Record,
    /// The lock of a journal, or of a file without one.
    Lock,
    /// Whatever makes, moves or removes a name.
    Name,
    /// Whatever changes permissions, owners, times and the like.
    Attributes,
    /// Any of them.
    Any,
}

impl Call {
    fn includes(self, call: Call) -> bool {
        use Call::*;
        match self {
            Any => true,
            Name => matches!(
                call,
                MakeFile | MakeDirectory | MakeLink | MakeNode | Link | Rename | Unlink | RemoveDirectory
            ),
            Attributes => matches!(call, Mode | Times | Owner | Xattr),
            one => one == call,
        }
    }
}

/// How long a device fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasts {
    Once,
    /// Until [`forget`].
    On,
}

#[derive(Clone, Copy)]
struct Planned {
    call: Call,
    spared: u32,
    errno: Errno,
    lasts: Lasts,
}

thread_local! {
    static PLANNED: Cell<Option<Planned>> = const { Cell::new(None) };
    static STRUCK: Cell<Option<Call>> = const { Cell::new(None) };
}

/// The call after the next `spared` ones of its kind fails.
pub fn plan(call: Call, spared: u32, errno: Errno) {
    plan_for(call, spared, errno, Lasts::Once);
}

/// Likewise, and perhaps all that follow.
pub fn plan_for(call: Call, spared: u32, errno: Errno, lasts: Lasts) {
    PLANNED.set(Some(Planned { call, spared, errno, lasts }));
    STRUCK.set(None);
}

/// The first call that failed since something was planned.
pub fn struck() -> Option<Call> {
    STRUCK.get()
}

/// Nothing fails any more; whether something that was planned did not come to it.
pub fn forget() -> bool {
    PLANNED.take().is_some_and(|planned| planned.spared > 0 || planned.lasts == Lasts::Once)
}

/// Fails if that was planned.
pub fn strike(call: Call) -> Result<(), Errno> {
    let Some(planned) = PLANNED.get().filter(|it| it.call.includes(call)) else {
        return Ok(());
    };
    let Planned { spared, errno, lasts, .. } = planned;
    if spared > 0 {
        PLANNED.set(Some(Planned { spared: spared - 1, ..planned }));
        return Ok(());
    }
    if lasts == Lasts::Once {
        PLANNED.set(None);
    }
    STRUCK.set(STRUCK.get().or(Some(call)));
    Err(errno)
}
