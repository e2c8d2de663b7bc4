//! The machine that the bench ran on.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::record::{Facts, Record};
use crate::run::machine::machine;
use crate::tool::{Programs, first_line};

/// The machine, now. What cannot be found out is `unknown`, a program that is not there `missing`.
pub fn facts(programs: &Programs, ciphers: BTreeMap<String, f64>, bytes: u64) -> Facts {
    let version = |words: &[&str]| match programs.find(words[0], "") {
        Ok(_) => programs.ask(words).map_or_else(|_| "unknown".to_owned(), |text| first_line(&text)),
        Err(_) => "missing".to_owned(),
    };
    let tcp = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    let machine = machine();
    Facts {
        v: Record::version(),
        part: "machine".to_owned(),
        name: "machine".to_owned(),
        time: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        cpu: machine.cpu,
        cpus: machine.cores,
        memory: format!("{} kB", machine.memory_bytes / 1024),
        kernel: machine.kernel,
        load: machine.load[0],
        tcp: tcp.trim().to_owned(),
        ssh: version(&["ssh", "-V"]),
        rsync: version(&["rsync", "--version"]),
        iperf3: version(&["iperf3", "--version"]),
        commit: version(&["git", "rev-parse", "--short", "HEAD"]),
        ciphers,
        bytes,
    }
}
