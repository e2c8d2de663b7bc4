use super::*;
use crate::secure::schedule::{KeySchedule, SessionKeys, SessionSecret};

const EPOCH: u64 = 1 << EPOCH_BITS;
const HEADER: &[u8] = b"twelve bytes";

const SECRET: [u8; 32] = [3; 32];
const OTHER: [u8; 32] = [7; 32];

/// What seals the sender's packets, and what opens them.
fn pair(cipher: Cipher) -> (Sealer, Opener) {
    (keys(SECRET, cipher, Direction::Sender).0, keys(SECRET, cipher, Direction::Receiver).1)
}

fn keys(secret: [u8; 32], cipher: Cipher, ours: Direction) -> (Sealer, Opener) {
    let secret = SessionSecret::new(secret);
    SessionKeys::derive(secret, KeySchedule::Second, cipher).datagrams.of_end(ours)
}

/// The same for a session in which `failures_max` packets may fail to open.
fn limited(failures_max: u64) -> (Sealer, Opener) {
    let end = |ours| {
        let (secret, cipher) = (SessionSecret::new(SECRET), Cipher::ChaCha20Poly1305);
        SessionKeys::limited(secret, KeySchedule::Second, cipher, failures_max).datagrams.of_end(ours)
    };
    (end(Direction::Sender).0, end(Direction::Receiver).1)
}

fn plaintext(packet_number: u64) -> Vec<u8> {
    packet_number.to_be_bytes().repeat(150)
}

fn sealed(sealer: &mut Sealer, packet_number: u64) -> Vec<u8> {
    let body = plaintext(packet_number);
    let mut packet = vec![0; body.len() + TAG_LEN];
    sealer.seal(packet_number, HEADER, &body, &mut packet);
    packet
}

fn opened(opener: &mut Opener, packet_number: u64, packet: &[u8]) -> Option<Vec<u8>> {
    let mut body = vec![0; packet.len().saturating_sub(TAG_LEN)];
    opener.open(packet_number, HEADER, packet, &mut body).then_some(body)
}

#[test]
fn round_trip_with_both_ciphers() {
    for cipher in [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305] {
        let (mut sealer, mut opener) = pair(cipher);
        for packet_number in [0, 1, 77, EPOCH - 1] {
            let packet = sealed(&mut sealer, packet_number);
            assert_ne!(packet[..packet.len() - TAG_LEN], plaintext(packet_number));
            assert_eq!(opened(&mut opener, packet_number, &packet), Some(plaintext(packet_number)));
        }
        let mut empty = [0; TAG_LEN];
        sealer.seal(EPOCH, HEADER, &[], &mut empty);
        assert_eq!(opened(&mut opener, EPOCH, &empty), Some(vec![]), "acks may have no body");
    }
}

#[test]
fn anything_changed_is_refused() {
    let (mut sealer, mut opener) = pair(Cipher::best_here());
    let packet = sealed(&mut sealer, 5);
    for index in [0, packet.len() / 2, packet.len() - TAG_LEN, packet.len() - 1] {
        let mut changed = packet.clone();
        changed[index] ^= 1;
        assert_eq!(opened(&mut opener, 5, &changed), None, "byte {index}");
    }
    assert_eq!(opened(&mut opener, 6, &packet), None, "another number");
    let mut body = vec![0; packet.len() - TAG_LEN];
    assert!(!opener.open(5, b"twelve bytez", &packet, &mut body), "another header");
    assert!(!opener.open(5, HEADER, &packet, &mut body[1..]), "a place of another length");
    for length in 0..TAG_LEN {
        assert_eq!(opened(&mut opener, 5, &packet[..length]), None, "{length} bytes");
    }
    assert_eq!(opened(&mut opener, 5, &packet), Some(plaintext(5)));
}

#[test]
fn directions_secrets_and_ciphers_have_keys_of_their_own() {
    let (mut sealer, _) = pair(Cipher::Aes128Gcm);
    let packet = sealed(&mut sealer, 0);
    let mut strangers = [
        keys(SECRET, Cipher::Aes128Gcm, Direction::Sender).1,
        keys(SECRET, Cipher::ChaCha20Poly1305, Direction::Receiver).1,
        keys(OTHER, Cipher::Aes128Gcm, Direction::Receiver).1,
    ];
    for stranger in &mut strangers {
        assert_eq!(opened(stranger, 0, &packet), None);
    }
}

#[test]
fn packets_reordered_across_an_epoch_open() {
    let (mut sealer, mut opener) = pair(Cipher::best_here());
    let numbers = [EPOCH - 2, EPOCH - 1, EPOCH, EPOCH + 1];
    let packets = numbers.map(|number| sealed(&mut sealer, number));
    for index in [0, 2, 1, 3] {
        assert_eq!(opened(&mut opener, numbers[index], &packets[index]), Some(plaintext(numbers[index])));
    }
}

#[test]
fn only_the_previous_epoch_is_kept() {
    let (mut sealer, mut opener) = pair(Cipher::best_here());
    let packets = [0, EPOCH, EPOCH + 1, 2 * EPOCH].map(|number| sealed(&mut sealer, number));
    assert!(opened(&mut opener, EPOCH, &packets[1]).is_some());
    assert!(opened(&mut opener, 2 * EPOCH, &packets[3]).is_some());
    assert!(opened(&mut opener, EPOCH + 1, &packets[2]).is_some());
    assert_eq!(opened(&mut opener, 0, &packets[0]), None);
    assert_eq!(opener.epochs.len(), 2);
}

