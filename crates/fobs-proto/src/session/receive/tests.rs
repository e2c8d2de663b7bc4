use super::*;
use crate::receiver::{Disposition, EcnCodepoint, PacketMeta, ReceiverConfig, SocketNote};
use crate::session::{ANSWER_WAIT, UDP_SILENCE_MAX};
use crate::wire::DataHeader;
use std::time::Duration;

const START: Timestamp = Timestamp::ZERO;

fn machine() -> Receiver {
    let ack_delay_max = Duration::from_millis(5);
    Receiver::new(ReceiverConfig { ack_every: 64, ack_delay_max, chunks_max: 4 })
}

/// Delivers the object's only chunk, of one packet, under this attempt.
fn deliver(machine: &mut Receiver, number: u64, attempt: u8) {
    let meta = PacketMeta {
        number,
        arrived: START,
        len: 1000,
        ecn: EcnCodepoint::NotEct,
        socket: SocketNote::default(),
    };
    let header =
        DataHeader { chunk: 0, packet_index: 0, payload_size: 1172, attempt, last: true, final_chunk: true };
    let taken = machine.handle_data(START, &meta, &header, 972);
    assert!(matches!(taken, Disposition::Store { completes: Some(972), .. }), "{taken:?}");
}

#[test]
fn a_chunk_is_hopeless_after_three_mismatches() {
    let (mut machine, mut policy) = (machine(), ReceivePolicy::new(START, Side::Server, ANSWER_WAIT));
    for attempt in 0..3 {
        deliver(&mut machine, u64::from(attempt), attempt);
        let outcome = policy.handle_verdict(START, &mut machine, 0, ChunkVerification::Mismatch);
        match attempt {
            2 => assert_eq!(outcome, VerdictOutcome::Hopeless { attempt, tries: 3 }),
            _ => assert_eq!(outcome, VerdictOutcome::Reject { attempt }),
        }
    }
    assert!(!policy.is_hopeless(START), "the sender may end the session first");
    assert!(policy.is_hopeless(START + FAREWELL_WAIT));
}

#[test]
fn a_verified_chunk_is_stored_and_the_end_is_said_once() {
    let (mut machine, mut policy) = (machine(), ReceivePolicy::new(START, Side::Server, ANSWER_WAIT));
    deliver(&mut machine, 0, 0);
    assert_eq!(
        policy.handle_verdict(START, &mut machine, 0, ChunkVerification::Verified),
        VerdictOutcome::Verified
    );
    assert_eq!(policy.handle_stored(&mut machine, 0), Stored::All);
    assert!(policy.finishing);
}

#[test]
fn messages_of_a_slow_sender_excuse_its_silence() {
    let mut policy = ReceivePolicy::new(START, Side::Server, ANSWER_WAIT);
    let blocked = START + UDP_SILENCE_MAX;
    assert_eq!(policy.check_silence(blocked, None), Silence::Short, "the client gives up first");
    assert!(matches!(policy.check_silence(blocked + UDP_SILENCE_MAX, None), Silence::Blocked(_)));
    let late = START + ANSWER_WAIT;
    assert_eq!(policy.check_silence(late, Some(START)), Silence::Dead(ANSWER_WAIT));
    policy.handle_message(late);
    assert_eq!(policy.check_silence(late, Some(START)), Silence::Short);
}

#[test]
fn a_client_is_absent_after_a_silence_and_here_once_it_says_anything() {
    let mut policy = ReceivePolicy::new(START, Side::Server, ANSWER_WAIT);
    let at = |seconds: f64| START + Duration::from_secs_f64(seconds);
    assert_eq!(policy.presence(at(5.9), at(1.0), None), Presence::Unclear, "its first datagram may come");
    let heard = Some(at(10.0));
    for (now, asked, presence) in [
        (10.1, 10.1, Presence::Unclear),
        (12.9, 10.1, Presence::Unclear),
        (13.0, 10.1, Presence::Absent),
        (60.0, 60.0, Presence::Absent),
        (10.4, 9.9, Presence::Here),
    ] {
        assert_eq!(policy.presence(at(now), at(asked), heard), presence, "{now} {asked}");
    }
    policy.handle_message(at(11.0));
    assert_eq!(policy.presence(at(11.1), at(10.5), heard), Presence::Here, "by a message");
    assert_eq!(policy.presence(at(13.0), at(11.5), heard), Presence::Unclear);
}
