//! Description of a path: a TOML table, checked when it is read.
//!
//! [`LinkSpec`] keeps the written form (for plans and records); [`LinkSpec::settings`] gives one direction
//! with all defaults filled in. Each existing spec is valid: reading and [`LinkSpec::changed`] check it.

mod parts;
mod text;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::parts::{
    Bernoulli, Cross, GilbertElliott, HostSpec, Hosts, Loss, Middlebox, OnOffTimes, Outage, OutageKind,
    Policer, Queue, QueueLimit, Reorder,
};
use crate::units::{Rate, Share, Size, Time};

/// Minimum MTU, bytes: every IPv4 host must accept 576 (RFC 791).
const MTU_MIN: u16 = 576;
/// Maximum MTU, bytes: jumbo frames, the largest in use on wide-area paths.
const MTU_MAX: u16 = 9000;
/// Minimum MTU of IPv6, bytes (RFC 8200, section 5).
pub const MTU_MIN_IPV6: u16 = 1280;
const HOSTS_MAX: usize = 8;
const OUTAGES_MAX: usize = 256;
const CROSS_MAX: usize = 16;
/// Maximum delay, seconds: twice the practical lifetime of a TCP segment.
const DELAY_MAX_S: f64 = 120.0;
/// Maximum rate, bits per second; one thread cannot emulate more.
const RATE_MAX_BITS: u64 = 100_000_000_000;
const QUEUE_MAX_BYTES: u64 = 1 << 30;
/// Maximum memory for packets in flight in one direction, bytes: with more, a machine would swap.
const MEMORY_MAX_BYTES: u64 = 4 << 30;
/// Extra memory for bursts of small packets, headers and rounding, bytes.
const MEMORY_SLACK_BYTES: u64 = 16 << 20;
/// Minimum of the default queue, bytes: one super-packet must fit.
const QUEUE_DEFAULT_MIN_BYTES: u64 = 64 << 10;

/// Why a spec is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(String);

impl SpecError {
    fn new(why: impl Into<String>) -> SpecError {
        SpecError(why.into())
    }
}

/// The two directions of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// West to east.
    Forward,
    /// East to west.
    Backward,
}

impl Way {
    pub const BOTH: [Way; 2] = [Way::Forward, Way::Backward];

    pub fn name(self) -> &'static str {
        match self {
            Way::Forward => "forward",
            Way::Backward => "backward",
        }
    }
}

/// A path between hosts in the west and hosts in the east that share one bottleneck in each direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct LinkSpec {
    #[serde(default = "default_name")]
    pub name: String,
    /// Base round-trip time; optional if both directions give their delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Time>,
    /// Rate of both directions unless a direction has its own; counts whole IP packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Bytes of the largest IP packet.
    #[serde(default = "default_mtu")]
    pub mtu: u16,
    #[serde(default)]
    pub hosts: Hosts,
    /// Seed of all random draws.
    #[serde(default = "default_seed")]
    pub seed: u64,
    #[serde(default, skip_serializing_if = "DirectionSpec::is_default")]
    pub forward: DirectionSpec,
    #[serde(default, skip_serializing_if = "DirectionSpec::is_default")]
    pub backward: DirectionSpec,
}

/// One direction as written; omitted keys have no effect.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DirectionSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// One-way propagation delay; default: half of the round trip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Time>,
    /// Default: drop-tail, the larger of one bandwidth-delay product and 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer: Option<Policer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// The delay varies by up to this much; packets keep their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Reorder>,
    /// Share of packets that are queued twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<Share>,
    /// Share of packets with one flipped bit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<Share>,
    /// In order of time, disjoint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cross: Vec<Cross>,
    /// What happens to UDP only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp: Option<Middlebox>,
    /// The one TCP port that is open; TCP between other ports is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_port: Option<u16>,
}

impl DirectionSpec {
    fn is_default(&self) -> bool {
        *self == DirectionSpec::default()
    }
}

