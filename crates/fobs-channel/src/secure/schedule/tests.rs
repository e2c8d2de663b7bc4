use super::*;
use crate::secure::datagram::{EPOCH_BITS, TAG_LEN};
use aws_lc_rs::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;

const CIPHERS: [Cipher; 2] = [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305];
const SCHEDULES: [KeySchedule; 2] = [KeySchedule::First, KeySchedule::Second];
const DIRECTIONS: [Direction; 2] = [Direction::Sender, Direction::Receiver];
const HEADER: &[u8] = b"twelve bytes";
const BODY: &[u8] = b"a body of no particular length";

fn secret() -> SessionSecret {
    SessionSecret::new(std::array::from_fn(|index| index as u8))
}

fn keys(schedule: KeySchedule, cipher: Cipher) -> SessionKeys {
    SessionKeys::derive(secret(), schedule, cipher)
}

fn sealed(sealer: &mut Sealer, number: u64) -> Vec<u8> {
    let mut packet = vec![0; BODY.len() + TAG_LEN];
    sealer.seal(number, HEADER, BODY, &mut packet);
    packet
}

fn opens(opener: &mut Opener, number: u64, packet: &[u8]) -> bool {
    let mut body = vec![0; BODY.len()];
    opener.open(number, HEADER, packet, &mut body) && body == BODY
}

/// The first 32 bytes of HKDF-Expand (RFC 5869 section 2.3), written out with HMAC.
fn expand_by_hand(secret: &[u8], info: &[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    hmac::sign(&key, &[info, &[1]].concat()).as_ref().to_vec()
}

/// HKDF-Extract.
fn extract_by_hand(salt: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, salt), secret().as_bytes()).as_ref().to_vec()
}

/// The beginning of each label.
fn prefix(schedule: KeySchedule, cipher: Cipher) -> String {
    match schedule {
        KeySchedule::First => "fobs ".to_owned(),
        KeySchedule::Second => format!("fobs/1 {} ", cipher.name()),
    }
}

fn extracted(schedule: KeySchedule) -> Vec<u8> {
    match schedule {
        KeySchedule::First => extract_by_hand(b"fobs v1"),
        KeySchedule::Second => extract_by_hand(b"fobs keys 2"),
    }
}

/// Opens a packet with keys that follow from a traffic secret as the specification says.
fn opens_by_hand(schedule: KeySchedule, cipher: Cipher, traffic: &[u8], number: u64, packet: &[u8]) -> bool {
    let (algorithm, key_len) = match cipher {
        Cipher::Aes128Gcm => (&AES_128_GCM, 16),
        Cipher::ChaCha20Poly1305 => (&CHACHA20_POLY1305, 32),
    };
    let label = |what: &str| format!("{}{what}", prefix(schedule, cipher)).into_bytes();
    let key = &expand_by_hand(traffic, &label("key"))[..key_len];
    let iv = &expand_by_hand(traffic, &label("iv"))[..12];
    let number = [&[0; 4], number.to_be_bytes().as_slice()].concat();
    let nonce: Vec<u8> = iv.iter().zip(number).map(|(iv, number)| iv ^ number).collect();
    let key = LessSafeKey::new(UnboundKey::new(algorithm, key).unwrap());
    let nonce = Nonce::try_assume_unique_for_key(&nonce).unwrap();
    key.open_in_place(nonce, Aad::from(HEADER), &mut packet.to_vec()).is_ok_and(|opened| opened == BODY)
}

#[test]
fn the_key_schedules_are_those_of_the_specification() {
    for (schedule, cipher) in
        SCHEDULES.into_iter().flat_map(|schedule| CIPHERS.map(|cipher| (schedule, cipher)))
    {
        let label = |what: &str| format!("{}{what}", prefix(schedule, cipher)).into_bytes();
        for (direction, word) in DIRECTIONS.into_iter().zip(["sender", "receiver"]) {
            let (mut sealer, _) = keys(schedule, cipher).datagrams.of_end(direction);
            let mut traffic = expand_by_hand(&extracted(schedule), &label(word));
            for epoch in 0..3 {
                let number = (epoch << EPOCH_BITS) + 0x01_0203;
                let packet = sealed(&mut sealer, number);
                let opened = opens_by_hand(schedule, cipher, &traffic, number, &packet);
                assert!(opened, "{schedule:?} {cipher:?} {direction:?} epoch {epoch}");
                traffic = expand_by_hand(&traffic, &label("next"));
            }
        }
    }
}

