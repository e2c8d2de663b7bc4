//! How short pieces are looked for between long ones that are where they were: in their place too, or by
//! content, where lines were put in and others taken out.

use super::form::Cutting;

/// Gaps of each kind that are looked at before one kind is preferred.
const SAMPLE: u32 = 2;
/// Until then one gap of this number is looked at in place: by content nothing that moved is missed.
const PLACE_EVERY_AT_FIRST: u32 = 4;
/// From then on one gap of this number is looked at in the other way.
const OTHER_EVERY: u32 = 16;
/// By content finds this much more of a gap where something moved. In place finds more around what was
/// written over, by shorter lists.
const CLEARLY: f64 = 0.125;
/// What was seen before counts half after this number of bytes.
const LATELY: u64 = 16 << 20;

/// What was found in the gaps of a session's files.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    asked: u32,
    by_content: Looked,
    in_place: Looked,
}

#[derive(Debug, Default)]
struct Looked {
    gaps: u32,
    bytes: u64,
    found: u64,
}

impl Looked {
    /// Which part was found, once that means something.
    fn share(&self) -> Option<f64> {
        (self.gaps >= SAMPLE).then(|| self.found as f64 / self.bytes.max(1) as f64)
    }
}

impl Gaps {
    /// How the next one is looked at.
    pub(super) fn cutting(&mut self) -> Cutting {
        self.asked = self.asked.wrapping_add(1);
        let (usual, every) = match (self.by_content.share(), self.in_place.share()) {
            (Some(by_content), Some(in_place)) if by_content <= in_place + CLEARLY => {
                (Cutting::InPlace, OTHER_EVERY)
            }
            (Some(_), Some(_)) => (Cutting::ByContent, OTHER_EVERY),
            _ => (Cutting::ByContent, PLACE_EVERY_AT_FIRST),
        };
        match (usual, self.asked.is_multiple_of(every)) {
            (cutting, false) => cutting,
            (Cutting::ByContent, true) => Cutting::InPlace,
            (Cutting::InPlace, true) => Cutting::ByContent,
        }
    }

    /// One of `bytes` was looked at, of which this number were found.
    pub(super) fn looked(&mut self, cutting: Cutting, bytes: u64, found: u64) {
        let looked = match cutting {
            Cutting::ByContent => &mut self.by_content,
            Cutting::InPlace => &mut self.in_place,
        };
        looked.gaps = looked.gaps.saturating_add(1);
        looked.bytes += bytes;
        looked.found += found;
        if looked.bytes > LATELY {
            looked.bytes /= 2;
            looked.found /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `gaps` in which each way finds a share in percent, those that are looked at by content.
    fn by_content(gaps: u32, (by_content, in_place): (u64, u64), seen: &mut Gaps) -> u32 {
        let mut count = 0;
        for _ in 0..gaps {
            let cutting = seen.cutting();
            let found = if cutting == Cutting::ByContent { by_content } else { in_place };
            count += u32::from(cutting == Cutting::ByContent);
            seen.looked(cutting, 100_000, found * 1000);
        }
        count
    }

    #[test]
    fn what_finds_more_is_preferred_and_the_other_tried_again() {
        let mut seen = Gaps::default();
        assert_eq!(by_content(4, (90, 10), &mut seen), 3, "nothing is known");
        assert!((140..160).contains(&by_content(160, (90, 10), &mut seen)));
        // Other files come, in which pages are written over.
        by_content(3000, (60, 85), &mut seen);
        assert!((1..20).contains(&by_content(160, (60, 85), &mut seen)));
        assert!((1..20).contains(&by_content(160, (85, 85), &mut seen)), "shorter lists are better");
        by_content(3000, (90, 10), &mut seen);
        assert!((140..160).contains(&by_content(160, (90, 10), &mut seen)));
    }
}
