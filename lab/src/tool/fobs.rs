//! FOBS itself, as a user runs it: `fobs cp --json`, or `fobs sync`, to or from a daemon, or over ssh.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::sshd::{self, PEER};
use super::{
    After, Amount, Buffers, Call, Figures, History, Launch, Options, Outputs, Program, Programs, Protocol,
    Ready, Server, Stop, Stores, Task, Tcp, Tool, Windows, first_line,
};
use crate::record::End;

const HOW: &str = "build it (cargo build --release) and name it with --fobs";
const STATE: &str = "XDG_STATE_HOME";
/// TCP port of the first flow's daemon, and FOBS's own; the flow's UDP ports follow it.
const PORT: u16 = 45_600;
/// UDP ports of a flow's daemon, as many as it takes by itself.
const UDP_PORTS: u16 = 64;

/// What carries the control channel.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Carrier {
    /// TLS to `fobs serve`.
    #[default]
    Daemon,
    /// A private sshd that starts the other side.
    Ssh,
}

/// The command of `fobs` that moves the data.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Verb {
    /// `fobs cp`.
    #[default]
    Cp,
    /// `fobs sync`.
    Sync,
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Verb::Cp => "cp",
            Verb::Sync => "sync",
        }
    }

    /// Its option for the private key: the letter of `cp` is another option of `sync`.
    fn identity(self) -> &'static str {
        match self {
            Verb::Cp => "-i",
            Verb::Sync => "--identity",
        }
    }

    /// Its option for ssh's configuration.
    fn ssh_config(self) -> &'static str {
        match self {
            Verb::Cp => "-F",
            Verb::Sync => "--ssh-config",
        }
    }
}

/// Keys of a flow of FOBS.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FobsOptions {
    call: Call,
    carrier: Carrier,
    verb: Verb,
    history: History,
    /// `--cc`.
    cc: Option<String>,
    /// `--rate`, in FOBS's own spelling.
    rate: Option<String>,
    /// `--ack-every`.
    ack_every: Option<u32>,
    /// `--burst`.
    burst: Option<u32>,
    /// `--packet-size`.
    packet_size: Option<u32>,
    /// `--loss-cause`.
    loss_cause: Option<String>,
    /// `--transport`.
    transport: Option<String>,
    /// `--tcp-buffer`, in FOBS's own spelling.
    window: Option<String>,
    /// `tcp_congestion_control` of both hosts, for a transport over TCP.
    tcp_cc: Option<String>,
    /// Maxima of TCP's buffers, likewise.
    buffers: Buffers,
    /// Whether TCP's window may be larger than 64 KiB.
    windows: Windows,
    /// Further arguments.
    args: Vec<String>,
}

impl FobsOptions {
    /// The arguments that the options stand for.
    fn words(&self) -> Vec<String> {
        let numbers =
            [("--ack-every", self.ack_every), ("--burst", self.burst), ("--packet-size", self.packet_size)];
        let texts = [
            ("--cc", &self.cc),
            ("--rate", &self.rate),
            ("--loss-cause", &self.loss_cause),
            ("--transport", &self.transport),
            ("--tcp-buffer", &self.window),
        ];
        let texts = texts.map(|(flag, value)| (flag, value.clone()));
        let numbers = numbers.map(|(flag, value)| (flag, value.map(|value| value.to_string())));
        let given = texts.into_iter().chain(numbers);
        let given = given.filter_map(|(flag, value)| Some([flag.to_owned(), value?]));
        given.flatten().chain(self.args.iter().cloned()).collect()
    }

    /// What the data crosses the path by, as far as the options say.
    fn protocol(&self) -> Protocol {
        match self.transport.as_deref() {
            None | Some("udp") => Protocol::Udp,
            Some("auto") => Protocol::Either,
            Some(_) => Protocol::Tcp,
        }
    }

    /// Settings of the kernel's TCP, where it carries data; otherwise it has a few kilobytes of control
    /// messages to carry, and the choice is left to other flows.
    fn tcp(&self) -> Option<Tcp> {
        let tcp = Tcp { congestion: self.tcp_cc.clone(), buffers: self.buffers, windows: self.windows };
        (self.protocol() != Protocol::Udp).then_some(tcp)
    }
}

/// `fobs`.
pub struct Fobs;