#[test]
fn the_keys_of_streams_are_those_of_the_specification() {
    for cipher in CIPHERS {
        for (index, direction) in
            [0_u16, 1, 5].into_iter().flat_map(|index| DIRECTIONS.map(|one| (index, one)))
        {
            let first = {
                let d = if direction == Direction::Sender { 0 } else { 1 };
                let info = [b"fobs stream".as_slice(), &index.to_be_bytes(), &[d]].concat();
                expand_by_hand(&extracted(KeySchedule::First), &info)
            };
            let second = {
                let label = |what: &str| format!("fobs/1 {} {what}", cipher.name()).into_bytes();
                let mut chain = expand_by_hand(&extracted(KeySchedule::Second), &label("streams"));
                for _ in 0..index {
                    chain = expand_by_hand(&chain, &label("next stream"));
                }
                let stream = expand_by_hand(&chain, &label("stream"));
                expand_by_hand(&stream, &label(direction.label()))
            };
            for (schedule, traffic) in SCHEDULES.into_iter().zip([first, second]) {
                let (mut sealer, _) = keys(schedule, cipher).streams.take(index, direction).unwrap();
                let packet = sealed(&mut sealer, 3);
                let opened = opens_by_hand(schedule, cipher, &traffic, 3, &packet);
                assert!(opened, "{schedule:?} {cipher:?} stream {index} {direction:?}");
            }
        }
    }
}

/// Computed once from the specification with Python's `hmac`: guards against both sides of the tests above
/// changing together.
#[test]
fn the_first_keys_are_known() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let traffic = expand_by_hand(&extracted(KeySchedule::First), b"fobs sender");
    assert_eq!(hex(&expand_by_hand(&traffic, b"fobs key")[..16]), "b9babb60469a1a731eb6ed7bd6b14b76");
    assert_eq!(hex(&expand_by_hand(&traffic, b"fobs iv")[..12]), "abd739b60cd72678db0969e8");
    let traffic = expand_by_hand(&extracted(KeySchedule::Second), b"fobs/1 AES-128-GCM sender");
    assert_eq!(
        hex(&expand_by_hand(&traffic, b"fobs/1 AES-128-GCM key")[..16]),
        "d16cfbee7717fdb7bf2e2032a96b0c9d"
    );
    assert_eq!(hex(&expand_by_hand(&traffic, b"fobs/1 AES-128-GCM iv")[..12]), "2d8401ec1f1c40d7ba23aecb");
}

/// Ends that do not agree on the schedule or the cipher never understand each other, even where one secret
/// is used for two of them.
#[test]
fn no_two_uses_of_a_secret_share_a_key() {
    let all: Vec<_> =
        SCHEDULES.into_iter().flat_map(|schedule| CIPHERS.map(|cipher| (schedule, cipher))).collect();
    for ours in &all {
        let (mut sealer, _) = keys(ours.0, ours.1).datagrams.of_end(Direction::Sender);
        let (mut on_stream, _) = keys(ours.0, ours.1).streams.take(1, Direction::Sender).unwrap();
        let (packet, record) = (sealed(&mut sealer, 0), sealed(&mut on_stream, 0));
        for theirs in &all {
            let mut streams = keys(theirs.0, theirs.1).streams;
            let mut openers = [
                keys(theirs.0, theirs.1).datagrams.of_end(Direction::Receiver).1,
                keys(theirs.0, theirs.1).datagrams.of_end(Direction::Sender).1,
                streams.take(1, Direction::Receiver).unwrap().1,
                streams.take(2, Direction::Receiver).unwrap().1,
            ];
            let opened =
                openers.each_mut().map(|opener| (opens(opener, 0, &packet), opens(opener, 0, &record)));
            let same = ours == theirs;
            let expected = [(same, false), (false, false), (false, same), (false, false)];
            assert_eq!(opened, expected, "{ours:?} {theirs:?}");
        }
    }
}

#[test]
fn both_ends_understand_each_other() {
    for (schedule, cipher) in
        SCHEDULES.into_iter().flat_map(|schedule| CIPHERS.map(|cipher| (schedule, cipher)))
    {
        let [mut sender, mut receiver] = DIRECTIONS.map(|ours| keys(schedule, cipher).datagrams.of_end(ours));
        assert!(opens(&mut receiver.1, 9, &sealed(&mut sender.0, 9)), "{schedule:?} {cipher:?}");
        assert!(opens(&mut sender.1, 7, &sealed(&mut receiver.0, 7)), "{schedule:?} {cipher:?}");
    }
}

