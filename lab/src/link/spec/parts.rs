//! The parts of a spec with their own table or text format.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::SpecError;
use super::text::text_or_table;
use crate::units::{Rate, Share, Size, Time};

/// Weight of one arrival in RED's average (Floyd and Jacobson 1993, section 6: 0.002).
const RED_WEIGHT: f64 = 0.002;
/// Default length of a virtual packet, bytes: a full packet on Ethernet.
const CROSS_PACKET: u32 = 1500;

/// The hosts of the two sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hosts {
    pub west: Vec<HostSpec>,
    pub east: Vec<HostSpec>,
    /// The first host of each side also gets what goes to addresses outside the emulated network: a router to
    /// more hosts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub gateways: bool,
}

/// One host: a name, or `{ name = "c", delay = "5ms" }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSpec {
    /// 1 to 15 of `a-z`, `0-9` and `-`; unique.
    pub name: String,
    /// One-way delay of the host's access line, in each direction.
    pub delay: Time,
}

/// A queue: a limit (drop-tail), or `{ red = { .. } }`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Queue {
    DropTail(QueueLimit),
    Red(Red),
}

/// A queue length: `1BDP`, `256KiB` or `100pkt`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueueLimit {
    /// Multiple of rate x base round trip.
    Bdp(f64),
    Bytes(Size),
    Packets(u32),
}

/// Random early detection; for thresholds a packet counts as one MTU.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Red {
    pub min: QueueLimit,
    pub max: QueueLimit,
    /// Drop probability when the average reaches `max`.
    pub probability: Share,
    pub limit: QueueLimit,
    #[serde(default = "red_weight")]
    pub weight: f64,
}

/// A token bucket in front of the queue; packets without tokens are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policer {
    pub rate: Rate,
    pub burst: Size,
}

/// What a middlebox does to UDP and to nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Middlebox {
    /// Times in which no UDP passes, in order and disjoint; each kind drops.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer: Option<Policer>,
    /// Largest IP packet that passes, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest: Option<u32>,
}

/// Random loss in front of the queue: a share, or `{ gilbert_elliott = { .. } }`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    Bernoulli(Bernoulli),
    GilbertElliott(GilbertElliott),
}

/// Independent losses with equal probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bernoulli(pub Share);

/// Two states with a loss rate each; one step per packet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    pub good_to_bad: Share,
    pub bad_to_good: Share,
    #[serde(default)]
    pub loss_good: Share,
    #[serde(default = "always")]
    pub loss_bad: Share,
}

/// A share of packets is held back, so that later ones overtake them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    pub share: Share,
    pub delay: Time,
    /// Standard deviation of that delay, which is normally distributed and at least 0; 0 for a constant one.
    #[serde(default, skip_serializing_if = "is_none")]
    pub spread: Time,
}

impl Reorder {
    /// The longest delay to reckon with, ns: eight standard deviations are never drawn.
    pub fn longest(&self) -> u64 {
        self.delay.nanos().saturating_add(self.spread.nanos().saturating_mul(8))
    }
}

fn is_none(time: &Time) -> bool {
    time.nanos() == 0
}

/// A time in which the link carries nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// Time since the last reset.
    pub at: Time,
    #[serde(rename = "for")]
    pub length: Time,
    #[serde(default)]
    pub what: OutageKind,
}

/// Effect of an outage on packets at the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutageKind {
    /// They are lost; packets already queued continue.
    #[default]
    Drop,
    /// The queue stops and fills; it continues after the outage.
    Hold,
}

/// Virtual packets that occupy the bottleneck queue and are not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Cross {
    /// Poisson arrivals.
    Poisson {
        rate: Rate,
        #[serde(default = "cross_packet")]
        packet: u32,
    },
    /// Equally spaced.
    Paced {
        rate: Rate,
        #[serde(default = "cross_packet")]
        packet: u32,
    },
    /// Paced at `rate` while on, silent while off; starts off.
    OnOff {
        rate: Rate,
        on: Time,
        off: Time,
        #[serde(default)]
        distribution: OnOffTimes,
        #[serde(default = "cross_packet")]
        packet: u32,
    },
}

/// How the lengths of on and off times are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnOffTimes {
    /// Exponentially distributed, with the given means.
    #[default]
    Exponential,
    Constant,
}

impl QueueLimit {
    /// The length in bytes, given the bytes of a bandwidth-delay product and of a packet.
    pub fn bytes(self, bdp: u64, packet: u64) -> u64 {
        match self {
            QueueLimit::Bdp(times) => (bdp as f64 * times).round() as u64,
            QueueLimit::Bytes(size) => size.bytes(),
            QueueLimit::Packets(packets) => u64::from(packets) * packet,
        }
    }
}

impl Loss {
    /// Mean loss rate, 0 to 1.
    pub fn mean(self) -> f64 {
        match self {
            Loss::Bernoulli(Bernoulli(share)) => share.fraction(),
            Loss::GilbertElliott(model) => {
                let (to_bad, to_good) = (model.good_to_bad.fraction(), model.bad_to_good.fraction());
                // A chain that never leaves its first state stays good.
                let bad = if to_bad == 0.0 { 0.0 } else { to_bad / (to_bad + to_good) };
                bad * model.loss_bad.fraction() + (1.0 - bad) * model.loss_good.fraction()
            }
        }
    }
}

impl Outage {
    /// End of the outage, ns after the last reset.
    pub fn until(&self) -> u64 {
        self.at.nanos() + self.length.nanos()
    }
}

impl Cross {
    pub fn rate(&self) -> Rate {
        match *self {
            Cross::Poisson { rate, .. } | Cross::Paced { rate, .. } | Cross::OnOff { rate, .. } => rate,
        }
    }

