//! What a trial makes scarce; each is put back when it is dropped.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Signal, pidfd_send_signal};

use crate::tool::{Programs, first_line};

/// Where the first version of control groups throttles block devices.
const THROTTLE: &str = "/sys/fs/cgroup/blkio";
/// Where the first version of control groups has quotas of CPU time.
const CPU: &str = "/sys/fs/cgroup/cpu";
/// Period of a quota, microseconds: the kernel's own.
const PERIOD_US: u32 = 100_000;
/// The largest receive buffer of a socket, for the whole machine.
const RMEM_MAX: &str = "/proc/sys/net/core/rmem_max";
/// A loop device of whole pages has whole sectors.
const PAGE_BYTES: u64 = 4096;
/// How to get what is missing.
const HOW: &str = "apt-get install mount e2fsprogs";

/// An ext4 on a loop device with a limited rate, which writes at once.
pub struct SlowDisk {
    programs: Programs,
    /// Where it is mounted.
    pub folder: PathBuf,
    device: Option<Device>,
}

struct Device {
    path: String,
    /// Major and minor number, as control groups want them.
    number: String,
}

impl SlowDisk {
    /// A disk of `bytes` bytes in a file below `folder`, perhaps with a copy of a file on it.
    pub fn new(
        programs: &Programs,
        folder: &Path,
        bytes: u64,
        content: Option<&Path>,
    ) -> Result<SlowDisk, String> {
        let io = |error: io::Error| format!("cannot make a disk in {}: {error}", folder.display());
        let (image, mount) = (folder.join("disk.img"), folder.join("disk"));
        fs::create_dir(&mount).map_err(io)?;
        File::create(&image).and_then(|file| file.set_len(bytes.next_multiple_of(PAGE_BYTES))).map_err(io)?;
        let mut disk = SlowDisk { programs: programs.clone(), folder: mount.clone(), device: None };
        let (image, mount) = (image.display().to_string(), mount.display().to_string());
        disk.system(&["mkfs.ext4", "-q", "-O", "^has_journal", &image])?;
        let device = first_line(&disk.system(&["losetup", "-f", "--show", &image])?);
        // Known before anything else can fail: dropping the disk detaches it.
        disk.device = Some(Device { path: device.clone(), number: String::new() });
        let number = fs::metadata(&device).map_err(io)?.rdev();
        let number = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        disk.device = Some(Device { path: device.clone(), number });
        if let Some(content) = content {
            disk.system(&["mount", &device, &mount])?;
            let name = content.file_name().unwrap_or_default();
            fs::copy(content, Path::new(&mount).join(name)).map_err(io)?;
            disk.system(&["umount", &mount])?;
        }
        disk.system(&["mount", "-o", "sync", &device, &mount])?;
        Ok(disk)
    }

    /// Limits it to `bytes_per_second` in each direction; 0 for no limit.
    pub fn throttle(&self, bytes_per_second: u64) -> Result<(), String> {
        let Some(device) = &self.device else { return Ok(()) };
        for way in ["read", "write"] {
            let path = Path::new(THROTTLE).join(format!("blkio.throttle.{way}_bps_device"));
            fs::write(&path, format!("{} {bytes_per_second}", device.number))
                .map_err(|error| format!("cannot write {} (cgroup v1): {error}", path.display()))?;
        }
        Ok(())
    }

    fn system(&self, words: &[&str]) -> Result<String, String> {
        let program = self.programs.find(words[0], HOW)?.display().to_string();
        self.programs.ask(&[&[program.as_str()], &words[1..]].concat())
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        let _ = self.throttle(0);
        let _ = self.system(&["umount", &self.folder.display().to_string()]);
        if let Some(device) = &self.device {
            let _ = self.system(&["losetup", "-d", &device.path]);
        }
    }
}

/// A control group with a share of one CPU.
pub struct CpuQuota {
    folder: PathBuf,
}

impl CpuQuota {
    /// A new group.
    pub fn new(share: f64) -> Result<CpuQuota, String> {
        let folder = Path::new(CPU).join(format!("fobs-lab-{}-quota", std::process::id()));
        let io = |error: io::Error| format!("cannot make {} (cgroup v1): {error}", folder.display());
        fs::create_dir(&folder).map_err(io)?;
        let quota = CpuQuota { folder: folder.clone() };
        fs::write(folder.join("cpu.cfs_period_us"), PERIOD_US.to_string()).map_err(io)?;
        let quota_us = (f64::from(PERIOD_US) * share) as u32;
        fs::write(folder.join("cpu.cfs_quota_us"), quota_us.to_string()).map_err(io)?;
        Ok(quota)
    }

    /// The file to write a process's number into, which moves it in with all of its threads.
    pub fn processes(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Moves a process in.
    pub fn take(&self, pid: u32) -> Result<(), String> {
        fs::write(self.processes(), pid.to_string())
            .map_err(|error| format!("cannot give a process a share of a CPU: {error}"))
    }
}

impl Drop for CpuQuota {
    fn drop(&mut self) {
        // It can be removed once its last process has ended.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// `net.core.rmem_max` for the whole machine.
pub struct ReceiveBuffers {
    before: String,
}

impl ReceiveBuffers {
    /// Sets it, bytes.
    pub fn new(bytes: u64) -> Result<ReceiveBuffers, String> {
        let failed = |error| format!("cannot set {RMEM_MAX}: {error}");
        let before = fs::read_to_string(RMEM_MAX).map_err(failed)?;
        fs::write(RMEM_MAX, bytes.to_string()).map_err(failed)?;
        Ok(ReceiveBuffers { before })
    }
}

impl Drop for ReceiveBuffers {
    fn drop(&mut self) {
        let _ = fs::write(RMEM_MAX, self.before.trim());
    }
}

/// Takes a process off its CPU for some milliseconds again and again, as a hypervisor does that has others to
/// serve.
pub struct Pauses {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pauses {
    /// Begins with a process that runs; it runs again when this is dropped.
    pub fn start(process: OwnedFd, off: Duration, every: Duration) -> Pauses {
        let (stop, stopped) = channel::<()>();
        let thread = thread::spawn(move || {
            // A timeout, and not the other end's going away, means that it goes on.
            let on = every.saturating_sub(off);
            while stopped.recv_timeout(on) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                if pidfd_send_signal(&process, Signal::STOP).is_err() {
                    break;
                }
                thread::sleep(off);
                let _ = pidfd_send_signal(&process, Signal::CONT);
            }
        });
        Pauses { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Pauses {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
