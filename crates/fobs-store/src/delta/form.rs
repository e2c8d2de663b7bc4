//! How a basis is cut into pieces, and how a list of them is written.

use super::cut::{Average, cut};
use super::names::NameLen;

/// How long a basis is, and the file that is to be made of it, bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) basis: u64,
    pub(super) file: u64,
}

/// Where a file is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cutting {
    /// Where its content says so: what moved is found.
    #[default]
    ByContent,
    /// At multiples of one length: what has its old place is found, by shorter lists and without a rolling
    /// hash.
    InPlace,
}

impl Cutting {
    /// As it is sent.
    pub fn from_wire(in_place: bool) -> Cutting {
        if in_place { Cutting::InPlace } else { Cutting::ByContent }
    }

    /// As it is sent.
    pub fn is_in_place(self) -> bool {
        self == Cutting::InPlace
    }

    /// Where the piece after one that ends at a place is listed to begin: in place the last one is not listed
    /// as shorter.
    pub(super) fn next_begins(self, ended: u64, average: Average) -> u64 {
        match self {
            Cutting::ByContent => ended,
            Cutting::InPlace => ended.next_multiple_of(average.bytes() as u64),
        }
    }

    /// Length of the piece that begins `data`, which ends the file or has [`Average::longest`] bytes at
    /// least; 0 of nothing.
    pub(super) fn cut(self, data: &[u8], average: Average) -> usize {
        match self {
            Cutting::ByContent => cut(data, average),
            Cutting::InPlace => data.len().min(average.bytes()),
        }
    }
}

/// The form of a list as it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireForm {
    /// How long pieces are ([`Average::log`]): on average, or all but the last.
    pub average: u8,
    /// How many bytes a name has.
    pub names: u8,
    /// Whether the basis is cut at multiples of that length: then names alone are listed.
    pub in_place: bool,
}

/// The form of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListForm {
    pub(super) average: Average,
    pub(super) names: NameLen,
    pub(super) cutting: Cutting,
}

impl ListForm {
    /// Of the list of a basis of `listed` bytes, in which the pieces of `sought` bytes are looked for.
    pub(super) fn of((listed, sought): (u64, u64), average: Average, cutting: Cutting) -> ListForm {
        let names = match cutting {
            Cutting::ByContent => NameLen::of(listed, sought, average),
            Cutting::InPlace => NameLen::in_place(listed, average),
        };
        ListForm { average, names, cutting }
    }

    /// That of a peer.
    ///
    /// # Errors
    /// Part of a sentence: there is no such form.
    pub fn from_wire(wire: WireForm) -> Result<ListForm, &'static str> {
        let WireForm { average, names, in_place } = wire;
        let average = Average::from_log(average).ok_or("it lists pieces of a length that cannot be")?;
        let names = NameLen::from_bytes(names).ok_or("it names pieces as none can be named")?;
        Ok(ListForm { average, names, cutting: Cutting::from_wire(in_place) })
    }

    /// As it is sent.
    pub fn wire(self) -> WireForm {
        WireForm {
            average: self.average.log(),
            names: self.names.bytes(),
            in_place: self.cutting.is_in_place(),
        }
    }

    /// The longest piece, bytes.
    pub fn longest(self) -> usize {
        match self.cutting {
            Cutting::ByContent => self.average.longest(),
            Cutting::InPlace => self.average.bytes(),
        }
    }
}
