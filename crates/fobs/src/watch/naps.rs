//! Whether a program sleeps by its own choice, as one does that keeps itself to a rate: its main thread is in
//! a call of the kernel that waits for nothing but time (`/proc/PID/syscall`).
//!
//! A program that moves its data in a loop of events (`curl --limit-rate`) waits for its next turn in a call
//! with a short time limit instead. That is no sleep where it waits for its connection: the account decides.
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

/// Calls that wait for events, with the place of their time limit in milliseconds.
const TURNS: &[(libc::c_long, usize)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, 3),
    (libc::SYS_epoll_pwait, 3),
];
/// Longest time limit of a turn, milliseconds: longer ones watch over a connection that has died.
const TURN_MS: i64 = 1000;

/// A process: looks since the last sample, those at which it slept and at which it waited for its turn, and
/// the bytes that it has moved so far.
#[derive(Debug, Clone, Copy, Default)]
struct Nap {
    looks: u32,
    asleep: u32,
    turns: u32,
    bytes: u64,
}

/// Shares of the looks at which a process that moves data slept or waited for its turn, 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rest {
    pub(super) slept: f64,
    /// Of processes that hold a connection.
    pub(super) turns: f64,
}

/// The processes of a program.
#[derive(Debug, Default)]
pub(super) struct Naps {
    of: HashMap<u32, Nap>,
}

impl Naps {
    /// Looks at a process, which may hold a connection. Without the right to see its call it counts as awake.
    pub(super) fn look(&mut self, pid: u32, is_carrier: bool) {
        let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        let bytes = fs::read_to_string(format!("/proc/{pid}/io")).map_or(0, |io| moved(&io));
        let nap = self.of.entry(pid).or_default();
        nap.looks += 1;
        nap.asleep += u32::from(sleeps(&call));
        nap.turns += u32::from(is_carrier && awaits_turn(&call));
        nap.bytes = bytes;
    }

    /// What the processes that move data did since the last call.
    pub(super) fn take(&mut self) -> Rest {
        let most = self.of.values().map(|nap| nap.bytes).max().unwrap_or(0);
        let moves = |nap: &&Nap| nap.bytes >= COPIED_MIN && nap.bytes as f64 >= MOVES * most as f64;
        let share = |of: fn(&Nap) -> u32| {
            let shares =
                self.of.values().filter(moves).map(|nap| f64::from(of(nap)) / f64::from(nap.looks.max(1)));
            shares.fold(0.0, f64::max)
        };
        let rest = Rest { slept: share(|nap| nap.asleep), turns: share(|nap| nap.turns) };
        // Processes that have ended are forgotten.
        self.of.retain(|_, nap| nap.looks > 0);
        for nap in self.of.values_mut() {
            (nap.looks, nap.asleep, nap.turns) = (0, 0, 0);
        }
        rest
    }
}

/// A line of `/proc/PID/syscall`: the number of the call and its arguments.
fn parsed(line: &str) -> Option<(libc::c_long, Vec<&str>)> {
    let mut words = line.split_ascii_whitespace();
    let number = words.next()?.parse::<libc::c_long>().ok()?;
    Some((number, words.collect()))
}

/// Whether a line is of a call that waits for events, for a short time.
fn awaits_turn(line: &str) -> bool {
    let Some((number, arguments)) = parsed(line) else { return false };
    // The argument is an int: the upper half of the register is not part of it.
    let limit_ms = |place: usize| {
        let word = arguments.get(place)?.strip_prefix("0x")?;
        Some(i64::from(u64::from_str_radix(word, 16).ok()? as u32 as i32))
    };
    TURNS.iter().any(|(call, place)| {
        *call == number && limit_ms(*place).is_some_and(|ms| (1..=TURN_MS).contains(&ms))
    })
}

/// Whether a line is of a call that waits for time alone.
fn sleeps(line: &str) -> bool {
    let Some((number, arguments)) = parsed(line) else { return false };
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
    fn only_short_waits_for_events_are_turns() {
        let call =
            |limit: &str| awaits_turn(&format!("{} 0x5 0x7ffd 0x8 {limit} 0x0 0x8", libc::SYS_epoll_pwait));
        assert!(call("0x14") && call("0x3e8"));
        assert!(!call("0x0") && !call("0xea60"), "does not wait, and watches over a connection");
        assert!(!call("0xffffffff") && !call("0xffffffffffffffff"), "without a limit");
        assert!(!awaits_turn("running") && !awaits_turn("232 0x5") && !awaits_turn(""));
    }

    #[test]
    fn a_helper_that_sleeps_moves_no_data() {
        let nap = |asleep, bytes| Nap { looks: 5, asleep, turns: asleep, bytes };
        let mut naps = Naps::default();
        naps.of.extend([(1, nap(1, 1_000_000)), (2, nap(5, 100)), (3, nap(0, 900_000))]);
        let rest = naps.take();
        assert!((rest.slept - 0.2).abs() < 1e-9 && (rest.turns - 0.2).abs() < 1e-9, "{rest:?}");
        assert_eq!(naps.take(), Rest::default(), "there was no look since");
        assert_eq!(moved("rchar: 12\nwchar: 30\nsyscr: 9\n"), 42);
    }
}
