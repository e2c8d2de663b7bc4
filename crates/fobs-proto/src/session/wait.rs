//! What a sending thread waits for, and for how long: the raw material of a time budget.

use std::ops::{Index, IndexMut};
use std::time::Duration;

/// Why a sending thread is not sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// The pacer, at the rate that the user capped.
    Cap,
    /// The pacer, at the rate at which the receiver drains its socket.
    Drain,
    /// The pacer, at the rate that the deadline needs.
    Deadline,
    /// The pacer, at the rate that the controller chose.
    Pacer,
    /// The congestion window, or the answers that would open it.
    Window,
    /// The reader of the source.
    Source,
    /// The receiver's storage.
    Storage,
    /// The last answers of the transfer.
    Answers,
    /// Room in the local socket.
    Socket,
    /// The streams, where only they carry data: each has as much as TCP takes.
    Streams,
}

impl Wait {
    /// Every reason, in the order of [`WaitTimes`].
    pub const ALL: &[Wait] = &[
        Wait::Cap,
        Wait::Drain,
        Wait::Deadline,
        Wait::Pacer,
        Wait::Window,
        Wait::Source,
        Wait::Storage,
        Wait::Answers,
        Wait::Socket,
        Wait::Streams,
    ];

    /// Its name in samples and traces.
    pub fn name(self) -> &'static str {
        match self {
            Wait::Cap => "cap",
            Wait::Drain => "drain",
            Wait::Deadline => "deadline",
            Wait::Pacer => "pacer",
            Wait::Window => "window",
            Wait::Source => "source",
            Wait::Storage => "storage",
            Wait::Answers => "answers",
            Wait::Socket => "socket",
            Wait::Streams => "streams",
        }
    }
}

/// Time spent on each [`Wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitTimes([Duration; Wait::ALL.len()]);

impl WaitTimes {
    /// All waits together.
    pub fn total(&self) -> Duration {
        self.0.iter().sum()
    }
}

impl Index<Wait> for WaitTimes {
    type Output = Duration;

    fn index(&self, wait: Wait) -> &Duration {
        &self.0[wait as usize]
    }
}

impl IndexMut<Wait> for WaitTimes {
    fn index_mut(&mut self, wait: Wait) -> &mut Duration {
        &mut self.0[wait as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_has_a_place_and_a_name_of_its_own() {
        let mut times = WaitTimes::default();
        for (place, wait) in Wait::ALL.iter().copied().enumerate() {
            times[wait] += Duration::from_secs(1 << place);
        }
        assert_eq!(times.total(), Duration::from_secs((1 << Wait::ALL.len()) - 1));
        let names: std::collections::BTreeSet<_> = Wait::ALL.iter().map(|wait| wait.name()).collect();
        assert_eq!(names.len(), Wait::ALL.len());
    }
}
