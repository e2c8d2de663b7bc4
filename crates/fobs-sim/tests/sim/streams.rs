//! Streams beside datagrams: the way that delivers carries the transfer on, whatever dies, stalls or heals.
//! `FOBS_SEED=<seed>` runs one random world, `FOBS_WORLDS=<n>` another number of them.

use crate::support::{each, number};
use fobs_proto::congestion::CongestionControl;
use fobs_proto::sender::Route;
use fobs_proto::session::{RouteReason, StreamTarget, TransportChoice};
use fobs_sim::Scene;
use fobs_sim::flow::fobs::{Dies, FobsConfig, Kill, Object, StreamFaults, StreamsConfig};
use fobs_sim::flow::{Outcome, Traffic};
use fobs_sim::link::PolicerConfig;
use fobs_sim::rng::{Chance, Rng};
use fobs_sim::scene::Played;
use fobs_sim::time::{MS, Nanos, SEC, seconds};
use fobs_sim::world::FlowView;

const MBIT: u64 = 1_000_000;
const LINK: u64 = 100 * MBIT;
const RTT: Nanos = 20 * MS;
const LONG: Nanos = 2000 * SEC;
/// Random worlds of an ordinary run.
const WORLDS: u64 = 120;

/// Streams of 30 Mbit/s each that together fill nine tenths of the link.
fn streams() -> StreamsConfig {
    StreamsConfig::new(30 * MBIT, 90 * MBIT)
}

fn scene(mebibytes: u64, streams: Option<StreamsConfig>) -> Scene {
    let object = Object::Bytes(mebibytes << 20);
    let config = FobsConfig { streams, ..FobsConfig::new(object, CongestionControl::Auto) };
    Scene::new(LINK, RTT).fobs(config).lasts(LONG)
}

/// Runs a scene whose transfer completes; its flow, and when it ended.
fn complete(scene: Scene) -> (FlowView, f64) {
    let mut played = scene.play();
    let view = played.flow(0);
    assert_eq!(view.outcome, Outcome::Complete, "{}", played.world.describe());
    (view, seconds(played.world.now()))
}

fn routes(view: &FlowView) -> Vec<(Route, f64)> {
    view.routes.iter().map(|change| (change.route, seconds(change.at.as_nanos()))).collect()
}

fn reasons(view: &FlowView) -> Vec<RouteReason> {
    view.routes.iter().map(|change| change.reason).collect()
}

#[test]
fn where_only_small_datagrams_pass_streams_carry_on() {
    for rtt in [RTT, 150 * MS] {
        let config = FobsConfig {
            streams: Some(streams()),
            ..FobsConfig::new(Object::Bytes(16 << 20), CongestionControl::Auto)
        };
        // Pings of 48 bytes pass, and are answered; no data does.
        let (view, _) = complete(Scene::new(LINK, rtt).fobs(config).lasts(LONG).link(|link| link.mtu = 400));
        let routes = routes(&view);
        let left = routes.iter().find(|(route, _)| *route == Route::Frames).expect("streams alone");
        assert!(left.1 <= 3.0 + 10.0 * seconds(rtt), "{routes:?}");
    }
}

#[test]
fn streams_that_are_not_needed_change_nothing() {
    for circular in [false, true] {
        let run = |streams| {
            let scene = scene(16, streams).with(|flow| {
                if let Traffic::Fobs(fobs) = &mut flow.flow.traffic {
                    fobs.circular = circular;
                }
            });
            let mut played = scene.play();
            (played.flow(0), played.world.now(), played.world.packets())
        };
        assert_eq!(run(None), run(Some(streams())));
    }
}

#[test]
fn a_path_without_udp_is_left_at_once() {
    let (view, took) = complete(scene(64, Some(streams())).outage(0, LONG).ack_outage(0, LONG));
    let routes = routes(&view);
    assert_eq!(routes.iter().map(|r| r.0).collect::<Vec<_>>(), [Route::Both, Route::Frames], "{routes:?}");
    assert!(routes[1].1 <= 2.0, "{routes:?}");
    // 64 MiB take 6 s at 90 Mbit/s; the number of streams is found meanwhile.
    assert!(took < 13.0, "{took} s");
    assert!(view.figures.waste() < 0.02, "{:?}", view.figures);
}

#[test]
fn a_path_that_dies_in_the_middle_is_left() {
    for scene in [
        scene(64, Some(streams())).outage(2 * SEC, LONG),
        scene(64, Some(streams())).ack_outage(2 * SEC, LONG),
        scene(64, Some(streams())).outage(2 * SEC, LONG).ack_outage(2 * SEC, LONG),
    ] {
        let (view, took) = complete(scene);
        let routes = routes(&view);
        assert_eq!(reasons(&view)[..2], [RouteReason::UdpDied; 2], "{routes:?}");
        assert!(routes[1].0 == Route::Frames && routes[1].1 <= 4.5, "{routes:?}");
        assert!(took < 16.0, "{took} s, {routes:?}");
    }
}

