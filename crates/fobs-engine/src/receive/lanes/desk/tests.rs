use super::*;
use fobs_model::error::ErrorKind;

/// A chunk of a lane with this number behind its one byte.
fn arrives(desk: &mut Desk, at: (usize, ChunkId), number: LaneNumber) -> Result<()> {
    let mut buffer = PageBuffer::new(1 << 16).expect("memory");
    buffer[1..5].copy_from_slice(&number.encode().expect("room"));
    desk.arrives(at, buffer, 5)
}

fn some(chunk: ChunkId) -> LaneNumber {
    LaneNumber { chunk, is_final: false }
}

fn last(chunk: ChunkId) -> LaneNumber {
    LaneNumber { chunk, is_final: true }
}

/// What the desk wants, in words; buffers that are to be checked are kept.
fn deeds(desk: &mut Desk, kept: &mut Vec<PageBuffer>) -> Vec<String> {
    let mut words = Vec::new();
    while let Some(deed) = desk.poll() {
        words.push(match deed {
            Deed::Check { chunk, buffer, len } => {
                kept.push(buffer);
                format!("check {chunk} of {len}")
            }
            Deed::Tell { lane, letter } => match letter {
                ToLaneReceiver::Verdict { place, verdict } => format!("lane {lane}: {place} {verdict:?}"),
                ToLaneReceiver::Free { place } => format!("lane {lane}: {place} is free"),
                ToLaneReceiver::Buffer(_) => format!("lane {lane}: a buffer"),
                ToLaneReceiver::Room(chunks) => format!("lane {lane}: room for {chunks}"),
                ToLaneReceiver::End => format!("lane {lane}: the end"),
            },
        });
    }
    words
}

#[test]
fn a_chunk_behind_a_hole_frees_its_lane_and_one_in_order_when_it_is_stored() {
    let (mut desk, mut kept) = (Desk::new((0, 4)), Vec::new());
    arrives(&mut desk, (1, 0), last(1)).expect("in the window");
    assert_eq!(deeds(&mut desk, &mut kept), ["check 1 of 1"]);
    desk.handle_verdict(1, ChunkVerification::Verified);
    assert_eq!(deeds(&mut desk, &mut kept), ["lane 1: 0 Verified", "lane 1: 0 is free"]);
    arrives(&mut desk, (0, 0), some(0)).expect("in the window");
    desk.handle_verdict(0, ChunkVerification::Verified);
    assert_eq!(deeds(&mut desk, &mut kept), ["check 0 of 1", "lane 0: 0 Verified"]);
    let (second, first) = (kept.pop().expect("two"), kept.pop().expect("two"));
    desk.handle_stored(0, second);
    assert_eq!(deeds(&mut desk, &mut kept), ["lane 0: 0 is free", "lane 0: a buffer"]);
    assert!(!desk.is_complete());
    desk.handle_stored(1, first);
    assert_eq!(deeds(&mut desk, &mut kept), ["lane 1: a buffer"]);
    assert!(desk.is_complete());
}

#[test]
fn a_second_copy_waits_for_the_verdict_and_counts_if_the_first_is_wrong() {
    let (mut desk, mut kept) = (Desk::new((0, 4)), Vec::new());
    for at in [(0, 3), (1, 5), (2, 7)] {
        arrives(&mut desk, at, some(0)).expect("in the window");
    }
    assert_eq!(deeds(&mut desk, &mut kept), ["check 0 of 1"]);
    desk.handle_verdict(0, ChunkVerification::Mismatch);
    assert_eq!(deeds(&mut desk, &mut kept), ["lane 0: 3 Mismatch", "check 0 of 1"]);
    desk.handle_returned(kept.remove(0));
    assert_eq!(deeds(&mut desk, &mut kept), ["lane 0: a buffer"]);
    desk.handle_verdict(0, ChunkVerification::Verified);
    let known = ["lane 1: 5 Verified", "lane 2: 7 Verified", "lane 2: 7 is free", "lane 2: a buffer"];
    assert_eq!(deeds(&mut desk, &mut kept), known);
    arrives(&mut desk, (0, 3), some(0)).expect("known");
    let again = ["lane 0: 3 Verified", "lane 0: 3 is free", "lane 0: a buffer"];
    assert_eq!(deeds(&mut desk, &mut kept), again);
}

#[test]
fn a_withdrawn_chunk_is_told_and_nothing_else() {
    let (mut desk, mut kept) = (Desk::new((0, 4)), Vec::new());
    desk.arrives((1, 9), PageBuffer::new(1 << 16).expect("memory"), NUMBER_LEN).expect("withdrawn");
    let told = ["lane 1: 9 Verified", "lane 1: 9 is free", "lane 1: a buffer"];
    assert_eq!(deeds(&mut desk, &mut kept), told);
}

#[test]
fn what_no_sender_of_ours_sends_is_refused() {
    let mut desk = Desk::new((0, 4));
    let kind = |outcome: Result<()>| outcome.expect_err("refused").kind;
    assert_eq!(kind(arrives(&mut desk, (0, 0), some(4))), ErrorKind::Protocol);
    let short = desk.arrives((0, 0), PageBuffer::new(1 << 16).expect("memory"), 3);
    assert_eq!(kind(short), ErrorKind::Protocol);
    arrives(&mut desk, (0, 0), some(2)).expect("in the window");
    assert_eq!(kind(arrives(&mut desk, (0, 1), last(1))), ErrorKind::Protocol, "an end before a chunk");
    arrives(&mut desk, (0, 1), last(3)).expect("the end");
    assert_eq!(kind(arrives(&mut desk, (1, 0), last(1))), ErrorKind::Protocol, "another end");
    assert_eq!(kind(arrives(&mut desk, (1, 0), some(3))), ErrorKind::Protocol, "the last, and not the last");
}

#[test]
fn chunks_before_the_first_of_the_desk_are_known() {
    let (mut desk, mut kept) = (Desk::new((6, 4)), Vec::new());
    assert!(!desk.has_had(5) && desk.has_had(6) && !desk.is_complete());
    arrives(&mut desk, (1, 0), some(2)).expect("known");
    assert_eq!(deeds(&mut desk, &mut kept), ["lane 1: 0 Verified", "lane 1: 0 is free", "lane 1: a buffer"]);
    arrives(&mut desk, (1, 1), some(9)).expect("in the window");
    let beyond = arrives(&mut desk, (1, 2), some(10)).expect_err("beyond it");
    assert_eq!(beyond.kind, ErrorKind::Protocol);
}
