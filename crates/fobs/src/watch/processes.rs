//! A program and its children, by `/proc`.

use super::WatchError;
use super::naps::Naps;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// Most processes of a program that are watched.
pub(super) const PROCESSES_MAX: usize = 128;
/// Most threads of one of them.
const THREADS_MAX: usize = 256;
/// Most open files of one that are looked through for sockets.
const FILES_MAX: usize = 4096;
/// How often new children and sockets are looked for.
const SEARCH_EVERY: Duration = Duration::from_millis(200);
/// And within this time of the start each time: short programs are over soon.
const SEARCH_AT_FIRST: Duration = Duration::from_secs(2);

/// What the program did since the last sample.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Worked {
    /// CPU time of its busiest thread, and its time ready to run without a CPU, microseconds.
    pub(super) run_us: u64,
    pub(super) delay_us: u64,
    /// Share of the looks at which one of its threads waited for a disk (state D), 0 to 1.
    pub(super) blocked: f64,
    /// Share of the looks at which all of it was stopped (state T), 0 to 1.
    pub(super) stopped: f64,
    /// Share of the looks at which what moves its data slept by its own choice, 0 to 1.
    pub(super) slept: f64,
    /// Share of the looks at which what holds its connections waited for events, for a short time, 0 to 1.
    pub(super) turns: f64,
}

/// A thread's account at some moment.
#[derive(Debug, Clone, Copy, Default)]
struct ThreadAccount {
    run_ns: u64,
    delay_ns: u64,
}

#[derive(Debug)]
pub(super) struct Processes {
    root: u32,
    began: Instant,
    searched: Option<Instant>,
    pids: Vec<u32>,
    names: Vec<String>,
    /// Sockets, and the process that holds each.
    sockets: HashMap<u64, u32>,
    /// Processes that hold one of the connections.
    carriers: HashSet<u32>,
    udp: bool,
    denied: bool,
    looks: u32,
    blocked: u32,
    stopped: u32,
    naps: Naps,
    /// At the last sample, and now.
    before: HashMap<u32, ThreadAccount>,
    now: HashMap<u32, ThreadAccount>,
}

impl Processes {
    pub(super) fn of(root: u32) -> Result<Processes, WatchError> {
        if fs::metadata(format!("/proc/{root}")).is_err() {
            return Err(WatchError::NoProcess(root));
        }
        let mut processes = Processes {
            root,
            began: Instant::now(),
            searched: None,
            pids: vec![root],
            names: Vec::new(),
            sockets: HashMap::new(),
            carriers: HashSet::new(),
            udp: false,
            denied: false,
            looks: 0,
            blocked: 0,
            stopped: 0,
            naps: Naps::default(),
            before: HashMap::new(),
            now: HashMap::new(),
        };
        processes.look(Instant::now());
        Ok(processes)
    }

