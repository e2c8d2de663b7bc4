//! How many lost packets the verdicts kept from the controller, from traces of `fobs cp --trace`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

/// Judged windows that a trace keeps; of more it keeps some.
const WINDOWS_MAX: u64 = 1024;

/// Options of `spared`.
#[derive(clap::Args)]
#[command(
    about = "Count the lost packets that the verdicts kept from the controller, from traces of fobs cp --trace"
)]
pub struct Args {
    /// Traces
    #[arg(required = true, value_name = "TRACE.jsonl")]
    traces: Vec<PathBuf>,
}

/// Judged windows by verdict.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
struct Windows {
    receiver: u64,
    network: u64,
    inconclusive: u64,
}

/// Packets.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
struct Packets {
    /// Lost, as the sender counts.
    lost: u64,
    /// Kept from the controller.
    spared: u64,
    /// Reported to the controller.
    told: u64,
    /// Dropped at the receiver's socket, as far as judged windows claimed them.
    ledger: u64,
    /// Datagrams that the receiver's kernel dropped at the socket, merged ones once.
    counted: u64,
    /// Sent.
    sent: u64,
}

/// The figures of one trace.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
struct Figures {
    trace: String,
    windows: Windows,
    /// Whether the trace has every judged window, so that the counts are exact.
    all_kept: bool,
    #[serde(flatten)]
    packets: Packets,
}

/// The figures of all traces.
#[derive(Serialize)]
struct Total {
    traces: usize,
    #[serde(flatten)]
    packets: Packets,
}

/// Prints one JSON object for each trace, and their sum.
pub fn run(args: &Args) -> Result<(), String> {
    let mut sum = Packets::default();
    for path in &args.traces {
        let figures = count(path)?;
        print(&figures)?;
        let add = figures.packets;
        sum = Packets {
            lost: sum.lost + add.lost,
            spared: sum.spared + add.spared,
            told: sum.told + add.told,
            ledger: sum.ledger + add.ledger,
            counted: sum.counted + add.counted,
            sent: sum.sent + add.sent,
        };
    }
    print(&Total { traces: args.traces.len(), packets: sum })
}

fn print(line: &impl Serialize) -> Result<(), String> {
    println!("{}", serde_json::to_string(line).map_err(|error| format!("cannot print figures: {error}"))?);
    Ok(())
}

fn count(path: &Path) -> Result<Figures, String> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    let (mut windows, mut packets) = (Windows::default(), Packets::default());
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| format!("cannot read {name}: {error}"))?;
        let record: Value = serde_json::from_str(&line)
            .map_err(|error| format!("{name}:{}: this is no line of a trace: {error}", index + 1))?;
        let number = |key: &str| record[key].as_u64().unwrap_or(0);
        match record["record"].as_str() {
            Some("loss") => {
                match record["verdict"].as_str() {
                    Some("receiver") => windows.receiver += 1,
                    Some("network") => windows.network += 1,
                    _ => windows.inconclusive += 1,
                }
                packets.spared += number("receiver_lost");
                packets.told += number("network_lost");
                packets.ledger += number("host_drops");
            }
            // Counters grow: the last line of a kind is the sum.
            Some("sender") => (packets.lost, packets.sent) = (number("packets_lost"), number("packets_sent")),
            Some("receiver") => packets.counted = number("socket_drops"),
            _ => {}
        }
    }
    let judged = windows.receiver + windows.network + windows.inconclusive;
    Ok(Figures { trace: name, windows, all_kept: judged < WINDOWS_MAX, packets })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_summed_and_counters_are_the_last() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = r#"{"record":"sender","packets_lost":1,"packets_sent":10}
{"record":"loss","verdict":"receiver","receiver_lost":5,"network_lost":1,"host_drops":4}
{"record":"loss","verdict":"network","receiver_lost":0,"network_lost":7,"host_drops":null}
{"record":"receiver","socket_drops":3}
{"record":"sender","packets_lost":13,"packets_sent":100}
"#;
        std::fs::write(file.path(), text).unwrap();
        let figures = count(file.path()).unwrap();
        assert_eq!(figures.windows, Windows { receiver: 1, network: 1, inconclusive: 0 });
        let expected = Packets { lost: 13, spared: 5, told: 8, ledger: 4, counted: 3, sent: 100 };
        assert_eq!((figures.all_kept, figures.packets), (true, expected));
    }
}
