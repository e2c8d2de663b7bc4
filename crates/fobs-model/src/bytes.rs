//! Members of messages that are bytes, base64 in JSON, or that nobody else may see.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use zeroize::Zeroizing;

/// Raw bytes, base64 in JSON: paths are of any bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Bytes).map_err(Error::custom)
    }
}

/// The same of a secret: wiped when dropped, never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretBytes(Zeroizing<Vec<u8>>);

impl SecretBytes {
    /// A copy of these.
    pub fn new(bytes: &[u8]) -> SecretBytes {
        SecretBytes(Zeroizing::new(bytes.to_vec()))
    }

    /// The bytes themselves.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(..)")
    }
}

impl Serialize for SecretBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Zeroizing::new(STANDARD.encode(&*self.0)))
    }
}

impl<'de> Deserialize<'de> for SecretBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Base64;
        impl Visitor<'_> for Base64 {
            type Value = SecretBytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes in base64")
            }

            // What is wrong with it is not said: that would quote it.
            fn visit_str<E: Error>(self, text: &str) -> Result<SecretBytes, E> {
                let decoded = STANDARD.decode(text).map_err(|_| E::custom("a secret that is no base64"))?;
                Ok(SecretBytes(Zeroizing::new(decoded)))
            }
        }
        // Read in place from the frame, which is wiped.
        deserializer.deserialize_str(Base64)
    }
}

/// Text that gives its holder a right, as a ticket does: wiped when dropped, never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    /// Takes the text.
    pub fn new(text: String) -> SecretText {
        SecretText(Zeroizing::new(text))
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(SecretText::new)
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(..)")
    }
}

/// Paths of a request, in base64: they are of any bytes.
pub(crate) mod list {
    use super::Bytes;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(paths: &[Vec<u8>], to: S) -> Result<S::Ok, S::Error> {
        paths.iter().map(|path| Bytes(path.clone())).collect::<Vec<_>>().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Vec<u8>>, D::Error> {
        let paths = Option::<Vec<Bytes>>::deserialize(from)?.unwrap_or_default();
        Ok(paths.into_iter().map(|path| path.0).collect())
    }
}

/// A path that a request may have, likewise.
pub(crate) mod maybe {
    use super::Bytes;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(path: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        path.clone().map(Bytes).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
        Ok(Option::<Bytes>::deserialize(from)?.map(|path| path.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_travel_as_plain_members_do_and_do_not_show() {
        let secret = SecretBytes::new(&[251, 255, 0, 7]);
        let json = serde_json::to_string(&secret).unwrap();
        assert_eq!(json, serde_json::to_string(&Bytes(secret.as_slice().to_vec())).unwrap());
        assert_eq!(serde_json::from_str::<SecretBytes>(&json).unwrap(), secret);
        // Through an escape, which nobody writes, the text is not in one piece.
        assert_eq!(serde_json::from_str::<SecretBytes>(&json.replace('/', "\\/")).unwrap(), secret);
        assert_eq!(format!("{secret:?}"), "SecretBytes(..)");
        let ticket = SecretText::new("payload.signature".to_owned());
        let json = serde_json::to_string(&ticket).unwrap();
        assert_eq!(json, "\"payload.signature\"");
        assert_eq!(serde_json::from_str::<SecretText>(&json).unwrap(), ticket);
        assert_eq!(format!("{ticket:?}"), "SecretText(..)");
    }

    #[test]
    fn an_error_about_a_secret_does_not_quote_it() {
        let error = serde_json::from_str::<SecretBytes>("\"hunter2!\"").unwrap_err().to_string();
        assert!(error.contains("no base64") && !error.contains("hunter2"), "{error}");
        let error = serde_json::from_str::<SecretBytes>("7").unwrap_err().to_string();
        assert!(error.contains("bytes in base64"), "{error}");
    }
}
