//! Congestion control: one object-safe trait, one file per controller.
//!
//! A controller gives a window and a pacing rate; which packet leaves is the schedule's business. It never
//! sees a bitmap, a chunk or a header.
//!
//! ```text
//!   family      what follows from the list of controllers below: names, help, construction
//!   auto/       the default; greedy, linear, tricolor, hstfrc: those of the FOBS papers
//!   tfrc scalable fast udt sabul rbudp cubic bbr/    those that the papers compare with, and common ones
//!   window slow_start                 shared by window-based controllers
//!   response loss_history equation    shared by equation-based controllers
//!   opening rate                      shared by rate-based controllers
//!   history     what a transfer leaves for later ones to the same peer
//!   priority    which traffic a transfer yields to
//!   mode        changes of mode, with their reasons
//!   shared      one controller for several lanes over one path
//! ```

mod equation;
#[macro_use]
mod family;
#[cfg(test)]
mod example;
mod history;
pub mod loss_history;
mod mode;
mod opening;
mod priority;
mod rate;
pub mod response;
mod shared;
mod slow_start;
#[cfg(test)]
mod testing;
mod window;

pub use auto::{Auto, ParamError, Params};
pub use bbr::Bbr;
pub use cubic::Cubic;
pub use family::UnknownController;
pub use fast::Fast;
pub use fixed::Fixed;
pub use greedy::Greedy;
pub use history::{CEILINGS_MAX, Ceiling, PathHistory};
pub use hstfrc::{Hstfrc, HstfrcMode};
pub use linear::Linear;
pub use mode::{ModeChange, ModeReason};
pub use priority::{Priority, UnknownPriority};
pub use rbudp::Rbudp;
pub use sabul::Sabul;
pub use scalable::Scalable;
pub use shared::PathShare;
pub use tfrc::Tfrc;
pub use tricolor::Tricolor;
pub use udt::Udt;

use crate::order::ScheduleKind;
use crate::recovery::RateSample;
use crate::{Rate, Timestamp};
use family::New;
use std::fmt;
use std::time::Duration;

// The registry: a new controller is one file and one line here (docs/new-controller.md). `cargo fmt` does not
// see files that a macro declares; `cargo xtask tidy` says so where one is to be formatted.
family! {
    mod auto {
        Auto "auto" "Finds the path's rate and shares it fairly"
            |new| auto::Auto::with_params(new.packet_len, new.priority, *new.params)
    }
    mod greedy {
        Greedy "greedy" "As fast as this host can, whatever is lost: only for a path that is all yours"
            |_| greedy::Greedy::new(), ScheduleKind::Circular, greedy::Greedy::BURST
    }
    mod fixed {
        Fixed { bits_per_second } "fixed" "Exactly --rate, whatever is lost: only for capacity that is reserved for you"
            |_| fixed::Fixed::new(Rate::bits_per_second(bits_per_second))
    }
    mod linear {
        Linear "linear" "Small steps, rarely: keeps loss below 0.5% on a quiet, clean path"
            |new| linear::Linear::new(new.packet_len)
    }
    mod tricolor {
        Tricolor "tricolor" "Green, yellow and red by loss: takes what is free, tolerates 2% loss"
            |new| tricolor::Tricolor::new(new.packet_len)
    }
    mod hstfrc {
        Hstfrc "hstfrc" "HighSpeed response to the average loss, as a window"
            |new| hstfrc::Hstfrc::new(new.packet_len, HstfrcMode::Window);
        HstfrcRate "hstfrc-rate" "HighSpeed response to the average loss, as a rate"
            |new| hstfrc::Hstfrc::new(new.packet_len, HstfrcMode::Rate)
    }
    mod tfrc {
        Tfrc "tfrc" "TCP-friendly rate control (RFC 5348): smooth, and as slow as TCP"
            |new| tfrc::Tfrc::new(new.packet_len)
    }
    mod scalable {
        Scalable "scalable" "Scalable TCP: recovers from a loss in the same time at any rate"
            |new| scalable::Scalable::new(new.packet_len)
    }
    mod fast {
        Fast "fast" "FAST TCP: keeps a fixed number of packets queued, by delay"
            |new| fast::Fast::new(new.packet_len)
    }
    mod udt {
        Udt "udt" "UDT: grows with the bandwidth that is left, falls by a ninth at a loss"
            |new| udt::Udt::new(new.packet_len)
    }
    mod sabul {
        Sabul "sabul" "SABUL: tunes the rate a hundred times a second, tolerates 0.1% loss"
            |new| sabul::Sabul::new(new.packet_len)
    }
    mod rbudp {
        Rbudp "rbudp" "Reliable Blast UDP: measures the path once and keeps that rate"
            |new| rbudp::Rbudp::new(new.packet_len)
    }
    mod cubic {
        Cubic "cubic" "CUBIC (RFC 9438), as most TCP flows" |new| cubic::Cubic::new(new.packet_len)
    }
    mod bbr {
        Bbr "bbr" "BBR version 3: rate by bandwidth and round-trip time, loss as a bound"
            |new| bbr::Bbr::new(new.packet_len)
    }
}

