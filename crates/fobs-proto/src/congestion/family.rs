//! What follows from the registry of controllers in `congestion/mod.rs`: files, names, help, construction and
//! schedule. docs/new-controller.md adds one as an example.

use super::*;
use std::str::FromStr;

/// What a controller is made with.
pub(super) struct New<'a> {
    /// Datagram bytes of its packets at first.
    pub(super) packet_len: u16,
    /// The claim of `auto`; the other controllers have none.
    pub(super) priority: Priority,
    /// The numbers of `auto`, for experiments.
    pub(super) params: &'a Params,
}

/// The enumeration of the rows, and the files that they are in: `mod FILE { ROWS }`, each row `VARIANT "NAME"
/// "HELP" |new| CONTROLLER`, and `, SCHEDULE, BURST` after it where they are not the usual ones.
macro_rules! family {
    ($($(#[$place:meta])? mod $file:ident {
        $($name:ident $({ $field:ident })? $text:literal $help:literal |$new:pat_param| $make:expr
            $(, $schedule:expr, $burst:expr)?);+
    })+) => {
        $($(#[$place])? mod $file;)+

        /// The congestion control algorithm: `--cc`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum CongestionControl {
            $($(#[doc = concat!($help, ".")]
            $name $({
                /// Bits per second of UDP payload; 0 until it is given; no controller is made of that.
                $field: u64,
            })?,)+)+
        }

        impl CongestionControl {
            /// All of them, in the order in which help lists them.
            pub const ALL: [CongestionControl; [$($($text),+),+].len()] =
                [$($(CongestionControl::$name $({ $field: 0 })?),+),+];

            /// Its name, as `--cc`, the control channel and [`Controller::name`] spell it.
            pub fn name(self) -> &'static str {
                match self {
                    $($(CongestionControl::$name { .. } => $text,)+)+
                }
            }

            /// One line for people.
            pub fn summary(self) -> &'static str {
                match self {
                    $($(CongestionControl::$name { .. } => $help,)+)+
                }
            }

            /// The schedule and the burst (packets; `None` for the best) that belong to it.
            pub fn schedule(self) -> (ScheduleKind, Option<u32>) {
                match self {
                    $($(CongestionControl::$name { .. } => {
                        None $(.or(Some(($schedule, Some($burst)))))?.unwrap_or((ScheduleKind::LossDriven, None))
                    })+)+
                }
            }

            fn make(self, new: &New) -> Box<dyn Controller> {
                match self {
                    $($(CongestionControl::$name { $($field)? } => {
                        let $new = new;
                        Box::new($make)
                    })+)+
                }
            }
        }
    };
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
}
