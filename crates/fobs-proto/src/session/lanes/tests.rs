use super::*;
use crate::Rate;

const MIB: u64 = 1 << 20;
const LEN: u32 = 1 << 20;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

/// A lane of this rate in MB/s and this many bytes to go, answered up to a number.
fn seen(rate: u64, left: u64, answered: u64) -> LaneSeen {
    LaneSeen {
        rate: Some(Rate::bytes_per_second(rate * 1_000_000)),
        round_trip: Duration::from_millis(10),
        unsent: left,
        left,
        answered: Some(answered),
        awaits_answer: left > 0,
    }
}

/// A lane takes what it is given, read at once.
fn take(schedule: &mut LaneSchedule, lane: usize, more: bool) -> Option<LaneTask> {
    let task = schedule.poll_task(lane, more)?;
    let (LaneTask::Next(chunk) | LaneTask::Again(chunk)) = task;
    schedule.handle_read(lane, chunk, LEN);
    Some(task)
}

#[test]
fn lanes_with_room_take_chunks_in_order() {
    let mut schedule = LaneSchedule::new(2, 8);
    schedule.observe(at(0), 0, seen(10, 0, 1));
    schedule.observe(at(0), 1, seen(10, MIB, 1));
    assert_eq!(take(&mut schedule, 0, true), Some(LaneTask::Next(0)));
    assert_eq!(take(&mut schedule, 1, true), None, "it has a chunk to send");
    schedule.observe(at(0), 1, seen(10, 0, 2));
    assert_eq!(take(&mut schedule, 1, true), Some(LaneTask::Next(1)));
    assert_eq!(take(&mut schedule, 0, false), None, "nothing is left that another lane would finish later");
}

#[test]
fn a_lane_of_unknown_rate_has_one_chunk() {
    let mut schedule = LaneSchedule::new(1, 8);
    assert_eq!(take(&mut schedule, 0, true), Some(LaneTask::Next(0)));
    assert_eq!(take(&mut schedule, 0, true), None);
}

#[test]
fn no_more_chunks_than_the_window_are_open() {
    let mut schedule = LaneSchedule::new(2, 3);
    schedule.observe(at(0), 0, seen(10, 0, 1));
    schedule.observe(at(0), 1, seen(10, 0, 1));
    assert_eq!(take(&mut schedule, 1, true), Some(LaneTask::Next(0)));
    assert_eq!(take(&mut schedule, 0, true), Some(LaneTask::Next(1)));
    assert_eq!(take(&mut schedule, 0, true), Some(LaneTask::Next(2)));
    // Those behind the oldest still count.
    assert_eq!(schedule.handle_verified(0), Some(LaneVerified::First(1)));
    assert_eq!((schedule.verified_below(), schedule.open()), (0, 3));
    assert_eq!(take(&mut schedule, 0, true), None);
    assert_eq!(schedule.handle_verified(1), Some(LaneVerified::First(0)));
    assert_eq!((schedule.verified_below(), schedule.open()), (2, 1));
    assert_eq!(take(&mut schedule, 0, true), Some(LaneTask::Next(3)));
}

#[test]
fn an_idle_lane_takes_over_what_a_slow_one_would_finish_later() {
    let mut schedule = LaneSchedule::new(2, 8);
    schedule.observe(at(0), 0, seen(100, 0, 1));
    schedule.observe(at(0), 1, seen(1, 0, 1));
    assert_eq!(take(&mut schedule, 1, true), Some(LaneTask::Next(0)));
    assert_eq!(take(&mut schedule, 1, true), Some(LaneTask::Next(1)));
    schedule.observe(at(0), 1, seen(1, 2 * MIB, 1));
    // The newest takes two seconds there, the one before it one.
    assert_eq!(take(&mut schedule, 0, false), Some(LaneTask::Again(1)));
    assert_eq!(take(&mut schedule, 0, false), Some(LaneTask::Again(0)));
    assert_eq!(take(&mut schedule, 0, false), None, "two copies are enough");
    assert_eq!(schedule.handle_verified(0), Some(LaneVerified::First(1)));
    assert_eq!(schedule.poll_withdrawal(), Some(Withdrawal { lane: 1, place: 1 }));
    // The slow lane was first with its own.
    assert_eq!(schedule.handle_verified(1), Some(LaneVerified::First(0)));
    assert_eq!(schedule.poll_withdrawal(), Some(Withdrawal { lane: 0, place: 1 }));
    assert_eq!(schedule.handle_verified(0), Some(LaneVerified::Known(0)));
    assert_eq!(schedule.handle_verified(1), Some(LaneVerified::Known(1)));
    assert_eq!(schedule.handle_verified(1), None, "it has nothing more");
    let counts = schedule.counts();
    assert_eq!((counts.taken_over, counts.withdrawn, counts.bytes_twice), (2, 2, 2 * MIB));
}

