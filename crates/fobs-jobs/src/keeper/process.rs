//! Processes that outlive their keeper, and how they are found again.
//!
//! A number alone is used again: with it go the time of the process's start and that of the host's.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// The variable in the environment of an attempt by which it is found where its number was not written.
pub(super) const MARK: &str = "_FOBS_JOB";
/// Most bytes of an environment that are looked through for it: it stands first there.
const ENVIRONMENT_BYTES_MAX: usize = 1 << 20;

/// A process that cannot be mistaken for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub pid: i32,
    /// Ticks since the host's start (proc(5), field 22 of `stat`).
    pub start_ticks: u64,
    /// The host's start.
    pub boot: String,
}

/// What names this start of the host; empty where the kernel does not say.
pub(super) fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// When a process was started, in ticks; none where it is gone or has ended and waits to be reaped.
fn start_ticks(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses, which may hold anything.
    let (_, after) = text.rsplit_once(')')?;
    let mut fields = after.split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

impl Identity {
    /// That of a process which runs now.
    pub(super) fn of(pid: i32, boot: &str) -> Option<Identity> {
        Some(Identity { pid, start_ticks: start_ticks(pid)?, boot: boot.to_owned() })
    }

    /// The process of this user that has a mark in its environment.
    pub(super) fn find(mark: &str, boot: &str) -> Option<Identity> {
        let wanted = format!("{MARK}={mark}");
        let has_mark = |pid: &i32| {
            let environment = fs::read(Path::new("/proc").join(pid.to_string()).join("environ"));
            environment.is_ok_and(|bytes| {
                let bytes = &bytes[..bytes.len().min(ENVIRONMENT_BYTES_MAX)];
                bytes.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
            })
        };
        let pids = fs::read_dir("/proc").ok()?.flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        // The eldest: those that it has started have the mark, too, and one of them may be listed first.
        let found = pids.filter(has_mark).filter_map(|pid| Identity::of(pid, boot));
        found.min_by_key(|found| (found.start_ticks, found.pid))
    }

    /// Whether it still runs.
    pub(super) fn runs(&self, boot: &str) -> bool {
        self.boot == boot && start_ticks(self.pid) == Some(self.start_ticks)
    }

    /// A descriptor of the process; none where it is gone, or the kernel is older than 5.3.
    pub(super) fn descriptor(&self) -> Option<OwnedFd> {
        let descriptor = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // Looked at after it was opened: so it is the same process.
        (start_ticks(self.pid) == Some(self.start_ticks)).then_some(descriptor)
    }

    /// Sends a signal to it and what it has started.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.pid) {
            // It may have ended in this moment.
            let _ = kill_process_group(group, signal);
        }
    }
}

/// Waits until a process has ended, at most for this time.
pub(super) fn wait(descriptor: Option<&OwnedFd>, time: Duration) {
    let Some(descriptor) = descriptor else {
        std::thread::sleep(time);
        return;
    };
    let mut ready = [PollFd::new(descriptor, PollFlags::IN)];
    let time = Timespec::try_from(time).ok();
    if poll(&mut ready, time.as_ref()).is_err() {
        // Interrupted: not at once again.
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::Instant;

    #[test]
    fn a_process_is_found_by_its_mark_and_lost_with_its_end() {
        let boot = boot_id();
        let mark = format!("test-{}", std::process::id());
        let mut child =
            Command::new("sleep").arg("600").env(MARK, &mark).process_group(0).spawn().expect("sleep");
        let pid = i32::try_from(child.id()).expect("a number");
        let own = Identity::of(pid, &boot).expect("it runs");
        // The kernel shows its environment a moment after it has let us go on.
        let begin = Instant::now();
        let found = loop {
            match Identity::find(&mark, &boot) {
                None if begin.elapsed() < Duration::from_secs(60) => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                found => break found,
            }
        };
        assert_eq!(found, Some(own.clone()));
        assert!(own.runs(&boot) && own.descriptor().is_some());
        assert!(!own.runs("another start"));
        let recycled = Identity { start_ticks: own.start_ticks + 1, ..own.clone() };
        assert!(!recycled.runs(&boot) && recycled.descriptor().is_none());
        let descriptor = own.descriptor();
        own.signal(Signal::KILL);
        wait(descriptor.as_ref(), Duration::from_secs(60));
        child.wait().expect("ours");
        assert!(!own.runs(&boot) && own.descriptor().is_none());
        assert_eq!(Identity::find(&mark, &boot), None);
    }
}
