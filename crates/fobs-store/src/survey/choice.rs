//! The receiver's answers to the rows of a listing, and a batch of them as bytes (protocol 7.8).

use blake3::hazmat::ChainingValue;
use serde::{Deserialize, Serialize};

use crate::record::bounded_reason;
use crate::tree_hash::GROUP;

/// Most values of a stack: one for each bit of a file's length in groups, and one that waits.
const STACK_MAX: usize = 56;
/// A message of choices is complete once it is this long, bytes: as base64 it is far below a frame.
pub const CHOICES_LEN: usize = 128 << 10;

/// What is to happen to an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// It is sent.
    Send,
    /// It is not sent: what stands there is to stay.
    Skip,
    /// It is not sent: an earlier run of this transfer stored it.
    Done,
    /// The file goes on where an earlier run ended.
    Resume {
        /// Where, bytes: above 0, a multiple of 64 KiB.
        len: u64,
        /// The hash tree of the part before.
        stack: Vec<ChainingValue>,
        /// The sender hashes its own part before, and sends the whole file if it differs.
        check: bool,
    },
    /// The receiver cannot store it, and says why. It is not sent.
    Failed(String),
    /// It is not sent: what stands there is the same, so that the source can be removed.
    Same,
}

/// What about an entry differs from what stands at the destination: a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Changes(pub u32);

/// The bits, each with its number in protocol 7.8: the compiler refuses two of one number.
#[derive(Debug, Clone, Copy)]
enum Bit {
    New = 0,
    Content = 1,
    Size = 2,
    Time = 3,
    TimeNow = 4,
    Permissions = 5,
    Owner = 6,
    Group = 7,
    Acl = 8,
    Xattrs = 9,
    Transfer = 10,
    Local = 11,
    Basis = 12,
    AccessTime = 13,
    Listed = 14,
    StartsOver = 15,
    /// Not before the others: release 0.2.0 reads 16 bits, and is never told of this one.
    Supposed = 16,
    /// Only for a sender that knows directories of which not all is listed, which reads more bits, too.
    LeftOut = 17,
}

impl Changes {
    /// Nothing had its name.
    pub const NEW: Changes = Changes::of(Bit::New);
    /// Its content is compared and differs, or what a link or device is.
    pub const CONTENT: Changes = Changes::of(Bit::Content);
    /// Its size.
    pub const SIZE: Changes = Changes::of(Bit::Size);
    /// Its time, to the source's.
    pub const TIME: Changes = Changes::of(Bit::Time);
    /// Its time, to that of the transfer.
    pub const TIME_NOW: Changes = Changes::of(Bit::TimeNow);
    /// Its permissions.
    pub const PERMISSIONS: Changes = Changes::of(Bit::Permissions);
    /// Its owner.
    pub const OWNER: Changes = Changes::of(Bit::Owner);
    /// Its group.
    pub const GROUP: Changes = Changes::of(Bit::Group);
    /// Its ACL.
    pub const ACL: Changes = Changes::of(Bit::Acl);
    /// Its extended attributes.
    pub const XATTRS: Changes = Changes::of(Bit::Xattrs);
    pub(super) const TRANSFER: Changes = Changes::of(Bit::Transfer);
    pub(super) const LOCAL: Changes = Changes::of(Bit::Local);
    /// It is, or begins as, an entry of `--link-dest`.
    pub const BASIS: Changes = Changes::of(Bit::Basis);
    /// Its access time.
    pub const ACCESS_TIME: Changes = Changes::of(Bit::AccessTime);
    /// What stands where the file is to come is listed piece by piece (protocol 7.9).
    pub const LISTED: Changes = Changes::of(Bit::Listed);
    /// An earlier run had some of the file, and the source changed since: it is sent anew.
    pub const STARTS_OVER: Changes = Changes::of(Bit::StartsOver);
    /// What stands under another name is supposed to be the file, by size and time (protocol 7.9).
    pub const SUPPOSED: Changes = Changes::of(Bit::Supposed);

