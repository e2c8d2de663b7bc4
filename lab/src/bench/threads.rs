//! What each thread of a copy costs, and what that means for hosts of more cores (`--threads`).
//!
//! What storing costs without hashing is the cost of both threads less that of hashing, which is measured.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::hint::black_box;
use std::time::Instant;

use super::record::{Ends, Results, ThreadTimes};
use crate::run::group::Group;
use fobs_proto::session::{LANES_UNCHOSEN_MAX, ThreadCosts};

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

/// Costs by thread name, CPU seconds for a gigabyte, as those of stages; `hash` is that of hashing it.
fn costs_of(costs: &Ends<ThreadTimes>, hash: f64) -> ThreadCosts {
    let sum = |times: &ThreadTimes, names: &[&str]| {
        let cut = |name: &str| name[..name.len().min(NAME_MAX)].to_owned();
        names.iter().filter_map(|name| times.get(&cut(name))).sum::<f64>()
    };
    let (client, server) = (&costs.client, &costs.server);
    let storing = sum(server, &["fobs-write", "fobs-verify"]);
    ThreadCosts {
        sealing: sum(client, &["fobs", "fobs-send", "fobs-lane-send"]),
        reading: sum(client, &["fobs-read", "fobs-read-hand"]),
        opening: sum(server, &["fobs-session", "fobs-receive", "fobs-lane", "fobs-lane-recv"]),
        verifying: hash.min(storing),
        storing: (storing - hash).max(0.0),
        ends: [client.values().sum(), server.values().sum()],
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
    let costs = costs_of(&costs, hash);
    text += "\n\n| cores of each end | Gbit/s at most | what ends there | with lanes | what ends there | both ends on these cores |\n\
             |---|---|---|---|---|---|";
    for cores in CORES {
        let ((what, apart), (_, shared)) = (costs.limit(cores, 1), costs.shared(cores, 1));
        let lanes = costs.lanes(cores, usize::from(LANES_UNCHOSEN_MAX));
        let (then, with) = costs.limit(cores, lanes);
        let _ = write!(
            text,
            "\n| {cores} | {apart:.0} | {} | {with:.0} ({lanes}) | {} | {shared:.0} |",
            what.name(),
            then.name()
        );
    }
    text.push_str("\n\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_proto::session::CopyStage;

    fn times(of: &[(&str, f64)]) -> ThreadTimes {
        of.iter().map(|(name, s)| ((*name).to_owned(), *s)).collect()
    }

    #[test]
    fn threads_are_stages() {
        let costs = Ends {
            client: times(&[
                ("fobs", 0.25),
                ("fobs-read", 0.3),
                ("fobs-read-hand", 0.3),
                ("fobs-control", 0.01),
            ]),
            server: times(&[("fobs-session", 0.2), ("fobs-write", 0.5), ("fobs-verify", 0.3)]),
        };
        let costs = costs_of(&costs, 0.4);
        assert!((costs.ends[0] - 0.86).abs() < 1e-9 && (costs.ends[1] - 1.0).abs() < 1e-9, "{costs:?}");
        assert!((costs.storing - 0.4).abs() < 1e-9, "0.8 s of both, half of that hashing: {costs:?}");
        let (stage, rate) = costs.limit(8, 1);
        assert_eq!((stage, rate.round()), (CopyStage::Storing, 20.0));
    }

    #[test]
    fn this_thread_is_seen() {
        assert_eq!(run_ns("123456 789 5\n"), Some(123_456));
        assert_eq!(run_ns(""), None);
        assert!(hash_cost() > 0.0);
    }
}
