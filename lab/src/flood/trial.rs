//! One copy, with or without an attack on an end.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::attack::{self, Sent};
use crate::record::End;
use crate::run::data::Source;
use crate::run::group::Group;
use crate::run::pair::Pair;
use crate::run::process::{Process, wait_any};
use crate::run::ready::wait_ready;
use crate::tool::{Launch, Output, Outputs, Side, Task, by_name};

/// A copy that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(300);
/// A signal to this program is seen within this time.
const ATTENTION: Duration = Duration::from_millis(200);

/// An attack.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Ends that get forged datagrams.
    pub at: &'static [Side],
    /// How many at each, a second.
    pub per_second: u64,
    /// Of what is forged.
    pub seed: u64,
}

/// What a copy was like.
#[derive(Debug)]
pub struct Trial {
    /// File bytes over the time from the first packet to the last verified chunk, bits a second.
    pub goodput_bps: f64,
    /// That time, seconds.
    pub seconds: f64,
    /// CPU seconds of client and server.
    pub cpu_s: [f64; 2],
    /// Datagrams that both ends dropped as malformed, forged or replayed, and those that their sockets had no
    /// room for at the receiver.
    pub rejected: u64,
    pub socket_drops: u64,
    /// Data packets sent beyond those needed, relative to them.
    pub waste: f64,
    /// What was forged at each end that was attacked.
    pub forged: Vec<Sent>,
}

/// Runs the programs of `launch`, and the attack, if there is one, for as long as the client runs.
pub fn run(
    pair: &Pair,
    task: &Task,
    (launch, source): (&Launch, &Source),
    plan: Option<Plan>,
    interrupted: &AtomicBool,
) -> Result<Trial, String> {
    let groups = [Group::new("client"), Group::new("server")];
    let [client_host, server_host] = pair.namespaces();
    let mut servers = Vec::new();
    for server in &launch.servers {
        let mut process = Process::start(&server.program, server_host, &groups[1], &[])?;
        wait_ready(&mut process, server.ready)?;
        servers.push(process);
    }
    let stop = AtomicBool::new(false);
    let (client, forged) = thread::scope(|scope| {
        let attackers: Vec<_> = plan
            .iter()
            .flat_map(|plan| plan.at.iter().map(move |at| (*at, *plan)))
            .map(|(at, plan)| {
                let stop = &stop;
                scope.spawn(move || attack(pair, task, at, plan, stop))
            })
            .collect();
        let client = Process::start(&launch.client, client_host, &groups[0], &[]).map(|mut client| {
            let start = Instant::now();
            while client.ended().is_none()
                && start.elapsed() < TIMEOUT
                && !interrupted.load(Ordering::Relaxed)
            {
                wait_any(&[client.end_fd()], Instant::now() + ATTENTION);
            }
            if client.ended().is_none() {
                client.stop(Signal::INT);
            }
            (start, client)
        });
        stop.store(true, Ordering::Relaxed);
        let forged: Result<Vec<Sent>, String> = attackers
            .into_iter()
            .map(|attacker| attacker.join().map_err(|_| "the attacker panicked".to_owned())?)
            .collect();
        (client, forged)
    });
    if interrupted.load(Ordering::Relaxed) {
        return Err("stopped by a signal".to_owned());
    }
    let ((start, mut client), forged) = (client?, forged?);
    let output = client.output(start);
    let said = |output: &Output| output.complaint().unwrap_or("it said nothing").to_owned();
    if output.exit != Some(0) {
        let server = servers.first_mut().map(|server| server.output(start));
        let server = server.as_ref().map_or_else(String::new, said);
        return Err(format!("the copy failed: {}; the server: {server}", said(&output)));
    }
    figures(task, source, output, forged)
}

/// Sends forged datagrams to one end, in the name of the other and from its place.
fn attack(pair: &Pair, task: &Task, at: Side, plan: Plan, stop: &AtomicBool) -> Result<Sent, String> {
    let [client_host, server_host] = pair.namespaces();
    let (host, namespace) = match at {
        Side::Receiver => (&task.sender, client_host),
        Side::Sender => (&task.receiver, server_host),
    };
    let host: Ipv4Addr = host.address.parse().map_err(|error| format!("{}: {error}", host.address))?;
    namespace
        .within(|| attack::run(host, plan.per_second, plan.seed, stop))?
        .map_err(|error| format!("cannot forge datagrams: {error}"))
}

/// Compares what arrived, and reads what the client says of itself.
fn figures(task: &Task, source: &Source, output: Output, forged: Vec<Sent>) -> Result<Trial, String> {
    let outputs = Outputs { client: output, servers: Vec::new(), end: End::Complete };
    let tool = by_name("fobs").ok_or("there is no tool fobs")?;
    let report = tool.figures(task, &outputs)?.report;
    source.compare(&task.arrival())?;
    std::fs::remove_file(task.arrival()).map_err(|error| format!("cannot remove the copy: {error}"))?;
    let figure = |name: &str| report[name].as_f64().ok_or(format!("fobs reported no {name}"));
    Ok(Trial {
        goodput_bps: figure("goodput_bps")?,
        seconds: figure("seconds")?,
        cpu_s: [figure("cpu_seconds")?, figure("cpu_seconds_peer")?],
        rejected: figure("datagrams_rejected")? as u64,
        socket_drops: figure("socket_drops")? as u64,
        waste: figure("waste")?,
        forged,
    })
}
