use super::*;
use fobs_rng::Rng;

const STEP: Duration = Duration::from_millis(200);

/// A path whose rate depends on the number of streams: each carries `each`, all together at most `link`, and
/// every stream beyond `best` costs `cost` of the rate.
#[derive(Debug, Clone, Copy)]
struct Path {
    each: f64,
    link: f64,
    best: u32,
    cost: f64,
    /// Standard deviation of a second's rate, as a part of it.
    noise: f64,
    /// Streams that it admits.
    room: u32,
    /// Whether `each` is what a window allows, and the kernel reports it.
    windows: bool,
    /// Whether `each` is what random loss allows, and the kernel reports that no queue stands.
    losses: Option<Lossy>,
}

/// Random loss.
#[derive(Debug, Clone, Copy)]
enum Lossy {
    /// Slow start of a fresh stream fills the link for some seconds.
    AfterSlowStart(u64),
    /// A policer, or a very short queue: no queue is ever seen, and the link is all that there is.
    NoQueue,
}

impl Path {
    /// A path whose best number of streams is this.
    fn with_best(best: u32) -> Path {
        Path {
            each: 1e6,
            link: 1e6 * f64::from(best),
            best,
            cost: 0.0,
            noise: 0.0,
            room: STREAMS_MAX,
            windows: false,
            losses: None,
        }
    }

    fn brake(&self, streams: u32, is_filled: bool) -> StreamBrake {
        let has_room = self.each * f64::from(streams) < self.link;
        match self.losses {
            Some(Lossy::NoQueue) => StreamBrake::Losses,
            Some(_) if is_filled || !has_room => StreamBrake::Queue,
            Some(_) => StreamBrake::Losses,
            None if self.windows && has_room => StreamBrake::Windows,
            None => StreamBrake::Path,
        }
    }

    fn rate(&self, streams: u32) -> f64 {
        let crowd = f64::from(streams.saturating_sub(self.best)) * self.cost;
        (self.each * f64::from(streams)).min(self.link) * (1.0 - crowd).max(0.1)
    }
}

/// A number of streams on a path over time.
struct Run {
    count: StreamCount,
    path: Path,
    rng: Rng,
    now: Timestamp,
    delivered: f64,
    /// The number wanted at each step.
    wanted: Vec<u32>,
    /// Rate of a receiver that is slower than the path.
    limit: Option<f64>,
    /// Streams that were open, and until when fresh ones fill the link.
    open: u32,
    filled_until: Timestamp,
}

impl Run {
    fn new(path: Path, target: StreamTarget, seed: u64) -> Run {
        Run {
            count: StreamCount::new(target),
            path,
            rng: Rng::new(seed),
            now: Timestamp::ZERO,
            delivered: 0.0,
            wanted: Vec::new(),
            limit: None,
            open: 0,
            filled_until: Timestamp::ZERO,
        }
    }

    fn advance(&mut self, seconds: u32, idle: bool) -> &mut Run {
        for _ in 0..seconds * 5 {
            let open = self.count.wanted().min(self.path.room);
            // Five steps make a second; their noise adds up to its deviation.
            let spread: f64 = (0..12).map(|_| self.rng.unit()).sum::<f64>() - 6.0;
            let noise = 1.0 + spread * self.path.noise * 5f64.sqrt();
            if let (Some(Lossy::AfterSlowStart(seconds)), true) = (self.path.losses, open > self.open) {
                self.filled_until = self.now + Duration::from_secs(seconds);
            }
            self.open = open;
            let is_filled = self.now < self.filled_until;
            let rate = if is_filled { self.path.link } else { self.path.rate(open) };
            let rate = rate.min(self.limit.unwrap_or(f64::INFINITY));
            self.delivered += rate * noise.max(0.0) * STEP.as_secs_f64();
            self.now = self.now + STEP;
            let seen = StreamsSeen {
                now: self.now,
                delivered: self.delivered as u64,
                open,
                brake: self.path.brake(open, is_filled),
                round_trip: Duration::from_millis(65),
                idle,
            };
            self.wanted.push(self.count.observe(&seen));
        }
        self
    }