/// A congestion controller. Called once per ack, loss episode or burst, never per packet.
pub trait Controller: Send + fmt::Debug {
    /// Name, as `--cc` spells it.
    fn name(&self) -> &'static str;

    /// A burst was sent.
    fn on_sent(&mut self, _sent: &BurstSent) {}

    /// An ack acknowledged packets for the first time.
    fn on_ack(&mut self, _ack: &AckSample) {}

    /// Packets were declared lost.
    fn on_loss(&mut self, _loss: &LossEpisode) {}

    /// Packets that were declared lost have arrived: the path reordered them, or silence was taken for loss.
    fn on_found(&mut self, _found: &FoundLosses) {}

    /// The path marked packets instead of dropping them (RFC 3168).
    fn on_ecn(&mut self, _mark: &EcnMark) {}

    /// The receiver has every packet of a block.
    fn on_block(&mut self, _block: &Outcome) {}

    /// The receiver has every packet of a chunk.
    fn on_chunk(&mut self, _chunk: &Outcome) {}

    /// Nothing of the object has arrived, because its packets were too large for the path: what was sent and
    /// lost so far says nothing of its rate.
    fn begin_again(&mut self) {}

    /// Takes what earlier transfers to this peer learnt; called once, before anything is sent.
    fn recall(&mut self, _history: &PathHistory) {}

    /// Adds what a later transfer to this peer can use.
    fn remember(&self, _history: &mut PathHistory) {}

    /// The flow has this number of lanes, each with a thread of its own; called before anything is sent.
    fn carried_by(&mut self, _lanes: u32) {}

    /// Most datagram bytes in flight; `u64::MAX` for no limit.
    fn congestion_window(&self) -> u64;

    /// Pacing rate; `None` sends as fast as the host can (only the papers' greedy algorithm does).
    fn pacing_rate(&self) -> Option<Rate>;

    /// Least window of the delivery rate: what makes packets come late or together on this path is short
    /// beside it.
    fn rate_window(&self) -> Duration {
        Duration::ZERO
    }

    /// Where the rate comes from.
    fn rate_source(&self) -> RateSource {
        RateSource::Path
    }

    /// How losses affect the rate. Those at the receiver limit it separately only where they slow it
    /// ([`LossResponse::Slows`]).
    fn loss_response(&self) -> LossResponse {
        match self.rate_source() {
            RateSource::Path => LossResponse::Slows,
            RateSource::User | RateSource::Host => LossResponse::None,
        }
    }

    /// The controller as one whose claim can change and that reports changes of mode, if it is one.
    fn as_adaptive(&mut self) -> Option<&mut dyn Adaptive> {
        None
    }

    /// Its present state in one word, for traces and people.
    fn state(&self) -> &'static str;
}

/// What a controller with several modes and a variable claim offers beyond [`Controller`].
pub trait Adaptive {
    /// Sets how much of the path the transfer may claim from now on.
    fn claim(&mut self, now: Timestamp, claim: Claim);

    /// Which traffic the transfer yields to at present.
    fn priority(&self) -> Priority;