#[test]
fn chunks_of_a_silent_lane_go_to_the_others_and_it_may_return() {
    let mut schedule = LaneSchedule::new(2, 8);
    for lane in 0..2 {
        schedule.observe(at(0), lane, seen(10, 0, 1));
    }
    assert_eq!(take(&mut schedule, 1, true), Some(LaneTask::Next(0)));
    assert_eq!(take(&mut schedule, 1, true), Some(LaneTask::Next(1)));
    let waits = LaneSeen { unsent: 0, ..seen(10, 2 * MIB, 1) };
    schedule.observe(at(100), 1, waits);
    schedule.observe(at(1000), 1, waits);
    assert!(!schedule.is_silent(1), "not for a second yet");
    schedule.observe(at(1100), 1, waits);
    assert!(schedule.is_silent(1));
    assert_eq!(take(&mut schedule, 1, true), None);
    assert_eq!(take(&mut schedule, 0, true), Some(LaneTask::Again(0)));
    // It has come back: the other chunk stays there.
    schedule.observe(at(2000), 1, LaneSeen { answered: Some(2), ..waits });
    assert!(!schedule.is_silent(1));
    assert_eq!(take(&mut schedule, 0, true), Some(LaneTask::Next(2)));
    assert_eq!(schedule.handle_verified(1), Some(LaneVerified::First(0)));
    assert_eq!(schedule.poll_withdrawal(), Some(Withdrawal { lane: 0, place: 0 }));
    assert_eq!(schedule.counts().given_up, 1);
}

#[test]
fn chunks_of_an_ended_lane_go_to_the_others_even_those_being_read() {
    let mut schedule = LaneSchedule::new(2, 8);
    for lane in 0..2 {
        schedule.observe(at(0), lane, seen(10, 0, 1));
    }
    assert_eq!(schedule.poll_task(1, true), Some(LaneTask::Next(0)));
    schedule.handle_ended(1);
    assert_eq!(take(&mut schedule, 0, false), None, "it is being read");
    schedule.handle_read(1, 0, LEN);
    assert_eq!(take(&mut schedule, 0, false), Some(LaneTask::Again(0)));
    // A lane that ended is not asked to withdraw anything, and never comes back.
    assert_eq!(schedule.handle_verified(0), Some(LaneVerified::First(0)));
    assert_eq!(schedule.poll_withdrawal(), None);
    schedule.observe(at(1), 1, seen(10, 0, 9));
    assert!(schedule.is_silent(1));
}

#[test]
fn a_copy_that_is_not_read_yet_is_withdrawn_when_it_is() {
    let mut schedule = LaneSchedule::new(2, 8);
    schedule.observe(at(0), 0, seen(100, 0, 1));
    schedule.observe(at(0), 1, seen(1, 0, 1));
    assert_eq!(take(&mut schedule, 1, true), Some(LaneTask::Next(0)));
    schedule.observe(at(0), 1, seen(1, MIB, 1));
    assert_eq!(schedule.poll_task(0, false), Some(LaneTask::Again(0)));
    assert_eq!(schedule.handle_verified(1), Some(LaneVerified::First(0)));
    assert_eq!(schedule.poll_withdrawal(), None);
    schedule.handle_read(0, 0, LEN);
    assert_eq!(schedule.poll_withdrawal(), Some(Withdrawal { lane: 0, place: 0 }));
}

#[test]
fn lanes_that_do_not_exist_are_no_ones() {
    let mut schedule = LaneSchedule::new(0, 0);
    schedule.observe(at(0), 7, seen(1, 0, 1));
    schedule.handle_read(7, 3, LEN);
    schedule.handle_ended(7);
    assert_eq!((schedule.poll_task(7, true), schedule.handle_verified(7)), (None, None));
    assert!(schedule.is_silent(7));
    assert_eq!(schedule.poll_task(0, true), Some(LaneTask::Next(0)), "there is at least one");
}

#[test]
fn a_lane_that_came_late_takes_its_part() {
    let mut schedule = LaneSchedule::from_chunk(7, 1, 8);
    assert_eq!((schedule.verified_below(), schedule.open()), (7, 0));
    schedule.observe(at(0), 0, seen(10, 0, 1));
    assert_eq!(take(&mut schedule, 0, true), Some(LaneTask::Next(7)));
    assert_eq!(schedule.add_lane(), Some(1));
    assert_eq!(take(&mut schedule, 1, true), Some(LaneTask::Next(8)), "one, before its first round trip");
    assert_eq!(take(&mut schedule, 1, true), None);
    // It never answers: its chunk goes to the first.
    let waits = LaneSeen { rate: None, round_trip: Duration::ZERO, ..seen(1, MIB, 0) };
    schedule.observe(at(100), 1, waits);
    schedule.observe(at(1200), 1, waits);
    assert_eq!(take(&mut schedule, 0, false), Some(LaneTask::Again(8)));
    assert_eq!(schedule.handle_verified(0), Some(LaneVerified::First(7)));
    assert_eq!(schedule.handle_verified(0), Some(LaneVerified::First(8)));
    assert_eq!(schedule.verified_below(), 9);
}

#[test]
fn no_more_lanes_are_added_than_there_may_be() {
    let mut schedule = LaneSchedule::new(1, 8);
    let added = (0..30).filter_map(|_| schedule.add_lane()).count();
    assert_eq!(added, LANES_MAX - 1);
}
