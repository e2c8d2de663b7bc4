//! How figures and paths are in the JSON that people's programs read.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};

/// A path of any bytes: as text, and in base64 where it is not UTF-8.
#[derive(Debug, Serialize)]
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

pub(crate) fn path<S: Serializer>(path: &[u8], to: S) -> Result<S::Ok, S::Error> {
    ShownPath::from(path).serialize(to)
}

pub(crate) fn path_or_empty<S: Serializer>(path: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
    ShownPath::from(path.as_deref().unwrap_or_default()).serialize(to)
}

/// JSON has no infinity and no NaN (0 bytes in 0 seconds): they become 0.
pub(crate) fn finite<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(if value.is_finite() { *value } else { 0.0 })
}

pub(crate) fn finite_or_zero<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    finite(&value.unwrap_or(0.0), to)
}

pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}
