use super::*;
use fobs_rng::Rng;

const BEAT: Duration = super::super::HEARTBEAT;

/// What datagrams and streams can carry on a path, bytes per second.
#[derive(Debug, Clone, Copy)]
struct Path {
    link: f64,
    /// All datagrams; zero where they do not pass.
    udp: f64,
    /// A policer or a broken line: datagrams are lost.
    lossy: bool,
    /// One stream; zero where none can be had.
    tcp: f64,
}

const OPEN: Path = Path { link: 12.5e6, udp: 12.5e6, lossy: false, tcp: 5e6 };
const UDP_BLOCKED: Path = Path { udp: 0.0, ..OPEN };
const TCP_BLOCKED: Path = Path { tcp: 0.0, ..OPEN };
const POLICED: Path = Path { udp: 0.05 * 12.5e6, lossy: true, ..OPEN };

/// A session over such a path.
struct Run {
    policy: TransportPolicy,
    path: Path,
    now: Timestamp,
    directive: Directive,
    seen: TransportSeen,
    /// When the streams wanted will be open.
    opening: Option<Timestamp>,
    /// In the route now in force: since when, and probes sent.
    since: Timestamp,
    probes: u32,
    changes: Vec<RouteChange>,
    /// Datagrams reach the receiver, and its own do not come back.
    one_way: bool,
    /// A stream that cannot be had is always being opened.
    dials: bool,
}

impl Run {
    fn new(choice: TransportChoice, path: Path) -> Run {
        let config = TransportConfig {
            began: Timestamp::ZERO,
            choice,
            peer_has_streams: true,
            streams: StreamTarget::Found { remembered: None },
        };
        Run::with(config, path)
    }

    fn with(config: TransportConfig, path: Path) -> Run {
        let policy = TransportPolicy::new(config);
        let round_trip = Duration::from_millis(65);
        Run {
            directive: policy.directive(),
            policy,
            path,
            now: Timestamp::ZERO,
            seen: TransportSeen {
                now: Timestamp::ZERO,
                datagrams: DatagramsSeen { round_trip, ..DatagramsSeen::default() },
                frames_delivered: 0,
                frames_waiting: false,
                streams: StreamsOpen { round_trip, ..StreamsOpen::default() },
                idle: false,
            },
            opening: None,
            since: Timestamp::ZERO,
            probes: 0,
            changes: Vec::new(),
            one_way: false,
            dials: false,
        }
    }

    fn auto(path: Path) -> Run {
        Run::new(TransportChoice::Auto, path)
    }

    /// Bytes per second that both ways deliver now.
    fn rates(&self) -> (f64, f64) {
        let open = f64::from(self.seen.streams.open);
        let wanted = (open * self.path.tcp).min(self.path.link);
        match self.directive.route {
            Route::Datagrams => (self.path.udp.min(self.path.link), 0.0),
            Route::Frames => (0.0, wanted),
            Route::Both => {
                let fair = self.path.link / (open + 1.0);
                let udp = self.path.udp.min(fair.max(self.path.link - wanted));
                (udp, wanted.min(self.path.link - udp))
            }
        }
    }

    fn beat(&mut self) {
        self.now = self.now + BEAT;
        self.open_streams();
        let (udp, tcp) = self.rates();
        let seconds = BEAT.as_secs_f64();
        let datagrams = &mut self.seen.datagrams;
        if self.path.udp > 0.0 && !self.one_way {
            datagrams.heard = Some(self.now);
        }
        datagrams.delivered += (udp * seconds) as u64;
        datagrams.waiting = self.directive.route.has_datagrams();
        let packets = (udp * seconds / 1200.0) as u64;
        datagrams.packets += packets;
        datagrams.lost += if self.path.lossy { packets / 20 } else { 0 };
        // Probes leave 1, 3, 7 and 15 s after the route began, and then every 10 s.
        let due = match self.probes {
            0 => 1,
            1 => 3,
            2 => 7,
            n => 15 + 10 * (u64::from(n) - 3),
        };
        if self.directive.route == Route::Frames && self.now - self.since >= Duration::from_secs(due) {
            self.probes += 1;
            datagrams.probes_acked += u64::from(self.path.udp > 0.0);
        }
        self.seen.frames_delivered += (tcp * seconds) as u64;
        self.seen.frames_waiting = self.directive.route.has_frames() && self.seen.streams.open > 0;
        self.seen.now = self.now;
        self.directive = self.policy.observe(&self.seen);
        while let Some(change) = self.policy.poll_change() {
            let first = change.reason == RouteReason::Chosen;
            assert_eq!(change.at, if first { Timestamp::ZERO } else { self.now });
            (self.since, self.probes) = (self.now, 0);
            self.changes.push(change);
        }
    }

