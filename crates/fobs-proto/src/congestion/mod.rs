//! How fast to send: one object-safe trait, one file per controller.
//!
//! A controller gives a window, a pacing rate and nothing else; which packet leaves is the schedule's business. It never
//! sees a bitmap, a chunk or a header.

mod auto;
mod fixed;
mod greedy;
mod witness;

pub use auto::Auto;
pub use fixed::Fixed;
pub use greedy::Greedy;

use crate::recovery::RateSample;
use crate::{Rate, Timestamp};
use std::fmt;
use std::time::Duration;

/// A congestion controller. Called once per ack, loss episode or burst, never per packet.
pub trait Controller: Send + fmt::Debug {
    /// Name, as `--cc` spells it.
    fn name(&self) -> &'static str;

    /// A burst left.
    fn on_sent(&mut self, _sent: &BurstSent) {}

    /// An ack brought news.
    fn on_ack(&mut self, _ack: &AckSample) {}

    /// Packets were declared lost.
    fn on_loss(&mut self, _loss: &LossEpisode) {}

    /// The path marked packets instead of dropping them (RFC 3168).
    fn on_ecn(&mut self, _mark: &EcnMark) {}

    /// Most datagram bytes on their way; `u64::MAX` for no limit.
    fn congestion_window(&self) -> u64;

    /// Rate of departures; `None` sends as fast as the host can (only the papers' greedy algorithm does).
    fn pacing_rate(&self) -> Option<Rate>;

    /// What it is doing, in a word, for traces and people.
    fn state(&self) -> &'static str;
}

/// A burst that left.
#[derive(Debug, Clone, Copy)]
pub struct BurstSent {
    /// When.
    pub now: Timestamp,
    /// Packets in it; controllers know the burst because trains change the pattern of losses.
    pub packets: u32,
    /// Datagram bytes in it.
    pub bytes: u64,
}

/// What an ack brought.
#[derive(Debug, Clone, Copy)]
pub struct AckSample {
    /// When it came.
    pub now: Timestamp,
    /// Datagram bytes newly acknowledged.
    pub acked_bytes: u64,
    /// Datagram bytes still on their way.
    pub bytes_in_flight: u64,
    /// Newest RTT.
    pub latest_rtt: Duration,
    /// Smallest RTT of the last 10 s.
    pub min_rtt: Duration,
    /// Delivery rate by the receiver's clock.
    pub rate: Option<RateSample>,
    /// The sender lacked data or credit lately: a low rate says nothing about the path.
    pub app_limited: bool,
    /// A packet sent after the last such ack was acknowledged: a round trip has passed.
    pub round_start: bool,
}

/// Packets declared lost together.
#[derive(Debug, Clone, Copy)]
pub struct LossEpisode {
    /// When they were declared lost.
    pub now: Timestamp,
    /// How many.
    pub packets: u64,
    /// Their datagram bytes.
    pub bytes: u64,
    /// Datagram bytes still on their way.
    pub bytes_in_flight: u64,
    /// Why, as far as anyone knows.
    pub cause: LossCause,
}

/// Why packets were lost. Only what is certain spares the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossCause {
    /// The local host refused to send them: the path never saw them.
    LocalSend,
    /// Not known: treated as the network's doing (`seeds/001` section 2.2).
    Inconclusive,
}

/// Packets that came with a congestion mark.
#[derive(Debug, Clone, Copy)]
pub struct EcnMark {
    /// When we learnt of it.
    pub now: Timestamp,
    /// Packets newly reported as marked.
    pub packets: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn family() -> Vec<Box<dyn Controller>> {
        vec![
            Box::new(Auto::new(1200)),
            Box::new(Greedy::new()),
            Box::new(Fixed::new(Rate::bits_per_second(50_000_000))),
        ]
    }

    proptest! {
        /// Whatever the path and the peer do, a controller neither panics nor stops the transfer for good.
        #[test]
        fn every_controller_survives_any_history(ops in prop::collection::vec((0u8..4, any::<u32>(), any::<u32>(), any::<bool>()), 0..300)) {
            for mut c in family() {
                let mut now = Timestamp::ZERO;
                for &(op, a, b, flag) in &ops {
                    now = now + Duration::from_micros(u64::from(b % 50_000));
                    let (a64, b64) = (u64::from(a), u64::from(b));
                    match op {
                        0 => c.on_sent(&BurstSent { now, packets: a % 65, bytes: a64 }),
                        1 => c.on_ack(&AckSample {
                            now,
                            acked_bytes: a64,
                            bytes_in_flight: b64,
                            latest_rtt: Duration::from_nanos(a64),
                            min_rtt: Duration::from_nanos(a64 / 2),
                            rate: flag.then_some(RateSample { rate: Rate::bytes_per_second(b64 << (a % 30)), span: Duration::from_micros(a64 % 100_000), packets: b64 % 1000 }),
                            app_limited: a & 1 == 1,
                            round_start: b & 1 == 1,
                        }),
                        2 => c.on_loss(&LossEpisode { now, packets: a64, bytes: b64, bytes_in_flight: a64, cause: LossCause::Inconclusive }),
                        _ => c.on_ecn(&EcnMark { now, packets: a }),
                    }
                    prop_assert!(c.congestion_window() >= 2 * 1200, "{} window {}", c.name(), c.congestion_window());
                    prop_assert!(c.pacing_rate().is_none_or(|r| r.as_bytes() >= 1200), "{} rate", c.name());
                    prop_assert!(!c.state().is_empty());
                }
            }
        }
    }
}
