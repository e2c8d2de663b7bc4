//! Handle of running paths: start, query, change, stop.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::counters::Counters;
use super::emulation::{Command, Emulation, Order, bell, ring};
use super::host::{HostError, HostInfo, Hosts};
use super::spec::{LinkSpec, SpecError, Way};

/// Maximum number of commands that wait for the thread, which handles them at every wake-up.
const COMMANDS: usize = 16;
/// Timeout of an answer, which normally takes a tick; after seconds, the machine is overloaded.
const ANSWER: Duration = Duration::from_secs(5);

/// Paths that are being emulated, between the same hosts. The hosts are removed on drop.
pub struct Emulator {
    hosts: Hosts,
    /// For each path; there is one at least.
    remotes: Vec<Remote>,
    thread: Option<JoinHandle<Vec<Counters>>>,
}

/// Queries and changes of a path, usable from any thread.
#[derive(Clone)]
pub struct Remote {
    path: usize,
    commands: SyncSender<Command>,
    wake: Arc<OwnedFd>,
    /// The present spec. Locked during a change, so that changes are applied in order.
    spec: Arc<Mutex<LinkSpec>>,
}

/// Why a path did not execute a command.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("the emulator does not answer: it has stopped, or the machine is overloaded")]
    Silent,
}

impl Emulator {
    /// Creates the hosts and starts the emulation of one path.
    ///
    /// # Errors
    ///
    /// See [`Hosts::make`].
    pub fn start(spec: &LinkSpec) -> Result<Emulator, HostError> {
        Emulator::start_all(std::slice::from_ref(spec))
    }

    /// The same with several paths between the hosts, which all specs name alike.
    ///
    /// # Errors
    ///
    /// See [`Hosts::make`].
    pub fn start_all(specs: &[LinkSpec]) -> Result<Emulator, HostError> {
        let (hosts, ports) = Hosts::make(specs)?;
        let failed = |error: io::Error| HostError::Failed(format!("cannot start the emulator: {error}"));
        let wake = Arc::new(bell().map_err(failed)?);
        let (commands, received) = sync_channel(COMMANDS);
        let emulation = Emulation::new(specs, ports, received, Arc::clone(&wake));
        let thread = std::thread::Builder::new().name("fobs-link".to_owned()).spawn(move || emulation.run());
        let remote = |(path, spec): (usize, &LinkSpec)| Remote {
            path,
            commands: commands.clone(),
            wake: Arc::clone(&wake),
            spec: Arc::new(Mutex::new(spec.clone())),
        };
        let remotes = specs.iter().enumerate().map(remote).collect();
        Ok(Emulator { hosts, remotes, thread: Some(thread.map_err(failed)?) })
    }

    /// The hosts, by their addresses on the first path.
    pub fn hosts(&self) -> &[HostInfo] {
        self.hosts.paths.first().map_or(&[], Vec::as_slice)
    }

    /// The hosts by their addresses on each path.
    pub fn paths(&self) -> &[Vec<HostInfo>] {
        &self.hosts.paths
    }

    /// The first path's.
    pub fn remote(&self) -> &Remote {
        &self.remotes[0]
    }

    /// Each path's.
    pub fn remotes(&self) -> &[Remote] {
        &self.remotes
    }

    /// Stops the thread, removes the hosts and returns the last counters of each path; `None` if the thread
    /// panicked.
    pub fn stop(mut self) -> Option<Vec<Counters>> {
        self.end()
    }

    fn end(&mut self) -> Option<Vec<Counters>> {
        let thread = self.thread.take()?;
        // If the thread has ended, the command is dropped.
        let _ = self.remotes[0].commands.send(Command { path: 0, order: Order::Stop });
        ring(&self.remotes[0].wake);
        thread.join().ok()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.end();
    }
}

impl Remote {
    /// The counters since the last reset.
    ///
    /// # Errors
    ///
    /// [`RemoteError::Silent`].
    pub fn counters(&self) -> Result<Counters, RemoteError> {
        self.ask(Order::Counters).map(|counters| *counters)
    }

    /// Sets counters to zero; restarts draws, outages and cross traffic.
    ///
    /// # Errors
    ///
    /// [`RemoteError::Silent`].
    pub fn reset(&self) -> Result<(), RemoteError> {
        self.ask(Order::Reset)
    }

    /// Changes keys of the directions, see [`LinkSpec::changed`]; effective when this returns.
    ///
    /// # Errors
    ///
    /// If the result were not valid; nothing is changed then.
    pub fn set(&self, change: &serde_json::Value) -> Result<(), RemoteError> {
        let mut spec = self.spec.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = spec.changed(change)?;
        let settings = Box::new(Way::BOTH.map(|way| changed.settings(way)));
        self.ask(|answer| Order::Set(settings, answer))?;
        *spec = changed;
        Ok(())
    }

    /// The present spec.
    pub fn spec(&self) -> LinkSpec {
        self.spec.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn ask<T>(&self, order: impl FnOnce(SyncSender<T>) -> Order) -> Result<T, RemoteError> {
        let (answer, answered): (_, Receiver<T>) = sync_channel(1);
        let command = Command { path: self.path, order: order(answer) };
        self.commands.try_send(command).map_err(|_| RemoteError::Silent)?;
        ring(&self.wake);
        answered.recv_timeout(ANSWER).map_err(|_: RecvTimeoutError| RemoteError::Silent)
    }
}
