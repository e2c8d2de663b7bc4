use super::*;
use crate::congestion::{Auto, Controller, Fixed};
use crate::object::{CHUNK_DATA_MAX, CHUNK_LEN_MAX};
use crate::sender::{SenderConfig, Transmit};
use crate::session::{ANSWER_WAIT, HEARTBEAT, UDP_SILENCE_MAX};
use crate::wire::Ack;
use crate::{Rate, Timestamp};

const START: Timestamp = Timestamp::ZERO;

fn machine(controller: Box<dyn Controller>) -> Sender {
    let config = SenderConfig::plain(controller, CHUNKS_MAX);
    Sender::new(START, config)
}

fn read(policy: &mut SendPolicy, machine: &mut Sender, len: u32) -> ChunkId {
    policy.handle_granted();
    let chunk = ChunkRead { len, data_bytes: u64::from(len), is_final: false };
    policy.handle_chunk(START, machine, chunk, ObjectSize { data_bytes: 0, extent: Extent::SoFar })
}

#[test]
fn the_first_grants_are_small_and_two_are_open() {
    let machine = machine(Box::new(Auto::new(1200)));
    let mut policy = SendPolicy::new(SendPolicyConfig::default());
    let mut sizes = Vec::new();
    while let Some(data_max) = policy.next_grant(&machine) {
        policy.handle_granted();
        sizes.push(data_max);
    }
    assert_eq!(sizes, [256 << 10, 768 << 10]);
    assert_eq!(policy.granted(), GRANTS_MAX);
}

#[test]
fn reading_stops_at_the_configured_number_of_chunks() {
    let mut machine = machine(Box::new(Fixed::new(Rate::bits_per_second(1 << 40))));
    let mut policy = SendPolicy::new(SendPolicyConfig { chunks_max: 3, ..SendPolicyConfig::default() });
    for _ in 0..3 {
        assert!(policy.next_grant(&machine).is_some());
        read(&mut policy, &mut machine, 1000);
    }
    assert_eq!(policy.next_grant(&machine), None);
    machine.handle_ack(START, &Ack { verified_below: 1, chunk_limit: CHUNKS_MAX, ..Ack::default() });
    assert_eq!(policy.poll_freed(&mut machine), Some(0));
    assert_eq!(policy.next_grant(&machine), Some(CHUNK_DATA_MAX));
}

#[test]
fn the_third_mismatch_of_a_held_chunk_is_hopeless() {
    let mut machine = machine(Box::new(Auto::new(1200)));
    let mut policy = SendPolicy::new(SendPolicyConfig::default());
    let chunk = read(&mut policy, &mut machine, CHUNK_LEN_MAX);
    assert_eq!(policy.handle_rejected(&mut machine, chunk + 1, 0), Rejection::Stale);
    assert_eq!(policy.handle_rejected(&mut machine, chunk, 0), Rejection::Again);
    assert_eq!(policy.handle_rejected(&mut machine, chunk, 1), Rejection::Again);
    assert_eq!(policy.handle_rejected(&mut machine, chunk, 2), Rejection::Hopeless { tries: 3 });
}

#[test]
fn unread_data_is_expected_at_the_compression_seen_so_far() {
    let mut machine = machine(Box::new(Auto::new(1200)));
    let mut policy = SendPolicy::new(SendPolicyConfig::default());
    let chunk = ChunkRead { len: 500, data_bytes: 1000, is_final: false };
    policy.handle_chunk(START, &mut machine, chunk, ObjectSize { data_bytes: 8000, extent: Extent::Whole });
    assert_eq!(policy.wire_bytes_of(7000), 3500);
    assert_eq!(policy.wire_bytes_of(u64::MAX), u64::MAX / 2);
}

#[test]
fn only_outstanding_packets_wait_for_an_answer() {
    let mut machine = machine(Box::new(Auto::new(1200)));
    let mut policy = SendPolicy::new(SendPolicyConfig::default());
    let blocked = START + UDP_SILENCE_MAX;
    assert_eq!(policy.check_silence(blocked, &machine, None), Silence::Blocked(UDP_SILENCE_MAX));
    let late = START + 2 * ANSWER_WAIT;
    assert_eq!(policy.check_silence(late, &machine, Some(START)), Silence::Short, "nothing is outstanding");
    read(&mut policy, &mut machine, 100_000);
    let mut out = Vec::new();
    assert_eq!(machine.poll_transmit(late, &mut out), Transmit::Burst);
    assert_eq!(policy.check_silence(late, &machine, Some(START)), Silence::Short, "outstanding since now");
    assert_eq!(policy.check_silence(late + ANSWER_WAIT, &machine, Some(START)), Silence::Dead(ANSWER_WAIT));
}

#[test]
fn an_ack_without_news_is_no_answer() {
    let mut machine = machine(Box::new(Auto::new(1200)));
    let mut policy = SendPolicy::new(SendPolicyConfig { timeout: HEARTBEAT * 3, ..Default::default() });
    read(&mut policy, &mut machine, 100_000);
    assert_eq!(machine.poll_transmit(START, &mut Vec::new()), Transmit::Burst);
    let ack = Ack { largest: Some(0), ranges: vec![(0, 0)], chunk_limit: CHUNKS_MAX, ..Ack::default() };
    let mut check = |beat, machine: &Sender| {
        let now = START + HEARTBEAT * beat;
        policy.check_silence(now, machine, Some(now))
    };
    machine.handle_ack(START, &ack);
    assert_eq!(check(1, &machine), Silence::Short);
    machine.handle_ack(START + HEARTBEAT * 3, &ack);
    assert_eq!(check(3, &machine), Silence::Short);
    machine.handle_ack(START + HEARTBEAT * 4, &ack);
    assert_eq!(check(4, &machine), Silence::Dead(HEARTBEAT * 3), "it repeats what was known");
    let ack = Ack { largest: Some(1), ranges: vec![(0, 1)], ..ack };
    machine.handle_ack(START + HEARTBEAT * 4, &ack);
    assert_eq!(check(4, &machine), Silence::Short);
}

#[test]
fn history_waits_for_the_round_trip_and_is_handed_over_once() {
    let mut machine = machine(Box::new(Auto::new(1200)));
    let history = PathHistory { link_rate: Some(7), ..PathHistory::default() };
    let mut policy = SendPolicy::new(SendPolicyConfig { history, ..SendPolicyConfig::default() });
    policy.recall(&mut machine, None);
    assert!(policy.history.is_some());
    policy.recall(&mut machine, Some(Duration::from_millis(9)));
    assert!(policy.history.is_none());
}
