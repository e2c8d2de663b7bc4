//! What a trial is: everything random comes from its case and its number.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

/// Payload of a full packet, bytes.
const PAYLOAD_BYTES: f64 = 1472.0;
/// Rate of the link beside what limits it, Mbit/s.
pub(super) const WIDE_MBIT: f64 = 300.0;

/// What is made scarce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    SourceDisk,
    DestinationDisk,
    ReceiverCpu,
    SenderCpu,
    ReceiverBuffer,
    NarrowLink,
    RandomLoss,
    Policer,
    RateCap,
    Reordering,
    Outage,
    CubicFlows,
    OnOffTraffic,
    NarrowWayBack,
    StoppedReceiver,
    StoppedSender,
    RateStep,
    DelayStep,
    SmallTcpWindow,
    LossAndSlowDisk,
    TrafficAndStarvedReceiver,
    JitterOnNarrowLink,
}

/// The cases, in the order of the tables: each with its name and with the word by which `explain.limit` names
/// it.
pub const CASES: [(Case, &str, &str); 22] = [
    (Case::SourceDisk, "slow source disk", "source"),
    (Case::DestinationDisk, "slow destination disk", "destination"),
    (Case::ReceiverCpu, "starved receiver CPU", "receiver_cpu"),
    (Case::SenderCpu, "starved sender CPU", "sender_cpu"),
    (Case::ReceiverBuffer, "small receiver buffer", "receiver_buffer"),
    (Case::NarrowLink, "narrow link", "narrow_path"),
    (Case::RandomLoss, "random loss", "random_loss"),
    (Case::Policer, "policer", "policer"),
    (Case::RateCap, "rate cap", "rate_cap"),
    (Case::Reordering, "reordering", "reordering"),
    (Case::Outage, "outage", "outage"),
    (Case::CubicFlows, "cubic flows", "competing_traffic"),
    (Case::OnOffTraffic, "on off traffic", "competing_traffic"),
    (Case::NarrowWayBack, "narrow way back", "return_path"),
    (Case::StoppedReceiver, "stopped receiver", "receiver_paused"),
    (Case::StoppedSender, "stopped sender", "sender_paused"),
    (Case::RateStep, "rate step", "route_change"),
    (Case::DelayStep, "delay step", "route_change"),
    (Case::SmallTcpWindow, "small tcp window", "stream_window"),
    (Case::LossAndSlowDisk, "loss and slow disk", "destination"),
    (Case::TrafficAndStarvedReceiver, "traffic and starved receiver", "receiver_cpu"),
    (Case::JitterOnNarrowLink, "jitter on a narrow link", "narrow_path"),
];

impl Case {
    /// The case of that name.
    pub fn named(name: &str) -> Result<Case, String> {
        let found = CASES.into_iter().find(|(_, own, _)| *own == name);
        found.map(|(case, ..)| case).ok_or_else(|| {
            let names = CASES.map(|(_, name, _)| name).join(", ");
            format!("there is no case {name:?}; there are {names}")
        })
    }

    fn row(self) -> (Case, &'static str, &'static str) {
        CASES.into_iter().find(|(case, ..)| *case == self).unwrap_or(CASES[0])
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// What `explain.limit` should say.
    pub fn expected(self) -> &'static str {
        self.row().2
    }

    /// Whether the ways of its path differ, so that the data must go the one way.
    pub fn is_pushed_only(self) -> bool {
        matches!(self, Case::NarrowWayBack | Case::CubicFlows | Case::SmallTcpWindow)
    }
}

/// The parameters of a trial; which of them there are depends on the case.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
#[serde(default)]
pub struct Drawn {
    /// Of the disk, both ways.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mb_s: Option<u32>,
    /// Of one processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
    /// `net.core.rmem_max`, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmem_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer_mbit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_kib: Option<u32>,
    /// Of the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbit: Option<f64>,
    /// Of the link; without it the hosts are joined by a wire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<u32>,
    /// `--rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_mbit: Option<f64>,
    /// `--cc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cc: Option<String>,
    /// How long the receiver is stopped, again and again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u32>,
    /// Held back by up to `behind_ms`, so that later packets overtake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind_ms: Option<f64>,
    /// The delay varies by so much; packets keep their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<f64>,
    /// After the path's beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage_at_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage_ms: Option<u32>,
    /// Competing TCP flows (CUBIC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Competing on/off traffic, Mbit/s while on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_mbit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_ms: Option<u32>,
    /// Of the way back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_kbit: Option<u32>,
    /// What the link is from a moment of the copy on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_mbit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_rtt_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_at_ms: Option<u32>,
    /// Largest window of TCP at the receiver, KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_kib: Option<u32>,
    /// To copy.
    pub megabytes: f64,
}

