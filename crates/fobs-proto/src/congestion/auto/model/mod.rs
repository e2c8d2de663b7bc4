//! What `auto` knows of the path: base delay, standing queue, delivery and loss, beside the rates at which
//! it sends.
//!
//! Detectors and states read it. [`Model::update`] takes each ack; the delivery estimate is corrected by
//! the states, because what a delivery rate says depends on what was being tried.

mod delay;
mod delivery;
mod loss;
mod noise;

pub(crate) use delay::{Base, StandingQueue, Window};
pub(crate) use delivery::{Best, Shortfall};
pub(crate) use loss::{Count, Losses};
pub(crate) use noise::{Noise, Quiet};

use super::super::AckSample;
use super::params::Params;
use crate::{Rate, Timestamp, math};
use std::time::Duration;

/// How long the standing queue is beside its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QueueLevel {
    /// So short that there is room.
    Empty,
    /// Neither empty nor busy.
    Short,
    /// So long that the bottleneck never idles.
    Busy,
}

/// What varies the delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disturbed {
    /// The path: short delays are noise.
    ByPath,
    /// The queues of others, as far as anything tells.
    ByQueues,
}

/// Time to wait for what is sent now to arrive, and time to measure it for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PhaseLen {
    pub(crate) wait: Duration,
    pub(crate) measure: Duration,
}

impl PhaseLen {
    pub(crate) fn total(self) -> Duration {
        self.wait + self.measure
    }
}

/// The path, as far as known.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) params: Params,
    /// Datagram bytes of a full packet when the controller was made.
    pub(crate) packet_len: u64,
    base: Base,
    /// The same of the way there alone, and the least time that it took.
    base_there: Base,
    excess_there: Duration,
    /// The base delay: the least round trip of a long time.
    pub(crate) min_rtt: Duration,
    pub(crate) latest_rtt: Duration,
    pub(crate) queue: StandingQueue,
    /// What delays vary by without a queue, and whether bursts of others are what varies them.
    pub(crate) noise: Noise,
    pub(crate) disturbed: Disturbed,
    pub(crate) losses: Losses,
    /// The newest delivery rate, and the time that it spans.
    pub(crate) newest: Rate,
    pub(crate) span: Duration,
    /// What the path delivers when it is busy.
    pub(crate) capacity: Rate,
    /// Why the capacity may be below what the path carries.
    pub(crate) shortfall: Shortfall,
    /// The most that was delivered lately, to resume at.
    pub(crate) best: Best,
    /// The capacity when the queue was last short, and the most that this was in a long time.
    pub(crate) proven: Rate,
    pub(crate) held: Best,
    /// The sending rate, and the one before the present phase: what arrives now may have left under either.
    pub(crate) pacing: Rate,
    pub(crate) previous: Rate,
}

impl Model {
    pub(crate) fn new(packet_len: u16, params: Params) -> Model {
        Model {
            packet_len: u64::from(packet_len).max(1),
            base: Base::default(),
            base_there: Base::default(),
            excess_there: Duration::ZERO,
            min_rtt: Duration::ZERO,
            latest_rtt: Duration::ZERO,
            queue: StandingQueue::default(),
            noise: Noise::default(),
            disturbed: Disturbed::ByQueues,
            losses: Losses::default(),
            newest: params.rate_min,
            span: Duration::ZERO,
            capacity: params.rate_min,
            shortfall: Shortfall::None,
            best: Best::over(params.drain_cycle_min),
            proven: params.rate_min,
            held: Best::over(params.filled_span),
            pacing: params.rate_max,
            previous: params.rate_max,
            params,
        }
    }

    /// Takes in what an ack says of the path.
    pub(crate) fn update(&mut self, ack: &AckSample) {
        let p = &self.params;
        let window = (self.min_rtt / 8).max(p.measure_min / 2);
        self.min_rtt = self.base.on_rtt(ack.now, ack.latest_rtt, window, p.filled_span);
        let there = self.base_there.on_rtt(ack.now, ack.one_way, window, p.filled_span);
        self.excess_there = ack.one_way.saturating_sub(there);
        self.latest_rtt = ack.latest_rtt;
        let idle = self.queue_target() / p.queue_step;
        self.noise.on_delay(self.delay());
        // Where noise could hide or feign a queue, few acks are not enough.
        let noise = self.noise_bound();
        let acks = if noise > idle / 2 { p.queue_packets } else { 1 };
        let window = Window { length: window, acks, longest: self.min_rtt };
        self.queue.on_delay(ack.now, self.delay(), window, idle + noise);
        self.losses.on_acked(ack.acked_bytes as f64 / self.packet_len as f64);
        if let Some(sample) = ack.rate
            && (!self.is_idle(ack) || sample.rate > self.newest)
        {
            self.newest = sample.rate.min(p.rate_max);
            self.span = sample.span;
        }
    }

    /// The path has another base delay now.
    pub(crate) fn forget_base(&mut self, now: Timestamp, rtt: Duration) {
        self.base.forget(now, rtt);
        self.base_there = Base::default();
        self.min_rtt = rtt;
        self.queue = StandingQueue::default();
    }

    /// The standing queue, as far as noise does not explain it.
    pub(crate) fn standing(&self) -> Duration {
        self.queue.delay().saturating_sub(self.noise_bound())
    }

    /// Delays that are no queue.
    pub(crate) fn noise_bound(&self) -> Duration {
        match self.disturbed {
            Disturbed::ByPath => self.noise.of(self.params.noise_deviations),
            Disturbed::ByQueues => Duration::ZERO,
        }
    }

