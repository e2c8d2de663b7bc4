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
}

thread_local! {
    static PLANNED: Cell<Option<(Call, u32, Errno)>> = const { Cell::new(None) };
}

/// The call after the next `spared` ones of its kind fails.
pub fn plan(call: Call, spared: u32, errno: Errno) {
    PLANNED.set(Some((call, spared, errno)));
}

/// Fails if that was planned.
pub fn strike(call: Call) -> Result<(), Errno> {
    match PLANNED.get() {
        Some((planned, 0, errno)) if planned == call => {
            PLANNED.set(None);
            Err(errno)
        }
        Some((planned, spared, errno)) if planned == call => {
            PLANNED.set(Some((planned, spared - 1, errno)));
            Ok(())
        }
        _ => Ok(()),
    }
}