impl Tool for Fobs {
    fn name(&self) -> &'static str {
        "fobs"
    }

    fn version(&self, programs: &Programs) -> Result<String, String> {
        let fobs = programs.find("fobs", HOW)?;
        programs.ask(&[fobs.into_os_string(), "--version".into()]).map(|text| first_line(&text))
    }

    fn check(&self, options: &Options) -> Result<(), String> {
        super::options::<FobsOptions>(options).map(drop)
    }

    fn supports(&self, programs: &Programs, options: &Options) -> Result<(), String> {
        let FobsOptions { carrier, verb, .. } = super::options(options)?;
        if carrier == Carrier::Ssh {
            sshd::version(programs)?;
        }
        let fobs = programs.find("fobs", HOW)?.into_os_string();
        let help = programs.ask(&[fobs, verb.word().into(), "--help".into()])?;
        understands(&help, options)
    }

    fn launch(&self, task: &Task) -> Result<Launch, String> {
        let options: FobsOptions = super::options(task.options)?;
        if let (History::Remembered, Amount::Time(_)) = (options.history, task.amount) {
            return Err(
                "history is \"remembered\", which takes a whole copy first: give bytes instead of duration"
                    .to_owned(),
            );
        }
        let fobs = task.programs.find("fobs", HOW)?;
        let client = Program::new([&fobs]).args([options.verb.word(), "--json"]).env(STATE, state(task));
        let (server, client) = match options.carrier {
            Carrier::Daemon => daemon(task, &options, &fobs, client)?,
            Carrier::Ssh => {
                let ssh = sshd::prepare(task, options.call.client().other())?;
                let client =
                    client.arg(options.verb.ssh_config()).arg(ssh.config).arg("--fobs-path").arg(&fobs);
                let client = client.args(["--udp-ports".to_owned(), udp_ports(task)]).args(options.words());
                let client = match options.call {
                    Call::Push => client.arg(&task.source).arg(remote(&task.destination)),
                    Call::Pull => client.arg(remote(&task.source)).arg(&task.destination),
                };
                (ssh.server, client)
            }
        };
        Ok(Launch {
            servers: vec![server],
            side: options.call.client(),
            client,
            history: options.history,
            stop: Stop::ByRunner,
            tcp: options.tcp(),
            protocol: options.protocol(),
            stores: Stores::File,
        })
    }

    fn figures(&self, _: &Task, outputs: &Outputs) -> Result<Figures, String> {
        let events: Vec<(f64, Value)> = outputs
            .client
            .lines
            .iter()
            .filter_map(|(time, line)| Some((*time, serde_json::from_str(line).ok()?)))
            .collect();
        let last =
            |name: &str| events.iter().rev().map(|(_, event)| event).find(|event| event["event"] == name);
        let mut figures = Figures { series: series(&events), ..Figures::default() };
        if let Some(done) = last("done") {
            figures.bytes = done["bytes"].as_u64();
            figures.data_s = done["seconds"].as_f64();
            figures.goodput_bps = done["goodput_bps"].as_f64();
            figures.report = done.clone();
            figures.report["streams_over_time"] = streams(&events);
            if let Some(error) = done["errors"].get(0) {
                return Err(format!(
                    "fobs did not copy everything: {}",
                    error["message"].as_str().unwrap_or("?")
                ));
            }
        } else {
            // What was stored until the last progress line, in the time until then: the line may be a second
            // old.
            let time =
                |name: &str| events.iter().rev().find(|(_, event)| event["event"] == name).map(|(at, _)| *at);
            figures.bytes = last("progress").and_then(|progress| progress["bytes"].as_u64());
            figures.data_s = time("progress").zip(time("start")).map(|(until, from)| until - from);
            figures.report = last("failed").cloned().unwrap_or_default();
            if outputs.end == End::Complete {
                return Err("fobs ended well without a done line".to_owned());
            }
            if let (End::Failed, Some(message)) = (outputs.end, figures.report["message"].as_str()) {
                return Err(format!("fobs: {message}"));
            }
        }
        Ok(figures)
    }
}

