//! qcp: one file over QUIC, with a private sshd for its control channel.
//!
//! qcp takes the path's rates and round trip (`--tx`, `--rx`, `--rtt`) and makes its flow-control windows of
//! them; the other side has no configuration and follows the client.

use std::ops::RangeInclusive;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::sshd::{self, PEER};
use super::{
    Call, Figures, History, Launch, Options, Outputs, Program, Programs, Protocol, Stop, Stores, Task, Tool,
    first_line,
};

const HOW: &str = "cargo install --locked qcp (scripts/install-needs.sh lab-peers)";
/// First of the other side's UDP ports, and how many.
const PORT: u16 = 46_000;
const PORTS: u16 = 64;
/// Octets of IPv4 and UDP headers: qcp's packet sizes are without them.
const HEADERS: u32 = 28;
/// What qcp itself calls the least and the most of a packet: QUIC's minimum, and what fits its 16 bits.
const PACKET: (u32, u32) = (1200, 65_507);
/// How far from the truth a plan may go about a path's rate.
const TIMES: RangeInclusive<f64> = 0.1..=100.0;
/// Lines of qcp's messages that a record keeps.
const MESSAGES_MAX: usize = 32;

/// Congestion control: what quinn has.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Congestion {
    /// Of the three, the one that suffers least from random loss.
    Bbr,
    /// qcp's default.
    Cubic,
    /// RFC 9002's.
    NewReno,
}

impl Congestion {
    fn word(self) -> &'static str {
        match self {
            Congestion::Bbr => "bbr",
            Congestion::Cubic => "cubic",
            Congestion::NewReno => "newreno",
        }
    }
}

/// Keys of a flow of qcp.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct QcpOptions {
    /// Which end calls the other.
    call: Call,
    /// `--congestion`.
    cc: Congestion,
    /// The path's rate that qcp gets as an argument, as a multiple of the true one in the data's direction:
    /// its flow-control window grows with it. Measured at 65 ms with `bbr`: 1 gives 65% of a clean 1 Gbit/s
    /// and 40% of 100 Mbit/s that lose 1%, 2 gives 62% and 64%.
    times: f64,
    /// Further arguments.
    args: Vec<String>,
}

impl Default for QcpOptions {
    fn default() -> Self {
        QcpOptions { call: Call::Push, cc: Congestion::Bbr, times: 1.0, args: Vec::new() }
    }
}

/// `qcp`.
pub struct Qcp;

impl Tool for Qcp {
    fn name(&self) -> &'static str {
        "qcp"
    }

    fn version(&self, programs: &Programs) -> Result<String, String> {
        let qcp = programs.find("qcp", HOW)?;
        let ssh = sshd::version(programs)?;
        let qcp = programs.ask(&[qcp.into_os_string(), "--version".into()])?;
        Ok(format!("{}; {ssh}", first_line(&qcp)))
    }

    fn check(&self, options: &Options) -> Result<(), String> {
        let options: QcpOptions = super::options(options)?;
        if !TIMES.contains(&options.times) {
            return Err(format!(
                "times is {}: {} to {} are possible",
                options.times,
                TIMES.start(),
                TIMES.end()
            ));
        }
        Ok(())
    }

    fn launch(&self, task: &Task) -> Result<Launch, String> {
        let options: QcpOptions = super::options(task.options)?;
        let ssh = sshd::prepare(task, options.call.client().other())?;
        let qcp = task.programs.find("qcp", HOW)?;
        let data = bytes_per_second(task.path.rate_bps * options.times);
        let back = bytes_per_second(task.path.return_rate_bps);
        let (tx, rx) = match options.call {
            Call::Push => (data, back),
            Call::Pull => (back, data),
        };
        let rtt_ms = task.path.rtt.as_secs_f64() * 1e3;
        let packet = task.path.mtu.saturating_sub(HEADERS).clamp(PACKET.0, PACKET.1).to_string();
        let first = task.port(PORT);
        let client = Program::new([&qcp])
            .args(["-S", "-F", "-S"])
            .arg(&ssh.config)
            .arg("--ssh-config")
            .arg(&ssh.config)
            .arg("--remote-qcp-binary")
            .arg(&qcp)
            .args(["--address-family", "inet", "--color", "never", "--statistics"])
            .args(["--remote-port".to_owned(), format!("{first}-{}", first + PORTS - 1)])
            .args(["--tx".to_owned(), tx.to_string(), "--rx".to_owned(), rx.to_string()])
            // Rounded up, in qcp's unit: less would make its windows smaller than the path.
            .args(["--rtt".to_owned(), (rtt_ms.ceil() as u16).max(1).to_string()])
            .args(["--initial-mtu", &packet, "--max-mtu", &packet, "--congestion", options.cc.word()])
            .args(&options.args)
            // The user's own configuration must not change the experiment.
            .env("HOME", &task.directory)
            .env("XDG_CONFIG_HOME", &task.directory);
        let (source, arrival) = (&task.source, task.arrival());
        let client = match options.call {
            Call::Push => client.arg(source).arg(format!("{PEER}:{}", arrival.display())),
            Call::Pull => client.arg(format!("{PEER}:{}", source.display())).arg(arrival),
        };
        Ok(Launch {
            servers: vec![ssh.server],
            side: options.call.client(),
            client,
            history: History::Fresh,
            stop: Stop::ByRunner,
            tcp: None,
            protocol: Protocol::Udp,
            stores: Stores::File,
        })
    }

    fn figures(&self, _: &Task, outputs: &Outputs) -> Result<Figures, String> {
        Ok(figures(&outputs.client.stderr))
    }
}

