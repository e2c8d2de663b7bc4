//! Where the sending thread's time went: all of it, each moment once.
//!
//! The sender knows what its thread waited for; the threads of both ends show what caused the wait. A wait
//! for the source counts as reading while the reading thread is blocked, and as CPU time while it runs or
//! wants to run. A wait for the pacer or the window is the network's unless an end was too slow at that time:
//! to the sender, a slow end looks like a slow path.

use super::figures::{seconds, share};
use super::interval::{Brake, Interval};
use super::names::Stage;
use fobs_model::sample::Work;
use fobs_model::units::Wait;

/// Below this share of an interval, waiting for a CPU is ordinary, and the pacer makes up for it.
const DELAY_NOTICED: f64 = 0.1;

/// What lasts longer while the receiver stands still.
const FOR_THE_PEER: &[Wait] = &[Wait::Pacer, Wait::Window, Wait::Answers, Wait::Streams];

/// Seconds for each stage; together the time of the transfer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Budget {
    seconds: [f64; Stage::ALL.len()],
}

impl Budget {
    /// The budget of a transfer.
    pub(super) fn of(intervals: &[Interval]) -> Budget {
        let mut budget = Budget::default();
        intervals.iter().for_each(|interval| budget.add(interval));
        budget
    }

    /// Seconds of one stage.
    pub(super) fn seconds(&self, stage: Stage) -> f64 {
        self.seconds[stage as usize]
    }

    /// Seconds of all stages.
    pub(super) fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }

    /// Share of the time, 0 to 1.
    pub(super) fn share(&self, stage: Stage) -> f64 {
        let total = self.total();
        if total > 0.0 { self.seconds(stage) / total } else { 0.0 }
    }

    fn put(&mut self, stage: Stage, seconds: f64) {
        self.seconds[stage as usize] += seconds;
    }

    fn add(&mut self, interval: &Interval) {
        let (sender, waits) = (&interval.sender, &interval.sender.waits);
        let stood = seconds(sender.stood_us.min(sender.time_us));
        self.put(Stage::SenderPaused, stood);
        let unseen = seconds(sender.unseen_us).min(seconds(sender.time_us) - stood);
        self.put(Stage::Unseen, unseen);
        let all = seconds(sender.time_us) - stood - unseen;
        let waited: f64 = Wait::ALL.iter().map(|&wait| seconds(waits.us(wait))).sum();
        let starved = interval.starved();
        // A thread that wants a CPU counts as waiting or as working: both lose the same share.
        let kept = if starved >= DELAY_NOTICED && !interval.on_pace { starved } else { 0.0 };
        // Waits that add up to more than the time there was are scaled down to it.
        let scale = if waited > all && waited > 0.0 { all / waited } else { 1.0 } * (1.0 - kept);

        self.put(Stage::SenderCpu, all * kept);
        self.put(Stage::Sealing, (all - waited).max(0.0) * (1.0 - kept));
        for &wait in Wait::ALL {
            let time = seconds(waits.us(wait)) * scale;
            let paused = if FOR_THE_PEER.contains(&wait) { time * interval.paused } else { 0.0 };
            self.put(Stage::ReceiverPaused, paused);
            self.put_wait(wait, time - paused, interval);
        }
    }

    /// Assigns the time of one wait: to its stage, or by what both ends measured.
    fn put_wait(&mut self, wait: Wait, time: f64, interval: &Interval) {
        let receiver = interval.receiver.as_ref();
        match (wait, interval.brake) {
            (Wait::Answers | Wait::Streams, Brake::Host(stage @ (Stage::Outage | Stage::ReceiverPaused))) => {
                self.put(stage, time);
            }
            (Wait::Cap, _) if interval.sender.cap_far_bps > 0 => self.put(Stage::RemoteLimit, time),
            (Wait::Source, _) => {
                let stages = [Stage::Reading, Stage::SenderCpu, Stage::Hashing];
                self.put_work(time, &interval.sender.reader, stages);
            }
            (Wait::Storage, _) => match receiver {
                Some(receiver) => {
                    let stages = [Stage::Writing, Stage::ReceiverCpu, Stage::ReceiverCpu];
                    self.put_work(time, &receiver.writer, stages);
                }
                None => self.put(Stage::Writing, time),
            },
            (Wait::Answers, _) => {
                // The last answer waits until the last file is synced.
                let syncing = receiver.map_or(0.0, |it| share(it.writer.syncing_us, it.time_us));
                self.put(Stage::Syncing, time * syncing);
                // And it queues behind the acks, where these fill the way back.
                let late = time * (1.0 - syncing) * interval.queued_back;
                self.put(Stage::LateAnswers, late);
                self.put(Stage::Control, time * (1.0 - syncing) - late);
            }
            (Wait::Pacer | Wait::Window, Brake::Host(stage)) => self.put(stage, time),
            (Wait::Pacer, Brake::Network) => self.put(Stage::Pacing, time),
            (Wait::Window, Brake::Network) => self.put(Stage::CongestionWindow, time),
            (Wait::Cap, _) => self.put(Stage::RateCap, time),
            (Wait::Deadline, _) => self.put(Stage::Deadline, time),
            (Wait::Socket, _) => self.put(Stage::LocalSocket, time),
            (Wait::Drain, _) => self.put(Stage::ReceiverDrain, time),
            (Wait::Streams, _) => self.put(Stage::Streams, time),
        }
    }

    /// Divides a wait for a thread that works on chunks by what held that thread up: what it reads or writes
    /// (blocked, and copying in the kernel), want of a CPU, its own computing.
    fn put_work(&mut self, time: f64, work: &Work, [io, starved, computing]: [Stage; 3]) {
        let cpu = work.user_us.saturating_add(work.system_us);
        // User and system time are measured at the end of each chunk: unknown before the first.
        let user = if cpu > 0 { work.user_us as f64 / cpu as f64 } else { 0.0 };
        let (blocked, run, delay) =
            (work.blocked_us() as f64, work.cpu.run_us as f64, work.cpu.delay_us as f64);
        let throttled = work.throttled_us as f64;
        let all = blocked + run + delay + throttled;
        if all <= 0.0 {
            return self.put(io, time);
        }
        let syncing = (work.syncing_us as f64).min(blocked);
        self.put(Stage::Syncing, time * syncing / all);
        self.put(io, time * (blocked - syncing + run * (1.0 - user)) / all);
        self.put(Stage::RemoteLimit, time * throttled / all);
        self.put(starved, time * delay / all);
        self.put(computing, time * run * user / all);
    }
}
