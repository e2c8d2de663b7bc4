//! Cuts, lists and patches by themselves, from any peer.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use proptest::prelude::*;

use super::cut::cut;
use super::readable::BasisBytes;
use super::*;
use crate::chunk::{CHUNK_DATA_MAX, RECORDS_MAX};
use fobs_model::budget::MemoryBudget;
use fobs_model::deltas::{Because, Origin};

fn content(len: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut data);
    data
}

fn file(data: &[u8]) -> Arc<OwnedFd> {
    let mut file: File = tempfile::tempfile().expect("a file");
    file.write_all(data).expect("it can be written");
    Arc::new(file.into())
}

/// Where a content is cut.
fn cuts(data: &[u8], average: Average) -> Vec<usize> {
    let (mut at, mut cuts) = (0, Vec::new());
    while at < data.len() {
        at += cut(&data[at..], average);
        cuts.push(at);
    }
    cuts
}

#[test]
fn cuts_follow_from_content_alone() {
    for log in 8..=18 {
        let average = Average::from_log(log).expect("a length that can be");
        let data = content(60 * average.bytes(), u64::from(log));
        let all = cuts(&data, average);
        let mean = data.len() / all.len();
        assert!((average.bytes() / 2..average.bytes() * 2).contains(&mean), "{log}: {mean}");
        let moved = cuts(&[&content(777, 1)[..], &data].concat(), average);
        let kept = all.iter().filter(|cut| moved.contains(&(*cut + 777))).count();
        assert!(kept + 8 > all.len(), "{log}: {kept} of {}", all.len());
        // What ends the file may be shorter.
        let lens = all[..all.len() - 1].windows(2).map(|pair| pair[1] - pair[0]);
        assert!(lens.clone().all(|len| (average.bytes() / 4..=average.longest()).contains(&len)));
    }
    assert_eq!(cut(b"", Average::of_file(0)), 0);
    assert_eq!(cut(b"short", Average::of_file(0)), 5);
    assert_eq!((Average::from_log(7), Average::from_log(19)), (None, None));
}

#[test]
fn the_cuts_are_those_of_the_protocol() {
    // Peers of other versions cut in the same places, or find nothing.
    let data: Vec<u8> = (0..200_000_u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let hash = |log| {
        let average = Average::from_log(log).expect("a length that can be");
        let cuts: Vec<u8> = cuts(&data, average).iter().flat_map(|cut| (*cut as u64).to_le_bytes()).collect();
        blake3::hash(&cuts).to_hex()[..16].to_owned()
    };
    assert_eq!([hash(12), hash(14), hash(16)], ["e652dd0b45216754", "6c3130d30fb75f2c", "9be891019441afb6"]);
}

#[test]
fn pieces_are_cut_the_same_however_they_are_read() {
    let data = content(2_000_000, 3);
    let average = Average::of_file(data.len() as u64);
    let basis = file(&data);
    let mut reader = pieces::Pieces::new((average, Cutting::ByContent), 0);
    let mut found = Vec::new();
    while let Some((at, piece)) = reader.next(&basis).expect("it can be read") {
        assert_eq!(piece, &data[at as usize..at as usize + piece.len()]);
        found.push(at as usize + piece.len());
    }
    assert_eq!(found, cuts(&data, average));
}

const NAMES: u8 = 4;

fn form_of(average: u8) -> WireForm {
    WireForm { average, names: NAMES, in_place: false }
}

fn segment(pieces: &[(usize, PieceName)]) -> Vec<u8> {
    let mut writer = SegmentWriter::new(ListForm::from_wire(form_of(12)).expect("a form that can be"));
    pieces.iter().for_each(|(len, name)| writer.push(*len, *name));
    writer.take()
}

fn lists_within(budget: &MemoryBudget) -> Lists {
    Lists::within(budget, Box::new(|_| true))
}

fn take(
    lists: &Lists,
    (row, first): (u64, u64),
    average: u8,
    pieces: &[u8],
    last: bool,
) -> Result<(), &'static str> {
    lists.take(ListPart { row, first, form: form_of(average), pieces, last })
}

