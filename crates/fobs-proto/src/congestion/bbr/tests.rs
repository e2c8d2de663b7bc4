use super::super::testing::{Acks, PACKET};
use super::*;
use std::collections::VecDeque;

const RTT: Duration = Duration::from_millis(40);
const LINK: Rate = Rate::bits_per_second(100_000_000);

/// Steps of a round trip.
const STEPS: u32 = 8;

/// BBR over one link with an endless queue, in steps of an eighth of a round trip.
struct Scene {
    bbr: Bbr,
    acks: Acks,
    link: Rate,
    base: Duration,
    queue: u64,
    /// What the link has carried in each step and no ack has covered yet.
    carried: VecDeque<u64>,
    in_flight: u64,
    /// What pacing allows and did not fill a packet yet.
    credit: u64,
}

impl Scene {
    fn new() -> Scene {
        Scene {
            bbr: Bbr::new(PACKET),
            acks: Acks::new(RTT),
            link: LINK,
            base: RTT,
            queue: 0,
            carried: VecDeque::new(),
            in_flight: 0,
            credit: 0,
        }
    }

    fn bdp(&self) -> u64 {
        self.link.bytes_in(self.base)
    }

    fn step(&mut self) {
        let time = self.base / STEPS;
        let room = self.bbr.congestion_window().saturating_sub(self.in_flight);
        let packet = u64::from(PACKET);
        let may = (self.credit + self.bbr.pacing.bytes_in(time)).min(room);
        let sent = may - may % packet;
        self.credit = (may - sent).min(packet);
        self.in_flight += sent;
        let now = self.acks.now();
        self.bbr.on_sent(&BurstSent { now, packets: 1, bytes: sent, bytes_in_flight: self.in_flight });
        self.queue += sent;
        let carried = self.queue.min(self.link.bytes_in(time));
        self.queue -= carried;
        self.carried.push_back(carried);
        let acked = if self.carried.len() > STEPS as usize { self.carried.pop_front() } else { None };
        self.in_flight -= acked.unwrap_or(0);
        self.acks.rtt = self.base + self.link.time_for(self.queue);
        let arriving = Rate::of(acked.unwrap_or(0), time).expect("time passes");
        let mut ack = self.acks.next(time, arriving);
        ack.bytes_in_flight = self.in_flight;
        if ack.acked_bytes > 0 {
            self.bbr.on_ack(&ack);
        }
    }

    fn until(&mut self, state: &str) -> u32 {
        (1..100_000)
            .find(|_| {
                self.step();
                self.bbr.state() == state
            })
            .unwrap_or_else(|| panic!("never {state}: {:?}", self.bbr))
    }
}

#[test]
fn startup_ends_after_three_rounds_without_growth() {
    let mut scene = Scene::new();
    let steps = scene.until("drain");
    // Seven doublings from ten packets to twice the 340 that the path holds, then three rounds that a queue
    // makes twice as long.
    assert!(steps / STEPS <= 17, "{} round trips", steps / STEPS);
    assert!((scene.bbr.model.max_bw().as_bytes() as f64 / LINK.as_bytes() as f64 - 1.0).abs() < 0.01);
    assert!(scene.bbr.pacing < LINK.scaled(0.36));
    scene.until("cruise");
    assert!(scene.queue <= scene.bdp() / 20, "{} bytes still queued", scene.queue);
}

#[test]
fn the_gains_of_the_cycle_come_in_their_order() {
    let mut scene = Scene::new();
    scene.until("probe up");
    let mut before = "probe up";
    let mut probes = vec![];
    let began = scene.acks.now();
    while scene.acks.now() - began < Duration::from_secs(12) {
        scene.step();
        let state = scene.bbr.state();
        if state == before {
            continue;
        }
        let allowed: &[&str] = match before {
            "probe up" => &["probe down", "probe rtt"],
            "probe down" => &["cruise", "refill", "probe rtt"],
            "cruise" => &["refill", "probe rtt"],
            "refill" => &["probe up", "probe rtt"],
            // Down, and at once on to cruising.
            "probe rtt" => &["cruise"],
            other => panic!("{other} after startup"),
        };
        assert!(allowed.contains(&state), "{before}, then {state}");
        let gain = scene.bbr.pacing.as_bytes() as f64 / (scene.bbr.model.bw().as_bytes() as f64 * 0.99);
        let expected = match state {
            "probe up" => 1.25,
            "probe down" => 0.90,
            _ => 1.0,
        };
        assert!((gain - expected).abs() < 0.01, "{state} with {gain}");
        if state == "probe up" {
            probes.push((scene.acks.now() - began).as_millis());
        }
        before = state;
    }
    // Two to three seconds of waiting, and the round trips of the probe itself.
    assert!(probes.len() >= 3 && probes.len() <= 6, "{probes:?}");
}

