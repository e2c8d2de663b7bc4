//! The list of controllers: the one place that has all of their names.

use super::{
    Auto, Bbr, Controller, Cubic, Fast, Fixed, Greedy, Hstfrc, HstfrcMode, Linear, Params, Priority, Rbudp,
    Sabul, Scalable, Tfrc, Tricolor, Udt,
};
use crate::Rate;
use crate::order::ScheduleKind;
use std::fmt;
use std::str::FromStr;

/// The congestion control algorithm: `--cc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CongestionControl {
    /// The default: models the path.
    Auto,
    /// The papers' greedy algorithm: no congestion control at all.
    Greedy,
    /// A constant rate.
    Fixed {
        /// Bits per second of UDP payload; 0 until it is given; no controller is made of that.
        bits_per_second: u64,
    },
    /// `seeds/004` section 2.2.1: small steps, decided rarely.
    Linear,
    /// `seeds/004` section 2.2.2: three states.
    Tricolor,
    /// `seeds/001` section 2.1 with a window.
    Hstfrc,
    /// `seeds/001` section 2.1 with a rate.
    HstfrcRate,
    /// RFC 5348.
    Tfrc,
    /// Scalable TCP (Kelly 2003).
    Scalable,
    /// FAST TCP (Jin, Wei, Low 2004).
    Fast,
    /// UDT's DAIMD (Gu, Grossman 2007).
    Udt,
    /// SABUL, UDT's predecessor (Gu, Grossman 2003).
    Sabul,
    /// Reliable Blast UDP (He, Leigh, Yu, DeFanti 2002).
    Rbudp,
    /// RFC 9438.
    Cubic,
    /// BBR version 3 (draft-ietf-ccwg-bbr).
    Bbr,
}

/// There is no controller of this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no such congestion controller")]
pub struct UnknownController;

impl CongestionControl {
    /// All of them, in the order in which help lists them.
    pub const ALL: [CongestionControl; 15] = [
        CongestionControl::Auto,
        CongestionControl::Greedy,
        CongestionControl::Fixed { bits_per_second: 0 },
        CongestionControl::Linear,
        CongestionControl::Tricolor,
        CongestionControl::Hstfrc,
        CongestionControl::HstfrcRate,
        CongestionControl::Tfrc,
        CongestionControl::Scalable,
        CongestionControl::Fast,
        CongestionControl::Udt,
        CongestionControl::Sabul,
        CongestionControl::Rbudp,
        CongestionControl::Cubic,
        CongestionControl::Bbr,
    ];