impl Drawn {
    /// The parameters of a trial.
    pub fn of(case: Case, number: u64) -> Drawn {
        let key = blake3::hash(format!("{} {number}", case.name()).as_bytes());
        let mut random = Pcg64::from_seed(*key.as_bytes());
        let mut uniform = |low: f64, high: f64, decimals: i32| {
            rounded(low + (high - low) * random.random::<f64>(), decimals)
        };
        let whole = |value: f64| value.floor() as u32;
        match case {
            Case::SourceDisk | Case::DestinationDisk => {
                let rate = whole(uniform(15.0, 40.0, 3));
                Drawn { disk_mb_s: Some(rate), megabytes: f64::from(rate * 3), ..Drawn::default() }
            }
            Case::ReceiverCpu | Case::SenderCpu => {
                Drawn { cpu_share: Some(uniform(0.08, 0.2, 3)), megabytes: 160.0, ..Drawn::default() }
            }
            Case::ReceiverBuffer => {
                let rate = uniform(300.0, 800.0, 3).floor();
                Drawn {
                    rmem_max: Some(u64::from(whole(uniform(8.0, 32.0, 3))) << 10),
                    rate_mbit: Some(rate),
                    rtt_ms: Some(whole(uniform(5.0, 40.0, 3))),
                    off_ms: Some(whole(uniform(4.0, 8.0, 3))),
                    every_ms: Some(whole(uniform(30.0, 60.0, 3))),
                    megabytes: rounded(rate / 8.0 * 0.4, 1),
                    ..Drawn::default()
                }
            }
            Case::NarrowLink => {
                let rate = uniform(20.0, 100.0, 1);
                let (rate_mbit, rtt_ms) = (Some(rate), Some(whole(uniform(5.0, 60.0, 3))));
                Drawn { rate_mbit, rtt_ms, megabytes: rounded(rate / 8.0 * 2.5, 1), ..Drawn::default() }
            }
            Case::RandomLoss => {
                let (loss, rtt_ms) = (uniform(0.3, 2.0, 2), whole(uniform(15.0, 60.0, 3)));
                // Bytes per second of a loss-based controller (Mathis and others, 1997).
                let expected = 1.22 * PAYLOAD_BYTES / (f64::from(rtt_ms) / 1e3 * (loss / 100.0).sqrt());
                Drawn {
                    loss_percent: Some(loss),
                    rate_mbit: Some(WIDE_MBIT),
                    rtt_ms: Some(rtt_ms),
                    cc: Some("cubic".to_owned()),
                    megabytes: rounded(3.0 * expected / 1e6, 2),
                    ..Drawn::default()
                }
            }
            Case::Policer => {
                let rate = uniform(20.0, 100.0, 1);
                Drawn {
                    policer_mbit: Some(rate),
                    burst_kib: Some(whole(uniform(16.0, 96.0, 3))),
                    rate_mbit: Some(WIDE_MBIT),
                    rtt_ms: Some(whole(uniform(5.0, 60.0, 3))),
                    megabytes: rounded(rate / 8.0 * 3.0, 1),
                    ..Drawn::default()
                }
            }
            Case::RateCap => {
                let rate = uniform(30.0, 300.0, 1);
                Drawn { cap_mbit: Some(rate), megabytes: rounded(rate / 8.0 * 2.5, 1), ..Drawn::default() }
            }
            _ => super::unrehearsed::drawn(case, &mut uniform),
        }
    }

    /// The emulated path, as `fobs-lab link` reads it, if the trial has one.
    pub fn link(&self, number: u64) -> Option<String> {
        let (rate, rtt) = (self.rate_mbit?, self.rtt_ms?);
        let mut spec = format!("seed = {}\nrtt = '{rtt}ms'\nrate = '{rate}Mbit'\n", number + 1);
        for way in ["forward", "backward"] {
            if let Some(loss) = self.loss_percent {
                spec += &format!("{way} = {{ loss = '{loss}%' }}\n");
            }
            if let (Some(rate), Some(burst)) = (self.policer_mbit, self.burst_kib) {
                spec += &format!("{way} = {{ policer = {{ rate = '{rate}Mbit', burst = '{burst}KiB' }} }}\n");
            }
        }
        spec += &super::unrehearsed::keys(self);
        Some(spec)
    }

    /// The control: the same path with its packets in order, no outages, a wide way back, and nothing beside.
    pub fn undisturbed(&self) -> Drawn {
        Drawn {
            reorder_percent: None,
            behind_ms: None,
            outage_at_ms: None,
            outage_ms: None,
            flows: None,
            cross_mbit: None,
            on_ms: None,
            back_kbit: None,
            ..self.clone()
        }
    }

    /// Bytes to copy.
    pub fn bytes(&self) -> u64 {
        (self.megabytes * 1e6) as u64
    }
}

pub(super) fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::spec::LinkSpec;

    #[test]
    fn draws_are_the_same_for_a_number_and_within_bounds() {
        for (case, ..) in CASES {
            assert_eq!(Drawn::of(case, 7), Drawn::of(case, 7));
            assert!((0..20).any(|number| Drawn::of(case, number) != Drawn::of(case, 20)), "{case:?}");
            for number in 0..200 {
                let drawn = Drawn::of(case, number);
                assert!(
                    drawn.bytes() > 100_000 && drawn.bytes() <= 160_000_000,
                    "{case:?} {number}: {drawn:?}"
                );
                assert!(drawn.rmem_max.is_none_or(|bytes| (8 << 10..32 << 10).contains(&bytes)));
                let stopped = matches!(case, Case::StoppedReceiver | Case::StoppedSender);
                assert!(stopped || drawn.off_ms.is_none_or(|off| (4..8).contains(&off)));
            }
        }
    }

    #[test]
    fn every_emulated_path_makes_sense() {
        for (case, ..) in CASES {
            for number in 0..50 {
                if let Some(spec) = Drawn::of(case, number).link(number) {
                    LinkSpec::read(&spec, &[])
                        .unwrap_or_else(|error| panic!("{case:?} {number}: {error}\n{spec}"));
                }
            }
        }
    }

    #[test]
    fn a_case_has_a_name_of_its_own() {
        assert_eq!(Case::named("policer"), Ok(Case::Policer));
        assert!(Case::named("dice").unwrap_err().contains("narrow link"));
    }
}
