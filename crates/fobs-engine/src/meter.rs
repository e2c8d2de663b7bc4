//! What the engine's threads spend their time on, at the cost of one clock reading for a wait and two for a
//! chunk.

use super::Clock;
use fobs_model::sample::{Cpu, Work};
use fobs_proto::Timestamp;
use fobs_sys::confine::{Errand, outside};
use fobs_sys::{ThreadMeter, thread_id, thread_times};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The scheduler's account of the thread that made the meter.
pub(super) struct CpuMeter(ThreadMeter);

impl CpuMeter {
    pub(super) fn of_this_thread() -> CpuMeter {
        let thread = thread_id();
        CpuMeter(outside(Errand::Counters, move || ThreadMeter::of_thread(thread)))
    }

    /// `None` once the thread has ended, or where the kernel keeps no account.
    pub(super) fn read(&self) -> Option<Cpu> {
        let usage = self.0.read()?;
        Some(Cpu { run_us: usage.run_ns / 1000, delay_us: usage.delay_ns / 1000 })
    }
}

/// In place of a start time: not at work.
const IDLE: u64 = u64::MAX;

/// Measures a thread that works on chunks, for another thread to read. The members are independent, so
/// relaxed ordering is enough.
pub(super) struct WorkMeter {
    clock: Clock,
    cpu: OnceLock<CpuMeter>,
    last_cpu: (AtomicU64, AtomicU64),
    /// Time on a CPU of those who worked for the thread while it waited for them.
    helped_us: AtomicU64,
    active_us: AtomicU64,
    /// When the present work began, or [`IDLE`].
    since_us: AtomicU64,
    user_us: AtomicU64,
    system_us: AtomicU64,
    /// As `active_us` and `since_us`, for the wait until the device has what was written.
    synced_us: AtomicU64,
    syncing_since_us: AtomicU64,
    /// Likewise for the wait for a rate that sessions share.
    throttled_us: AtomicU64,
    throttled_since_us: AtomicU64,
}

impl WorkMeter {
    pub(super) fn new(clock: Clock) -> Arc<WorkMeter> {
        Arc::new(WorkMeter {
            clock,
            cpu: OnceLock::new(),
            last_cpu: Default::default(),
            helped_us: AtomicU64::new(0),
            active_us: AtomicU64::new(0),
            since_us: AtomicU64::new(IDLE),
            user_us: AtomicU64::new(0),
            system_us: AtomicU64::new(0),
            synced_us: AtomicU64::new(0),
            syncing_since_us: AtomicU64::new(IDLE),
            throttled_us: AtomicU64::new(0),
            throttled_since_us: AtomicU64::new(IDLE),
        })
    }

    /// Measures the calling thread from now on.
    pub(super) fn attach(&self) {
        self.cpu.get_or_init(CpuMeter::of_this_thread);
    }

    /// Runs `work` and counts its time.
    pub(super) fn at_work<T>(&self, work: impl FnOnce() -> T) -> T {
        let began_us = self.clock.now().as_micros();
        self.since_us.store(began_us, Ordering::Relaxed);
        let result = work();
        self.since_us.store(IDLE, Ordering::Relaxed);
        let took_us = self.clock.now().as_micros().saturating_sub(began_us);
        self.active_us.fetch_add(took_us, Ordering::Relaxed);
        let (user_us, system_us) = thread_times();
        self.user_us.store(user_us, Ordering::Relaxed);
        self.system_us.store(system_us, Ordering::Relaxed);
        result
    }

    /// Others were on a CPU for the thread.
    pub(super) fn was_helped(&self, cpu_us: u64) {
        self.helped_us.fetch_add(cpu_us, Ordering::Relaxed);
    }

    /// The thread starts to wait for the device, within its work.
    pub(super) fn sync_begins(&self) {
        self.syncing_since_us.store(self.clock.now().as_micros(), Ordering::Relaxed);
    }

    /// The wait for the device is over.
    pub(super) fn sync_ends(&self) {
        let took_us = Self::underway_us(&self.syncing_since_us, self.clock.now());
        self.syncing_since_us.store(IDLE, Ordering::Relaxed);
        self.synced_us.fetch_add(took_us, Ordering::Relaxed);
    }

    /// Counts the time of `wait`, which is for a rate that sessions share.
    pub(super) fn throttled(&self, wait: impl FnOnce()) {
        self.throttled_since_us.store(self.clock.now().as_micros(), Ordering::Relaxed);
        wait();
        let took_us = Self::underway_us(&self.throttled_since_us, self.clock.now());
        self.throttled_since_us.store(IDLE, Ordering::Relaxed);
        self.throttled_us.fetch_add(took_us, Ordering::Relaxed);
    }

    /// Time since `since_us`, 0 for [`IDLE`].
    fn underway_us(since_us: &AtomicU64, now: Timestamp) -> u64 {
        match since_us.load(Ordering::Relaxed) {
            IDLE => 0,
            since_us => now.as_micros().saturating_sub(since_us),
        }
    }

    /// Its figures at `now`.
    pub(super) fn read(&self, now: Timestamp) -> Work {
        // A thread that has ended keeps the figures of its last reading.
        if let Some(cpu) = self.cpu.get().and_then(CpuMeter::read) {
            self.last_cpu.0.store(cpu.run_us, Ordering::Relaxed);
            self.last_cpu.1.store(cpu.delay_us, Ordering::Relaxed);
        }
        Work {
            active_us: self.active_us.load(Ordering::Relaxed) + Self::underway_us(&self.since_us, now),
            cpu: Cpu {
                run_us: self.last_cpu.0.load(Ordering::Relaxed) + self.helped_us.load(Ordering::Relaxed),
                delay_us: self.last_cpu.1.load(Ordering::Relaxed),
            },
            user_us: self.user_us.load(Ordering::Relaxed),
            system_us: self.system_us.load(Ordering::Relaxed),
            syncing_us: self.synced_us.load(Ordering::Relaxed)
                + Self::underway_us(&self.syncing_since_us, now),
            throttled_us: self.throttled_us.load(Ordering::Relaxed)
                + Self::underway_us(&self.throttled_since_us, now),
        }
    }
}