/// Whether a FOBS with this help has everything that the options need.
pub(super) fn understands(help: &str, options: &Options) -> Result<(), String> {
    let options: FobsOptions = super::options(options)?;
    let words = options.words();
    let flags = words.iter().filter(|word| word.starts_with("--"));
    let flags = flags.map(|word| word.split_once('=').map_or(word.as_str(), |(flag, _)| flag));
    let known = |wanted: &str| {
        help.split_whitespace().any(|word| word.trim_end_matches(',').split('=').next() == Some(wanted))
    };
    for flag in flags {
        if !known(flag) {
            return Err(format!("this fobs has no option {flag}"));
        }
    }
    // The values are listed below `--cc`, one a line: `- auto:   Finds ...`.
    let listed = |cc: &str| {
        let after = help.split("--cc ").nth(1).unwrap_or_default();
        let until = after.find("[default").unwrap_or(after.len());
        after[..until].lines().any(|line| {
            line.trim()
                .strip_prefix("- ")
                .is_some_and(|rest| rest.split(|c: char| c == ':' || c.is_whitespace()).next() == Some(cc))
        })
    };
    match &options.cc {
        Some(cc) if !listed(cc) => Err(format!("this fobs has no --cc {cc}")),
        _ => Ok(()),
    }
}

/// The daemon at the other end, with keys of its own, and the client that calls it.
fn daemon(
    task: &Task,
    options: &FobsOptions,
    fobs: &Path,
    client: Program,
) -> Result<(Server, Program), String> {
    let folder = task.directory.join("fobs-keys");
    let io = |error: std::io::Error| format!("cannot write keys to {}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(io)?;
    let identity = folder.join("client");
    let words: [OsString; 4] = [fobs.into(), "keygen".into(), "--out".into(), (&identity).into()];
    // Where the key is stands on standard error, the line for the daemon begins with the key's kind.
    let answer = task.programs.ask(&words)?;
    let public = first_line(&answer);
    let authorized = folder.join("authorized_keys");
    fs::write(&authorized, format!("read-write {public}\n")).map_err(io)?;

    let side = options.call.client().other();
    let (address, port) = (&task.host(side).address, task.port(PORT));
    let (root, from, to): (&Path, OsString, OsString) = match options.call {
        Call::Push => (&task.destination, (&task.source).into(), format!("fobs://{address}:{port}/").into()),
        Call::Pull => {
            let name = task.source.file_name().unwrap_or_default().to_string_lossy();
            let folder = task.source.parent().unwrap_or(Path::new("/"));
            (folder, format!("fobs://{address}:{port}/{name}").into(), (&task.destination).into())
        }
    };
    let program = Program::new([fobs])
        .env(STATE, state(task))
        .args(["serve", "--listen", &format!("{address}:{port}"), "--udp-ports", &udp_ports(task), "--root"])
        .arg(root)
        .arg("--authorized-keys")
        .arg(authorized)
        .arg("--identity")
        .arg(folder.join("server"));
    let client = client
        .arg(options.verb.identity())
        .arg(identity)
        .arg("--known-hosts")
        .arg(folder.join("known_hosts"))
        .args(options.words())
        .args([from, to]);
    Ok((Server { side, program, ready: Ready::Tcp(port), after: After::Stopped }, client))
}

/// Where FOBS keeps what it learned of paths: a new directory for each run, so that runs are independent. All
/// copies of a flow share it ([`History`]).
fn state(task: &Task) -> PathBuf {
    task.directory.join("fobs-state")
}

fn udp_ports(task: &Task) -> String {
    let first = task.port(PORT) + 1;
    format!("{first}-{}", first + UDP_PORTS - 1)
}

fn remote(path: &Path) -> OsString {
    let mut word = OsString::from(format!("{PEER}:"));
    word.push(path);
    word
}

/// Connections that carried data at each progress line.
fn streams(events: &[(f64, Value)]) -> Value {
    let of = |event: &Value| (event["event"] == "progress").then(|| event["streams"].as_u64())?;
    events.iter().filter_map(|(time, event)| Some(serde_json::json!([time, of(event)?]))).collect()
}

/// Rates between progress lines: payload bytes that the receiver has stored, over the time between the lines.
fn series(events: &[(f64, Value)]) -> Vec<[f64; 2]> {
    let mut points = Vec::new();
    let mut before = None;
    for (time, event) in events {
        let bytes = match event["event"].as_str() {
            Some("start") => Some(0),
            Some("progress" | "done") => event["bytes"].as_u64(),
            _ => None,
        };
        let Some(bytes) = bytes else { continue };
        if let Some((earlier, fewer)) = before
            && *time > earlier
            && bytes >= fewer
        {
            points.push([*time, (bytes - fewer) as f64 * 8.0 / (time - earlier)]);
        }
        before = Some((*time, bytes));
    }
    points
}
