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
    /// Lanes from now on, where their number changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<u8>,
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
        match (self.way, self.streams, self.lanes) {
            (Way::Udp, _, Some(lanes)) => write!(f, ", {lanes} lanes")?,
            (Way::Udp, _, None) => {}
            (_, count, _) => write!(f, " ({count} wanted)")?,
        }
        write!(f, ": {}", self.reason)
    }
}

impl WayChange {
    /// A session that began at zero has this number of lanes from `at` on.
    pub fn of_lanes(at: Timestamp, lanes: u8, reason: String) -> WayChange {
        let seconds = (at - Timestamp::ZERO).as_secs_f64();
        WayChange { seconds, way: Way::Udp, streams: 0, lanes: Some(lanes), reason }
    }

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
            lanes: None,
            reason: change.reason.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_sentence() {
        let change = |way, streams| WayChange {
            seconds: 1.04,
            way,
            streams,
            lanes: None,
            reason: "no answer".to_owned(),
        };
        let more = WayChange { lanes: Some(2), ..change(Way::Udp, 0) };
        assert_eq!(more.to_string(), "at 1.0 s: data over UDP, 2 lanes: no answer");
        assert_eq!(
            change(Way::Both, 1).to_string(),
            "at 1.0 s: data over UDP and streams (1 wanted): no answer"
        );
        assert_eq!(change(Way::Streams, 4).to_string(), "at 1.0 s: data over streams (4 wanted): no answer");
        assert_eq!(change(Way::Udp, 4).to_string(), "at 1.0 s: data over UDP: no answer");
    }
}
