//! What a program did, to the limit that is named; and real programs that cannot be explained.

use super::account::{Account, Carrier};
use super::processes::Worked;
use super::tally::Moved;
use super::*;
use fobs_explain::{Limit, explain};
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};

const STEP: Duration = Duration::from_millis(100);

/// Three seconds of a program that sends 100 Mbit/s over a path of 20 ms, changed by `scene`.
fn trace_of(carrier: Carrier, scene: impl Fn(u64, &mut Worked, &mut Moved)) -> Trace {
    let (mut account, mut journal) = (Account::default(), Journal::new());
    for step in 0..30 {
        let mut worked = Worked { run_us: 10_000, ..Worked::default() };
        let ms = Duration::from_millis;
        let mut moved = Moved {
            acked: 1_250_000,
            sent: 860,
            busy: STEP,
            rtt: ms(20),
            rtt_low: ms(20),
            rtt_high: ms(20),
            rtt_min: ms(20),
            congestion_window: 250_000,
            peer_window: 3_000_000,
            window_left: 1.0,
            open: 1,
            ..Moved::default()
        };
        scene(step, &mut worked, &mut moved);
        account.add(STEP, &worked, &moved, carrier);
        let at_us = step * 100_000;
        journal.push(At { at_us, what: Measured::Sender(account.sender().clone()) });
        journal.push(At { at_us, what: Measured::Receiver(account.receiver().clone()) });
    }
    let control = if carrier == Carrier::Ssh { "ssh" } else { "tcp" }.to_owned();
    let head = Head { control, transport: "tcp".to_owned(), cc: "rsync".to_owned(), ..Head::default() };
    let end = End::Done { bytes: account.moved(), seconds: 3.0, packet_size: 0, deadline_margin_s: None };
    Trace { head, journal, end }
}

/// What a program did in a step, by its number.
type Scene<'a> = &'a dyn Fn(u64, &mut Worked, &mut Moved);

#[test]
fn what_holds_a_program_back_is_named() {
    let queue = Duration::from_millis(30);
    let named = |carrier, scene: Scene<'_>| {
        let why = explain(&trace_of(carrier, scene));
        (why.limit, why)
    };
    let table: [(&str, Carrier, Scene<'_>, Limit); 11] = [
        (
            "a rate that it keeps itself",
            Carrier::Ssh,
            &|_, w, m| (m.idle, w.slept) = (0.95, 0.9),
            Limit::RateCap,
        ),
        ("its disk", Carrier::Ssh, &|_, w, m| (m.idle, w.blocked) = (0.9, 0.8), Limit::Source),
        ("ssh computes", Carrier::Ssh, &|_, w, m| (m.idle, w.run_us) = (0.9, 98_000), Limit::SenderCpu),
        (
            "the far program does not read",
            Carrier::Tcp,
            &|_, _, m| {
                (m.window_limited, m.window_left) = (STEP * 8 / 10, 0.0);
            },
            Limit::Destination,
        ),
        ("the far disk behind ssh", Carrier::Ssh, &|_, _, m| m.idle = 0.9, Limit::Destination),
        (
            "the channel's window",
            Carrier::Ssh,
            &|_, _, m| {
                (m.idle, m.rtt, m.rtt_low) = (0.9, Duration::from_millis(150), Duration::from_millis(150));
                m.rtt_min = m.rtt;
            },
            Limit::ChannelWindow,
        ),
        ("a clamped window", Carrier::Tcp, &|_, _, m| m.window_limited = STEP * 9 / 10, Limit::StreamWindow),
        (
            "a small send buffer",
            Carrier::Tcp,
            &|_, _, m| m.buffer_limited = STEP * 9 / 10,
            Limit::StreamBuffer,
        ),
        ("a queue", Carrier::Tcp, &|_, _, m| (m.rtt, m.rtt_low) = (queue, queue), Limit::NarrowPath),
        (
            "random loss",
            Carrier::Tcp,
            &|step, _, m| m.retransmitted = [9, 6, 11, 8][step as usize % 4],
            Limit::RandomLoss,
        ),
        (
            "others",
            Carrier::Tcp,
            &|step, _, m| {
                (m.rtt, m.rtt_low) = (queue, queue);
                m.acked = m.acked * [2, 9, 4, 7, 12][step as usize % 5] / 10;
            },
            Limit::CompetingTraffic,
        ),
    ];
    for (case, carrier, scene, expected) in table {
        let (limit, why) = named(carrier, scene);
        assert_eq!(limit, Some(expected), "{case}: {why:#?}");
        assert!(why.share > 0.5 && !why.evidence.is_empty(), "{case}: {why:#?}");
    }
}

