//! A path as a handle: started, asked, changed, stopped.

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

/// Commands that wait for the thread, which takes them at every wake-up.
const COMMANDS: usize = 16;
/// The thread answers within a tick; seconds are a machine that is out of order.
const ANSWER: Duration = Duration::from_secs(5);

/// A path that is being emulated. Dropping it removes the hosts.
pub struct Emulator {
    hosts: Hosts,
    remote: Remote,
    thread: Option<JoinHandle<Counters>>,
}

/// What any thread may ask of a path.
#[derive(Clone)]
pub struct Remote {
    commands: SyncSender<Command>,
    wake: Arc<OwnedFd>,
    /// As it is now. Held while a change is made, so that changes come one after another.
    spec: Arc<Mutex<LinkSpec>>,
}

/// Why a path did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("the emulator does not answer: it has stopped, or the machine is overloaded")]
    Silent,
}

impl Emulator {
    /// Makes the hosts and begins.
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

    /// Stops, removes the hosts and answers the last counters; `None` if the thread had panicked.
    pub fn stop(mut self) -> Option<Counters> {
        self.end()
    }

    fn end(&mut self) -> Option<Counters> {
        let thread = self.thread.take()?;
        // A thread that is gone has nothing to be told.
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

    /// Counters to zero; draws, outages and cross traffic to their beginning.
    ///
    /// # Errors
    ///
    /// [`RemoteError::Silent`].
    pub fn reset(&self) -> Result<(), RemoteError> {
        self.ask(Command::Reset)
    }

    /// Changes keys of the directions, see [`LinkSpec::changed`]; in effect when this returns.
    ///
    /// # Errors
    ///
    /// If the outcome would not be valid: then nothing has changed.
    pub fn set(&self, change: &serde_json::Value) -> Result<(), RemoteError> {
        let mut spec = self.spec.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = spec.changed(change)?;
        let settings = Box::new(Way::BOTH.map(|way| changed.settings(way)));
        self.ask(|answer| Command::Set(settings, answer))?;
        *spec = changed;
        Ok(())
    }

    /// The spec as it is now.
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
