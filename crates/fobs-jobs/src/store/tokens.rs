//! The rows of tokens.

use rusqlite::{OptionalExtension, Row, params};

use super::{Store, StoreError};
use crate::token::{Scope, Secret, Token};

/// Most tokens that are kept: those that are over count until they are forgotten.
const TOKENS_MAX: u64 = 1000;
/// How long a token that is over is listed, ms: 90 days, as jobs.
const OVER_MS: u64 = 90 * 24 * 3600 * 1000;

const COLUMNS: &str = "id, name, scopes, created_ms, expires_ms, revoked_ms";

impl Store {
    /// Keeps a new token, whose number is given by the file.
    ///
    /// # Errors
    /// `Tokens` where there are as many as may be; where the file cannot be written.
    pub fn add_token(&mut self, token: Token, secret: &Secret) -> Result<Token, StoreError> {
        let change = self.db.transaction()?;
        let over_ms = token.created_ms.saturating_sub(OVER_MS);
        change.execute(
            "DELETE FROM tokens WHERE MIN(expires_ms, COALESCE(revoked_ms, expires_ms)) < ?1",
            [over_ms],
        )?;
        let count: u64 = change.query_row("SELECT COUNT(*) FROM tokens", [], |row| row.get(0))?;
        if count >= TOKENS_MAX {
            return Err(StoreError::Tokens(TOKENS_MAX));
        }
        let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.name()).collect();
        change.execute(
            "INSERT INTO tokens (name, scopes, hash, created_ms, expires_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![token.name, scopes.join(","), secret.hash(), token.created_ms, token.expires_ms],
        )?;
        let id = u64::try_from(change.last_insert_rowid()).map_err(|e| StoreError::Broken(e.to_string()))?;
        change.commit()?;
        Ok(Token { id, ..token })
    }

    /// All tokens, by number.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        let mut query = self.db.prepare_cached(&format!("SELECT {COLUMNS} FROM tokens ORDER BY id"))?;
        let rows = query.query_map([], token)?;
        rows.map(|row| Ok(row?)).collect()
    }

    /// The token of a secret, whatever became of it.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn token_of(&self, secret: &Secret) -> Result<Option<Token>, StoreError> {
        let mut query = self.db.prepare_cached(&format!("SELECT {COLUMNS} FROM tokens WHERE hash = ?1"))?;
        Ok(query.query_row([secret.hash()], token).optional()?)
    }

    /// Revokes a token; how it stands then. One that is revoked stays so.
    ///
    /// # Errors
    /// `NoToken`; where the file cannot be written.
    pub fn revoke_token(&mut self, id: u64, now_ms: u64) -> Result<Token, StoreError> {
        let sql = "UPDATE tokens SET revoked_ms = COALESCE(revoked_ms, ?2) WHERE id = ?1";
        self.db.execute(sql, params![id.min(i64::MAX as u64), now_ms])?;
        let mut found = self.tokens()?.into_iter();
        found.find(|token| token.id == id).ok_or(StoreError::NoToken(id))
    }
}

fn token(row: &Row<'_>) -> rusqlite::Result<Token> {
    let scopes: String = row.get(2)?;
    Ok(Token {
        id: row.get(0)?,
        name: row.get(1)?,
        // A scope of a later release is none of this one's.
        scopes: scopes.split(',').filter_map(Scope::from_name).collect(),
        created_ms: row.get(3)?,
        expires_ms: row.get(4)?,
        revoked_ms: row.get(5)?,
    })
}
