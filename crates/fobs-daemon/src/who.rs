//! Who a client is and what it asks for, as its log and its counters know it.

use std::fmt;
use std::net::SocketAddr;

use fobs_model::public_key::PublicKey;

use super::asked::{Asked, Count, work_name};
use super::strangers::Stranger;

/// Characters of a key's fingerprint in the log: `SHA256:` and 72 bits, enough to distinguish keys.
const FINGERPRINT_CHARS: usize = 7 + 12;

/// One client's connection. Its text names it in the log.
pub(super) struct Visit {
    /// Counts from 1, for each server.
    pub(super) number: u64,
    pub(super) from: SocketAddr,
    /// Its place among the strangers, until its key is known.
    pub stranger: Option<Stranger>,
    pub key: Option<PublicKey>,
    pub key_name: String,
    /// The key's limit of the rate, bits per second.
    pub rate_bps: Option<u64>,
    /// How the keys of its TLS were exchanged.
    pub(super) key_exchange: Option<&'static str>,
    pub(super) request: Option<String>,
    pub(super) asked: Option<Asked>,
    /// What its transfer has deleted.
    pub(super) deleted: Count,
}

impl Visit {
    pub(super) fn new(number: u64, from: SocketAddr, stranger: Stranger) -> Visit {
        Visit {
            number,
            from,
            stranger: Some(stranger),
            key: None,
            key_name: String::new(),
            rate_bps: None,
            key_exchange: None,
            request: None,
            asked: None,
            deleted: Count::default(),
        }
    }

    /// One whose key is known under this name.
    #[cfg(test)]
    pub(super) fn named(name: &str, asked: Option<Asked>) -> Visit {
        Visit {
            number: 1,
            from: SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), 7),
            stranger: None,
            key: None,
            key_name: name.to_owned(),
            rate_bps: None,
            key_exchange: None,
            request: None,
            asked,
            deleted: Count::default(),
        }
    }

    /// What is done for it.
    pub(super) fn work(&self) -> Option<&'static str> {
        self.asked.map(|asked| work_name(asked.work))
    }

    /// The whole fingerprint of its key.
    pub(super) fn fingerprint(&self) -> Option<String> {
        self.key.map(|key| key.fingerprint())
    }

    /// The comment of its key, where the key is known and has one.
    pub(super) fn key_name(&self) -> Option<&str> {
        Some(self.key_name.as_str()).filter(|name| !name.is_empty())
    }
}

impl fmt::Display for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.from)?;
        if let Some(key) = &self.key {
            write!(f, " {}", short_fingerprint(key))?;
        }
        if let Some(name) = self.key_name() {
            write!(f, " ({name})")?;
        }
        self.request.as_ref().map_or(Ok(()), |request| write!(f, ": {request}"))
    }
}

/// Who asks, for lines of the log that are written while the transfer runs.
pub(super) struct Person {
    pub(super) session: u64,
    pub(super) peer: SocketAddr,
    /// The whole fingerprint of the key.
    pub(super) key: Option<String>,
    pub(super) key_name: Option<String>,
    pub(super) request: Option<String>,
    /// How lines of the log begin.
    pub(super) line: String,
}

impl Person {
    pub(super) fn of(visit: &Visit) -> Person {
        Person {
            session: visit.number,
            peer: visit.from,
            key: visit.fingerprint(),
            key_name: visit.key_name().map(str::to_owned),
            request: visit.request.clone(),
            line: visit.to_string(),
        }
    }
}

/// The start of a key's fingerprint.
pub(super) fn short_fingerprint(key: &PublicKey) -> String {
    key.fingerprint().chars().take(FINGERPRINT_CHARS).collect()
}
