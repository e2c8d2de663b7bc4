//! What a lane shows of itself, a few times a second and at its end.

use super::is_silent;
use crate::Link;
use crate::lanes::LaneAccount;
use fobs_model::sample::{Cpu, SenderSample, SenderWaits};
use fobs_proto::Timestamp;
use fobs_proto::sender::{Sender, SenderStats};
use fobs_proto::session::{Silence, Wait, WaitTimes, round_trip_bytes};
use std::time::Duration;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(in crate::send) struct LaneShown {
    pub(super) stats: SenderStats,
    pub(super) in_flight: u64,
    pub(super) rejected: u64,
    pub(super) heard: Option<Timestamp>,
    pub(super) is_silent: bool,
    pacing_bps: u64,
    window_bytes: u64,
    round_trip: Option<Duration>,
    spent: Spent,
}

/// What a lane's thread has spent its time on so far.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::send) struct Spent {
    pub(in crate::send) at: Timestamp,
    pub(in crate::send) waits: WaitTimes,
    pub(in crate::send) cpu: Cpu,
}

/// Waits, time on a CPU, and time ready for one.
pub(super) const TIMES: usize = Wait::ALL.len() + 2;

impl LaneShown {
    pub(in crate::send) fn of(machine: &Sender, link: &Link, silence: Silence, spent: Spent) -> LaneShown {
        LaneShown {
            stats: machine.stats(),
            in_flight: round_trip_bytes(machine),
            rejected: link.rejected(),
            heard: link.last_heard(),
            is_silent: is_silent(silence),
            pacing_bps: machine.pacing_rate().map_or(0, |rate| rate.as_bytes().saturating_mul(8)),
            window_bytes: machine.controller().congestion_window(),
            round_trip: machine.rtt().min_ever(),
            spent,
        }
    }

    pub(super) fn add_to(&self, sample: &mut SenderSample) {
        let stats = &self.stats;
        sample.packets_sent += stats.packets_sent;
        sample.packets_lost += stats.packets_lost.saturating_sub(stats.packets_late);
        sample.packets_marked += u64::from(stats.packets_marked);
        sample.packets_refused += stats.packets_refused;
        sample.socket_drops += u64::from(stats.socket_drops);
        sample.bytes_sent += stats.bytes_sent;
        sample.bytes_acked += stats.bytes_acked;
        sample.acks += stats.acks;
        sample.packets_late += stats.packets_late;
        sample.pacing_bps = sample.pacing_bps.saturating_add(self.pacing_bps);
        sample.window_bytes = sample.window_bytes.saturating_add(self.window_bytes);
    }

    /// Its account, for the session's sample.
    pub(super) fn account(&self) -> LaneAccount<TIMES> {
        account_of(self.stats.bytes_acked, &self.spent)
    }

    /// What it carried of `all` bytes, and what it spent most of its time on, in a session that began at
    /// `began`.
    pub(super) fn sentence(&self, lane: usize, name: &str, all: u64, began: Timestamp) -> String {
        let SenderStats { data_bytes_acked, packets_sent, packets_lost, .. } = self.stats;
        let share = 100.0 * data_bytes_acked as f64 / all.max(1) as f64;
        let loss = 100.0 * packets_lost as f64 / packets_sent.max(1) as f64;
        let Some(round_trip) = self.round_trip else {
            return format!("lane {lane} ({name}): no answer came by it");
        };
        let ms = round_trip.as_secs_f64() * 1e3;
        let Spent { at, waits, .. } = &self.spent;
        let work = (*at - began).saturating_sub(waits.total());
        let longest = Wait::ALL.iter().copied().max_by_key(|wait| waits[*wait]);
        let limit = longest
            .filter(|wait| waits[*wait] > work)
            .map_or("its own thread, which has no more of a CPU", limit_of);
        format!(
            "lane {lane} ({name}): {share:.0}% of the data, round trip {ms:.1} ms, {loss:.2}% lost, limited by {limit}"
        )
    }
}

/// The account of a lane that has had these bytes acknowledged.
pub(super) fn account_of(bytes: u64, spent: &Spent) -> LaneAccount<TIMES> {
    let mut times_us = [0; TIMES];
    for (place, wait) in times_us.iter_mut().zip(Wait::ALL) {
        *place = u64::try_from(spent.waits[*wait].as_micros()).unwrap_or(u64::MAX);
    }
    times_us[TIMES - 2..].copy_from_slice(&[spent.cpu.run_us, spent.cpu.delay_us]);
    LaneAccount { at: spent.at, bytes, times_us }
}

/// Writes the session's times into a sample.
pub(super) fn set_times(sample: &mut SenderSample, times_us: [u64; TIMES]) {
    sample.waits = SenderWaits::default();
    Wait::ALL.iter().zip(times_us).for_each(|(wait, us)| sample.waits.add_us(*wait, us));
    sample.cpu = Cpu { run_us: times_us[TIMES - 2], delay_us: times_us[TIMES - 1] };
}

/// What a lane that waits for this is limited by.
fn limit_of(wait: Wait) -> &'static str {
    match wait {
        Wait::Cap => "the rate that the user allows",
        Wait::Drain => "the receiver, which dropped packets",
        Wait::Deadline => "the deadline, which needs no more",
        Wait::Pacer | Wait::Window | Wait::Answers => "the network",
        Wait::Source => "the source, which was read no faster",
        Wait::Storage => "the receiver, which stored no faster",
        Wait::Socket => "this host's network interface",
        Wait::Streams => "its streams",
    }
}

/// The sum of counters. What the receiver's host counts is of one host, and what a path does is of each.
pub(super) fn sum_of(a: SenderStats, b: &SenderStats) -> SenderStats {
    SenderStats {
        packets_needed: a.packets_needed + b.packets_needed,
        packets_sent: a.packets_sent + b.packets_sent,
        packets_lost: a.packets_lost + b.packets_lost,
        packets_late: a.packets_late + b.packets_late,
        packets_spared: a.packets_spared + b.packets_spared,
        socket_drops: a.socket_drops.wrapping_add(b.socket_drops),
        packets_copied: a.packets_copied + b.packets_copied,
        packets_refused: a.packets_refused + b.packets_refused,
        acks: a.acks + b.acks,
        backlog: a.backlog.saturating_add(b.backlog),
        bytes_sent: a.bytes_sent + b.bytes_sent,
        bytes_acked: a.bytes_acked + b.bytes_acked,
        data_bytes_acked: a.data_bytes_acked + b.data_bytes_acked,
        packets_marked: a.packets_marked.saturating_add(b.packets_marked),
        probes_acked: a.probes_acked + b.probes_acked,
        packets_abandoned: a.packets_abandoned + b.packets_abandoned,
        packets_framed: a.packets_framed + b.packets_framed,
        packets_returned: a.packets_returned + b.packets_returned,
        bytes_framed: a.bytes_framed + b.bytes_framed,
        bytes_frames_delivered: a.bytes_frames_delivered + b.bytes_frames_delivered,
        frames_delivered: a.frames_delivered + b.frames_delivered,
    }
}
