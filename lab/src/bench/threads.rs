//! What each thread of a copy costs, and what that means for hosts of more cores (`--threads`).
//!
//! A stage of one thread carries a gigabyte in no less than it costs. Hashing is shared: at the sender each
//! part of a large file is read and hashed by any of its threads, at the receiver other threads verify what
//! the storing one then writes. What storing costs without hashing is both threads' cost less that of
//! hashing, which is measured.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::hint::black_box;
use std::time::Instant;

use super::record::{Ends, Results, ThreadTimes};
use crate::run::group::Group;

/// Threads that may help another one, at most: `HANDS_MAX` of fobs-engine's reader and writer.
const HANDS_MAX: usize = 8;
/// A chunk of data.
const CHUNK: usize = 4 << 20;
/// Cores of a side that the table is for.
const CORES: [usize; 4] = [2, 4, 8, 16];
/// Thread names of the kernel are this long at most (TASK_COMM_LEN).
const NAME_MAX: usize = 15;
/// The rate at which shares of a core are told, Gbit/s.
const RATE: f64 = 6.0;

/// Looks at the threads of a group again and again. A thread that ends between two looks keeps what it had.
#[derive(Default)]
pub struct Watched {
    seen: BTreeMap<(i32, i32), (String, u64, u64)>,
}

impl Watched {
    /// Looks once.
    pub fn look(&mut self, group: &Group) {
        for pid in group.pids().into_iter().map(|pid| pid.as_raw_nonzero().get()) {
            let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            for task in tasks.flatten() {
                let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
                let Ok(tid) = task.file_name().to_string_lossy().parse() else { continue };
                let Some(run_ns) = run_ns(&read("schedstat")) else { continue };
                let name = read("comm").trim().to_owned();
                let seen = self.seen.entry((pid, tid)).or_insert((String::new(), run_ns, run_ns));
                // A thread has its creator's name until it gets its own.
                (seen.0, seen.2) = (name, run_ns);
            }
        }
    }

    /// What threads of each name used since they were first seen.
    pub fn times(&self) -> ThreadTimes {
        let mut times = ThreadTimes::new();
        for (name, first, last) in self.seen.values() {
            *times.entry(name.clone()).or_default() += (last - first) as f64 / 1e9;
        }
        times
    }
}

/// The first number of a `schedstat`: ns on a CPU.
fn run_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().next()?.parse().ok()
}

/// A part of the work of a copy.
#[derive(Debug)]
struct Stage {
    name: &'static str,
    /// CPU seconds for a gigabyte.
    cost: f64,
    /// Threads that share it on a host of `n` cores.
    threads: fn(usize) -> usize,
}

impl Stage {
    /// Gbit/s on a host of `cores`.
    fn ceiling(&self, cores: usize) -> f64 {
        8.0 * (self.threads)(cores) as f64 / self.cost
    }
}

/// The stages of both ends, and what an end costs in all.
#[derive(Debug)]
struct Model {
    stages: Vec<Stage>,
    whole: Ends<f64>,
}

impl Model {
    /// Of costs by thread name, CPU seconds for a gigabyte; `hash` is that of hashing it.
    fn of(costs: &Ends<ThreadTimes>, hash: f64) -> Model {
        let sum = |times: &ThreadTimes, names: &[&str]| {
            let cut = |name: &str| name[..name.len().min(NAME_MAX)].to_owned();
            names.iter().filter_map(|name| times.get(&cut(name))).sum::<f64>()
        };
        let one: fn(usize) -> usize = |_| 1;
        let (client, server) = (&costs.client, &costs.server);
        let storing = sum(server, &["fobs-write", "fobs-verify"]);
        let stages = [
            ("sealing and sending", sum(client, &["fobs", "fobs-send"]), one),
            ("reading and hashing", sum(client, &["fobs-read", "fobs-read-hand"]), |n| {
                1 + HANDS_MAX.min(n - 1)
            }),
            ("receiving and opening", sum(server, &["fobs-session", "fobs-receive", "fobs-lane"]), one),
            ("verifying", hash.min(storing), |n| 1.max(HANDS_MAX.min(n - 1))),
            ("storing", (storing - hash).max(0.0), one),
        ];
        let stages = stages.into_iter().map(|(name, cost, threads)| Stage { name, cost, threads });
        let whole = Ends { client: client.values().sum(), server: server.values().sum() };
        Model { stages: stages.filter(|stage| stage.cost > 0.0).collect(), whole }
    }

