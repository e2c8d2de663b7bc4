//! After silence.

use super::super::super::testing::{Acks, PACKET};
use super::super::super::{AckSample, Adaptive, Claim, Controller, LossEpisode, LossEvidence, ModeReason};
use super::super::state::{Cruise, Drain, Kind, Phase, RampOrigin, Start, State, Why};
use super::super::{Auto, Priority};
use crate::Rate;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const RTT: Duration = Duration::from_millis(50);

fn mbit(mbit: u64) -> Rate {
    Rate::bits_per_second(mbit * 1_000_000)
}

/// A flow that cruises with 100 Mbit/s.
fn cruising(acks: &mut Acks) -> Auto {
    let mut auto = Auto::new(PACKET);
    (auto.model.min_rtt, auto.model.latest_rtt) = (RTT, RTT);
    (auto.model.capacity, auto.model.pacing) = (mbit(100), mbit(100));
    auto.first = Some(mbit(100));
    auto.state = State::cruise(acks.now(), 1);
    auto.on_ack(&acks.next(MS, mbit(100)));
    auto
}

/// Nothing comes back for 2 s, in which all is given up several times; then an answer.
fn silence(auto: &mut Auto, acks: &mut Acks) -> AckSample {
    for _ in 0..4 {
        auto.on_loss(&LossEpisode { evidence: LossEvidence::Silence, ..acks.losses(500) });
        acks.next(500 * MS, Rate::ZERO);
    }
    AckSample { rate: None, ..acks.next(MS, Rate::ZERO) }
}

#[test]
fn half_the_rate_leaves_at_the_first_answer_and_all_two_round_trips_later() {
    let mut acks = Acks::new(RTT);
    let mut auto = cruising(&mut acks);
    let answer = silence(&mut auto, &mut acks);
    auto.on_ack(&answer);
    assert_eq!(auto.pacing_rate(), Some(mbit(50)));
    let began = acks.now();
    acks.next(RTT, Rate::ZERO);
    while acks.now() - began < 2 * RTT {
        auto.on_ack(&acks.next(MS, mbit(50)));
    }
    assert!(auto.pacing_rate() >= Some(mbit(99)), "{:?}", auto.pacing_rate());
}

#[test]
fn what_a_changed_path_does_not_deliver_is_not_resumed() {
    let mut acks = Acks::new(RTT);
    let mut auto = cruising(&mut acks);
    let answer = silence(&mut auto, &mut acks);
    auto.on_ack(&answer);
    acks.next(RTT, Rate::ZERO);
    for ms in 0..100 {
        acks.rtt = RTT + MS * ms / 2;
        auto.on_ack(&acks.next(MS, mbit(20)));
    }
    assert!(auto.pacing_rate() <= Some(mbit(21)), "{:?}", auto.pacing_rate());
}

#[test]
fn silence_ends_in_a_ramp_from_every_state() {
    for row in 1..super::NEEDS.len() {
        let mut acks = Acks::new(RTT);
        let mut auto = cruising(&mut acks);
        let now = acks.now();
        match super::NEEDS[row].0 {
            Kind::Start => auto.state = State::ramp(now, 1),
            Kind::Cruise => {
                let drain = Drain { phase: Phase::begin(now), gain: 0.9, queue: Duration::ZERO };
                auto.state = State::Cruise(Cruise::Drain(drain));
            }
            Kind::Compete => {
                let reason = ModeReason::QueueGone { target: MS };
                auto.enter_compete(&acks.next(MS, mbit(100)), Why::Crowded, reason);
            }
        }
        if super::NEEDS[row].1 == Kind::Cruise {
            auto.claim(acks.now(), Claim { priority: Priority::Fair, ceiling: Some(mbit(10)) });
        }
        let answer = silence(&mut auto, &mut acks);
        auto.end_silence(&answer);
        assert!(super::made(row), "{:?}", super::NEEDS[row]);
        let silenced =
            matches!(auto.state, State::Start(Start::Ramp(ramp)) if ramp.origin != RampOrigin::Measured);
        assert!(silenced || super::NEEDS[row].1 == Kind::Cruise);
    }
}
