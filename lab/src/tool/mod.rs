//! The tools of contests: each knows which programs move a [`Task`], and what their output means.
//!
//! A tool starts nothing and measures no time. It turns a task into words of command lines
//! ([`Tool::launch`]), and what the programs printed into figures ([`Tool::figures`]); between the two, `run`
//! starts the programs in their namespaces and control groups, bounds and times them, and looks for itself
//! whether the bytes arrived and by which protocol they crossed. So a tool is tested without root, from
//! captured output.
//!
//! A new tool is one file here and one line in [`ALL`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

mod fobs;
mod gridftp;
mod iperf3;
mod programs;
mod qcp;
mod rsync;
mod scp;
mod sftp;
pub mod sshd;
mod udt;

pub use programs::{Programs, first_line};

/// The tools, in the order in which their versions are listed.
static ALL: &[&dyn Tool] = &[
    &fobs::Fobs,
    &iperf3::Iperf3,
    &rsync::Rsync,
    &scp::Scp,
    &sftp::Sftp,
    &gridftp::Gridftp,
    &udt::Udt,
    &qcp::Qcp,
];

/// The tool of that name.
pub fn by_name(name: &str) -> Option<&'static dyn Tool> {
    ALL.iter().copied().find(|tool| tool.name() == name)
}

/// The names of all tools.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|tool| tool.name())
}

/// The tool's own keys of a flow in a plan: all but those that `plan` reads itself (`tool`, `label`, `start`,
/// ...).
pub type Options = toml::Table;

/// Options as a tool's own type, which refuses keys that it does not know; errors name the key.
pub fn options<T: for<'de> Deserialize<'de>>(options: &Options) -> Result<T, String> {
    // The parser's sentence, and on a line of its own the key it is about.
    T::deserialize(options.clone()).map_err(|error| error.to_string().trim().replace('\n', ", "))
}

/// One program, or a set of programs, that moves bytes from one host to another.
pub trait Tool: Sync {
    /// Its name in plans and records.
    fn name(&self) -> &'static str;

    /// Its version line, or, where it is not installed, one sentence on what is missing and how to get it.
    fn version(&self, programs: &Programs) -> Result<String, String>;

    /// Whether the options of a flow make sense, before anything is run; errors name the key.
    fn check(&self, options: &Options) -> Result<(), String>;

    /// Whether the installed version has what the options need; if not, one sentence for the record of what
    /// is skipped. Called only with options that passed [`Tool::check`], and for a tool that is installed.
    fn supports(&self, programs: &Programs, options: &Options) -> Result<(), String> {
        let _ = (programs, options);
        Ok(())
    }

    /// The programs that move the task. It may write configuration and keys into [`Task::directory`], and
    /// nowhere else; errors are one sentence.
    fn launch(&self, task: &Task) -> Result<Launch, String>;

    /// Figures from the programs' output; an error, one sentence, if it is not the output of a flow that did
    /// its work. Called for flows that were stopped or failed, too ([`Outputs::end`]); then it returns what
    /// is known.
    fn figures(&self, task: &Task, outputs: &Outputs) -> Result<Figures, String>;
}

/// What has to be moved, from where to where and how.
pub struct Task<'a> {
    /// The tool's options of this flow.
    pub options: &'a Options,
    /// Where binaries are.
    pub programs: &'a Programs,
    /// The path, seen in the data's direction.
    pub path: PathFacts,
    /// Where the data comes from.
    pub sender: Host,
    /// Where it goes.
    pub receiver: Host,
    /// How much.
    pub amount: Amount,
    /// A regular file in memory for tools that move files: [`Amount::Bytes`] of random content, or, for a
    /// task by time, more than the path can carry in that time.
    pub source: PathBuf,
    /// An empty directory in memory where the source is to appear under its own name.
    pub destination: PathBuf,
    /// The flow's own directory for keys, configuration and logs; it goes away after the run.
    pub directory: PathBuf,
    /// The flow's place in its contest, from 0.
    pub index: u16,
}

