//! What is known of a segment of a transfer, as the limits' rows need it.

use super::{Limit, Stage};
use crate::budget::Budget;
use crate::figures::{around, seconds, share};
use crate::interval::Began;
#[cfg(test)]
use crate::interval::intervals;
use crate::interval::{Brake, Interval, STOOD_FELT};
use crate::kind::PathKind;
use crate::path::{PathProfile, mean_rate, most_sent};
use crate::rates::{Ceiling, Prediction, Rates};
use crate::segment::Segment;
use crate::trace::{End, Trace};
use fobs_model::event::control;
use fobs_model::options::CongestionControl;
use fobs_model::sample::{Cpu, ReceiverSample, SenderSample, Work};
use fobs_model::units::{STREAMS_HELD, STREAMS_QUEUED, Wait};
use fobs_model::words::{bytes, percent, rate};

/// A receiver whose threads wait for a CPU for less than this share of the time is not short of it. Measured:
/// 0.01 to 0.07 with both ends on two cores; 0.2 and more with a quota of a fifth of a core.
const RECEIVER_SHORT: f64 = 0.1;
/// A sender of which one thread waits for a CPU for this share of the time is short of it.
const SENDER_SHORT: f64 = 0.2;

/// A thread that works on chunks is busy all the time from this share on: it rests between two chunks for a
/// moment.
const BUSY_ALWAYS: f64 = 0.8;
/// Share of the time for which the sender waits for it, so that its relief gains a tenth.
const STARVED: f64 = 0.1;

/// Part of a path's rate from which on it is full: what more CPU could gain is less than the rest.
const FULL: f64 = 0.9;

/// Part of a cap by which a copy may exceed it: bursts at its beginning.
const CAP_EXCEEDED: f64 = 0.05;

/// Window of a session's channel in OpenSSH, bytes (64 packets of 32 KiB, channels.h): what passes in a round
/// trip.
const CHANNEL_WINDOW: f64 = 2.0 * 1024.0 * 1024.0;
/// Congestion windows over the receiver's windows from which on the latter bound the streams all the time.
const BEYOND: f64 = 1.2;
/// Share of the busy time for which the receiver's windows are full then, at least.
const BEYOND_HELD: f64 = 0.1;
/// Part of its window that a channel carries in a round trip where that holds it back.
const CHANNEL_HELD: std::ops::Range<f64> = 0.5..1.4;

/// Whether a host has the CPU that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CpuSupply {
    /// Threads wanted to run and had to wait.
    Short,
    /// They ran when they wanted to.
    Enough,
}

/// What held the streams back, where only they carried data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamBrake {
    /// The receiver's window.
    PeerWindow,
    /// The send buffer.
    SendBuffer,
    /// The window of the ssh channel.
    ChannelWindow,
    /// The pipe to another program.
    Pipe,
    /// The congestion window, and so the path.
    Path,
}

/// A segment of a transfer's record, and what follows from it.
pub(crate) struct Facts<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) budget: Budget,
    pub(crate) path: PathProfile,
    /// The path before the step for the worse that began this segment.
    pub(crate) before: Option<PathProfile>,
    /// Beginning and end by the sender's clock, seconds.
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// From when until when nothing came back.
    pub(super) outages: Vec<(f64, f64)>,
    /// What both ends measured from its beginning to its end.
    sender: Option<SenderSample>,
    receiver: Option<ReceiverSample>,
    /// Of the whole transfer, file bits per second.
    pub(crate) goodput_bps: f64,
    /// The congestion controller; `None` for one of another version that this one does not know.
    pub(super) controller: Option<CongestionControl>,
}

