//! The process and the served disk, read whenever a scraper asks.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use rustix::fs::fstatvfs;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{read_dir, read_to_string};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

/// A number with a fraction.
type Real = Gauge<f64, AtomicU64>;

/// Names and meanings of `process_*` are those of Prometheus's own client libraries.
pub(super) struct HostGauges {
    /// The served directory.
    root: Option<OwnedFd>,
    cpu_seconds: Counter<f64, AtomicU64>,
    start_seconds: Real,
    resident: Gauge,
    virtual_memory: Gauge,
    descriptors: Gauge,
    descriptors_max: Gauge,
    threads: Gauge,
    disk_free: Gauge,
    disk_size: Gauge,
    disk_files_free: Gauge,
}

impl HostGauges {
    pub(super) fn new(root: Option<OwnedFd>) -> HostGauges {
        let start_seconds = Real::default();
        start_seconds.set(SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64()));
        HostGauges {
            root,
            cpu_seconds: Counter::default(),
            start_seconds,
            resident: Gauge::default(),
            virtual_memory: Gauge::default(),
            descriptors: Gauge::default(),
            descriptors_max: Gauge::default(),
            threads: Gauge::default(),
            disk_free: Gauge::default(),
            disk_size: Gauge::default(),
            disk_files_free: Gauge::default(),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let process = registry.sub_registry_with_prefix("process");
        let cpu = "CPU time of the process";
        process.register_with_unit("cpu", cpu, Unit::Seconds, self.cpu_seconds.clone());
        let start = "When the server began, since 1970";
        process.register_with_unit("start_time", start, Unit::Seconds, self.start_seconds.clone());
        let resident = "Resident memory";
        process.register_with_unit("resident_memory", resident, Unit::Bytes, self.resident.clone());
        let all = "Virtual memory";
        process.register_with_unit("virtual_memory", all, Unit::Bytes, self.virtual_memory.clone());
        process.register("open_fds", "Open file descriptors", self.descriptors.clone());
        process.register("max_fds", "Most file descriptors that it may open", self.descriptors_max.clone());
        process.register("threads", "Threads", self.threads.clone());
        let disk = registry.sub_registry_with_prefix("fobs_disk");
        let free = "Room below the root for a user without privileges";
        disk.register_with_unit("free", free, Unit::Bytes, self.disk_free.clone());
        let size = "Size of the file system of the root";
        disk.register_with_unit("size", size, Unit::Bytes, self.disk_size.clone());
        disk.register("files_free", "Files that can still be made there", self.disk_files_free.clone());
    }

    /// Reads all of it; what cannot be read keeps its value.
    pub(super) fn refresh(&self) {
        let set = |gauge: &Gauge, value: u64| {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        if let Some(Process { cpu_s, threads, virtual_bytes, resident_bytes }) = Process::read() {
            self.cpu_seconds.inc_by((cpu_s - self.cpu_seconds.get()).max(0.0));
            set(&self.threads, threads);
            set(&self.virtual_memory, virtual_bytes);
            set(&self.resident, resident_bytes);
        }
        if let Ok(open) = read_dir("/proc/self/fd") {
            // The directory itself is one of them.
            set(&self.descriptors, (open.count() as u64).saturating_sub(1));
        }
        set(&self.descriptors_max, getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX));
        if let Some(stat) = self.root.as_ref().and_then(|root| fstatvfs(root).ok()) {
            set(&self.disk_free, stat.f_bavail.saturating_mul(stat.f_frsize));
            set(&self.disk_size, stat.f_blocks.saturating_mul(stat.f_frsize));
            set(&self.disk_files_free, stat.f_favail);
        }
    }
}

/// Figures of this process.
struct Process {
    cpu_s: f64,
    threads: u64,
    virtual_bytes: u64,
    resident_bytes: u64,
}

impl Process {
    fn read() -> Option<Process> {
        let status = read_to_string("/proc/self/status").ok()?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Some(Process {
            cpu_s: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            threads: number("Threads")?,
            virtual_bytes: number("VmSize")?.saturating_mul(1024),
            resident_bytes: number("VmRSS")?.saturating_mul(1024),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_read_as_it_is() {
        let process = Process::read().expect("Linux has /proc");
        assert!(process.threads >= 1 && process.resident_bytes > 1 << 20, "{}", process.resident_bytes);
        assert!(process.virtual_bytes >= process.resident_bytes && process.cpu_s > 0.0);
    }
}