    /// Whether one of its processes holds or held a socket that is a connection.
    pub(super) fn carries(&mut self, connection: u64) -> bool {
        let Some(pid) = self.sockets.get(&connection) else { return false };
        self.carriers.insert(*pid);
        true
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn has_udp(&self) -> bool {
        self.udp
    }

    /// Whether something of it could not be seen.
    pub(super) fn denied(&self) -> bool {
        self.denied
    }

    /// Looks at all of it; whether the program still runs.
    pub(super) fn look(&mut self, now: Instant) -> bool {
        let often = now - self.began < SEARCH_AT_FIRST;
        if often || self.searched.is_none_or(|at| now - at >= SEARCH_EVERY) {
            self.searched = Some(now);
            self.search();
        }
        self.looks += 1;
        let (mut blocked, mut stopped) = (false, true);
        for pid in self.pids.clone() {
            self.naps.look(pid, self.carriers.contains(&pid));
            for tid in entries(&format!("/proc/{pid}/task"), THREADS_MAX) {
                let state = state_of(pid, tid);
                blocked |= state == Some('D');
                stopped &= state == Some('T') || state == Some('Z');
                if let Some(account) = account_of(pid, tid) {
                    self.now.insert(tid, account);
                }
            }
        }
        self.blocked += u32::from(blocked);
        self.stopped += u32::from(stopped);
        !matches!(state_of(self.root, self.root), None | Some('Z' | 'X'))
    }

    /// What it did since the last call.
    pub(super) fn take(&mut self) -> Worked {
        let since = |tid: &u32, now: &ThreadAccount| {
            let before = self.before.get(tid).copied().unwrap_or_default();
            (now.run_ns.saturating_sub(before.run_ns), now.delay_ns.saturating_sub(before.delay_ns))
        };
        let busiest =
            self.now.iter().map(|(tid, now)| since(tid, now)).max_by_key(|(run, delay)| run + delay);
        let (run, delay) = busiest.unwrap_or_default();
        let looks = f64::from(self.looks.max(1));
        let rest = self.naps.take();
        let worked = Worked {
            run_us: run / 1000,
            delay_us: delay / 1000,
            blocked: f64::from(self.blocked) / looks,
            stopped: f64::from(self.stopped) / looks,
            slept: rest.slept,
            turns: rest.turns,
        };
        // Threads that have ended are forgotten.
        self.before = std::mem::take(&mut self.now);
        (self.looks, self.blocked, self.stopped) = (0, 0, 0);
        worked
    }

    /// Finds children and sockets.
    fn search(&mut self) {
        let mut found = vec![self.root];
        let mut next = 0;
        while next < found.len() && found.len() < PROCESSES_MAX {
            let pid = found[next];
            next += 1;
            for tid in entries(&format!("/proc/{pid}/task"), THREADS_MAX) {
                let children = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
                let children = children.unwrap_or_default();
                let children =
                    children.split_ascii_whitespace().filter_map(|child| child.parse::<u32>().ok());
                found.extend(children);
            }
        }
        found.truncate(PROCESSES_MAX);
        for &pid in &found {
            self.find_sockets(pid);
            if let Ok(name) = fs::read_to_string(format!("/proc/{pid}/comm"))
                && !self.names.iter().any(|known| known == name.trim_end())
                && self.names.len() < PROCESSES_MAX
            {
                self.names.push(name.trim_end().to_owned());
            }
        }
        self.pids = found;
    }

    fn find_sockets(&mut self, pid: u32) {
        let folder = format!("/proc/{pid}/fd");
        match fs::read_dir(&folder) {
            Ok(files) => {
                for file in files.take(FILES_MAX).flatten() {
                    let Ok(target) = fs::read_link(file.path()) else { continue };
                    let inode = target.to_str().and_then(|name| name.strip_prefix("socket:["));
                    let inode = inode
                        .and_then(|rest| rest.strip_suffix(']'))
                        .and_then(|rest| rest.parse::<u64>().ok());
                    self.sockets.extend(inode.map(|inode| (inode, pid)));
                }
            }
            // The files of one that ends are root's from the moment on at which it has given back its memory.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => self.denied |= has_memory(pid),
            Err(_) => {}
        }
        self.udp |= !self.udp && has_udp(pid, &self.sockets);
    }
}

/// Whether one of the sockets is one of UDP.
fn has_udp(pid: u32, sockets: &HashMap<u64, u32>) -> bool {
    ["udp", "udp6"].iter().any(|table| {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        let inodes = table
            .lines()
            .skip(1)
            .filter_map(|line| line.split_ascii_whitespace().nth(9)?.parse::<u64>().ok());
        inodes.into_iter().any(|inode| sockets.contains_key(&inode))
    })
}

/// The numbers in a folder of `/proc`.
fn entries(folder: &str, most: usize) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.take(most).flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// State of a thread: the letter behind its name, which may hold anything.
fn state_of(pid: u32, tid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether a process has memory: one that ends, or has ended, has none.
fn has_memory(pid: u32) -> bool {
    let pages = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    pages.split_ascii_whitespace().next().is_some_and(|total| total != "0")
}

fn account_of(pid: u32, tid: u32) -> Option<ThreadAccount> {
    let line = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let mut words = line.split_ascii_whitespace();
    let mut number = || words.next()?.parse::<u64>().ok();
    Some(ThreadAccount { run_ns: number()?, delay_ns: number()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_is_nobody_elses() {
        assert!(has_memory(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().expect("a program");
        let ended = || matches!(state_of(child.id(), child.id()), Some('Z'));
        let until = Instant::now() + Duration::from_secs(10);
        while !ended() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Nothing has waited for it: it is still listed.
        assert!(ended() && !has_memory(child.id()));
        child.wait().expect("it ended");
    }
}