/// One direction with all defaults filled in and all sizes in bytes: the emulator's input.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub rate: Rate,
    pub delay: Time,
    pub queue: Discipline,
    pub policer: Option<Policer>,
    pub loss: Option<Loss>,
    pub jitter: Time,
    pub reorder: Option<Reorder>,
    pub duplicate: Share,
    pub corrupt: Share,
    pub outages: Vec<Outage>,
    pub cross: Vec<Cross>,
    pub udp: Middlebox,
    pub tcp_port: Option<u16>,
}

/// A queue with known sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Discipline {
    DropTailBytes(u64),
    DropTailPackets(u64),
    /// Random early detection (Floyd and Jacobson 1993), in bytes.
    Red {
        min_bytes: u64,
        max_bytes: u64,
        /// Drop probability at `max_bytes`.
        probability: f64,
        /// Weight of one arrival in the moving average of the queue.
        weight: f64,
        limit_bytes: u64,
    },
}

impl LinkSpec {
    /// Reads a spec and applies assignments such as `forward.loss=1%`.
    ///
    /// # Errors
    ///
    /// One sentence on what is wrong and what is right (TOML's own errors show the place).
    pub fn read(toml: &str, assignments: &[String]) -> Result<LinkSpec, SpecError> {
        if assignments.is_empty() {
            return toml::from_str(toml).map_err(|error| SpecError::new(error.to_string().trim_end()));
        }
        let mut value: serde_json::Value =
            toml::from_str(toml).map_err(|error| SpecError::new(error.to_string().trim_end()))?;
        for assignment in assignments {
            text::assign(&mut value, assignment)?;
        }
        serde_json::from_value(value).map_err(|error| SpecError::new(error.to_string().trim_end()))
    }

    /// The spec with keys of `forward` and `backward` replaced by `change`; `null` resets a key to its
    /// default.
    ///
    /// # Errors
    ///
    /// If `change` contains anything but the two directions, or the result is not valid.
    pub fn changed(&self, change: &serde_json::Value) -> Result<LinkSpec, SpecError> {
        let mut value =
            serde_json::to_value(self).map_err(|error| SpecError::new(error.to_string().trim_end()))?;
        text::merge_directions(&mut value, change)?;
        // Delays of both directions replace the round-trip time that they followed from.
        let has_delay = |way: &str| change[way].get("delay").is_some();
        if let (true, true, Some(written)) =
            (has_delay("forward"), has_delay("backward"), value.as_object_mut())
        {
            written.remove("rtt");
        }
        serde_json::from_value(value).map_err(|error| SpecError::new(error.to_string().trim_end()))
    }

    /// Round-trip time of an empty path: both propagation delays, without access lines.
    pub fn base_rtt(&self) -> Time {
        let sum = self.delay(Way::Forward).nanos() + self.delay(Way::Backward).nanos();
        Time::from_nanos(sum).unwrap_or_default()
    }

    pub fn link_rate(&self, way: Way) -> Rate {
        // `check` ensures that there is one.
        let given = self.direction(way).rate.or(self.rate);
        given.or(Rate::from_bits_per_second(1)).unwrap_or_else(|| unreachable!("1 bit/s is a rate"))
    }

    /// The queue's limit in bytes; a limit in packets counts full packets.
    pub fn queue_bytes(&self, way: Way) -> u64 {
        match self.discipline(way) {
            Discipline::DropTailBytes(bytes) | Discipline::Red { limit_bytes: bytes, .. } => bytes,
            Discipline::DropTailPackets(packets) => packets * u64::from(self.mtu),
        }
    }

    /// Mean loss rate of the loss model, 0 to 1.
    pub fn mean_loss(&self, way: Way) -> f64 {
        self.direction(way).loss.map_or(0.0, |loss| loss.mean())
    }