impl Task<'_> {
    /// A port of this flow: `base` for the first, and each further flow has its ports [`PORT_STRIDE`] higher,
    /// so that flows between the same hosts do not meet.
    pub fn port(&self, base: u16) -> u16 {
        base + self.index * PORT_STRIDE
    }

    /// The file that a complete copy makes.
    pub fn arrival(&self) -> PathBuf {
        self.destination.join(self.source.file_name().unwrap_or_default())
    }

    /// The host at that end.
    pub fn host(&self, side: Side) -> &Host {
        match side {
            Side::Sender => &self.sender,
            Side::Receiver => &self.receiver,
        }
    }
}

/// Distance of two flows' ports: more than any tool uses (FOBS: 65). With at most 32 flows, the highest base
/// is 62,000.
pub const PORT_STRIDE: u16 = 100;

/// A host of the emulated path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name in the plan.
    pub name: String,
    /// Network namespace.
    pub namespace: String,
    /// IPv4 address.
    pub address: String,
    /// IPv6 address.
    pub address6: String,
}

/// The path, seen in the data's direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathFacts {
    /// Bits per second, in the data's direction.
    pub rate_bps: f64,
    /// Bits per second, against it.
    pub return_rate_bps: f64,
    /// Round trip without queues.
    pub rtt: Duration,
    /// Bytes that the bottleneck's queue holds, in the data's direction.
    pub queue_bytes: u64,
    /// Largest IP packet, bytes.
    pub mtu: u32,
}

impl PathFacts {
    /// Bytes in flight that fill the path without a queue.
    pub fn bdp_bytes(&self) -> u64 {
        (self.rate_bps * self.rtt.as_secs_f64() / 8.0) as u64
    }
}

/// How much a flow moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// This many bytes.
    Bytes(u64),
    /// As much as it can in this time.
    Time(Duration),
}

/// An end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Where the data comes from.
    Sender,
    /// Where it goes.
    Receiver,
}

impl Side {
    /// The other end.
    pub fn other(self) -> Side {
        match self {
            Side::Sender => Side::Receiver,
            Side::Receiver => Side::Sender,
        }
    }
}

/// Which end calls the other: an option of the tools that can do both.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// The client has the data.
    #[default]
    Push,
    /// The client wants the data.
    Pull,
}

impl Call {
    /// Where the client runs.
    pub fn client(self) -> Side {
        match self {
            Call::Push => Side::Sender,
            Call::Pull => Side::Receiver,
        }
    }
}

/// The programs of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Programs that wait for the client: started in this order, each once the one before is ready.
    pub servers: Vec<Server>,
    /// Where the client runs.
    pub side: Side,
    /// The program whose start and end are the flow's.
    pub client: Program,
    /// What they remember of the path before the client starts.
    pub history: History,
    /// Who ends a flow by time.
    pub stop: Stop,
    /// What the kernels of both hosts are set to for this flow; none leaves the choice to other flows.
    pub tcp: Option<Tcp>,
    /// By what the data must be seen to cross.
    pub protocol: Protocol,
    /// Whether there is a file to compare in the end.
    pub stores: Stores,
}

/// What the programs remember of the path when the client starts: an option of tools that remember paths.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// Nothing: a first contact.
    #[default]
    Fresh,
    /// What they learned from moving the same once: right before, not counted, and what arrived is removed.
    Remembered,
}

/// A command line: `words[0]` is the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Environment variables, beside those of the runner.
    pub env: Vec<(String, OsString)>,
}

impl Program {
    /// A program with its first arguments.
    pub fn new<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Program {
        Program { words: words.into_iter().map(Into::into).collect(), env: Vec::new() }
    }

    /// One more argument.
    pub fn arg(mut self, word: impl Into<OsString>) -> Program {
        self.words.push(word.into());
        self
    }

    /// More arguments.
    pub fn args<W: Into<OsString>>(mut self, words: impl IntoIterator<Item = W>) -> Program {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// One more environment variable.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Program {
        self.env.push((name.to_owned(), value.into()));
        self
    }
}

