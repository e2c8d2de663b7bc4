//! What machine this is: for the header of a result file.

use std::fs;
use std::thread::available_parallelism;

use crate::record::Machine;

/// This machine, now. What the kernel does not report stays empty.
pub fn machine() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    Machine {
        cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
        cores: available_parallelism().map_or(0, usize::from),
        memory_bytes: memory_bytes(&read("/proc/meminfo")),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        load: load(&read("/proc/loadavg")),
    }
}

/// The first value of that name in lines of `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .map(|(key, value)| (key.trim(), value.trim()))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.to_owned())
}

fn memory_bytes(meminfo: &str) -> u64 {
    let kib =
        field(meminfo, "MemTotal").and_then(|value| value.strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

fn load(loadavg: &str) -> [f64; 3] {
    let mut averages = loadavg.split_whitespace().map(|average| average.parse().unwrap_or(0.0));
    std::array::from_fn(|_| averages.next().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read() {
        let cpuinfo =
            "processor\t: 0\nmodel name\t: A Processor\nprocessor\t: 1\nmodel name\t: A Processor\n";
        assert_eq!(field(cpuinfo, "model name").as_deref(), Some("A Processor"));
        assert_eq!(memory_bytes("MemTotal:       24626060 kB\nMemFree: 1 kB\n"), 24_626_060 * 1024);
        assert_eq!(load("0.50 0.25 0.10 1/200 4000\n"), [0.5, 0.25, 0.1]);
        assert_eq!((memory_bytes(""), load("")), (0, [0.0; 3]));
    }
}