/// What a handshake waits for is neither end's disk.
#[test]
fn a_handshake_is_no_slow_disk() {
    let why = explain(&trace_of(Carrier::Ssh, |step, _, m| {
        if step < 10 {
            (m.acked, m.sent, m.idle) = (900, 2, 1.0);
        }
    }));
    let part = |limit| why.causes.iter().find(|cause| cause.limit == limit).map_or(0.0, |cause| cause.share);
    assert!(part(Limit::Destination) < 0.01 && part(Limit::RoundTrips) > 0.3, "{why:#?}");
}

#[test]
fn a_program_that_keeps_itself_to_a_rate_is_told_so() {
    for receives in [false, true] {
        let why = explain(&trace_of(Carrier::Tcp, |_, w, m| {
            (m.idle, w.slept) = (0.95, 0.9);
            if receives {
                (m.received, m.acked) = (m.acked, 0);
            }
        }));
        assert_eq!(why.limit, Some(Limit::RateCap), "{why:#?}");
        assert!(why.sentence.contains("slept by its own choice"), "{}", why.sentence);
        assert!(why.fix.contains("--bwlimit") && why.fobs.is_none(), "{why:#?}");
    }
}

/// Where the copy never found what the path carries, no range is promised, and never less than it had.
#[test]
fn a_forecast_is_no_less_than_the_copy_had() {
    let lossy =
        explain(&trace_of(Carrier::Tcp, |step, _, m| m.retransmitted = [9, 6, 11, 8][step as usize % 4]));
    let forecast = lossy.fobs.clone().expect("the path limits");
    assert!(forecast.p90_bps.is_none() && forecast.p10_bps >= lossy.goodput_bps, "{forecast:?}");
    assert!(lossy.text().contains("at least") && lossy.text().contains("was not tried"), "{}", lossy.text());
    let queue = Duration::from_millis(30);
    let narrow = explain(&trace_of(Carrier::Tcp, |_, _, m| (m.rtt, m.rtt_low) = (queue, queue)));
    let forecast = narrow.fobs.clone().expect("the path limits");
    let most = forecast.p90_bps.expect("its rate is known");
    assert!(narrow.goodput_bps <= forecast.p10_bps && most <= forecast.rate_bps, "{narrow:#?}");
}

#[test]
fn a_program_that_receives_is_told_apart_only_by_what_is_here() {
    let receive = |m: &mut Moved| (m.received, m.acked) = (m.acked, 0);
    let disk = explain(&trace_of(Carrier::Ssh, |_, w, m| {
        receive(m);
        w.blocked = 0.7;
    }));
    assert_eq!(disk.limit, Some(Limit::Destination), "{disk:#?}");
    let far = explain(&trace_of(Carrier::Ssh, |_, _, m| receive(m)));
    assert_eq!(far.limit, Some(Limit::FarSide), "{far:#?}");
    assert!(far.text().contains("cannot be told apart"), "{}", far.text());
}

/// What waited for what, in shares of the time.
fn shares(trace: &Trace) -> impl Fn(Limit) -> f64 {
    let causes = explain(trace).causes;
    move |limit| causes.iter().find(|cause| cause.limit == limit).map_or(0.0, |cause| cause.share)
}

/// `scp` of many small files, `curl --limit-rate` in both directions, a server that reads slowly, and a
/// download of which the program takes a part at times only.
#[test]
fn programs_that_wait_between_pieces_are_told_apart() {
    let small = trace_of(Carrier::Ssh, |_, _, m| (m.acked, m.idle, m.answered) = (40_000, 0.95, 0.9));
    assert!(shares(&small)(Limit::RoundTrips) > 0.8, "{:#?}", explain(&small));
    // As slow, but the far end answers now and then.
    let slow = trace_of(Carrier::Ssh, |_, _, m| (m.acked, m.idle, m.answered) = (40_000, 0.95, 0.2));
    assert!(shares(&slow)(Limit::Destination) > 0.8, "{:#?}", explain(&slow));
    let limited = trace_of(Carrier::Tcp, |_, w, m| (m.acked, m.idle, w.turns) = (300_000, 0.95, 0.9));
    assert!(shares(&limited)(Limit::RateCap) > 0.8, "{:#?}", explain(&limited));
    let down = |unread: f64| {
        trace_of(Carrier::Tcp, move |_, w, m| {
            (m.received, m.acked, m.unread, m.idle, w.turns) = (300_000, 0, unread, 1.0, 0.9);
        })
    };
    assert!(shares(&down(0.9))(Limit::RateCap) > 0.8, "{:#?}", explain(&down(0.9)));
    assert!(shares(&down(0.0))(Limit::FarSide) > 0.8, "{:#?}", explain(&down(0.0)));
    let reads_slowly = trace_of(Carrier::Tcp, |_, _, m| {
        (m.window_limited, m.window_full, m.window_left) = (STEP / 10, 0.9, 0.52);
        (m.acked, m.rtt, m.rtt_low) = (300_000, Duration::from_millis(35), Duration::from_millis(35));
    });
    assert!(shares(&reads_slowly)(Limit::Destination) > 0.7, "{:#?}", explain(&reads_slowly));
    // A far end that writes to its disk for a second and a half at a time, behind an ssh channel.
    let stalls = trace_of(Carrier::Ssh, |step, _, m| {
        if step % 15 > 2 {
            (m.acked, m.sent, m.busy, m.idle) = (0, 0, Duration::ZERO, 1.0);
        }
    });
    assert!(shares(&stalls)(Limit::Destination) > 0.6, "{:#?}", explain(&stalls));
    // Pieces with nothing between them: still a download.
    let pieces = trace_of(Carrier::Tcp, |step, _, m| {
        (m.received, m.acked, m.idle) = (if step % 2 == 0 { 600_000 } else { 0 }, 0, 1.0);
    });
    assert!(shares(&pieces)(Limit::FarSide) > 0.9, "{:#?}", explain(&pieces));
}