    /// Streams open two heartbeats after they are wanted.
    fn open_streams(&mut self) {
        let wanted = self.directive.streams;
        let streams = &mut self.seen.streams;
        if self.path.tcp == 0.0 {
            (streams.open, streams.connecting, self.opening) = (0, wanted.min(1), None);
            if !self.dials && (self.now.as_nanos() / 1_000_000_000).is_multiple_of(2) {
                streams.connecting = 0;
            }
            return;
        }
        streams.open = streams.open.min(wanted);
        streams.connecting = wanted - streams.open;
        if streams.connecting == 0 {
            self.opening = None;
        } else if self.now >= *self.opening.get_or_insert(self.now + 2 * BEAT) {
            (streams.open, streams.connecting, self.opening) = (wanted, 0, None);
        }
    }

    fn advance(&mut self, seconds: u64) -> &mut Run {
        for _ in 0..seconds * 5 {
            self.beat();
        }
        self
    }

    fn routes(&self) -> Vec<Route> {
        self.changes.iter().map(|c| c.route).collect()
    }

    fn reasons(&self) -> Vec<RouteReason> {
        self.changes.iter().map(|c| c.reason).collect()
    }

    /// Mean rate of both ways over the next seconds, as a part of `of`.
    fn share(&mut self, seconds: u64, of: f64) -> f64 {
        let total = |run: &Run| (run.seen.datagrams.delivered + run.seen.frames_delivered) as f64;
        let before = total(self);
        self.advance(seconds);
        (total(self) - before) / seconds as f64 / of
    }
}

fn second(at: Timestamp) -> f64 {
    at.as_nanos() as f64 / 1e9
}

#[test]
fn datagrams_that_are_answered_need_no_stream() {
    let mut run = Run::auto(OPEN);
    for _ in 0..3000 {
        run.beat();
        assert_eq!(run.directive, Directive { route: Route::Datagrams, streams: 0 });
    }
    assert_eq!(run.changes, []);
}

#[test]
fn blocked_datagrams_are_left_within_two_seconds() {
    let mut run = Run::auto(UDP_BLOCKED);
    run.advance(60);
    assert_eq!(run.routes(), [Route::Both, Route::Frames]);
    assert_eq!(run.reasons(), [RouteReason::UdpSilent; 2]);
    assert!(second(run.changes[0].at) <= 1.3, "{:?}", run.changes);
    assert!(second(run.changes[1].at) <= 2.0, "{:?}", run.changes);
    assert!(run.directive.streams >= 3, "the number of streams is found: {:?}", run.directive);
    assert!(run.policy.streams_found().is_some());
}

#[test]
fn datagrams_that_die_are_left_and_taken_again_when_they_heal() {
    let mut run = Run::auto(OPEN);
    run.advance(20);
    run.path = UDP_BLOCKED;
    run.advance(20);
    assert_eq!(run.routes(), [Route::Both, Route::Frames]);
    assert_eq!(run.reasons(), [RouteReason::UdpDied; 2]);
    assert!(second(run.changes[0].at) <= 21.5 && second(run.changes[1].at) <= 23.0, "{:?}", run.changes);
    run.path = OPEN;
    run.advance(30);
    assert_eq!(run.routes()[2..], [Route::Both, Route::Datagrams]);
    assert_eq!(
        run.changes.last().map(|c| c.reason),
        Some(RouteReason::UdpAnswers),
        "streams stay for a while"
    );
    run.advance(10);
    assert_eq!(run.directive, Directive { route: Route::Datagrams, streams: 0 });
    assert_eq!(run.share(10, OPEN.link), 1.0);
}

