//! UDT: one file over one UDT stream, by the laboratory's own pair of programs over Debian's libudt
//! (`lab/peers/udt`).
//!
//! The library's own congestion control (DAIMD); window and buffers from the path.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    After, Amount, Figures, History, Launch, Options, Output, Outputs, Program, Programs, Protocol, Ready,
    Server, Side, Stop, Stores, Task, Tool, first_line,
};
use crate::record::End;
use crate::units::Size;

const HOW: &str = "make -C lab/peers/udt (it needs g++ and libudt-dev: scripts/install-needs.sh lab)";
/// UDP port of the first flow's receiver: UDT's own examples use it.
const PORT: u16 = 9_000;
/// Least and most that the programs take.
const WINDOW_MIN: u64 = 64 << 10;
const WINDOW_MAX: u64 = 1 << 30;
/// The kernel's socket buffers: what root's namespaces usually allow at most (`rmem_max`); more is not given.
const UDP_BUFFER: u64 = 4 << 20;
/// Seconds after which the programs end by themselves, should the runner be gone: above any plan's timeout.
const TIMEOUT_S: &str = "3600";

/// Keys of a flow of UDT.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UdtOptions {
    /// Bytes in flight, and UDT's own buffers; by default what fills the path and its queue. UDT's slow start
    /// goes on until it loses or meets this: measured at 1 Gbit/s and 65 ms, that gives 64% of the link,
    /// twice as much 54%, four times as much 30%.
    window: Option<Size>,
    /// The kernel's socket buffers; 4 MiB by default.
    udp_buffer: Option<Size>,
}

/// `udt`.
pub struct Udt;

impl Tool for Udt {
    fn name(&self) -> &'static str {
        "udt"
    }

    fn version(&self, programs: &Programs) -> Result<String, String> {
        programs.find("udt-recv", HOW)?;
        let sender = programs.find("udt-send", HOW)?;
        programs.ask(&[sender.into_os_string(), "--version".into()]).map(|text| first_line(&text))
    }

    fn check(&self, options: &Options) -> Result<(), String> {
        let options: UdtOptions = super::options(options)?;
        for (key, size, least) in
            [("window", options.window, WINDOW_MIN), ("udp_buffer", options.udp_buffer, 4096)]
        {
            if let Some(size) = size.filter(|size| !(least..=WINDOW_MAX).contains(&size.bytes())) {
                return Err(format!("{key} is {size}: {least} to {WINDOW_MAX} bytes are possible"));
            }
        }
        Ok(())
    }

    fn launch(&self, task: &Task) -> Result<Launch, String> {
        let options: UdtOptions = super::options(task.options)?;
        let port = task.port(PORT);
        let fills = task.path.bdp_bytes() + task.path.queue_bytes;
        let window = options.window.map_or(fills.clamp(WINDOW_MIN, WINDOW_MAX), Size::bytes);
        let both = [
            ("--address", task.receiver.address.clone()),
            ("--port", port.to_string()),
            ("--mss", task.path.mtu.clamp(576, 9000).to_string()),
            ("--window", window.to_string()),
            ("--udp-buffer", options.udp_buffer.map_or(UDP_BUFFER, Size::bytes).to_string()),
            ("--timeout", TIMEOUT_S.to_owned()),
        ];
        let program = |name: &str| -> Result<Program, String> {
            let words = both.iter().flat_map(|(flag, value)| [(*flag).to_owned(), value.clone()]);
            Ok(Program::new([task.programs.find(name, HOW)?]).args(words).arg("--file"))
        };
        let (receiver, sender) = (program("udt-recv")?, program("udt-send")?.arg(&task.source));
        let (receiver, sender, stores) = match task.amount {
            Amount::Bytes(_) => (receiver.arg(task.arrival()), sender, Stores::File),
            Amount::Time(time) => {
                let time = time.as_millis().max(1).to_string();
                (receiver.arg("/dev/null"), sender.args(["--time-ms".to_owned(), time]), Stores::Discarded)
            }
        };
        Ok(Launch {
            servers: vec![Server {
                side: Side::Receiver,
                program: receiver,
                ready: Ready::Udp(port),
                after: After::Waited,
            }],
            side: Side::Sender,
            client: sender,
            history: History::Fresh,
            stop: Stop::ByTool,
            tcp: None,
            protocol: Protocol::Udp,
            stores,
        })
    }

    fn figures(&self, _: &Task, outputs: &Outputs) -> Result<Figures, String> {
        let nothing = Output::default();
        figures(outputs.end, &outputs.client, outputs.servers.first().unwrap_or(&nothing))
    }
}

/// The lines of one event that a program printed, with the times when they were read.
fn events<'a>(output: &'a Output, event: &'a str) -> impl Iterator<Item = (f64, Value)> + 'a {
    let lines = output
        .lines
        .iter()
        .filter_map(|(time, line)| Some((*time, serde_json::from_str::<Value>(line).ok()?)));
    lines.filter(move |(_, value)| value["event"] == event)
}

