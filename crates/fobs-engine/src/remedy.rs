//! Remedies of the receiving thread for its own losses: one after the other, each given time to show its
//! effect.
//!
//! In order: a larger socket buffer, a less busy CPU, a higher priority, another lane. Losses that remain
//! despite them are left to the sender's drain rate (protocol 5.10).

use fobs_model::cause::{Remedy, RemedyAction, RemedyResult};
use fobs_proto::Timestamp;
use fobs_proto::loss_cause::JudgeMethod;
use fobs_proto::receiver::Receiver;
use fobs_sys::confine::{Errand, outside};
use fobs_sys::thread::{self, CpuTicks};
use std::collections::HashMap;
use std::io;
use std::time::Duration;

/// Share of the packets dropped at the socket from which remedies are applied: a loss of one in a thousand,
/// taken for the network's, already costs a controller most of a long path.
const DROPS_MATTER: f64 = 0.001;
/// How long a remedy is watched before its effect is reported and the next one is tried: several turns of a
/// scheduler that gives each of eight processes 4 ms, and of a load that comes and goes within seconds.
const EFFECT_AFTER: Duration = Duration::from_secs(1);
/// Growth factor of a buffer, and the largest size requested, bytes: 64 MiB hold half a second at 1 Gbit/s.
const BUFFER_FACTOR: usize = 4;
const BUFFER_MAX: usize = 64 << 20;
/// A CPU must have been idle for this much more of the time than ours to be worth a move.
const IDLER_BY: f64 = 0.3;
/// The nice value that is requested: with 7 competitors the thread is off its CPU for 4 ms instead of 28
/// (measured).
const NICE: i32 = -20;

/// Whether the receiver does anything about its losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemedyPolicy {
    /// Everything that is permitted.
    Apply,
    /// Nothing: the methods that only judge are compared with each other.
    Leave,
}

impl RemedyPolicy {
    /// The policy that belongs to the sender's method of attribution. The sender refuses an unknown one.
    pub fn of(loss_cause: &str) -> RemedyPolicy {
        match loss_cause.parse() {
            Ok(JudgeMethod::Off | JudgeMethod::Paper | JudgeMethod::Signature) => RemedyPolicy::Leave,
            Ok(JudgeMethod::On) | Err(_) => RemedyPolicy::Apply,
        }
    }
}

/// The remedies of one session.
#[derive(Debug)]
pub(super) struct Remedies {
    next: Step,
    watched: Option<Watched>,
    /// Packets received and dropped at the last look.
    seen: (u64, u64),
    /// CPU times by then, if the next step needs them: they come from a kernel file, read on the receiving
    /// thread.
    ticks: Option<HashMap<u32, CpuTicks>>,
    /// To be restored: the thread may be the caller's.
    nice_before: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Buffer,
    Cpu,
    Priority,
    Lane,
    Done,
}

/// A remedy in force whose effect is not known yet.
#[derive(Debug)]
struct Watched {
    action: RemedyAction,
    since: Timestamp,
    drops_before: f64,
    /// Packets received and dropped when it was applied.
    seen: (u64, u64),
}

/// A receiver of packets: the link, or a test.
pub(super) trait Mendable {
    /// Bytes of buffer granted at present.
    fn buffer(&self) -> usize;
    /// Requests `bytes`; returns the bytes granted.
    fn enlarge(&self, bytes: usize) -> io::Result<usize>;
    /// Has a thread of its own empty the socket from now on, as punctual as the calling one.
    fn add_lane(&mut self) -> io::Result<()>;
}

impl Remedies {
    pub(super) fn new() -> Remedies {
        Remedies { next: Step::Buffer, watched: None, seen: (0, 0), ticks: None, nice_before: None }
    }

    /// A heartbeat of a receiver's thread has passed; remedies applied, and effects of earlier ones.
    pub(super) fn look_after(
        &mut self,
        (now, began): (Timestamp, Timestamp),
        machine: &mut Receiver,
        link: &mut impl Mendable,
    ) -> Vec<Remedy> {
        let dropped = u64::from(machine.packets_dropped().unwrap_or(0));
        let remedies = self.on_heartbeat(now, began, machine.stats().packets, dropped, link);
        for remedy in &remedies {
            if let RemedyAction::LargerBuffer { to_bytes, .. } = remedy.action {
                machine.handle_socket_buffer(to_bytes);
            }
        }
        remedies
    }

