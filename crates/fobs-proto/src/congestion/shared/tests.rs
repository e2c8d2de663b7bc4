use super::*;
use crate::congestion::{CongestionControl, Fixed, LossCause};

const LEN: u16 = 1000;
const ROUND_TRIP: Duration = Duration::from_millis(20);

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn sent(ms: u64, bytes_in_flight: u64) -> BurstSent {
    BurstSent { now: at(ms), packets: 1, bytes: u64::from(LEN), bytes_in_flight }
}

fn ack(ms: u64, bytes_in_flight: u64, rate: u64) -> AckSample {
    AckSample {
        now: at(ms),
        acked_bytes: 1000,
        acked_packets: 1,
        packet_len: LEN,
        bytes_in_flight,
        latest_rtt: ROUND_TRIP,
        one_way: Duration::ZERO,
        smoothed_rtt: ROUND_TRIP,
        min_rtt: ROUND_TRIP,
        rate: Some(RateSample { rate: Rate::bytes_per_second(rate), span: ROUND_TRIP, packets: 10 }),
        app_limited: false,
        round_start: true,
    }
}

/// Notes what the controller sees.
#[derive(Debug, Default)]
struct Noting(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    acks: Vec<(u64, Option<u64>, bool)>,
    losses: Vec<LossEvidence>,
    recalls: usize,
}

impl Controller for Noting {
    fn name(&self) -> &'static str {
        "noting"
    }
    fn on_ack(&mut self, ack: &AckSample) {
        let rate = ack.rate.map(|sample| sample.rate.as_bytes());
        self.0.lock().expect("no panic").acks.push((ack.bytes_in_flight, rate, ack.round_start));
    }
    fn on_loss(&mut self, loss: &LossEpisode) {
        self.0.lock().expect("no panic").losses.push(loss.evidence);
    }
    fn recall(&mut self, _: &PathHistory) {
        self.0.lock().expect("no panic").recalls += 1;
    }
    fn congestion_window(&self) -> u64 {
        100_000
    }
    fn pacing_rate(&self) -> Option<Rate> {
        Some(Rate::bytes_per_second(1_000_000))
    }
    fn state(&self) -> &'static str {
        "notes"
    }
}

fn noting() -> (PathShare, Arc<Mutex<Seen>>) {
    let noting = Noting::default();
    let seen = noting.0.clone();
    (PathShare::new(Box::new(noting), LEN), seen)
}

#[test]
fn lanes_that_send_share_rate_and_window() {
    let (path, _) = noting();
    let (mut a, mut b) = (path.lane(), path.lane());
    let rate = |lane: &dyn Controller| lane.pacing_rate().map(Rate::as_bytes);
    a.on_sent(&sent(0, 60_000));
    assert_eq!((rate(&*a), a.congestion_window()), (Some(1_000_000), 100_000), "it is alone");
    b.on_sent(&sent(1, 10_000));
    assert_eq!((rate(&*a), rate(&*b)), (Some(500_000), Some(500_000)));
    assert_eq!((a.congestion_window(), b.congestion_window()), (90_000, 40_000));
    a.on_sent(&sent(2, 200_000));
    assert_eq!(b.congestion_window(), 2 * u64::from(LEN), "never less than two packets");
    drop(a);
    assert_eq!(
        (rate(&*b), b.congestion_window()),
        (Some(1_000_000), 100_000),
        "a lane that ended has no part"
    );
}

#[test]
fn a_lane_without_data_leaves_its_part_to_the_others() {
    let (path, _) = noting();
    let (mut a, mut b) = (path.lane(), path.lane());
    a.on_sent(&sent(0, 1000));
    b.on_sent(&sent(0, 1000));
    b.on_ack(&ack(20, 0, 1));
    a.on_sent(&sent(80, 1000));
    assert_eq!(a.pacing_rate(), Some(Rate::bytes_per_second(500_000)), "it may have data again soon");
    a.on_sent(&sent(200, 1000));
    assert_eq!(a.pacing_rate(), Some(Rate::bytes_per_second(1_000_000)));
}

#[test]
fn the_controller_sees_one_sender() {
    let (path, seen) = noting();
    let (mut a, mut b) = (path.lane(), path.lane());
    a.on_sent(&sent(0, 3000));
    b.on_sent(&sent(0, 5000));
    for (lane, at, rate) in [(0, 30, 100), (1, 31, 200), (0, 50, 110), (1, 51, 210), (1, 52, 220)] {
        let lane = if lane == 0 { &mut a } else { &mut b };
        lane.on_ack(&ack(at, 2000, rate));
    }
    let acks = seen.lock().expect("no panic").acks.clone();
    let in_flight: Vec<u64> = acks.iter().map(|(bytes, ..)| *bytes).collect();
    assert_eq!(in_flight, [7000, 4000, 4000, 4000, 4000]);
    // A lane that has not been measured yet adds nothing.
    let rates: Vec<_> = acks.iter().map(|(_, rate, _)| *rate).collect();
    assert_eq!(rates, [Some(100), Some(300), Some(310), Some(320), Some(330)]);
    let rounds: Vec<bool> = acks.iter().map(|(.., round)| *round).collect();
    assert_eq!(rounds, [true, false, true, false, false], "the round trips are one lane's");
}

