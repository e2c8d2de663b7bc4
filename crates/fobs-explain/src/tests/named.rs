//! Scenes made by hand, at least one for each limit, and the limit that is named.

use super::*;

fn assert_named(scenes: &[(&str, Trace, Limit)]) {
    for (scene, trace, expected) in scenes {
        let why = explain(trace);
        assert_eq!(why.limit, Some(*expected), "{scene}: {why:#?}");
        assert!(why.share > 0.6 && why.share <= 1.0, "{scene}: {}", why.share);
        assert!(why.sentence.contains("% of the time"), "{scene}: {}", why.sentence);
        assert!(!why.fix.is_empty() && !why.evidence.is_empty(), "{scene}: {why:#?}");
        let seconds: f64 = why.budget.iter().map(|spent| spent.seconds).sum();
        assert!((2.99..3.01).contains(&seconds), "{scene}: a budget of {seconds} s");
    }
}

#[test]
fn policers_are_named() {
    assert_named(&[
        (
            "one rate with even losses, and an opening that sent twice as much of which half was lost",
            trace_of("auto", |step, s, _| {
                s.waits.add_us(Wait::Pacer, WAIT_US);
                if step == 0 { send(s, 2000, 1000) } else { send(s, 1000, 10) }
            }),
            Limit::Policer,
        ),
        (
            "losses as even as clockwork, more of them at the higher of two rates",
            trace_of("auto", |step, s, _| {
                s.waits.add_us(Wait::Pacer, WAIT_US);
                if step % 20 < 10 { send(s, 1100, 100) } else { send(s, 1250, 250) }
            }),
            Limit::Policer,
        ),
        (
            "losses that come with the rate",
            trace_of("auto", |step, s, _| {
                s.waits.add_us(Wait::Pacer, WAIT_US);
                if step % 6 == 5 { send(s, 2 * STEP_PACKETS, STEP_PACKETS) } else { send(s, STEP_PACKETS, 0) }
            }),
            Limit::Policer,
        ),
    ]);
}

#[test]
fn other_limits_of_the_path_are_named() {
    assert_named(&[
        (
            "one rate with even losses, and an opening that sent twice as much, which was delivered",
            trace_of("cubic", |step, s, _| {
                s.waits.add_us(Wait::Pacer, WAIT_US);
                if step == 0 { send(s, 2000, 20) } else { send(s, 1000, 10) }
            }),
            Limit::RandomLoss,
        ),
        (
            "the sender waits for a CPU and keeps its pace all the same, behind a queue",
            trace_of("auto", |_, s, _| {
                s.waits.add_us(Wait::Pacer, WAIT_US);
                s.cpu.delay_us += STEP_US / 4;
                s.pacing_bps = 10_000_000;
                s.rtt_us = 25_000;
            }),
            Limit::NarrowPath,
        ),
        (
            "the receiver waits for a CPU at first, then the path has a queue",
            trace_of("auto", |step, s, r| {
                s.waits.add_us(Wait::Pacer, WAIT_US);
                if step < 5 {
                    r.cpu.delay_us += STEP_US / 2;
                    r.cpu.run_us += STEP_US * 3 / 10;
                    r.wait_us -= STEP_US * 7 / 10;
                }
                s.rtt_us = if step < 5 { 20_000 } else { 25_000 };
            }),
            Limit::NarrowPath,
        ),
        (
            "a queue stands",
            trace_of("cubic", |_, s, _| {
                s.waits.add_us(Wait::Window, WAIT_US);
                s.rtt_us = 45_000;
            }),
            Limit::NarrowPath,
        ),
        (
            "losses as chance spreads them",
            trace_of("cubic", |step, s, _| {
                s.waits.add_us(Wait::Window, WAIT_US);
                send(s, STEP_PACKETS, [2, 0, 1, 3, 1, 1, 2, 0, 1, 2][step as usize % 10]);
            }),
            Limit::RandomLoss,
        ),
        (
            "no sign of anything",
            trace_of("auto", |_, s, _| s.waits.add_us(Wait::Pacer, WAIT_US)),
            Limit::StartUp,
        ),
        (
            "the last answers take long",
            trace_of("auto", |_, s, _| s.waits.add_us(Wait::Answers, WAIT_US)),
            Limit::RoundTrips,
        ),
        (
            "the last answers wait behind the acks",
            trace_of("auto", |step, s, _| {
                s.waits.add_us(if step < 8 { Wait::Pacer } else { Wait::Answers }, WAIT_US);
                s.rtt_low_us = if step < 8 { 40_000 + 200_000 * step } else { 0 };
                s.rtt_min_us = 40_000;
            }),
            Limit::ReturnPath,
        ),
    ]);
}

