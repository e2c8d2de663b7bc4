//! A core that a thread shares with competitors: after a slice of its own it is off the CPU while each of
//! them has one.

use super::SLICE;
use crate::rng::Rng;
use crate::time::Nanos;

/// A core's other users.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuConfig {
    /// Busy processes that share each core.
    pub competitors: u32,
    /// From when until when they are there; `None` for always.
    pub competitors_during: Option<(Nanos, Nanos)>,
    /// From when until when nothing of ours runs: paging, a stopped process, a paused virtual machine.
    /// Ascending.
    pub stalls: Vec<(Nanos, Nanos)>,
}

/// A thread on its core.
#[derive(Debug)]
pub(crate) struct Cpu {
    config: CpuConfig,
    rng: Rng,
    /// CPU time used of the present slice.
    used: Nanos,
    off_until: Nanos,
    /// Time kept off the CPU so far, and time on it.
    off: Nanos,
    ran: Nanos,
}

impl Cpu {
    pub(crate) fn new(config: CpuConfig, rng: Rng) -> Cpu {
        Cpu { config, rng, used: 0, off_until: 0, off: 0, ran: 0 }
    }

    /// The first moment from `now` on at which the thread is on its CPU.
    pub(crate) fn ready(&self, now: Nanos) -> Nanos {
        let mut at = now.max(self.off_until);
        for (from, until) in &self.config.stalls {
            if (*from..*until).contains(&at) {
                at = *until;
            }
        }
        at
    }

    /// The thread runs from `now` on for `cost`; when it is done.
    pub(crate) fn run(&mut self, now: Nanos, cost: Nanos) -> Nanos {
        self.used += cost;
        self.ran += cost;
        let done = now + cost;
        let contended =
            self.config.competitors_during.is_none_or(|(from, until)| (from..until).contains(&now));
        if self.used >= SLICE && self.config.competitors > 0 && contended {
            self.used = 0;
            let turn = u64::from(self.config.competitors) * SLICE;
            // Competitors sleep now and then, and ticks fall where they fall: measured 3.1 to 4.2 ms for one.
            self.off_until = done + self.rng.range(turn * 3 / 4, turn * 21 / 20);
            self.off += self.off_until - done;
        }
        done
    }

    /// Time that competitors took so far.
    pub(crate) fn off(&self) -> Nanos {
        self.off
    }

    /// Time on the CPU so far.
    pub(crate) fn ran(&self) -> Nanos {
        self.ran
    }

    /// No more competitors and stalls from now on.
    pub(crate) fn calm(&mut self) {
        self.config = CpuConfig::default();
        self.off_until = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{MS, SEC, US};

    #[test]
    fn three_competitors_leave_a_quarter() {
        let mut cpu = Cpu::new(CpuConfig { competitors: 3, ..CpuConfig::default() }, Rng::new(1));
        let (mut now, mut ran) = (0, 0);
        while now < 10 * SEC {
            now = cpu.run(cpu.ready(now), 10 * US);
            ran += 10 * US;
        }
        assert!((now / 5..now * 2 / 7).contains(&ran), "ran {ran} of {now}");
        assert!(cpu.off() > now * 2 / 3);
        cpu.calm();
        assert_eq!(cpu.ready(now), now);
    }

    #[test]
    fn a_thread_that_hardly_runs_is_hardly_ever_kept_off() {
        let mut cpu = Cpu::new(CpuConfig { competitors: 1, ..CpuConfig::default() }, Rng::new(1));
        for ms in 0..1000 {
            cpu.run(cpu.ready(ms * MS), 40 * US);
        }
        assert!(cpu.off() < 50 * MS);
    }

    #[test]
    fn stalls_and_their_ends() {
        let stalls = vec![(10, 20), (20, 30), (50, 60)];
        let cpu = Cpu::new(CpuConfig { stalls, ..CpuConfig::default() }, Rng::new(1));
        assert_eq!([5, 10, 19, 30, 55].map(|at| cpu.ready(at)), [5, 30, 30, 30, 60]);
    }
}