#[test]
fn a_path_that_heals_is_taken_again() {
    let mut played =
        scene(400, Some(streams())).outage(2 * SEC, 12 * SEC).ack_outage(2 * SEC, 12 * SEC).start();
    played.run_until(30 * SEC);
    let view = played.flow(0);
    let routes = routes(&view);
    assert_eq!(routes.last().map(|r| r.0), Some(Route::Datagrams), "{routes:?} {:?}", reasons(&view));
    assert!(routes.len() <= 4, "{routes:?}");
    // And carries what it did before.
    let share = played.shares(30 * SEC, 34 * SEC)[0];
    assert!(share > 0.85, "{share}");
}

#[test]
fn a_policer_of_a_twentieth_is_left_for_streams() {
    let policer = PolicerConfig { rate: LINK / 20, depth: 64 << 10, refill: 0 };
    let mut played = scene(400, Some(streams())).link(|link| link.policer = Some(policer)).start();
    played.run_until(20 * SEC);
    let view = played.flow(0);
    assert_eq!(view.routes.last().map(|c| c.route), Some(Route::Frames), "{:?}", view.routes);
    let share = played.shares(20 * SEC, 25 * SEC)[0];
    assert!(share > 0.8, "{share}");
}

/// Windows of 64 KiB over 65 ms carry 8 Mbit/s each: thirteen streams fill 100 Mbit/s.
#[test]
fn as_many_streams_are_opened_as_fill_the_link() {
    let paths = [(100 * MBIT, 1..=2), (25 * MBIT, 4..=6), (8 * MBIT, 12..=17), (3 * MBIT, 31..=45)];
    for ((each, count), windows) in paths.into_iter().flat_map(|path| [(path.clone(), false), (path, true)]) {
        let choice = TransportChoice::Tcp { count: None };
        let streams = StreamsConfig { choice, windows, ..StreamsConfig::new(each, LINK) };
        let object = Object::Bytes(2 << 30);
        let config =
            FobsConfig { streams: Some(streams), ..FobsConfig::new(object, CongestionControl::Auto) };
        let mut played = Scene::new(LINK, 65 * MS).fobs(config).lasts(40 * SEC).start();
        let share = played.shares(if windows { 5 * SEC } else { 15 * SEC }, 40 * SEC)[0];
        assert!(share > 0.9, "{share} of the link with streams of {each}");
        let found = played.flow(0).figures.streams;
        assert!(count.contains(&found), "{found} streams of {each}");
    }
}

#[test]
fn streams_that_die_with_every_frame_still_deliver() {
    for frame in 1..=4 {
        let faults = StreamFaults { dies_at_frame: Some(frame), ..StreamFaults::default() };
        let streams = StreamsConfig { choice: TransportChoice::Tcp { count: Some(4) }, faults, ..streams() };
        // Of streams that end within their first round trip, nothing comes back: datagrams report for them.
        let dead = if frame == 1 { 0 } else { LONG };
        let (view, took) = complete(scene(4, Some(streams)).outage(0, dead).ack_outage(0, dead));
        assert!(view.figures.streams_ended > 16, "{:?}", view.figures);
        assert!(took < 60.0, "dies at frame {frame}: {took} s");
    }
}

#[test]
fn without_any_stream_datagrams_go_on_or_the_transfer_ends_by_name() {
    let closed = |from| StreamFaults { closed: vec![(from, LONG)], ..StreamFaults::default() };
    let dies = || StreamsConfig { faults: closed(6 * SEC), ..streams() };
    // Datagrams come back before the last stream is gone for long.
    let (view, _) = complete(scene(400, Some(dies())).outage(0, 8 * SEC).ack_outage(0, 8 * SEC));
    assert!(reasons(&view).contains(&RouteReason::NoStreams), "{:?}", view.routes);
    assert_eq!(view.routes.last().map(|c| c.route), Some(Route::Datagrams), "{:?}", view.routes);
    // They never do.
    let shorter = |flow: &mut fobs_sim::scene::SceneFlow| {
        if let Traffic::Fobs(fobs) = &mut flow.flow.traffic {
            fobs.timeout = 20 * SEC;
        }
    };
    let mut played = scene(400, Some(dies())).with(shorter).outage(0, LONG).ack_outage(0, LONG).play();
    assert_eq!(played.flow(0).outcome, Outcome::Silent);
    assert!(played.world.now() < 30 * SEC, "{}", seconds(played.world.now()));
}

#[test]
fn the_rate_of_the_user_holds_over_streams() {
    let streams = StreamsConfig { choice: TransportChoice::Tcp { count: Some(4) }, ..streams() };
    let limited = scene(20, Some(streams)).with(|flow| {
        if let Traffic::Fobs(fobs) = &mut flow.flow.traffic {
            fobs.rate_limit = Some(20 * MBIT);
        }
    });
    let (_, took) = complete(limited);
    let least = (20u64 << 20) as f64 * 8.0 / 20e6;
    assert!((least * 0.98..least * 1.1).contains(&took), "{took} s, {least} s at the limit");
}

