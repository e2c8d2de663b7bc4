//! A version that the sender has of a basis: whether what is sent next is like it, place by place. Where
//! something was put in, it no longer is, and the list finds what moved.

use std::ops::Range;
use std::os::fd::AsFd;

use rustix::io::pread;

use super::patch::Earlier;

/// What is judged at once, bytes: where something was put in, up to half of it is sent.
const WINDOW: u64 = 1 << 20;
/// Samples of that, and bytes of one: a page of both files each, which are read anyway.
const SAMPLES: u64 = 16;
const SAMPLE: usize = 512;
/// Of the bytes of the samples at most one in this many differs in what is alike: of numbers of which some
/// changed next to none do, and of rows of one length that moved many are equal by chance.
const UNEQUAL_DIVISOR: usize = 8;

/// See the file's head.
#[derive(Debug, Clone)]
pub(crate) struct EarlierVersion {
    file: Earlier,
    /// What was judged last, and whether it was alike.
    looked: Range<u64>,
    is_alike: bool,
}

impl EarlierVersion {
    pub(crate) fn new(file: Earlier) -> EarlierVersion {
        EarlierVersion { file, looked: 0..0, is_alike: false }
    }

    pub(super) fn file(&self) -> &Earlier {
        &self.file
    }

    /// Whether what begins at `from` in the new file is alike, as far as [`EarlierVersion::room`] says.
    pub(super) fn look(&mut self, new: impl AsFd, from: u64) -> bool {
        if !self.looked.contains(&from) {
            self.looked = from..from.saturating_add(WINDOW);
            self.is_alike = self.has_equal_samples(new);
        }
        self.is_alike
    }

    /// What [`EarlierVersion::look`] found of a place.
    pub(super) fn is_alike(&self, at: u64) -> bool {
        self.is_alike && self.looked.contains(&at)
    }

    /// For how many bytes from a place on that holds.
    pub(super) fn room(&self, at: u64) -> u64 {
        if self.looked.contains(&at) { self.looked.end - at } else { WINDOW }
    }

    fn has_equal_samples(&self, new: impl AsFd) -> bool {
        let stride = (self.looked.end - self.looked.start) / SAMPLES;
        let (mut equal, mut seen): (usize, usize) = (0, 0);
        for at in (0..SAMPLES).map(|sample| self.looked.start + sample * stride) {
            let (mut ours, mut theirs) = ([0; SAMPLE], [0; SAMPLE]);
            // What cannot be read is not alike; the reader of the new file reports why.
            let now = pread(&new, &mut ours[..], at).unwrap_or(0);
            let before = pread(&*self.file, &mut theirs[..now], at).unwrap_or(0);
            seen += now;
            equal += ours.iter().zip(&theirs[..before]).filter(|(one, other)| one == other).count();
        }
        seen > 0 && (seen - equal) * UNEQUAL_DIVISOR <= seen
    }
}
