//! The walls that the kernel of a host puts up around a session (docs/security.md, "Walls").

use std::fmt;

use serde::{Deserialize, Serialize};

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
    pub const CALLS: &str = "system calls";

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
