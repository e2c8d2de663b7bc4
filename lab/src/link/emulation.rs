//! The running paths: frames are read from devices, pass their direction as segments, and are written to
//! other devices when due. All in one thread, however many paths there are: two of them would compete for the
//! one CPU that is reserved for the emulator.
//!
//! It wakes at most once per [`TICK`] and then handles everything that arrived or fell due, which makes large
//! reads, merged writes and an idle core possible. If nothing is due it sleeps until a device is readable.

mod path;
mod writer;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::read;
use rustix::mm::{MlockAllFlags, mlockall};

use self::path::{Drained, Path};
use super::clock::{Clock, Nanos, timespec};
use super::counters::Counters;
use super::host::Port;
use super::realtime::become_realtime;
use super::spec::{LinkSpec, Settings};

/// Shortest time between two wake-ups, ns: four full packets at 1 Gbit/s. Measured there with TCP on two
/// cores: half a core, p99 of lateness 0.14 ms. Twice the tick saves a fifth of a core, but the p99 is then
/// 0.17 ms on a quiet machine and above the limit on a busy one.
const TICK: Nanos = 50_000;
/// During a sleep of this length (ns) the core may sleep, too; waking then takes about 100 us (measured in a
/// virtual machine), so wake AWAKE earlier and spin. Shorter sleeps are frequent: spinning would cost a core.
const DEEP_SLEEP: Nanos = 1_000_000;
const AWAKE: Nanos = 120_000;
/// Longest sleep while nothing is due, ns.
const IDLE: Nanos = 1_000_000_000;

/// A command to the thread about one of its paths, handled at a wake-up.
pub struct Command {
    pub path: usize,
    pub order: Order,
}

/// What is to be done.
pub enum Order {
    Counters(SyncSender<Box<Counters>>),
    /// Settings of the forward and of the backward direction.
    Set(Box<[Settings; 2]>, SyncSender<()>),
    Reset(SyncSender<()>),
    /// Ends the thread.
    Stop,
}

/// All state of the thread.
pub struct Emulation {
    clock: Clock,
    paths: Vec<Path>,
    commands: Receiver<Command>,
    /// Readable if there is a command.
    wake: Arc<OwnedFd>,
    wakeups: u64,
}

impl Emulation {
    /// Takes the ports of each path, west first; [`Emulation::run`] starts.
    pub fn new(
        specs: &[LinkSpec],
        ports: Vec<Vec<Port>>,
        commands: Receiver<Command>,
        wake: Arc<OwnedFd>,
    ) -> Emulation {
        let clock = Clock::start();
        let paths = specs.iter().zip(ports).enumerate();
        let paths = paths.map(|(place, (spec, ports))| Path::new(clock, place, spec, ports)).collect();
        Emulation { clock, paths, commands, wake, wakeups: 0 }
    }

    /// Emulates until a stop command; returns the last counters of each path.
    pub fn run(mut self) -> Vec<Counters> {
        // A first access to a page costs 10 us: lock all pages now. Without permission, the first packets are
        // late.
        let _ = mlockall(MlockAllFlags::CURRENT);
        if let Err(error) = become_realtime() {
            // Not fatal: the counters show whether the lateness was acceptable.
            eprintln!("fobs-lab: no real-time priority ({error}): packets may be late");
        }
        self.paths.iter_mut().for_each(|path| path.reset(0));
        let devices: Vec<Arc<[File]>> = self.paths.iter().map(|path| Arc::clone(&path.devices)).collect();
        let wake = Arc::clone(&self.wake);
        let mut watched: Vec<PollFd<'_>> = devices
            .iter()
            .flat_map(|path| path.iter())
            .map(|device| PollFd::new(device, PollFlags::IN))
            .collect();
        watched.push(PollFd::new(&*wake, PollFlags::IN));
        loop {
            let began = self.clock.now();
            self.wakeups += 1;
            while let Ok(command) = self.commands.try_recv() {
                if !self.obey(command) {
                    let wakeups = self.wakeups;
                    return self.paths.iter_mut().map(|path| path.counters(wakeups)).collect();
                }
            }
            let mut drained = Drained::Yes;
            for path in &mut self.paths {
                if let Drained::No = path.turn() {
                    drained = Drained::No;
                }
            }
            if let Drained::Yes = drained {
                self.sleep(began, &mut watched);
            }
        }
    }

    fn sleep(&self, began: Nanos, watched: &mut [PollFd<'_>]) {
        let next = self.paths.iter().filter_map(Path::next_wake).min();
        let next = next.unwrap_or(began + IDLE).min(began + IDLE);
        // Arrivals do not wake it here: they are read together at the next tick.
        self.clock.sleep_until(began + TICK);
        if next <= began + TICK {
            return;
        }
        let left = next.saturating_sub(self.clock.now());
        let asleep = if left > DEEP_SLEEP { left - AWAKE } else { left };
        // An error is a signal or cannot be handled here: the next turn finds the cause.
        let ready = poll(watched, Some(&timespec(asleep)));
        // Resets the event counter; the command itself is in the channel.
        let _ = read(&*self.wake, &mut [0; 8]);
        if asleep < left && ready == Ok(0) {
            while self.clock.now() < next {
                std::hint::spin_loop();
            }
        }
    }

    fn obey(&mut self, Command { path, order }: Command) -> bool {
        let Some(path) = self.paths.get_mut(path) else { return true };
        // If the sender of the command has gone, the answer is dropped.
        match order {
            Order::Counters(answer) => {
                let _ = answer.try_send(Box::new(path.counters(self.wakeups)));
            }
            Order::Set(settings, answer) => {
                path.reconfigure(*settings);
                let _ = answer.try_send(());
            }
            Order::Reset(answer) => {
                path.reset(self.wakeups);
                let _ = answer.try_send(());
            }
            Order::Stop => return false,
        }
        true
    }
}

/// Wakes the thread to handle commands.
pub fn ring(wake: &OwnedFd) {
    // Full means that a wake-up is already pending.
    let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
}

/// The event descriptor for [`ring`].
pub fn bell() -> io::Result<OwnedFd> {
    use rustix::event::{EventfdFlags, eventfd};
    Ok(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}
