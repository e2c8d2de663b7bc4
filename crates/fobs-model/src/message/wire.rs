//! How members of messages are in JSON where that differs from what the program works with: optional values
//! are 0 or empty there.

pub(super) use crate::json::is_default;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;

use crate::measured::Measured;

use crate::message::{Bytes, Message};
use crate::shape::SourceShape;

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

/// Generic over what a value for "none" stands for: 0, or an empty text.
pub(super) mod default_is_none {
    use super::*;

    pub fn serialize<T: Clone + Default + Serialize, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.clone().unwrap_or_default().serialize(to)
    }

    pub fn deserialize<'de, T: Default + PartialEq + Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        T::deserialize(from).map(given)
    }
}

/// A time in whole milliseconds: one that is now must not become "none".
pub(super) mod millis {
    use super::*;

    pub fn serialize<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        let whole = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        to.serialize_u64(time.map_or(0, whole))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        u64::deserialize(from).map(|time| given(time).map(Duration::from_millis))
    }
}

/// Bytes in base64; none of them for "none".
pub(super) mod bytes {
    use super::*;

    pub fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        Bytes(bytes.clone().unwrap_or_default()).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
        Bytes::deserialize(from).map(|bytes| given(bytes.0))
    }
}

/// The number of a command, in base64; of another length it is none.
pub(super) mod id {
    use super::*;

    pub fn serialize<S: Serializer>(id: &Option<[u8; 16]>, to: S) -> Result<S::Ok, S::Error> {
        Bytes(id.map_or_else(Vec::new, Vec::from)).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<[u8; 16]>, D::Error> {
        Bytes::deserialize(from).map(|bytes| bytes.0.try_into().ok())
    }
}

/// What is said as its opposite.
pub(super) mod opposite {
    use super::*;

    pub fn serialize<S: Serializer>(is_so: &bool, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bool(!is_so)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
        bool::deserialize(from).map(|opposite| !opposite)
    }
}

/// The shape of the sources.
pub(super) mod shape {
    use super::*;

    pub fn serialize<S: Serializer>(shape: &Option<SourceShape>, to: S) -> Result<S::Ok, S::Error> {
        Shape::from(*shape).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SourceShape>, D::Error> {
        Shape::deserialize(from).map(Shape::into)
    }
}

/// The key schedule of a peer that names none.
pub(super) fn first() -> u8 {
    1
}

pub(super) fn is_first(schedule: &u8) -> bool {
    *schedule == first()
}

/// `None` for the value that stands for "none" in JSON.
pub(super) fn given<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}
