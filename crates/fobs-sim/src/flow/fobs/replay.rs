//! Which packet numbers have been received (protocol 3.5).

use fobs_proto::wire::REPLAY_WINDOW;

/// The receiver's replay window.
#[derive(Debug)]
pub(super) struct Seen {
    words: Vec<u64>,
    next: u64,
}

impl Default for Seen {
    fn default() -> Self {
        Seen { words: vec![0; (REPLAY_WINDOW / 64) as usize], next: 0 }
    }
}

impl Seen {
    /// Whether the number is new, and within the window.
    pub(super) fn insert(&mut self, number: u64) -> bool {
        if number >= self.next {
            if number - self.next >= REPLAY_WINDOW {
                self.words.fill(0);
            } else {
                (self.next..=number).for_each(|n| self.words[Self::word(n)] &= !(1 << (n % 64)));
            }
            self.next = number + 1;
        } else if self.next - number > REPLAY_WINDOW {
            return false;
        }
        let (word, bit) = (Self::word(number), 1 << (number % 64));
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    fn word(number: u64) -> usize {
        (number % REPLAY_WINDOW / 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_new_once() {
        let mut seen = Seen::default();
        assert!([5, 3, 4, 0].iter().all(|n| seen.insert(*n)));
        assert!([5, 3, 4, 0].iter().all(|n| !seen.insert(*n)));
        assert!(seen.insert(REPLAY_WINDOW));
        assert!(!seen.insert(0), "too old to tell");
        assert!(seen.insert(1));
        assert!(seen.insert(10 * REPLAY_WINDOW) && !seen.insert(5) && seen.insert(10 * REPLAY_WINDOW - 5));
    }
}
