//! Devices that fail, for tests: a call of the test's own thread fails as if the kernel had refused it.

use std::cell::Cell;

use rustix::io::Errno;

/// A call that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Write,
    Sync,
    /// The rename that replaces nothing, which some file systems lack.
    RenameToNew,
    /// Whatever makes, moves or removes a name.
    Name,
    /// Whatever changes the length of a file.
    Truncate,
    /// Whatever changes permissions or times.
    Attributes,
    /// A write to a journal.
    Record,
    /// Any of them.
    Any,
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
}

/// The call after the next `spared` ones of its kind fails.
pub fn plan(call: Call, spared: u32, errno: Errno) {
    plan_for(call, spared, errno, Lasts::Once);
}

/// Likewise, and perhaps all that follow.
pub fn plan_for(call: Call, spared: u32, errno: Errno, lasts: Lasts) {
    PLANNED.set(Some(Planned { call, spared, errno, lasts }));
}

/// Nothing fails any more; whether something that was planned did not come to it.
pub fn forget() -> bool {
    PLANNED.take().is_some_and(|planned| planned.spared > 0 || planned.lasts == Lasts::Once)
}

/// Fails if that was planned.
pub fn strike(call: Call) -> Result<(), Errno> {
    let Some(planned) = PLANNED.get().filter(|it| it.call == call || it.call == Call::Any) else {
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
    Err(errno)
}
