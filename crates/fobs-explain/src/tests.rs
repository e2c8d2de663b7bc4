//! Records made by hand, one for each limit, and files that are not traces.

mod clear;
mod figures;
mod named;

use super::*;
use fobs_model::cause::{LossVerdict, LossWindow, Remedy, RemedyAction, RemedyResult};
use fobs_proto::session::{Wait, WaitTimes};
use std::time::Duration;

pub(super) const STEP_US: u64 = 100_000;
const STEPS: u64 = 30;
/// What the sending thread waits in a step: most of it.
const WAIT_US: u64 = STEP_US * 95 / 100;
/// Packets of a step where the scene sends none: 10 Mbit/s.
const STEP_PACKETS: u64 = 100;
pub(super) const PACKET: u64 = 1250;

/// A transfer of three seconds: `scene` adds each step's figures (from step 0) to the counters of both ends.
pub(super) fn trace_of(cc: &str, scene: impl Fn(u64, &mut SenderSample, &mut ReceiverSample)) -> Trace {
    let mut journal = Journal::new();
    let mut sender = SenderSample { rtt_us: 20_000, rtt_min_us: 20_000, ..SenderSample::default() };
    let mut receiver = ReceiverSample { buffer_bytes: 16 << 20, ..ReceiverSample::default() };
    let mut sample = |at_us, sender: &SenderSample, receiver: &ReceiverSample| {
        journal.push(At { at_us, what: Measured::Sender(sender.clone()) });
        journal.push(At { at_us, what: Measured::Receiver(receiver.clone()) });
    };
    sample(0, &sender, &receiver);
    for step in 0..STEPS {
        let sent_before = sender.packets_sent;
        sender.time_us += STEP_US;
        receiver.time_us += STEP_US;
        receiver.wait_us += STEP_US * 9 / 10;
        scene(step, &mut sender, &mut receiver);
        if sender.packets_sent == sent_before {
            send(&mut sender, STEP_PACKETS, 0);
        }
        sample(sender.time_us, &sender, &receiver);
    }
    let head = Head { cc: cc.to_owned(), ..Head::default() };
    let end = End::Done {
        bytes: sender.bytes_acked,
        seconds: 3.0,
        packet_size: PACKET as u16,
        deadline_margin_s: None,
    };
    Trace { head, journal, end }
}

pub(super) fn send(sender: &mut SenderSample, packets: u64, lost: u64) {
    sender.packets_sent += packets;
    sender.packets_lost += lost;
    sender.bytes_sent += packets * PACKET;
    sender.bytes_acked += (packets - lost) * PACKET;
}

/// A thread that worked for a whole step: blocked, and ready without a CPU, for these percentages of it.
fn work(work: &mut Work, blocked: u64, delayed: u64) {
    let run_us = STEP_US / 100 * (100 - blocked - delayed);
    work.active_us += STEP_US;
    work.cpu.run_us += run_us;
    work.cpu.delay_us += STEP_US / 100 * delayed;
    work.user_us += run_us;
}

#[test]
fn spare_rate_is_at_most_what_the_path_carried() {
    let trace = trace_of("auto", |step, s, _| {
        s.waits.add_us(Wait::Source, STEP_US * 95 / 100);
        work(&mut s.reader, 95, 0);
        send(s, if step == 3 { 5 * STEP_PACKETS } else { STEP_PACKETS }, 0);
    });
    let why = explain(&trace);
    assert!(why.sentence.contains("at least 38.7 Mbit/s to spare"), "{}", why.sentence);
    // 5% of the time would carry 20 times as much: the path was seen to carry 50 Mbit/s, and no more is
    // promised.
    assert!(why.predicted_bps.is_some_and(|bps| (bps - 50e6).abs() < 1.0), "{:?}", why.predicted_bps);
}

