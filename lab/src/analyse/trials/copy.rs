//! One trial: a copy between two hosts with one thing made scarce.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::case::{Case, Drawn};
use super::disturbance::{Flows, Step};
use super::limits::{CpuQuota, Pauses, ReceiveBuffers, SlowDisk};
use super::matrix::Line;
use super::other::{self, Copier};
use crate::link::spec::LinkSpec;
use crate::run::data::Data;
use crate::run::emulator::Emulator;
use crate::run::group::Group;
use crate::run::namespace::Namespace;
use crate::run::pair::Pair;
use crate::run::process::{Process, wait_any};
use crate::run::ready::wait_ready;
use crate::run::tuning::AllAllowed;
use crate::tool::{Amount, Host, Launch, Options, Output, PathFacts, Programs, Side, Task, by_name};

/// Holds all that arrives in a pause, with the kernel's overhead, at any rate that is drawn; bytes.
const AMPLE_BUFFER: u64 = 4 << 20;
/// A copy that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(60);
/// A signal to the trials is seen within this time.
const ATTENTION: Duration = Duration::from_millis(200);
/// Room on a disk beside the file.
const DISK_ROOM_BYTES: u64 = 32_000_000;
/// Takes away the right to exceed `rmem_max`.
const UNPRIVILEGED: [&str; 5] = ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"];

/// Which way the data goes; the caller is always on the first host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Push,
    Pull,
}

impl Direction {
    /// As records and options have it.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Push => "push",
            Direction::Pull => "pull",
        }
    }

    /// Places of the sending and the receiving host.
    fn places(self) -> [usize; 2] {
        match self {
            Direction::Push => [0, 1],
            Direction::Pull => [1, 0],
        }
    }
}

/// Whether a trial has what it is named after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialLimit {
    /// It is made scarce.
    Injected,
    /// It is ample: the control of a trial.
    Ample,
    /// The link is twice as wide; flows beside would fill that as well, so there are none.
    Wider,
}

/// What all trials have in common.
pub struct Common<'a> {
    pub programs: &'a Programs,
    /// Directory for traces.
    pub traces: Option<&'a Path>,
    pub interrupted: &'a AtomicBool,
}

/// One trial.
#[derive(Clone, Debug)]
pub struct Trial {
    pub case: Case,
    pub number: u64,
    pub direction: Direction,
    pub drawn: Drawn,
    /// What copies.
    pub copier: Copier,
}

/// The two hosts, and what joins them.
struct Network {
    hosts: [Host; 2],
    namespaces: [Namespace; 2],
    /// Removed after the hosts are done with it.
    joined: Joined,
}

enum Joined {
    Emulated(Emulator),
    Wire(#[expect(dead_code, reason = "held for what dropping it takes down")] Pair),
}

impl Network {
    fn new(trial: &Trial, limit: TrialLimit, folder: &Path) -> Result<Network, String> {
        let (hosts, joined) = match trial.drawn_at(limit).link(trial.number) {
            Some(spec) => {
                let spec = LinkSpec::read(&spec, &[]).map_err(|error| error.to_string())?;
                let emulator = Emulator::start(&spec, folder)?;
                let [first, second] = emulator.hosts() else {
                    return Err("a path needs two hosts".to_owned());
                };
                ([first.clone(), second.clone()], Joined::Emulated(emulator))
            }
            None => {
                let pair = Pair::new("explain").map_err(|error| error.to_string())?;
                (pair.hosts().clone(), Joined::Wire(pair))
            }
        };
        let namespaces = [Namespace::open(&hosts[0].namespace)?, Namespace::open(&hosts[1].namespace)?];
        Ok(Network { hosts, namespaces, joined })
    }
}

impl Network {
    /// The clock of the outages starts now.
    fn reset(&self) -> Result<(), String> {
        match &self.joined {
            Joined::Emulated(emulator) => emulator.reset(),
            Joined::Wire(_) => Ok(()),
        }
    }

    /// The emulator's socket, if there is an emulator.
    fn control(&self) -> Option<PathBuf> {
        match &self.joined {
            Joined::Emulated(emulator) => Some(emulator.control().to_owned()),
            Joined::Wire(_) => None,
        }
    }
}

impl Trial {
    /// The trial's line, before it is known what was named.
    pub fn line(&self) -> Line {
        Line {
            case: self.case.name().to_owned(),
            expected: self.case.expected().to_owned(),
            trial: self.number,
            direction: Some(self.direction.name().to_owned()),
            copier: (self.copier != Copier::Fobs).then(|| self.copier.name().to_owned()),
            drawn: self.drawn.clone(),
            ..Line::default()
        }
    }

