use super::*;

const MS: Duration = Duration::from_millis(1);
/// Way there, and way back without a queue.
const WAY: Duration = Duration::from_millis(20);

/// A receiver that makes acks as it was asked, and a way back that carries one ack in `service`.
struct Scene {
    way: WayBack,
    rtt: Rtt,
    now: Timestamp,
    service: Duration,
    /// What the receiver knows, and from when the way back is free.
    known: AckRatio,
    free: Timestamp,
    number: PacketNumber,
    /// The receiver gets requests.
    heard: bool,
    acks: u32,
}

impl Scene {
    fn new(service: Duration) -> Scene {
        Scene {
            way: WayBack::new(Timestamp::ZERO, 5 * MS),
            rtt: Rtt::default(),
            now: Timestamp::ZERO,
            service,
            known: AckRatio::USUAL,
            free: Timestamp::ZERO,
            number: 0,
            heard: true,
            acks: 0,
        }
    }

    /// Plays for this long; the queue that the last ack met.
    fn play(&mut self, time: Duration) -> Duration {
        let (end, mut queue) = (self.now + time, Duration::ZERO);
        while self.now < end {
            self.now = self.now + self.known.delay(5 * MS);
            self.number += 10;
            let came = self.free.max(self.now) + self.service;
            queue = came - self.now - self.service;
            self.free = came;
            let ack = Ack {
                largest: Some(self.number),
                // Its clock is far ahead.
                receive_time_us: (self.now + Duration::from_secs(1 << 30)).as_micros(),
                ranges: vec![(0, self.number)],
                ..Ack::default()
            };
            let arrived = came + WAY;
            self.rtt.on_sample(arrived, arrived - self.now + WAY, Duration::ZERO);
            self.way.on_ack(arrived, &ack, &self.rtt);
            self.acks += 1;
            if self.way.is_due() {
                let number = if self.heard { self.number } else { PacketNumber::MAX };
                self.way.on_asked(arrived, number, self.rtt.smoothed());
                if self.heard {
                    self.known = self.way.ratio();
                }
            }
        }
        queue
    }
}

#[test]
fn a_wide_way_back_is_left_alone() {
    let mut scene = Scene::new(MS);
    scene.play(Duration::from_secs(60));
    assert_eq!(scene.way.ratio(), AckRatio::USUAL);
}

#[test]
fn acks_get_so_rare_that_the_way_back_carries_them() {
    for service in [6, 12, 40, 90].map(|n| n * MS) {
        let mut scene = Scene::new(service);
        scene.play(Duration::from_secs(20));
        let queue = scene.play(Duration::from_secs(2));
        let load = service.as_secs_f64() / scene.known.delay(5 * MS).as_secs_f64();
        assert!(load < 0.9 && queue < 30 * MS, "{service:?}: load {load}, queue {queue:?}");
        assert!(load > 0.15, "{service:?}: no rarer than needed, load {load}");
    }
}

#[test]
fn more_acks_are_tried_once_the_way_back_is_wider() {
    let mut scene = Scene::new(40 * MS);
    scene.play(Duration::from_secs(20));
    assert!(scene.known > AckRatio::USUAL);
    scene.service = MS;
    scene.play(Duration::from_secs(120));
    assert_eq!(scene.known, AckRatio::USUAL);
}

#[test]
fn a_request_that_is_not_answered_is_made_again() {
    let mut scene = Scene::new(12 * MS);
    scene.heard = false;
    scene.play(Duration::from_secs(1));
    assert!(scene.way.ratio() > AckRatio::USUAL && scene.known == AckRatio::USUAL);
    assert!(scene.way.rarest() >= scene.way.ratio(), "an ack may come as late as was asked for");
    scene.heard = true;
    scene.play(Duration::from_secs(20));
    assert_eq!(scene.known, scene.way.ratio());
}

#[test]
fn any_clock_of_a_peer_is_taken() {
    let mut way = WayBack::new(Timestamp::ZERO, 5 * MS);
    let mut rtt = Rtt::default();
    for (n, receive_time_us) in [0, u64::MAX, 1 << 63, 7, u64::MAX - 5, 1, 2, 3].into_iter().enumerate() {
        let now = Timestamp::ZERO + MS * (n as u32 + 1);
        rtt.on_sample(now, MS, Duration::ZERO);
        let ack = Ack { receive_time_us, ack_delay_us: u32::MAX, ..Ack::default() };
        way.on_ack(now, &ack, &rtt);
    }
}
