//! GridFTP: one file in several TCP streams, from `globus-url-copy` to an anonymous server of its own.
//!
//! Extended block mode (`-fast`), so that streams carry blocks in any order; buffers are left to the kernel
//! unless a plan fixes them. There is no option for `-udt`: the Grid Community Toolkit takes it, and with or
//! without the server's `-allow-udt` and the UDT driver installed not one datagram left the host: the bytes
//! went by TCP.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::json;

use super::{
    After, Amount, Buffers, Figures, History, Launch, Options, Outputs, Program, Programs, Protocol, Ready,
    Server, Side, Stop, Stores, Task, Tcp, Tool, Windows, first_line,
};
use crate::record::End;
use crate::units::Size;

const HOW: &str = "apt-get install globus-gass-copy-progs globus-gridftp-server-progs";
/// Port of the first flow's control channel, and GridFTP's own; data channels take ephemeral ports.
const PORT: u16 = 2811;
/// Most streams: more than PSockets found useful on any path, fewer than would be an attack.
const STREAMS_MAX: u16 = 128;
/// Bytes of the server's log that are looked at: a transfer is one line of less than 1 KiB.
const LOG_BYTES: u64 = 64 << 10;

/// Keys of a flow of GridFTP.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct GridftpOptions {
    /// TCP's congestion control; by default BBR: of those that kernels have, it suffers least from random
    /// loss.
    cc: String,
    /// Parallel streams (`-p`). By default the most that cost nothing on clean paths (measured with 1 to 16
    /// at 65 ms: 88% of 100 Mbit/s and 72% of 1 Gbit/s up to 4, then less).
    streams: u16,
    /// Maxima of TCP's buffers.
    buffers: Buffers,
    /// Whether TCP's window may be larger than 64 KiB.
    windows: Windows,
    /// Socket buffers of a fixed size (`-tcp-bs`), which bound the window and switch the kernel's tuning off.
    window: Option<Size>,
    /// Further arguments of the client.
    args: Vec<String>,
}

impl Default for GridftpOptions {
    fn default() -> Self {
        GridftpOptions {
            cc: "bbr".to_owned(),
            streams: 4,
            buffers: Buffers::Tuned,
            windows: Windows::Large,
            window: None,
            args: Vec::new(),
        }
    }
}

/// `gridftp`.
pub struct Gridftp;

impl Tool for Gridftp {
    fn name(&self) -> &'static str {
        "gridftp"
    }

    fn version(&self, programs: &Programs) -> Result<String, String> {
        programs.find("globus-url-copy", HOW)?;
        // The client, of the same toolkit, fails when it prints its version: the server's stands for both.
        let server = programs.find("globus-gridftp-server", HOW)?;
        programs.ask(&[server.into_os_string(), "-version".into()]).map(|text| first_line(&text))
    }

    fn check(&self, options: &Options) -> Result<(), String> {
        let options: GridftpOptions = super::options(options)?;
        if options.streams == 0 || options.streams > STREAMS_MAX {
            return Err(format!("streams is {}: 1 to {STREAMS_MAX} are possible", options.streams));
        }
        Ok(())
    }

    fn launch(&self, task: &Task) -> Result<Launch, String> {
        let options: GridftpOptions = super::options(task.options)?;
        let (address, port) = (&task.receiver.address, task.port(PORT));
        // Namespaces need root, so the server has it, and then requires a user for anonymous callers.
        // It looks its own name up at its start, and "localhost" is the one that every host has. After one
        // caller (`-1`) it ends, and not before it has logged the transfer.
        let server = Program::new([task.programs.find("globus-gridftp-server", HOW)?])
            .args(["-c", "/dev/null", "-aa", "-anonymous-user", "root", "-allow-root", "-1"])
            .args(["-p", &port.to_string(), "-data-interface", address, "-Z"])
            .arg(log(task))
            .env("GLOBUS_HOSTNAME", "localhost");
        let streams = options.streams.to_string();
        let client = task.programs.find("globus-url-copy", HOW)?;
        let mut client = Program::new([client]).args(["-q", "-fast", "-p", &streams]);
        if let Some(window) = options.window {
            client = client.args(["-tcp-bs".to_owned(), window.bytes().to_string()]);
        }
        let stores = match task.amount {
            Amount::Bytes(_) => Stores::File,
            Amount::Time(time) => {
                client = client.args(["-t".to_owned(), time.as_secs().max(1).to_string()]);
                Stores::Discarded
            }
        };
        client = client
            .args(&options.args)
            .arg(format!("file://{}", url_path(&task.source)))
            .arg(format!("ftp://{address}:{port}{}", url_path(&task.arrival())));
        Ok(Launch {
            servers: vec![Server {
                side: Side::Receiver,
                program: server,
                ready: Ready::Tcp(port),
                after: After::Waited,
            }],
            side: Side::Sender,
            client,
            history: History::Fresh,
            stop: Stop::ByTool,
            tcp: Some(Tcp {
                congestion: Some(options.cc),
                buffers: options.buffers,
                windows: options.windows,
            }),
            protocol: Protocol::Tcp,
            stores,
        })
    }

    fn figures(&self, task: &Task, outputs: &Outputs) -> Result<Figures, String> {
        let log = log(task);
        let mut text = Vec::new();
        // No log at all is the same as an empty one: the server writes it with the first transfer.
        if let Ok(file) = File::open(&log) {
            let read = file.take(LOG_BYTES).read_to_end(&mut text);
            read.map_err(|error| format!("cannot read the GridFTP server's log {}: {error}", log.display()))?;
        }
        match Transfer::last_of(&String::from_utf8_lossy(&text)) {
            Some(transfer) => Ok(transfer.figures()),
            None if outputs.end == End::Complete => Err("the GridFTP server logged no transfer".to_owned()),
            None => Ok(Figures::default()),
        }
    }
}

