//! What the path does: round-trip time, losses, delivery rate and the size of packets that pass.

mod delivery_rate;
mod in_flight;
mod plpmtu;
mod rtt;

pub use delivery_rate::{DeliveryRate, RateSample, Slopes};
pub use in_flight::{Acked, InFlight, Lost, Sent, SentKind};
pub use plpmtu::{BASE_DATAGRAM, Plpmtu};
pub use rtt::Rtt;
