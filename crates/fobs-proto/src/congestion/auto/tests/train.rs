//! The start: train, jump and what memory is worth.

use super::super::super::testing::{Acks, PACKET};
use super::super::super::{AckSample, Adaptive, BurstSent, Claim, Controller, PathHistory};
use super::super::state::{Start, State};
use super::super::{Auto, Priority};
use crate::recovery::RateSample;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// Datagram bytes of a train.
const TRAIN: u64 = 64 * PACKET as u64;
const RTT: Duration = Duration::from_millis(65);
/// What an ack covers at 1 Gbit/s: 8.5 packets.
const STEP: Duration = Duration::from_micros(100);

fn rate(mbit: u64) -> Rate {
    Rate::bits_per_second(mbit * 1_000_000)
}

/// What an earlier transfer learnt of a path.
fn history(mbit: u64, round_trip: Option<Duration>) -> PathHistory {
    PathHistory { link_rate: Some(rate(mbit).as_bytes()), round_trip, ..PathHistory::default() }
}

fn auto(history: PathHistory) -> Auto {
    let mut auto = Auto::new(PACKET);
    auto.recall(&history);
    auto
}

/// One whose train has left.
fn under_way(mut auto: Auto) -> Auto {
    for packets in [44, 64, 76] {
        let bytes_in_flight = packets * u64::from(PACKET);
        let bytes = bytes_in_flight.min(20 * u64::from(PACKET));
        auto.on_sent(&BurstSent { now: Timestamp::ZERO, packets: 20, bytes, bytes_in_flight });
    }
    auto
}

fn mbit(auto: &Auto) -> f64 {
    auto.pacing_rate().map_or(0.0, |rate| rate.as_bytes() as f64 * 8.0 / 1e6)
}

fn near(got: f64, expected: f64) {
    assert!((got / expected - 1.0).abs() < 0.01, "{got} for {expected}");
}

/// Where a transfer starts after a train that found `train`, on a path that is remembered to carry
/// `recalled`; Mbit/s.
fn start(train: u64, recalled: Option<u64>) -> f64 {
    let mut auto = auto(recalled.map_or_else(PathHistory::default, |mbit| history(mbit, None)));
    let mut acks = Acks::new(RTT);
    for _ in 0..100 {
        auto.on_ack(&acks.next(Duration::from_millis(1), rate(train)));
        if auto.state() != "train" {
            break;
        }
    }
    mbit(&auto)
}

#[test]
fn a_rate_that_no_round_trip_confirms_is_no_memory() {
    for train in [100, 400, 1000] {
        for recalled in [None, Some(100), Some(1000)] {
            near(start(train, recalled), 0.95 * train as f64);
        }
    }
}

#[test]
fn a_path_with_its_old_round_trip_gets_a_jump_of_half_its_rate() {
    let fresh = Auto::new(PACKET);
    let jumps = |history: PathHistory| under_way(auto(history));
    let known = jumps(history(1000, Some(RTT)));
    near(mbit(&known), 500.0);
    near(known.congestion_window() as f64, rate(500).bytes_in(RTT) as f64);
    // Another path, nothing known of the round trip, a path so short that the train is all of it.
    for history in [PathHistory::default(), history(1000, None), history(1000, Some(RTT / 100))] {
        let other = jumps(history);
        assert_eq!(other.congestion_window(), fresh.congestion_window());
        assert_eq!(other.pacing_rate(), fresh.pacing_rate());
    }
}

#[test]
fn a_jump_keeps_to_its_claim() {
    let claims = |priority, ceiling: Option<u64>| {
        let mut auto = auto(history(1000, Some(RTT)));
        auto.claim(Timestamp::ZERO, Claim { priority, ceiling: ceiling.map(rate) });
        let auto = under_way(auto);
        (mbit(&auto), auto.congestion_window())
    };
    near(claims(Priority::Greedy, None).0, 500.0);
    near(claims(Priority::Fair, Some(200)).0, 200.0);
    near(claims(Priority::Fair, Some(200)).1 as f64, rate(200).bytes_in(RTT) as f64);
    assert_eq!(claims(Priority::Scavenger, None).1, TRAIN);
}

