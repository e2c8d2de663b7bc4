//! How many chunks beyond the stored ones have room: few at first, and more where those that arrive are
//! stored at once. What waits for a slow disk needs no more.

/// Most chunks of the first credit: 1.6 bandwidth-delay products of 10 Gbit/s at 100 ms.
const FIRST_MAX: u32 = 52;
/// Chunks that wait to be stored at a disk that keeps up: three writers have as many at work and next.
const BACKLOG_USUAL: u16 = 12;

/// Chunks that have room, from the first that is not stored on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Credit {
    chunks: u32,
    most: u32,
}

/// The credit before anything is stored of a receiver that may have room for `most` chunks.
pub fn first_credit(most: u32) -> u32 {
    most.min(FIRST_MAX)
}

impl Credit {
    /// The first one.
    pub(super) fn new(most: u32) -> Credit {
        Credit { chunks: first_credit(most), most }
    }

    /// How many.
    pub(super) fn chunks(self) -> u32 {
        self.chunks
    }

    /// There is room for `most` from now on.
    pub(super) fn set_most(&mut self, most: u32) {
        *self = Credit { chunks: self.chunks.min(most), most };
    }

    /// A chunk is stored, while `backlog` others are complete and wait for that. The credit doubles in the
    /// time in which all of it is stored.
    pub(super) fn on_stored(&mut self, backlog: u16) {
        if self.chunks < self.most && backlog <= BACKLOG_USUAL {
            self.chunks += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_where_chunks_are_stored_as_they_come() {
        let mut credit = Credit::new(210);
        assert_eq!(credit.chunks(), FIRST_MAX);
        (0..FIRST_MAX).for_each(|_| credit.on_stored(BACKLOG_USUAL));
        assert_eq!(credit.chunks(), 2 * FIRST_MAX);
        (0..1000).for_each(|_| credit.on_stored(0));
        assert_eq!(credit.chunks(), 210);
    }

    #[test]
    fn what_waits_for_a_slow_disk_gets_no_more() {
        let mut credit = Credit::new(210);
        (0..1000).for_each(|_| credit.on_stored(BACKLOG_USUAL + 1));
        assert_eq!(credit.chunks(), FIRST_MAX);
    }

    #[test]
    fn little_memory_is_never_exceeded() {
        for most in [1, 13, FIRST_MAX] {
            let mut credit = Credit::new(most);
            credit.on_stored(0);
            assert_eq!((credit.chunks(), first_credit(most)), (most, most));
        }
    }
}
