//! The cases, and the parameters of a trial.

use serde::{Deserialize, Serialize};

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
    /// By how much the delay varies; packets keep their order.
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

    #[test]
    fn a_case_has_a_name_of_its_own() {
        assert_eq!(Case::named("policer"), Ok(Case::Policer));
        assert!(Case::named("dice").unwrap_err().contains("narrow link"));
    }
}
