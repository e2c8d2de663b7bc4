//! What is chosen over a grid of paths and hosts, in a world without threads.

use std::collections::VecDeque;

use super::*;

const MIB: u64 = 1 << 20;
/// The longest chunk here, and how much of the basis is listed ahead of it.
const CHUNK: u64 = MIB;
const AHEAD: u64 = 68 * MIB;
/// Of the time of the other way, what makes no difference.
const GAIN_LEAST: f64 = 0.85;

/// Two hosts, a path between them, and a file.
#[derive(Debug, Clone, Copy)]
struct World {
    /// Bytes per second that the path carries, and at which an end cuts, and reads and hashes.
    path: f64,
    cut: f64,
    read: f64,
    round_trip: f64,
    /// Until the rate doubles at first, seconds: a round trip, or what the ends take to wake up.
    doubling: f64,
    /// Share of the file that the receiver has not.
    missed: f64,
    size: u64,
}

/// What a transfer took.
#[derive(Debug, Clone, Copy)]
struct Cost {
    seconds: f64,
    /// Bytes that were sent in vain: the receiver had them.
    vain: u64,
}

struct Run {
    world: World,
    pays: Pays,
    now: f64,
    path_free: f64,
    began: Option<f64>,
    /// When chunks arrive, and what the sender then knows.
    flying: VecDeque<(f64, Arrival)>,
    last: Option<bool>,
    last_at: f64,
}

impl Run {
    /// When the path has carried these bytes, from a time on; it speeds up at first.
    fn carried(&mut self, mut bytes: f64, from: f64) -> f64 {
        let World { path, round_trip, doubling, .. } = self.world;
        let began = *self.began.get_or_insert(from);
        let mut at = from;
        loop {
            let doubled = ((at - began) / doubling).min(40.0).exp2();
            let rate = 65_536.0 * doubled / round_trip;
            if rate >= path {
                return at + bytes / path;
            }
            let step = (doubling / 4.0).min(bytes / rate);
            bytes -= rate * step;
            at += step;
            if bytes < 1.0 {
                return at;
            }
        }
    }

    fn send(&mut self, data: u64, wire: f64, (looked, tried): (bool, u64)) {
        let from = self.now.max(self.path_free);
        self.path_free = self.carried(wire + 200.0, from);
        let arrives = self.path_free + self.world.round_trip;
        let follows = match self.last {
            Some(last) if last == looked => Follows::ItsLike,
            _ => Follows::Another,
        };
        let since = if follows == Follows::ItsLike { self.last_at } else { self.now };
        let took = Duration::from_secs_f64((arrives - since).max(0.0));
        (self.last, self.last_at) = (Some(looked), arrives);
        self.flying.push_back((arrives, Arrival { data_bytes: data, looked, tried, took, follows }));
    }

    /// Goes on to a time, at the latest.
    fn wait(&mut self, until: f64) {
        let next = self.flying.front().map_or(until, |(at, _)| *at).max(self.now);
        self.now = next.min(until);
    }

    fn hear(&mut self) {
        while let Some((_, arrival)) = self.flying.pop_front_if(|(at, _)| *at <= self.now) {
            self.pays.round_trip(Duration::from_secs_f64(self.world.round_trip));
            self.pays.arrived(arrival);
        }
    }

    fn play(world: World, when: Option<Delta>) -> Cost {
        let epoch = Instant::now();
        let pays = Pays::new(when.unwrap_or(Delta::Auto));
        let mut run = Run {
            world,
            pays,
            now: 0.0,
            path_free: 0.0,
            began: None,
            flying: VecDeque::new(),
            last: None,
            last_at: 0.0,
        };
        // The file's record.
        run.send(0, 0.0, (false, 0));
        let held = 12.0 * CHUNK as f64 + 4.0 * world.path * world.round_trip;
        let (mut at, mut vain, mut is_over) = (0, 0, when == Some(Delta::Never));
        while at < world.size {
            run.hear();
            let flying: u64 = run.flying.iter().map(|(_, arrival)| arrival.data_bytes).sum();
            if flying as f64 > held {
                run.wait(run.now + 0.01);
                continue;
            }
            let listed = ((run.now - world.round_trip).max(0.0) * world.cut).min(world.size as f64);
            if listed > 0.0 && !is_over {
                let time = Duration::from_secs_f64(listed / world.cut);
                run.pays.was_listed((listed as u64, time), Passed::No, Cutting::ByContent);
            }
            let way = run.pays.way(epoch + Duration::from_secs_f64(run.now));
            let left = (world.size - at).min(CHUNK);
            let (len, wire, looked, tried) = match way {
                _ if is_over => (left, left as f64, false, 0),
                Way::Whole => {
                    is_over = true;
                    continue;
                }
                Way::Trial(room) if room < GROUP => {
                    run.wait(run.now + 0.01);
                    continue;
                }
                Way::Trial(room) => (left.min(room), left.min(room) as f64, false, left.min(room)),
                Way::Delta if listed < (at + AHEAD).min(world.size) as f64 => {
                    run.wait(run.now + 0.01);
                    continue;
                }
                Way::Delta => (left, left as f64 * world.missed, true, 0),
            };
            let mut took = len as f64 / world.read;
            if looked {
                took += len as f64 / world.cut;
                let time = Duration::from_secs_f64(len as f64 / world.cut);
                let found = ((1.0 - world.missed) * len as f64) as u64;
                run.pays.worked(len, time, Cutting::ByContent);
                run.pays.found(len, found);
            } else {
                vain += ((1.0 - world.missed) * len as f64) as u64;
            }
            run.pays.was_read(len, Duration::from_secs_f64(len as f64 / world.read));
            run.now += took;
            run.pays.tried(tried);
            run.send(len, wire, (looked, tried));
            at += len;
        }
        Cost { seconds: run.path_free + world.round_trip, vain }
    }
}