#[test]
fn a_leap_of_two_epochs_keeps_the_one_before() {
    let (mut sealer, mut opener) = pair(Cipher::best_here());
    let packets = [EPOCH, 2 * EPOCH].map(|number| sealed(&mut sealer, number));
    assert!(opened(&mut opener, 2 * EPOCH, &packets[1]).is_some());
    assert!(opened(&mut opener, EPOCH, &packets[0]).is_some());
}

#[test]
fn forged_numbers_move_nothing() {
    let (mut sealer, mut opener) = pair(Cipher::best_here());
    let packet = sealed(&mut sealer, 0);
    for _ in 0..1000 {
        for forged in [EPOCH, 2 * EPOCH, 3 * EPOCH, PACKET_NUMBER_END - 1, PACKET_NUMBER_END, u64::MAX] {
            assert_eq!(opened(&mut opener, forged, &packet), None);
        }
    }
    assert_eq!(opener.current, 0);
    assert_eq!(opener.ratchet.next_epoch, 1 + EPOCHS_AHEAD_MAX, "derived once, and no further");
    assert!(opener.epochs.len() <= 2 + EPOCHS_AHEAD_MAX as usize);
    assert_eq!(opened(&mut opener, 0, &packet), Some(plaintext(0)));
}

#[test]
fn many_epochs_in_a_row() {
    let (mut sealer, mut opener) = pair(Cipher::ChaCha20Poly1305);
    for epoch in 0..50 {
        for packet_number in [epoch * EPOCH, (epoch + 1) * EPOCH - 1] {
            let packet = sealed(&mut sealer, packet_number);
            assert_eq!(opened(&mut opener, packet_number, &packet), Some(plaintext(packet_number)));
        }
        assert!(opener.epochs.len() <= 2);
    }
    assert_eq!(opener.epochs.capacity(), pair(Cipher::Aes128Gcm).1.epochs.capacity());
}

#[test]
#[should_panic(expected = "used twice")]
fn a_number_is_never_sealed_twice() {
    let (mut sealer, _) = pair(Cipher::best_here());
    sealed(&mut sealer, 3);
    sealed(&mut sealer, 3);
}

#[test]
fn the_previous_epoch_is_forgotten_behind_the_replay_window() {
    let (mut sealer, mut opener) = pair(Cipher::best_here());
    let numbers = [EPOCH - 1, EPOCH + REPLAY_WINDOW - 1, EPOCH + REPLAY_WINDOW, 2 * EPOCH];
    let packets = numbers.map(|number| sealed(&mut sealer, number));
    let mut open = |index: usize| opened(&mut opener, numbers[index], &packets[index]).is_some();
    // The oldest number that the window still takes is opened; then none of that epoch is.
    assert_eq!([1, 0, 2, 0].map(&mut open), [true, true, true, false]);
    assert!(open(3));
    assert_eq!(opener.epochs.iter().map(|keys| keys.epoch).collect::<Vec<_>>(), [1, 2]);
    // A leap into the middle of an epoch.
    let (mut sealer, mut opener) = pair(Cipher::best_here());
    let number = EPOCH + REPLAY_WINDOW + 7;
    let packet = sealed(&mut sealer, number);
    assert!(opened(&mut opener, number, &packet).is_some());
    assert_eq!(opener.epochs.iter().map(|keys| keys.epoch).collect::<Vec<_>>(), [1]);
}

#[test]
fn packets_that_fail_to_open_are_counted_up_to_the_limit() {
    let (mut sealer, mut opener) = limited(3);
    let packet = sealed(&mut sealer, 5);
    let mut forged = packet.clone();
    forged[0] ^= 1;
    // A packet that is not tried, or that is genuine, is no guess.
    for number in [4 * EPOCH, PACKET_NUMBER_END] {
        assert_eq!(opened(&mut opener, number, &forged), None);
    }
    assert!(opened(&mut opener, 5, &packet).is_some());
    for count in 0..3 {
        assert_eq!(opener.spent(), None, "{count}");
        // Those of all epochs count together.
        assert_eq!(opened(&mut opener, count % 2 * EPOCH + 6, &forged), None);
    }
    assert_eq!(opener.spent(), Some(3));
}

#[test]
fn the_limits_are_those_of_rfc_9001() {
    assert_eq!(Cipher::Aes128Gcm.failures_max(), 1 << 52);
    assert_eq!(Cipher::ChaCha20Poly1305.failures_max(), 1 << 36);
    const { assert!(EPOCH_BITS < 23, "packets with one key") };
}

#[test]
fn secrets_do_not_show() {
    let (sealer, opener) = limited(9);
    let ratchet = "ratchet: Ratchet(ChaCha20-Poly1305, next epoch 1)";
    assert_eq!(format!("{sealer:?}"), format!("Sealer {{ {ratchet}, keys: EpochKeys(0), next: 0 }}"));
    let rest = "forget_at: 4194304, failures: Failures { count: 0, max: 9 }";
    assert_eq!(
        format!("{opener:?}"),
        format!("Opener {{ {ratchet}, current: 0, epochs: [EpochKeys(0)], {rest} }}")
    );
}

#[test]
fn names_round_trip() {
    for cipher in [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305] {
        assert_eq!(Cipher::from_name(cipher.name()), Some(cipher));
    }
    assert_eq!(Cipher::from_name("ROT13"), None);
}
