//! One flow of a run: its servers, its client, how it ended and what it amounts to.

use std::fs;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::data::{Source, bytes_below};
use super::group::Group;
use super::places::Places;
use super::process::{GRACE, Process};
use super::ready::wait_ready;
use super::stage::Stage;
use crate::plan::{Extent, PlannedFlow, Role};
use crate::record::{End, Flow as Record};
use crate::tool::{After, Amount, Figures, History, Launch, Output, Outputs, Side, Stop, Stores, Task};

/// A server that ends by itself after its client does so within this time: some round trips of a long path.
const LAST: Duration = Duration::from_secs(5);

/// A flow that is being run.
pub struct Flow<'a> {
    planned: &'a PlannedFlow,
    extent: Extent,
    task: Task<'a>,
    launch: Launch,
    source: Option<Source>,
    sender: FlowEnd,
    receiver: FlowEnd,
    servers: Vec<Process>,
    client: Option<Process>,
    started: Option<Instant>,
    /// When and how the client ended, or was stopped.
    over: Option<(Instant, Over)>,
}

/// One end's control group, its CPU seconds before the client was started, and the processors that it is
/// bound to; to none where it may run anywhere.
struct FlowEnd {
    group: Group,
    before: Option<f64>,
    on: Vec<usize>,
}

/// How a client came to its end.
enum Over {
    /// By itself, with or without success.
    Itself,
    /// The runner stopped it, by the plan.
    Stopped,
    /// The runner stopped it because it took too long.
    TimedOut,
    /// It could not be started.
    NotStarted(String),
}

