use super::*;

const CORES: GrowthRule = GrowthRule::Threads { cores: 16 };
const ROOM: u64 = 100 << 20;

/// A session, stretch by stretch.
struct Played {
    growth: LaneGrowth,
    seen: GrowthSeen,
    lanes: u8,
    added: Vec<u32>,
    stretches: u32,
}

/// What happens in a stretch.
#[derive(Clone, Copy)]
struct Stretch {
    /// Parts of the time for which the threads of the ends are on a core, and wait for one.
    busy: [f64; 2],
    short: f64,
    /// Bytes a second.
    rate: f64,
    /// The part of them that streams carry.
    framed: f64,
    round_trip: Duration,
}

const BUSY: Stretch =
    Stretch { busy: [0.97, 0.3], short: 0.0, rate: 2e9, framed: 0.0, round_trip: Duration::from_millis(10) };
const IDLE: Stretch = Stretch { busy: [0.4, 0.3], ..BUSY };

impl Played {
    fn new(rule: GrowthRule) -> Played {
        let growth = LaneGrowth::new(rule, ROOM);
        let mut played =
            Played { growth, seen: GrowthSeen::default(), lanes: 1, added: Vec::new(), stretches: 0 };
        assert_eq!(played.growth.observe(1, played.seen), None, "nothing has passed yet");
        played
    }

    fn plays(&mut self, times: u32, stretch: Stretch) -> &mut Played {
        for _ in 0..times {
            self.stretches += 1;
            let us = STRETCH.as_micros() as u64;
            let part = |part: f64| (part * us as f64) as u64;
            let seen = &mut self.seen;
            for (end, busy) in [&mut seen.sender, &mut seen.receiver].into_iter().zip(stretch.busy) {
                end.time_us += us;
                end.run_us += part(busy);
                end.delay_us += part(stretch.short);
            }
            let bytes = stretch.rate * STRETCH.as_secs_f64();
            seen.bytes += bytes as u64;
            seen.framed += (bytes * stretch.framed) as u64;
            seen.round_trip_us = stretch.round_trip.as_micros() as u64;
            if self.growth.observe(self.lanes, self.seen).is_some() {
                self.lanes += 1;
                self.added.push(self.stretches);
            }
        }
        self
    }
}

#[test]
fn a_thread_that_stays_busy_gets_another() {
    for busy in [[0.97, 0.3], [0.3, 0.97]] {
        let mut played = Played::new(CORES);
        assert_eq!(played.plays(10, Stretch { busy, ..BUSY }).added, [3], "either end may be the limit");
    }
}

#[test]
fn what_calls_for_no_lane() {
    let hosts = |cores| GrowthRule::Threads { cores };
    for (what, rule, stretch) in [
        ("an idle thread", CORES, IDLE),
        ("too few cores", hosts(3), BUSY),
        ("cores that others use", CORES, Stretch { short: 0.2, ..BUSY }),
        ("streams", CORES, Stretch { framed: 0.5, ..BUSY }),
        ("more in flight than fits", CORES, Stretch { round_trip: Duration::from_millis(60), ..BUSY }),
    ] {
        assert_eq!(Played::new(rule).plays(20, stretch).added, [] as [u32; 0], "{what}");
    }
}

#[test]
fn a_busy_stretch_now_and_then_is_none_in_a_row() {
    let mut played = Played::new(CORES);
    for _ in 0..10 {
        played.plays(2, BUSY).plays(1, IDLE);
    }
    assert_eq!(played.added, [] as [u32; 0]);
    assert_eq!(played.plays(3, BUSY).added, [33]);
}

#[test]
fn lanes_are_added_while_each_brings_something() {
    let mut played = Played::new(CORES);
    let near = Stretch { round_trip: Duration::from_millis(1), ..BUSY };
    let mut rate = 2e9;
    for _ in 0..20 {
        // Five stretches from one addition to the next: two that settle, three that are busy.
        played.plays(3, Stretch { rate, ..near });
        rate *= 1.2;
        played.plays(2, Stretch { rate, ..near });
    }
    assert_eq!(played.added, [3, 8, 13, 18, 23, 28, 33], "up to eight lanes");
    assert_eq!(played.lanes, super::super::LANES_UNCHOSEN_MAX);
}

#[test]
fn a_lane_that_brings_nothing_is_the_last() {
    let mut played = Played::new(CORES);
    played.plays(3, BUSY).plays(20, Stretch { rate: 2.1e9, ..BUSY }).plays(20, Stretch { rate: 4e9, ..BUSY });
    assert_eq!(played.added, [3]);
}

#[test]
fn an_end_that_shows_nothing_is_not_judged() {
    let mut growth = LaneGrowth::new(CORES, ROOM);
    for seconds in 0..20u64 {
        let sender = ThreadTimes { time_us: seconds * 1_000_000, run_us: seconds * 990_000, delay_us: 0 };
        let seen = GrowthSeen { sender, bytes: seconds << 30, ..GrowthSeen::default() };
        assert_eq!(growth.observe(1, seen), None, "the receiver has not told yet");
    }
}

#[test]
fn an_end_that_refuses_is_not_asked_again() {
    let mut played = Played::new(CORES);
    played.growth.end();
    assert_eq!(played.plays(20, BUSY).added, [] as [u32; 0]);
}
