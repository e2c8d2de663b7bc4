//! Which files are compared in place first: what their sizes suggest, and what became of those before.

use super::form::{Cutting, Sizes};

/// Smallest file that is, bytes: the list of a shorter one is about as long as the message around it.
const FILE_MIN: u64 = 16 << 10;
/// What sizes of images and databases are multiples of: a page of memory, and of most file systems.
const PAGE: u64 = 4096;

/// What is known of the files of a session.
#[derive(Debug, Default)]
pub(super) struct InPlace {
    /// The sender knows such lists.
    is_possible: bool,
    /// Files of which something was found so, and those of which too little was.
    found: u64,
    moved: u64,
}

impl InPlace {
    /// The sender knows such lists.
    pub(super) fn is_possible(&mut self) {
        self.is_possible = true;
    }

    /// How a basis is cut. One as long as the file has probably not moved; one that has grown by whole pages
    /// has not where others have shown it: an archive has sizes like that too.
    pub(super) fn cutting(&self, Sizes { basis, file }: Sizes) -> Cutting {
        let is_likely = if basis == file {
            self.found >= self.moved
        } else {
            (basis | file).is_multiple_of(PAGE) && self.found > self.moved
        };
        if self.is_possible && is_likely && basis.min(file) >= FILE_MIN {
            Cutting::InPlace
        } else {
            Cutting::ByContent
        }
    }

    /// Files compared in place have come, and the sender found enough so.
    pub(super) fn were_found(&mut self, files: u64) {
        self.found += files;
    }

    /// The sender found too little so.
    pub(super) fn has_moved(&mut self) {
        self.moved += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_earlier_files_decide() {
        let mut seen = InPlace::default();
        let of = |seen: &InPlace, basis, file| seen.cutting(Sizes { basis, file });
        assert_eq!(of(&seen, 1 << 20, 1 << 20), Cutting::ByContent, "the sender may not know it");
        seen.is_possible();
        assert_eq!(of(&seen, 1 << 20, 1 << 20), Cutting::InPlace);
        assert_eq!(of(&seen, 12_345, 12_345), Cutting::ByContent, "short");
        assert_eq!(of(&seen, 1 << 20, (1 << 20) + 1), Cutting::ByContent);
        assert_eq!(of(&seen, 1 << 20, (1 << 20) + PAGE), Cutting::ByContent, "nothing suggests it yet");
        seen.were_found(1);
        assert_eq!(of(&seen, 1 << 20, (1 << 20) + PAGE), Cutting::InPlace);
        assert_eq!(of(&seen, 1 << 20, (1 << 20) + 10), Cutting::ByContent);
        seen.has_moved();
        assert_eq!(of(&seen, 1 << 20, (1 << 20) + PAGE), Cutting::ByContent);
        assert_eq!(of(&seen, 1 << 20, 1 << 20), Cutting::InPlace);
        seen.has_moved();
        assert_eq!(of(&seen, 1 << 20, 1 << 20), Cutting::ByContent, "too many have moved");
    }
}