    /// What carries least on hosts of `cores`, and how much that is, Gbit/s. With `shared` both ends have
    /// the same cores.
    fn limit(&self, cores: usize, shared: bool) -> (&'static str, f64) {
        let whole = if shared {
            self.whole.client + self.whole.server
        } else {
            self.whole.client.max(self.whole.server)
        };
        let all = ("all cores", 8.0 * cores as f64 / whole);
        let stages = self.stages.iter().map(|stage| (stage.name, stage.ceiling(cores)));
        stages.chain([all]).min_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or(all)
    }
}

/// CPU seconds that hashing a gigabyte takes, in chunks, on one core.
pub fn hash_cost() -> f64 {
    let data = vec![7; CHUNK];
    let rounds = 64;
    black_box(blake3::hash(&data));
    let began = Instant::now();
    for _ in 0..rounds {
        black_box(blake3::hash(black_box(&data)));
    }
    began.elapsed().as_secs_f64() * 1e9 / (rounds * CHUNK) as f64
}

/// Tables of a part's runs of `fobs, daemon`; empty where no run was watched.
pub fn tables(results: &Results, part: &str, hash: f64) -> String {
    let name = "fobs, daemon";
    let runs: Vec<_> = results.runs(part, name).filter(|run| run.threads.is_some()).collect();
    let gigabytes = runs.iter().map(|run| run.bytes as f64).sum::<f64>() / 1e9;
    if gigabytes == 0.0 {
        return String::new();
    }
    let mut costs = Ends::<ThreadTimes>::default();
    for ends in runs.iter().filter_map(|run| run.threads.as_ref()) {
        for (from, to) in [(&ends.client, &mut costs.client), (&ends.server, &mut costs.server)] {
            from.iter().for_each(|(name, s)| *to.entry(name.clone()).or_default() += s / gigabytes);
        }
    }
    let mut text = format!(
        "### Threads of {name}, {part}\n\nHashing a GB takes {hash:.2} s of one core here.\n\n\
         | thread | end | CPU s/GB | of a core at {RATE:.0} Gbit/s |\n|---|---|---|---|"
    );
    for (end, times) in [("sender", &costs.client), ("receiver", &costs.server)] {
        for (name, cost) in times.iter().filter(|(_, cost)| **cost >= 0.005) {
            let _ = write!(text, "\n| `{name}` | {end} | {cost:.2} | {:.0}% |", cost * RATE / 8.0 * 100.0);
        }
    }
    let model = Model::of(&costs, hash);
    text += "\n\n| cores of each end | Gbit/s at most | what ends there | both ends on these cores |\n|---|---|---|---|";
    for cores in CORES {
        let ((what, apart), (_, shared)) = (model.limit(cores, false), model.limit(cores, true));
        let _ = write!(text, "\n| {cores} | {apart:.0} | {what} | {shared:.0} |");
    }
    text.push_str("\n\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(of: &[(&str, f64)]) -> ThreadTimes {
        of.iter().map(|(name, s)| ((*name).to_owned(), *s)).collect()
    }

    #[test]
    fn the_slowest_stage_is_named() {
        let costs = Ends {
            client: times(&[
                ("fobs", 0.25),
                ("fobs-read", 0.3),
                ("fobs-read-hand", 0.3),
                ("fobs-control", 0.01),
            ]),
            server: times(&[("fobs-session", 0.2), ("fobs-write", 0.5), ("fobs-verify", 0.3)]),
        };
        let model = Model::of(&costs, 0.4);
        // 0.8 s of storing and verifying, half of that hashing.
        assert_eq!(model.limit(8, false), ("storing", 20.0));
        assert!((model.limit(2, false).1 - 16.0).abs() < 1e-9, "{:?}", model.limit(2, false));
        assert_eq!(model.limit(2, false).0, "all cores");
        assert!((model.limit(2, true).1 - 8.0 * 2.0 / 1.86).abs() < 1e-9);
    }

    #[test]
    fn helpers_are_as_many_as_cores_are_left() {
        let costs = Ends { client: times(&[("fobs-read", 1.0)]), server: times(&[("fobs-write", 0.5)]) };
        let model = Model::of(&costs, 0.5);
        let ceilings = |cores| model.stages.iter().map(|stage| stage.ceiling(cores)).collect::<Vec<_>>();
        assert_eq!(ceilings(1), [8.0, 16.0]);
        assert_eq!(ceilings(4), [32.0, 48.0]);
        assert_eq!(ceilings(64), [72.0, 128.0]);
    }

    #[test]
    fn this_thread_is_seen() {
        assert_eq!(run_ns("123456 789 5\n"), Some(123_456));
        assert_eq!(run_ns(""), None);
        assert!(hash_cost() > 0.0);
    }
}