#[test]
fn records_and_packets_that_fail_to_open_count_together() {
    for schedule in SCHEDULES {
        let mut keys = SessionKeys::limited(secret(), schedule, Cipher::Aes128Gcm, 3);
        let (_, mut packets) = keys.datagrams.of_end(Direction::Sender);
        let forged = [0; BODY.len() + TAG_LEN];
        assert!(!opens(&mut packets, 0, &forged));
        for index in [4, 1] {
            assert_eq!(packets.spent(), None);
            let (_, mut records) = keys.streams.take(index, Direction::Sender).unwrap();
            assert!(!opens(&mut records, 0, &forged));
        }
        assert_eq!(packets.spent(), Some(3));
    }
}

#[test]
fn numbers_of_schedules_round_trip() {
    for schedule in SCHEDULES {
        assert_eq!(KeySchedule::from_number(schedule.number()), Some(schedule));
    }
    assert_eq!([0, 3, 255].map(KeySchedule::from_number), [None; 3]);
}

#[test]
fn nothing_shows_a_key() {
    assert_eq!(format!("{:?}", secret()), "SessionSecret(..)");
    let shown = format!("{:?}", keys(KeySchedule::Second, Cipher::Aes128Gcm));
    let ratchet = "Ratchet(AES-128-GCM, next epoch 0)";
    let failures = format!("failures: Failures {{ count: 0, max: {} }}", 1_u64 << 52);
    let pieces = "pieces: PieceKey(..)";
    let datagrams =
        format!("DatagramKeys {{ sender: {ratchet}, receiver: {ratchet}, {failures}, {pieces} }}");
    let streams = "StreamKeys(AES-128-GCM, next index 0)";
    assert_eq!(shown, format!("SessionKeys {{ datagrams: {datagrams}, streams: {streams}, lanes: [] }}"));
    assert_ne!(SessionSecret::random().as_bytes(), SessionSecret::random().as_bytes());
}

#[test]
fn every_lane_has_keys_of_its_own() {
    for cipher in CIPHERS {
        let keys = SessionKeys::with_lanes(secret(), KeySchedule::Second, cipher, 16);
        assert_eq!(keys.lanes.len(), 15);
        let all = || std::iter::once(first_lane(cipher)).chain(further_lanes(cipher));
        for (ours, lane) in all().enumerate() {
            let packet = sealed(&mut lane.of_end(Direction::Sender).0, 7);
            for (theirs, lane) in all().enumerate() {
                let opened = opens(&mut lane.of_end(Direction::Receiver).1, 7, &packet);
                assert_eq!(opened, ours == theirs, "{cipher:?} {ours} {theirs}");
            }
        }
    }
}

fn first_lane(cipher: Cipher) -> DatagramKeys {
    keys(KeySchedule::Second, cipher).datagrams
}

fn further_lanes(cipher: Cipher) -> Vec<DatagramKeys> {
    SessionKeys::with_lanes(secret(), KeySchedule::Second, cipher, 16).lanes
}

#[test]
fn lanes_change_no_other_key_and_have_those_of_the_specification() {
    for cipher in CIPHERS {
        let many = SessionKeys::with_lanes(secret(), KeySchedule::Second, cipher, 3);
        let first = sealed(&mut first_lane(cipher).of_end(Direction::Sender).0, 1);
        assert_eq!(sealed(&mut many.datagrams.of_end(Direction::Sender).0, 1), first);
        let label = |what: &str| format!("{}{what}", prefix(KeySchedule::Second, cipher)).into_bytes();
        for (lane, word) in many.lanes.into_iter().zip(["lane 1", "lane 2"]) {
            let secret = expand_by_hand(&extracted(KeySchedule::Second), &label(word));
            let traffic = expand_by_hand(&secret, &label("sender"));
            let packet = sealed(&mut lane.of_end(Direction::Sender).0, 9);
            assert!(opens_by_hand(KeySchedule::Second, cipher, &traffic, 9, &packet), "{cipher:?} {word}");
        }
    }
}

#[test]
fn the_first_schedule_has_one_lane() {
    let keys = SessionKeys::with_lanes(secret(), KeySchedule::First, Cipher::Aes128Gcm, 4);
    assert!(keys.lanes.is_empty());
}
