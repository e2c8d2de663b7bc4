//! The sender's part: asking, and taking answers.

use super::asks::{FineAnswer, FineAsk, FineList};
use super::form::ListForm;
use super::list::PieceList;
use super::lists::Lists;
use super::table::{PIECE_MEMORY, PieceTable};

impl Lists {
    /// Takes the answer to the oldest question without one.
    ///
    /// # Errors
    /// Part of a sentence: the peer breaks a rule.
    pub fn answer(&self, answer: FineAnswer<'_>) -> Result<(), &'static str> {
        let FineAnswer { row, from, form, pieces } = answer;
        let form = ListForm::from_wire(form)?;
        let mut kept = self.charge();
        let mut state = self.lock();
        let unasked = "it lists pieces that nobody asked for";
        let ask = *state.asks.unanswered().filter(|ask| (ask.row, ask.from) == (row, from)).ok_or(unasked)?;
        if form.cutting != ask.cutting {
            return Err("it lists pieces that are cut as nobody asked");
        }
        let mut table = PieceTable::from(from, form.cutting);
        for piece in PieceList::new(pieces, form) {
            let (len, name) = piece?;
            // In place the last one is shorter, and not listed so.
            let listed = table.end() - from;
            if listed >= ask.len || !form.cutting.is_in_place() && listed + u64::from(len) > ask.len {
                return Err(unasked);
            }
            if kept.grow(PIECE_MEMORY).is_ok() {
                table.push(len, name);
            } else {
                // What the session has no room for is sent as it is.
                table.skip(len);
            }
        }
        let is_passed = row < state.from_row;
        state.asks.answer(is_passed, FineList::new(form, table, kept));
        drop(state);
        self.nudge();
        Ok(())
    }

    /// Whether another question may be asked now.
    pub(super) fn may_ask(&self) -> bool {
        !self.lock().asks.are_full()
    }

    /// As a sender that looks would.
    #[cfg(any(test, feature = "testing"))]
    pub fn ask_for_tests(&self, ask: FineAsk) {
        self.ask(ask);
    }

    /// Asks.
    pub(super) fn ask(&self, ask: FineAsk) {
        self.lock().asks.push(ask);
        if !self.tell(&ask) {
            let form = ListForm::of((0, 0), ask.average, ask.cutting);
            let nothing = FineList::new(form, PieceTable::from(ask.from, ask.cutting), self.charge());
            self.lock().asks.lose(&ask, nothing);
        }
    }

    /// The answer to a question is of no use any more.
    pub(super) fn forget(&self, ask: &FineAsk) {
        self.lock().asks.forget(ask);
    }

    /// The answer to a question, once it is there.
    pub(super) fn answered(&self, ask: &FineAsk) -> Option<FineList> {
        self.lock().asks.take(ask)
    }
}
