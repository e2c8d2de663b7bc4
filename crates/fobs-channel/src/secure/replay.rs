//! The replay window: packet numbers already received (protocol 3.5).

pub use fobs_model::units::REPLAY_WINDOW;

const WORD_BITS: u64 = u64::BITS as u64;
/// One word more than the window has bits for: the word of the largest number is only partly used.
const WORDS: usize = (REPLAY_WINDOW / WORD_BITS) as usize + 1;

/// A window over packet numbers that distinguishes new ones from received ones. [`check`](Self::check) comes
/// before authentication and [`insert`](Self::insert) after it, because a forged packet must not change the
/// window.
#[derive(Debug, Clone)]
pub struct ReplayWindow {
    /// Bit `n % 64` of word `n / 64 % WORDS` is packet number `n`, for the words from that of `largest`
    /// downwards.
    words: Box<[u64; WORDS]>,
    largest: Option<u64>,
}

impl ReplayWindow {
    /// An empty window.
    pub fn new() -> ReplayWindow {
        ReplayWindow { words: Box::new([0; WORDS]), largest: None }
    }

    /// Whether a packet of this number may be accepted: not received yet, and not older than the window.
    pub fn check(&self, packet_number: u64) -> bool {
        match self.largest {
            Some(largest) if packet_number <= largest => {
                largest - packet_number <= REPLAY_WINDOW
                    && self.words[slot(packet_number)] & bit(packet_number) == 0
            }
            _ => true,
        }
    }

    /// Marks an authenticated packet's number as received. A number below the window changes nothing.
    pub fn insert(&mut self, packet_number: u64) {
        match self.largest {
            Some(largest) if packet_number <= largest => {
                if largest - packet_number > REPLAY_WINDOW {
                    return;
                }
            }
            Some(largest) => {
                let entered = packet_number / WORD_BITS - largest / WORD_BITS;
                if entered >= WORDS as u64 {
                    self.words.fill(0);
                } else {
                    for step in 0..entered {
                        self.words[slot(packet_number - step * WORD_BITS)] = 0;
                    }
                }
                self.largest = Some(packet_number);
            }
            None => self.largest = Some(packet_number),
        }
        self.words[slot(packet_number)] |= bit(packet_number);
    }
}

impl Default for ReplayWindow {
    fn default() -> Self {
        ReplayWindow::new()
    }
}

fn slot(packet_number: u64) -> usize {
    (packet_number / WORD_BITS % WORDS as u64) as usize
}

fn bit(packet_number: u64) -> u64 {
    1 << (packet_number % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The model of the window: all numbers received, and the largest.
    #[derive(Default)]
    struct Model {
        seen: BTreeSet<u64>,
    }

    impl Model {
        fn check(&self, packet_number: u64) -> bool {
            let largest = self.seen.last().copied().unwrap_or(0);
            packet_number.saturating_add(REPLAY_WINDOW) >= largest && !self.seen.contains(&packet_number)
        }
    }

    #[test]
    fn both_edges_of_the_window() {
        let mut window = ReplayWindow::new();
        let largest = 1_000_000;
        window.insert(largest);
        assert!(!window.check(largest));
        assert!(window.check(largest + 1));
        assert!(window.check(largest - REPLAY_WINDOW));
        assert!(!window.check(largest - REPLAY_WINDOW - 1));
        window.insert(largest - REPLAY_WINDOW);
        assert!(!window.check(largest - REPLAY_WINDOW));
        // One step on, the lowest number has left the window and stays refused.
        window.insert(largest + 1);
        assert!(!window.check(largest - REPLAY_WINDOW));
        assert!(window.check(largest - REPLAY_WINDOW + 1));
    }

    #[test]
    fn the_ends_of_the_number_space() {
        let mut window = ReplayWindow::new();
        assert!(window.check(0));
        window.insert(0);
        assert!(!window.check(0));
        window.insert(u64::MAX);
        assert!(!window.check(u64::MAX));
        assert!(!window.check(0));
        assert!(window.check(u64::MAX - 1));
    }

    /// Steps relative to the largest so far: mostly near, sometimes at the edges, sometimes far.
    fn steps() -> impl Strategy<Value = Vec<i64>> {
        let window = REPLAY_WINDOW as i64;
        let step = prop_oneof![
            6 => -200..200_i64,
            2 => -window - 130..-window + 130,
            1 => window - 130..window + 130,
            1 => -2 * window..2 * window,
        ];
        proptest::collection::vec(step, 1..400)
    }

    proptest! {
        #[test]
        fn behaves_as_a_set(start in 0..3 * REPLAY_WINDOW, steps in steps()) {
            let mut window = ReplayWindow::new();
            let mut model = Model::default();
            let mut largest = start;
            for step in steps {
                let packet_number = largest.saturating_add_signed(step);
                prop_assert_eq!(window.check(packet_number), model.check(packet_number), "at {}", packet_number);
                if model.check(packet_number) {
                    window.insert(packet_number);
                    model.seen.insert(packet_number);
                    largest = largest.max(packet_number);
                }
                prop_assert!(!window.check(packet_number));
            }
            for near in largest.saturating_sub(300)..largest + 3 {
                prop_assert_eq!(window.check(near), model.check(near), "at {}", near);
            }
        }
    }
}