impl<'a> Facts<'a> {
    /// A whole transfer as one segment.
    #[cfg(test)]
    pub(crate) fn of(trace: &'a Trace) -> Facts<'a> {
        let all = intervals(trace);
        let whole = Segment { intervals: 0..all.len(), began: Began::Otherwise };
        Facts::of_segment(trace, &all, &whole, None)
    }

    /// One segment of all intervals of a transfer; `before` is the path of the segment before.
    pub(crate) fn of_segment(
        trace: &'a Trace,
        all: &[Interval],
        segment: &Segment,
        before: Option<PathProfile>,
    ) -> Facts<'a> {
        let own = &all[segment.intervals.clone()];
        let worse = segment.began == Began::WorsePath;
        // Neither are the delays of a path that is longer now a queue, nor is what it carried before what
        // others take now.
        let settled = worse.then(|| settled(own));
        let shown = settled.as_deref().unwrap_or(own);
        let charge: Vec<&Interval> =
            shown.iter().filter(|i| i.brake == Brake::Network && i.paused < STOOD_FELT).collect();
        let before = before.filter(|_| worse);
        let path = PathProfile::of(if worse { shown } else { all }, &charge, segment.began, before.as_ref());
        // Whatever limited meanwhile, the path carried what was delivered.
        let delivered_bps = mean_rate(shown).min(most_sent(all, shown.iter()));
        let path = PathProfile { delivered_bps, ..path };
        // Less is carried since, or it is no change for the worse.
        let fell = before.is_none_or(|before| before.rates.carried() > path.rates.carried());
        let path = if worse && fell && path.kind.is_changed_by_a_step() { path.changed() } else { path };
        let samples = trace.journal.sender();
        let first = samples.get(segment.intervals.start);
        let last = samples.get(segment.intervals.end).or(samples.last());
        let receiver = first
            .zip(last)
            .and_then(|(first, last)| around(trace.journal.receiver(), first.at_us, last.at_us));
        Facts {
            trace,
            budget: Budget::of(own),
            path,
            before,
            from_s: own.first().map_or(0.0, |i| i.from_s),
            to_s: own.last().map_or(0.0, |i| i.to_s),
            outages: outages(own),
            sender: first.zip(last).map(|(first, last)| last.what.since(&first.what)),
            receiver: receiver.or_else(|| trace.journal.receiver().last().map(|r| r.what.clone())),
            goodput_bps: goodput_bps(trace),
            controller: trace.head.cc.parse().ok(),
        }
    }

    /// What the sender measured in it; members that are no counters are as at its end.
    pub(crate) fn sender(&self) -> Option<&SenderSample> {
        self.sender.as_ref()
    }

    /// Likewise the receiver.
    pub(super) fn receiver(&self) -> Option<&ReceiverSample> {
        self.receiver.as_ref()
    }

    /// The end that was busy all the time while the sender waited for it at times: a pipeline is as fast as
    /// its slowest stage, and only that one starves the others.
    pub(crate) fn starves(&self) -> Option<Limit> {
        let sender = self.sender()?;
        let waits = |wait| share(sender.waits.us(wait), sender.time_us);
        let busy = |work: &Work, time_us| share(work.active_us, time_us) >= BUSY_ALWAYS;
        let reading = self.budget.share(Stage::Reading) >= STARVED && busy(&sender.reader, sender.time_us);
        let receiver = self.receiver().filter(|_| waits(Wait::Storage) >= STARVED);
        let writing = receiver.is_some_and(|r| busy(&r.writer, r.time_us));
        match (reading, writing && self.budget.share(Stage::Writing) >= STARVED) {
            (true, _) => Some(Limit::Source),
            (false, true) => Some(Limit::Destination),
            (false, false) => None,
        }
    }

    /// What the ssh channel carried, bits per second on the wire.
    pub(super) fn channel_bps(&self) -> f64 {
        self.sender().map_or(0.0, |s| s.bytes_frames_delivered as f64 * 8e6 / s.time_us.max(1) as f64)
    }

    /// A round trip, milliseconds.
    pub(super) fn channel_rtt_ms(&self) -> f64 {
        self.sender().map_or(0.0, |s| s.rtt_min_us as f64 / 1e3)
    }

