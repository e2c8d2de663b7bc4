//! Answers that would be clear and wrong: what looks like a limit and is another.

use super::*;

/// A first flight that overflowed the queue once, whose packets came after all; then the link was full.
#[test]
fn a_bunch_beside_late_packets_is_no_random_loss() {
    let why = explain(&trace_of("auto", |step, s, _| {
        s.waits.add_us(Wait::Pacer, WAIT_US);
        let lost = if step == 5 { 230 } else { 0 };
        send(s, 1600, lost);
        s.packets_late += lost;
        s.rtt_low_us = if step % 2 == 0 { 24_000 } else { 20_100 };
    }));
    assert_ne!(why.limit, Some(Limit::RandomLoss), "{why:#?}");
    assert!(!why.sentence.contains("at any rate"), "{}", why.sentence);
    // A receiver that stalls has as many packets late, and the path loses others as by chance all the while.
    let why = explain(&trace_of("cubic", |step, s, _| {
        s.waits.add_us(Wait::Window, WAIT_US);
        send(s, STEP_PACKETS, [2, 0, 1, 3, 1, 1, 2, 0, 1, 2][step as usize % 10]);
        s.packets_late += if step % 10 == 4 { 37 } else { 0 };
    }));
    assert_eq!(why.limit, Some(Limit::RandomLoss), "{why:#?}");
}

/// TCP at one rate all the time, while its window would let twice as much pass: the sender's own network
/// card, or a queue that the smoothed round trip hides.
#[test]
fn a_steady_rate_below_the_window_is_a_bottleneck() {
    let of = |window_bytes, packets: fn(u64) -> u64| {
        let mut trace = trace_of("rsync", move |step, s, _| {
            s.waits.add_us(Wait::Window, WAIT_US);
            s.streams.open = 1;
            s.window_bytes = window_bytes;
            send(s, packets(step), 0);
        });
        trace.head.transport = "tcp".to_owned();
        explain(&trace).limit
    };
    assert_eq!(of(600_000, |_| 900), Some(Limit::NarrowPath));
    assert_eq!(of(225_000, |_| 900), Some(Limit::StartUp), "the window is full");
    assert_eq!(of(600_000, |step| 500 + 400 * (step % 3)), Some(Limit::StartUp), "it has no rate of its own");
}

#[test]
fn an_answer_beside_another_as_likely_is_not_clear() {
    let trace = trace_of("auto", |_, s, _| s.waits.add_us(Wait::Pacer, WAIT_US));
    let found = crate::causes::Causes::of(&trace);
    let cause = |limit, share, probability| crate::Cause { limit, share, probability };
    let causes = vec![
        cause(Limit::ReturnPath, 0.8, 0.42),
        cause(Limit::SenderCpu, 0.1, 0.1),
        cause(Limit::NarrowPath, 0.05, 0.4),
    ];
    let found = crate::causes::Causes { causes, ..found };
    assert_eq!(found.certainty(), Certainty::Unclear, "the third is as likely");
    assert_eq!(found.next().map(|next| next.limit), Some(Limit::NarrowPath));
}

/// rsync whose slow start overflowed the queue once; then the link was full without a loss.
#[test]
fn losses_of_the_ramp_up_are_judged_by_its_queue() {
    let mut trace = trace_of("rsync", |step, s, _| {
        s.waits.add_us(Wait::Window, WAIT_US);
        s.streams.open = 1;
        s.window_bytes = 700_000;
        let (lost, rtt_us) = if step == 1 { (300, 48_000) } else { (0, 20_000) };
        send(s, 900, lost);
        (s.rtt_us, s.rtt_low_us, s.rtt_high_us) = (rtt_us, rtt_us, rtt_us);
    });
    trace.head.transport = "tcp".to_owned();
    let why = explain(&trace);
    assert_eq!(why.limit, Some(Limit::NarrowPath), "{why:#?}");
    assert!(!why.causes.iter().any(|cause| cause.limit == Limit::Policer), "{:?}", why.causes);
}

/// A sender that waits for a CPU for half of the time, and keeps a queue standing at the path's rate.
#[test]
fn a_starved_sender_does_not_limit_where_the_path_is_full() {
    let of = |sent: fn(u64) -> u64| {
        explain(&trace_of("auto", |step, s, _| {
            let starved = step % 2 == 0;
            s.waits.add_us(Wait::Pacer, STEP_US * if starved { 30 } else { 90 } / 100);
            s.cpu.run_us += STEP_US / 10;
            s.cpu.delay_us += if starved { STEP_US * 60 / 100 } else { 0 };
            s.pacing_bps = 200_000_000;
            send(s, sent(step), 0);
            (s.rtt_us, s.rtt_low_us, s.forward_low_us) = (30_000, 30_000, 10_000);
        }))
    };
    let full = of(|_| 1000);
    assert_eq!(full.limit, Some(Limit::NarrowPath), "{full:#?}");
    assert!(full.share > 0.9 && full.sentence.contains("100 Mbit/s for this copy"), "{}", full.sentence);
    let half = of(|step| if step % 2 == 0 { 100 } else { 1000 });
    let cpu = half.causes.iter().find(|cause| cause.limit == Limit::SenderCpu).expect("it limits");
    assert!(cpu.share > 0.3, "{half:#?}");
}

/// Packets arrive at one rate behind a queue, and their acks come in bunches; and both vary.
#[test]
fn acks_in_bunches_are_no_other_traffic() {
    let of = |sent: fn(u64) -> u64, late: fn(u64) -> u64| {
        let why = explain(&trace_of("auto", |step, s, r| {
            s.waits.add_us(Wait::Pacer, WAIT_US);
            send(s, sent(step), 0);
            s.bytes_acked = s.bytes_sent - late(step) * PACKET;
            r.packets += sent(step);
            (s.rtt_us, s.rtt_low_us, s.forward_low_us) = (30_000, 30_000, 10_000);
        }));
        why.limit.expect("samples")
    };
    let bunches = |step: u64| [800, 0, 500, 0][step as usize % 4];
    assert_eq!(of(|_| 1000, bunches), Limit::NarrowPath);
    let varies = |step: u64| [200, 900, 400, 700, 1200][step as usize % 5];
    assert_eq!(of(varies, |_| 0), Limit::CompetingTraffic);
}