    /// A heartbeat has passed; packets received and dropped at the socket so far. Remedies applied, and
    /// effects of earlier ones.
    fn on_heartbeat(
        &mut self,
        now: Timestamp,
        began: Timestamp,
        received: u64,
        dropped: u64,
        link: &mut impl Mendable,
    ) -> Vec<Remedy> {
        let seconds = (now - began).as_secs_f64();
        let remedy = |action, result| Remedy { seconds, action, result };
        let counts = (received, dropped);
        let drops = share(self.seen, counts);
        self.seen = counts;
        let mut out = Vec::new();
        if let Some(watched) = self.watched.take_if(|watched| now - watched.since >= EFFECT_AFTER) {
            let drops_after = share(watched.seen, counts);
            let result = RemedyResult::Effect { drops_before: watched.drops_before, drops_after };
            out.push(remedy(watched.action, result));
        }
        while self.watched.is_none() && self.next != Step::Done && drops >= DROPS_MATTER {
            if self.next == Step::Cpu && self.ticks.is_none() {
                // Which CPU is idle shows at the next look.
                break;
            }
            let (step, tried) = (self.next, self.apply(link));
            match tried {
                Ok(Some(action)) => {
                    self.watched = Some(Watched { action, since: now, drops_before: drops, seen: counts });
                    out.push(remedy(action, RemedyResult::Applied));
                }
                Ok(None) => {}
                Err((action, reason)) => out.push(remedy(action, RemedyResult::Refused { reason })),
            }
            // A buffer grows until it is large enough; the others are done once.
            if !(step == Step::Buffer && self.watched.is_some()) {
                self.next = step.after();
            }
        }
        let looks = self.next == Step::Cpu && self.watched.is_none();
        self.ticks = looks.then(|| outside(Errand::Counters, thread::cpu_ticks).into_iter().collect());
        out
    }

    /// Applies the next remedy: which that was, nothing if it would not help, or why it failed.
    fn apply(&mut self, link: &mut impl Mendable) -> Result<Option<RemedyAction>, (RemedyAction, String)> {
        match self.next {
            Step::Buffer => enlarge(link),
            Step::Cpu => self.change_cpu(),
            Step::Priority => self.go_first(),
            // After the priority: the lane inherits that of the thread that starts it.
            Step::Lane => add_lane(link),
            Step::Done => Ok(None),
        }
    }

    fn change_cpu(&self) -> Result<Option<RemedyAction>, (RemedyAction, String)> {
        let Some(before) = &self.ticks else { return Ok(None) };
        let from = thread::current_cpu();
        let idle = |(cpu, ticks): (u32, CpuTicks)| Some((cpu, ticks.idle_share_since(*before.get(&cpu)?)));
        let shares: Vec<(u32, f64)> =
            outside(Errand::Counters, thread::cpu_ticks).into_iter().filter_map(idle).collect();
        let Some(&(_, ours)) = shares.iter().find(|(cpu, _)| *cpu == from) else { return Ok(None) };
        let idlest = shares.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let Some(&(to, _)) = idlest.filter(|(_, share)| *share >= ours + IDLER_BY) else { return Ok(None) };
        let action = RemedyAction::QuieterCpu { from, to };
        match thread::move_to_cpu(to) {
            Ok(()) => Ok(Some(action)),
            Err(error) => Err((action, format!("the kernel does not move the thread: {error}"))),
        }
    }

    fn go_first(&mut self) -> Result<Option<RemedyAction>, (RemedyAction, String)> {
        let from = thread::nice().unwrap_or(0);
        if from <= NICE {
            return Ok(None);
        }
        let action = RemedyAction::HigherPriority { from, to: NICE };
        match thread::set_nice(NICE) {
            Ok(()) => {
                self.nice_before = Some(from);
                Ok(Some(action))
            }
            Err(error) => Err((
                action,
                format!(
                    "the kernel does not raise the priority: {error}; allow it with CAP_SYS_NICE or ulimit -e"
                ),
            )),
        }
    }
}

impl Drop for Remedies {
    fn drop(&mut self) {
        if let Some(nice) = self.nice_before {
            // Lower than now is always allowed.
            let _ = thread::set_nice(nice);
        }
    }
}

impl Step {
    fn after(self) -> Step {
        match self {
            Step::Buffer => Step::Cpu,
            Step::Cpu => Step::Priority,
            Step::Priority => Step::Lane,
            Step::Lane | Step::Done => Step::Done,
        }
    }
}

fn add_lane(link: &mut impl Mendable) -> Result<Option<RemedyAction>, (RemedyAction, String)> {
    let action = RemedyAction::AnotherLane;
    match link.add_lane() {
        Ok(()) => Ok(Some(action)),
        Err(error) => {
            Err((action, format!("no further thread can be had: {error}; raise the limits (ulimit -u, -n)")))
        }
    }
}

fn enlarge(link: &impl Mendable) -> Result<Option<RemedyAction>, (RemedyAction, String)> {
    let from = link.buffer();
    // The kernel grants twice the size requested, for its own overhead.
    let asked = (from / 2).saturating_mul(BUFFER_FACTOR).min(BUFFER_MAX);
    if asked <= from / 2 {
        return Ok(None);
    }
    let action = |to: usize| RemedyAction::LargerBuffer { from_bytes: from as u64, to_bytes: to as u64 };
    match link.enlarge(asked) {
        Ok(to) if to > from => Ok(Some(action(to))),
        Ok(to) => {
            Err((action(to), "the kernel grants no more: raise net.core.rmem_max, or run as root".to_owned()))
        }
        Err(error) => Err((action(from), format!("the kernel does not change the buffer: {error}"))),
    }
}