    /// The direction with all defaults filled in.
    pub fn settings(&self, way: Way) -> Settings {
        let written = self.direction(way);
        Settings {
            rate: self.link_rate(way),
            delay: self.delay(way),
            queue: self.discipline(way),
            policer: written.policer,
            loss: written.loss,
            jitter: written.jitter.unwrap_or_default(),
            reorder: written.reorder,
            duplicate: written.duplicate.unwrap_or_default(),
            corrupt: written.corrupt.unwrap_or_default(),
            outages: written.outages.clone(),
            cross: written.cross.clone(),
            udp: written.udp.clone().unwrap_or_default(),
            tcp_port: written.tcp_port,
        }
    }

    /// Memory for packets in flight, bytes: the capacity of path and queue, twice (short packets take more
    /// memory than their length), and some extra.
    pub fn memory_bytes(&self, way: Way) -> u64 {
        let written = self.direction(way);
        let access = |side: &[HostSpec]| side.iter().map(|host| host.delay.nanos()).max().unwrap_or(0);
        let under_way = self.delay(way).nanos()
            + written.jitter.unwrap_or_default().nanos()
            + written.reorder.map_or(0, |reorder| reorder.longest())
            + access(&self.hosts.west)
            + access(&self.hosts.east);
        let under_way = Time::from_nanos(under_way).unwrap_or_default();
        2 * (self.link_rate(way).bytes_in(under_way).bytes() + self.queue_bytes(way)) + MEMORY_SLACK_BYTES
    }

    pub fn direction(&self, way: Way) -> &DirectionSpec {
        match way {
            Way::Forward => &self.forward,
            Way::Backward => &self.backward,
        }
    }

    fn delay(&self, way: Way) -> Time {
        let other = match way {
            Way::Forward => &self.backward,
            Way::Backward => &self.forward,
        };
        if let Some(delay) = self.direction(way).delay {
            return delay;
        }
        let rtt = self.rtt.unwrap_or_default().nanos();
        let left = other.delay.map_or(rtt / 2, |delay| rtt.saturating_sub(delay.nanos()));
        Time::from_nanos(left).unwrap_or_default()
    }

    fn discipline(&self, way: Way) -> Discipline {
        let bdp = self.link_rate(way).bytes_in(self.base_rtt()).bytes();
        let mtu = u64::from(self.mtu);
        match &self.direction(way).queue {
            None => Discipline::DropTailBytes(bdp.max(QUEUE_DEFAULT_MIN_BYTES)),
            Some(Queue::DropTail(QueueLimit::Packets(packets))) => {
                Discipline::DropTailPackets(u64::from(*packets))
            }
            Some(Queue::DropTail(limit)) => Discipline::DropTailBytes(limit.bytes(bdp, mtu)),
            Some(Queue::Red(red)) => Discipline::Red {
                min_bytes: red.min.bytes(bdp, mtu),
                max_bytes: red.max.bytes(bdp, mtu),
                probability: red.probability.fraction(),
                weight: red.weight,
                limit_bytes: red.limit.bytes(bdp, mtu),
            },
        }
    }

    fn check(&self) -> Result<(), SpecError> {
        let refuse = |why: String| Err(SpecError::new(why));
        if self.name.is_empty() || self.name.chars().count() > 80 || self.name.chars().any(char::is_control) {
            return refuse("name must have 1 to 80 characters and no control characters".into());
        }
        if !(MTU_MIN..=MTU_MAX).contains(&self.mtu) {
            return refuse(format!("mtu = {} is not within {MTU_MIN} to {MTU_MAX}", self.mtu));
        }
        self.check_delays()?;
        self.hosts.check(HOSTS_MAX)?;
        for way in Way::BOTH {
            let name = way.name();
            if self.direction(way).rate.or(self.rate).is_none() {
                return refuse(format!("{name} has no rate: give rate for both directions or {name}.rate"));
            }
            self.check_direction(way).map_err(|error| SpecError::new(format!("{name}: {error}")))?;
        }
        Ok(())
    }

