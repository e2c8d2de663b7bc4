//! What is found out of the path between two ends.

use fobs_explain::Explanation;
use fobs_model::error::ErrorKind;
pub use fobs_model::host_facts::{
    CipherSpeed, DiskFacts, DiskSpeed, HostFacts, InterfaceFacts, KeyFacts, MemoryFacts, PacketSpeed,
    SocketFacts, ThreadLimit,
};
use serde::Serialize;

/// Everything that was found out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Examination {
    /// This end.
    pub here: HostFacts,
    /// The other end and the way to it; `None` if only this end was examined.
    pub there: Option<PeerFacts>,
}

impl Examination {
    /// What the path carried to the other end and back, bits per second; 0 where it was not tried.
    pub(super) fn carried_bps(&self) -> (f64, f64) {
        let bps = |path: Option<&PathFacts>| path.and_then(PathFacts::carried).map_or(0.0, |it| it.bps);
        let peer = self.there.as_ref();
        (bps(peer.map(|peer| &peer.there)), bps(peer.and_then(|peer| peer.back.as_ref())))
    }

    /// The most that was carried, bits per second: over the path, or by a session of each end with itself. No
    /// prediction goes beyond it. `None` where that is not known of an end: an older version.
    pub(super) fn proven_bps(&self) -> Option<f64> {
        let own = |host: &HostFacts| host.packets.as_ref().map(|own| own.send_bps.min(own.receive_bps));
        let here = own(&self.here);
        let Some(peer) = &self.there else { return here };
        let both = here.zip(own(&peer.host)).map(|(here, there)| here.min(there));
        let (forth, back) = self.carried_bps();
        [forth, back].into_iter().filter(|&bps| bps > 0.0).chain(both).reduce(f64::max)
    }
}

/// The other end and the way to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PeerFacts {
    /// Its name, as the user gave it.
    pub name: String,
    /// What it says of itself.
    pub host: HostFacts,
    /// How far its clock is ahead of ours, seconds; below 0 if behind.
    pub clock_ahead_s: f64,
    /// How far that may be wrong, seconds: half a round trip.
    pub clock_error_s: f64,
    /// The path there.
    pub there: PathFacts,
    /// The path back; `None` if it was not tried, because no datagram passed before.
    pub back: Option<PathFacts>,
}

/// One direction of the path, as a session without files found it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathFacts {
    /// The UDP port of the other end.
    pub port: Option<u16>,
    /// What came of it.
    pub outcome: PathOutcome,
}

/// What a session without files showed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathOutcome {
    /// Data arrived.
    Carried(Box<Carried>),
    /// No datagram came back.
    Blocked {
        /// Whether datagrams arrived at the other end; `None` if it did not say.
        arrived: Option<bool>,
        /// The error.
        message: String,
    },
    /// It failed for another reason.
    Failed {
        /// The code of the error.
        #[serde(serialize_with = "code")]
        kind: ErrorKind,
        /// The error.
        message: String,
    },
}

fn code<S: serde::Serializer>(kind: &ErrorKind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(kind.code())
}

/// How a path carried data from memory to memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Carried {
    /// Bits per second.
    pub bps: f64,
    /// Seconds.
    pub seconds: f64,
    /// Smallest round trip, ms.
    pub rtt_ms: Option<f64>,
    /// Packets declared lost / packets sent.
    pub loss_rate: f64,
    /// Packets that the receiving kernel dropped at the socket.
    pub socket_drops: u64,
    /// Largest IP packet that passed, bytes; `None` if the session was ended before that was known.
    pub mtu: Option<u32>,
    /// Whether the session was ended before all that was sent had arrived.
    pub cut_short: bool,
    /// What limited it.
    pub why: Explanation,
}

impl PathFacts {
    /// What it carried.
    pub fn carried(&self) -> Option<&Carried> {
        match &self.outcome {
            PathOutcome::Carried(carried) => Some(carried),
            PathOutcome::Blocked { .. } | PathOutcome::Failed { .. } => None,
        }
    }
}