    /// Its name, as `--cc`, the control channel and [`Controller::name`] spell it.
    pub fn name(self) -> &'static str {
        match self {
            CongestionControl::Auto => "auto",
            CongestionControl::Greedy => "greedy",
            CongestionControl::Fixed { .. } => "fixed",
            CongestionControl::Linear => "linear",
            CongestionControl::Tricolor => "tricolor",
            CongestionControl::Hstfrc => "hstfrc",
            CongestionControl::HstfrcRate => "hstfrc-rate",
            CongestionControl::Tfrc => "tfrc",
            CongestionControl::Scalable => "scalable",
            CongestionControl::Fast => "fast",
            CongestionControl::Udt => "udt",
            CongestionControl::Sabul => "sabul",
            CongestionControl::Rbudp => "rbudp",
            CongestionControl::Cubic => "cubic",
            CongestionControl::Bbr => "bbr",
        }
    }

    /// One line for people.
    pub fn summary(self) -> &'static str {
        match self {
            CongestionControl::Auto => "Finds the path's rate and shares it fairly",
            CongestionControl::Greedy => {
                "As fast as this host can, whatever is lost: only for a path that is all yours"
            }
            CongestionControl::Fixed { .. } => {
                "Exactly --rate, whatever is lost: only for capacity that is reserved for you"
            }
            CongestionControl::Linear => "Small steps, rarely: keeps loss below 0.5% on a quiet, clean path",
            CongestionControl::Tricolor => {
                "Green, yellow and red by loss: takes what is free, tolerates 2% loss"
            }
            CongestionControl::Hstfrc => "HighSpeed response to the average loss, as a window",
            CongestionControl::HstfrcRate => "HighSpeed response to the average loss, as a rate",
            CongestionControl::Tfrc => "TCP-friendly rate control (RFC 5348): smooth, and as slow as TCP",
            CongestionControl::Scalable => "Scalable TCP: recovers from a loss in the same time at any rate",
            CongestionControl::Fast => "FAST TCP: keeps a fixed number of packets queued, by delay",
            CongestionControl::Udt => {
                "UDT: grows with the bandwidth that is left, falls by a ninth at a loss"
            }
            CongestionControl::Sabul => "SABUL: tunes the rate a hundred times a second, tolerates 0.1% loss",
            CongestionControl::Rbudp => "Reliable Blast UDP: measures the path once and keeps that rate",
            CongestionControl::Cubic => "CUBIC (RFC 9438), as most TCP flows",
            CongestionControl::Bbr => "BBR version 3: rate by bandwidth and round-trip time, loss as a bound",
        }
    }

    /// The same with `fixed`'s rate; the others have none.
    pub fn with_rate(self, rate: Rate) -> CongestionControl {
        match self {
            CongestionControl::Fixed { .. } => {
                CongestionControl::Fixed { bits_per_second: rate.as_bytes().saturating_mul(8) }
            }
            other => other,
        }
    }

    /// A controller that knows nothing of the path, with packets of `packet_len` datagram bytes at first;
    /// `None` for `fixed` without a rate.
    pub fn controller(self, packet_len: u16) -> Option<Box<dyn Controller>> {
        self.controller_with(packet_len, Priority::default())
    }

    /// The same with the claim of `auto`; the other controllers have none.
    pub fn controller_with(self, packet_len: u16, priority: Priority) -> Option<Box<dyn Controller>> {
        self.controller_tuned(packet_len, priority, &Params::default())
    }

    /// The same with the numbers of `auto`, for experiments.
    pub fn controller_tuned(
        self,
        packet_len: u16,
        priority: Priority,
        params: &Params,
    ) -> Option<Box<dyn Controller>> {
        Some(match self {
            CongestionControl::Auto => Box::new(Auto::with_params(packet_len, priority, *params)),
            CongestionControl::Greedy => Box::new(Greedy::new()),
            CongestionControl::Fixed { bits_per_second: 0 } => return None,
            CongestionControl::Fixed { bits_per_second } => {
                Box::new(Fixed::new(Rate::bits_per_second(bits_per_second)))
            }
            CongestionControl::Linear => Box::new(Linear::new(packet_len)),
            CongestionControl::Tricolor => Box::new(Tricolor::new(packet_len)),
            CongestionControl::Hstfrc => Box::new(Hstfrc::new(packet_len, HstfrcMode::Window)),
            CongestionControl::HstfrcRate => Box::new(Hstfrc::new(packet_len, HstfrcMode::Rate)),
            CongestionControl::Tfrc => Box::new(Tfrc::new(packet_len)),
            CongestionControl::Scalable => Box::new(Scalable::new(packet_len)),
            CongestionControl::Fast => Box::new(Fast::new(packet_len)),
            CongestionControl::Udt => Box::new(Udt::new(packet_len)),
            CongestionControl::Sabul => Box::new(Sabul::new(packet_len)),
            CongestionControl::Rbudp => Box::new(Rbudp::new(packet_len)),
            CongestionControl::Cubic => Box::new(Cubic::new(packet_len)),
            CongestionControl::Bbr => Box::new(Bbr::new(packet_len)),
        })
    }

    /// The schedule and the burst (packets; `None` for the best) that belong to it.
    pub fn schedule(self) -> (ScheduleKind, Option<u32>) {
        match self {
            CongestionControl::Greedy => (ScheduleKind::Circular, Some(Greedy::BURST)),
            _ => (ScheduleKind::LossDriven, None),
        }
    }
}

impl fmt::Display for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CongestionControl {
    type Err = UnknownController;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        CongestionControl::ALL.into_iter().find(|c| c.name() == name).ok_or(UnknownController)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_controller() {
        for listed in CongestionControl::ALL {
            let read: CongestionControl = listed.name().parse().expect("a listed name");
            assert_eq!(read, listed);
            let given = read.with_rate(Rate::bits_per_second(8_000_000));
            assert_eq!(given.controller(1472).expect("a rate is given").name(), listed.name());
        }
        assert_eq!("reno".parse::<CongestionControl>(), Err(UnknownController));
        assert!("fixed".parse::<CongestionControl>().expect("a name").controller(1472).is_none());
    }
}