/// Watches a program until it ends.
fn watched(program: &mut Command) -> Result<Trace, WatchError> {
    let mut child = program.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("a shell");
    let outcome = watched_by(child.id());
    child.wait().expect("it ended");
    outcome
}

fn watched_by(process: u32) -> Result<Trace, WatchError> {
    let mut watch = Watch::new(process)?;
    while watch.look()? {
        std::thread::sleep(LOOK_EVERY);
    }
    watch.finish()
}

/// A writer that sleeps between its writes, as `--bwlimit` does.
#[test]
fn real_pauses_of_a_program_are_seen() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let script = format!(
        "import os, socket, time\n\
         s = socket.create_connection(('127.0.0.1', {port}))\n\
         for _ in range(20): os.write(s.fileno(), bytes(50000)); time.sleep(0.1)"
    );
    // Where there is no Python, nothing else sleeps in its own process.
    let Ok(mut child) = Command::new("python3").args(["-c", &script]).stdin(Stdio::null()).spawn() else {
        return;
    };
    let taker = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut buffer = vec![0; 1 << 16];
        while let Ok(1..) = stream.read(&mut buffer) {}
    });
    let trace = watched_by(child.id()).expect("it moved data");
    child.wait().expect("it ended");
    taker.join().expect("it read all");
    let why = explain(&trace);
    assert_eq!(why.limit, Some(Limit::RateCap), "{why:#?}");
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", script]);
    command
}

#[test]
fn programs_that_cannot_be_explained_say_why() {
    let error = watched(&mut shell("sleep 0.3")).unwrap_err().to_string();
    assert!(error.contains("no TCP connection"), "{error}");
    let error = watched(&mut shell("true")).unwrap_err().to_string();
    assert!(error.contains("was over before") || error.contains("no TCP connection"), "{error}");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = socket.local_addr().expect("bound").port();
    let error = watched(&mut shell(&format!("exec 3<>/dev/udp/127.0.0.1/{port}; sleep 0.4"))).unwrap_err();
    assert!(matches!(error, WatchError::Udp), "{error}");
    let none = u32::try_from(rustix::process::getpid().as_raw_nonzero().get()).expect("positive");
    assert!(matches!(Watch::new(none + 4_000_000), Err(WatchError::NoProcess(_))));
}

#[test]
fn a_child_with_many_connections_is_followed() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let taker = std::thread::spawn(move || {
        let streams: Vec<_> = listener.incoming().take(20).flatten().collect();
        let mut total = 0;
        for mut stream in streams {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                total += read;
            }
        }
        total
    });
    // A child of a child opens twenty and writes to each.
    let script = format!(
        "bash -c 'for i in {{1..20}}; do exec {{fd}}<>/dev/tcp/127.0.0.1/{port}; fds+=($fd); done; sleep 0.3; \
         for fd in \"${{fds[@]}}\"; do head -c 50000 /dev/zero >&$fd; done; sleep 0.3' & wait"
    );
    let trace = watched(&mut shell(&script)).expect("it moved data");
    let End::Done { bytes, .. } = trace.end else { panic!("{:?}", trace.end) };
    assert_eq!(taker.join().expect("it took all"), 1_000_000);
    assert!(bytes >= 900_000, "{bytes}");
}