    /// The rules of the sync leave it out; what else is among these says which one did, and of nothing else.
    pub const LEFT_OUT: Changes = Changes::of(Bit::LeftOut);

    const fn of(bit: Bit) -> Changes {
        Changes(1 << bit as u32)
    }

    /// Whether all of `changes` are among these.
    pub fn contains(self, changes: Changes) -> bool {
        self.0 & changes.0 == changes.0
    }

    /// Adds `changes`.
    pub fn insert(&mut self, changes: Changes) {
        self.0 |= changes.0;
    }
}

/// The answer to a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// What is to happen; without effect on a row that is not decided.
    pub decision: Decision,
    /// Why, for display.
    pub changes: Changes,
}

impl From<Decision> for Choice {
    fn from(decision: Decision) -> Choice {
        Choice { decision, changes: Changes::default() }
    }
}

impl Choice {
    /// The rules for a choice by itself.
    fn check(&self) -> Result<(), &'static str> {
        match &self.decision {
            Decision::Resume { len, stack, .. } => {
                if *len == 0 || *len > i64::MAX as u64 || !len.is_multiple_of(GROUP) {
                    return Err("a file is to go on at a place where it cannot");
                }
                if stack.len() <= STACK_MAX { Ok(()) } else { Err("the hash tree of a file is too deep") }
            }
            Decision::Failed(reason) if bounded_reason(reason).len() < reason.len() => {
                Err("a reason is longer than 4096 bytes")
            }
            _ => Ok(()),
        }
    }

    /// Appends the choice's bytes. The receiver's own choices always pass their check.
    pub fn encode(&self, to: &mut Vec<u8>) {
        debug_assert_eq!(self.check(), Ok(()), "{self:?}");
        postcard::to_io(self, to).expect("writing to a Vec does not fail");
    }

    /// Splits the first choice off `bytes`. Returns it and the rest.
    ///
    /// # Errors
    /// One sentence's part: it is no choice or breaks a rule.
    pub fn decode(bytes: &[u8]) -> Result<(Choice, &[u8]), &'static str> {
        let (choice, rest) =
            postcard::take_from_bytes::<Choice>(bytes).map_err(|_| "a decision cannot be read")?;
        choice.check().map(|()| (choice, rest))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(decision: Decision) -> Result<Choice, &'static str> {
        let bytes = postcard::to_allocvec(&Choice::from(decision)).expect("it can be encoded");
        Choice::decode(&bytes).map(|(choice, rest)| {
            assert!(rest.is_empty());
            choice
        })
    }

    #[test]
    fn a_choice_reads_back_as_written() {
        for decision in [
            Decision::Send,
            Decision::Skip,
            Decision::Done,
            Decision::Resume { len: GROUP, stack: vec![[7; 32]; 2], check: true },
            Decision::Failed("no room".to_owned()),
            Decision::Same,
        ] {
            let choice = Choice { decision, changes: Changes(0x0102) };
            let mut bytes = Vec::new();
            choice.encode(&mut bytes);
            bytes.push(0xaa);
            assert_eq!(Choice::decode(&bytes), Ok((choice, &[0xaa][..])));
        }
    }

    #[test]
    fn choices_out_of_bounds_are_refused() {
        let resume = |len, values| Decision::Resume { len, stack: vec![[0; 32]; values], check: false };
        for bad in [
            resume(0, 2),
            resume(GROUP + 1, 2),
            resume(1 << 63, 2),
            resume(GROUP, STACK_MAX + 1),
            Decision::Failed("r".repeat(5000)),
        ] {
            assert!(decoded(bad.clone()).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_choice_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok((choice, rest)) = Choice::decode(&bytes) {
                prop_assert!(choice.check().is_ok() && rest.len() < bytes.len());
            }
        }
    }
}
