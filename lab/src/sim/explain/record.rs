//! A cell at work, recorded as a transfer over real sockets is (docs/explain.md).

use std::fmt::Write as _;
use std::time::Duration;

use fobs_proto::recovery::Spread;
use fobs_proto::session::Wait;
use fobs_sim::flow::Outcome;
use fobs_sim::flow::fobs::{ReceiverMeasures, SenderMeasures, ThreadTime, Worked};
use fobs_sim::gauntlet::Staged;
use fobs_sim::report::span;
use fobs_sim::scene::Played;
use fobs_sim::time::{MS, Nanos, seconds};
use serde_json::{Value, json};

use super::cell::Cell;

/// Time between two samples, as the engine takes them.
const SAMPLE: Nanos = 100 * MS;
/// Samples of an end in a trace; of more, every second one is dropped, as the engine does.
const SAMPLES_MAX: usize = 2048;

/// What came of a cell.
pub struct Recorded {
    /// Seconds from the first packet to the last useful byte; `None` if it did not end.
    pub seconds: Option<f64>,
    /// Its trace.
    pub trace: String,
}

/// Plays a cell without recording it; its seconds.
pub fn play(cell: &Cell) -> Result<Option<f64>, String> {
    let Staged { scene, lasts, .. } = cell.scene();
    let mut played = scene.start();
    run(&mut played, lasts, cell)?;
    Ok(ended(&mut played))
}

fn run(played: &mut Played, until: Nanos, cell: &Cell) -> Result<(), String> {
    let broken = |violation| format!("seed {}: {violation}", cell.path.seed);
    played.world.run_until(until).map(|_| ()).map_err(broken)
}

fn ended(played: &mut Played) -> Option<f64> {
    let view = played.flow(0);
    let now = played.world.now();
    (view.outcome == Outcome::Complete).then(|| seconds(span(&view.figures, view.outcome, now)))
}

/// Plays a cell and records it.
pub fn record(cell: &Cell) -> Result<Recorded, String> {
    let Staged { scene, began, lasts, .. } = cell.scene();
    let mut played = scene.start();
    let mut trace = line(&json!({
        "record": "trace", "v": 1, "control": "sim", "transport": "udp", "cipher": "", "cc": cell.cc.name(),
    }));
    run(&mut played, began, cell)?;
    let (mut at, mut every, mut samples) = (began, SAMPLE, Vec::new());
    while at < lasts && played.flow(0).outcome.is_running() {
        at += every;
        run(&mut played, at, cell)?;
        let since = played.world.now() - began;
        if let Some((sender, receiver)) = played.world.measures(0) {
            samples.push(
                line(&sent(&sender, since, cell.cap().unwrap_or(0))) + &line(&received(&receiver, since)),
            );
        }
        if samples.len() == SAMPLES_MAX {
            // The newest one stays.
            samples = samples.into_iter().skip(1).step_by(2).collect();
            every *= 2;
        }
    }
    trace += &samples.concat();
    let took = ended(&mut played);
    trace += &line(&match took {
        Some(took) => json!({
            "record": "end", "outcome": "done", "bytes": cell.path.bytes, "seconds": took, "packet_size": 1472,
        }),
        None => json!({ "record": "end", "outcome": "failed", "message": "it did not end" }),
    });
    Ok(Recorded { seconds: took, trace })
}

fn line(value: &Value) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{value}");
    text
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn cpu(thread: &ThreadTime) -> Value {
    json!({ "run_us": thread.ran / 1000, "delay_us": thread.off / 1000 })
}

fn work(worked: &Worked) -> Value {
    let (device, computing) = (worked.device / 1000, worked.computing / 1000);
    json!({
        "active_us": device + computing,
        "cpu": { "run_us": computing, "delay_us": 0 },
        "user_us": computing,
    })
}

fn sent(it: &SenderMeasures, now: Nanos, cap_bps: u64) -> Value {
    let waits: serde_json::Map<String, Value> =
        Wait::ALL.iter().map(|wait| (format!("{}_us", wait.name()), us(it.waits[*wait]).into())).collect();
    let (rtt, forward): (Spread, Spread) = (it.delays.0.unwrap_or_default(), it.delays.1.unwrap_or_default());
    json!({
        "record": "sender", "at_us": now / 1000, "time_us": now / 1000, "waits": waits,
        "cpu": cpu(&it.thread), "reader": work(&it.reader), "stood_us": it.thread.stood / 1000,
        "packets_sent": it.stats.packets_sent,
        "packets_lost": it.stats.packets_lost.saturating_sub(it.stats.packets_late),
        "packets_marked": it.stats.packets_marked, "packets_late": it.stats.packets_late,
        "socket_drops": it.stats.socket_drops, "acks": it.stats.acks,
        "bytes_sent": it.stats.bytes_sent, "bytes_acked": it.stats.bytes_acked,
        "rtt_us": it.rtt.0.map_or(0, us), "rtt_min_us": it.rtt.1.map_or(0, us),
        "rtt_low_us": rtt.low_us, "rtt_high_us": rtt.high_us,
        "forward_low_us": forward.low_us, "forward_high_us": forward.high_us,
        "pacing_bps": it.pacing.map_or(0, |rate| rate.saturating_mul(8)), "cap_bps": cap_bps,
        "window_bytes": it.window, "state": it.state,
    })
}

fn received(it: &ReceiverMeasures, now: Nanos) -> Value {
    let waited = now.saturating_sub(it.thread.ran + it.thread.off + it.thread.stood);
    json!({
        "record": "receiver", "at_us": now / 1000, "time_us": now / 1000, "wait_us": waited / 1000,
        "cpu": cpu(&it.thread), "writer": work(&it.writer), "stood_us": it.thread.stood / 1000,
        "packets": it.stats.packets, "bytes": it.stats.bytes, "socket_drops": it.socket_drops,
        "buffer_bytes": it.buffer, "backlog": it.backlog, "acks": it.stats.acks,
        "reordered": it.stats.reordered, "behind_max_us": us(it.stats.behind_max),
    })
}
