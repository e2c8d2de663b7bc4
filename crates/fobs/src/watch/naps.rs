//! Whether a program sleeps by its own choice, as one does that keeps itself to a rate: its main thread is in
//! a call of the kernel that waits for nothing but time (`/proc/PID/syscall`).
//!
//! A helper that sleeps (a progress display, a `sleep` of a script) moves no data: only processes count that
//! moved at least a part of the bytes of the busiest one.

use super::COPIED_MIN;
use std::collections::HashMap;
use std::fs;

/// Part of the bytes of the process that moved most so far, from which on a process moves the data.
const MOVES: f64 = 0.25;

/// A call that waits for time alone: always, or where this argument, a number of files, is 0.
type Call = (libc::c_long, Option<usize>);

const CALLS: &[Call] = &[
    (libc::SYS_nanosleep, None),
    (libc::SYS_clock_nanosleep, None),
    (libc::SYS_pselect6, Some(0)),
    (libc::SYS_ppoll, Some(1)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_select, Some(0)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, Some(1)),
];

/// A process: looks since the last sample, those at which it slept, and the bytes that it has moved so far.
#[derive(Debug, Clone, Copy, Default)]
struct Nap {
    looks: u32,
    asleep: u32,
    bytes: u64,
}

/// The processes of a program.
#[derive(Debug, Default)]
pub(super) struct Naps {
    of: HashMap<u32, Nap>,
}

impl Naps {
    /// Looks at a process. Without the right to see its call it counts as awake.
    pub(super) fn look(&mut self, pid: u32) {
        let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        let bytes = fs::read_to_string(format!("/proc/{pid}/io")).map_or(0, |io| moved(&io));
        let nap = self.of.entry(pid).or_default();
        nap.looks += 1;
        nap.asleep += u32::from(sleeps(&call));
        nap.bytes = bytes;
    }

    /// The share of the looks since the last call at which a process that moves data slept, 0 to 1.
    pub(super) fn take(&mut self) -> f64 {
        let most = self.of.values().map(|nap| nap.bytes).max().unwrap_or(0);
        let moves = |nap: &&Nap| nap.bytes >= COPIED_MIN && nap.bytes as f64 >= MOVES * most as f64;
        let slept = |nap: &Nap| f64::from(nap.asleep) / f64::from(nap.looks.max(1));
        let share = self.of.values().filter(moves).map(slept).fold(0.0, f64::max);
        // Processes that have ended are forgotten.
        self.of.retain(|_, nap| nap.looks > 0);
        for nap in self.of.values_mut() {
            (nap.looks, nap.asleep) = (0, 0);
        }
        share
    }
}

/// Whether a line of `/proc/PID/syscall` is of a call that waits for time alone.
fn sleeps(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let Some(number) = words.next().and_then(|word| word.parse::<libc::c_long>().ok()) else { return false };
    let arguments: Vec<&str> = words.collect();
    CALLS.iter().any(|(call, files)| {
        *call == number && files.is_none_or(|place| arguments.get(place).is_some_and(|files| *files == "0x0"))
    })
}

/// Bytes that went through a process's calls, by `/proc/PID/io`.
fn moved(io: &str) -> u64 {
    let of = |name: &str| io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    of("rchar:").unwrap_or(0).saturating_add(of("wchar:").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_that_wait_for_time_alone_are_sleep() {
        let call = |number: libc::c_long, rest: &str| sleeps(&format!("{number} {rest} 0x7ffc 0x7f00"));
        assert!(call(libc::SYS_clock_nanosleep, "0x0 0x0 0x7ffd"));
        assert!(call(libc::SYS_pselect6, "0x0 0x0 0x0 0x0 0x7ffd 0x0"), "no file to wait for");
        assert!(!call(libc::SYS_pselect6, "0x5 0x7ffd 0x0 0x0 0x7ffd 0x0"), "waits for files");
        assert!(call(libc::SYS_ppoll, "0x7ffd 0x0 0x7ffd 0x0"));
        assert!(!call(libc::SYS_ppoll, "0x7ffd 0x1 0x7ffd 0x0"));
        assert!(!call(libc::SYS_read, "0x0 0x0 0x0"));
        assert!(!sleeps("running") && !sleeps("") && !sleeps("-1 0x7ffd 0x7f00"));
    }

    #[test]
    fn a_helper_that_sleeps_moves_no_data() {
        let nap = |asleep, bytes| Nap { looks: 5, asleep, bytes };
        let mut naps = Naps::default();
        naps.of.extend([(1, nap(1, 1_000_000)), (2, nap(5, 100)), (3, nap(0, 900_000))]);
        assert!((naps.take() - 0.2).abs() < 1e-9);
        assert_eq!(naps.take(), 0.0, "nobody looked since");
        assert_eq!(moved("rchar: 12\nwchar: 30\nsyscr: 9\n"), 42);
    }
}
