use aws_lc_rs::hmac;

use super::*;

const EPOCH: u64 = 1 << EPOCH_BITS;
const HEADER: &[u8] = b"twelve bytes";

fn secret() -> SessionSecret {
    SessionSecret::new(std::array::from_fn(|index| index as u8))
}

fn pair(cipher: Cipher) -> (Sealer, Opener) {
    let secret = secret();
    (Sealer::new(&secret, cipher, Direction::Sender), Opener::new(&secret, cipher, Direction::Sender))
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
        Opener::new(&secret(), Cipher::Aes128Gcm, Direction::Receiver),
        Opener::new(&secret(), Cipher::ChaCha20Poly1305, Direction::Sender),
        Opener::new(&SessionSecret::new([7; 32]), Cipher::Aes128Gcm, Direction::Sender),
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
    assert_eq!(
        opener.epochs.capacity(),
        Opener::new(&secret(), Cipher::Aes128Gcm, Direction::Sender).epochs.capacity()
    );
}

#[test]
#[should_panic(expected = "used twice")]
fn a_number_is_never_sealed_twice() {
    let (mut sealer, _) = pair(Cipher::best_here());
    sealed(&mut sealer, 3);
    sealed(&mut sealer, 3);
}

/// HKDF of one block (RFC 5869 section 2.3), written out with HMAC.
fn expand_by_hand(secret: &[u8], info: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    hmac::sign(&key, &[info.as_bytes(), &[1]].concat()).as_ref().to_vec()
}

#[test]
fn the_key_schedule_is_that_of_the_specification() {
    for (cipher, algorithm, key_len) in
        [(Cipher::Aes128Gcm, &AES_128_GCM, 16), (Cipher::ChaCha20Poly1305, &CHACHA20_POLY1305, 32)]
    {
        for (direction, label) in [(Direction::Sender, "fobs sender"), (Direction::Receiver, "fobs receiver")]
        {
            let mut sealer = Sealer::new(&secret(), cipher, direction);
            let salt = hmac::Key::new(hmac::HMAC_SHA256, b"fobs v1");
            let extracted = hmac::sign(&salt, secret().as_bytes());
            let mut traffic = expand_by_hand(extracted.as_ref(), label);
            for epoch in 0..3 {
                let packet_number = epoch * EPOCH + 0x01_0203;
                let mut packet = sealed(&mut sealer, packet_number);

                let key = &expand_by_hand(&traffic, "fobs key")[..key_len];
                let iv = &expand_by_hand(&traffic, "fobs iv")[..12];
                let number = [&[0; 4], packet_number.to_be_bytes().as_slice()].concat();
                let nonce: Vec<u8> = iv.iter().zip(number).map(|(iv, number)| iv ^ number).collect();
                let key = LessSafeKey::new(UnboundKey::new(algorithm, key).unwrap());
                let nonce = Nonce::try_assume_unique_for_key(&nonce).unwrap();
                let opened = key.open_in_place(nonce, Aad::from(HEADER), &mut packet).unwrap();
                assert_eq!(opened, plaintext(packet_number), "{cipher:?} {direction:?} epoch {epoch}");

                traffic = expand_by_hand(&traffic, "fobs next");
            }
        }
    }
}

/// Computed once from the specification with Python's `hmac`: guards against both sides of the test above
/// changing together.
#[test]
fn the_first_traffic_keys_are_known() {
    let salt = hmac::Key::new(hmac::HMAC_SHA256, b"fobs v1");
    let extracted = hmac::sign(&salt, secret().as_bytes());
    let traffic = expand_by_hand(extracted.as_ref(), "fobs sender");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&expand_by_hand(&traffic, "fobs key")[..16]), "b9babb60469a1a731eb6ed7bd6b14b76");
    assert_eq!(hex(&expand_by_hand(&traffic, "fobs iv")[..12]), "abd739b60cd72678db0969e8");
}

#[test]
fn secrets_do_not_show() {
    let secret = secret();
    assert_eq!(format!("{secret:?}"), "SessionSecret(..)");
    let (sealer, opener) = pair(Cipher::Aes128Gcm);
    let ratchet = "ratchet: Ratchet(AES-128-GCM, next epoch 1)";
    assert_eq!(format!("{sealer:?}"), format!("Sealer {{ {ratchet}, keys: EpochKeys(0), next: 0 }}"));
    assert_eq!(format!("{opener:?}"), format!("Opener {{ {ratchet}, current: 0, epochs: [EpochKeys(0)] }}"));
    assert_ne!(SessionSecret::random().as_bytes(), SessionSecret::random().as_bytes());
}

#[test]
fn names_round_trip() {
    for cipher in [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305] {
        assert_eq!(Cipher::from_name(cipher.name()), Some(cipher));
    }
    assert_eq!(Cipher::from_name("ROT13"), None);
}
