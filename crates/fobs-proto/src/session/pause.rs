//! Why a sending thread waits: the machine's limit, seen together with what the session knows of reader and
//! receiver.

use super::Wait;
use crate::congestion::RateSource;
use crate::sender::SendLimit;

/// State of the sending side when its machine gives no burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// What the machine is limited by.
    pub limit: SendLimit,
    /// Where the controller's rate comes from.
    pub rate: RateSource,
    /// Bytes outstanding, in datagrams and in frames.
    pub bytes_in_flight: u64,
    /// Chunks that the receiver has in full and has not stored, as last reported.
    pub backlog: u16,
    /// Buffers at the reader.
    pub granted: u32,
    /// Chunks read and not yet verified by the receiver.
    pub held: u32,
}

impl Pause {
    /// What the time of this pause is attributed to, as far as the sending side can tell.
    pub fn reason(&self) -> Wait {
        // Held chunks without a packet in flight wait at the receiver.
        let all_arrived = self.bytes_in_flight == 0;
        match self.limit {
            SendLimit::Cap => Wait::Cap,
            SendLimit::Drain => Wait::Drain,
            SendLimit::Deadline => Wait::Deadline,
            SendLimit::Pacer if self.rate == RateSource::User => Wait::Cap,
            SendLimit::Pacer => Wait::Pacer,
            SendLimit::Window | SendLimit::Silence => Wait::Window,
            SendLimit::Credit => Wait::Storage,
            SendLimit::Data if self.granted > 0 => Wait::Source,
            SendLimit::Data if all_arrived || self.backlog > 0 => Wait::Storage,
            SendLimit::Data => Wait::Window,
            SendLimit::Answers if self.held == 0 => Wait::Answers,
            SendLimit::Answers if all_arrived || self.backlog > 1 => Wait::Storage,
            SendLimit::Answers => Wait::Answers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_attributed_by_limit_and_surroundings() {
        let pause = |limit| Pause {
            limit,
            rate: RateSource::Path,
            bytes_in_flight: 1,
            backlog: 0,
            granted: 0,
            held: 1,
        };
        let table = [
            (pause(SendLimit::Pacer), Wait::Pacer),
            (Pause { rate: RateSource::User, ..pause(SendLimit::Pacer) }, Wait::Cap),
            (pause(SendLimit::Silence), Wait::Window),
            (Pause { granted: 1, ..pause(SendLimit::Data) }, Wait::Source),
            (Pause { bytes_in_flight: 0, ..pause(SendLimit::Data) }, Wait::Storage),
            (Pause { backlog: 1, ..pause(SendLimit::Data) }, Wait::Storage),
            (pause(SendLimit::Data), Wait::Window),
            (Pause { held: 0, bytes_in_flight: 0, ..pause(SendLimit::Answers) }, Wait::Answers),
            (Pause { backlog: 1, ..pause(SendLimit::Answers) }, Wait::Answers),
            (Pause { backlog: 2, ..pause(SendLimit::Answers) }, Wait::Storage),
        ];
        for (pause, expected) in table {
            assert_eq!(pause.reason(), expected, "{pause:?}");
        }
    }
}
