//! The receiver's part: the pieces of a part of what it offers, where the sender asks for them.

use super::asks::{ASKS_MAX, FineAsk};
use super::form::{ListForm, WireForm};
use super::list::SegmentWriter;
use super::names::NameKey;
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
    basis: Option<BasisBytes>,
    form: ListForm,
}

/// Pieces of a basis.
#[derive(Debug)]
pub struct FinePieces {
    /// How they are written.
    pub form: WireForm,
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
        if state.asks.len() == ASKS_MAX || !ask.is_possible() {
            return Err("it asks for more pieces at once than may be");
        }
        if let Some(offer) = state.offers.iter_mut().find(|offer| offer.row == ask.row) {
            offer.asked += ask.len;
            if offer.asked > offer.sizes.basis.max(offer.sizes.file).saturating_mul(AGAIN_MAX) + MORE_MAX {
                return Err("it asks for more pieces than a file has");
            }
            if offer.gives_up_place(&ask) {
                state.in_place.has_moved();
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
                let file = offer.map_or(0, |offer| offer.sizes.file);
                let listed = offer.map_or(0, |offer| offer.compared_with(&ask));
                let form = ListForm::of((listed, file), ask.average, ask.cutting);
                let basis = offer.and_then(|offer| Some(offer.open()?.bytes()));
                return Some(FineJob { ask, basis, form });
            }
            state = self.wait(state);
        }
    }
}

impl FineJob {
    /// The pieces; fewer where the basis ends or cannot be read.
    pub fn list(&self, key: &NameKey) -> FinePieces {
        let mut writer = SegmentWriter::new(self.form);
        if let Some(bytes) = &self.basis {
            let FineAsk { from, len, average, cutting, .. } = self.ask;
            let mut pieces = Pieces::within((average, cutting), from..from.saturating_add(len));
            while let Ok(Some((_, piece))) = pieces.next(bytes) {
                writer.push(piece.len(), key.name(piece));
                if writer.is_full() {
                    break;
                }
            }
        }
        FinePieces { form: self.form.wire(), pieces: writer.take() }
    }
}
