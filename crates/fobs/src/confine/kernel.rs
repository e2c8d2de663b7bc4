//! What of the walls this kernel puts up: found out by trying it.

use std::fmt;
use std::fs::File;
use std::sync::OnceLock;
use std::thread::{Builder, JoinHandle};

use landlock::{ABI, AccessFs, CompatLevel, Compatible, LandlockStatus, Ruleset, RulesetAttr};
use serde::{Deserialize, Serialize};

use super::calls;

/// The newest version of Landlock's interface whose rights are asked for: those that were tried.
pub(super) const NEWEST: ABI = ABI::V7;
/// The oldest one under which a session may write: before, no file moves between two directories.
pub(super) const WRITES_FROM: ABI = ABI::V2;
/// For tests of a debug build: play a kernel with an older interface, or with none.
#[cfg(debug_assertions)]
const PLAYED: &str = "FOBS_TEST_LANDLOCK";

/// The walls around a session that the kernel of a host puts up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Walls {
    /// The version of Landlock's interface; 0 without.
    pub landlock: u32,
    /// Whether system calls that no session needs are refused (seccomp).
    pub calls: bool,
}

impl Walls {
    /// What seccomp refuses.
    pub(crate) const CALLS: &str = "system calls";

    /// Those around a session of this process. The first call tries them, in threads that end.
    pub fn here() -> Walls {
        static CALLS: OnceLock<bool> = OnceLock::new();
        Walls { landlock: landlock_here(), calls: tried(&CALLS, calls::refuse) }
    }

    /// What the kernel does not hold a session to.
    pub fn missing(&self) -> Vec<&'static str> {
        let steps = [
            (1, "files that are read"),
            (2, "files that are written"),
            (3, "files that are cut short"),
            (4, "TCP connections"),
            (5, "devices"),
            (6, "signals"),
        ];
        let kept = steps.into_iter().filter(|(from, _)| self.landlock < *from).map(|(_, what)| what);
        kept.chain((!self.calls).then_some(Walls::CALLS)).collect()
    }
}

impl fmt::Display for Walls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.landlock, self.calls) {
            (0, false) => f.write_str("none: the kernel has neither Landlock nor seccomp"),
            (0, true) => f.write_str("seccomp, without Landlock"),
            (version, true) => write!(f, "Landlock {version} and seccomp"),
            (version, false) => write!(f, "Landlock {version}, without seccomp"),
        }?;
        match (self.landlock, &self.missing()[..]) {
            (0, _) | (_, []) => Ok(()),
            (_, missing) => write!(f, " (not held: {})", missing.join(", ")),
        }
    }
}

/// Its rights, for a version that was tried.
pub(super) fn abi(landlock: u32) -> ABI {
    ABI::from(i32::try_from(landlock).unwrap_or(0)).min(NEWEST)
}

/// The version of Landlock that sessions of this process use; 0 for none. The first call tries it.
pub(super) fn landlock_here() -> u32 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said() {
        let text = |landlock, calls| Walls { landlock, calls }.to_string();
        assert_eq!(text(7, true), "Landlock 7 and seccomp");
        assert_eq!(text(3, true), "Landlock 3 and seccomp (not held: TCP connections, devices, signals)");
        assert_eq!(text(6, false), "Landlock 6, without seccomp (not held: system calls)");
        assert_eq!(text(0, true), "seccomp, without Landlock");
        assert!(text(0, false).starts_with("none"));
    }
}
