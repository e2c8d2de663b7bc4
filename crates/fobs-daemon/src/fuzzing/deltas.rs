//! What a peer says of a basis (protocol 7.9): lists of pieces, and patches.

use std::io::Write;

use super::input::Input;
use fobs_model::budget::MemoryBudget;
use fobs_store::delta::{
    Cutting, FineAnswer, FineAsk, ListForm, ListPart, Lists, PieceList, WireForm, apply_any,
};

/// Most messages of one fuzzed session.
const MESSAGES_MAX: usize = 16;
/// What it may keep, bytes.
const MEMORY: usize = 1 << 20;
/// Questions that are asked, one of the beginning of each row, of this length.
const ASKS: u64 = 4;
const ASK_LEN: u64 = 64 << 10;
/// Bytes of the basis that patches are of.
const BASIS_LEN: usize = 5000;

/// `[messages u8, messages, patch]`, a message being `[row u8, first u16, average u8, names u8, len u16,
/// pieces]`.
/// The highest bit of `row` says that it is the last, that of `names` that it is an answer, that of `average`
/// that it is cut in place, as questions about odd rows want it. A patch is
/// `[data_len u16, records_len u8, body]`.
pub(super) fn deltas(input: &[u8]) {
    let mut input = Input(input);
    let budget = MemoryBudget::of(MEMORY);
    let lists = Lists::within(&budget, Box::new(|_| true));
    for row in 0..ASKS {
        let cutting = Cutting::from_wire(row % 2 == 1);
        lists.ask_for_tests(FineAsk::closely(row, (0, ASK_LEN), cutting));
    }
    let messages = usize::from(input.byte().unwrap_or(0)).min(MESSAGES_MAX);
    for _ in 0..messages {
        let Some(row) = input.byte() else { break };
        let first = u64::from(input.u16());
        let average = input.byte().unwrap_or(0);
        let names = input.byte().unwrap_or(0);
        let len = usize::from(input.u16());
        let pieces = input.take(len);
        let (is_answer, names) = (names & 0x80 != 0, names & 0x7f);
        let form = WireForm { average: average & 0x7f, names, in_place: average & 0x80 != 0 };
        if let Ok(form) = ListForm::from_wire(form) {
            let list = PieceList::new(pieces, form);
            assert!(list.flatten().all(|(len, _)| (1..=form.longest()).contains(&(len as usize))));
        }
        let (last, row) = (row & 0x80 != 0, u64::from(row & 0x7f));
        let taken = if is_answer {
            lists.answer(FineAnswer { row, from: first, form, pieces })
        } else {
            lists.take(ListPart { row, first, form, pieces, last })
        };
        if taken.is_err() {
            break;
        }
        assert!(budget.used() <= MEMORY);
    }
    patch(&mut input);
}

fn patch(input: &mut Input<'_>) {
    let (data_len, records_len) = (usize::from(input.u16()), usize::from(input.byte().unwrap_or(0)));
    let mut basis = tempfile::tempfile().expect("a temporary file");
    basis.write_all(&[7; BASIS_LEN]).expect("it can be written");
    if let Ok(copied) = apply_any(input.0, (data_len, records_len), basis.into()) {
        assert!(copied <= data_len as u64, "{copied} of {data_len}");
    }
}
