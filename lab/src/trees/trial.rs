//! One run of one contestant: its time, when its first entry arrived, and what each end spent.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Serialize;

use super::path::TreePath;
use crate::bench::peak::peaks;
use crate::bench::record::Ends;
use crate::run::group::Group;
use crate::run::over::{Over, Watch};
use crate::run::process::Process;
use crate::run::ready::wait_ready;
use crate::tool::{Launch, Side};

/// A run that takes longer has failed: a million files take minutes where the path is slow.
const TIMEOUT: Duration = Duration::from_secs(900);
/// How often the destination is looked at until something is there; the first arrival is known this well.
const LOOK: Duration = Duration::from_millis(5);
/// A server's child may live a moment longer than the client, and its time belongs to the run.
const AFTERMATH: Duration = Duration::from_millis(50);

/// What a run showed.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// What was done.
    pub act: &'static str,
    /// Who did it.
    pub contestant: String,
    /// Of the whole command.
    pub seconds: f64,
    /// From the command's start until the destination had an entry; none where it had one before.
    pub first_arrival_s: Option<f64>,
    /// CPU seconds.
    pub cpu_s: Ends<Option<f64>>,
    /// Largest peak of resident memory of any one process.
    pub rss_bytes: Ends<u64>,
    /// Bytes that the devices of the receiving host and of the sending host took in.
    pub wire_bytes: Ends<u64>,
    /// Why it does not count, if it does not.
    pub doubts: Vec<String>,
}

/// Runs a contestant's programs once, into `destination`.
///
/// # Errors
/// One sentence: a program could not be started, failed or was not done in time.
pub fn run(
    path: &TreePath,
    launch: &Launch,
    (act, contestant): (&'static str, &str),
    destination: &Path,
) -> Result<Trial, String> {
    path.reset()?;
    let groups = Ends { client: Group::new("client"), server: Group::new("server") };
    let [client_side, server_side] = &path.namespaces;
    let mut servers = Vec::new();
    for server in &launch.servers {
        let places = path.processors(Side::Receiver);
        let mut process = Process::start(&server.program, server_side, &groups.server, &places)?;
        wait_ready(&mut process, server.ready)?;
        servers.push(process);
    }
    let mut devices = Ends { client: client_side.devices()?, server: server_side.devices()? };
    let mut taken = || -> Result<Ends<u64>, String> {
        let failed = |error| format!("cannot read device counters: {error}");
        let client = devices.client.received_bytes().map_err(failed)?;
        Ok(Ends { client, server: devices.server.received_bytes().map_err(failed)? })
    };
    let (before, wire_before) = (groups.server.cpu_s(), taken()?);
    let over = Over::default();
    let (watch_memory, watch_arrival) = (over.watch(), over.watch());
    let is_fresh = first_entry(destination).is_none();
    let (start, client, rss_bytes, arrival) = thread::scope(|scope| {
        let memory = scope.spawn(|| peaks(&groups, &watch_memory));
        let arrival = scope.spawn(|| if is_fresh { arrival(destination, &watch_arrival) } else { None });
        let start = Instant::now();
        let places = path.processors(Side::Sender);
        let client = Process::start(&launch.client, client_side, &groups.client, &places);
        let client = client.map(|mut client| {
            client.wait(start + TIMEOUT);
            client
        });
        drop(over);
        (start, client, memory.join().unwrap_or_default().0, arrival.join().unwrap_or_default())
    });
    let mut client = client?;
    let Some((ended, status)) = client.ended() else {
        return Err(format!("{} was not done within {} s", client.name(), TIMEOUT.as_secs()));
    };
    thread::sleep(AFTERMATH);
    let server_cpu_s = groups.server.cpu_s().zip(before).map(|(now, before)| now - before);
    let wire = taken()?;
    let doubts = path.doubts()?;
    servers.iter_mut().for_each(|server| server.stop(Signal::TERM));
    if !status.success() {
        let output = client.output(start);
        let why = output.complaint().unwrap_or("it did not say why");
        return Err(format!("{} ended with {status}: {why}", client.name()));
    }
    Ok(Trial {
        act,
        contestant: contestant.to_owned(),
        seconds: ended.saturating_duration_since(start).as_secs_f64(),
        first_arrival_s: arrival.map(|at| at.saturating_duration_since(start).as_secs_f64()),
        cpu_s: Ends { client: groups.client.cpu_s(), server: server_cpu_s },
        rss_bytes,
        wire_bytes: Ends {
            client: wire.client - wire_before.client,
            server: wire.server - wire_before.server,
        },
        doubts,
    })
}

/// When the destination got its first entry.
fn arrival(destination: &Path, over: &Watch) -> Option<Instant> {
    while !over.is_over() {
        if first_entry(destination).is_some() {
            return Some(Instant::now());
        }
        thread::sleep(LOOK);
    }
    None
}

/// Some entry that is no journal, lock or other hidden file.
fn first_entry(destination: &Path) -> Option<()> {
    let entries = fs::read_dir(destination).ok()?.flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.find(|name| !name.as_encoded_bytes().starts_with(b".")).map(drop)
}