#[test]
fn limits_of_the_sender_are_named() {
    assert_named(&[
        (
            "the reader is blocked",
            trace_of("auto", |_, s, _| {
                s.waits.add_us(Wait::Source, WAIT_US);
                work(&mut s.reader, 90, 0);
            }),
            Limit::Source,
        ),
        (
            "the reader hashes",
            trace_of("auto", |_, s, _| {
                s.waits.add_us(Wait::Source, WAIT_US);
                work(&mut s.reader, 10, 0);
            }),
            Limit::SenderCpu,
        ),
        ("the sender never waits", trace_of("auto", |_, _, _| {}), Limit::SenderCpu),
        (
            "the sender waits for a CPU",
            trace_of("auto", |_, s, _| {
                s.waits.add_us(Wait::Pacer, STEP_US / 10);
                s.cpu.run_us += STEP_US / 10;
                s.cpu.delay_us += STEP_US * 8 / 10;
            }),
            Limit::SenderCpu,
        ),
        (
            "the sender waits for a CPU that it hardly needs, behind a queue",
            trace_of("auto", |_, s, _| {
                s.waits.add_us(Wait::Pacer, WAIT_US);
                s.cpu.run_us += STEP_US / 25;
                s.cpu.delay_us += STEP_US * 3 / 10;
                s.rtt_us = 25_000;
            }),
            Limit::NarrowPath,
        ),
        (
            "a cap",
            trace_of("auto", |_, s, _| {
                s.waits.add_us(Wait::Cap, WAIT_US);
                s.cap_bps = 10_000_000;
            }),
            Limit::RateCap,
        ),
        (
            "a deadline that needs no more",
            trace_of("auto", |_, s, _| s.waits.add_us(Wait::Deadline, WAIT_US)),
            Limit::Deadline,
        ),
        (
            "its own socket is full",
            trace_of("auto", |_, s, _| s.waits.add_us(Wait::Socket, WAIT_US)),
            Limit::LocalQueue,
        ),
    ]);
}

/// Streams that are busy all the time; their windows and buffers are full for these percentages of it,
/// with this round trip on a path of 65 ms.
fn streams(window: u64, buffer: u64, rtt_ms: u64) -> Trace {
    trace_of("auto", move |_, s, _| {
        s.waits.add_us(Wait::Streams, WAIT_US);
        s.bytes_frames_delivered += 1 << 20;
        (s.streams.rtt_us, s.streams.rtt_min_us) = (rtt_ms * 1000, 65_000);
        s.streams.busy_us += 4 * STEP_US;
        s.streams.peer_window_us += 4 * STEP_US / 100 * window;
        s.streams.send_buffer_us += 4 * STEP_US / 100 * buffer;
    })
}

/// A window that is full for a part of the time only, below the congestion window.
fn paced_streams() -> Trace {
    trace_of("auto", |_, s, _| {
        s.waits.add_us(Wait::Streams, WAIT_US);
        (s.streams.rtt_us, s.streams.rtt_min_us) = (66_000, 65_000);
        s.streams.busy_us += STEP_US;
        s.streams.peer_window_us += STEP_US / 100 * 39;
        (s.streams.congestion_window_bytes, s.streams.peer_window_bytes) = (560 << 10, 243 << 10);
        s.bytes_frames_delivered += 200_000;
    })
}

#[test]
fn limits_of_streams_are_named_as_the_kernel_counts_them() {
    assert_named(&[
        ("windows are clamped", streams(80, 10, 66), Limit::StreamWindow),
        ("windows are clamped, and pacing spreads them", paced_streams(), Limit::StreamWindow),
        ("send buffers are small", streams(10, 70, 66), Limit::StreamBuffer),
        ("TCP backs off", streams(20, 20, 66), Limit::StreamPath),
        ("windows are full because the path is", streams(95, 0, 93), Limit::StreamPath),
    ]);
}

