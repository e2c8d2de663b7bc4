//! Tokens: what a client over the network shows, and what it may do then.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Random bytes of a token: as many as nobody guesses.
const SECRET_BYTES: usize = 32;
/// How each begins, so that a token in a log or a repository is known as one.
const PREFIX: &str = "fobs_jobs_";

/// What a token lets its owner do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Hand jobs in.
    Submit,
    /// See jobs, their logs, limits and figures.
    Read,
    /// Change, retry and forget jobs, and set limits.
    Control,
}

impl Scope {
    /// All of them.
    pub const ALL: &[Scope] = &[Scope::Submit, Scope::Read, Scope::Control];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Submit => "submit",
            Scope::Read => "read",
            Scope::Control => "control",
        }
    }

    /// The scope with this name.
    pub fn from_name(name: &str) -> Option<Scope> {
        Scope::ALL.iter().copied().find(|scope| scope.name() == name)
    }
}

/// A token as it is listed: without what its owner shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its number, from 1.
    pub id: u64,
    /// Its name for people; may be empty.
    pub name: String,
    /// What it is good for.
    pub scopes: Vec<Scope>,
    /// When it was made, ms since 1970.
    pub created_ms: u64,
    /// Until when it is good, ms since 1970.
    pub expires_ms: u64,
    /// When it was revoked.
    #[serde(default)]
    pub revoked_ms: Option<u64>,
}

/// What its owner shows. The state file has its hash alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; SECRET_BYTES]);

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// Where the system has no random bytes.
    pub fn random() -> Result<Secret, String> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
        Ok(Secret(bytes))
    }

    /// What was written down; none where it is no token.
    pub fn parse(text: &str) -> Option<Secret> {
        let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?).ok()?;
        bytes.try_into().ok().map(Secret)
    }

    /// How it is shown, once.
    pub fn text(&self) -> String {
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(self.0))
    }

    /// What is kept of it. A fast hash: slow ones protect what people choose, and 256 random bits are beyond
    /// any search. Looked up as it is: how far two hashes agree says nothing of what they were made of.
    pub fn hash(&self) -> [u8; 32] {
        *blake3::hash(&self.0).as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_as_it_was_written_and_nothing_else_is_one() {
        let secret = Secret::random().expect("random bytes");
        let text = secret.text();
        assert_eq!(Secret::parse(&text), Some(secret.clone()));
        assert_ne!(secret.hash(), Secret::random().expect("random bytes").hash());
        assert!(!format!("{secret:?}").contains(&text[PREFIX.len()..]));
        let short = &text[..text.len() - 2];
        let longer = format!("{text}AA");
        for other in ["", "x", PREFIX, &text[PREFIX.len()..], short, &longer, &text.replace("fobs", "FOBS")] {
            assert_eq!(Secret::parse(other), None, "{other}");
        }
    }
}