    /// The oldest change of mode that was not polled yet, with its reason.
    fn poll_mode_change(&mut self) -> Option<ModeChange>;
}

/// What a transfer may claim of its path at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Which traffic it yields to.
    pub priority: Priority,
    /// Pacing rate that it does not exceed once it knows the path; `None` for no such rate.
    pub ceiling: Option<Rate>,
}

/// Where a controller's rate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateSource {
    /// Feedback from the path.
    Path,
    /// The user: a constant rate.
    User,
    /// The sending host: as fast as it can.
    Host,
}

/// How losses affect a controller's rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossResponse {
    /// They may lower it.
    Slows,
    /// They may lower it, but the rate is that of a model of the path: a separate limit by the receiver's
    /// losses would be a second, slower control loop (docs/controllers.md, "Loss").
    Models,
    /// Not at all: the rate is the user's, or the host's.
    None,
}

/// A burst that was sent.
#[derive(Debug, Clone, Copy)]
pub struct BurstSent {
    /// When.
    pub now: Timestamp,
    /// Packets in it; controllers know the burst because trains change the pattern of losses.
    pub packets: u32,
    /// Datagram bytes in it.
    pub bytes: u64,
    /// Datagram bytes in flight, this burst included.
    pub bytes_in_flight: u64,
}

/// What an ack says.
#[derive(Debug, Clone, Copy)]
pub struct AckSample {
    /// When it arrived.
    pub now: Timestamp,
    /// Datagram bytes newly acknowledged.
    pub acked_bytes: u64,
    /// Packets newly acknowledged.
    pub acked_packets: u64,
    /// Datagram bytes of a full packet at present.
    pub packet_len: u16,
    /// Datagram bytes still in flight.
    pub bytes_in_flight: u64,
    /// Newest RTT.
    pub latest_rtt: Duration,
    /// The newest packet's time to the receiver, beyond a constant: clocks differ. Only differences count,
    /// and over minutes the clocks' drift.
    pub one_way: Duration,
    /// Smoothed RTT (RFC 9002 section 5.3).
    pub smoothed_rtt: Duration,
    /// Smallest RTT of the last 5 to 10 s ([`Rtt::min`](crate::recovery::Rtt::min)).
    pub min_rtt: Duration,
    /// Delivery rate by the receiver's clock.
    pub rate: Option<RateSample>,
    /// The flow was application-limited lately: a low delivery rate says nothing about the path.
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
    /// Datagram bytes still in flight.
    pub bytes_in_flight: u64,
    /// When the first and the last of them were sent: whether they belong to an episode that was answered
    /// already.
    pub sent: (Timestamp, Timestamp),
    /// How the loss was detected.
    pub evidence: LossEvidence,
    /// Why, as far as known.
    pub cause: LossCause,
}

/// Packets that arrived after they were declared lost.
#[derive(Debug, Clone, Copy)]
pub struct FoundLosses {
    /// When they were acknowledged.
    pub now: Timestamp,
    /// How many.
    pub packets: u64,
}

/// How a loss was detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossEvidence {
    /// Later packets were acknowledged, or the local host reported it.
    Acks,
    /// No ack for two probe timeouts: everything in flight is declared lost (RFC 9002 section 7.6 in spirit).
    Silence,
}

/// What a chunk or a block took, reported when the receiver has every packet of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// When this was learnt.
    pub now: Timestamp,
    /// When its first packet was sent: what was sent before a change of rate says nothing about the new rate.
    pub began: Timestamp,
    /// Transmissions that it took, retransmissions included.
    pub packets: u32,
    /// Those of them that were lost.
    pub lost: u32,
}

impl Outcome {
    /// Share of the transmissions that was lost, 0 to 1.
    pub fn loss(&self) -> f64 {
        f64::from(self.lost.min(self.packets)) / f64::from(self.packets.max(1))
    }
}

/// Why packets were lost. Only a certain cause spares the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossCause {
    /// The local host refused to send them: they never entered the path.
    LocalSend,
    /// The receiver's kernel dropped them because its thread did not read them: the path carried them.
    Receiver,
    /// Unknown: treated as the network's (`seeds/001` section 2.2).
    Inconclusive,
}

