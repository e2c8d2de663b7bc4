//! One run of one contestant: its wall time, the CPU seconds of each end and the peak memory of each end.
//!
//! Each end runs in a control group of its own, so helpers (ssh, the children of sshd, tar) count, too.
//! Kernel work in a process's name is in its CPU time; work in soft interrupts is charged to the process that
//! was running.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::arena::{Arena, STOPPED};
use super::contestant::{Contestant, Way};
use super::peak::peaks;
use super::record::{Ends, Record, ThreadTimes};
use crate::record::End;
use crate::run::group::Group;
use crate::run::over::Over;
use crate::run::process::{Process, wait_any};
use crate::run::ready::wait_ready;
use crate::tool::{After, Launch, Output, Outputs, Task, by_name};

/// A run that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(300);
/// A signal to the bench is seen within this time.
const ATTENTION: Duration = Duration::from_millis(200);
/// A server's child may live a moment longer than the client, and its time belongs to the run.
const AFTERMATH: Duration = Duration::from_millis(50);
/// A server that ends by itself does so within this time.
const LAST: Duration = Duration::from_secs(30);

/// Runs a contestant's programs once.
pub fn run(arena: &Arena, launch: &Launch) -> Result<Trial, String> {
    let groups = Ends { client: Group::new("client"), server: Group::new("server") };
    let [client_side, server_side] = arena.pair.namespaces();
    let mut servers = Vec::new();
    for server in &launch.servers {
        let mut process = Process::start(&server.program, server_side, &groups.server, &[])?;
        wait_ready(&mut process, server.ready)?;
        servers.push(process);
    }
    let before = groups.server.cpu_s();
    let over = Over::default();
    let watch = over.watch();
    let (start, mut client, (peak, threads)) = thread::scope(|scope| {
        let watching = scope.spawn(|| peaks(&groups, &watch));
        let start = Instant::now();
        let client = Process::start(&launch.client, client_side, &groups.client, &[]).map(|mut client| {
            wait(arena, &mut client, start + TIMEOUT);
            client
        });
        drop(over);
        (start, client, watching.join().unwrap_or_default())
    });
    let client = client.as_mut().map_err(|error| error.clone())?;
    let Some((ended, status)) = client.ended() else {
        if arena.interrupted.load(Ordering::Relaxed) {
            return Err(STOPPED.to_owned());
        }
        return Err(format!("{} was not done within {} s", client.name(), TIMEOUT.as_secs()));
    };
    thread::sleep(AFTERMATH);
    let cpu_s = Ends {
        client: groups.client.cpu_s(),
        server: groups.server.cpu_s().zip(before).map(|(now, before)| now - before),
    };
    for (process, server) in servers.iter_mut().zip(&launch.servers) {
        if server.after == After::Waited {
            process.wait(Instant::now() + LAST);
        }
        process.stop(Signal::TERM);
    }
    let output = client.output(start);
    if !status.success() {
        let why = output.complaint().unwrap_or("it did not say why");
        return Err(format!("{} ended with {status}: {why}", client.name()));
    }
    let servers = servers.iter_mut().map(|server| server.output(start)).collect();
    let seconds = ended.saturating_duration_since(start).as_secs_f64();
    Ok(Trial { seconds, cpu_s, peak, threads, client: output, servers })
}

/// Waits for the client's end, a signal to the bench, or the deadline.
fn wait(arena: &Arena, client: &mut Process, deadline: Instant) {
    while client.ended().is_none() && Instant::now() < deadline && !arena.interrupted.load(Ordering::Relaxed)
    {
        wait_any(&[client.end_fd()], deadline.min(Instant::now() + ATTENTION));
    }
}

/// What a run showed.
pub struct Trial {
    seconds: f64,
    cpu_s: Ends<Option<f64>>,
    peak: Ends<u64>,
    threads: Ends<ThreadTimes>,
    client: Output,
    servers: Vec<Output>,
}

impl Trial {
    /// The run's record, with what the contestant reports of itself.
    pub fn record(
        self,
        part: &str,
        contestant: &Contestant,
        task: &Task,
        (rep, bytes): (u32, u64),
    ) -> Result<Record, String> {
        let bytes = contestant.bytes(bytes);
        let mut record = Record {
            v: Record::version(),
            part: part.to_owned(),
            name: contestant.name.clone(),
            rep,
            seconds: self.seconds,
            cpu_s: self.cpu_s,
            rss_bytes: self.peak,
            threads: None,
            bytes,
            gbps: (bytes > 0).then(|| bytes as f64 * 8.0 / self.seconds / 1e9),
            fobs: None,
            data_gbps: None,
            tcp: None,
        };
        match contestant.way {
            Way::Tool(tool @ ("fobs" | "iperf3")) => {
                let tool = by_name(tool).ok_or_else(|| format!("there is no tool {tool}"))?;
                let outputs = Outputs { end: End::Complete, client: self.client, servers: self.servers };
                let figures = tool.figures(task, &outputs)?;
                record.data_gbps = figures.goodput_bps.map(|rate| rate / 1e9);
                if tool.name() == "fobs" {
                    let peak = |key: &str| figures.report[key].as_u64().unwrap_or(0);
                    record.rss_bytes =
                        Ends { client: peak("max_rss_bytes"), server: peak("max_rss_bytes_peer") };
                    record.threads = Some(self.threads);
                    record.fobs = Some(figures.report);
                } else {
                    // Its clock starts when it is connected; it reports nothing of the time before.
                    record.gbps = record.data_gbps;
                    record.tcp = figures.report["sender_tcp_congestion"].as_str().map(str::to_owned);
                }
            }
            Way::Ceiling(_) => {
                let receiver = self.servers.first().and_then(|server| server.exit);
                if receiver != Some(0) {
                    let how = receiver.map_or("a signal".to_owned(), |exit| format!("exit code {exit}"));
                    return Err(format!("the ceiling's receiver ended with {how}"));
                }
            }
            Way::Tool(_) | Way::TarOverSsh | Way::Connect | Way::Discard(_) => {}
        }
        Ok(record)
    }

    /// Gbit/s over the whole command.
    pub fn gbps(&self, bytes: u64) -> f64 {
        bytes as f64 * 8.0 / self.seconds / 1e9
    }
}