    /// The rate over the last steps, as a part of what the best number brings.
    fn share_of_best(&self, seconds: usize) -> f64 {
        let last = &self.wanted[self.wanted.len() - 5 * seconds..];
        let mean = last.iter().map(|n| self.path.rate(*n)).sum::<f64>() / last.len() as f64;
        mean / self.path.rate(self.path.best)
    }
}

const FOUND: StreamTarget = StreamTarget::Found { remembered: None };

#[test]
fn the_best_number_is_found_and_kept() {
    for best in [1, 4, 12, 32, 64] {
        let mut run = Run::new(Path::with_best(best), FOUND, 1);
        run.advance(120, false);
        let found = run.count.found().expect("it was measured");
        assert!(found >= best && f64::from(found) <= 1.35 * f64::from(best), "{best}: {found}");
        assert!(run.share_of_best(60) > 0.97, "{best}: {}", run.share_of_best(60));
    }
}

#[test]
fn the_best_number_is_reached_within_seconds() {
    for (best, within) in [(4, 6), (12, 10), (32, 12)] {
        let mut run = Run::new(Path::with_best(best), FOUND, 1);
        run.advance(within, false);
        assert!(run.count.wanted() >= best, "{best}: {:?} after {within} s", run.count.wanted());
    }
}

#[test]
fn windows_that_hold_the_streams_are_noticed_sooner() {
    for (best, within) in [(4, 2), (12, 3), (32, 4)] {
        let mut run = Run::new(Path { windows: true, ..Path::with_best(best) }, FOUND, 1);
        run.advance(within, false);
        assert!(run.count.wanted() >= best, "{best}: {:?} after {within} s", run.count.wanted());
        run.advance(120, false);
        assert!(run.wanted.iter().all(|n| *n <= 2 * best), "{best}: {:?}", run.wanted);
        assert!(run.share_of_best(60) > 0.97, "{best}: {}", run.share_of_best(60));
    }
}

#[test]
fn full_windows_of_a_slow_receiver_add_no_streams() {
    // Its windows are full however many there are, and the rate stays.
    let path = Path { windows: true, link: 1e9, ..Path::with_best(1) };
    let mut run = Run::new(path, FOUND, 1);
    run.limit = Some(1e6);
    run.advance(60, false);
    let mean = run.wanted.iter().sum::<u32>() as f64 / run.wanted.len() as f64;
    assert!(mean < 1.5, "{mean} streams on average");
}

#[test]
fn what_fresh_streams_bring_at_first_misleads_nobody() {
    for (best, fresh) in [(4, 1), (12, 2), (12, 4), (32, 1), (32, 3)] {
        let path = Path { losses: Some(Lossy::AfterSlowStart(fresh)), ..Path::with_best(best) };
        let mut run = Run::new(Path { noise: 0.1, ..path }, FOUND, 1);
        run.advance(60, false);
        let found = run.count.found().expect("it was measured");
        assert!(found >= best * 3 / 4, "{best}, fresh for {fresh} s: {found}");
        assert!(run.share_of_best(30) > 0.9, "{best}, fresh for {fresh} s: {}", run.share_of_best(30));
    }
}

#[test]
fn where_no_queue_is_ever_seen_only_gains_add_streams() {
    let path = Path { losses: Some(Lossy::NoQueue), ..Path::with_best(1) };
    let mut run = Run::new(path, FOUND, 1);
    run.advance(60, false);
    let mean = run.wanted.iter().sum::<u32>() as f64 / run.wanted.len() as f64;
    assert!(mean < 1.5, "{mean} streams on average");
}

#[test]
fn a_path_that_carries_less_than_before_gets_few_more_streams() {
    let path = Path { losses: Some(Lossy::NoQueue), ..Path::with_best(2) };
    let mut run = Run::new(path, FOUND, 1);
    run.advance(60, false);
    run.path.link /= 4.0;
    run.path.each /= 4.0;
    run.wanted.clear();
    run.advance(120, false);
    let mean = run.wanted.iter().sum::<u32>() as f64 / run.wanted.len() as f64;
    assert!(mean < 5.0, "{mean} streams on average");
}

