//! The JSON forms of the messages that differ from what the program works with: optional values are 0 or
//! empty there.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

use crate::direction::TransferDirection;
use crate::measured::Measured;
use crate::message;
use crate::message::{Bytes, HostPort, Message, SecretBytes};
use crate::options::sync::SyncOptions;
use crate::shape::SourceShape;

/// A figure above 0, or 0 where it is not known. What a peer sends below 0 is not known either.
pub(super) mod zero_is_none {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(figure: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(figure.unwrap_or(0.0))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        f64::deserialize(from).map(|figure| (figure > 0.0).then_some(figure))
    }
}

impl From<Measured> for Message {
    fn from(measured: Measured) -> Message {
        match measured {
            Measured::Sender(sample) => Message::SenderSample(Box::new(sample)),
            Measured::Receiver(sample) => Message::ReceiverSample(Box::new(sample)),
            Measured::Loss(window) => Message::Loss(window),
            Measured::Remedy(remedy) => Message::Remedy(remedy),
            Measured::Mode(change) => Message::Mode(change),
            Measured::Way(change) => Message::Way(change),
        }
    }
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Direction {
    Push,
    Pull,
}

impl From<Direction> for TransferDirection {
    fn from(wire: Direction) -> TransferDirection {
        match wire {
            Direction::Push => TransferDirection::Push,
            Direction::Pull => TransferDirection::Pull,
        }
    }
}

impl From<TransferDirection> for Direction {
    fn from(direction: TransferDirection) -> Direction {
        match direction {
            TransferDirection::Push => Direction::Push,
            TransferDirection::Pull => Direction::Pull,
        }
    }
}

/// All zero where the other side has no use for it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Shape {
    sources: u32,
    contents: bool,
    stream: bool,
}

impl From<Shape> for Option<SourceShape> {
    fn from(wire: Shape) -> Option<SourceShape> {
        match wire {
            Shape { stream: true, .. } => Some(SourceShape::Stream),
            _ if wire == Shape::default() => None,
            Shape { sources, contents, .. } => Some(SourceShape::Paths { count: sources, contents }),
        }
    }
}

