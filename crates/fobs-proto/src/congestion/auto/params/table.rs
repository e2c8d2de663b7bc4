//! The list of the parameters.
//!
//! "Measured" means in the simulator, on the scenes of `crates/fobs-sim/tests` and on the grids and paths of
//! its `golden/auto-*.txt` and `golden/paths*.txt`; docs/controllers.md has the figures.

use super::{Field, ParamError, unknown};
use crate::Rate;
use std::time::Duration;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

macro_rules! params {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr, $unit:literal, $low:literal..=$high:literal;)+) => {
        /// All numbers of [`Auto`](crate::congestion::Auto). The defaults are what it runs with.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct Params {
            $(
                $(#[doc = $doc])+
                #[doc = concat!("\n\nUnit: ", $unit, ". Range: ", stringify!($low), " to ", stringify!($high), ".")]
                pub $name: $type,
            )+
        }

        impl Default for Params {
            fn default() -> Params {
                Params { $($name: $default,)+ }
            }
        }

        impl Params {
            /// Names of all parameters.
            pub const NAMES: &[&str] = &[$(stringify!($name)),+];

            /// Least and largest value of a parameter in its unit.
            pub fn range(name: &str) -> Result<(f64, f64), ParamError> {
                match name {
                    $(stringify!($name) => Ok((f64::from($low), f64::from($high))),)+
                    other => Err(unknown(other)),
                }
            }

            /// The value of a parameter in its unit.
            pub fn get(&self, name: &str) -> Result<f64, ParamError> {
                match name {
                    $(stringify!($name) => Ok(super::Value::number(self.$name)),)+
                    other => Err(unknown(other)),
                }
            }

            /// Sets a parameter to a value in its unit.
            pub fn set(&mut self, name: &str, value: f64) -> Result<(), ParamError> {
                match name {
                    $(stringify!($name) => {
                        let field = Field { name: stringify!($name), unit: $unit, low: f64::from($low), high: f64::from($high) };
                        self.$name = field.check(value)?;
                    })+
                    other => return Err(unknown(other)),
                }
                Ok(())
            }
        }
    };
}