fn figures(end: End, sender: &Output, receiver: &Output) -> Result<Figures, String> {
    let intervals: Vec<(f64, u64, f64)> = events(receiver, "interval")
        .filter_map(|(time, value)| Some((time, value["bytes"].as_u64()?, value["seconds"].as_f64()?)))
        .filter(|(_, _, seconds)| *seconds > 0.0)
        .collect();
    let done = events(receiver, "done").last().map(|(_, value)| value);
    let total = done.as_ref().and_then(|done| Some((done["bytes"].as_u64()?, done["seconds"].as_f64()?)));
    if total.is_none() && end == End::Complete {
        let why = receiver.complaint().unwrap_or("it said nothing");
        return Err(format!("the UDT receiver did not report the end: {why}"));
    }
    // A receiver that was stopped has printed its half seconds.
    let (bytes, seconds) = total.unwrap_or_else(|| {
        intervals
            .iter()
            .fold((0, 0.0), |(bytes, seconds), interval| (bytes + interval.1, seconds + interval.2))
    });
    let timed = seconds > 0.0;
    Ok(Figures {
        bytes: Some(bytes),
        data_s: timed.then_some(seconds),
        goodput_bps: timed.then(|| bytes as f64 * 8.0 / seconds),
        report: json!({
            "sender": events(sender, "done").last().map(|(_, value)| value),
            "receiver": done,
        }),
        series: intervals
            .iter()
            .map(|(time, bytes, seconds)| [*time, *bytes as f64 * 8.0 / seconds])
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that the programs printed over a veth, with times as a runner would stamp them.
    fn captured() -> (Output, Output) {
        let output = |lines: &[(f64, &str)]| Output {
            lines: lines.iter().map(|(time, line)| (*time, (*line).to_owned())).collect(),
            ..Output::default()
        };
        let receiver = output(&[
            (-0.3, r#"{"event":"ready"}"#),
            (0.54, r#"{"event":"interval","bytes":741168,"seconds":0.517413}"#),
            (1.05, r#"{"event":"interval","bytes":33760272,"seconds":0.504109}"#),
            (1.55, r#"{"event":"interval","bytes":67310816,"seconds":0.503804}"#),
            (
                2.02,
                r#"{"event":"done","bytes":164880352,"seconds":1.990133,"packets_received":113609,"packets_lost":5704}"#,
            ),
        ]);
        let sender = output(&[(
            2.03,
            r#"{"event":"done","bytes":173496960,"seconds":2.009117,"packets_sent":97561,"packets_resent":65,"rtt_ms":3.224000,"bandwidth_estimate_mbps":5739.750016}"#,
        )]);
        (sender, receiver)
    }

    #[test]
    fn the_receivers_figures_count() {
        let (sender, receiver) = captured();
        let figures = figures(End::Complete, &sender, &receiver).unwrap();
        assert_eq!((figures.bytes, figures.data_s), (Some(164_880_352), Some(1.990133)));
        assert!((figures.goodput_bps.unwrap() - 164_880_352.0 * 8.0 / 1.990133).abs() < 1.0);
        assert_eq!(figures.series.len(), 3);
        assert_eq!(figures.series[0][0], 0.54);
        assert!((figures.series[2][1] - 67_310_816.0 * 8.0 / 0.503804).abs() < 1.0);
        assert_eq!(figures.report["sender"]["packets_resent"], 65);
        assert_eq!(figures.report["receiver"]["packets_lost"], 5704);
    }

    #[test]
    fn a_receiver_that_was_stopped_has_its_intervals_and_one_that_failed_is_an_error() {
        let (sender, mut receiver) = captured();
        receiver.lines.pop();
        let cut = figures(End::TimedOut, &sender, &receiver).unwrap();
        assert_eq!(cut.bytes, Some(741_168 + 33_760_272 + 67_310_816));
        receiver.stderr = "udt-recv: receiving failed: Connection was broken\n".to_owned();
        let error = figures(End::Complete, &sender, &receiver).unwrap_err();
        assert!(error.contains("Connection was broken"), "{error}");
        assert_eq!(figures(End::Failed, &sender, &Output::default()).unwrap().goodput_bps, None);
    }

    #[test]
    fn options_are_refused_by_name() {
        let check = |text: &str| Udt.check(&toml::from_str(text).unwrap());
        assert_eq!(check("window = \"16MiB\"\nudp_buffer = \"1MiB\""), Ok(()));
        for (text, named) in
            [("window = \"1KiB\"", "window"), ("udp_buffer = \"2GiB\"", "udp_buffer"), ("cc = 1", "cc")]
        {
            let error = check(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