#[test]
fn lists_that_break_a_rule_are_refused() {
    let lists = || lists_within(&MemoryBudget::default());
    let one = segment(&[(5000, 7)]);
    assert_eq!(take(&lists(), (3, 0), 12, &one, true), Ok(()));
    assert!(take(&lists(), (3, 0), 10, &one, true).is_err(), "no such length");
    assert!(take(&lists(), (3, 1), 12, &one, true).is_err(), "something is missing");
    assert!(take(&lists(), (3, 0), 12, &segment(&[(0, 7)]), true).is_err(), "an empty piece");
    assert!(take(&lists(), (3, 0), 12, &segment(&[(70_000, 7)]), true).is_err(), "a long one");
    let over = lists();
    assert_eq!(take(&over, (3, 0), 12, &one, true), Ok(()));
    assert!(take(&over, (3, 5000), 12, &one, true).is_err(), "more after the end");
    assert!(take(&over, (2, 0), 12, &one, true).is_err(), "an earlier row");
    let other = lists();
    assert_eq!(take(&other, (3, 0), 12, &one, false), Ok(()));
    assert!(take(&other, (3, 5000), 13, &one, false).is_err(), "another length");
    assert!(take(&other, (4, 0), 12, &one, true).is_err(), "the one before is not complete");
    // What the sender is past is dropped.
    other.pass(5);
    assert_eq!(take(&other, (4, 0), 12, &one, true), Ok(()));
    assert_eq!(other.coverage(4), Coverage::Complete);
    other.close();
    assert_eq!(other.coverage(7), Coverage::Broken);
}

#[test]
fn a_peer_cannot_fill_the_memory() {
    let budget = MemoryBudget::default();
    let lists = lists_within(&budget);
    let pieces: Vec<(usize, PieceName)> = (0..20_000_u64).map(|number| (1, number)).collect();
    let bytes = segment(&pieces);
    let refused = (0..100_u64).find_map(|round| take(&lists, (1, round * 20_000), 12, &bytes, false).err());
    assert_eq!(refused, Some("it lists more pieces than may be kept"));
    assert!(budget.used() < 64 << 20, "{}", budget.used());
    // Where the session has less, what does not fit is sent whole.
    let small = MemoryBudget::of(1 << 20);
    let lists = lists_within(&small);
    for round in 0..10_u64 {
        assert_eq!(take(&lists, (1, round * 20_000), 12, &bytes, false), Ok(()));
    }
    assert_eq!(lists.coverage(1), Coverage::Complete);
    assert!(small.used() <= 1 << 20);
    lists.pass(1);
    assert_eq!(small.used(), 0);
    // As many files as there are offers, and no more than twice that.
    let lists = lists_within(&budget);
    let files = (0..5000).find_map(|row| take(&lists, (row, 0), 12, &[], true).err().map(|why| (row, why)));
    assert_eq!(files, Some((2048, "it lists more files at once than may be")));
}

fn fine(row: u64, from: u64, len: u64) -> FineAsk {
    FineAsk::closely(row, (from, len), Cutting::ByContent)
}

fn answer(lists: &Lists, row: u64, from: u64, pieces: &[u8]) -> Result<(), &'static str> {
    lists.answer(FineAnswer { row, from, form: form_of(11), pieces })
}

