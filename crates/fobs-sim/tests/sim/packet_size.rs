//! Paths and devices that carry less than what is usual: below the base size, one way only, and devices that
//! do not say what they refuse.

use fobs_proto::congestion::CongestionControl;
use fobs_proto::sender::Refusal;
use fobs_sim::Scene;
use fobs_sim::flow::Outcome;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::host::DeviceConfig;
use fobs_sim::link::{Change, Faults};
use fobs_sim::rng::Chance;
use fobs_sim::scene::Played;
use fobs_sim::time::{MS, Nanos, SEC};

const MBIT: u64 = 1_000_000;
/// What the object takes at the link's rate, with the largest packets.
const IDEAL: Nanos = SEC;

fn scene(rtt: Nanos) -> Scene {
    let config = FobsConfig::new(Object::Bytes(12_000_000), CongestionControl::Auto);
    Scene::new(100 * MBIT, rtt).queue(1 << 20).lasts(120 * SEC).fobs(config).between_ideal_hosts()
}

/// Plays a scene to its end; how long the transfer took.
fn complete(scene: Scene, what: &str) -> (Played, Nanos) {
    let mut played = scene.start();
    played.run_until(120 * SEC);
    let view = played.flow(0);
    assert_eq!(view.outcome, Outcome::Complete, "{what}: {}", played.world.describe());
    let took = view.figures.ended.expect("it ended") - view.figures.began.expect("it began");
    (played, took)
}

#[test]
fn a_device_below_the_base_size_costs_no_wait() {
    for says in [Refusal::Size, Refusal::Room] {
        for mtu in [1227, 1100, 1000, 803, 577] {
            let what = format!("a device of {mtu} bytes that says {says:?}");
            let device = DeviceConfig { mtu, says };
            let (mut played, took) =
                complete(scene(20 * MS).with(|flow| flow.sender.device = Some(device)), &what);
            let datagram = u32::from(played.flow(0).figures.datagram);
            assert!(datagram + 28 <= mtu && datagram + 28 + 100 > mtu.max(640), "{what}: {datagram} bytes");
            // One that does not say that it is the size is asked for a while.
            let most = if says == Refusal::Size { 2 * IDEAL } else { 4 * IDEAL };
            assert!(took < most, "{what}: {} ms", took / MS);
        }
    }
}

#[test]
fn a_refusal_without_a_reason_slows_nothing_that_passes() {
    // A veth of 9000 bytes whose other end takes 1500: the probes are refused as if a queue were full.
    for mtu in [1500, 1400, 4000] {
        let device = DeviceConfig { mtu, says: Refusal::Room };
        let (mut played, took) = complete(
            scene(20 * MS).link(|link| link.mtu = 9000).with(|flow| flow.sender.device = Some(device)),
            "a device",
        );
        assert!(played.flow(0).figures.datagram >= 1352, "{mtu}: {:?}", played.flow(0).figures);
        assert!(took < 2 * IDEAL, "{mtu}: {} ms", took / MS);
    }
}

#[test]
fn a_black_hole_below_the_base_size_is_crossed() {
    for (mtu, rtt) in [(1227, 20 * MS), (1000, MS), (600, 100 * MS), (577, 250 * MS)] {
        let (mut played, took) =
            complete(scene(rtt).link(|link| link.mtu = mtu), &format!("a path of {mtu} bytes"));
        let datagram = u32::from(played.flow(0).figures.datagram);
        assert!(datagram + 28 <= mtu, "{mtu}: {datagram} bytes");
        // Three probe timeouts without an answer, then a new start.
        assert!(took < 2 * IDEAL + 3 * SEC + 20 * rtt, "{mtu}: {} ms", took / MS);
    }
}

#[test]
fn a_path_that_shrinks_below_the_base_goes_on() {
    for mtu in [1000, 600] {
        let (mut played, took) = complete(scene(20 * MS).change(400 * MS, Change::Mtu(mtu)), "it shrinks");
        assert!(u32::from(played.flow(0).figures.datagram) + 28 <= mtu, "{:?}", played.flow(0).figures);
        assert!(took < 2 * IDEAL + 4 * SEC, "{mtu}: {} ms", took / MS);
    }
}

#[test]
fn large_acks_that_vanish_stop_nothing() {
    // Losses make acks long; the way back carries short ones only.
    let faults = Faults { loss: Chance::of(0.03), ..Faults::default() };
    let whole = complete(scene(40 * MS).faults(0, faults.clone()), "the way back takes all").1;
    let narrow = complete(scene(40 * MS).faults(0, faults).back(|back| back.mtu = 577), "short ones").1;
    assert!(narrow < 2 * whole, "{} ms, and {} ms where all acks pass", narrow / MS, whole / MS);
}
