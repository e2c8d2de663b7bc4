//! What a later session asks of the one that holds the destination.

use std::sync::Weak;

use super::book::Book;
use super::format::{Claim, Due, HEADER_LEN, Salt, decode_claim, encode_claim};
use super::store::Store;

/// Tells whether another session takes over this one's destination. Does not hold the lock.
#[derive(Clone)]
pub struct TakeoverWatch {
    book: Weak<Book>,
    generation: u64,
}

impl TakeoverWatch {
    pub(super) fn new(book: Weak<Book>, generation: u64) -> TakeoverWatch {
        TakeoverWatch { book, generation }
    }

    /// What a later session asks of this one.
    pub fn asked(&self) -> Asked {
        let Some(claim) = self.claim() else { return Asked::Nothing };
        match claim.due {
            _ if claim.generation <= self.generation => Asked::Nothing,
            Due::Now => Asked::ToEnd,
            Due::IfAbsent if claim.refused < claim.generation => Asked::ToEndIfAbsent,
            Due::IfAbsent => Asked::Nothing,
        }
    }

    /// Tells the one that asked last that this session's client is here.
    pub fn refuse(&self) {
        if let (Some(book), Some(claim)) = (self.book.upgrade(), self.claim()) {
            let (bytes, at) = encode_claim(book.salt(), &Claim { refused: claim.generation, ..claim });
            // Without it the other one waits longer before it gives up.
            let _ = book.store().write_at(&bytes, at);
        }
    }

    fn claim(&self) -> Option<Claim> {
        self.book.upgrade().map(|book| read_claim(book.store(), book.salt()))
    }
}

/// What a later session asks of one that holds the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Nothing.
    Nothing,
    /// To end: it is of the same command.
    ToEnd,
    /// To end if its client is absent: it is of the same client and transfer.
    ToEndIfAbsent,
}

pub(super) fn read_claim(store: &dyn Store, salt: &Salt) -> Claim {
    let mut header = [0; HEADER_LEN];
    let filled = store.read_at(&mut header, 0).unwrap_or(0);
    decode_claim(salt, &header[..filled]).unwrap_or_default()
}
