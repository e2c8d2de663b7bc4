//! Which stream takes which frame.

/// How frames are given to streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Allotment {
    /// A stream that is free takes the next frame.
    #[default]
    NextFree,
    /// Each stream has the frames of its part of the data, fixed by their place, as PSockets divides an array
    /// (paper 003): to compare with, because a slow stream holds up all.
    EqualParts,
}

impl Allotment {
    /// Where in the queue the frame is that the stream at `place` of `streams` may take. `parts` are the
    /// frames' places in the data.
    pub(super) fn pick(
        self,
        mut parts: impl Iterator<Item = u64>,
        place: usize,
        streams: usize,
    ) -> Option<usize> {
        match self {
            Allotment::NextFree => parts.next().map(|_| 0),
            Allotment::EqualParts => parts.position(|part| part % (streams.max(1) as u64) == place as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_fixed_and_free_streams_take_anything() {
        let queue = [4u64, 5, 6, 7];
        let pick = |allotment: Allotment, place| allotment.pick(queue.into_iter(), place, 3);
        assert_eq!([0, 1, 2].map(|place| pick(Allotment::NextFree, place)), [Some(0); 3]);
        assert_eq!([0, 1, 2].map(|place| pick(Allotment::EqualParts, place)), [Some(2), Some(0), Some(1)]);
        assert_eq!(Allotment::EqualParts.pick([3, 6].into_iter(), 1, 3), None);
        assert_eq!(Allotment::NextFree.pick([].into_iter(), 0, 3), None);
    }
}