/// Share of the packets between two looks that the socket dropped.
fn share(before: (u64, u64), now: (u64, u64)) -> f64 {
    let (received, dropped) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
    if dropped == 0 { 0.0 } else { dropped as f64 / (received + dropped) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Granting {
        granted: Cell<usize>,
        max: usize,
        lanes: u32,
    }

    impl Granting {
        fn up_to(max: usize) -> Granting {
            Granting { granted: Cell::new(1 << 20), max, lanes: 0 }
        }
    }

    impl Mendable for Granting {
        fn buffer(&self) -> usize {
            self.granted.get()
        }

        fn add_lane(&mut self) -> io::Result<()> {
            self.lanes += 1;
            Ok(())
        }

        fn enlarge(&self, bytes: usize) -> io::Result<usize> {
            self.granted.set((2 * bytes).min(self.max).max(self.granted.get()));
            Ok(self.granted.get())
        }
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    /// Heartbeats of a receiver that drops `share` of 10,000 packets in each.
    fn run(link: &mut Granting, mut share: impl FnMut(&Granting) -> u64, beats: u64) -> Vec<Remedy> {
        // A thread of its own: the priority changes.
        let (mut remedies, mut counts, mut reported) = (Remedies::new(), (0, 0), Vec::new());
        for beat in 1..=beats {
            counts = (counts.0 + 10_000, counts.1 + share(link));
            let now = at(beat * 200);
            reported.extend(remedies.on_heartbeat(now, at(0), counts.0, counts.1, link));
        }
        reported
    }

    #[test]
    fn a_receiver_without_drops_is_left_alone() {
        let mut link = Granting::up_to(usize::MAX);
        assert_eq!(run(&mut link, |_| 9, 50), []);
    }

    #[test]
    fn a_buffer_grows_until_it_suffices_and_reports_each_effect() {
        let mut link = Granting::up_to(usize::MAX);
        let reported = run(&mut link, |link| if link.buffer() < 10 << 20 { 500 } else { 0 }, 30);
        let sizes: Vec<u64> = reported
            .iter()
            .filter(|remedy| remedy.result == RemedyResult::Applied)
            .map(|remedy| match remedy.action {
                RemedyAction::LargerBuffer { to_bytes, .. } => to_bytes >> 20,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(sizes, [4, 16]);
        let effects: Vec<bool> = reported
            .iter()
            .filter_map(|remedy| match remedy.result {
                RemedyResult::Effect { drops_before, drops_after } => Some(drops_after < drops_before / 2.0),
                _ => None,
            })
            .collect();
        assert_eq!(effects, [false, true]);
    }

    #[test]
    fn a_cpu_is_chosen_after_two_readings_and_only_when_it_matters() {
        std::thread::spawn(|| {
            let mut link = Granting::up_to(1 << 20);
            let mut remedies = Remedies::new();
            let mut beat = |at_ms: u64, received, dropped| {
                let reported = remedies.on_heartbeat(at(at_ms), at(0), received, dropped, &mut link);
                (reported.len(), remedies.next, remedies.ticks.is_some())
            };
            assert_eq!(beat(200, 10_000, 0), (0, Step::Buffer, false));
            let refused = beat(400, 20_000, 500);
            assert_eq!(refused, (1, Step::Cpu, true), "the buffer cannot grow");
            assert_eq!(beat(600, 30_000, 500), (0, Step::Cpu, true), "no drops, and still looked at");
            let (_, next, _) = beat(800, 40_000, 1000);
            assert_ne!(next, Step::Cpu, "looked at twice, and decided");
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn what_the_kernel_does_not_grant_is_told_with_a_way_out() {
        std::thread::spawn(|| {
            let mut link = Granting::up_to(1 << 20);
            let reported = run(&mut link, |_| 500, 50);
            let RemedyResult::Refused { reason } = &reported[0].result else { panic!("{reported:?}") };
            assert!(reason.contains("rmem_max"), "{reason}");
            let buffers = reported.iter().filter(|r| matches!(r.action, RemedyAction::LargerBuffer { .. }));
            assert_eq!(buffers.count(), 1, "asked once");
            let lanes = reported.iter().filter(|r| r.action == RemedyAction::AnotherLane);
            let results: Vec<&RemedyResult> = lanes.map(|lane| &lane.result).collect();
            assert!(
                matches!(results[..], [RemedyResult::Applied, RemedyResult::Effect { .. }]),
                "{reported:?}"
            );
            assert_eq!(link.lanes, 1);
            assert!(reported.len() <= 7, "every remedy ends: {reported:?}");
        })
        .join()
        .expect("no panic");
    }
}