/// What is read in one go after a wait for a CPU came in the time of that wait, too.
#[test]
fn what_piled_up_unseen_is_no_rate_of_the_path() {
    let trace = trace_of("auto", |step, s, _| {
        s.waits.add_us(Wait::Source, STEP_US / 10);
        s.cpu.run_us += STEP_US / 20;
        let late = step % 2 == 0;
        s.cpu.delay_us += if late { STEP_US * 85 / 100 } else { 0 };
        let arrived = s.bytes_acked;
        send(s, 5 * STEP_PACKETS, 0);
        s.bytes_acked = if late { arrived } else { s.bytes_sent };
    });
    let (why, carries) = (explain(&trace), 50e6);
    let spare = why.predicted_bps.unwrap_or(0.0).max(why.goodput_bps);
    assert!(!why.sentence.contains("to spare") && spare > 0.9 * carries, "{}", why.sentence);
}

#[test]
fn a_transfer_without_samples_has_no_limit() {
    for end in [
        End::Failed { message: "gone".to_owned() },
        End::Done { bytes: 0, seconds: 0.0, packet_size: 1172, deadline_margin_s: None },
    ] {
        let why = explain(&Trace { head: Head::default(), journal: Journal::new(), end });
        assert_eq!((why.limit, why.goodput_bps), (None, 0.0));
        assert!(why.text().starts_with("Nothing was measured"));
    }
}

/// A peer may send any figures: what is shown stays finite, and nothing panics.
#[test]
fn absurd_samples_give_finite_figures() {
    let absurd = |value: u64| {
        let mut s =
            SenderSample { time_us: value, bytes_acked: value, bytes_sent: value, ..Default::default() };
        for wait in [Wait::Pacer, Wait::Window, Wait::Source] {
            s.waits.add_us(wait, value);
        }
        s.packets_lost = value;
        s.reader = Work { active_us: value, user_us: value, system_us: value, ..Default::default() };
        s
    };
    let mut journal = Journal::new();
    for (place, value) in [0, u64::MAX, 1, u64::MAX / 2, 0, 100_000].into_iter().enumerate() {
        journal.push(At { at_us: place as u64, what: Measured::Sender(absurd(value)) });
        let receiver =
            ReceiverSample { time_us: value, wait_us: value, socket_drops: value, ..Default::default() };
        journal.push(At { at_us: u64::MAX - place as u64, what: Measured::Receiver(receiver) });
    }
    let why = explain(&Trace {
        head: Head::default(),
        journal,
        end: End::Done {
            bytes: 1,
            seconds: f64::MIN_POSITIVE,
            packet_size: 1,
            deadline_margin_s: Some(-2.5),
        },
    });
    assert!(
        why.budget.iter().all(|spent| spent.seconds.is_finite() && (0.0..=1.0).contains(&spent.share)),
        "{why:#?}"
    );
}

fn written(trace: &Trace) -> String {
    let mut file = Vec::new();
    trace.write(&mut file).expect("a vector takes everything");
    String::from_utf8(file).expect("JSON is UTF-8")
}

#[test]
fn syncing_is_a_stage_apart_from_writing() {
    let syncing = |wait| {
        trace_of("auto", move |step, s, r| {
            s.waits.add_us(wait, 80_000);
            r.writer.active_us += 90_000;
            r.writer.syncing_us += if step < 20 { 90_000 } else { 0 };
        })
    };
    for trace in [syncing(Wait::Storage), syncing(Wait::Answers)] {
        let why = explain(&trace);
        assert_eq!(why.limit, Some(Limit::Destination), "{why:?}");
        let part =
            |stage| why.budget.iter().find(|spent| spent.stage == stage).map_or(0.0, |spent| spent.share);
        assert!((0.45..0.55).contains(&part(Stage::Syncing)), "{why:?}");
        assert!(why.fix.contains("--fsync"), "{why:?}");
        assert!(why.text().contains("syncing"), "{}", why.text());
    }
}

fn with_losses() -> Trace {
    let mut trace = trace_of("auto", |_, s, _| {
        s.waits.add_us(Wait::Pacer, 90_000);
        send(s, STEP_PACKETS, 3);
    });
    let window = LossWindow {
        seconds: 1.5,
        packets: 1000,
        lost: 30,
        network_lost: 30,
        receiver_lost: 0,
        verdict: LossVerdict::Network,
        p_receiver: Some(0.01),
        p_mixed: None,
        host_drops: Some(0),
        learned_from: 0,
        lag: None,
        runs: vec![(33, 1); 30],
    };
    trace.journal.push(At { at_us: 1_500_000, what: Measured::Loss(window) });
    let reason = "ask root".to_owned();
    let remedy =
        Remedy { seconds: 1.6, action: RemedyAction::AnotherLane, result: RemedyResult::Refused { reason } };
    trace.journal.push(At { at_us: 1_600_000, what: Measured::Remedy(remedy) });
    trace
}