#[test]
fn late_answers_at_the_start_end_the_streams() {
    let mut run = Run::auto(UDP_BLOCKED);
    run.path.tcp = 0.0;
    run.advance(2);
    assert_eq!(run.directive.route, Route::Both);
    run.path = OPEN;
    run.advance(2);
    assert_eq!(run.routes(), [Route::Both, Route::Datagrams]);
    assert_eq!(run.reasons(), [RouteReason::UdpSilent, RouteReason::UdpHealed]);
}

#[test]
fn datagrams_that_pass_one_way_only_are_left() {
    let mut run = Run::auto(OPEN);
    run.advance(20);
    run.one_way = true;
    run.advance(300);
    assert_eq!(run.routes(), [Route::Both, Route::Frames], "acks on streams report them, but none is heard");
    run.one_way = false;
    run.advance(40);
    assert_eq!(run.directive.route, Route::Datagrams);
}

#[test]
fn policed_datagrams_are_left_for_streams() {
    let mut run = Run::auto(POLICED);
    run.advance(15);
    assert_eq!(run.routes(), [Route::Both, Route::Frames]);
    assert!(
        matches!(run.reasons()[..], [RouteReason::UdpLossy, RouteReason::UdpThrottled { .. }]),
        "{:?}",
        run.changes
    );
    assert!(run.share(600, POLICED.link) > 0.9);
    // Datagrams are tried again, ever more rarely.
    assert!(run.changes.len() <= 14, "{:?}", run.changes);
}

#[test]
fn lossy_datagrams_are_kept_where_streams_are_no_faster() {
    let mut run = Run::auto(Path { lossy: true, udp: 8e6, tcp: 0.1e6, ..OPEN });
    run.advance(20);
    assert_eq!(run.routes(), [Route::Both, Route::Datagrams]);
    assert_eq!(run.reasons()[1], RouteReason::TcpNoFaster);
    run.advance(600);
    assert!(run.changes.len() <= 12, "{:?}", run.changes);
}

#[test]
fn a_squeezed_way_is_not_taken_for_a_slow_one() {
    // Alone, datagrams fill the link; beside greedy streams they would get a ninth.
    let config = TransportConfig {
        began: Timestamp::ZERO,
        choice: TransportChoice::Auto,
        peer_has_streams: true,
        streams: StreamTarget::Found { remembered: Some(8) },
    };
    let mut run = Run::with(config, Path { lossy: true, ..OPEN });
    run.advance(20);
    assert_eq!(run.reasons(), [RouteReason::UdpLossy, RouteReason::TcpNoFaster]);
}

#[test]
fn without_streams_datagrams_carry_on() {
    let mut run = Run::auto(TCP_BLOCKED);
    run.path.lossy = true;
    run.advance(20);
    assert_eq!(run.reasons(), [RouteReason::UdpLossy, RouteReason::NoStreams]);
    assert_eq!(run.directive.route, Route::Datagrams);
}

#[test]
fn streams_that_die_leave_the_way_to_datagrams() {
    let mut run = Run::auto(UDP_BLOCKED);
    run.advance(20);
    assert_eq!(run.directive.route, Route::Frames);
    run.path = TCP_BLOCKED;
    run.advance(20);
    assert_eq!(run.directive.route, Route::Datagrams, "{:?}", run.changes);
    assert_eq!(run.reasons()[2..], [RouteReason::NoStreams, RouteReason::UdpHealed]);
}

#[test]
fn a_driver_that_never_stops_dialling_has_no_stream() {
    let mut run = Run::auto(UDP_BLOCKED);
    run.advance(20);
    run.path = TCP_BLOCKED;
    run.dials = true;
    run.advance(20);
    assert_eq!(run.directive.route, Route::Datagrams, "{:?}", run.changes);
}

