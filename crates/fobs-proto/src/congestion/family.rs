//! The registry of controllers: a row each, from which names, help, construction and schedule follow.
//! docs/controllers.md adds one as an example ("Another controller").

use super::*;
use crate::order::ScheduleKind;
use std::str::FromStr;

/// What a controller is made with.
struct New<'a> {
    /// Datagram bytes of its packets at first.
    packet_len: u16,
    /// The claim of `auto`; the other controllers have none.
    priority: Priority,
    /// The numbers of `auto`, for experiments.
    params: &'a Params,
}

/// The enumeration of the rows: `VARIANT "NAME" "HELP" |new| CONTROLLER;`, before the semicolon
/// `, SCHEDULE, BURST` where they are not the usual ones.
macro_rules! family {
    ($($name:ident $({ $field:ident })? $text:literal $help:literal |$new:pat_param| $make:expr
        $(, $schedule:expr, $burst:expr)?;)+) => {
        /// The congestion control algorithm: `--cc`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum CongestionControl {
            $(#[doc = concat!($help, ".")]
            $name $({
                /// Bits per second of UDP payload; 0 until it is given; no controller is made of that.
                $field: u64,
            })?,)+
        }

        impl CongestionControl {
            /// All of them, in the order in which help lists them.
            pub const ALL: [CongestionControl; [$($text),+].len()] =
                [$(CongestionControl::$name $({ $field: 0 })?),+];

            /// Its name, as `--cc`, the control channel and [`Controller::name`] spell it.
            pub fn name(self) -> &'static str {
                match self {
                    $(CongestionControl::$name { .. } => $text,)+
                }
            }

            /// One line for people.
            pub fn summary(self) -> &'static str {
                match self {
                    $(CongestionControl::$name { .. } => $help,)+
                }
            }

            /// The schedule and the burst (packets; `None` for the best) that belong to it.
            pub fn schedule(self) -> (ScheduleKind, Option<u32>) {
                match self {
                    $(CongestionControl::$name { .. } => {
                        None $(.or(Some(($schedule, Some($burst)))))?.unwrap_or((ScheduleKind::LossDriven, None))
                    })+
                }
            }

            fn make(self, new: &New) -> Box<dyn Controller> {
                match self {
                    $(CongestionControl::$name { $($field)? } => {
                        let $new = new;
                        Box::new($make)
                    })+
                }
            }
        }
    };
}

family! {
    Auto "auto" "Finds the path's rate and shares it fairly"
        |new| auto::Auto::with_params(new.packet_len, new.priority, *new.params);
    Greedy "greedy" "As fast as this host can, whatever is lost: only for a path that is all yours"
        |_| greedy::Greedy::new(), ScheduleKind::Circular, greedy::Greedy::BURST;
    Fixed { bits_per_second } "fixed" "Exactly --rate, whatever is lost: only for capacity that is reserved for you"
        |_| fixed::Fixed::new(Rate::bits_per_second(bits_per_second));
    Linear "linear" "Small steps, rarely: keeps loss below 0.5% on a quiet, clean path"
        |new| linear::Linear::new(new.packet_len);
    Tricolor "tricolor" "Green, yellow and red by loss: takes what is free, tolerates 2% loss"
        |new| tricolor::Tricolor::new(new.packet_len);
    Hstfrc "hstfrc" "HighSpeed response to the average loss, as a window"
        |new| hstfrc::Hstfrc::new(new.packet_len, HstfrcMode::Window);
    HstfrcRate "hstfrc-rate" "HighSpeed response to the average loss, as a rate"
        |new| hstfrc::Hstfrc::new(new.packet_len, HstfrcMode::Rate);
    Tfrc "tfrc" "TCP-friendly rate control (RFC 5348): smooth, and as slow as TCP"
        |new| tfrc::Tfrc::new(new.packet_len);
    Scalable "scalable" "Scalable TCP: recovers from a loss in the same time at any rate"
        |new| scalable::Scalable::new(new.packet_len);
    Fast "fast" "FAST TCP: keeps a fixed number of packets queued, by delay"
        |new| fast::Fast::new(new.packet_len);
    Udt "udt" "UDT: grows with the bandwidth that is left, falls by a ninth at a loss"
        |new| udt::Udt::new(new.packet_len);
    Sabul "sabul" "SABUL: tunes the rate a hundred times a second, tolerates 0.1% loss"
        |new| sabul::Sabul::new(new.packet_len);
    Rbudp "rbudp" "Reliable Blast UDP: measures the path once and keeps that rate"
        |new| rbudp::Rbudp::new(new.packet_len);
    Cubic "cubic" "CUBIC (RFC 9438), as most TCP flows" |new| cubic::Cubic::new(new.packet_len);
    Bbr "bbr" "BBR version 3: rate by bandwidth and round-trip time, loss as a bound"
        |new| bbr::Bbr::new(new.packet_len);
}

/// There is no controller of this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no such congestion controller")]
pub struct UnknownController;

impl CongestionControl {
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
        let lacks_rate = self == CongestionControl::Fixed { bits_per_second: 0 };
        (!lacks_rate).then(|| self.make(&New { packet_len, priority, params }))
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

    /// The example of docs/controllers.md, in a registry of its own.
    mod example {
        use super::super::super::testing::{Acks, PACKET};
        use super::*;

        family! {
            Aimd "aimd" "Half of the window at a loss, as TCP Reno" |new| aimd::Aimd::new(new.packet_len);
        }

        #[test]
        fn the_documented_example_is_a_controller() {
            let page = include_str!("../../../../docs/controllers.md");
            assert!(page.contains(include_str!("aimd.rs")), "docs/controllers.md lacks aimd.rs as it is");
            let row = include_str!("family.rs").lines().find(|line| line.trim().starts_with("Aimd "));
            assert!(page.contains(row.expect("the row above").trim()), "docs/controllers.md lacks its row");

            let [aimd] = CongestionControl::ALL;
            let new = New { packet_len: PACKET, priority: Priority::Fair, params: &Params::default() };
            let mut controller = aimd.make(&new);
            assert_eq!((controller.name(), aimd.summary().is_empty()), (aimd.name(), false));
            assert_eq!(aimd.schedule(), (ScheduleKind::LossDriven, None));
            let mut acks = Acks::new(Duration::from_millis(50));
            controller.on_ack(&acks.round(controller.congestion_window()));
            let before = controller.congestion_window();
            controller.on_loss(&acks.loss());
            assert!(controller.congestion_window().abs_diff(before / 2) <= u64::from(PACKET));
        }
    }
}