#[test]
fn stalled_streams_hand_their_frames_to_others() {
    let faults = StreamFaults { stall: Chance::of(0.01), stall_len: 60 * SEC, ..StreamFaults::default() };
    let streams = StreamsConfig { choice: TransportChoice::Tcp { count: Some(16) }, faults, ..streams() };
    let (view, took) = complete(scene(16, Some(streams)));
    // Each stall alone would last longer.
    assert!(took < 30.0, "{took} s");
    assert!(view.figures.repeated > 0, "frames were late");
}

/// What is drawn for a seed: a transfer whose streams and datagrams fail at random until calm, and then no
/// longer.
fn random(seed: u64) -> Played {
    let rng = &mut Rng::stream(seed, 0x57ea);
    let calm = 20 * SEC;
    let spans = |rng: &mut Rng| -> Vec<(Nanos, Nanos)> {
        let mut at = 0;
        let mut spans = Vec::new();
        for _ in 0..rng.range(0, 4) {
            let from = at + rng.range(0, 4 * SEC);
            at = (from + rng.range(100 * MS, 6 * SEC)).min(calm);
            spans.push((from.min(at), at));
        }
        spans
    };
    let chance = |rng: &mut Rng, of: &[f64]| Chance::of(rng.pick(of));
    let streams = StreamsConfig {
        choice: if rng.chance(0.2) { TransportChoice::Tcp { count: None } } else { TransportChoice::Auto },
        target: StreamTarget::Found { remembered: rng.pick(&[None, Some(3), Some(16)]) },
        each: rng.pick(&[0, MBIT, 10 * MBIT, 50 * MBIT]),
        together: 80 * MBIT,
        windows: rng.chance(0.5),
        faults: StreamFaults {
            dies_at_frame: rng.pick(&[None, None, Some(1), Some(7)]),
            death: chance(rng, &[0.0, 0.01, 0.2]),
            stall: chance(rng, &[0.0, 0.02]),
            stall_len: rng.range(0, 5 * SEC),
            closed: spans(rng),
        },
    };
    // Where no stream can be had, datagrams must be answered at the start.
    let (there, back) = (spans(rng), spans(rng));
    let mebibytes = rng.pick(&[1, 8, 30]);
    let object = Object::Bytes(mebibytes << 20);
    let tcp_only = matches!(streams.choice, TransportChoice::Tcp { .. });
    let streams =
        if tcp_only && streams.each == 0 { StreamsConfig { each: MBIT, ..streams } } else { streams };
    let mut config =
        FobsConfig { streams: Some(streams), ..FobsConfig::new(object, CongestionControl::Auto) };
    config.circular = rng.chance(0.1);
    config.rate_limit = rng.pick(&[None, None, Some(30 * MBIT)]);
    config.receiver_chunks = rng.range(1, 40) as u32;
    if rng.chance(0.3) {
        let kill = |rng: &mut Rng| Kill {
            after: rng.range(MS, 4 * SEC),
            dies: rng.pick(&[Dies::Sender, Dies::Receiver, Dies::Both]),
            pause: rng.range(MS, SEC),
        };
        config.kills = (0..rng.range(1, 3)).map(|_| kill(rng)).collect();
    }
    let mut scene = Scene::new(LINK, rng.pick(&[2 * MS, 60 * MS])).seed(seed).fobs(config).lasts(600 * SEC);
    scene = there.into_iter().fold(scene, |scene, (from, until)| scene.outage(from, until));
    scene = back.into_iter().fold(scene, |scene, (from, until)| scene.ack_outage(from, until));
    scene.calm(calm).play()
}

/// Every object completes; the rules of the world hold: nothing that a report named is sent again, no byte is
/// stored twice, waste has its causes; and the route changes rarely.
#[test]
fn every_object_completes_whatever_dies() {
    let seeds: Vec<u64> = match number("FOBS_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("FOBS_WORLDS").unwrap_or(WORLDS)).collect(),
    };
    let framed = each(&seeds, |seed| {
        let mut played = random(*seed);
        let view = played.flow(0);
        let took = seconds(played.world.now());
        // A transfer that nothing answers for the first seconds says so and ends.
        let excused = view.outcome == Outcome::Silent && took < 20.0;
        let what = played.world.describe();
        assert!(
            view.outcome == Outcome::Complete || excused,
            "seed {seed}: {:?} after {took}: {what}",
            view.outcome
        );
        let changes = view.routes.len() as f64;
        assert!(
            changes <= 12.0 + took / 5.0,
            "seed {seed}: {changes} changes in {took} s: {:?}",
            view.routes
        );
        (view.outcome == Outcome::Complete, view.figures.framed > 0, view.figures.streams_ended > 0)
    });
    if number("FOBS_SEED").is_none() {
        let count = |which: fn(&(bool, bool, bool)) -> bool| framed.iter().filter(|f| which(f)).count() * 10;
        assert!(count(|f| f.0) > 8 * framed.len(), "the draw must leave most transfers a way");
        assert!(count(|f| f.1) > 4 * framed.len(), "the draw must use streams");
        assert!(count(|f| f.2) > 2 * framed.len(), "the draw must end streams");
    }
}
