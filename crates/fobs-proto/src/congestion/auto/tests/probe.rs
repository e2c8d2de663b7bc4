//! Probes for a rise of the path's rate.

use super::super::super::testing::{Acks, PACKET};
use super::super::super::{AckSample, BurstSent, Controller};
use super::super::Auto;
use super::super::detect::RiseDetector;
use super::super::state::{Kind, State, Why};
use crate::recovery::RateSample;
use crate::{Rate, Timestamp};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const RTT: Duration = Duration::from_millis(65);

fn at(ms: u32) -> Timestamp {
    Timestamp::ZERO + MS * ms
}

fn mbit(mbit: u64) -> Rate {
    Rate::bits_per_second(mbit * 1_000_000)
}

/// A report of `packets` that arrived at `rate` Mbit/s.
fn step(rate: u64, packets: u64) -> RateSample {
    let bytes = packets * u64::from(PACKET);
    RateSample { rate: mbit(rate), span: mbit(rate).time_for(bytes), packets }
}

/// A flow with 100 Mbit/s in a long calm, whose last probe found `found` Mbit/s.
pub(super) fn calm(found: u64) -> Auto {
    let mut auto = Auto::new(PACKET);
    let mut acks = Acks::new(RTT);
    for _ in 0..40 {
        auto.model.update(&acks.next(MS, mbit(100)));
    }
    (auto.model.capacity, auto.model.pacing) = (mbit(100), mbit(100));
    auto.first = Some(mbit(100));
    auto.state = State::cruise(at(0), 1);
    auto.detect.rise = RiseDetector::calm(mbit(found), at(1000), &auto.model.params);
    auto
}

/// Sends a probe if the path is one for it.
fn probes(auto: &mut Auto, now: Timestamp, refill: u64) -> bool {
    let plan = auto.probe_plan(now, refill);
    if let Some(plan) = plan {
        auto.enter_probe(now, plan, Why::Room);
    }
    plan.is_some()
}

/// Sends the train in bursts of 20 packets; its bytes, and how long nothing leaves behind it.
fn send_train(auto: &mut Auto, now: Timestamp) -> (u64, Duration) {
    let (mut sent, bytes) = (0, 20 * u64::from(PACKET));
    while auto.model.pacing == auto.model.params.rate_max {
        auto.on_sent(&BurstSent { now, packets: 20, bytes, bytes_in_flight: 0 });
        sent += bytes;
    }
    (sent, auto.model.pacing.time_for(bytes))
}

/// The acks of a probe whose reports tell these rates and packets.
fn report(auto: &mut Auto, now: Timestamp, reports: &[RateSample]) {
    let mut acks = Acks::new(RTT);
    let ack = acks.next(now + RTT - acks.now(), mbit(100));
    for report in reports {
        auto.on_ack(&AckSample { step: Some(*report), ..ack });
    }
}

fn cruises(auto: &Auto, capacity: Rate) {
    assert_eq!((auto.state.kind(), auto.model.capacity), (Kind::Cruise, capacity));
}

fn near(got: Rate, expected: Rate) {
    assert!((got.as_bytes() as f64 / expected.as_bytes() as f64 - 1.0).abs() < 0.01, "{got} for {expected}");
}

#[test]
fn a_probe_is_sent_in_a_calm_alone() {
    assert!(probes(&mut calm(100), at(2000), 0));
    assert!(!probes(&mut calm(100), at(900), 0), "it has not been calm for long enough");
    let mut auto = calm(100);
    auto.detect.rise.unsettle(at(1500));
    assert!(!probes(&mut auto, at(3000), 0), "no queue has been seen since");
    let mut auto = calm(100);
    (auto.model.capacity, auto.model.pacing) = (mbit(10), mbit(10));
    assert!(!probes(&mut auto, at(2000), 0), "it would be most of the window");
    let mut auto = calm(100);
    auto.claims.ceiling = mbit(100);
    assert!(!probes(&mut auto, at(2000), 0), "there is nothing to look for");
}