#[test]
fn the_kernel_says_what_holds_streams() {
    let ms = Duration::from_millis;
    let of = |held, round_trip| StreamBrake::of(ms(100), ms(held), ms(round_trip), ms(65));
    assert_eq!(
        (of(80, 66), of(20, 66), of(80, 90)),
        (StreamBrake::Windows, StreamBrake::Losses, StreamBrake::Queue)
    );
    assert_eq!(StreamBrake::of(ms(0), ms(0), ms(0), ms(0)), StreamBrake::Path, "nothing is known");
}

#[test]
fn noise_does_not_lead_far_astray() {
    for best in [1, 4, 12, 32] {
        for seed in 0..40 {
            let path = Path { noise: 0.05, ..Path::with_best(best) };
            let mut run = Run::new(path, FOUND, seed);
            run.advance(300, false);
            let share = run.share_of_best(200);
            assert!(share > 0.9, "seed {seed}, best {best}: {share} {:?}", run.count);
            let mean = run.wanted[500..].iter().sum::<u32>() as f64 / (run.wanted.len() - 500) as f64;
            assert!(
                mean <= 2.5 * f64::from(best) + 1.0,
                "seed {seed}, best {best}: {mean} streams on average"
            );
        }
    }
}

#[test]
fn streams_that_cost_more_than_they_bring_are_given_up() {
    let path = Path { cost: 0.02, ..Path::with_best(8) };
    let mut run = Run::new(path, StreamTarget::Found { remembered: Some(40) }, 1);
    run.advance(120, false);
    let found = run.count.found().expect("it was measured");
    assert!((8..=10).contains(&found), "{found}");
}

#[test]
fn a_remembered_number_is_where_it_begins() {
    let mut run = Run::new(Path::with_best(12), StreamTarget::Found { remembered: Some(12) }, 1);
    assert_eq!(run.count.wanted(), 12);
    run.advance(60, false);
    assert!(run.share_of_best(58) > 0.95, "{}", run.share_of_best(58));
    for remembered in [0, 65, u32::MAX] {
        let count = StreamCount::new(StreamTarget::Found { remembered: Some(remembered) });
        assert!((1..=STREAMS_MAX).contains(&count.wanted()), "{remembered}");
    }
}

#[test]
fn a_fixed_number_stays() {
    let mut run = Run::new(Path::with_best(12), StreamTarget::Fixed(3), 1);
    run.advance(60, false);
    assert!(run.wanted.iter().all(|n| *n == 3));
    assert_eq!(run.count.found(), None, "a wish is no finding");
}

#[test]
fn a_slow_source_asks_for_no_streams() {
    let mut run = Run::new(Path::with_best(12), FOUND, 1);
    run.advance(60, true);
    assert!(run.wanted.iter().all(|n| *n == 1), "nothing waits to be sent");
}

#[test]
fn streams_that_cannot_be_had_are_not_waited_for() {
    let path = Path { room: 3, ..Path::with_best(12) };
    let mut run = Run::new(path, FOUND, 1);
    run.advance(120, false);
    let last = &run.wanted[run.wanted.len() - 100..];
    let within = last.iter().filter(|n| **n <= 3).count();
    assert!(within >= 90, "{last:?}");
}

#[test]
fn a_path_that_changes_is_measured_anew() {
    let mut run = Run::new(Path::with_best(4), FOUND, 1);
    run.advance(200, false);
    run.path = Path { each: 0.25e6, link: 4e6, best: 16, ..run.path };
    run.advance(60, false);
    assert!(run.share_of_best(20) > 0.9, "{} with {:?}", run.share_of_best(20), run.count);
}

#[test]
fn trials_become_rare_where_nothing_changes() {
    let mut run = Run::new(Path::with_best(12), FOUND, 1);
    run.advance(600, false);
    let late = &run.wanted[1500..];
    let changes = late.windows(2).filter(|w| w[0] != w[1]).count();
    assert!(changes <= 16, "{changes} changes in 5 minutes");
}