#[test]
fn limits_of_the_receiver_are_named() {
    assert_named(&[
        (
            "the receiver drains slowly, with CPU to spare",
            trace_of("auto", |_, s, r| {
                s.waits.add_us(Wait::Drain, WAIT_US);
                r.cpu.delay_us += STEP_US / 100;
            }),
            Limit::ReceiverBuffer,
        ),
        (
            "the receiver drains slowly, for want of a CPU",
            trace_of("auto", |_, s, r| {
                s.waits.add_us(Wait::Drain, WAIT_US);
                r.cpu.delay_us += STEP_US / 2;
            }),
            Limit::ReceiverCpu,
        ),
        (
            "the writer is blocked",
            trace_of("auto", |_, s, r| {
                s.waits.add_us(Wait::Storage, WAIT_US);
                work(&mut r.writer, 90, 0);
            }),
            Limit::Destination,
        ),
        (
            "the writer verifies",
            trace_of("auto", |_, s, r| {
                s.waits.add_us(Wait::Storage, WAIT_US);
                work(&mut r.writer, 5, 0);
            }),
            Limit::ReceiverCpu,
        ),
        (
            "the receiver waits for a CPU at first, and the controller takes long to recover",
            trace_of("auto", |step, s, r| {
                s.waits.add_us(Wait::Pacer, WAIT_US);
                if step < 5 {
                    r.cpu.delay_us += STEP_US / 2;
                    r.cpu.run_us += STEP_US * 3 / 10;
                    r.wait_us -= STEP_US * 7 / 10;
                }
            }),
            Limit::ReceiverCpu,
        ),
        (
            "the socket overflows",
            trace_of("auto", |_, s, r| {
                s.waits.add_us(Wait::Pacer, WAIT_US);
                send(s, STEP_PACKETS, 10);
                s.socket_drops += 1;
                r.socket_drops += 1;
                r.buffer_bytes = 40_000;
            }),
            Limit::ReceiverBuffer,
        ),
    ]);
}

#[test]
fn a_path_that_carried_more_while_an_end_limited_has_become_worse() {
    let trace = trace_of("auto", |step, s, _| {
        (s.rtt_us, s.rtt_low_us) = (20_000, 20_000);
        if step < 9 {
            s.cpu.run_us += STEP_US * 4 / 10;
            s.cpu.delay_us += STEP_US * 6 / 10;
            send(s, 1000, 0);
        } else {
            s.waits.add_us(Wait::Pacer, WAIT_US);
            (s.rtt_us, s.rtt_low_us) = (24_000, 24_000);
            send(s, 200, 0);
        }
    });
    let why = explain(&trace);
    assert_eq!(why.limit, Some(Limit::RouteChange), "{why:#?}");
    assert_eq!(why.certainty, Certainty::Clear, "{}", why.sentence);
}

#[test]
fn a_receiver_that_mostly_rests_does_not_limit() {
    assert_named(&[(
        "it waits for a CPU before each of few packets, and the path loses some",
        trace_of("cubic", |step, s, r| {
            s.waits.add_us(Wait::Window, WAIT_US);
            send(s, STEP_PACKETS, [2, 0, 1, 3, 1, 1, 2, 0, 1, 2][step as usize % 10]);
            r.cpu.run_us += STEP_US / 50;
            r.cpu.delay_us += STEP_US * 45 / 100;
            r.wait_us -= STEP_US * 45 / 100;
        }),
        Limit::RandomLoss,
    )]);
}

/// rsync over a queue that overflows at first, and stands no longer than the kernel's smoothing hides.
#[test]
fn a_queue_that_overflows_under_tcp_is_no_policer() {
    let overflowing = |queue_us: u64| {
        let mut trace = trace_of("cubic", move |step, s, _| {
            s.waits.add_us(Wait::Window, WAIT_US);
            s.streams.open = 1;
            let overflows = step % 10 == 2;
            (s.rtt_us, s.rtt_low_us) = (20_000, if overflows { 20_000 + queue_us } else { 20_000 });
            send(s, 3 * STEP_PACKETS, if overflows { STEP_PACKETS } else { 0 });
        });
        trace.head.transport = "tcp".to_owned();
        trace
    };
    assert_named(&[
        ("it was full where packets were lost", overflowing(30_000), Limit::NarrowPath),
        ("there was none", overflowing(0), Limit::Policer),
    ]);
}

/// A path that shuffles its packets: the least round trips vary, and a few packets are sent again for it.
fn shuffled(queue_us: u64) -> Trace {
    shuffled_at(queue_us, |_| STEP_PACKETS)
}

/// The same at the given packets per step.
fn shuffled_at(queue_us: u64, packets: impl Fn(u64) -> u64) -> Trace {
    trace_of("auto", move |step, s, r| {
        s.waits.add_us(Wait::Pacer, WAIT_US);
        let packets = packets(step);
        send(s, packets, 0);
        s.packets_late += packets / 50;
        r.packets += packets;
        r.reordered += packets * 2 / 5;
        r.behind_max_us = 20_000;
        s.rtt_low_us = 21_000 + 1_000 * (step % 5) + queue_us;
    })
}

