use super::*;
use crate::secure::identity::Identity;
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
    let refused = waiting(&admission, &ann, limits(2)).wait(Duration::ZERO, &cancel);
    assert_eq!(refused.err(), Some(Full::Key(2)));
    let other = seated(&admission, &bob, KeyLimits::default());
    let refused = waiting(&admission, &bob, KeyLimits::default()).wait(Duration::ZERO, &cancel);
    assert_eq!(refused.err(), Some(Full::Daemon(3)));
    drop(held);
    assert_eq!((admission.sessions(), admission.waiting()), (1, 0));
    let _again = [seated(&admission, &ann, limits(2)), seated(&admission, &ann, limits(2))];
    drop((other, _again));
    assert!(admission.running().keys.is_empty(), "keys without clients are forgotten");
    // Open files bound sessions, too.
    let files = KeyLimits { open_files: Some(800), ..KeyLimits::default() };
    let _one = seated(&admission, &ann, files);
    assert_eq!(waiting(&admission, &ann, files).wait(Duration::ZERO, &cancel).err(), Some(Full::Key(1)));
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
                let seat = place.wait(LONG, &CancelToken::new()).ok();
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
        move || place.wait(LONG, &cancel).err()
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
