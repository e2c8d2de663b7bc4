//! Measurements of the path: round-trip time, losses, delivery rate and the size of packets that pass.

mod delays;
mod delivery_rate;
mod in_flight;
mod plpmtu;
mod reordering;
mod rtt;

/// Packets of a flow's first train: at 1 Gbit/s 64 packets of 1200 bytes last 0.6 ms, long against the jitter
/// of arrival stamps (about 0.1 ms). The first acks are dense over as many ([`crate::receiver`]), and probes
/// of the path MTU wait until they have left.
pub const FIRST_TRAIN_PACKETS: u64 = 64;

pub use delays::{Delays, Spread};
pub use delivery_rate::{DeliveryRate, RateSample};
pub use in_flight::{Acked, InFlight, Lost, Sent, SentKind};
pub use plpmtu::{BASE_DATAGRAM, LEAST_DATAGRAM, Plpmtu};
pub use rtt::Rtt;
