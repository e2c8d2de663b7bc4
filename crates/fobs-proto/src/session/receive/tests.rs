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