    /// Makes the copy. A copy that fails is a result; an error says that the trial could not be made.
    pub fn run(&self, common: &Common, limit: TrialLimit) -> Result<Line, String> {
        let mut data = Data::new(self.number)?;
        let (folder, destination) = (data.folder().join("private"), data.folder().join("arrived"));
        for folder in [&folder, &destination] {
            fs::create_dir_all(folder)
                .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        }
        let source = data.source(self.drawn.bytes(), 1)?.path;
        let network = Network::new(self, limit, &folder)?;
        let (mut source, mut destination) = (source, destination);
        let disk = self.disk(common, &folder, &source)?;
        match (self.case, &disk) {
            (Case::SourceDisk, Some(disk)) => {
                source = disk.folder.join(source.file_name().unwrap_or_default());
            }
            (Case::DestinationDisk | Case::LossAndSlowDisk, Some(disk)) => {
                destination.clone_from(&disk.folder)
            }
            _ => {}
        }
        let options = self.options(common, limit)?;
        let task = self.task((common.programs, &options), &network, (source, destination), folder);
        let name = self.copier.name();
        let mut launch = by_name(name).ok_or_else(|| format!("there is no tool {name}"))?.launch(&task)?;
        let quota = self.drawn.cpu_share.map(CpuQuota::new).transpose()?;
        let record = self.trace(common, limit)?;
        let _allowed = self.settle(common, &network, &mut launch, (quota.as_ref(), record.as_deref()))?;
        let _buffers = self.small_buffers(limit, &mut launch)?;
        self.small_windows(&network)?;
        let group = Group::new("traffic");
        let [sender, receiver] = self.direction.places();
        let namespaces = [&network.namespaces[sender], &network.namespaces[receiver]];
        let flows = self.drawn_at(limit).flows;
        let flows = flows.map(|count| Flows::start(count, &task, namespaces, &group)).transpose()?;
        let output = self.copy(common, &network, &launch, quota.as_ref())?;
        drop(flows);
        Ok(self.outcome(&output))
    }

    /// What the trial has, or its control.
    fn drawn_at(&self, limit: TrialLimit) -> Drawn {
        match limit {
            TrialLimit::Injected => self.drawn.clone(),
            TrialLimit::Ample => self.drawn.undisturbed(),
            TrialLimit::Wider => self.case.wider(&self.drawn),
        }
    }

    /// The disk that is slow, if one is.
    fn disk(&self, common: &Common, folder: &Path, source: &Path) -> Result<Option<SlowDisk>, String> {
        let Some(rate) = self.drawn.disk_mb_s else { return Ok(None) };
        let content = (self.case == Case::SourceDisk).then_some(source);
        let disk = SlowDisk::new(common.programs, folder, self.drawn.bytes() + DISK_ROOM_BYTES, content)?;
        disk.throttle(u64::from(rate) * 1_000_000)?;
        Ok(Some(disk))
    }

    /// Options of the laboratory's tool `fobs`.
    fn options(&self, common: &Common, limit: TrialLimit) -> Result<Options, String> {
        let mut arguments = vec!["--explain".to_owned()];
        if let Some(trace) = self.trace(common, limit)? {
            arguments.extend(["--trace".to_owned(), trace.display().to_string()]);
        }
        let mut options = Options::new();
        options.insert("call".to_owned(), self.direction.name().into());
        if self.copier != Copier::Fobs {
            return Ok(options);
        }
        if let Some(rate) = self.drawn.cap_mbit {
            options.insert("rate".to_owned(), format!("{rate}Mbit").into());
        }
        if self.drawn.window_kib.is_some() {
            options.insert("transport".to_owned(), "tcp:1".into());
        }
        options.insert("args".to_owned(), arguments.into());
        if let Some(cc) = &self.drawn.cc {
            options.insert("cc".to_owned(), cc.clone().into());
        }
        Ok(options)
    }

    /// Where the trace goes, if it is kept.
    fn trace(&self, common: &Common, limit: TrialLimit) -> Result<Option<PathBuf>, String> {
        let (Some(folder), TrialLimit::Injected) = (common.traces, limit) else { return Ok(None) };
        fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        let trace = folder.join(format!("{}-{}.jsonl", self.case.name().replace(' ', "-"), self.number));
        Ok(Some(std::path::absolute(&trace).unwrap_or(trace)))
    }