/// Bits per second in qcp's unit, which wants 150 at least.
fn bytes_per_second(bits: f64) -> u64 {
    ((bits / 8.0) as u64).max(150)
}

/// What qcp's closing messages mean: the data phase, from the first request to the other side's last answer.
fn figures(stderr: &str) -> Figures {
    let messages: Vec<&str> = stderr.lines().filter_map(message).collect();
    let find = |start: &str| messages.iter().find_map(|message| message.strip_prefix(start));
    let bytes = messages.iter().find_map(|message| {
        count(message.split_once(" total bytes sent for ")?.1.split_once(" bytes payload")?.0) //
    });
    let mut report = Map::new();
    if let Some((here, there)) = find("Total packets sent: ").and_then(|text| text.split_once(" by us; ")) {
        report.insert("packets_sent_by_client".to_owned(), json!(count(here)));
        report.insert(
            "packets_sent_by_server".to_owned(),
            json!(there.strip_suffix(" by remote").and_then(count)),
        );
    }
    report.insert("messages".to_owned(), json!(messages.iter().take(MESSAGES_MAX).collect::<Vec<_>>()));
    let goodput_bps = bytes.and_then(|bytes| Some(rate(find("Transferred ")?, bytes)? * 8.0));
    Figures {
        bytes,
        data_s: bytes.zip(goodput_bps).map(|(bytes, goodput)| bytes as f64 * 8.0 / goodput),
        goodput_bps,
        report: Value::Object(report),
        series: Vec::new(),
    }
}

/// What stands behind the time and the level of a line of the log.
fn message(line: &str) -> Option<&str> {
    [" INFO ", " WARN ", " ERROR "].iter().find_map(|level| Some(line.split_once(level)?.1.trim_end()))
}

/// `261,949,201`
fn count(text: &str) -> Option<u64> {
    text.replace(',', "").parse().ok()
}

/// Bytes per second of `256MB in 2.13s; average 120.2MB/s; peak ...`. Both figures are rounded for people:
/// the one with the smaller step counts.
fn rate(text: &str, bytes: u64) -> Option<f64> {
    let (_, text) = text.split_once(" in ")?;
    let (time, text) = text.split_once("; average ")?;
    let (average, _) = text.split_once(';')?;
    let by_time = seconds(time).map(|(seconds, step)| (bytes as f64 / seconds, step / seconds));
    let by_average = bytes_each_second(average).map(|(rate, step)| (rate, step / rate));
    let known =
        [by_time, by_average].into_iter().flatten().filter(|(rate, _)| rate.is_finite() && *rate > 0.0);
    known.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(rate, _)| rate)
}

/// Seconds of `750.4ms`, `2.13s`, `1:08.1` or `1:04:48`, and the step to which they were rounded.
fn seconds(text: &str) -> Option<(f64, f64)> {
    let units = [("ns", 1e-9, 0.1), ("µs", 1e-6, 0.1), ("ms", 1e-3, 0.1), ("s", 1.0, 0.01)];
    for (unit, scale, step) in units {
        if let Some(value) = text.strip_suffix(unit).and_then(|value| value.parse::<f64>().ok()) {
            return Some((value * scale, step * scale));
        }
    }
    let parts: Option<Vec<f64>> = text.split(':').map(|part| part.parse().ok()).collect();
    match parts?[..] {
        [minutes, seconds] => Some((minutes * 60.0 + seconds, 0.1)),
        [hours, minutes, seconds] => Some(((hours * 60.0 + minutes) * 60.0 + seconds, 1.0)),
        _ => None,
    }
}