    /// The least window of the delivery rate: as many acks as show a queue must come in it.
    pub(crate) fn noise_window(&self) -> Duration {
        let p = &self.params;
        self.noise.of(p.noise_deviations * f64::from(p.queue_packets))
    }

    /// The newest delay in the queue: what is no longer on the way there is a queue of acks, and what is only
    /// longer by the two clocks is their drift.
    pub(crate) fn delay(&self) -> Duration {
        self.latest_rtt.saturating_sub(self.min_rtt).min(self.excess_there)
    }

    /// The newest round trip without the queue: acks that wait on the way back keep packets in flight too.
    pub(crate) fn unqueued_rtt(&self) -> Duration {
        self.latest_rtt - self.delay()
    }

    /// Whether the flow is application-limited, so that a delivery rate says nothing of the path. A flow
    /// that loses packets behind a queue has enough to send, even with all of its object in flight; without
    /// a queue it may be an outage or the last packets.
    pub(crate) fn is_idle(&self, ack: &AckSample) -> bool {
        let queued =
            ack.latest_rtt.saturating_sub(ack.min_rtt) > self.queue_target() / self.params.queue_step;
        ack.app_limited && !(self.loses() && queued)
    }

    /// Whether more was lost in this phase than chance explains.
    pub(crate) fn loses(&self) -> bool {
        self.losses.beyond_chance(&self.params)
    }

    /// Share of packets that the path loses whatever is sent.
    pub(crate) fn loss_share(&self) -> f64 {
        self.losses.share(&self.params)
    }

    /// The fastest at which what is delivered now can have been sent: a window can be read as faster than
    /// that.
    pub(crate) fn sent_at(&self) -> Rate {
        self.pacing.max(self.previous)
    }

    /// The part of what the path gave before that the flow has now.
    pub(crate) fn share(&self) -> f64 {
        (self.capacity.as_bytes() as f64 / self.proven.as_bytes().max(1) as f64).min(1.0)
    }

    /// The longest queue that is self-induced where the flow has the path for itself.
    pub(crate) fn short_queue(&self) -> Duration {
        let p = &self.params;
        let packets = self.proven.max(self.pacing).time_for(u64::from(p.queue_packets) * self.packet_len);
        (self.min_rtt / p.queue_share).max(p.queue_min).max(packets)
    }

    /// Whether the queue is so short as only flows that yield let it become.
    pub(crate) fn queue_is_gone(&self) -> bool {
        self.standing() <= self.short_queue().mul_f64(self.params.crowd_margin)
    }

    /// The standing queue to keep.
    pub(crate) fn queue_target(&self) -> Duration {
        let p = &self.params;
        let packets = u64::from(p.queue_packets) * self.packet_len;
        self.scaled_target().max(self.part().time_for(packets))
    }

    /// The flow's part of the path that targets are made for. Not the least rate: at that any queue of
    /// others would be a short one.
    fn part(&self) -> Rate {
        self.pacing.max(self.proven.scaled(self.params.floor_share()))
    }

    /// The target by the window alone (Swift section 3.2): flows with smaller windows aim at longer queues,
    /// so shares converge.
    pub(crate) fn scaled_target(&self) -> Duration {
        let p = &self.params;
        let window = (self.part().bytes_in(self.min_rtt) as f64 / self.packet_len as f64).max(1.0);
        let length = (self.min_rtt.as_secs_f64() / p.long_path.as_secs_f64()).min(1.0);
        let long = length * (math::powf(p.long_window / window, p.long_root) - 1.0);
        let scale = (p.queue_window / window).sqrt().max(long).clamp(p.scale_min, 1.0 / p.scale_min);
        let scaled = (self.min_rtt / p.queue_share).mul_f64(scale);
        // Joined as a root of squares: where the least queue alone is the target, shares do not converge.
        Duration::from_secs_f64(math::hypot(scaled.as_secs_f64(), p.queue_min.as_secs_f64()))
    }

    /// The standing queue beside its target.
    pub(crate) fn level(&self) -> QueueLevel {
        let (queue, target) = (self.standing(), self.queue_target());
        if queue > target / self.params.queue_step {
            QueueLevel::Busy
        } else if queue < target / self.params.queue_step.pow(2) {
            QueueLevel::Empty
        } else {
            QueueLevel::Short
        }
    }

    /// A phase of the ramp: it needs the sign of a change of rate.
    pub(crate) fn ramp_phase(&self) -> PhaseLen {
        PhaseLen { wait: self.latest_rtt, measure: self.measure(4) }
    }

    /// Any other phase: it needs the size of a loss, whose news by time comes 9/8 round trips after the
    /// packet left (RFC 9002 section 6.1.2).
    pub(crate) fn phase(&self) -> PhaseLen {
        PhaseLen { wait: self.latest_rtt * 5 / 4, measure: self.measure(2) }
    }

    fn measure(&self, parts: u32) -> Duration {
        (self.latest_rtt / parts).max(self.span).max(self.params.measure_min)
    }

    /// Time from drain to drain: the same for all flows of a path, so not of a round trip with a queue in it.
    pub(crate) fn cycle_len(&self) -> Duration {
        let p = &self.params;
        let phase = self.min_rtt * 5 / 4 + (self.min_rtt / 2).max(self.span).max(p.measure_min);
        p.drain_cycle_min.max(p.drain_cycle_phases * phase)
    }
}
