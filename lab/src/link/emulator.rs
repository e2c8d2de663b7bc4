//! Handle of a running path: start, query, change, stop.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::counters::Counters;
use super::emulation::{Command, Emulation, bell, ring};
use super::host::{HostError, HostInfo, Hosts};
use super::spec::{LinkSpec, SpecError, Way};

/// Maximum number of commands that wait for the thread, which handles them at every wake-up.
const COMMANDS: usize = 16;
/// Timeout of an answer, which normally takes a tick; after seconds, the machine is overloaded.
const ANSWER: Duration = Duration::from_secs(5);

/// A path that is being emulated. The hosts are removed on drop.
pub struct Emulator {
    hosts: Hosts,
    remote: Remote,
    thread: Option<JoinHandle<Counters>>,
}

/// Queries and changes of a path, usable from any thread.
#[derive(Clone)]
pub struct Remote {
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
    /// Creates the hosts and starts the emulation.
    ///
    /// # Errors
    ///
    /// See [`Hosts::make`].
    pub fn start(spec: &LinkSpec) -> Result<Emulator, HostError> {
        let (hosts, ports) = Hosts::make(spec)?;
        let failed = |error: io::Error| HostError::Failed(format!("cannot start the emulator: {error}"));
        let wake = Arc::new(bell().map_err(failed)?);
        let (commands, received) = sync_channel(COMMANDS);
        let emulation = Emulation::new(spec, ports, received, Arc::clone(&wake));
        let thread = std::thread::Builder::new().name("fobs-link".to_owned()).spawn(move || emulation.run());
        let remote = Remote { commands, wake, spec: Arc::new(Mutex::new(spec.clone())) };
        Ok(Emulator { hosts, remote, thread: Some(thread.map_err(failed)?) })
    }

    pub fn hosts(&self) -> &[HostInfo] {
        &self.hosts.infos
    }

    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Stops the thread, removes the hosts and returns the last counters; `None` if the thread panicked.
    pub fn stop(mut self) -> Option<Counters> {
        self.end()
    }

    fn end(&mut self) -> Option<Counters> {
        let thread = self.thread.take()?;
        // If the thread has ended, the command is dropped.
        let _ = self.remote.commands.send(Command::Stop);
        ring(&self.remote.wake);
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
        self.ask(Command::Counters).map(|counters| *counters)
    }

    /// Sets counters to zero; restarts draws, outages and cross traffic.
    ///
    /// # Errors
    ///
    /// [`RemoteError::Silent`].
    pub fn reset(&self) -> Result<(), RemoteError> {
        self.ask(Command::Reset)
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
        self.ask(|answer| Command::Set(settings, answer))?;
        *spec = changed;
        Ok(())
    }

    /// The present spec.
    pub fn spec(&self) -> LinkSpec {
        self.spec.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn ask<T>(&self, command: impl FnOnce(SyncSender<T>) -> Command) -> Result<T, RemoteError> {
        let (answer, answered): (_, Receiver<T>) = sync_channel(1);
        self.commands.try_send(command(answer)).map_err(|_| RemoteError::Silent)?;
        ring(&self.wake);
        answered.recv_timeout(ANSWER).map_err(|_: RecvTimeoutError| RemoteError::Silent)
    }
}
