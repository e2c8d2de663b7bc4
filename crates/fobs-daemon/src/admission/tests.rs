use super::*;
use fobs_channel::secure::identity::Identity;
use std::thread;

const LONG: Duration = Duration::from_secs(60);

fn key() -> PublicKey {
    Identity::generate().public()
}

fn limits(sessions: usize) -> KeyLimits {
    KeyLimits { sessions: Some(sessions), ..KeyLimits::default() }
}

fn seated(admission: &Admission, key: &PublicKey, limits: KeyLimits) -> Seat {
    match admission.arrive(key, limits) {
        Ok(Arrival::Seated(seat)) => seat,
        _ => panic!("no session"),
    }
}

fn waiting(admission: &Admission, key: &PublicKey, limits: KeyLimits) -> Place {
    match admission.arrive(key, limits) {
        Ok(Arrival::Waiting(place)) => place,
        _ => panic!("no place"),
    }
}

fn wait_until(come_true: impl Fn() -> bool) {
    let end = Instant::now() + LONG;
    while !come_true() {
        assert!(Instant::now() < end, "in time");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn daemon_and_key_bound_sessions_each_for_itself() {
    let (admission, ann, bob) = (Admission::new(3), key(), key());
    let cancel = CancelToken::new();
    let held = [seated(&admission, &ann, limits(2)), seated(&admission, &ann, limits(2))];
    let refused = waiting(&admission, &ann, limits(2)).wait(None, Duration::ZERO, &cancel);
    assert_eq!(refused.err(), Some(Full::Key(2)));
    let other = seated(&admission, &bob, KeyLimits::default());
    let refused = waiting(&admission, &bob, KeyLimits::default()).wait(None, Duration::ZERO, &cancel);
    assert_eq!(refused.err(), Some(Full::Daemon(3)));
    drop(held);
    assert_eq!((admission.sessions(), admission.waiting()), (1, 0));
    let _again = [seated(&admission, &ann, limits(2)), seated(&admission, &ann, limits(2))];
    drop((other, _again));
    assert!(admission.running().keys.is_empty(), "keys without clients are forgotten");
    // Open files bound sessions, too.
    let files = KeyLimits { open_files: Some(800), ..KeyLimits::default() };
    let _one = seated(&admission, &ann, files);
    assert_eq!(
        waiting(&admission, &ann, files).wait(None, Duration::ZERO, &cancel).err(),
        Some(Full::Key(1))
    );
}

#[test]
fn the_first_to_come_gets_the_next_session() {
    let (admission, ann) = (Admission::new(1), key());
    let order = Arc::new(Mutex::new(Vec::new()));
    let seat = seated(&admission, &ann, KeyLimits::default());
    let threads: Vec<_> = (0..4_usize)
        .map(|number| {
            let place = waiting(&admission, &ann, KeyLimits::default());
            let order = order.clone();
            let thread = thread::spawn(move || {
                let seat = place.wait(None, LONG, &CancelToken::new()).ok();
                order.lock().unwrap().push(number);
                drop(seat);
            });
            wait_until(|| admission.running().queue.len() == number + 1);
            thread
        })
        .collect();
    drop(seat);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
}

#[test]
fn a_key_at_its_limit_holds_back_no_other_key() {
    let (admission, ann, bob) = (Admission::new(2), key(), key());
    let _seat = seated(&admission, &ann, limits(1));
    let place = waiting(&admission, &ann, limits(1));
    let queued = thread::spawn({
        let cancel = CancelToken::new();
        move || place.wait(None, LONG, &cancel).err()
    });
    wait_until(|| admission.running().queue.len() == 1);
    let _other = seated(&admission, &bob, KeyLimits::default());
    admission.close();
    assert_eq!(queued.join().unwrap(), Some(Full::Closed), "the end of the daemon ends the wait");
    assert_eq!(admission.arrive(&bob, KeyLimits::default()).err(), Some(Full::Closed));
}

#[test]
fn places_to_wait_are_few_for_one_key_and_for_all() {
    let (admission, busy) = (Admission::new(1), key());
    let _seat = seated(&admission, &busy, KeyLimits::default());
    let mut places = Vec::new();
    for _ in 0..WAITING_MAX / WAITING_PER_KEY_MAX {
        let key = key();
        let place = || waiting(&admission, &key, KeyLimits::default());
        places.extend(std::iter::repeat_with(place).take(WAITING_PER_KEY_MAX));
        assert_eq!(admission.arrive(&key, KeyLimits::default()).err(), Some(Full::Queue));
    }
    assert_eq!(admission.arrive(&key(), KeyLimits::default()).err(), Some(Full::Queue));
    places.clear();
    drop(waiting(&admission, &key(), KeyLimits::default()));
}

#[test]
fn sessions_of_a_key_share_its_rate() {
    let (admission, ann, bob) = (Admission::new(4), key(), key());
    let rate = |bps| KeyLimits { rate_bps: Some(bps), ..KeyLimits::default() };
    let seats = [1_000_000, 1_000_000, 2_000_000].map(|bps| seated(&admission, &ann, rate(bps)));
    let other = seated(&admission, &bob, rate(1_000_000));
    let shared = |a: &Seat, b: &Seat| Arc::ptr_eq(a.rate.as_ref().unwrap(), b.rate.as_ref().unwrap());
    assert!(shared(&seats[0], &seats[1]));
    assert!(!shared(&seats[1], &seats[2]), "the line has changed");
    assert!(!shared(&seats[0], &other));
    assert_eq!(other.throttle().cap(None), Some(1_000_000));
    assert_eq!(other.throttle().cap(Some(5)), Some(5));
}

/// Has a client wait; the number is noted when it has its session, which it gives back at once.
fn queued(
    admission: &Admission,
    key: &PublicKey,
    transfer: Option<[u8; 16]>,
    number: usize,
    order: &Arc<Mutex<Vec<usize>>>,
) -> thread::JoinHandle<()> {
    let (place, order, before) =
        (waiting(admission, key, KeyLimits::default()), order.clone(), admission.running().queue.len());
    let waits = thread::spawn(move || {
        let seat = place.wait(transfer, LONG, &CancelToken::new()).ok();
        order.lock().unwrap().push(number);
        drop(seat);
    });
    wait_until(|| admission.running().queue.len() == before + 1);
    waits
}

#[test]
fn the_next_session_is_for_the_key_that_runs_the_fewest() {
    let (admission, array, other) = (Admission::new(2), key(), key());
    let [first, second] = [0, 1].map(|_| seated(&admission, &array, KeyLimits::default()));
    let order = Arc::default();
    let mut threads: Vec<_> =
        (0..20).map(|number| queued(&admission, &array, None, number, &order)).collect();
    threads.push(queued(&admission, &other, None, 99, &order));
    drop(first);
    wait_until(|| order.lock().unwrap().len() == 21);
    assert_eq!(order.lock().unwrap()[0], 99, "an array of jobs holds back no other key");
    assert!(order.lock().unwrap()[1..].is_sorted(), "of one key the first to come");
    drop(second);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((admission.sessions(), admission.waiting()), (0, 0));
}

#[test]
fn who_was_told_to_come_again_keeps_the_place_in_the_order() {
    let (admission, ann, cancel) = (Admission::new(1), key(), CancelToken::new());
    let seat = seated(&admission, &ann, KeyLimits::default());
    let early = Some([1; 16]);
    let told = waiting(&admission, &ann, KeyLimits::default()).wait(early, Duration::ZERO, &cancel);
    assert_eq!(told.err(), Some(Full::Daemon(1)));
    let turned_away = Some([2; 16]);
    admission.remember((ann, [2; 16]));
    let order = Arc::default();
    let threads = [(None, 3), (turned_away, 2), (early, 1)]
        .map(|(transfer, number)| queued(&admission, &ann, transfer, number, &order));
    drop(seat);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(*order.lock().unwrap(), [1, 2, 3]);
    assert!(admission.running().remembered.is_empty());
    for number in 0..=REMEMBERED_MAX as u64 + 10 {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        admission.remember((ann, id));
    }
    assert_eq!(admission.running().remembered.len(), REMEMBERED_MAX);
}

#[test]
fn whoever_leaves_in_the_moment_of_its_turn_passes_it_on() {
    let (admission, ann) = (Admission::new(1), key());
    for _ in 0..200 {
        let seat = seated(&admission, &ann, KeyLimits::default());
        let cancel = CancelToken::new();
        let (place, token) = (waiting(&admission, &ann, KeyLimits::default()), cancel.clone());
        let leaves = thread::spawn(move || place.wait(None, LONG, &token).is_ok());
        wait_until(|| admission.running().queue.len() == 1);
        thread::scope(|scope| {
            scope.spawn(|| cancel.cancel());
            drop(seat);
        });
        leaves.join().unwrap();
        assert_eq!((admission.sessions(), admission.waiting()), (0, 0));
    }
}