/// Where the server of a task logs its transfers.
fn log(task: &Task) -> PathBuf {
    task.directory.join("transfers.log")
}

/// A path as part of a URL.
fn url_path(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' | b'~' => {
                text.push(char::from(*byte))
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// The server's log of a transfer: the data phase from the store command to the last block, to a microsecond.
#[derive(Debug, PartialEq)]
struct Transfer {
    bytes: u64,
    seconds: f64,
    streams: u64,
    /// Reply of FTP: 226 is success, and also what a transfer gets that the client ended by time.
    code: u64,
}

impl Transfer {
    /// The last complete line of a transfer log.
    fn last_of(log: &str) -> Option<Transfer> {
        log.lines().rev().find_map(Transfer::of_line)
    }

    fn of_line(line: &str) -> Option<Transfer> {
        // The file's name stands between the times and the figures and may hold anything.
        let first = |key: &str| line.split(' ').find_map(|word| word.strip_prefix(key));
        let last = |key: &str| line.rsplit(' ').find_map(|word| word.strip_prefix(key)?.parse::<u64>().ok());
        let seconds = moment(first("DATE=")?)?.duration_since(moment(first("START=")?)?).ok()?;
        Some(Transfer {
            bytes: last("NBYTES=")?,
            seconds: seconds.as_secs_f64(),
            streams: last("STREAMS=")?,
            code: last("CODE=")?,
        })
    }

    fn figures(&self) -> Figures {
        let timed = self.seconds > 0.0;
        Figures {
            bytes: Some(self.bytes),
            data_s: timed.then_some(self.seconds),
            goodput_bps: timed.then(|| self.bytes as f64 * 8.0 / self.seconds),
            report: json!({
                "bytes": self.bytes,
                "seconds": self.seconds,
                "streams": self.streams,
                "code": self.code,
            }),
            series: Vec::new(),
        }
    }
}

/// `20261121231135.599384` as a moment. The zone does not matter: only differences are used.
fn moment(text: &str) -> Option<SystemTime> {
    let (date, fraction) = text.split_once('.')?;
    if date.len() != 14 || !date.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = |from: usize, to: usize| date.get(from..to);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    humantime::parse_rfc3339(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}.{fraction}Z")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two transfers of a server of version 13.24: 256 MB in eight streams, and one that `-t 1` ended.
    const LOG: &str = "\
DATE=20261121231135.599384 HOST=vm PROG=globus-gridftp-server NL.EVNT=FTP_INFO START=20261121231135.429586 \
USER=anonymous FILE=/dev/shm/out BUFFER=69120 BLOCK=262144 NBYTES=256000000 VOLUME=/ STREAMS=8 STRIPES=1 \
DEST=[10.99.0.1] TYPE=STOR CODE=226 TASKID=none retrans=0,0,0,0,0,0,0,0
DATE=20261121231832.564705 HOST=vm PROG=globus-gridftp-server NL.EVNT=FTP_INFO START=20261121231831.599521 \
USER=anonymous FILE=/dev/shm/out BUFFER=69120 BLOCK=262144 NBYTES=72876032 VOLUME=/ STREAMS=4 STRIPES=1 \
DEST=[10.99.0.1] TYPE=STOR CODE=226 TASKID=none
";

    #[test]
    fn the_last_transfer_of_a_log_is_read() {
        let lines: Vec<&str> = LOG.lines().collect();
        let transfer = Transfer::last_of(lines[0]).unwrap();
        assert_eq!((transfer.bytes, transfer.streams, transfer.code), (256_000_000, 8, 226));
        assert!((transfer.seconds - 0.169798).abs() < 1e-6, "{transfer:?}");
        let figures = Transfer::last_of(LOG).unwrap().figures();
        assert_eq!(figures.bytes, Some(72_876_032));
        let expected = 72_876_032.0 * 8.0 / 0.965184;
        assert!((figures.goodput_bps.unwrap() / expected - 1.0).abs() < 1e-6, "{figures:?}");
    }

    #[test]
    fn a_file_name_with_figures_in_it_and_a_cut_line_do_no_harm() {
        let line =
            LOG.lines().next().unwrap().replace("FILE=/dev/shm/out", "FILE=/a NBYTES=1 STREAMS=2 START=3 b");
        let transfer = Transfer::of_line(&line).unwrap();
        assert_eq!((transfer.bytes, transfer.streams), (256_000_000, 8));
        for end in 0..LOG.find(" VOLUME").unwrap() {
            assert_eq!(Transfer::last_of(&LOG[..end]), None, "{}", &LOG[..end]);
        }
        // Past midnight, and a clock that was set back.
        let line = line
            .replace("DATE=20261121231135", "DATE=20261122000000")
            .replace("START=20261121231135", "START=20261121235959");
        assert!((Transfer::of_line(&line).unwrap().seconds - 1.169798).abs() < 1e-6);
        assert_eq!(Transfer::of_line(&line.replace("DATE=20261122", "DATE=20261121")), None);
        assert_eq!(Transfer::of_line(&line.replace("DATE=20261122", "DATE=20269922")), None);
    }

    #[test]
    fn options_are_refused_by_name() {
        let check = |text: &str| Gridftp.check(&toml::from_str(text).unwrap());
        assert_eq!(check("streams = 16\ncc = \"cubic\"\nwindow = \"64KiB\"\nwindows = \"small\""), Ok(()));
        for (text, named) in [("streams = 0", "streams"), ("udt = true", "udt"), ("window = 5", "window")] {
            let error = check(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn paths_are_quoted_for_urls() {
        assert_eq!(url_path(Path::new("/run/a b/c%ä")), "/run/a%20b/c%25%C3%A4");
    }
}