    /// Length of each virtual packet, bytes.
    pub fn packet(&self) -> u32 {
        match *self {
            Cross::Poisson { packet, .. } | Cross::Paced { packet, .. } | Cross::OnOff { packet, .. } => {
                packet
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), SpecError> {
        if !(40..=65_535).contains(&self.packet()) {
            return Err(SpecError::new("cross.packet must be 40 to 65535 bytes"));
        }
        // One thread can handle a million virtual packets a second.
        if self.rate().bits_per_second() / (8 * u64::from(self.packet())) > 1_000_000 {
            return Err(SpecError::new("cross traffic is above a million packets/s: use a larger packet"));
        }
        match self {
            Cross::OnOff { rate, on, packet, .. } if rate.bytes_in(*on).bytes() < u64::from(*packet) => {
                Err(SpecError::new("cross.on must be long enough for a packet at the rate"))
            }
            _ => Ok(()),
        }
    }
}

impl Hosts {
    /// Every host, west first.
    pub fn all(&self) -> impl Iterator<Item = &HostSpec> {
        self.west.iter().chain(&self.east)
    }

    pub(super) fn check(&self, most: usize) -> Result<(), SpecError> {
        if ![&self.west, &self.east].iter().all(|side| (1..=most).contains(&side.len())) {
            return Err(SpecError::new(format!(
                "hosts.west and hosts.east must have 1 to {most} hosts each"
            )));
        }
        let names: Vec<&str> = self.all().map(|host| host.name.as_str()).collect();
        for (index, name) in names.iter().enumerate() {
            if names[..index].contains(name) {
                return Err(SpecError::new(format!("two hosts are called {name:?}")));
            }
        }
        match self.all().find(|host| host.delay.seconds() > 60.0) {
            Some(host) => Err(SpecError::new(format!("host {:?}: delay is above 60 s", host.name))),
            None => Ok(()),
        }
    }
}

impl Default for Hosts {
    fn default() -> Hosts {
        let host = |name: &str| vec![HostSpec { name: name.to_owned(), delay: Time::ZERO }];
        Hosts { west: host("a"), east: host("b"), gateways: false }
    }
}

impl FromStr for HostSpec {
    type Err = SpecError;

    fn from_str(name: &str) -> Result<HostSpec, SpecError> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !(1..=15).contains(&name.len()) || !name.chars().all(plain) {
            return Err(SpecError::new(format!("host name {name:?} is not 1 to 15 of a-z, 0-9 and -")));
        }
        Ok(HostSpec { name: name.to_owned(), delay: Time::ZERO })
    }
}

impl FromStr for QueueLimit {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<QueueLimit, SpecError> {
        let bare = text.trim();
        let whole = |number: &str| number.trim_end().parse::<u32>().ok().filter(|&count| count > 0);
        let limit = if let Some(number) = bare.strip_suffix("BDP") {
            let times = number.trim_end().parse::<f64>().ok();
            times.filter(|times| (0.001..=1000.0).contains(times)).map(QueueLimit::Bdp)
        } else if let Some(number) = bare.strip_suffix("pkt") {
            whole(number).map(QueueLimit::Packets)
        } else {
            bare.parse().ok().map(QueueLimit::Bytes)
        };
        limit.ok_or_else(|| {
            let text: String = text.chars().take(40).collect();
            SpecError::new(format!("{text:?} is no length of a queue: write 1BDP, 256KiB or 100pkt"))
        })
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueLimit::Bdp(times) => write!(f, "{times}BDP"),
            QueueLimit::Bytes(size) => write!(f, "{size}"),
            QueueLimit::Packets(count) => write!(f, "{count}pkt"),
        }
    }
}

impl Serialize for QueueLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for QueueLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<QueueLimit, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostTable {
    name: String,
    delay: Time,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueTable {
    red: Red,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LossTable {
    gilbert_elliott: GilbertElliott,
}

impl Serialize for HostSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.delay == Time::ZERO {
            return self.name.serialize(serializer);
        }
        HostTable { name: self.name.clone(), delay: self.delay }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for HostSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HostSpec, D::Error> {
        text_or_table(
            deserializer,
            "the name of a host or { name, delay }",
            str::parse,
            |table: HostTable| Ok(HostSpec { delay: table.delay, ..table.name.parse::<HostSpec>()? }),
        )
    }
}

impl Serialize for Queue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Queue::DropTail(limit) => limit.serialize(serializer),
            Queue::Red(red) => QueueTable { red: *red }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Queue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Queue, D::Error> {
        let limit = |text: &str| text.parse::<QueueLimit>().map(Queue::DropTail);
        text_or_table(deserializer, "1BDP, 256KiB, 100pkt or { red = .. }", limit, |table: QueueTable| {
            Ok(Queue::Red(table.red))
        })
    }
}

impl Serialize for Loss {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Loss::Bernoulli(Bernoulli(share)) => share.serialize(serializer),
            Loss::GilbertElliott(model) => LossTable { gilbert_elliott: *model }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Loss {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Loss, D::Error> {
        let share = |text: &str| match text.parse::<Share>() {
            Ok(share) => Ok(Loss::Bernoulli(Bernoulli(share))),
            Err(error) => Err(SpecError::new(error.to_string())),
        };
        text_or_table(deserializer, "a share as 1% or { gilbert_elliott = .. }", share, |table: LossTable| {
            Ok(Loss::GilbertElliott(table.gilbert_elliott))
        })
    }
}

fn red_weight() -> f64 {
    RED_WEIGHT
}

fn cross_packet() -> u32 {
    CROSS_PACKET
}

fn always() -> Share {
    Share::new(1.0).unwrap_or_default()
}
