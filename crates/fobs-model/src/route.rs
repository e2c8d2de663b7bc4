//! Changes of the way that data takes. The sender reports them to both ends (protocol 2.4).

use fobs_proto::Timestamp;
use fobs_proto::sender::Route;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A change of the way that data takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WayChange {
    /// Seconds since the sender's session began.
    pub seconds: f64,
    /// The way from now on.
    pub way: Way,
    /// Streams that are wanted at once.
    pub streams: u32,
    /// The reason, a phrase.
    pub reason: String,
}

/// What carries the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Way {
    /// Datagrams.
    Udp,
    /// Datagrams and streams.
    Both,
    /// Streams.
    Streams,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Udp => "UDP",
            Way::Both => "UDP and streams",
            Way::Streams => "streams",
        })
    }
}

impl fmt::Display for WayChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:.1} s: data over {}", self.seconds, self.way)?;
        match (self.way, self.streams) {
            (Way::Udp, _) => {}
            (_, count) => write!(f, " ({count} wanted)")?,
        }
        write!(f, ": {}", self.reason)
    }
}

impl WayChange {
    /// The policy's change, in a session that began at `began`.
    pub fn of(change: &fobs_proto::session::RouteChange, streams: u32, began: Timestamp) -> WayChange {
        WayChange {
            seconds: (change.at - began).as_secs_f64(),
            way: match change.route {
                Route::Datagrams => Way::Udp,
                Route::Both => Way::Both,
                Route::Frames => Way::Streams,
            },
            streams,
            reason: change.reason.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_sentence() {
        let change = |way, streams| WayChange { seconds: 1.04, way, streams, reason: "no answer".to_owned() };
        assert_eq!(
            change(Way::Both, 1).to_string(),
            "at 1.0 s: data over UDP and streams (1 wanted): no answer"
        );
        assert_eq!(change(Way::Streams, 4).to_string(), "at 1.0 s: data over streams (4 wanted): no answer");
        assert_eq!(change(Way::Udp, 4).to_string(), "at 1.0 s: data over UDP: no answer");
    }
}