#[test]
fn shuffled_packets_are_no_queue_and_are_named_with_their_cost() {
    let trace = shuffled(0);
    assert_named(&[
        ("shuffled", shuffled(0), Limit::Reordering),
        ("and a queue", shuffled(40_000), Limit::NarrowPath),
    ]);
    let sentence = explain(&trace).sentence;
    assert!(sentence.contains("40%") && sentence.contains("20.0 ms behind"), "{sentence}");
    assert!(sentence.contains("were sent again for nothing"), "{sentence}");
    // What it costs: a second of three in which a tenth more passed.
    let faster = |step| if step < 10 { 11 * STEP_PACKETS } else { 10 * STEP_PACKETS };
    let sentence = explain(&shuffled_at(0, faster)).sentence;
    assert!(sentence.contains("the copy had 103 Mbit/s of the 110 Mbit/s"), "{sentence}");
}

#[test]
fn what_limited_for_a_third_as_long_is_in_the_same_sentence() {
    for (reading, said) in [(12, true), (3, false)] {
        let why = explain(&trace_of("auto", |step, s, _| {
            if step < reading {
                s.waits.add_us(Wait::Source, WAIT_US);
                work(&mut s.reader, 90, 0);
            } else {
                s.waits.add_us(Wait::Pacer, WAIT_US);
                s.rtt_us = 25_000;
            }
        }));
        assert_eq!(why.limit, Some(Limit::NarrowPath), "{why:#?}");
        assert_eq!(why.sentence.contains("source (its disk"), said, "{reading}: {}", why.sentence);
    }
}

/// A slow stretch of a faster copy: no figure is below what the copy had on the whole.
#[test]
fn no_figure_is_refuted_by_the_copy_itself() {
    let why = explain(&trace_of("auto", |step, s, _| {
        if step < 8 {
            s.waits.add_us(Wait::Source, WAIT_US);
            work(&mut s.reader, 90, 0);
            send(s, 20 * STEP_PACKETS, 0);
        } else {
            s.waits.add_us(Wait::Window, WAIT_US);
            (s.rtt_us, s.rtt_low_us) = (45_000, 45_000);
            s.packets_sent += 1;
            s.bytes_sent += PACKET;
        }
    }));
    let named = why.sentence.split(" carries ").nth(1).is_none();
    assert!(named && !why.sentence.contains("0.00"), "{}", why.sentence);
    assert!(why.predicted_bps.is_none_or(|bps| bps >= why.goodput_bps), "{why:#?}");
}

/// A path of 90 Mbit/s of which 30 are left after a second, behind a queue.
fn less_is_left(queue_ms: impl Fn(u64) -> u64) -> Trace {
    less_is_left_of(queue_ms, |_| 300)
}

/// The same with as many packets in each step as are left.
fn less_is_left_of(queue_ms: impl Fn(u64) -> u64, left: impl Fn(u64) -> u64) -> Trace {
    trace_of("auto", move |step, s, _| {
        s.waits.add_us(Wait::Pacer, WAIT_US);
        let (packets, queue_us) = if step < 10 { (900, 1_000) } else { (left(step), 1_000 * queue_ms(step)) };
        send(s, packets, 0);
        (s.rtt_us, s.rtt_low_us, s.forward_low_us) = (20_000 + queue_us, 20_000 + queue_us, queue_us);
    })
}

#[test]
fn others_that_come_during_a_copy_are_no_change_of_the_path() {
    let dips = |step| step == 22;
    let steady = explain(&less_is_left(|step| if dips(step) { 2 } else { 30 }));
    assert_eq!(steady.limit, Some(Limit::RouteChange), "{steady:#?}");
    let moving = |step: u64| [25, 10, 42, 12, 38][step as usize % 5];
    let others = explain(&less_is_left(|step| if dips(step) { 2 } else { moving(step) }));
    assert_eq!(others.limit, Some(Limit::CompetingTraffic), "{others:#?}");
    assert!(others.sentence.contains("as one of about 3 equal flows"), "{}", others.sentence);
    assert!(others.sentence.contains("it left 30.0 Mbit/s"), "{}", others.sentence);
    // Others whose queue hardly moves, and of which this copy has a part that varies until the end.
    let part = |step: u64| [350, 240, 310, 260, 380][step as usize % 5];
    let others = explain(&less_is_left_of(|step| if dips(step) { 2 } else { 30 }, part));
    assert_eq!(others.limit, Some(Limit::CompetingTraffic), "{others:#?}");
}