#[test]
fn where_nothing_passes_both_ways_stay_open() {
    let mut run = Run::auto(Path { udp: 0.0, tcp: 0.0, ..OPEN });
    run.advance(60);
    assert_eq!(run.routes(), [Route::Both]);
    assert!(run.directive.streams >= 1, "a stream is still wanted");
    run.path = UDP_BLOCKED;
    run.advance(5);
    assert_eq!(run.directive.route, Route::Frames);
}

#[test]
fn a_choice_is_kept() {
    let mut udp = Run::new(TransportChoice::Udp, UDP_BLOCKED);
    udp.advance(30);
    assert_eq!((udp.directive, udp.changes), (Directive { route: Route::Datagrams, streams: 0 }, vec![]));
    let mut tcp = Run::new(TransportChoice::Tcp { count: Some(6) }, OPEN);
    tcp.advance(30);
    assert_eq!(tcp.directive, Directive { route: Route::Frames, streams: 6 });
    assert_eq!(tcp.reasons(), [RouteReason::Chosen]);
    let mut found = Run::new(TransportChoice::Tcp { count: None }, OPEN);
    found.advance(30);
    assert!((3..=4).contains(&found.directive.streams), "{:?}", found.directive);
    let config = TransportConfig {
        began: Timestamp::ZERO,
        choice: TransportChoice::Auto,
        peer_has_streams: false,
        streams: StreamTarget::Found { remembered: None },
    };
    let mut older = Run::with(config, UDP_BLOCKED);
    older.advance(30);
    assert_eq!((older.directive.streams, older.changes), (0, vec![]));
}

#[test]
fn a_stall_of_the_host_is_no_silence() {
    let mut run = Run::auto(OPEN);
    run.advance(5);
    run.path.udp = 0.0;
    run.now = run.now + Duration::from_secs(30);
    run.beat();
    run.path.udp = OPEN.udp;
    run.advance(5);
    assert_eq!(run.changes, [], "nobody listened for 30 s");
}

#[test]
fn datagrams_that_come_and_go_are_left_for_streams() {
    for period in [2, 5, 20] {
        let mut run = Run::auto(OPEN);
        let total = |run: &Run| (run.seen.datagrams.delivered + run.seen.frames_delivered) as f64;
        while second(run.now) < 600.0 {
            run.path = if run.path.udp > 0.0 { UDP_BLOCKED } else { OPEN };
            run.advance(period);
        }
        let share = total(&run) / 600.0 / OPEN.link;
        assert!(share > 0.85, "period {period} s: {share}");
        assert!(run.changes.len() <= 40, "period {period} s: {:?}", run.changes);
    }
}

/// Whatever the path does, the route changes rarely, and the way that is left in the end is a good one.
#[test]
fn it_never_flaps_and_ends_well() {
    for seed in 0..200u64 {
        let mut rng = Rng::new(seed);
        let mut run = Run::auto(OPEN);
        let paths = [
            OPEN,
            UDP_BLOCKED,
            TCP_BLOCKED,
            POLICED,
            Path { lossy: true, ..OPEN },
            Path { udp: 0.0, tcp: 0.0, ..OPEN },
            Path { tcp: 0.2e6, ..OPEN },
        ];
        let shortest = rng.pick(&[1, 3, 10]);
        while second(run.now) < 600.0 {
            run.path = rng.pick(&paths);
            run.advance(rng.range(shortest, 4 * shortest));
        }
        let changes = run.changes.len();
        // Trials are 30 s apart and more, silences cost a second and a hold of up to 30 s each.
        assert!(changes <= 80, "seed {seed}: {changes} changes in 10 minutes");
        run.path = rng.pick(&[OPEN, UDP_BLOCKED, TCP_BLOCKED, POLICED]);
        let best = run.path.udp.max((run.path.tcp * 64.0).min(run.path.link));
        run.advance(1000);
        let settled = run.changes.len();
        let share = run.share(200, best);
        assert!(share > 0.8, "seed {seed}: {share} of {:?} by {:?}", run.path, run.directive);
        assert!(run.changes.len() - settled <= 6, "seed {seed}: {:?}", &run.changes[settled..]);
    }
}
