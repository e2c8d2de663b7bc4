//! Network namespaces by name: work done inside one, its kernel settings and its devices.
//!
//! A thread enters a namespace for its lifetime, so the work is done on threads of its own. Children that
//! such a thread starts, sockets that it makes and files of `/proc/thread-self/net` and `/proc/sys/net` that
//! it opens belong to the namespace.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Bytes of a table of devices that are read: a host has two or three of some 120 bytes each.
const DEVICES_BYTES: u64 = 16 << 10;

/// A network namespace that another process made.
pub struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// The namespace of that name, where `ip netns` keeps them.
    pub fn open(name: &str) -> Result<Namespace, String> {
        let path = PathBuf::from("/run/netns").join(name);
        let file =
            File::open(&path).map_err(|error| format!("cannot enter the namespace {name}: {error}"))?;
        Ok(Namespace { name: name.to_owned(), file })
    }

    /// Does some work on a thread that is inside.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, String> {
        let entered = |error| format!("cannot enter the namespace {}: {error}", self.name);
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?;
                io::Result::Ok(work())
            });
            inside
                .join()
                .map_err(|_| format!("work inside the namespace {} panicked", self.name))?
                .map_err(entered)
        })
    }

    /// The value of a sysctl, as `net/ipv4/tcp_rmem`.
    pub fn sysctl(&self, name: &str) -> Result<String, String> {
        let text = self.within(|| fs::read_to_string(sysctl_path(name)))?;
        let text = text.map_err(|error| format!("cannot read sysctl {name} in {}: {error}", self.name))?;
        Ok(text.trim().to_owned())
    }

    /// Sets sysctls, by name.
    pub fn set_sysctls(&self, values: &[(&str, String)]) -> Result<(), String> {
        self.within(|| {
            values.iter().try_for_each(|(name, value)| {
                fs::write(sysctl_path(name), value).map_err(|error| {
                    format!("cannot set sysctl {name} to {value:?} in {}: {error}", self.name)
                })
            })
        })?
    }

    /// Runs a command of the system inside and returns its standard output.
    ///
    /// # Errors
    /// One sentence with the first line of the command's complaint.
    pub fn output(&self, words: &[&str]) -> Result<String, String> {
        let Some((program, arguments)) = words.split_first() else { return Ok(String::new()) };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        let done =
            self.within(|| command.output())?.map_err(|error| format!("cannot start {program}: {error}"))?;
        if done.status.success() {
            return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
        }
        let complaint = String::from_utf8_lossy(&done.stderr);
        let why = complaint.lines().next().unwrap_or("no reason was given");
        Err(format!("{} failed in {}: {why}", words.join(" "), self.name))
    }

    /// The name of its first device but the loopback: on a host of the path, the one towards the path.
    pub fn device(&self) -> Result<String, String> {
        let table = self.within(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
        let table = table.map_err(|error| format!("cannot read the devices in {}: {error}", self.name))?;
        let mut names = table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
        let name = names.find(|name| *name != "lo").map(str::to_owned);
        name.ok_or_else(|| format!("the namespace {} has no device", self.name))
    }

    /// The counters of its devices.
    pub fn devices(&self) -> Result<Devices, String> {
        let opened = self.within(|| File::open("/proc/thread-self/net/dev"))?;
        let file =
            opened.map_err(|error| format!("cannot read device counters in {}: {error}", self.name))?;
        Ok(Devices { file })
    }
}

fn sysctl_path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name)
}

/// The byte counters of a namespace's devices; any thread may read them.
pub struct Devices {
    file: File,
}

impl Devices {
    /// Bytes that all devices but the loopback took in so far: on a host of the path, IP packets that
    /// arrived.
    pub fn received_bytes(&mut self) -> io::Result<u64> {
        let mut table = String::new();
        self.file.seek(SeekFrom::Start(0))?;
        (&mut self.file).take(DEVICES_BYTES).read_to_string(&mut table)?;
        Ok(received(&table))
    }
}

/// The sum of the first column of `/proc/net/dev`, without `lo`.
fn received(table: &str) -> u64 {
    let devices = table.lines().filter_map(|line| line.split_once(':'));
    let others = devices.filter(|(name, _)| name.trim() != "lo");
    others.filter_map(|(_, columns)| columns.split_whitespace().next()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_bytes_leave_the_loopback_out() {
        let table = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n    \
            lo:     840      10    0    0    0     0          0         0      840      10    0\n  \
            tun0: 1500000    1000    0    0    0     0          0         0    52000    1000    0\n";
        assert_eq!(received(table), 1_500_000);
        assert_eq!(received(""), 0);
    }

    #[test]
    fn a_namespace_that_is_not_there_is_named() {
        let error = Namespace::open("no-such-namespace").err().unwrap();
        assert!(error.contains("no-such-namespace"), "{error}");
    }
}