#[test]
fn losses_above_two_percent_end_a_probe_and_bound_the_inflight() {
    let mut scene = Scene::new();
    scene.until("probe up");
    let in_flight = scene.bbr.model.in_flight_then();
    let few = scene.acks.losses(in_flight / 100 / u64::from(PACKET));
    scene.bbr.on_loss(&few);
    assert_eq!(scene.bbr.state(), "probe up", "one percent is tolerated");
    scene.bbr.on_loss(&scene.acks.losses(in_flight / 50 / u64::from(PACKET)));
    assert_eq!(scene.bbr.state(), "probe down");
    let bound = scene.bbr.model.inflight_longterm.expect("a bound");
    assert!(bound >= (0.7 * scene.bdp() as f64) as u64 && bound <= 3 * scene.bdp(), "{bound}");
    scene.until("cruise");
    assert!(scene.bbr.congestion_window() <= (bound as f64 * 0.85) as u64 + 1, "room for others");
}

#[test]
fn losses_while_cruising_take_three_tenths_at_most() {
    let mut scene = Scene::new();
    scene.until("cruise");
    scene.bbr.on_loss(&scene.acks.losses(100));
    let window = scene.bbr.congestion_window();
    for _ in 0..9 {
        scene.step();
    }
    let bound = scene.bbr.model.inflight_shortterm.expect("a short-term bound");
    assert!(bound >= (0.69 * window as f64) as u64, "{bound} of {window}");
    assert!(scene.bbr.model.bw_shortterm.is_some_and(|bw| bw >= LINK.scaled(0.69)));
    scene.until("refill");
    assert_eq!(scene.bbr.model.inflight_shortterm, None, "the next probe forgets it");
}

#[test]
fn the_round_trip_is_probed_every_five_seconds() {
    let mut scene = Scene::new();
    scene.until("cruise");
    // A path that becomes longer: no sample is as short as the least any more.
    scene.base = 2 * RTT;
    let began = scene.acks.now();
    scene.until("probe rtt");
    let waited = scene.acks.now() - began;
    assert!(waited > Duration::from_secs(4) && waited < Duration::from_secs(6), "{waited:?}");
    let half = (0.5 * LINK.bytes_in(RTT) as f64) as u64;
    assert!(scene.bbr.congestion_window() <= half + 1, "half of what the path was thought to hold");
    let began = scene.acks.now();
    while scene.bbr.state() == "probe rtt" {
        scene.step();
    }
    let lasted = scene.acks.now() - began;
    assert!(lasted >= PROBE_RTT_DURATION && lasted < Duration::from_millis(500), "{lasted:?}");
    assert_eq!(scene.bbr.state(), "cruise");
}

#[test]
fn startup_ends_by_loss_too() {
    let mut scene = Scene::new();
    for _ in 0..16 {
        scene.step();
    }
    assert_eq!(scene.bbr.state(), "startup");
    for _ in 0..FULL_LOSS_REPORTS {
        scene.bbr.on_loss(&scene.acks.losses(20));
    }
    for _ in 0..STEPS {
        scene.step();
    }
    assert_ne!(scene.bbr.state(), "startup");
    assert!(scene.bbr.model.inflight_longterm.is_some());
}

#[test]
fn a_bound_of_a_few_packets_and_a_half_is_outgrown() {
    let mut scene = Scene::new();
    scene.until("refill");
    // What an outage leaves: few bytes in flight and little bandwidth.
    let few = 11 * u64::from(PACKET) / 2;
    scene.bbr.model.inflight_longterm = Some(few);
    scene.bbr.model.set_bw(Rate::of(few, RTT).expect("a round trip"));
    let began = scene.acks.now();
    while scene.acks.now() - began < Duration::from_secs(30) {
        scene.step();
    }
    let bw = scene.bbr.model.max_bw();
    assert!(bw >= LINK.scaled(0.5), "{bw}: {:?}", scene.bbr);
}

#[test]
fn one_that_knows_the_path_begins_with_its_rate() {
    let mut scene = Scene::new();
    scene.bbr = Bbr::at(&scene.acks.round(0), LINK, RTT);
    assert_eq!((scene.bbr.state(), scene.bbr.pacing), ("cruise", LINK));
    let (began, mut seen) = (scene.acks.now(), Vec::new());
    while scene.acks.now() - began < Duration::from_secs(12) {
        scene.step();
        let state = scene.bbr.state();
        if seen.last() != Some(&state) {
            seen.push(state);
        }
        assert!(scene.bbr.model.bw() >= LINK.scaled(0.95), "{state}: {:?}", scene.bbr);
    }
    assert!(seen.contains(&"probe up") && !seen.contains(&"startup") && !seen.contains(&"drain"), "{seen:?}");
}

#[test]
fn a_rate_that_does_not_arrive_counts_until_the_second_probe() {
    let mut scene = Scene::new();
    scene.bbr = Bbr::at(&scene.acks.round(0), LINK.scaled(2.0), RTT);
    scene.until("probe up");
    assert!(scene.bbr.model.max_bw() >= LINK.scaled(1.9), "{:?}", scene.bbr);
    scene.until("probe down");
    scene.until("probe up");
    scene.until("probe down");
    scene.until("cruise");
    let bw = scene.bbr.model.max_bw();
    assert!(bw <= LINK.scaled(1.05) && bw >= LINK.scaled(0.9), "{bw}: {:?}", scene.bbr);
}