/// Bytes per second of `120.2MB/s`, and the step to which they were rounded.
fn bytes_each_second(text: &str) -> Option<(f64, f64)> {
    let units = [("GB/s", 1e9, 0.01), ("MB/s", 1e6, 0.1), ("kB/s", 1e3, 0.1), ("B/s", 1.0, 0.1)];
    units.into_iter().find_map(|(unit, scale, step)| {
        let value: f64 = text.strip_suffix(unit)?.parse().ok()?;
        Some((value * scale, step * scale))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What version 0.9.1 printed for a push of 256 MB over a veth.
    const PUSH: &str = "\
2026-11-21 23:20:02L  INFO src: transferred 256MB in 750.3ms; average 341.2MB/s; peak 341.2MB/s

2026-11-21 23:20:02L  INFO Transferred 256MB in 750.4ms; average 341.1MB/s; peak 341.1MB/s

2026-11-21 23:20:02L  INFO Total packets sent: 180,496 by us; 5,471 by remote

2026-11-21 23:20:02L  INFO Path MTU 1452 (remote: 1452), round-trip time 284.4µs (remote: 354µs), final congestion window 233,662,000

2026-11-21 23:20:02L  INFO 180.5k datagrams sent, 5.5k received, 0 black holes detected

2026-11-21 23:20:02L  INFO 261,949,201 total bytes sent for 256,000,000 bytes payload  (2.32% overhead/loss)

";

    /// What it printed when there was no such file.
    const MISSING: &str = "\
2026-11-21 23:20:07L ERROR No such file or directory (os error 2)

2026-11-21 23:20:07L  INFO Total packets sent: 12 by us; 12 by remote
";

    #[test]
    fn the_closing_messages_are_read() {
        let figures = figures(PUSH);
        assert_eq!(figures.bytes, Some(256_000_000));
        assert!((figures.data_s.unwrap() - 0.7504).abs() < 1e-9, "{figures:?}");
        assert!((figures.goodput_bps.unwrap() - 256e6 * 8.0 / 0.7504).abs() < 1.0, "{figures:?}");
        assert_eq!(figures.report["packets_sent_by_client"], 180_496);
        assert_eq!(figures.report["packets_sent_by_server"], 5_471);
        assert_eq!(figures.report["messages"].as_array().unwrap().len(), 6);
    }

    #[test]
    fn without_a_transfer_there_are_messages_only() {
        let figures = figures(MISSING);
        assert_eq!((figures.bytes, figures.data_s, figures.goodput_bps), (None, None, None));
        assert_eq!(figures.report["messages"][0], "No such file or directory (os error 2)");
        assert_eq!(super::figures("").report["messages"], json!([]));
    }

    #[test]
    fn the_finer_of_two_rounded_figures_counts() {
        // 0.01 of 2.13 s is 0.5%, 0.1 of 120.2 MB/s is 0.08%; with 5.7 MB/s it is the other way round.
        assert_eq!(rate("256MB in 2.13s; average 120.2MB/s; peak 121MB/s", 256_000_000), Some(120.2e6));
        let slow = rate("64MB in 11.22s; average 5.7MB/s; peak 6MB/s", 64_000_000).unwrap();
        assert!((slow - 64e6 / 11.22).abs() < 1e-3, "{slow}");
        assert_eq!(rate("64MB in 1:08.1; average unknown; peak 6MB/s", 64_000_000), Some(64e6 / 68.1));
        for text in ["", "1B in 0ns; average unknown; peak 1B/s", "1B in x; average y;", "1B in 1s"] {
            assert_eq!(rate(text, 1), None, "{text}");
        }
        assert_eq!(seconds("1:04:48"), Some((3888.0, 1.0)));
        assert_eq!(seconds("1:2:3:4"), None);
    }

    #[test]
    fn options_are_refused_by_name() {
        let check = |text: &str| Qcp.check(&toml::from_str(text).unwrap());
        assert_eq!(check("cc = \"newreno\"\ncall = \"pull\"\ntimes = 2.5"), Ok(()));
        for (text, named) in [
            ("cc = \"reno\"", "cc"),
            ("streams = 2", "streams"),
            ("times = 0.0", "times"),
            ("times = nan", "times"),
        ] {
            let error = check(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
