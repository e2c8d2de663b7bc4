//! What keys follow from: the strings that a derivation names, and how many guesses a session bears.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::hkdf::{self, HKDF_SHA256, Prk};

use super::cipher::Cipher;

/// How keys follow from the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySchedule {
    /// That of programs without the feature `keys2`: labels name neither cipher nor version, and what keys of
    /// streams come from yields every key of the session.
    First,
    /// Labels name both, and the keys of a stream that was used cannot be derived again.
    Second,
}

/// The info strings of one session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Labels {
    schedule: KeySchedule,
    pub(super) cipher: Cipher,
}

impl Labels {
    /// Those of this schedule.
    pub(super) fn new(schedule: KeySchedule, cipher: Cipher) -> Labels {
        Labels { schedule, cipher }
    }

    fn info(self, what: &'static str) -> [&'static [u8]; 4] {
        match self.schedule {
            KeySchedule::First => [b"fobs ", what.as_bytes(), b"", b""],
            KeySchedule::Second => [b"fobs/1 ", self.cipher.name().as_bytes(), b" ", what.as_bytes()],
        }
    }

    /// Bytes that follow from a secret.
    pub(super) fn fill(self, secret: &Prk, what: &'static str, output: &mut [u8]) {
        secret
            .expand(&self.info(what), OutputLen(output.len()))
            .and_then(|material| material.fill(output))
            .expect("the output is far shorter than 255 hashes");
    }

    /// A secret that follows from a secret.
    pub(super) fn next(self, secret: &Prk, what: &'static str) -> Prk {
        next_secret(secret, &self.info(what))
    }
}

struct OutputLen(usize);

impl hkdf::KeyType for OutputLen {
    fn len(&self) -> usize {
        self.0
    }
}

pub(super) fn next_secret(secret: &Prk, info: &[&[u8]]) -> Prk {
    secret.expand(info, HKDF_SHA256).expect("one hash of output is always allowed").into()
}

/// How many packets and records of a session have failed to open. Clones count together.
#[derive(Debug, Clone)]
pub(super) struct Failures {
    count: Arc<AtomicU64>,
    max: u64,
}

impl Failures {
    /// None yet.
    pub(super) fn at_most(max: u64) -> Failures {
        Failures { count: Arc::default(), max }
    }

    pub(super) fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The limit, once it is reached.
    pub(super) fn spent(&self) -> Option<u64> {
        (self.count.load(Ordering::Relaxed) >= self.max).then_some(self.max)
    }
}