/// A program that waits for the client.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Where it runs.
    pub side: Side,
    /// The program, in the foreground.
    pub program: Program,
    /// When the client may start.
    pub ready: Ready,
    /// What happens to it after the client's end.
    pub after: After,
}

/// When a server is ready; the runner waits for ten seconds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// As soon as something listens on this TCP port of its host.
    Tcp(u16),
    /// As soon as something is bound to this UDP port of its host.
    Udp(u16),
}

/// What happens to a server after the client's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It ends by itself and its last output counts: the runner waits for it, for five seconds at most.
    Waited,
    /// It would stay: it gets SIGTERM.
    Stopped,
}

/// Who ends a flow by time ([`Amount::Time`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The program has the time as an argument and ends by itself.
    ByTool,
    /// The program moves a file that is too long, and gets SIGINT when the time is over.
    ByRunner,
}

/// What the hosts' kernels are set to while a flow runs: sysctls of both namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// `tcp_congestion_control`; none leaves the kernel's. Every one that the kernel has may be chosen, by
    /// programs for their own sockets, too.
    pub congestion: Option<String>,
    /// Largest buffers.
    pub buffers: Buffers,
    /// The option of RFC 7323.
    pub windows: Windows,
}

/// Maxima of `tcp_rmem` and `tcp_wmem`, up to which the kernel sizes buffers by itself.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Buffers {
    /// As the kernel came.
    Default,
    /// Several times what fills the path and its queue.
    #[default]
    Tuned,
}

/// `tcp_window_scaling`: whether a window may be larger than 64 KiB ("Large Windows" in the papers).
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Windows {
    /// With the option, as every kernel has it today.
    #[default]
    Large,
    /// Without it.
    Small,
}

/// By what data crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// Whichever the tool chooses.
    Either,
}

/// Whether a flow leaves a file at [`Task::arrival`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// It does: its size and content are compared with the source's.
    File,
    /// It reads [`Task::source`], but nothing comes of it that could be compared: a transfer that its tool
    /// ends by time.
    Discarded,
    /// The bytes come from memory and end in memory.
    Nothing,
}

/// The output of a flow's programs, and how they ended.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// How the flow ended, as far as the runner saw: never [`End::Complete`](crate::record::End::Complete)
    /// unless the client's exit code is 0.
    pub end: crate::record::End,
    /// The client.
    pub client: Output,
    /// The servers, in the order of [`Launch::servers`].
    pub servers: Vec<Output>,
}

/// The output of one program.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// Exit code; none if a signal ended it.
    pub exit: Option<i32>,
    /// Lines of standard output, each with the time when it was read: seconds after the client's start.
    /// Bounded to 16 MiB, the rest is thrown away.
    pub lines: Vec<(f64, String)>,
    /// Standard error; of more than 64 KiB, the last.
    pub stderr: String,
}

impl Output {
    /// Standard output as it was.
    pub fn stdout(&self) -> String {
        let mut text = String::new();
        for (_, line) in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// The last line of standard error that is not empty: usually why a program failed.
    pub fn complaint(&self) -> Option<&str> {
        self.stderr.lines().map(str::trim).rfind(|line| !line.is_empty())
    }
}

/// Figures from a tool's output. What a tool does not report stays empty: the runner has the wall time and
/// the size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Payload bytes that arrived.
    pub bytes: Option<u64>,
    /// Seconds of the data phase, without hand-shakes.
    pub data_s: Option<f64>,
    /// Payload bits per second of the data phase, by the receiver's figures where there are any; without it,
    /// it is `bytes` in `data_s`, and without that in the wall time.
    pub goodput_bps: Option<f64>,
    /// The parts of the tool's own report that are worth keeping, unchanged.
    pub report: Value,
    /// Seconds after the client's start (end of the interval), payload bits per second in it.
    pub series: Vec<[f64; 2]>,
}

#[cfg(test)]
mod tests;