#[test]
fn answers_that_nobody_asked_for_are_refused() {
    let budget = MemoryBudget::default();
    let lists = lists_within(&budget);
    let one = segment(&[(5000, 7)]);
    assert!(answer(&lists, 1, 0, &one).is_err(), "nothing was asked");
    for from in [0, 9000] {
        lists.ask_for_tests(fine(1, from, 8000));
    }
    assert!(answer(&lists, 1, 9000, &one).is_err(), "out of order");
    assert!(answer(&lists, 2, 0, &one).is_err(), "another row");
    assert!(answer(&lists, 1, 0, &segment(&[(5000, 7), (5000, 8)])).is_err(), "more than was asked");
    assert!(lists.answer(FineAnswer { row: 1, from: 0, form: form_of(30), pieces: &one }).is_err());
    assert!(
        lists
            .answer(FineAnswer { row: 1, from: 0, form: WireForm { names: 9, ..form_of(11) }, pieces: &one })
            .is_err()
    );
    assert_eq!(answer(&lists, 1, 0, &one), Ok(()));
    assert!(budget.used() > 0);
    assert!(answer(&lists, 1, 0, &one).is_err(), "it is answered");
    // What the sender is past is forgotten, and what comes later is dropped.
    lists.pass(1);
    assert_eq!(budget.used(), 0);
    assert_eq!(answer(&lists, 1, 9000, &one), Ok(()));
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_question_that_cannot_leave_is_answered_by_nothing() {
    let lists = Lists::within(&MemoryBudget::default(), Box::new(|ask| ask.from != 5));
    for from in [0, 5, 9] {
        lists.ask_for_tests(fine(1, from, 8000));
    }
    assert!(lists.answered(&fine(1, 0, 8000)).is_none());
    let lost = lists.answered(&fine(1, 5, 8000));
    assert!(lost.is_some_and(|list| list.table.len() == 0));
    let one = segment(&[(5000, 7)]);
    assert_eq!(answer(&lists, 1, 0, &one), Ok(()));
    assert_eq!(answer(&lists, 1, 9, &one), Ok(()));
}

#[test]
fn a_peer_asks_no_more_than_may_be() {
    let offers = Offers::default();
    let file = tempfile::tempfile().expect("a file");
    let held = Held::Open(Readable::shared_with_others(file.into()));
    let basis = Basis { held, size: 1 << 20, origin: Origin::SameName };
    assert!(offers.offer(4, b"f", (basis, 1 << 20), &|| false));
    let ask = |row, len| offers.ask(fine(row, 1 << 40, len));
    assert!(ask(4, 0).is_err() && ask(4, 5 << 20).is_err(), "no such length");
    assert_eq!(ask(4, 4 << 20), Ok(()));
    // A file that cannot be read there, and one that is not offered, have no pieces.
    let key = NameKey::new([1; 32]);
    assert!(offers.next_ask().expect("a question").list(&key).pieces.is_empty());
    assert_eq!(ask(9, 1), Ok(()));
    assert!(offers.next_ask().expect("a question").list(&key).pieces.is_empty());
    let all = (0..1000).find_map(|_| {
        let refused = ask(4, 4 << 20).err();
        if refused.is_none() {
            offers.next_ask();
        }
        refused
    });
    assert_eq!(all, Some("it asks for more pieces than a file has"));
    let many = (0..1000).find_map(|_| ask(9, 1).err());
    assert_eq!(many, Some("it asks for more pieces at once than may be"));
    offers.close();
    assert!(offers.next_ask().is_none());
}

#[test]
fn names_are_long_enough_for_what_is_compared() {
    for (listed, sought) in [
        (1 << 9, 1 << 9),
        (15 << 10, 9 << 10),
        (1 << 14, 1 << 14),
        (1 << 14, 1 << 40),
        (3 << 30, 1 << 24),
        (1 << 42, 1 << 42),
    ] {
        let average = Average::of_files(listed, sought);
        let names = NameLen::of(listed, sought, average);
        let pairs = (listed >> average.log()).max(1) as f64 * (sought >> average.log()).max(1) as f64;
        // Lengths are as good as random, with some bits less than the average has.
        let chance = pairs * 0.5_f64.powi(8 * i32::from(names.bytes()) + i32::from(average.log()) - 4);
        assert!(chance <= 1.0 / 1024.0, "{listed} {sought}: {names:?} {chance}");
        assert!(chance > 1e-9 || names.bytes() == 2, "{listed} {sought}: {names:?} {chance}");
    }
}

/// A patch of `data`, of which the basis has all but the first 100 bytes.
fn patch_of(data: &[u8], records: &[u8]) -> Vec<u8> {
    let mut builder = PatchBuilder::default();
    builder.new_bytes(100, Because::New);
    builder.copy(7, 100, data.len() as u32 - 100);
    builder.build(data, records).expect("it is shorter")
}

#[test]
fn a_patch_makes_what_it_was_made_of() {
    let (data, records) = (content(50_000, 1), content(300, 2));
    let basis = [&[0; 100][..], &data[100..]].concat();
    let patch = patch_of(&data, &records);
    assert!(patch.len() < 600);
    for basis in [BasisBytes::File(file(&basis)), BasisBytes::Kept(basis.as_slice().into())] {
        makes(&patch, &basis, (&data, &records));
    }
    // One that is shorter than it was.
    let short = BasisBytes::Kept(basis[..basis.len() - 1].into());
    assert!(apply(&patch, (data.len(), records.len()), &mut Vec::new(), &|_| Some(short.clone())).is_err());
}

fn makes(patch: &[u8], basis: &BasisBytes, (data, records): (&[u8], &[u8])) {
    let mut body = Vec::new();
    let of_seven = |row| (row == 7).then(|| basis.clone());
    let copied = apply(patch, (data.len(), records.len()), &mut body, &of_seven);
    let len = data.len() - 100;
    let expected = Copied { row: 7, from: 100, at: 100, len, matched: len as u64 };
    assert_eq!(copied, Ok(vec![expected]));
    assert_eq!(body, [data, records].concat());
    assert!(apply(patch, (data.len(), records.len()), &mut body, &|_| None).is_err(), "not offered");
    for (data_len, records_len) in [(data.len() - 1, 300), (data.len() + 1, 300), (data.len(), 301)] {
        assert!(apply(patch, (data_len, records_len), &mut body, &of_seven).is_err());
    }
}

#[test]
fn a_patch_costs_no_more_than_a_chunk() {
    let steps: Vec<u8> = std::iter::repeat_n([0_u8, 0], 20_000).flatten().collect();
    let patch = [&(steps.len() as u32).to_le_bytes()[..], &steps].concat();
    let refused = apply(&patch, (0, 0), &mut Vec::new(), &|_| None);
    assert_eq!(refused, Err("a patch has more instructions than a chunk needs"));
}

fn in_place(average: u8) -> WireForm {
    WireForm { in_place: true, ..form_of(average) }
}

/// Names alone.
fn names(all: &[u8]) -> Vec<u8> {
    all.iter().flat_map(|name| [*name, 0, 0, 0]).collect()
}

#[test]
fn lists_in_place_have_names_alone() {
    let lists = lists_within(&MemoryBudget::default());
    let part = |first, pieces, last| ListPart { row: 1, first, form: in_place(12), pieces, last };
    let (two, one) = (names(&[1, 2]), names(&[3]));
    assert_eq!(lists.take(part(0, &two, false)), Ok(()));
    assert!(lists.take(part(0, &one, true)).is_err(), "out of order");
    let other_form = ListPart { form: form_of(12), ..part(8192, &one, true) };
    assert!(lists.take(other_form).is_err(), "cut otherwise");
    assert!(lists.take(part(8192, &one[..3], true)).is_err(), "half of a name");
    // However short the last one is, and nowhere else.
    assert_eq!(lists.take(part(8192, &one, true)), Ok(()));
    assert_eq!(lists.find(1, (3, 5), 8192, 8192), Some(8192));
    assert_eq!((lists.find(1, (3, 4096), 0, 0), lists.find(1, (1, 4096), 4096, 0)), (None, None));
    assert!(
        lists.is_behind(1, 3 * 4096) && !lists.is_behind(1, 3 * 4096 - 1) && !lists.is_behind(2, 1 << 40)
    );
}

#[test]
fn answers_are_cut_as_was_asked() {
    let lists = lists_within(&MemoryBudget::default());
    let take = |in_place: bool, pieces: &[u8]| {
        let form = WireForm { in_place, ..form_of(11) };
        lists.answer(FineAnswer { row: 1, from: 4096, form, pieces })
    };
    lists.ask_for_tests(FineAsk::closely(1, (4096, 5000), Cutting::InPlace));
    assert!(take(false, &segment(&[(5000, 7)])).is_err(), "by content");
    assert!(take(true, &names(&[1, 2, 3, 4])).is_err(), "more than was asked");
    assert_eq!(take(true, &names(&[1, 2, 3])), Ok(()), "the last one is shorter");
    lists.ask_for_tests(fine(1, 4096, 5000));
    assert!(take(true, &names(&[1])).is_err(), "in place");
}

#[test]
fn a_question_has_bounds_for_every_length_of_pieces() {
    let ask = |average, len| FineAsk::from_wire((1, 0, len), average, false);
    assert!(ask(Some(7), 1).is_err() && ask(Some(19), 1).is_err(), "no such length");
    for (average, most) in [(None, 4 << 20), (Some(8), 512 << 10), (Some(18), 512 << 20)] {
        let possible = |len| ask(average, len).is_ok_and(|ask| ask.is_possible());
        assert!(possible(1) && possible(most), "{average:?}");
        assert!(!possible(0) && !possible(most + 1), "{average:?}");
    }
    assert_eq!(ask(None, 1).map(|ask| ask.wire_average()), Ok(None));
    assert_eq!(ask(Some(16), 1).map(|ask| ask.wire_average()), Ok(Some(16)));
}

/// Pieces of a basis as they are listed.
fn listed(offers: &Offers, key: &NameKey) -> (Lists, u64) {
    let lists = lists_within(&MemoryBudget::default());
    let job = offers.next_job().expect("a basis");
    let row = job.row;
    let mut bytes = 0;
    job.list(offers, key, &mut |segment: Segment| {
        bytes += segment.pieces.len() as u64;
        lists.take(segment.part_of(row))
    })
    .expect("our own list");
    (lists, bytes)
}

#[test]
fn a_question_by_content_for_long_pieces_ends_the_list_in_place() {
    let (data, key) = (content(40 << 20, 1), NameKey::new([1; 32]));
    let average = Average::of_file(data.len() as u64);
    assert_ne!(average, Average::FINEST);
    for (average, gives_up) in [(Average::FINEST, false), (average, true)] {
        let offers = Offers::default();
        offers.may_be_in_place();
        for row in [4, 5, 6] {
            let own = if row == 4 { file(&data).try_clone() } else { file(&[]).try_clone() };
            let held = Held::Open(Readable::shared_with_others(own.expect("a descriptor")));
            let basis = Basis { held, size: data.len() as u64, origin: Origin::SameName };
            assert!(offers.offer(row, &[row as u8], (basis, data.len() as u64), &|| false));
            if row == 4 {
                assert_eq!(offers.ask(FineAsk { average, ..fine(4, 0, 100) }), Ok(()));
            }
        }
        let (lists, bytes) = listed(&offers, &key);
        let form = lists.form(4).expect("it is listed");
        assert_eq!(form.cutting, Cutting::InPlace);
        let pieces = (data.len() / form.average.bytes()) as u64;
        assert_eq!(bytes, if gives_up { 0 } else { pieces * u64::from(form.names.bytes()) });
        // What is offered next goes by what became of the others.
        let cutting = listed(&offers, &key).0.form(5).map(|form| form.cutting);
        assert_eq!(cutting, Some(if gives_up { Cutting::ByContent } else { Cutting::InPlace }));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_patch_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        data_len in 0..CHUNK_DATA_MAX,
        records_len in 0..RECORDS_MAX,
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let data = content(5000, 4);
        let basis = file(&data);
        let mut body = Vec::new();
        let _ = apply(&bytes, (data_len, records_len), &mut body, &|_| Some(BasisBytes::File(basis.clone())));
        let mut patch = patch_of(&data, b"records");
        for (at, to) in cuts {
            let at = at.index(patch.len());
            patch[at] = to;
        }
        let _ = apply(&patch, (data.len(), 7), &mut body, &|_| Some(BasisBytes::File(basis.clone())));
    }

    #[test]
    fn any_bytes_are_a_list_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        row in 0_u64..3, first: u64, average: u8, last: bool,
    ) {
        let lists = lists_within(&MemoryBudget::default());
        let _ = take(&lists, (row, first), average, &bytes, last);
        let _ = take(&lists, (row, 0), 12, &bytes, last);
        let _ = lists.take(ListPart { row, first: 0, form: in_place(average), pieces: &bytes, last });
        for (cutting, form) in [(Cutting::ByContent, form_of(11)), (Cutting::InPlace, in_place(11))] {
            lists.ask_for_tests(FineAsk::closely(9, (first, 4096), cutting));
            let _ = lists.answer(FineAnswer { row: 9, from: first, form, pieces: &bytes });
        }
    }
}

#[test]
fn what_is_supposed_is_not_listed_once_it_is_open() {
    let top = tempfile::tempdir().expect("a directory");
    std::fs::write(top.path().join("old"), content(1000, 1)).expect("our own place");
    let held = OwnedFd::from(File::open(top.path()).expect("it is there"));
    let offers = Offers::default();
    offers.look_in(crate::view::View::new(Arc::new(held), None), crate::SourcesHere::default());
    let basis = Basis { held: Held::Named(b"old".to_vec()), size: 1000, origin: Origin::Moved };
    assert!(offers.offer(3, b"new", (basis, 1000), &|| false));
    offers.are_complete();
    assert!(offers.basis(3).is_some() && offers.basis(4).is_none());
    assert!(offers.next_job().is_none());
    let moved = offers.moved(b"new").expect("it is offered");
    assert!((moved.0, &moved.1[..]) == (3, b"old") && moved.2.is_some());
}
