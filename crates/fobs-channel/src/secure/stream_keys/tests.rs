use super::super::datagram::{Cipher, TAG_LEN};
use super::super::schedule::{KeySchedule, SessionKeys, SessionSecret};
use super::*;

const CIPHER: Cipher = Cipher::ChaCha20Poly1305;

fn keys(schedule: KeySchedule) -> StreamKeys {
    SessionKeys::derive(SessionSecret::new([1; 32]), schedule, CIPHER).streams
}

fn chain(keys: &StreamKeys) -> &IndexChain {
    match &keys.source {
        Source::InOrder(chain) => chain,
        Source::AnyIndex(..) => panic!("the second schedule"),
    }
}

/// Whether two ends have the same keys for an index.
fn agree(sender: &mut StreamKeys, receiver: &mut StreamKeys, index: u16) -> bool {
    let (Some((mut sealer, _)), Some((_, mut opener))) =
        (sender.take(index, Direction::Sender), receiver.take(index, Direction::Receiver))
    else {
        return false;
    };
    let mut sealed = [0; 5 + TAG_LEN];
    sealer.seal(0, b"head", b"hello", &mut sealed);
    let mut body = [0; 5];
    opener.open(0, b"head", &sealed, &mut body) && body == *b"hello"
}

#[test]
fn ends_agree_in_whatever_order_streams_come() {
    for schedule in [KeySchedule::First, KeySchedule::Second] {
        let (mut here, mut there) = (keys(schedule), keys(schedule));
        for index in [0, 1, 2, 3] {
            assert!(agree(&mut here, &mut there, index), "{index}");
        }
        // One end meets them in another order, and some never.
        let mut ordered = (4..40).map(|index| (index, here.take(index, Direction::Sender).unwrap().0));
        let mut sealers: BTreeMap<u16, Sealer> = ordered.by_ref().collect();
        for index in [20, 4, 39, 21, 5, 38, 6] {
            let mut sealed = [0; 5 + TAG_LEN];
            sealers.get_mut(&index).unwrap().seal(0, b"head", b"hello", &mut sealed);
            let (_, mut opener) = there.take(index, Direction::Receiver).unwrap();
            assert!(opener.open(0, b"head", &sealed, &mut [0; 5]), "{schedule:?} {index}");
        }
    }
}

#[test]
fn an_index_has_keys_once() {
    for schedule in [KeySchedule::First, KeySchedule::Second] {
        let mut keys = keys(schedule);
        for index in [0, 7, 3, u16::MAX, 65_000] {
            assert!(keys.take(index, Direction::Sender).is_some(), "{schedule:?} {index}");
            for direction in [Direction::Sender, Direction::Receiver] {
                assert!(keys.take(index, direction).is_none(), "{schedule:?} {index} again");
            }
        }
    }
}

/// After a stream was used, nothing that is kept is what its keys came from: neither the chain, nor a secret
/// that was passed over.
#[test]
fn what_is_left_does_not_yield_a_stream_that_was_used() {
    let bytes = |secret: &Prk| {
        let mut bytes = [0; 32];
        // A secret is told from another by what follows from it.
        chain(&keys(KeySchedule::Second)).labels.fill(secret, "probe", &mut bytes);
        bytes
    };
    // Every secret of the chain and of its streams, in order.
    let mut all = keys(KeySchedule::Second);
    let Source::InOrder(full) = &mut all.source else { panic!("the second schedule") };
    let steps: Vec<_> = (0..30)
        .map(|_| {
            let secrets = (bytes(&full.secret), bytes(&full.stream()));
            full.step();
            secrets
        })
        .collect();
    let mut used = keys(KeySchedule::Second);
    let indices = [3_u16, 1, 12, 20, 5];
    indices.iter().for_each(|index| drop(used.take(*index, Direction::Sender)));
    let left = chain(&used);
    assert_eq!(left.next, 21);
    assert_eq!(bytes(&left.secret), steps[21].0, "only later ones follow");
    let skipped: Vec<_> = left.skipped.iter().map(|(index, secret)| (*index, bytes(secret))).collect();
    let expected: Vec<_> = (0..21_u16)
        .filter(|index| !indices.contains(index))
        .map(|index| (index, steps[usize::from(index)].1))
        .collect();
    assert_eq!(skipped, expected, "those that were not used, each by itself");
}

#[test]
fn few_that_were_passed_over_are_kept_and_the_oldest_go_first() {
    let mut keys = keys(KeySchedule::Second);
    assert!(keys.take(u16::MAX, Direction::Sender).is_some());
    let skipped = &chain(&keys).skipped;
    assert_eq!(skipped.len(), SKIPPED_MAX);
    assert_eq!(skipped.first_key_value().unwrap().0, &(u16::MAX - SKIPPED_MAX as u16));
    assert!(keys.take(u16::MAX - SKIPPED_MAX as u16 - 1, Direction::Sender).is_none(), "forgotten");
    assert!(keys.take(u16::MAX - SKIPPED_MAX as u16, Direction::Sender).is_some());
    // In many small steps as in one.
    let mut keys = super::tests::keys(KeySchedule::Second);
    for index in (1..6000).step_by(2) {
        assert!(keys.take(index, Direction::Sender).is_some());
        assert!(chain(&keys).skipped.len() <= SKIPPED_MAX);
    }
    assert!(keys.take(2, Direction::Sender).is_none(), "forgotten");
    assert!(keys.take(5998, Direction::Sender).is_some());
}
