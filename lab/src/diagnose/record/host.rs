//! A receiving host whose CPU is taken away from the receiver.

use std::io;
use std::process::{Child, Command};
use std::time::Duration;

use clap::ValueEnum;
use fobs_diagnose::Random;
use fobs_sys::clock::monotonic_ns;

use super::{HEADERS, PACKET};

/// Most competitors at a time, as in the paper (section 3.1.4).
const COMPETITORS_MAX: u64 = 7;

/// Uses the CPU for `ms` milliseconds.
pub fn spin(ms: u64) {
    let end = monotonic_ns() + ms * 1_000_000;
    while monotonic_ns() < end {}
}

/// The receiving host and its disturbance.
pub struct Host {
    /// Datagrams per read.
    pub batch: usize,
    /// Extra CPU time per packet, ns.
    pub work_ns: u64,
    scenario: Scenario,
    next_ns: u64,
    random: Random,
    children: Vec<Child>,
}

/// How the receiver is disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// Up to 7 competitors for 0.1 to 0.7 s, then 0 to 2 s without (the paper's generator, ten times faster)
    Paper,
    /// One competitor for 3 to 40 ms, often
    Light,
    /// Batches of processes that live for some milliseconds
    Spark,
    /// The receiver stops for 2 to 60 ms
    Stall,
    /// The receiver runs only for a part of every 100 ms
    Quota,
    /// The receiver is slightly too slow for the rate
    #[value(name = "slowrx")]
    Slow,
}

impl Host {
    /// The host of a scenario, for packets at `mbps` Mbit/s.
    pub fn new(scenario: Scenario, seed: u64, mbps: u64) -> Host {
        let mut random = Random::new(seed);
        let batch = random.pick(&[1, 8, 64]);
        let mut host = Host { batch, work_ns: 0, scenario, next_ns: 0, random, children: Vec::new() };
        if scenario == Scenario::Slow {
            let interval_ns = (PACKET + HEADERS) as u64 * 8000 / mbps;
            host.work_ns = interval_ns * (70 + host.below(36)) / 100;
        }
        host
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n as usize) as u64
    }

    /// Starts the next disturbance when it is due.
    pub fn disturb(&mut self) -> io::Result<()> {
        let now = monotonic_ns();
        if now < self.next_ns {
            return Ok(());
        }
        let first = self.next_ns == 0;
        self.end();
        let wait_ms = match self.scenario {
            _ if first => 200,
            Scenario::Paper => {
                let ms = 100 + self.below(600);
                for _ in 0..self.below(COMPETITORS_MAX + 1) {
                    self.compete(ms)?;
                }
                ms + self.below(2000)
            }
            Scenario::Light => {
                let ms = 3 + self.below(38);
                self.compete(ms)?;
                ms + 20 + self.below(400)
            }
            Scenario::Spark => {
                let ms = 1 + self.below(12);
                for _ in 0..=self.below(4) {
                    self.compete(ms)?;
                }
                4 * ms + 20 + self.below(300)
            }
            Scenario::Stall => {
                let ms = 2 + self.below(59);
                std::thread::sleep(Duration::from_millis(ms));
                50 + self.below(500)
            }
            Scenario::Quota => {
                let off = 10 + self.below(40);
                std::thread::sleep(Duration::from_millis(off));
                100 - off
            }
            Scenario::Slow => 1_000_000,
        };
        self.next_ns = monotonic_ns() + wait_ms * 1_000_000;
        Ok(())
    }

    /// Starts a process that competes for this process's CPU (the caller pins it) and ends after `ms`.
    fn compete(&mut self, ms: u64) -> io::Result<()> {
        let program = std::env::current_exe()?;
        self.children
            .push(Command::new(program).args(["diagnose", "record", "spin", &ms.to_string()]).spawn()?);
        Ok(())
    }

    /// Reaps the competitors that have ended.
    pub fn end(&mut self) {
        self.children.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
    }
}