    /// Whether the ssh channel was full.
    fn channel_is_full(&self) -> bool {
        let carried = self.channel_bps() / 8.0 * self.channel_rtt_ms() / 1e3;
        self.trace.head.control == control::SSH && CHANNEL_HELD.contains(&(carried / CHANNEL_WINDOW))
    }

    /// File bits for each datagram bit, 0 to 1: what a rate on the wire means to the user.
    pub(crate) fn payload(&self) -> f64 {
        // Of the whole transfer, as the file bytes are.
        let acked = self.trace.journal.sender().last().map_or(0, |s| s.what.bytes_delivered());
        match &self.trace.end {
            End::Done { bytes, .. } if acked > 0 => (*bytes as f64 / acked as f64).min(1.0),
            _ => 1.0,
        }
    }

    /// The rates of a path, file bits per second: not less than was delivered meanwhile, and unless it
    /// changed not less than the copy had on the whole.
    fn rates(&self, path: &PathProfile) -> Rates {
        let rates = path.rates.at_least(path.delivered_bps).scaled(self.payload());
        if self.before.is_some() { rates } else { rates.at_least(self.goodput_bps) }
    }

    /// What a path is said to carry, file bits per second.
    pub(crate) fn carried_bps(&self, path: &PathProfile) -> f64 {
        self.rates(path).carried()
    }

    /// What a policer lets pass, datagram bits per second as it counts. A copy may have had more in all.
    pub(super) fn policed_bps(&self) -> f64 {
        self.path.rates.policed()
    }

    /// The highest rate that the path carried, file bits per second.
    pub(crate) fn best_bps(&self) -> f64 {
        self.rates(&self.path).best()
    }

    /// What is known of what the path carries: its rate, or the highest that was seen, before a step for the
    /// worse too.
    pub(crate) fn ceiling(&self) -> Ceiling {
        if self.path.kind == PathKind::Policed || self.shows_its_rate() {
            return self.rates(&self.path).known();
        }
        self.seen()
    }

    /// The highest rate that was seen.
    pub(crate) fn seen(&self) -> Ceiling {
        let seen = self.rates(&self.path).seen();
        self.before.as_ref().map_or(seen, |before| seen.or(self.rates(before).carried_before()))
    }

    /// What this says to a user of `fobs`, and to one of another program, which has none of its options.
    pub(super) fn advice(&self, own: &str, of_another: &str) -> String {
        if self.is_of_another() { of_another } else { own }.to_owned()
    }

    /// A cap between commas; nothing of one that was lowered or taken away since: the copy had more.
    pub(super) fn cap_in_words(&self, bps: u64) -> String {
        let is_in_force = bps as f64 * (1.0 + CAP_EXCEEDED) >= self.goodput_bps && bps > 0;
        if is_in_force { format!(", {},", rate(bps as f64)) } else { String::new() }
    }

    /// Whether the record is of a program of another make.
    pub(crate) fn is_of_another(&self) -> bool {
        self.trace.head.is_of_another()
    }

    /// Whether the rate that was delivered is the path's own: the copy had no more on the whole.
    pub(crate) fn shows_its_rate(&self) -> bool {
        let delivered = self.path.rates.scaled(self.payload()).carried();
        self.path.shows_its_rate() && delivered >= self.goodput_bps
    }

    /// Whether the path had all that it carries over all of the segment, whatever the ends were busy with.
    pub(crate) fn fills_its_path(&self) -> bool {
        let carried = match self.path.kind {
            PathKind::Policed => self.path.rates.policed(),
            PathKind::Narrow if self.shows_its_rate() => self.path.rates.carried(),
            _ => return false,
        };
        carried > 0.0 && self.path.delivered_bps >= FULL * carried
    }

    /// Name of the congestion controller.
    pub(super) fn controller_name(&self) -> &str {
        &self.trace.head.cc
    }