impl From<Option<SourceShape>> for Shape {
    fn from(shape: Option<SourceShape>) -> Shape {
        match shape {
            None => Shape::default(),
            Some(SourceShape::Stream) => Shape { sources: 1, contents: false, stream: true },
            Some(SourceShape::Paths { count, contents }) => Shape { sources: count, contents, stream: false },
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Open {
    direction: Direction,
    paths: Vec<Bytes>,
    recursive: bool,
    preserve: bool,
    compress: bool,
    #[serde(default)]
    fsync: bool,
    payload_size: u16,
    ack_every: u32,
    #[serde(default)]
    shape: Shape,
    #[serde(default)]
    sending: Sending,
    #[serde(default)]
    udp_ports: Option<(u16, u16)>,
    #[serde(default, skip_serializing_if = "is_default")]
    probe_ms: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    survey: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    transfer_id: Bytes,
    #[serde(default, skip_serializing_if = "is_default")]
    names: Vec<Bytes>,
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    keep_partial: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    append_verify: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    checksum: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    timeout_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sync: Option<Box<SyncOptions>>,
    #[serde(default, skip_serializing_if = "is_default")]
    streams: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    keep: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    range: Option<message::ByteRange>,
    #[serde(default, skip_serializing_if = "is_default")]
    object: Bytes,
    #[serde(default, skip_serializing_if = "is_default")]
    room: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    must: Vec<String>,
}

impl From<Open> for message::Open {
    fn from(wire: Open) -> message::Open {
        message::Open {
            direction: wire.direction.into(),
            paths: wire.paths.into_iter().map(|path| path.0).collect(),
            recursive: wire.recursive,
            preserve: wire.preserve,
            compress: wire.compress,
            fsync: wire.fsync,
            payload_size: given(wire.payload_size),
            ack_every: given(wire.ack_every),
            shape: wire.shape.into(),
            sending: wire.sending.into(),
            udp_ports: wire.udp_ports,
            probe: given(wire.probe_ms).map(Duration::from_millis),
            resuming: message::Resuming {
                survey: wire.survey,
                transfer_id: wire.transfer_id.0.try_into().ok(),
                names: wire.names.into_iter().map(|name| name.0).collect(),
                no_partial: !wire.keep_partial,
                append_verify: wire.append_verify,
                checksum: wire.checksum,
            },
            timeout: given(wire.timeout_ms).map(Duration::from_millis),
            sync: wire.sync.map(|sync| Arc::new(*sync)),
            streams: wire.streams,
            reuse: message::Reuse {
                keep: wire.keep,
                range: wire.range,
                object: given(wire.object.0),
                room: given(wire.room),
            },
            must: wire.must,
        }
    }
}

impl From<message::Open> for Open {
    fn from(open: message::Open) -> Open {
        let message::Resuming { survey, transfer_id, names, no_partial, append_verify, checksum } =
            open.resuming;
        Open {
            direction: open.direction.into(),
            paths: open.paths.into_iter().map(Bytes).collect(),
            recursive: open.recursive,
            preserve: open.preserve,
            compress: open.compress,
            fsync: open.fsync,
            payload_size: open.payload_size.unwrap_or_default(),
            ack_every: open.ack_every.unwrap_or_default(),
            shape: open.shape.into(),
            sending: open.sending.into(),
            udp_ports: open.udp_ports,
            probe_ms: open.probe.map_or(0, at_least_a_millisecond),
            survey,
            transfer_id: Bytes(transfer_id.map_or_else(Vec::new, Vec::from)),
            names: names.into_iter().map(Bytes).collect(),
            keep_partial: !no_partial,
            append_verify,
            checksum,
            timeout_ms: open.timeout.map_or(0, millis),
            sync: open.sync.map(|sync| Box::new(Arc::unwrap_or_clone(sync))),
            streams: open.streams,
            keep: open.reuse.keep,
            range: open.reuse.range,
            object: Bytes(open.reuse.object.unwrap_or_default()),
            room: open.reuse.room.unwrap_or_default(),
            must: open.must,
        }
    }
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Sending {
    cc: String,
    #[serde(default)]
    fixed_bps: u64,
    #[serde(default)]
    limit_bps: u64,
    #[serde(default)]
    burst: u32,
    #[serde(default)]
    loss_cause: String,
    #[serde(default)]
    priority: String,
    #[serde(default)]
    deadline_ms: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    transport: String,
    #[serde(default, skip_serializing_if = "is_default")]
    tcp_cc: String,
    #[serde(default, skip_serializing_if = "is_default")]
    tcp_buffer: u32,
}

impl From<Sending> for message::Sending {
    fn from(wire: Sending) -> message::Sending {
        message::Sending {
            cc: wire.cc,
            fixed_bps: given(wire.fixed_bps),
            limit_bps: given(wire.limit_bps),
            burst: given(wire.burst),
            loss_cause: given(wire.loss_cause),
            priority: given(wire.priority),
            deadline: given(wire.deadline_ms).map(Duration::from_millis),
            transport: given(wire.transport),
            tcp_cc: given(wire.tcp_cc),
            tcp_buffer: given(wire.tcp_buffer),
        }
    }
}

impl From<message::Sending> for Sending {
    fn from(sending: message::Sending) -> Sending {
        Sending {
            cc: sending.cc,
            fixed_bps: sending.fixed_bps.unwrap_or_default(),
            limit_bps: sending.limit_bps.unwrap_or_default(),
            burst: sending.burst.unwrap_or_default(),
            loss_cause: sending.loss_cause.unwrap_or_default(),
            priority: sending.priority.unwrap_or_default(),
            deadline_ms: sending.deadline.map_or(0, at_least_a_millisecond),
            transport: sending.transport.unwrap_or_default(),
            tcp_cc: sending.tcp_cc.unwrap_or_default(),
            tcp_buffer: sending.tcp_buffer.unwrap_or_default(),
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Accept {
    udp_addresses: Vec<(String, u16)>,
    #[serde(default, skip_serializing_if = "is_default")]
    tcp_addresses: Vec<(String, u16)>,
    #[serde(default)]
    secret: Option<SecretBytes>,
    #[serde(default = "first", skip_serializing_if = "is_first")]
    keys: u8,
    cipher: String,
    #[serde(default)]
    shape: Shape,
    #[serde(default)]
    chunk_limit: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    survey: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    limit_bps: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    withholds: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    object: Bytes,
}

impl From<Accept> for message::Accept {
    fn from(wire: Accept) -> message::Accept {
        let address = |(host, port)| HostPort { host: given(host), port };
        message::Accept {
            udp_addresses: wire.udp_addresses.into_iter().map(address).collect(),
            tcp_addresses: wire.tcp_addresses.into_iter().map(address).collect(),
            secret: wire.secret,
            key_schedule: wire.keys,
            cipher: wire.cipher,
            shape: wire.shape.into(),
            chunk_limit: wire.chunk_limit,
            survey: wire.survey,
            limit_bps: (wire.limit_bps > 0).then_some(wire.limit_bps),
            withholds: wire.withholds,
            object: given(wire.object.0),
        }
    }
}

impl From<message::Accept> for Accept {
    fn from(accept: message::Accept) -> Accept {
        let address = |address: HostPort| (address.host.unwrap_or_default(), address.port);
        Accept {
            udp_addresses: accept.udp_addresses.into_iter().map(address).collect(),
            tcp_addresses: accept.tcp_addresses.into_iter().map(address).collect(),
            secret: accept.secret,
            keys: accept.key_schedule,
            cipher: accept.cipher,
            shape: accept.shape.into(),
            chunk_limit: accept.chunk_limit,
            survey: accept.survey,
            limit_bps: accept.limit_bps.unwrap_or(0),
            withholds: accept.withholds,
            object: Bytes(accept.object.unwrap_or_default()),
        }
    }
}

/// Whether a member need not be sent: an older peer that does not know it means the same.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The key schedule of a peer that names none.
fn first() -> u8 {
    1
}

fn is_first(schedule: &u8) -> bool {
    *schedule == first()
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

/// Whole milliseconds, at least one: a deadline that is now must not become "none".
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// A time in milliseconds: one that is now must not become "none".
fn at_least_a_millisecond(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// `None` for the value that stands for "none" in JSON.
fn given<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}