#[test]
fn a_gap_in_a_train_that_lost_packets_is_no_slow_path() {
    let (mut auto, mut acks) = (Auto::new(PACKET), Acks::new(RTT));
    let sample = |ack: AckSample, mbit, packets, span| AckSample {
        rate: Some(RateSample { rate: rate(mbit), span, packets }),
        ..ack
    };
    let ms = Duration::from_millis(1);
    auto.on_ack(&sample(acks.next(STEP, rate(300)), 300, 40, ms * 2));
    auto.on_loss(&acks.losses(24));
    assert_eq!(auto.state(), "train", "not all of the train is accounted for");
    // What was lost is sent again and arrives a round trip later.
    auto.on_ack(&sample(acks.next(RTT, rate(10)), 10, 56, RTT));
    assert!(mbit(&auto) > 250.0, "{} Mbit/s", mbit(&auto));
}

#[test]
fn the_train_is_not_measured_by_what_follows_it() {
    let mut auto = under_way(auto(history(1000, Some(RTT))));
    let mut acks = Acks::new(RTT);
    // Half of the train's packets, one batch, which is too few to go by; then the rest and the jump's first
    // in another.
    let slow = |ack: AckSample, mbit, packets| {
        let span = Duration::from_millis(1);
        AckSample { rate: Some(RateSample { rate: rate(mbit), span, packets }), ..ack }
    };
    auto.on_ack(&slow(acks.next(STEP * 4, rate(1000)), 2000, 33));
    assert_eq!(auto.state(), "train");
    auto.on_ack(&slow(acks.next(STEP * 16, rate(1000)), 600, 170));
    assert!(matches!(auto.state, State::Start(Start::Ramp(ramp)) if ramp.step == 0));
    near(mbit(&auto), 1900.0);
}

#[test]
fn behind_a_jump_memory_outweighs_a_train_that_is_near_it() {
    for (train, expected) in [(600, 570.0), (750, 950.0), (1000, 950.0), (1300, 950.0), (2000, 1900.0)] {
        let mut auto = under_way(auto(history(1000, Some(RTT))));
        let mut acks = Acks::new(RTT);
        while auto.state() == "train" {
            auto.on_ack(&acks.next(STEP, rate(train)));
        }
        near(mbit(&auto), expected);
    }
}

#[test]
fn a_jump_that_loses_is_over_at_once_and_so_is_memory() {
    let mut auto = under_way(auto(history(1000, Some(RTT))));
    let mut acks = Acks::new(RTT);
    auto.on_loss(&acks.loss());
    assert_eq!(auto.congestion_window(), TRAIN, "nothing leaves");
    for _ in 0..8 {
        auto.on_ack(&acks.next(STEP * 10, rate(100)));
    }
    near(mbit(&auto), 95.0);
}

#[test]
fn a_train_below_the_jump_is_believed_until_the_jump_arrives() {
    let slow_train = || {
        let mut auto = under_way(auto(history(1000, Some(RTT))));
        let mut acks = Acks::new(RTT);
        while auto.state() == "train" {
            auto.on_ack(&acks.next(STEP * 10, rate(100)));
        }
        near(mbit(&auto), 95.0);
        (auto, acks)
    };
    // A host had stalled: the jump arrives as it was sent.
    let (mut auto, mut acks) = slow_train();
    auto.on_ack(&acks.next(STEP * 10, rate(500)));
    near(mbit(&auto), 900.0);
    assert!(super::made(0));
    // The path is slower now: the jump waits in a queue.
    let (mut auto, mut acks) = slow_train();
    for n in 0..400 {
        acks.rtt = RTT + Duration::from_millis(1) * n.min(300);
        auto.on_ack(&acks.next(Duration::from_millis(1), rate(100)));
        assert!(mbit(&auto) < 110.0, "{auto:?}");
    }
}