    fn task<'a>(
        &self,
        (programs, options): (&'a Programs, &'a Options),
        network: &Network,
        (source, destination): (PathBuf, PathBuf),
        directory: PathBuf,
    ) -> Task<'a> {
        let [sender, receiver] = self.direction.places().map(|place| network.hosts[place].clone());
        // The tool `fobs` reads nothing of the path.
        let rate_bps = self.drawn.rate_mbit.map_or(f64::INFINITY, |rate| rate * 1e6);
        let path = PathFacts {
            rate_bps,
            return_rate_bps: rate_bps,
            rtt: Duration::from_millis(u64::from(self.drawn.rtt_ms.unwrap_or(0))),
            queue_bytes: 0,
            mtu: 1500,
        };
        let amount = Amount::Bytes(self.drawn.bytes());
        Task { options, programs, path, sender, receiver, amount, source, destination, directory, index: 0 }
    }

    /// Has another program watched, on hosts with the kernel's usual TCP.
    fn settle(
        &self,
        common: &Common,
        network: &Network,
        launch: &mut Launch,
        (quota, record): (Option<&CpuQuota>, Option<&Path>),
    ) -> Result<Option<AllAllowed>, String> {
        if self.copier == Copier::Fobs {
            return Ok(None);
        }
        let allowed = AllAllowed::new()?;
        other::settle(&network.namespaces)?;
        other::watched(launch, common.programs, quota, record)?;
        Ok(Some(allowed))
    }

    /// A small receive buffer for a receiver that may not exceed it; ample for the control.
    fn small_buffers(
        &self,
        limit: TrialLimit,
        launch: &mut Launch,
    ) -> Result<Option<ReceiveBuffers>, String> {
        let Some(small) = self.drawn.rmem_max else { return Ok(None) };
        let receiver = match launch.side {
            Side::Receiver => &mut launch.client,
            Side::Sender => {
                launch.servers.first_mut().map(|server| &mut server.program).ok_or("no daemon")?
            }
        };
        receiver.words.splice(0..0, UNPRIVILEGED.map(Into::into));
        ReceiveBuffers::new(if limit == TrialLimit::Injected { small } else { AMPLE_BUFFER }).map(Some)
    }

    /// A small window of TCP at the receiver, where one is drawn.
    fn small_windows(&self, network: &Network) -> Result<(), String> {
        let Some(kib) = self.drawn.window_kib else { return Ok(()) };
        let [_, receiver] = self.direction.places();
        // The kernel's overhead takes half of the buffer.
        let bytes = u64::from(kib) << 11;
        let value = format!("4096 {bytes} {bytes}");
        network.namespaces[receiver].set_sysctls(&[("net/ipv4/tcp_rmem", value)])
    }

    /// Starts both ends and waits for the client.
    fn copy(
        &self,
        common: &Common,
        network: &Network,
        launch: &Launch,
        quota: Option<&CpuQuota>,
    ) -> Result<Output, String> {
        let [sender, receiver] = self.direction.places();
        let namespace = |side| &network.namespaces[if side == Side::Sender { sender } else { receiver }];
        let starved = match self.case {
            // A watched program enters its quota itself.
            Case::SenderCpu if self.copier == Copier::Fobs => Some(Side::Sender),
            Case::ReceiverCpu | Case::TrafficAndStarvedReceiver => Some(Side::Receiver),
            _ => None,
        };
        let group = Group::new("trial");
        let start = |program, side| {
            let process = Process::start(program, namespace(side), &group, &[])?;
            match (quota, starved) {
                (Some(quota), Some(starved)) if starved == side => quota.take(process.pid())?,
                _ => {}
            }
            Ok::<_, String>(process)
        };
        let server = launch.servers.first().ok_or("no daemon")?;
        let mut daemon = start(&server.program, server.side)?;
        wait_ready(&mut daemon, server.ready)?;
        network.reset()?;
        let started = Instant::now();
        let mut client = start(&launch.client, launch.side)?;
        let step = network.control().and_then(|control| Step::start(&self.drawn, control, started));
        let stops = if self.case == Case::StoppedSender { Side::Sender } else { Side::Receiver };
        let paused = if launch.side == stops { &client } else { &daemon };
        let pauses = match (self.drawn.off_ms, self.drawn.every_ms) {
            (Some(off), Some(every)) => {
                let [off, every] = [off, every].map(|ms| Duration::from_millis(u64::from(ms)));
                Some(Pauses::start(paused.handle()?, off, every))
            }
            _ => None,
        };
        let deadline = started + TIMEOUT;
        while client.ended().is_none()
            && Instant::now() < deadline
            && !common.interrupted.load(Ordering::Relaxed)
        {
            wait_any(&[client.end_fd()], deadline.min(Instant::now() + ATTENTION));
        }
        drop((pauses, step));
        if client.ended().is_none() {
            return Err(format!("the copy was not done within {} s", TIMEOUT.as_secs()));
        }
        daemon.stop(Signal::TERM);
        Ok(client.output(started))
    }

    /// What the copy named.
    fn outcome(&self, output: &Output) -> Line {
        let events = output.lines.iter().rev();
        let last: Value =
            events.filter_map(|(_, line)| serde_json::from_str(line).ok()).next().unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        if output.exit != Some(0) {
            let error = text(&last["message"]).or_else(|| output.complaint().map(str::to_owned));
            return Line { error: error.or(Some("it did not say why".to_owned())), ..self.line() };
        }
        let watched = other::explanation(output);
        let explain = if self.copier == Copier::Fobs { &last["explain"] } else { &watched };
        Line {
            limit: text(&explain["limit"]),
            share: explain["share"].as_f64(),
            sentence: text(&explain["sentence"]),
            seconds: last["seconds"].as_f64(),
            goodput_bps: last["goodput_bps"].as_f64().or(explain["goodput_bps"].as_f64()),
            ..self.line()
        }
    }
}
