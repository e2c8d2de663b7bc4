//! What of the walls this kernel puts up: found out by trying it.

use std::fs::File;
use std::sync::OnceLock;
use std::thread::{Builder, JoinHandle};

use landlock::{ABI, AccessFs, CompatLevel, Compatible, LandlockStatus, Ruleset, RulesetAttr};

use super::calls;

/// The newest version of Landlock's interface whose rights are asked for: those that were tried.
pub(super) const NEWEST: ABI = ABI::V7;
/// The oldest one under which a session may write: before, no file moves between two directories.
pub(super) const WRITES_FROM: ABI = ABI::V2;
/// For tests of a debug build: play a kernel with an older interface, or with none.
#[cfg(debug_assertions)]
const PLAYED: &str = "FOBS_TEST_LANDLOCK";

/// Whether system calls that no session needs are refused around sessions of this process (seccomp). The
/// first call tries it, in a thread that ends.
pub fn calls_here() -> bool {
    static CALLS: OnceLock<bool> = OnceLock::new();
    tried(&CALLS, calls::refuse)
}

/// Its rights, for a version that was tried.
pub(super) fn abi(landlock: u32) -> ABI {
    ABI::from(i32::try_from(landlock).unwrap_or(0)).min(NEWEST)
}

/// The version of Landlock that sessions of this process use; 0 for none. The first call tries it.
pub fn landlock_here() -> u32 {
    static LANDLOCK: OnceLock<u32> = OnceLock::new();
    tried(&LANDLOCK, || highest().min(try_landlock().unwrap_or(0)))
}

/// What came of a trial in a thread that ends afterwards. Where none can be started, the next call tries it.
fn tried<T: Copy + Default + Send + 'static>(known: &OnceLock<T>, trial: fn() -> T) -> T {
    if let Some(known) = known.get() {
        return *known;
    }
    let found = Builder::new().name("fobs-walls".to_owned()).spawn(trial).map(JoinHandle::join);
    match found {
        Ok(Ok(found)) => *known.get_or_init(|| found),
        _ => T::default(),
    }
}

/// The version, once it was seen to hold.
fn try_landlock() -> Option<u32> {
    let reading = AccessFs::from_read(ABI::V1);
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    let tried = ruleset.handle_access(reading).ok()?.create().ok()?.restrict_self().ok()?;
    let LandlockStatus::Available { effective_abi, .. } = tried.landlock else { return None };
    File::open("/").is_err().then_some(effective_abi.min(NEWEST) as u32)
}

/// The highest version that is used.
fn highest() -> u32 {
    #[cfg(debug_assertions)]
    if let Some(played) = std::env::var(PLAYED).ok().and_then(|text| text.parse().ok()) {
        return played;
    }
    NEWEST as u32
}
