//! What a receiver may and may not answer.

use std::time::Duration;

use super::*;
use fobs_model::error::ErrorKind;
use fobs_model::options::{Preserve, Privileges};
use fobs_store::survey::{Changes, Checksums, Decision};
use fobs_store::{Base, Source, SourceSpec};

/// A docket on which the entries of three files and their directory, five rows, are listed.
fn listed() -> (tempfile::TempDir, Docket) {
    let directory = tempfile::tempdir().expect("a directory");
    for name in ["a", "b", "c"] {
        std::fs::write(directory.path().join(name), name).expect("a file");
    }
    let path = directory.path().as_os_str().as_encoded_bytes().to_vec();
    let mut source = Source::open(SourceSpec {
        privileges: Privileges::OfTheUser,
        sync: None,
        base: Base::Ambient,
        paths: vec![path],
        recursive: true,
        preserve: Preserve::default(),
        compress: false,
        budget: MemoryBudget::default(),
    })
    .expect("a source");
    let docket = Docket::within(&MemoryBudget::default());
    let mut lister = source.survey(Box::new(docket.clone()), Checksums::Omitted).expect("a walk");
    let batch = lister.next_batch().expect("a batch").expect("the first");
    assert!((batch.first, batch.last, batch.entries.len()) == (0, true, 5));
    assert!(docket.list(batch.entries, batch.last).expect("room"));
    (directory, docket)
}

fn choices(decisions: &[Decision]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for decision in decisions {
        Choice { decision: decision.clone(), changes: Changes::default() }.encode(&mut bytes);
    }
    bytes
}

#[test]
fn decisions_come_out_in_the_order_of_the_rows() {
    let (_directory, mut docket) = listed();
    assert!(matches!(docket.next(None), Next::NotYet));
    docket.decide(0, &choices(&[Decision::Send, Decision::Done]), false).expect("two");
    docket.decide(2, &choices(&[Decision::Skip, Decision::Send, Decision::Send]), true).expect("the rest");
    let expected = [Decision::Send, Decision::Done, Decision::Skip, Decision::Send, Decision::Send];
    for decision in expected {
        let Next::Decided(next) = docket.next(None) else { panic!("{decision:?} is missing") };
        assert_eq!(next.1.decision, decision);
    }
    assert!(docket.is_exhausted() && matches!(docket.next(None), Next::End));
}

#[test]
fn decisions_that_lie_are_violations() {
    let five = choices(&[const { Decision::Send }; 5]);
    let six = choices(&[const { Decision::Send }; 6]);
    let two = choices(&[const { Decision::Send }; 2]);
    for (what, first, bytes, last) in [
        ("a gap", 1, &five[..], false),
        ("rows that were never listed", 0, &six, false),
        ("an end before the end", 0, &two, true),
        ("no choice", 0, &[9, 9, 9], false),
        ("half a choice", 0, &five[..1], false),
    ] {
        let (_directory, docket) = listed();
        let error = docket.decide(first, bytes, last).expect_err(what);
        assert_eq!(error.kind, ErrorKind::Protocol, "{what}: {error}");
    }
    let (_directory, docket) = listed();
    docket.decide(0, &five, true).expect("all of them");
    assert!(docket.decide(5, &two, false).is_err(), "more than everything");
}

#[test]
fn decisions_without_end_are_a_violation() {
    let docket = Docket::within(&MemoryBudget::default());
    let long = Decision::Failed("r".repeat(4000));
    let message = choices(&vec![long; 50]);
    let entries = |count| (0..count).map(|_| Listed::of_test()).collect();
    let mut decided = 0;
    let refused = loop {
        assert_eq!(docket.list(entries(50), false), Ok(true), "{decided}");
        match docket.decide(decided, &message, false) {
            Ok(()) => decided += 50,
            Err(error) => break error,
        }
        // The bound on batches is the lister's; here it must not be what stops.
        docket.lock().listed.clear();
    };
    assert_eq!(refused.kind, ErrorKind::Protocol);
    assert!(decided as usize * 4000 <= CHOICES_BYTES_MAX, "{decided}");
}

#[test]
fn a_docket_keeps_no_more_than_its_budget() {
    let one = Listed::of_test().memory();
    let budget = MemoryBudget::of(5 * one / 2);
    let docket = Docket::within(&budget);
    let batch = |rows| (0..rows).map(|_| Listed::of_test()).collect();
    assert_eq!(docket.list(batch(2), false), Ok(true));
    assert!(docket.decide(0, &choices(&[Decision::Failed("r".repeat(3 * one))]), false).is_err());
    // A lister waits for what is taken; a batch that never fits ends the session.
    let waiting = {
        let docket = docket.clone();
        std::thread::spawn(move || docket.list(batch(2), true))
    };
    docket.close();
    assert_eq!(waiting.join().expect("it does not panic"), Ok(false));
    drop(docket);
    let docket = Docket::within(&budget);
    let error = docket.list(batch(3), true).expect_err("it never fits");
    assert!(error.message.contains("the listing and the decisions on it"), "{error}");
    drop(docket);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_wait_ends_with_the_session_and_with_its_patience() {
    let (_directory, mut docket) = listed();
    assert!(matches!(docket.next(Some(Instant::now() + Duration::from_millis(1))), Next::NotYet));
    let waiting = {
        let mut docket = docket.clone();
        std::thread::spawn(move || {
            matches!(docket.next(Some(Instant::now() + Duration::from_secs(60))), Next::Broken)
        })
    };
    docket.close();
    assert!(waiting.join().expect("it does not panic"));
    assert!(docket.is_over() && docket.list(Vec::new(), true) == Ok(false));
}

#[test]
fn a_lister_waits_for_room() {
    let docket = Docket::within(&MemoryBudget::default());
    for _ in 0..BATCHES_MAX {
        assert_eq!(docket.list(vec![Listed::of_test()], false), Ok(true));
    }
    let waiting = {
        let docket = docket.clone();
        std::thread::spawn(move || docket.list(vec![Listed::of_test()], true))
    };
    let mut reader = docket.clone();
    docket.decide(0, &choices(&[Decision::Send]), false).expect("one");
    assert!(matches!(reader.next(None), Next::Decided(_)));
    assert_eq!(waiting.join().expect("it does not panic"), Ok(true));
    assert_eq!(docket.lock().rows_listed, BATCHES_MAX as u64 + 1);
}