#[test]
fn a_trace_gives_the_text_of_its_copy() {
    let trace = with_losses();
    let file = written(&trace);
    let again = Trace::read(file.as_bytes()).expect("just written");
    assert_eq!(again, trace);
    assert_eq!(explain(&again).text(), explain(&trace).text());
    let text = explain(&again).text();
    assert!(text.contains("Lost packets: 30 in the network with probability 99%"), "{text}");
    let done = "Remedies for losses at the receiver:\n  at 1.6 s: a thread that only empties the socket: not \
                possible: ask root\n";
    assert!(text.contains(done), "{text}");
    assert!(file.lines().all(|line| line.starts_with('{') && line.ends_with('}')));
    // Members and records of a newer program are skipped.
    let mut lines: Vec<&str> = file.lines().collect();
    lines.insert(3, r#"{"record":"weather","at_us":7,"sunny":true}"#);
    let newer = lines.join("\n").replace(r#""at_us":0,"#, r#""at_us":0,"more":[1],"#) + "\n";
    assert_eq!(Trace::read(newer.as_bytes()).expect("readable"), trace);
}

#[test]
fn the_evidence_names_the_model_that_judged() {
    let shipped = with_losses();
    assert!(explain(&shipped).text().contains("judged by the shipped model"), "{}", explain(&shipped).text());
    let file = written(&shipped).replace("\"learned_from\":0", "\"learned_from\":40");
    let own = explain(&Trace::read(file.as_bytes()).expect("readable")).text();
    assert!(own.contains("by a model that learned from 40 windows of this peer"), "{own}");
    // Traces of older programs do not have the member.
    let older = written(&shipped).replace("\"learned_from\":0,", "");
    assert_eq!(Trace::read(older.as_bytes()).expect("readable"), shipped);
}

#[test]
fn host_drops_count_up_to_the_packets_lost() {
    for (drops, said) in [(0, None), (12, Some("up to 12 of these")), (5000, Some("up to 30 of these"))] {
        let mut trace = with_losses();
        let at_us = trace.journal.receiver().last().expect("samples").at_us + 1;
        let dropping =
            ReceiverSample { interface_drops: drops, backlog_drops: drops / 2, ..Default::default() };
        trace.journal.push(At { at_us, what: Measured::Receiver(dropping) });
        let text = explain(&trace).text();
        match said {
            Some(said) => assert!(text.contains(said), "{text}"),
            None => assert!(!text.contains("network card"), "{text}"),
        }
    }
}

#[test]
fn a_file_that_is_no_trace_is_refused_in_a_sentence() {
    let file = written(&with_losses());
    let cut = &file[..file.trim_end().rfind('\n').expect("many lines") + 1];
    let table = [
        ("empty", String::new(), "its first line is not that of a trace"),
        ("garbage", "\u{0}\u{1}garbage".repeat(100_000), "longer than 65536 bytes"),
        ("prose", "Dear reader,\n".to_owned(), "its first line is not that of a trace"),
        ("other JSON", "{\"record\":\"end\"}\n".to_owned(), "its first line is not that of a trace"),
        ("a newer version", file.replacen("\"v\":1", "\"v\":2", 1), "it has version 2 of the format"),
        ("without its end", cut.to_owned(), "its end is missing"),
        ("cut in a line", file[..file.len() - 5].to_owned(), "its end is missing"),
        ("a broken line", file.replacen("\"at_us\":100000", "\"at_us\":\"soon\"", 1), "is broken"),
        (
            "endless",
            file.lines().next().unwrap_or_default().to_owned()
                + "\n"
                + &"{\"record\":\"x\"}\n".repeat(10_000),
            "there are more than a trace has",
        ),
    ];
    for (case, text, expected) in table {
        let error = Trace::read(text.as_bytes()).expect_err(case).to_string();
        assert!(error.contains(expected), "{case}: {error}");
        assert!(!error.contains('\n'), "{case}: {error}");
    }
}

#[test]
fn a_trace_edited_by_hand_is_explained_without_absurd_figures() {
    let file = written(&with_losses());
    let edits = [
        ("\"time_us\":2000000", "\"time_us\":18446744073709551615"),
        ("\"time_us\":2000000", "\"time_us\":1"),
        ("\"packets_sent\":", "\"packets_sent\":9"),
        ("\"rtt_us\":20000", "\"rtt_us\":18446744073709551615"),
        ("\"bytes_acked\":", "\"bytes_acked\":18446744073709"),
    ];
    for (from, to) in edits {
        let edited = file.replace(from, to);
        assert_ne!(edited, file, "{from}");
        // Refused, or explained: what is said adds up either way.
        let Ok(trace) = Trace::read(edited.as_bytes()) else { continue };
        let why = explain(&trace);
        assert!((0.0..=1.0).contains(&why.probability) && (0.0..=1.0).contains(&why.share), "{to}: {why:?}");
        assert!(why.predicted_bps.is_none_or(f64::is_finite) && why.goodput_bps.is_finite(), "{to}: {why:?}");
        let shares: f64 = why.budget.iter().map(|spent| spent.share).sum();
        assert!(shares <= 1.0 + 1e-9, "{to}: {shares}");
    }
}

#[test]
fn a_trace_of_any_length_is_bounded() {
    let mut waits = SenderWaits::default();
    Wait::ALL.iter().copied().for_each(|wait| waits.add_us(wait, u64::MAX));
    let full = SenderSample {
        time_us: u64::MAX,
        waits,
        state: "0123456789abcdef".to_owned(),
        bytes_acked: u64::MAX,
        ..SenderSample::default()
    };
    let mut trace = with_losses();
    let window = trace.journal.losses()[0].what.clone();
    let window = LossWindow { runs: vec![(u32::MAX, u32::MAX); fobs_model::cause::RUNS_MAX], ..window };
    for place in 0..5_000 {
        let at_us = place * STEP_US;
        trace.journal.push(At { at_us, what: Measured::Sender(full.clone()) });
        trace.journal.push(At { at_us, what: Measured::Receiver(ReceiverSample::default()) });
        trace.journal.push(At { at_us, what: Measured::Loss(window.clone()) });
    }
    let file = written(&trace);
    assert!(file.len() <= TRACE_BYTES_MAX, "{} bytes", file.len());
    assert_eq!(
        Trace::read(file.as_bytes()).expect("within its own bounds").journal.losses().len(),
        trace.journal.losses().len()
    );
}

#[test]
fn waits_keep_their_json() {
    let mut waits = SenderWaits::default();
    for (place, &wait) in (1..).zip(Wait::ALL) {
        waits.add_us(wait, place);
    }
    let json = concat!(
        r#"{"cap_us":1,"drain_us":2,"deadline_us":3,"pacer_us":4,"window_us":5,"#,
        r#""source_us":6,"storage_us":7,"answers_us":8,"socket_us":9,"streams_us":10}"#
    );
    assert_eq!(serde_json::to_string(&waits).expect("numbers"), json);
    let read = |text: &str| serde_json::from_str::<SenderWaits>(text);
    assert_eq!(read(json).expect("its own"), waits);
    let newer = json.replace(r#","window_us""#, r#","weather":{"sunny":[true]},"window_us""#);
    assert_eq!(read(&newer).expect("unknown members are skipped"), waits);
    assert_eq!(read("{}").expect("missing members are 0"), SenderWaits::default());
    for bad in ["[]", "7", r#"{"cap_us":-1}"#, r#"{"cap_us":"long"}"#] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

#[test]
fn waits_are_whole_microseconds() {
    let mut times = WaitTimes::default();
    times[Wait::Cap] = Duration::from_nanos(1_999);
    let waits = SenderWaits::from(times);
    let again: SenderWaits = serde_json::from_value(serde_json::json!(waits)).expect("its own");
    assert_eq!((waits.us(Wait::Cap), again), (1, waits));
}