#[test]
fn a_pause_makes_up_for_the_train_but_for_its_refill() {
    for refill in [0, 40_000] {
        let mut auto = calm(100);
        assert!(probes(&mut auto, at(2000), refill));
        let (sent, pause) = send_train(&mut auto, at(2000));
        assert!(sent >= 96 * u64::from(PACKET) && sent < 120 * u64::from(PACKET), "{sent} bytes");
        let owed = mbit(100).time_for(sent - refill);
        assert!(pause.abs_diff(owed) < MS / 10, "{pause:?} for {owed:?}");
        auto.on_sent(&BurstSent { now: at(2020), packets: 1, bytes: 1472, bytes_in_flight: 0 });
        assert_eq!(auto.pacing_rate(), Some(mbit(100)));
    }
}

#[test]
fn only_a_flow_that_is_alone_follows_what_a_probe_finds() {
    // The first report began before the train.
    let reports = [step(150, 64), step(400, 40)];
    for (found, expected) in [(100, 380), (400, 100)] {
        let mut auto = calm(found);
        assert!(probes(&mut auto, at(2000), 0));
        send_train(&mut auto, at(2000));
        report(&mut auto, at(2000), &reports);
        near(auto.model.capacity, mbit(expected));
    }
}

#[test]
fn a_rise_beyond_the_ceiling_is_followed_up_to_it() {
    for (ceiling, row) in [(1000, 1), (300, 2)] {
        let mut auto = calm(100);
        auto.claims.ceiling = mbit(ceiling);
        assert!(probes(&mut auto, at(2000), 0));
        send_train(&mut auto, at(2000));
        report(&mut auto, at(2000), &[step(150, 64), step(400, 40)]);
        near(auto.model.capacity, mbit(ceiling.min(380)));
        assert!(super::made(row));
    }
}

#[test]
fn a_probe_whose_refill_vanishes_is_repeated() {
    let mut auto = calm(100);
    assert!(probes(&mut auto, at(2000), 40_000));
    send_train(&mut auto, at(2000));
    // The pause is over.
    auto.on_sent(&BurstSent { now: at(2020), packets: 1, bytes: 1472, bytes_in_flight: 0 });
    let mut acks = Acks::new(RTT);
    acks.next(at(2000) + RTT - acks.now(), mbit(100));
    for (queue, after) in [(4, 1), (0, 5), (0, 100)] {
        acks.rtt = RTT + queue * MS;
        auto.on_ack(&acks.next(after * MS, mbit(100)));
    }
    assert!(super::made(5), "{:?}", auto.state);
}

#[test]
fn a_collapse_ends_a_probe() {
    let mut auto = calm(100);
    assert!(probes(&mut auto, at(2000), 0));
    auto.on_loss(&Acks::new(RTT).losses(300));
    let mut acks = Acks::new(RTT);
    auto.on_ack(&acks.next(at(2000) + RTT - acks.now(), mbit(1)));
    assert!(super::made(4), "{:?}", auto.state);
}

#[test]
fn a_drain_may_end_in_the_first_probe() {
    let mut auto = calm(100);
    auto.detect.rise = RiseDetector::calm(Rate::ZERO, at(1000), &auto.model.params);
    auto.enter_drain(at(2000), Why::DrainDue);
    let mut acks = Acks::new(RTT);
    auto.on_ack(&acks.next(at(2001) - acks.now(), mbit(100)));
    assert!(super::made(3), "{:?}", auto.state);
}

#[test]
fn a_probe_that_finds_the_same_rate_changes_nothing() {
    let mut auto = calm(100);
    assert!(probes(&mut auto, at(2000), 0));
    send_train(&mut auto, at(2000));
    report(&mut auto, at(2000), &[step(100, 64), step(100, 40)]);
    assert_eq!(auto.state.kind(), Kind::Probe, "more may come");
    report(&mut auto, at(2100), &[step(100, 40)]);
    cruises(&auto, mbit(100));
    assert!(auto.is_alone());
}

#[test]
fn a_probe_that_loses_is_void_and_the_next_is_half_as_long() {
    let mut auto = calm(100);
    assert!(probes(&mut auto, at(2000), 0));
    send_train(&mut auto, at(2000));
    auto.on_loss(&Acks::new(RTT).losses(30));
    report(&mut auto, at(2000), &[step(150, 64), step(400, 40)]);
    cruises(&auto, mbit(100));
    assert_eq!(auto.detect.rise.most(), auto.model.params.probe_packets_min / 2);
    assert!(!probes(&mut auto, at(2500), 0), "it is not calm");
}
