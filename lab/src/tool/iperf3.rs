//! iperf3: the kernel's TCP from memory to memory, in one or several streams.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    After, Amount, Buffers, Call, Figures, History, Launch, Options, Outputs, Program, Programs, Protocol,
    Ready, Server, Side, Stop, Stores, Task, Tcp, Tool, Windows, first_line,
};
use crate::record::End;
use crate::units::Size;

const HOW: &str = "apt-get install iperf3";
/// Port of the first flow, and iperf3's own.
const PORT: u16 = 5201;
/// Most streams that iperf3 takes.
const STREAMS_MAX: u16 = 128;
/// Seconds between two figures of a time series: long enough for several round trips of most paths.
const INTERVAL: &str = "0.5";

/// Keys of a flow of iperf3.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Iperf3Options {
    /// Which end calls the other: with `pull`, `-R`.
    call: Call,
    /// Congestion control; by default BBR: of those that kernels have, it suffers least from random loss.
    cc: String,
    /// Parallel streams.
    streams: u16,
    /// Maxima of TCP's buffers.
    buffers: Buffers,
    /// Whether TCP's window may be larger than 64 KiB.
    windows: Windows,
    /// Socket buffers of a fixed size (`-w`), which bound the window.
    window: Option<Size>,
    /// Further arguments of the client.
    args: Vec<String>,
}

impl Default for Iperf3Options {
    fn default() -> Self {
        Iperf3Options {
            call: Call::Push,
            cc: "bbr".to_owned(),
            streams: 1,
            buffers: Buffers::Tuned,
            windows: Windows::Large,
            window: None,
            args: Vec::new(),
        }
    }
}

/// `iperf3`.
pub struct Iperf3;

impl Tool for Iperf3 {
    fn name(&self) -> &'static str {
        "iperf3"
    }

    fn version(&self, programs: &Programs) -> Result<String, String> {
        let iperf3 = programs.find("iperf3", HOW)?;
        programs.ask(&[iperf3.into_os_string(), "--version".into()]).map(|text| first_line(&text))
    }

    fn check(&self, options: &Options) -> Result<(), String> {
        let options: Iperf3Options = super::options(options)?;
        if options.streams == 0 || options.streams > STREAMS_MAX {
            return Err(format!("streams is {}: 1 to {STREAMS_MAX} are possible", options.streams));
        }
        Ok(())
    }

    fn launch(&self, task: &Task) -> Result<Launch, String> {
        let options: Iperf3Options = super::options(task.options)?;
        let iperf3 = task.programs.find("iperf3", HOW)?;
        let side = options.call.client().other();
        let (address, port) = (task.host(side).address.as_str(), task.port(PORT));
        let number = port.to_string();
        let both = ["-J", "-i", INTERVAL, "-p", &number];
        let server = Program::new([&iperf3]).args(both).args(["-s", "-1", "-B", address]);
        let mut client = Program::new([&iperf3]).args(both).args(["-c", address, "-C", &options.cc]);
        client = match task.amount {
            Amount::Bytes(bytes) => client.args(["-n".to_owned(), bytes.to_string()]),
            Amount::Time(time) => client.args(["-t".to_owned(), time.as_secs().max(1).to_string()]),
        };
        if options.streams > 1 {
            client = client.args(["-P".to_owned(), options.streams.to_string()]);
        }
        if let Some(window) = options.window {
            client = client.args(["-w".to_owned(), window.bytes().to_string()]);
        }
        if options.call == Call::Pull {
            client = client.arg("-R");
        }
        Ok(Launch {
            servers: vec![Server { side, program: server, ready: Ready::Tcp(port), after: After::Waited }],
            side: options.call.client(),
            client: client.args(&options.args),
            history: History::Fresh,
            stop: Stop::ByTool,
            // Congestion control is a matter of its sockets (`-C`), so that flows of one host may have
            // different ones.
            tcp: Some(Tcp { congestion: None, buffers: options.buffers, windows: options.windows }),
            protocol: Protocol::Tcp,
            stores: Stores::Nothing,
        })
    }

    fn figures(&self, task: &Task, outputs: &Outputs) -> Result<Figures, String> {
        let options: Iperf3Options = super::options(task.options)?;
        let client: Value = serde_json::from_str(&outputs.client.stdout()).unwrap_or_default();
        let server: Value = outputs
            .servers
            .first()
            .and_then(|server| serde_json::from_str(&server.stdout()).ok())
            .unwrap_or_default();
        let receiver = match options.call.client() {
            Side::Sender => &server,
            Side::Receiver => &client,
        };
        if let (End::Complete | End::Failed, Some(error)) = (outputs.end, client["error"].as_str()) {
            return Err(format!("iperf3: {error}"));
        }
        let intervals = receiver["intervals"].as_array().map_or(&[][..], Vec::as_slice);
        let mut sums: Vec<&Value> = intervals.iter().map(|interval| &interval["sum"]).collect();
        // A server whose client was stopped prints its last interval twice (seen with 3.12).
        sums.dedup_by(|later, earlier| later["start"] == earlier["start"]);
        let series =
            sums.iter().filter_map(|sum| Some([sum["end"].as_f64()?, sum["bits_per_second"].as_f64()?]));
        let series: Vec<[f64; 2]> = series.collect();
        // What the receiver read while the test ran. The last bytes of the sender's buffers are in neither
        // figure: iperf3 ends the test when the sender has handed over its last byte to the kernel.
        let received = &client["end"]["sum_received"];
        let (bytes, seconds) = match (received["bytes"].as_u64(), received["seconds"].as_f64()) {
            (Some(bytes), Some(seconds)) if bytes > 0 && seconds > 0.0 => (bytes, seconds),
            // The client was stopped before it got the server's figures: only the server's intervals are
            // left.
            _ => {
                let bytes = sums.iter().filter_map(|sum| sum["bytes"].as_u64()).sum();
                (bytes, series.last().map_or(0.0, |[end, _]| *end))
            }
        };
        if bytes == 0 && outputs.end == End::Complete {
            return Err("iperf3 ended well without a figure of the receiver's".to_owned());
        }
        let report = json!({
            "sum_sent": client["end"]["sum_sent"],
            "sum_received": received,
            "sender_tcp_congestion": client["end"]["sender_tcp_congestion"],
            "receiver_tcp_congestion": client["end"]["receiver_tcp_congestion"],
        });
        Ok(Figures {
            bytes: Some(bytes),
            data_s: (seconds > 0.0).then_some(seconds),
            goodput_bps: (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds),
            report,
            series,
        })
    }
}