    /// The receive buffer, bytes; 0 if the receiver sent no sample.
    pub(super) fn buffer_bytes(&self) -> u64 {
        self.receiver().map_or(0, |r| r.buffer_bytes)
    }

    /// Share of the time for which the sending thread waited for a CPU.
    pub(super) fn sender_delay(&self) -> f64 {
        self.sender().map_or(0.0, |s| share(s.cpu.delay_us, s.time_us))
    }

    /// Whether the sender is short of CPU.
    pub(super) fn sender_supply(&self) -> CpuSupply {
        if self.sender_delay() >= SENDER_SHORT { CpuSupply::Short } else { CpuSupply::Enough }
    }

    /// What held the streams back.
    pub(super) fn stream_brake(&self) -> StreamBrake {
        let Some(streams) = self.sender().map(|s| &s.streams) else { return StreamBrake::Path };
        if self.trace.head.control == control::PIPE {
            return StreamBrake::Pipe;
        }
        // TCP_INFO is there for each stream but the ssh channel.
        if streams.busy_us == 0 && self.channel_is_full() {
            return StreamBrake::ChannelWindow;
        }
        // Windows that are full while a queue stands only say that the path has what it carries.
        if streams.rtt_us as f64 > STREAMS_QUEUED * streams.rtt_min_us as f64 {
            return StreamBrake::Path;
        }
        let held = |us| share(us, streams.busy_us);
        let (window, buffer) = (held(streams.peer_window_us), held(streams.send_buffer_us));
        // The kernel counts no time for which pacing spreads a full window over the round trip.
        let is_beyond = streams.congestion_window_bytes as f64 > BEYOND * streams.peer_window_bytes as f64;
        if window >= BEYOND_HELD && is_beyond {
            return StreamBrake::PeerWindow;
        }
        match window.max(buffer) >= STREAMS_HELD {
            true if window >= buffer => StreamBrake::PeerWindow,
            true => StreamBrake::SendBuffer,
            false => StreamBrake::Path,
        }
    }

    /// Whether the receiver is short of CPU: by the longer of its two threads' waits for one.
    pub(super) fn receiver_supply(&self) -> CpuSupply {
        let delay = |r: &ReceiverSample| share(r.cpu.delay_us.max(r.writer.cpu.delay_us), r.time_us);
        let delay = self.receiver().map_or(0.0, delay);
        if delay >= RECEIVER_SHORT { CpuSupply::Short } else { CpuSupply::Enough }
    }
}

/// File bits per second of a whole transfer.
pub(crate) fn goodput_bps(trace: &Trace) -> f64 {
    match &trace.end {
        End::Done { bytes, seconds, .. } if *seconds > 0.0 => *bytes as f64 * 8.0 / seconds,
        End::Done { .. } => 0.0,
        End::Failed { .. } => match trace.journal.sender() {
            [.., last] if last.what.time_us > 0 => {
                last.what.bytes_delivered() as f64 * 8.0 / seconds(last.what.time_us)
            }
            _ => 0.0,
        },
    }
}

/// What shows a path that took a step for the worse: not the quarter that began with the step, its queue and
/// its losses. Delays count from the least of the rest.
fn settled(own: &[Interval]) -> Vec<Interval> {
    let mut rest = own[own.len() / 4..].to_vec();
    let least = |of: fn(&SenderSample) -> u64| {
        rest.iter().filter(|i| i.sender.rtt_low_us > 0).map(|i| of(&i.sender)).min()
    };
    let (round_trip, there) = (least(|s| s.rtt_low_us), least(|s| s.forward_low_us).unwrap_or(0));
    for Interval { sender, .. } in &mut rest {
        sender.rtt_min_us = round_trip.unwrap_or(sender.rtt_min_us);
        sender.forward_low_us = sender.forward_low_us.saturating_sub(there);
        sender.forward_high_us = sender.forward_high_us.saturating_sub(there);
    }
    rest
}

