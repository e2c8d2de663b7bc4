//! A word of a command line, which need not be UTF-8.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A word, in JSON a string, or `{"base64": TEXT}` where it is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Word(OsString);

impl Word {
    /// The word as the system takes it.
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// The word for people.
    pub fn shown(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    /// Its length, bytes.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Whether the system can pass it to a program: it has no NUL.
    pub fn can_be_passed(&self) -> bool {
        !self.0.as_bytes().contains(&0)
    }
}

impl<T: Into<OsString>> From<T> for Word {
    fn from(text: T) -> Word {
        Word(text.into())
    }
}

/// A word of a command line: a string, or its bytes in base64 where it is not UTF-8.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
enum Form {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Bytes {
        /// With padding (RFC 4648, 4).
        base64: String,
    },
}

impl PartialSchema for Word {
    fn schema() -> RefOr<Schema> {
        Form::schema()
    }
}

impl ToSchema for Word {}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => Form::Bytes { base64: STANDARD.encode(self.0.as_bytes()) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
        match Form::deserialize(deserializer)? {
            Form::Text(text) => Ok(Word(text.into())),
            Form::Bytes { base64 } => {
                let bytes = STANDARD.decode(base64).map_err(D::Error::custom)?;
                Ok(Word(OsString::from_vec(bytes)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_word_survives_json(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let word = Word(OsString::from_vec(bytes));
            let text = serde_json::to_string(&word).expect("a word is JSON");
            prop_assert_eq!(serde_json::from_str::<Word>(&text).expect("our own"), word);
        }
    }

    #[test]
    fn utf8_is_a_plain_string() {
        assert_eq!(serde_json::to_string(&Word::from("é x")).expect("JSON"), "\"é x\"");
        serde_json::from_str::<Word>("{\"base64\": \"*\"}").expect_err("no base64");
        serde_json::from_str::<Word>("7").expect_err("no word");
    }
}