impl<'a> Flow<'a> {
    /// Takes over a flow whose programs are known; `names` are for its control groups.
    pub fn new(
        planned: &'a PlannedFlow,
        extent: Extent,
        task: Task<'a>,
        launch: Launch,
        source: Option<Source>,
        names: [&str; 2],
    ) -> Flow<'a> {
        let end = |name| FlowEnd { group: Group::new(name), before: None, on: Vec::new() };
        let [sender, receiver] = names.map(end);
        let (servers, client) = (Vec::new(), None);
        Flow {
            planned,
            extent,
            task,
            launch,
            source,
            sender,
            receiver,
            servers,
            client,
            started: None,
            over: None,
        }
    }

    /// What is to be moved.
    pub fn task(&self) -> &Task<'a> {
        &self.task
    }

    /// Its programs.
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// Binds what will be started on both hosts to their processors.
    pub fn place(&mut self, places: &Places) {
        self.sender.on = places.of(&self.task.sender.name, Side::Sender);
        self.receiver.on = places.of(&self.task.receiver.name, Side::Receiver);
    }

    /// Starts the servers, each once the one before is ready, makes the copy that is not counted, if there is
    /// to be one, and notes the CPU time that this took.
    pub fn prepare(&mut self, stage: &Stage, timeout: Duration) -> Result<(), String> {
        for server in &self.launch.servers {
            let host = stage.host(&self.task.host(server.side).name)?;
            let end = self.end(server.side);
            let process = Process::start(&server.program, &host.namespace, &end.group, &end.on)?;
            self.servers.push(process);
            let ready = server.ready;
            if let Some(process) = self.servers.last_mut() {
                wait_ready(process, ready)?;
            }
        }
        if self.launch.history == History::Remembered {
            self.meet_path(stage, timeout)
                .map_err(|why| format!("the copy before the one that counts: {why}"))?;
        }
        for end in [&mut self.sender, &mut self.receiver] {
            end.before = end.group.cpu_s();
        }
        Ok(())
    }

    /// Runs the client once so that it learns the path, and removes what it stored.
    fn meet_path(&self, stage: &Stage, timeout: Duration) -> Result<(), String> {
        let host = stage.host(&self.task.host(self.launch.side).name)?;
        let end = self.end(self.launch.side);
        let started = Instant::now();
        let mut client = Process::start(&self.launch.client, &host.namespace, &end.group, &end.on)?;
        let name = client.name().to_owned();
        match client.wait(started + timeout) {
            None => return Err(format!("{name} was not done within {} s", timeout.as_secs_f64())),
            Some((_, status)) if !status.success() => {
                let output = client.output(started);
                let why = output.complaint().unwrap_or("it did not say why");
                return Err(format!("{name} ended with {status}: {why}"));
            }
            Some(_) => {}
        }
        let arrival = self.task.arrival();
        fs::remove_file(&arrival).map_err(|error| format!("cannot remove {}: {error}", arrival.display()))
    }

    /// Starts the client if its time has come; `start` is the run's start.
    pub fn begin(&mut self, stage: &Stage, start: Instant, now: Instant) {
        if self.started.is_some() || now < start + self.planned.start {
            return;
        }
        let host = stage.host(&self.task.host(self.launch.side).name);
        self.started = Some(Instant::now());
        let end = self.end(self.launch.side);
        let client = &self.launch.client;
        match host.and_then(|host| Process::start(client, &host.namespace, &end.group, &end.on)) {
            Ok(client) => self.client = Some(client),
            Err(error) => self.over = Some((now, Over::NotStarted(error))),
        }
    }

    /// Looks whether the client has ended, and stops it if its time is over.
    pub fn look(&mut self, now: Instant) {
        let Some(client) = self.client.as_mut().filter(|_| self.over.is_none()) else { return };
        if let Some((at, _)) = client.ended() {
            self.over = Some((at, Over::Itself));
        } else if self.stop_at().is_some_and(|at| now >= at) {
            self.stop(Over::Stopped);
        }
    }

    /// When this flow needs attention next, besides at its client's end.
    pub fn next(&self, start: Instant) -> Option<Instant> {
        match (self.started, &self.over) {
            (None, None) => Some(start + self.planned.start),
            (Some(_), None) => self.stop_at(),
            _ => None,
        }
    }

    /// Readable at the client's end, while it runs.
    pub fn end_fd(&self) -> Option<BorrowedFd<'_>> {
        self.client.as_ref().filter(|_| self.over.is_none()).map(Process::end_fd)
    }

    /// Whether the run has to go on for this flow.
    pub fn is_awaited(&self) -> bool {
        self.planned.role == Role::Main && self.over.is_none()
    }

    /// Seconds after `start` at which the client was started and ended.
    pub fn span(&self, start: Instant) -> Option<(f64, f64)> {
        let seconds = |at: Instant| at.saturating_duration_since(start).as_secs_f64();
        Some((seconds(self.started?), seconds(self.over.as_ref()?.0)))
    }

    /// Stops a client that still runs: a background flow as planned, a main flow because it took too long.
    pub fn finish(&mut self) {
        if self.over.is_none() {
            match (self.planned.role, self.started) {
                (_, None) => {
                    let why = "the run was over before its time to start had come".to_owned();
                    self.over = Some((Instant::now(), Over::NotStarted(why)));
                }
                (Role::Background, _) => self.stop(Over::Stopped),
                (Role::Main, _) => self.stop(Over::TimedOut),
            }
        }
    }

    /// Waits for the programs' ends, and ends what does not: the servers' last output counts.
    pub fn settle(&mut self) {
        if let Some(client) = &mut self.client
            && client.wait(Instant::now() + GRACE).is_none()
        {
            client.stop(Signal::KILL);
        }
        for (process, server) in self.servers.iter_mut().zip(&self.launch.servers) {
            if server.after == After::Waited {
                process.wait(Instant::now() + LAST);
            }
            process.stop(Signal::TERM);
        }
        self.sender.group.kill();
        self.receiver.group.kill();
    }

    /// What the flow did; after [`Flow::settle`]. `timeout` is the run's.
    pub fn record(&mut self, start: Instant, timeout: Duration) -> (Record, Figures) {
        let started = self.started.unwrap_or(start);
        let ended = self.over.as_ref().map_or(started, |(at, _)| *at);
        let wall_s = ended.saturating_duration_since(started).as_secs_f64();
        let client = self.client.as_mut().map(|client| client.output(started)).unwrap_or_default();
        let servers = self.servers.iter_mut().map(|server| server.output(started)).collect();
        let (mut end, mut error) = self.ending(&client, timeout);
        let outputs = Outputs { end, client, servers };
        let figures = self.planned.tool.figures(&self.task, &outputs).unwrap_or_else(|why| {
            if end == End::Complete {
                end = End::Failed;
            }
            error = Some(why);
            Figures::default()
        });
        let mut verified = None;
        if let (End::Complete, Some(source)) = (end, self.stored()) {
            let compared = source.compare(&self.task.arrival());
            verified = Some(compared.is_ok());
            if let Err(why) = compared {
                (end, error) = (End::Failed, Some(why));
            }
        }
        let bytes = match (end, self.stored(), figures.bytes) {
            (End::Complete, Some(source), _) => source.bytes,
            (_, _, Some(bytes)) => bytes,
            (_, Some(_), None) => bytes_below(&self.task.destination),
            (_, None, None) => 0,
        };
        let rate = |seconds: f64| (bytes > 0 && seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds);
        let counts = end != End::Failed;
        let goodput =
            figures.goodput_bps.or_else(|| rate(figures.data_s.unwrap_or(wall_s))).filter(|_| counts);
        let cpu = |end: &FlowEnd| Some(to_micro(end.group.cpu_s()? - end.before?));
        let record = Record {
            tool: self.planned.tool.name().to_owned(),
            label: self.planned.label.clone(),
            options: serde_json::to_value(&self.planned.options).unwrap_or(Value::Null),
            from: self.task.sender.name.clone(),
            to: self.task.receiver.name.clone(),
            start_s: to_micro(started.saturating_duration_since(start).as_secs_f64()),
            wall_s: to_micro(wall_s),
            data_s: figures.data_s.map(to_micro),
            bytes,
            goodput_bps: goodput.map(f64::round),
            wall_goodput_bps: rate(wall_s).filter(|_| counts).map(f64::round),
            share: goodput.map(|goodput| to_micro(goodput / self.task.path.rate_bps)),
            overlap_bps: None,
            cpu_sender_s: cpu(&self.sender),
            cpu_receiver_s: cpu(&self.receiver),
            verified,
            end,
            exit: outputs.client.exit,
            error,
            report: figures.report.clone(),
            series_of: None,
            series: Vec::new(),
        };
        (record, figures)
    }

    /// How the client ended, before its output is interpreted.
    fn ending(&self, client: &Output, timeout: Duration) -> (End, Option<String>) {
        let name = self.planned.tool.name();
        match &self.over {
            Some((_, Over::Stopped)) => (End::Stopped, None),
            Some((_, Over::TimedOut)) => {
                (End::TimedOut, Some(format!("{name} was not done within {} s", timeout.as_secs_f64())))
            }
            Some((_, Over::NotStarted(why))) => (End::Failed, Some(why.clone())),
            Some((_, Over::Itself)) if client.exit == Some(0) => (End::Complete, None),
            Some((_, Over::Itself)) | None => {
                let how = client.exit.map_or("a signal".to_owned(), |exit| format!("exit code {exit}"));
                let why = client.complaint().unwrap_or("it did not say why");
                (End::Failed, Some(format!("{name} ended with {how}: {why}")))
            }
        }
    }

    /// What should lie at the destination in the end, if anything.
    fn stored(&self) -> Option<&Source> {
        self.source.as_ref().filter(|_| self.launch.stores == Stores::File)
    }

    /// When the runner has to stop the client.
    fn stop_at(&self) -> Option<Instant> {
        match (self.extent, self.launch.stop) {
            (Extent::Time(duration), Stop::ByRunner) => Some(self.started? + duration),
            _ => None,
        }
    }

    fn stop(&mut self, how: Over) {
        if let Some(client) = &mut self.client {
            client.signal(Signal::INT);
        }
        self.over = Some((Instant::now(), how));
    }

    fn end(&self, side: Side) -> &FlowEnd {
        match side {
            Side::Sender => &self.sender,
            Side::Receiver => &self.receiver,
        }
    }
}

/// What a tool has to move; `timeout` is the run's.
pub fn amount(planned: &PlannedFlow, extent: Extent, timeout: Duration) -> Amount {
    match extent {
        Extent::Bytes(bytes) => Amount::Bytes(bytes),
        Extent::Time(duration) => Amount::Time(duration),
        Extent::Rest => Amount::Time(timeout.saturating_sub(planned.start)),
    }
}

/// Bytes of the file for an amount: for a time, what the path carries in it, headers included, so that no
/// payload can be done before.
pub fn source_bytes(amount: Amount, rate_bps: f64) -> u64 {
    match amount {
        Amount::Bytes(bytes) => bytes,
        Amount::Time(time) => (rate_bps / 8.0 * time.as_secs_f64()).ceil() as u64,
    }
}

/// To six decimals: a clock's noise is larger, and records stay short.
pub fn to_micro(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_for_a_time_is_more_than_the_path_carries() {
        assert_eq!(source_bytes(Amount::Bytes(7), 1e9), 7);
        assert_eq!(source_bytes(Amount::Time(Duration::from_secs(10)), 1e8), 125_000_000);
    }
}
