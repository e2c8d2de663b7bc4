//! How figures and paths are in the JSON that people's programs read.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path of any bytes: as text, and in base64 where it is not UTF-8.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ShownPath<'a> {
    path: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
}

impl<'a> From<&'a [u8]> for ShownPath<'a> {
    fn from(path: &'a [u8]) -> Self {
        let exact = std::str::from_utf8(path).is_ok();
        ShownPath {
            path: String::from_utf8_lossy(path),
            path_base64: (!exact).then(|| STANDARD.encode(path)),
        }
    }
}

impl ShownPath<'_> {
    /// The bytes of the path.
    fn exact(self) -> Vec<u8> {
        let exact = self.path_base64.and_then(|text| STANDARD.decode(text).ok());
        exact.unwrap_or_else(|| self.path.into_owned().into_bytes())
    }
}

/// A path as two members.
pub(crate) mod path {
    use super::*;

    pub fn serialize<S: Serializer>(path: &[u8], to: S) -> Result<S::Ok, S::Error> {
        ShownPath::from(path).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        ShownPath::deserialize(from).map(ShownPath::exact)
    }
}

/// The same; empty for none.
pub(crate) mod path_or_empty {
    use super::*;

    pub fn serialize<S: Serializer>(path: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        ShownPath::from(path.as_deref().unwrap_or_default()).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
        super::path::deserialize(from).map(|path| Some(path).filter(|path| !path.is_empty()))
    }
}

/// JSON has no infinity and no NaN (0 bytes in 0 seconds): they become 0.
pub(crate) fn finite<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(if value.is_finite() { *value } else { 0.0 })
}

/// A figure of which 0 means that it is unknown.
pub(crate) mod known {
    use super::*;

    pub fn serialize<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        finite(&value.unwrap_or(0.0), to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        f64::deserialize(from).map(|figure| Some(figure).filter(|figure| *figure > 0.0))
    }
}

/// Whether a member need not be sent: an older peer that does not know it means the same.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A hash in hex; digits that are none count as 0.
pub(crate) mod hex {
    use super::*;

    pub fn serialize<S: Serializer>(hash: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&crate::text::hex(hash))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
        let digits = String::deserialize(from)?;
        let byte =
            |at: usize| digits.get(2 * at..2 * at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        Ok(std::array::from_fn(|at| byte(at).unwrap_or(0)))
    }
}
