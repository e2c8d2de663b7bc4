//! How much memory this process may use: of the host, of the control groups that it is in (versions 1 and 2,
//! nested), and of its own limits.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

/// What the process may ever use, bytes: the least of all limits; `None` where nothing is known.
pub fn limit() -> Option<u64> {
    let own = [getrlimit(Resource::As).current, getrlimit(Resource::Data).current];
    own.into_iter().flatten().chain(Places::of_host().limit()).min()
}

/// What it could use now without that something else is moved out of memory, bytes; `None` where nothing is
/// known. What the page cache holds and can give up counts as available, within a control group too.
pub fn available() -> Option<u64> {
    let places = Places::of_host();
    let [space, data] = places.mapped();
    let left = |resource, used: u64| getrlimit(resource).current.map(|most| most.saturating_sub(used));
    let own = [left(Resource::As, space), left(Resource::Data, data)];
    own.into_iter().flatten().chain(places.available()).min()
}

/// The limit of the process's own address space, bytes, if it has one.
pub fn address_space() -> Option<u64> {
    getrlimit(Resource::As).current
}

/// Where the kernel reports it.
struct Places {
    proc: PathBuf,
    cgroup: PathBuf,
}

impl Places {
    fn of_host() -> Places {
        Places { proc: "/proc".into(), cgroup: "/sys/fs/cgroup".into() }
    }

    /// The least limit of the host and of the groups.
    fn limit(&self) -> Option<u64> {
        let host = self.meminfo(&["MemTotal:"]);
        self.groups().iter().flat_map(|group| group.limit()).chain(host).min()
    }

    /// The least that is available in the host and in the groups.
    fn available(&self) -> Option<u64> {
        // Kernels before 3.14, and some containers, do not tell it.
        let free = || self.meminfo(&["MemFree:", "Buffers:", "Cached:"]);
        let host = self.meminfo(&["MemAvailable:"]).or_else(free);
        self.groups().iter().filter_map(Group::available).chain(host).min()
    }

    /// The sum of these lines of `meminfo`; `None` unless all are there.
    fn meminfo(&self, names: &[&str]) -> Option<u64> {
        let text = read_to_string(self.proc.join("meminfo")).ok()?;
        names.iter().map(|name| bytes_of(&text, name)).try_fold(0_u64, |sum, bytes| sum.checked_add(bytes?))
    }

    /// Address space and data that the process has mapped, bytes; 0 where that is not told.
    fn mapped(&self) -> [u64; 2] {
        let text = read_to_string(self.proc.join("self/status")).unwrap_or_default();
        ["VmSize:", "VmData:"].map(|name| bytes_of(&text, name).unwrap_or(0))
    }

    /// The memory groups of the process and those around them. A container may see its own group as the top
    /// one, under the path that the host has for it: groups that are not found there are passed over.
    fn groups(&self) -> Vec<Group> {
        let text = read_to_string(self.proc.join("self/cgroup")).unwrap_or_default();
        let of_line = |line: &str| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let (top, names) = if controllers.is_empty() {
                (self.cgroup.clone(), &UNIFIED)
            } else if controllers.split(',').any(|name| name == "memory") {
                (self.cgroup.join("memory"), &FIRST)
            } else {
                return None;
            };
            // A path that leads out of what is mounted is another namespace's.
            let path = path.strip_prefix('/').filter(|path| !path.split('/').any(|part| part == ".."));
            let below = Path::new(path.unwrap_or(""));
            let groups = below.ancestors().map(move |part| Group { at: top.join(part), names });
            Some(groups.collect::<Vec<_>>())
        };
        text.lines().filter_map(of_line).flatten().collect()
    }
}

/// The bytes of a line of a file of `/proc` (it says kB and means KiB).
fn bytes_of(text: &str, name: &str) -> Option<u64> {
    let kib = text.lines().find_map(|line| line.strip_prefix(name))?;
    kib.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The files of a control group.
struct Names {
    limits: &'static [&'static str],
    used: &'static str,
    /// Lines of `memory.stat`: what the page cache has of it.
    cached: [&'static str; 2],
}

/// Version 2. Above `memory.high` the kernel slows a group down.
const UNIFIED: Names = Names {
    limits: &["memory.max", "memory.high"],
    used: "memory.current",
    cached: ["inactive_file", "active_file"],
};
/// Version 1.
const FIRST: Names = Names {
    limits: &["memory.limit_in_bytes"],
    used: "memory.usage_in_bytes",
    cached: ["total_inactive_file", "total_active_file"],
};

/// A control group of memory.
struct Group {
    at: PathBuf,
    names: &'static Names,
}

impl Group {
    /// Its limit; none where it is `max`, and where it is no group.
    fn limit(&self) -> Option<u64> {
        self.names.limits.iter().filter_map(|name| self.number(name)).min()
    }

    fn available(&self) -> Option<u64> {
        let (limit, used) = (self.limit()?, self.number(self.names.used).unwrap_or(0));
        let stat = read_to_string(self.at.join("memory.stat")).unwrap_or_default();
        let line = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        let cached = self.names.cached.iter().filter_map(|name| line(name)).fold(0, u64::saturating_add);
        Some(limit.saturating_sub(used.saturating_sub(cached)))
    }

    fn number(&self, name: &str) -> Option<u64> {
        read_to_string(self.at.join(name)).ok()?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests;