impl LossCause {
    /// Whether it is certain that the path is not the cause.
    pub fn spares_rate(self) -> bool {
        matches!(self, LossCause::LocalSend | LossCause::Receiver)
    }
}

/// Packets that arrived with a congestion mark.
#[derive(Debug, Clone, Copy)]
pub struct EcnMark {
    /// When this was learnt.
    pub now: Timestamp,
    /// Packets newly reported as marked.
    pub packets: u32,
}

impl EcnMark {
    /// The mark as the loss of a packet sent just now, for controllers that treat both alike.
    pub(crate) fn as_loss(&self) -> LossEpisode {
        LossEpisode {
            now: self.now,
            packets: 0,
            bytes: 0,
            bytes_in_flight: 0,
            sent: (self.now, self.now),
            evidence: LossEvidence::Acks,
            cause: LossCause::Inconclusive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn family() -> Vec<Box<dyn Controller>> {
        let rate = Rate::bits_per_second(50_000_000);
        let example: Box<dyn Controller> = example::aimd(1200);
        CongestionControl::ALL
            .iter()
            .map(|c| c.with_rate(rate).controller(1200).expect("a rate is given"))
            .chain([example])
            .collect()
    }

    proptest! {
        /// Whatever the path and the peer do, a controller neither panics nor stops the transfer for good.
        #[test]
        fn every_controller_survives_any_history(ops in prop::collection::vec((0u8..7, any::<u32>(), any::<u32>(), any::<bool>()), 0..300)) {
            for mut c in family() {
                let mut now = Timestamp::ZERO;
                for &(op, a, b, flag) in &ops {
                    now = now + Duration::from_micros(u64::from(b % 50_000));
                    let (a64, b64) = (u64::from(a), u64::from(b));
                    match op {
                        0 => c.on_sent(&BurstSent { now, packets: a % 65, bytes: a64, bytes_in_flight: b64 }),
                        1 => c.on_ack(&AckSample {
                            now,
                            acked_bytes: a64,
                            acked_packets: a64 / 1200,
                            packet_len: if flag { 1200 } else { 8972 },
                            bytes_in_flight: b64,
                            latest_rtt: Duration::from_nanos(a64),
                            one_way: Duration::from_nanos(b64),
                            smoothed_rtt: Duration::from_nanos(a64 / 4 * 3),
                            min_rtt: Duration::from_nanos(a64 / 2),
                            rate: flag.then_some(RateSample { rate: Rate::bytes_per_second(b64 << (a % 30)), span: Duration::from_micros(a64 % 100_000), packets: b64 % 1000 }),
                            app_limited: a & 1 == 1,
                            round_start: b & 1 == 1,
                        }),
                        2 => c.on_loss(&LossEpisode {
                            now,
                            packets: a64,
                            bytes: b64,
                            bytes_in_flight: a64,
                            sent: (now.saturating_sub(Duration::from_nanos(a64)), now.saturating_sub(Duration::from_nanos(a64 / 2))),
                            evidence: if flag { LossEvidence::Acks } else { LossEvidence::Silence },
                            cause: LossCause::Inconclusive,
                        }),
                        3 => c.on_ecn(&EcnMark { now, packets: a }),
                        6 => {
                            let ceiling = flag.then_some(Rate::bytes_per_second(b64));
                            if let Some(adaptive) = c.as_adaptive() {
                                adaptive.claim(now, Claim { priority: Priority::ALL[a as usize % 3], ceiling });
                            }
                        }
                        op => {
                            let began = now.saturating_sub(Duration::from_nanos(a64));
                            let outcome = Outcome { now, began, packets: a, lost: b };
                            if op == 4 { c.on_block(&outcome) } else { c.on_chunk(&outcome) }
                        }
                    }
                    prop_assert!(c.congestion_window() >= 2 * 1200, "{} window {}", c.name(), c.congestion_window());
                    prop_assert!(c.pacing_rate().is_none_or(|r| r.as_bytes() >= 1200), "{} rate", c.name());
                    prop_assert!(!c.state().is_empty());
                }
            }
        }
    }
}
