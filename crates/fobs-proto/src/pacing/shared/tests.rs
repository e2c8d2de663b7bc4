use super::*;
use fobs_rng::Rng;

/// Shortest sleep between bursts, and most by which a thread wakes late.
const GRAIN: Duration = Duration::from_micros(250);
const LATE_NS_MAX: u64 = 100_000;

/// A sender that has something to send at any time, but never faster than its path.
struct OnPath {
    share: LimitShare,
    path: Rate,
    own: Pacer,
    wakes: Timestamp,
    sent: u64,
}

/// What senders on paths of these rates sent under a limit, and when.
struct Played {
    senders: Vec<OnPath>,
    log: Vec<(Timestamp, u64)>,
}

/// Plays senders until `end`, with packets of this size.
fn play(rng: &mut Rng, limit: Rate, paths: &[Rate], packet: u64, end: Timestamp) -> Played {
    let shared = SharedLimit::new(Timestamp::ZERO, Some(limit));
    let sender = |path: &Rate| OnPath {
        share: shared.share(Timestamp::ZERO),
        path: *path,
        own: Pacer::new(Timestamp::ZERO),
        wakes: Timestamp::ZERO,
        sent: 0,
    };
    let mut played = Played { senders: paths.iter().map(sender).collect(), log: Vec::new() };
    while let Some(next) = played.senders.iter_mut().min_by_key(|sender| sender.wakes)
        && next.wakes < end
    {
        let now = next.wakes;
        let own = Some(next.own.next_departure()).filter(|at| *at > now);
        if let Some(at) = next.share.wait(now).max(own) {
            next.wakes = at.max(now + GRAIN) + Duration::from_nanos(rng.range(0, LATE_NS_MAX));
            continue;
        }
        let rate = next.path.min(limit);
        let bytes = Pacer::quantum(rate).min(60_000).next_multiple_of(packet).max(packet);
        next.own.on_sent(now, bytes, next.path);
        next.share.spend(now, bytes);
        next.sent += bytes;
        // A system call's time.
        next.wakes = now + Duration::from_micros(5);
        played.log.push((now, bytes));
    }
    played
}

#[test]
fn the_sum_keeps_the_limit_and_uses_it_by_need() {
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let count = rng.range(1, 16);
        let packet = rng.range(1200, 9000);
        // From 2 Mbit/s to 10 Gbit/s.
        let limit = Rate::bits_per_second(2_000_000 << rng.range(0, 12));
        let paths: Vec<Rate> = (0..count)
            .map(|_| Rate::bytes_per_second(limit.as_bytes() * rng.range(1, 200) / 100 + 1))
            .collect();
        // Long enough for 300 packets of each.
        let seconds = (300 * count * packet) as f64 / limit.as_bytes() as f64;
        let end = Timestamp::ZERO + Duration::from_secs_f64(seconds.max(0.3));
        let span = (end - Timestamp::ZERO).as_secs_f64();
        let Played { senders, log } = play(&mut rng, limit, &paths, packet, end);
        let of = format!("seed {seed}: {count} paths of {paths:?} under {limit:?}, packets of {packet}");

        // Over any stretch of time: what the pacer makes up for, and the burst that begins it.
        let burst = log.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        let slack = limit.bytes_in(Duration::from_millis(2)) + 2 * burst;
        let (mut depth, mut last) = (0i128, Timestamp::ZERO);
        for (at, bytes) in &log {
            // A bucket of what was sent beyond the limit, never below empty.
            depth = (depth - i128::from(limit.bytes_in(*at - last))).max(0) + i128::from(*bytes);
            last = *at;
            assert!(depth <= i128::from(slack), "{of}: {depth} bytes beyond the limit, of {slack}");
        }

        let sum: u64 = senders.iter().map(|sender| sender.sent).sum();
        let of_paths: u64 = paths.iter().map(|path| path.as_bytes()).sum();
        let due = limit.as_bytes().min(of_paths) as f64 * span;
        assert!(sum as f64 >= 0.95 * due, "{of}: {sum} bytes of {due}");
        if limit.time_for(packet) > Duration::from_millis(1) {
            // A path's own pacer does not make up for the wait for another's packet.
            continue;
        }
        // Each has its equal part, or as much of it as its path carries.
        let equal = limit.as_bytes() / count;
        for sender in &senders {
            let part = sender.sent as f64 / (sender.path.as_bytes().min(equal) as f64 * span);
            assert!(part >= 0.9, "{of}: a path of {:?} had {part} of its part", sender.path);
        }
    }
}

#[test]
fn a_sender_that_stops_leaves_all_to_the_others() {
    let (limit, ms) = (Rate::bits_per_second(80_000_000), Duration::from_millis(1));
    let shared = SharedLimit::new(Timestamp::ZERO, Some(limit));
    let [one, _other] = [(); 2].map(|()| shared.share(Timestamp::ZERO));
    let (mut now, mut sent) = (Timestamp::ZERO, 0);
    while now < Timestamp::from_nanos(1_000_000_000) {
        while one.wait(now).is_none() {
            one.spend(now, 1200);
            sent += 1200;
        }
        now = now + ms;
    }
    assert!((9_500_000..=10_100_000).contains(&sent), "{sent} of 10,000,000 bytes");
}

#[test]
fn a_new_limit_applies_to_all_at_once() {
    let slow = Rate::bits_per_second(1000);
    let shared = SharedLimit::new(Timestamp::ZERO, Some(slow));
    let [one, other] = [(); 2].map(|()| shared.share(Timestamp::ZERO));
    one.spend(Timestamp::ZERO, 1200);
    let now = Timestamp::from_nanos(1_000_000);
    assert!(one.wait(now).is_some() && other.wait(now).is_some());
    shared.set(now, Some(Rate::bits_per_second(1_000_000)));
    assert_eq!((one.wait(now), other.wait(now)), (None, None));
    shared.set(now, None);
    other.spend(now, 1 << 30);
    assert_eq!((one.wait(now), other.wait(now), shared.limit()), (None, None, None));
}

#[test]
fn one_sender_has_all_of_its_limit() {
    let shared = SharedLimit::new(Timestamp::ZERO, Some(Rate::bytes_per_second(1_000_000)));
    let one = shared.share(Timestamp::ZERO);
    one.spend(Timestamp::ZERO, 1000);
    assert_eq!(one.wait(Timestamp::ZERO), Some(Timestamp::from_nanos(1_000_000)), "no one is to come first");
    assert_eq!(one.wait(Timestamp::from_nanos(1_000_000)), None);
}
