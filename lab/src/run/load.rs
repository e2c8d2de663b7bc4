//! Load on a host: processes that compete with its programs for one processor, and what its sockets lose
//! meanwhile.
//!
//! Paper 004 (section 4.1, Figures 1 and 2) sent at a constant rate and saw losses follow the load of the
//! receiving host. Here the load is made: the host's programs are bound to one processor, and competitors
//! that never sleep come and go on it by the plan.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::group::Group;
use super::namespace::Namespace;
use super::process::Process;
use crate::plan::LoadSpec;
use crate::record::{self, LoadSample};
use crate::tool::Program;

/// Time between samples, as of the other time series.
const INTERVAL: Duration = Duration::from_millis(100);
/// Most samples of a run.
const SAMPLES_MAX: usize = 6000;
/// A competitor: stops itself, and once it may go on, never sleeps.
const BUSY: [&str; 3] = ["sh", "-c", "kill -STOP $$; while :; do :; done"];
/// Bytes of `/proc/net/snmp` that are read: it has less than 4 KiB.
const SNMP_BYTES: u64 = 16 << 10;

/// A load that is running; its competitors end when it is dropped.
pub struct Load<'a> {
    spec: &'a LoadSpec,
    group: Group,
    /// All that there will be, stopped until they are needed: starting a program beside busy ones takes long.
    competitors: Vec<Process>,
    running: usize,
    counters: UdpCounters,
    last: Counts,
    next_sample: Duration,
    series: Vec<LoadSample>,
}

impl<'a> Load<'a> {
    /// Ready to begin: nothing competes yet.
    pub fn new(spec: &'a LoadSpec, namespace: &Namespace) -> Result<Load<'a>, String> {
        let mut counters = UdpCounters::open(namespace)?;
        let last = counters.read().map_err(unreadable)?;
        let group = Group::new("load");
        let most = spec.periods.iter().map(|period| period.competitors).max().unwrap_or_default();
        let competitor = |_| Process::start(&Program::new(BUSY), namespace, &group, &[spec.cpu]);
        let competitors = (0..most).map(competitor).collect::<Result<_, _>>()?;
        let series = Vec::new();
        Ok(Load { spec, group, competitors, running: 0, counters, last, next_sample: INTERVAL, series })
    }

    /// Brings the competitors to their planned number, and samples when a sample is due. `start` is the run's
    /// start.
    pub fn look(&mut self, start: Instant, now: Instant) -> Result<(), String> {
        let since = now.saturating_duration_since(start);
        if since >= self.next_sample && self.series.len() < SAMPLES_MAX {
            self.sample(since)?;
            // After a stall there is one longer interval, not a burst of empty ones.
            self.next_sample = since + INTERVAL;
        }
        let wanted = self.spec.competitors(since) as usize;
        if let Some(more) = self.competitors.get_mut(self.running..wanted) {
            more.iter_mut().for_each(|competitor| competitor.signal(Signal::CONT));
        } else if let Some(fewer) = self.competitors.get_mut(wanted..self.running) {
            fewer.iter_mut().for_each(|competitor| competitor.signal(Signal::STOP));
        }
        self.running = wanted;
        Ok(())
    }

    /// When [`Load::look`] is due next.
    pub fn next(&self, start: Instant, now: Instant) -> Instant {
        let since = now.saturating_duration_since(start);
        start + self.spec.change(since).map_or(self.next_sample, |change| change.min(self.next_sample))
    }

    /// The samples; the competitors end, as they do when it is dropped.
    pub fn finish(mut self, start: Instant) -> Result<record::Load, String> {
        self.sample(start.elapsed())?;
        self.group.kill();
        Ok(record::Load { host: self.spec.host.clone(), cpu: self.spec.cpu, series: self.series })
    }

    fn sample(&mut self, since: Duration) -> Result<(), String> {
        let counts = self.counters.read().map_err(unreadable)?;
        self.series.push(LoadSample {
            t_s: (since.as_secs_f64() * 1e3).round() / 1e3,
            competitors: self.running as u32,
            delivered: counts.delivered.saturating_sub(self.last.delivered),
            dropped: counts.dropped.saturating_sub(self.last.dropped),
        });
        self.last = counts;
        Ok(())
    }
}

fn unreadable(error: io::Error) -> String {
    format!("cannot read the UDP counters of the host under load: {error}")
}

/// A namespace's UDP counters; any thread may read them.
struct UdpCounters {
    file: File,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    delivered: u64,
    dropped: u64,
}

impl UdpCounters {
    fn open(namespace: &Namespace) -> Result<UdpCounters, String> {
        let file = namespace.within(|| File::open("/proc/thread-self/net/snmp"))?.map_err(unreadable)?;
        Ok(UdpCounters { file })
    }

    fn read(&mut self) -> io::Result<Counts> {
        let mut text = String::new();
        self.file.seek(SeekFrom::Start(0))?;
        (&mut self.file).take(SNMP_BYTES).read_to_string(&mut text)?;
        Ok(counts(&text))
    }
}

/// `InDatagrams` and `RcvbufErrors` of a table like `/proc/net/snmp`: a line of names, then a line of values.
fn counts(table: &str) -> Counts {
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let named: BTreeMap<&str, u64> = names
        .split_whitespace()
        .zip(values.split_whitespace())
        .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
        .collect();
    let value = |name| named.get(name).copied().unwrap_or_default();
    Counts { delivered: value("InDatagrams"), dropped: value("RcvbufErrors") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn udp_counters_are_found_by_name() {
        let table = "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\n\
            Udp: 1000 1 7 500 6\nUdpLite: InDatagrams\nUdpLite: 3\n";
        assert_eq!(counts(table), Counts { delivered: 1000, dropped: 6 });
        assert_eq!(counts(""), Counts::default());
    }
}
