//! Who may ask over the network.

use std::time::Duration;

use thiserror::Error;

use super::{Keeper, OrderError, now};
use crate::job::NAME_BYTES_MAX;
use crate::token::{Scope, Secret, Token};

/// Longest life of a token: a year. One that never ends is forgotten somewhere.
const LIFE_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// Why a token does not open anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TokenRefusal {
    /// It has not the form of one.
    #[error("the token is malformed; it begins with fobs_jobs_ and is one word")]
    Malformed,
    /// The keeper has none like it.
    #[error("the token is not known here; make one with fobs jobs token create")]
    Unknown,
    /// It was good until its time came.
    #[error("the token has expired; make another one with fobs jobs token create")]
    Expired,
    /// It was taken back.
    #[error("the token is revoked; make another one with fobs jobs token create")]
    Revoked,
}

impl Keeper {
    /// Makes a token with these scopes that is good for this long; its secret is not kept.
    ///
    /// # Errors
    /// Where a value is out of its bounds, or the state cannot be written.
    pub fn create_token(
        &self,
        name: String,
        scopes: &[Scope],
        life: Duration,
    ) -> Result<(Token, Secret), OrderError> {
        self.needs_own_keeper()?;
        if name.len() > NAME_BYTES_MAX {
            return Err(OrderError::Value(format!(
                "its name is longer than {NAME_BYTES_MAX} bytes: shorten it"
            )));
        }
        if scopes.is_empty() {
            return Err(OrderError::Value("a token has a scope: submit, read, control".to_owned()));
        }
        if life.is_zero() || life > LIFE_MAX {
            return Err(OrderError::Value("a token lasts from a second to 366 days".to_owned()));
        }
        let mut scopes = scopes.to_vec();
        scopes.sort();
        scopes.dedup();
        let secret = Secret::random().map_err(OrderError::Value)?;
        let created_ms = now().ms;
        let life_ms = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
        let expires_ms = created_ms.saturating_add(life_ms);
        let token = Token { id: 0, name, scopes, created_ms, expires_ms, revoked_ms: None };
        Ok((self.core().store.add_token(token, &secret)?, secret))
    }

    /// All tokens that are kept, by number.
    ///
    /// # Errors
    /// Where the state cannot be read.
    pub fn tokens(&self) -> Result<Vec<Token>, OrderError> {
        self.needs_own_keeper()?;
        Ok(self.core().store.tokens()?)
    }

    /// Takes a token back; how it stands then.
    ///
    /// # Errors
    /// `NoToken`; where the state cannot be written.
    pub fn revoke_token(&self, id: u64) -> Result<Token, OrderError> {
        self.needs_own_keeper()?;
        Ok(self.core().store.revoke_token(id, now().ms)?)
    }

    /// The token that a client shows.
    ///
    /// # Errors
    /// Outside where the state cannot be read; within why it opens nothing.
    pub fn token_of(&self, text: &str) -> Result<Result<Token, TokenRefusal>, OrderError> {
        let Some(secret) = Secret::parse(text) else { return Ok(Err(TokenRefusal::Malformed)) };
        let found = self.core().store.token_of(&secret)?;
        Ok(match found {
            None => Err(TokenRefusal::Unknown),
            Some(token) if token.revoked_ms.is_some() => Err(TokenRefusal::Revoked),
            Some(token) if token.expires_ms <= now().ms => Err(TokenRefusal::Expired),
            Some(token) => Ok(token),
        })
    }
}