#[test]
fn rates_from_before_a_lane_began_are_not_added() {
    let (path, seen) = noting();
    let (mut a, mut b) = (path.lane(), path.lane());
    a.on_sent(&sent(0, 3000));
    a.on_ack(&ack(40, 3000, 1000));
    b.on_sent(&sent(50, 3000));
    a.on_ack(&ack(60, 3000, 900));
    a.on_ack(&ack(71, 3000, 500));
    b.on_ack(&ack(72, 3000, 500));
    let rates: Vec<_> = seen.lock().expect("no panic").acks.iter().map(|(_, rate, _)| *rate).collect();
    assert_eq!(rates, [Some(1000), None, Some(500), Some(1000)]);
}

#[test]
fn the_silence_of_one_lane_is_not_the_paths() {
    let (path, seen) = noting();
    let (mut a, mut b) = (path.lane(), path.lane());
    let loss = LossEpisode {
        now: at(200),
        packets: 1,
        bytes: 1000,
        bytes_in_flight: 0,
        sent: (at(10), at(20)),
        evidence: LossEvidence::Silence,
        cause: LossCause::Inconclusive,
    };
    a.on_loss(&loss);
    b.on_ack(&ack(190, 1000, 1));
    a.on_loss(&loss);
    assert_eq!(seen.lock().expect("no panic").losses, [LossEvidence::Silence, LossEvidence::Acks]);
}

#[test]
fn what_a_path_left_is_recalled_once() {
    let (path, seen) = noting();
    for mut lane in [path.lane(), path.lane()] {
        lane.recall(&PathHistory::default());
    }
    assert_eq!(seen.lock().expect("no panic").recalls, 1);
}

#[test]
fn every_controller_can_be_shared() {
    for listed in CongestionControl::ALL {
        let inner = listed.with_rate(Rate::bits_per_second(80_000_000)).controller(LEN).expect("a rate");
        let (name, adapts) = (inner.name(), listed == CongestionControl::Auto);
        let path = PathShare::new(inner, LEN);
        let mut lane = path.lane();
        assert_eq!((lane.name(), lane.as_adaptive().is_some()), (name, adapts));
        lane.on_sent(&sent(0, 1000));
        lane.on_ack(&ack(20, 0, 1_000_000));
        assert!(lane.congestion_window() >= 2 * u64::from(LEN), "{name}");
    }
    let path = PathShare::new(Box::new(Fixed::new(Rate::ZERO)), LEN);
    assert!(path.lane().pacing_rate().is_some_and(|rate| rate > Rate::ZERO), "no lane stands still");
}

#[test]
fn a_path_that_one_sender_used_alone_is_shared_from_then_on() {
    let mut controller = CongestionControl::Cubic.controller(LEN).expect("it needs no rate");
    controller.on_sent(&sent(0, 5000));
    let window = controller.congestion_window();
    let path = PathShare::around(&mut controller, at(0), (5000, LEN));
    assert_eq!(controller.congestion_window(), window, "alone it has all of it");
    let mut second = path.lane();
    assert_eq!(second.congestion_window(), window - 5000, "what the first leaves");
    second.on_sent(&sent(1, 3000));
    assert_eq!(controller.congestion_window(), window - 3000);
    let mut remembered = PathHistory::default();
    second.remember(&mut remembered);
    second.recall(&PathHistory::default());
    assert_eq!(controller.congestion_window(), window - 3000, "nothing is recalled in the middle");
}

/// As of one 5-tuple that a router sends nowhere: the path is as good as before for the others.
#[test]
fn a_lane_that_falls_silent_has_no_part_of_the_path() {
    let (path, seen) = noting();
    let (mut alive, mut dead) = (path.lane(), path.lane());
    for lane in [&mut alive, &mut dead] {
        lane.on_sent(&sent(0, 1000));
        lane.on_ack(&ack(20, 0, 500_000));
    }
    let rate = |lane: &dyn Controller| lane.pacing_rate().expect("it has one").as_bytes();
    let half = rate(alive.as_ref());
    let mut ms = 20;
    for _ in 0..20 {
        ms += 100;
        alive.on_sent(&sent(ms - 10, 1000));
        alive.on_ack(&ack(ms, 0, 1_000_000));
        dead.on_sent(&sent(ms + 1, 2000));
        let sent = (at(ms - 60), at(ms - 50));
        let (packets, bytes, bytes_in_flight) = (2, 2000, 0);
        let (evidence, cause) = (LossEvidence::Silence, LossCause::Inconclusive);
        dead.on_loss(&LossEpisode {
            now: at(ms + 2),
            packets,
            bytes,
            bytes_in_flight,
            sent,
            evidence,
            cause,
        });
    }
    assert_eq!(rate(alive.as_ref()), 2 * half, "it has all of the rate");
    let told = seen.lock().expect("no panic");
    assert_eq!(told.losses, [LossEvidence::Acks], "the first loss may be the path's");
    let newest = told.acks.last().expect("some").1;
    assert_eq!(newest, Some(1_000_000), "its old rate hides no new one");
    drop(told);
    dead.on_ack(&ack(ms + 5, 0, 100_000));
    assert_eq!(rate(alive.as_ref()), half, "it is back");
}