fn worlds() -> impl Iterator<Item = World> {
    let paths = [1e6, 1.25e7, 1.25e8, 3.1e8, 1.25e9, 5e9];
    let cuts = [1e8, 4e8, 1e9];
    let missed = [0.002, 0.05, 0.3, 1.0];
    let sizes = [20, 300, 3000];
    paths.into_iter().flat_map(move |path| {
        cuts.into_iter().flat_map(move |cut| {
            [0.0002_f64, 0.005, 0.05].into_iter().flat_map(move |round_trip| {
                missed.into_iter().flat_map(move |missed| {
                    sizes.into_iter().flat_map(move |size| {
                        [round_trip, round_trip.max(0.008)].into_iter().map(move |doubling| World {
                            path,
                            cut,
                            read: 2e9,
                            round_trip,
                            doubling,
                            missed,
                            size: size * 1_000_000,
                        })
                    })
                })
            })
        })
    })
}

#[test]
fn a_wrong_guess_costs_little_over_any_path() {
    // The trial of an opening, and its last chunk.
    let opening = 2.0 * OPENING.as_secs_f64();
    for world in worlds() {
        let [auto, never, always] =
            [None, Some(Delta::Never), Some(Delta::Always)].map(|when| Run::play(world, when));
        let told = format!("{world:?}: auto {auto:?}, never {never:?}, always {always:?}");
        if world.round_trip < 0.01 {
            let best = never.seconds.min(always.seconds);
            assert!(auto.seconds <= best * 1.05 + opening, "{told}");
        } else {
            // What a ramp-up takes is not spent before a twentieth of the time pays for it.
            assert!(auto.seconds <= always.seconds * 1.1 + opening, "{told}");
            let ramp_up_s = 30.0 * world.round_trip / STAKE;
            let whole = never.seconds / GAIN_LEAST;
            assert!(auto.seconds <= whole + ramp_up_s || auto.seconds <= always.seconds, "{told}");
        }
    }
}

#[test]
fn a_slow_path_has_its_delta_from_the_first_file_on() {
    for world in worlds().filter(|world| world.path < 2e7 && world.cut > 2e8 && world.missed < 0.1) {
        let auto = Run::play(world, None);
        // What the path carries in the opening, with what is in flight at its end, and later.
        let opening = 1.5 * OPENING.as_secs_f64() * world.path + START as f64;
        let staked = 2.0 * STAKE * auto.seconds * world.path;
        assert!(auto.vain as f64 <= opening + staked, "{world:?}: {auto:?}");
        if world.round_trip > 0.01 && world.size < 1_000_000_000 {
            assert!(auto.vain <= START, "only the round trip is measured: {world:?} {auto:?}");
        }
    }
}

#[test]
fn a_fast_short_path_takes_files_whole() {
    for world in
        worlds().filter(|world| world.path > 1e9 && world.round_trip < 0.001 && world.size > 1_000_000_000)
    {
        let (auto, never) = (Run::play(world, None), Run::play(world, Some(Delta::Never)));
        assert!(auto.seconds <= never.seconds / 0.95, "{world:?}: {auto:?} {never:?}");
    }
}

#[test]
fn lists_are_wanted_while_they_are_of_use() {
    let (now, pays) = (Instant::now(), Pays::new(Delta::Auto));
    assert_eq!((pays.way(now), pays.news_of_lists()), (Way::Trial(START), None), "nothing is known");
    pays.round_trip(OPENING);
    assert_eq!(pays.way(now), Way::Delta, "a trial would take too long");
    pays.path_carries(2_000_000_000);
    assert_eq!((pays.way(now), pays.news_of_lists(), pays.news_of_lists()), (Way::Whole, Some(false), None));
    pays.path_carries(1_000_000);
    assert_eq!((pays.way(now), pays.news_of_lists(), pays.news_of_lists()), (Way::Delta, Some(true), None));
    let always = Pays::new(Delta::Always);
    always.path_carries(2_000_000_000);
    assert_eq!((always.way(now), always.news_of_lists()), (Way::Delta, None));
}

#[test]
fn trees_of_which_nothing_is_found_go_whole() {
    let (now, pays) = (Instant::now(), Pays::new(Delta::Auto));
    let second = Duration::from_secs(1);
    pays.round_trip(second);
    pays.found(SAMPLE - 1, 0);
    assert_eq!(pays.way(now), Way::Delta, "too early to say");
    pays.found(SAMPLE, 0);
    assert_eq!(pays.way(now), Way::Whole);
    pays.found(SAMPLE, SAMPLE);
    assert_eq!(pays.way(now), Way::Delta, "a third is worth it");
}
