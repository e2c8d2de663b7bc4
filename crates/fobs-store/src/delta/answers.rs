//! The receiver's part: the short pieces of a part of what it offers, where the sender asks for them.

use super::asks::{ASK_MAX, ASKS_MAX, FineAsk};
use super::cut::Average;
use super::list::SegmentWriter;
use super::names::{NameKey, NameLen};
use super::offers::Offers;
use super::pieces::Pieces;
use super::readable::BasisBytes;

/// How often all of a basis may be asked for, and how much more, bytes: parts overlap.
const AGAIN_MAX: u64 = 4;
const MORE_MAX: u64 = 64 << 20;

/// A question to answer.
#[derive(Debug)]
pub struct FineJob {
    /// The question.
    pub ask: FineAsk,
    /// None once the file has ended.
    basis: Option<(BasisBytes, NameLen)>,
}

/// Short pieces of a basis.
#[derive(Debug)]
pub struct FinePieces {
    /// How it is cut ([`Average::log`]).
    pub average: u8,
    /// How many bytes a name has.
    pub names: u8,
    /// The pieces ([`PieceList`](super::PieceList)).
    pub pieces: Vec<u8>,
}

impl Offers {
    /// The sender asks.
    ///
    /// # Errors
    /// Part of a sentence: the peer breaks a rule.
    pub fn ask(&self, ask: FineAsk) -> Result<(), &'static str> {
        let mut state = self.lock();
        if state.asks.len() == ASKS_MAX || !(1..=ASK_MAX).contains(&ask.len) {
            return Err("it asks for more pieces at once than may be");
        }
        if let Some(offer) = state.offers.iter_mut().find(|offer| offer.row == ask.row) {
            offer.asked += ask.len;
            if offer.asked > offer.sizes.basis.max(offer.sizes.file).saturating_mul(AGAIN_MAX) + MORE_MAX {
                return Err("it asks for more pieces than a file has");
            }
        }
        state.asks.push_back(ask);
        self.notify();
        Ok(())
    }

    /// The next question; waits for it. `None`: the session is over.
    pub fn next_ask(&self) -> Option<FineJob> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(ask) = state.asks.pop_front() {
                let offer = state.offers.iter().find(|offer| offer.row == ask.row);
                let names = |file| NameLen::of(ask.len, file, Average::FINEST);
                let basis = offer.and_then(|offer| Some((offer.open()?.bytes(), names(offer.sizes.file))));
                return Some(FineJob { ask, basis });
            }
            state = self.wait(state);
        }
    }
}

impl FineJob {
    /// The pieces; fewer where the basis ends or cannot be read.
    pub fn list(&self, key: &NameKey) -> FinePieces {
        let average = Average::FINEST;
        let names = self.basis.as_ref().map_or(NameLen::of(0, 0, average), |(_, names)| *names);
        let mut writer = SegmentWriter::new(names);
        if let Some((bytes, _)) = &self.basis {
            let FineAsk { from, len, .. } = self.ask;
            let mut pieces = Pieces::within(average, from..from.saturating_add(len));
            while let Ok(Some((_, piece))) = pieces.next(bytes) {
                writer.push(piece.len(), key.name(piece));
                if writer.is_full() {
                    break;
                }
            }
        }
        FinePieces { average: average.log(), names: names.bytes(), pieces: writer.take() }
    }
}