    fn check_delays(&self) -> Result<(), SpecError> {
        let written = (self.rtt, self.forward.delay, self.backward.delay);
        let why = match written {
            (None, Some(_), Some(_)) | (Some(_), None, None) => return Ok(()),
            (Some(rtt), Some(one), None) | (Some(rtt), None, Some(one)) if one <= rtt => return Ok(()),
            (Some(rtt), Some(one), Some(other)) if one.nanos() + other.nanos() == rtt.nanos() => {
                return Ok(());
            }
            (None, _, _) => "rtt is missing: give rtt, or delay in both directions".to_owned(),
            (Some(rtt), _, _) => format!("the delays of the directions do not add up to rtt = {rtt}"),
        };
        Err(SpecError::new(why))
    }

    fn check_direction(&self, way: Way) -> Result<(), SpecError> {
        let written = self.direction(way);
        let refuse = |why: String| Err(SpecError::new(why));
        if self.link_rate(way).bits_per_second() > RATE_MAX_BITS {
            return refuse("rate is above 100Gbit, more than this emulator can be asked".into());
        }
        let reorder =
            written.reorder.map(|reorder| Time::from_nanos(reorder.longest()).unwrap_or(reorder.delay));
        let longest = [Some(self.delay(way)), written.jitter, reorder];
        if longest.into_iter().flatten().any(|time| time.seconds() > DELAY_MAX_S) {
            return refuse(format!(
                "delay, jitter and reorder.delay (with eight times reorder.spread) must be at most {DELAY_MAX_S} s each"
            ));
        }
        let udp = written.udp.clone().unwrap_or_default();
        if written.outages.len().max(udp.outages.len()) > OUTAGES_MAX || written.cross.len() > CROSS_MAX {
            return refuse(format!("more than {OUTAGES_MAX} outages or {CROSS_MAX} kinds of cross traffic"));
        }
        let overlap = |pair: &[Outage]| pair[0].until() > pair[1].at.nanos();
        if [&written.outages, &udp.outages].iter().any(|list| list.windows(2).any(overlap)) {
            return refuse("outages must be in order of time and must not overlap".into());
        }
        for cross in &written.cross {
            cross.check()?;
        }
        let short = |policer: &Policer| policer.burst.bytes() < u64::from(self.mtu);
        if written.policer.iter().chain(&udp.policer).any(short) {
            return refuse(format!("policer.burst must hold one packet of {} bytes", self.mtu));
        }
        self.check_queue(way)?;
        let memory = self.memory_bytes(way);
        if memory > MEMORY_MAX_BYTES {
            let need = Size::from_bytes(memory).unwrap_or_default();
            return refuse(format!(
                "packets under way would take {need}; 4GiB is the most: lower rate, delay or queue"
            ));
        }
        Ok(())
    }

    fn check_queue(&self, way: Way) -> Result<(), SpecError> {
        if !(u64::from(self.mtu)..=QUEUE_MAX_BYTES).contains(&self.queue_bytes(way)) {
            return Err(SpecError::new(format!(
                "queue must hold from one packet of {} bytes to 1GiB",
                self.mtu
            )));
        }
        if let Discipline::Red { min_bytes, max_bytes, probability, weight, limit_bytes } =
            self.discipline(way)
        {
            if !(min_bytes < max_bytes && max_bytes <= limit_bytes) {
                return Err(SpecError::new("red needs min < max <= limit"));
            }
            if !(probability > 0.0 && weight > 0.0 && weight <= 1.0) {
                return Err(SpecError::new(
                    "red needs a probability above 0 and a weight above 0, at most 1",
                ));
            }
        }
        Ok(())
    }
}

/// Reading checks: each spec that is read is valid.
impl<'de> Deserialize<'de> for LinkSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LinkSpec, D::Error> {
        let spec = LinkSpec::deserialize(deserializer)?;
        spec.check().map_err(serde::de::Error::custom)?;
        Ok(spec)
    }
}

impl Serialize for LinkSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        LinkSpec::serialize(self, serializer)
    }
}

fn default_name() -> String {
    "link".to_owned()
}

fn default_mtu() -> u16 {
    1500
}

fn default_seed() -> u64 {
    1
}

#[cfg(test)]
mod tests;