params! {
    // Phases.

    /// Error of a measured rate: stamps make a train or a window look this much faster or slower.
    /// Lower: noise ends ramps; higher: ramps go on into the queue.
    noise: f64 = 0.05, "share", 0.0..=0.5;
    /// Deviations of the delay within which it is noise and no queue. Lower: noise reads as a queue;
    /// higher: queues grow longer.
    noise_deviations: f64 = 1.5, "deviations", 0.0..=20.0;
    /// Least packets of a queue: on slow paths a few are a delay of their own. Over as many acks it must
    /// stand where delays are noisy, at most for a round trip, and the window of the delivery rate spans
    /// their noise.
    queue_packets: u32 = 8, "packets", 1..=1000;
    /// Standard deviations that chance explains, of lost packets and of a delay above no queue. Lower:
    /// chance reads as congestion; higher: the queue of others reads as noise.
    sigmas: f64 = 3.0, "sigmas", 0.0..=100.0;
    /// Packets from which on a slope, a trend or a loss says something. Fewer: chance decides; more: slow
    /// paths are known late.
    few_packets: u64 = 4, "packets", 1..=1000;
    /// Phases, resumptions or queues in a row that say the same before it is believed: that losses persist,
    /// that a queue is self-induced, that the path is longer; one more queue that passes
    /// makes bursts, as flows that join every 2 s make two. 1: chance decides.
    in_a_row: u32 = 2, "phases", 1..=1000;
    /// What is allowed over a calculation: of the length of a wait or a test, as a cycle or emptying a queue
    /// takes; of the loss that is expected, which is a measurement itself. Lower: chance reads as congestion.
    margin: f64 = 1.2, "ratio", 0.1..=10.0;
    /// The most of its rate that a flow withholds to see what follows: behind a queue while cruising, in a
    /// drain, in the test of a competition, of a remembered rate (careful resume allows half, RFC 9959).
    /// Larger: more idle link.
    withheld_max: f64 = 0.5, "share", 0.05..=0.95;
    /// Least time that a phase measures for: one window of the delivery rate. Shorter: noise decides;
    /// longer: short paths are slow.
    measure_min: Duration = ms(10), "ms", 1..=1000;
    /// Least sending rate: a few packets a second keep the feedback alive. Lower: an outage takes long to
    /// end.
    rate_min: Rate = Rate::bytes_per_second(10_000), "Mbit/s", 0.01..=10;
    /// Largest sending rate, and that of trains: as good as back to back. Lower caps the transfer.
    rate_max: Rate = Rate::bits_per_second(20_000_000_000), "Mbit/s", 20..=1_000_000;

    // Train.

    /// Packets of the first train. 64 of 1200 bytes last 0.6 ms at 1 Gbit/s, long against 0.1 ms of stamp
    /// jitter, and 60 ms at 10 Mbit/s. More: a queue on slow paths; fewer: wrong estimates on fast ones.
    train_packets: u64 = crate::recovery::FIRST_TRAIN_PACKETS, "packets", 8..=1024;
    /// Packets of the train after whose arrival the estimate is used.
    train_packets_min: u64 = 48, "packets", 2..=1024;
    /// Error of the span between two stamps: two wake-ups of 0.1 ms. Larger: starts below the path's rate
    /// where a train lost most of its packets.
    train_stamps: Duration = Duration::from_micros(200), "ms", 0..=100;
    /// Fastest rate that stamps resolve, and the assumption where the train arrived as one. Higher: ramps
    /// overshoot on short paths.
    train_fastest: Rate = Rate::bits_per_second(1_000_000_000), "Mbit/s", 1..=100_000;

    // A remembered path.

    /// Largest ratio of the train's estimate and the remembered rate at which memory is preferred: hosts
    /// that send and receive at once distort trains both ways (three traced trains: below 0.8 and 1.35
    /// times the link's rate, docs/experiments/history.md).
    believed_ratio: f64 = 1.4, "ratio", 1.0..=10.0;

    // Ramp.

    /// Gain of a round of the ramp, once `ramp_rounds` found all delivered; the largest ratio of the believed
    /// capacity to the delivery rate that ended it; and the window in bandwidth-delay products, which carries
    /// such a round and has room for acks that come late and together. Higher: larger queues at the end of
    /// the ramp. Less starves beside CUBIC on long paths: 1.5 leaves 0.1% of the link at 1 Gbit/s and 65 ms,
    /// 2 leaves 29% (docs/experiments/cross-traffic.md).
    ramp_gain: f64 = 2.0, "ratio", 1.0..=20.0;
    /// Rounds before that: of half that growth, a quarter and so on, the least first, because a stall may
    /// have made the train look many times slower than the path. The first adds twice the error of a rate
    /// only: the estimate may be nearly right.
    ramp_rounds: u32 = 3, "rounds", 1..=20;

    // The target of the standing queue.

    /// Round-trip time divided by the target queue at `queue_window`, and by the queue that has passed.
    queue_share: u32 = 20, "1/RTT", 1..=1000;
    /// Least target, least length of a queue that has passed, and least distance of two points of a delay's
    /// trend: above the 0.3 ms of noise of two hosts. Each of the two ends may add as much. Lower: noise
    /// reads as a queue; higher: more delay on short paths.
    queue_min: Duration = ms(2), "ms", 0.1..=1000;
    /// Window at which the target is one `queue_share`; it scales with the inverse root (Swift 2020 section
    /// 3.2), so shares converge.
    queue_window: f64 = 500.0, "packets", 1.0..=100_000.0;
    /// Least factor by which a flow's part of the path changes what it does: its target, which is then that
    /// of 1 Gbit/s and 200 ms, and its part of what a drain takes from a queue. The largest factor of the
    /// target is its reciprocal, which the root of its square reaches: with less of the path than that no
    /// target is made for, and capacity never falls below it behind a queue. Higher: large flows queue more.
    scale_min: f64 = 0.25, "ratio", 0.01..=1.0;
    /// Round trip from which the fifth-root term counts in full. Measured, eight flows at 1 Gbit/s and 200
    /// ms: Jain index 0.95, 0.86 without.
    long_path: Duration = ms(200), "ms", 1..=10_000;
    /// Exponent of that term. Higher: more of the link for small windows, up to 35% instead of 15 beside
    /// CUBIC (100 Mbit/s, four BDP).
    long_root: f64 = 0.2, "exponent", 0.01..=1.0;
    /// Window at which that term is zero.
    long_window: f64 = 50_000.0, "packets", 1.0..=10_000_000.0;
    /// Factor between the levels of a queue: above its target times this it is long, which ends a round of
    /// the ramp; above the target over this the bottleneck never idles, and below that over this again
    /// there is room. A base delay that fell by more than a short queue over this held others', and a drain
    /// for it is this many times as deep (eight flows at 100 Mbit/s and 200 ms: Jain index 0.88 with 1,
    /// 0.95 with 2).
    queue_step: u32 = 2, "ratio", 1..=100;

    // Cruise.

    /// Change of rate per queue, both relative to the round trip (FAST's loop). A loop that acts one round
    /// trip late is stable below pi/2. Higher: oscillation; lower: slow convergence.
    queue_gain: f64 = 0.5, "ratio", 0.01..=1.5;
    /// Largest excess over the delivery rate while cruising.
    creep_max: f64 = 0.03, "share", 0.0..=0.5;

    // Drain.

    /// Least time from drain to drain, from test to test whether a queue is self-induced, and for which the
    /// best delivery and bursts are remembered. 2 s of RTT minimum suffice up to 450 ms; costs 0.4% of the
    /// link at 200 ms. A queue that stands for longer is no burst's; and for as long after the ramp one steep
    /// queue is enough.
    drain_cycle_min: Duration = ms(2000), "ms", 100..=60_000;
    /// Phases from drain to drain, if that is longer. Flows that share the path drain in step because all
    /// count alike.
    drain_cycle_phases: u32 = 6, "phases", 1..=100;

    // Resumption of what was yielded.

    /// Share of the best recent delivery to resume at, and of a remembered rate of which half arrived as it
    /// was sent, since others may use the path now. Delivery behind a standing queue below this share of what
    /// it was: another flow has joined. With bursts that take the link half of the time 77% of the rest is
    /// used, 32% without.
    resume_share: f64 = 0.9, "share", 0.0..=1.0;
    /// Time for which the base delay and the capacity to compete with are remembered, at least: longer than
    /// CUBIC's 15 s from loss to loss, in which its queue only grows.
    filled_span: Duration = ms(30_000), "ms", 100..=600_000;

    // Loss.

    /// Most loss that counts as the path's own: paths with 5% exist. Higher: congestion loss is
    /// compensated.
    loss_share_max: f64 = 0.10, "share", 0.0..=0.5;
    /// Share of a round trip's packets lost that needs no statistics: no usable path loses a third at random.
    /// That no more is delivered than the rest confirms that the path has changed.
    collapse_share: f64 = 1.0 / 3.0, "share", 0.01..=1.0;

    // Bursts of cross traffic.

    /// Least delay gained per time of a burst: `s / (1 + s)` where the queue grows by `s`; 0.5 for a burst
    /// at the link's rate. Lower: CUBIC's growth reads as a burst.
    steep_min: f64 = 0.35, "s/s", 0.01..=1.0;

    // Crowd: a queue that others hold.

    /// Round trips for which it must stay so, and until a competition tests whose it is; phases since the
    /// last drain from which on a loss of share is another flow's. Fewer: one drain is not enough for a
    /// newcomer.
    crowd_rounds: u32 = 4, "RTT", 1..=1000;
    /// What others' queue must exceed a self-induced one by: the target that a flow would leave, over this;
    /// the multiple of its peak that was yielded, of which one empties that; and of a short queue that counts
    /// as gone, which flows that fill queues never let come.
    crowd_margin: f64 = 1.5, "ratio", 0.1..=100.0;
    /// Least round trips of that, and from test to test whether a queue is self-induced: the queue of one
    /// flow that joins is gone by then. Eight at 200 ms: Jain index 0.90 instead of 0.87.
    patience_rounds: u32 = 20, "RTT", 0..=1000;

    /// Share of the queue left after a test below which it was self-induced; 0.4 is left with half of the
    /// link in our hands.
    test_left: f64 = 0.3, "share", 0.0..=1.0;
    /// How far the delay may move over phases that yield to it, and still be the path's: stamps and bursts
    /// move it by less, CUBIC's queue by more but for its plateau. 0.05 leaves 29% of the link instead of 39
    /// beside Reno on four products (scenarios/paths/tcp-deep.toml).
    longer_still: f64 = 0.01, "share", 0.0..=1.0;
}

impl Params {
    /// Gain of the ramp's `step`th round (0 for the first) that found the path willing.
    pub(crate) fn ramp_gain(&self, step: usize) -> f64 {
        if step == 0 {
            return self.probe_gain();
        }
        let before = self.ramp_rounds.saturating_sub(u32::try_from(step).unwrap_or(u32::MAX));
        1.0 + (self.ramp_gain - 1.0) / f64::from(2u32.saturating_pow(before))
    }

    /// Gain of a probe that may find nothing: it exceeds the error of the rate, and that of what it finds.
    pub(crate) fn probe_gain(&self) -> f64 {
        1.0 + 2.0 * self.noise
    }

    /// Least share of what the path gave before that targets are made for, and that capacity never falls
    /// below behind a queue: there a target's factor is the largest. Pushed below it a flow cannot come back.
    pub(crate) fn floor_share(&self) -> f64 {
        self.scale_min * self.scale_min
    }
}