/// Stretches of intervals in which nothing came back, with the recovery, seconds.
fn outages(own: &[Interval]) -> Vec<(f64, f64)> {
    let mut found: Vec<(f64, f64)> = Vec::new();
    for interval in own.iter().filter(|i| i.brake == Brake::Host(super::Stage::Outage)) {
        match found.last_mut() {
            Some((_, to)) if interval.from_s <= *to => *to = interval.to_s,
            _ => found.push((interval.from_s, interval.to_s)),
        }
    }
    found
}

/// The stages of the controller's rate, if the path is of this kind.
pub(super) fn paced(facts: &Facts, kind: PathKind) -> &'static [super::Stage] {
    let stages = &[super::Stage::Pacing, super::Stage::CongestionWindow];
    if facts.path.kind == kind { stages } else { &[] }
}

/// The streams' stage, if this held them back.
pub(super) fn streamed(facts: &Facts, brake: StreamBrake) -> &'static [super::Stage] {
    if facts.stream_brake() == brake { &[super::Stage::Streams] } else { &[] }
}

/// What the kernel reports of the streams: for how long something held them, and what they are.
pub(super) fn stream_evidence(sender: &SenderSample) -> Vec<String> {
    let streams = &sender.streams;
    let of_busy = |us| percent(share(us, streams.busy_us));
    vec![
        format!(
            "while they had something to send, the receiver's window was full for {} of the time, and the send \
             buffer for {}",
            of_busy(streams.peer_window_us),
            of_busy(streams.send_buffer_us)
        ),
        format!(
            "{} streams with congestion windows of {} and receiver's windows of {} together, a round trip of \
             {:.1} ms, and {} segments sent again",
            streams.open,
            bytes(streams.congestion_window_bytes),
            bytes(streams.peer_window_bytes),
            streams.rtt_us as f64 / 1e3,
            streams.segments_retransmitted
        ),
    ]
}

/// What the sender saw of the path: its queue and its losses.
pub(super) fn path_evidence(facts: &Facts) -> Vec<String> {
    let path = &facts.path;
    let mut found = vec![format!("a queue stood for {} of the time", percent(path.queued))];
    if path.loss > 0.0 {
        found.push(format!(
            "{} of the packets were lost, {} of those while more was sent than usually arrives; the losses {}",
            percent(path.loss),
            percent(path.excess),
            path.pattern_of_losses()
        ));
    }
    found
}

/// A prediction that nothing supports: the path was not tried at a higher rate.
pub(super) fn unknown(_: &Facts, _: f64) -> Option<Prediction> {
    None
}

/// The limit's time goes to data instead.
pub(super) fn time_for_data(facts: &Facts, share: f64) -> Option<Prediction> {
    Some(facts.ceiling().limits(freed(facts, share)))
}

/// With a whole CPU instead of a part of one: as much as its time at work amounts to.
pub(super) fn whole_cpu(facts: &Facts, cpu: Option<Cpu>, share: f64) -> Option<Prediction> {
    let whole = cpu.filter(|cpu| cpu.run_us > 0).map_or(0.0, |cpu| {
        facts.goodput_bps * cpu.run_us.saturating_add(cpu.delay_us) as f64 / cpu.run_us as f64
    });
    Some(facts.ceiling().limits(whole.max(freed(facts, share))))
}

/// The rate if a limit's share of the time went to data.
fn freed(facts: &Facts, share: f64) -> f64 {
    facts.goodput_bps / (1.0 - share).max(0.01)
}

/// What the network had left, to end a sentence with.
pub(crate) fn spare(facts: &Facts) -> String {
    let spare = facts.ceiling().bps() - facts.goodput_bps;
    if spare > 0.1 * facts.goodput_bps {
        format!("; the network had at least {} to spare", rate(spare))
    } else {
        String::new()
    }
}
