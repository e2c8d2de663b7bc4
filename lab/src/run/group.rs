//! Control groups: the CPU time of everything that one end of a flow starts, and a sure way to end all of it.
//!
//! Helpers count and end with the rest (ssh, a session of sshd, the other side that sshd starts), whatever
//! process group or session they moved to. Where no group can be made there are no figures, and process
//! groups have to do.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Where the first version of control groups counts CPU time.
const V1: &str = "/sys/fs/cgroup/cpuacct";
/// Where the second version is.
const V2: &str = "/sys/fs/cgroup";
/// A group is removed once its last process has ended, which takes the kernel a moment after a kill.
const TRIES: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// What the names of all our groups begin with; the process number of the runner follows.
const PREFIX: &str = "fobs-lab-";

/// Ends what runners left behind that were killed, and removes their groups.
pub fn remove_leftovers() {
    let Some(base) = base() else { return };
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_leftover(&entry.file_name().to_string_lossy())) {
        drop(Group { folder: Some(entry.path()) });
    }
}

/// Whether the name begins with [`PREFIX`] and the number of a process that does not live.
pub fn is_leftover(name: &str) -> bool {
    let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
    pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
}

/// The beginning of every name that this runner gives.
pub fn own_prefix() -> String {
    format!("{PREFIX}{}-", std::process::id())
}

/// Where groups that count CPU time are made.
fn base() -> Option<&'static Path> {
    let v2 = Path::new(V2).join("cgroup.controllers").exists();
    if Path::new(V1).is_dir() { Some(Path::new(V1)) } else { v2.then_some(Path::new(V2)) }
}

/// A control group of our own; gone, with all that is in it, when it is dropped.
pub struct Group {
    folder: Option<PathBuf>,
}

impl Group {
    /// A new group, whose name begins with [`own_prefix`]; one without figures where none can be made.
    pub fn new(name: &str) -> Group {
        let folder = base().map(|base| base.join(format!("{}{name}", own_prefix())));
        Group { folder: folder.filter(|folder| fs::create_dir(folder).is_ok()) }
    }

    /// Moves the calling thread in: every process that it starts is counted from its first instruction.
    /// Only the first version of control groups moves single threads; elsewhere [`Group::take`] has to do.
    pub fn enter(&self) {
        if let Some(folder) = &self.folder {
            let _ = fs::write(folder.join("tasks"), "0");
        }
    }

    /// Moves a process in that was just started; what it starts later is counted, too.
    pub fn take(&self, pid: u32) {
        if let Some(folder) = &self.folder {
            // The write fails if the process has ended, and then its CPU time is negligible.
            let _ = fs::write(folder.join("cgroup.procs"), pid.to_string());
        }
    }

    /// CPU seconds so far.
    pub fn cpu_s(&self) -> Option<f64> {
        let folder = self.folder.as_ref()?;
        if let Ok(text) = fs::read_to_string(folder.join("cpuacct.usage")) {
            return Some(text.trim().parse::<u64>().ok()? as f64 / 1e9);
        }
        let text = fs::read_to_string(folder.join("cpu.stat")).ok()?;
        let micros = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        Some(micros.trim().parse::<u64>().ok()? as f64 / 1e6)
    }

    /// Ends every process in it, at once.
    pub fn kill(&self) {
        for _ in 0..TRIES {
            let pids = self.pids();
            if pids.is_empty() {
                return;
            }
            for pid in pids {
                let _ = kill_process(pid, Signal::KILL);
            }
            thread::sleep(BETWEEN_TRIES);
        }
    }

    /// The processes in it.
    pub fn pids(&self) -> Vec<Pid> {
        let text =
            self.folder.as_ref().and_then(|folder| fs::read_to_string(folder.join("cgroup.procs")).ok());
        let text = text.unwrap_or_default();
        text.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        let Some(folder) = &self.folder else { return };
        for _ in 0..TRIES {
            if fs::remove_dir(folder).is_ok() {
                return;
            }
            thread::sleep(BETWEEN_TRIES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_dead_runners_made_is_left_over() {
        // Above every limit of the kernel (PID_MAX_LIMIT, 2^22).
        assert!(is_leftover("fobs-lab-4194305-0-sender"));
        assert!(!is_leftover(&format!("{}0-sender", own_prefix())));
        for other in ["fobs-lab-", "fobs-lab-x-1", "fobs-bench-4194305-c", "user.slice"] {
            assert!(!is_leftover(other), "{other}");
        }
    }
}
