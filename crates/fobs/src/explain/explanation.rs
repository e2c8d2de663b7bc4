//! Which limit it was: a sentence, its evidence, what would help and what that would gain.

use super::budget::{Brake, Budget, Interval, STAGES, Stage, intervals, seconds, share};
use super::journal::Journal;
use super::path::{Path, PathKind};
use super::remedies;
use super::trace::{End, Trace};
use super::words::{bytes, percent, rate, word};
use crate::cause::LossVerdict;
use serde::Serialize;

/// Why a copy was not faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The sender's disk, or what writes into a stream.
    Source,
    /// The sender's CPU: too little of it, or all of it busy.
    SenderCpu,
    /// The user's `--rate`.
    RateCap,
    /// The user's `--deadline`: no more was needed.
    Deadline,
    /// The path's bottleneck.
    NarrowPath,
    /// A policer on the path.
    Policer,
    /// Loss that has nothing to do with the rate.
    RandomLoss,
    /// The controller had not found the path's rate, or kept to one for no visible reason.
    StartUp,
    /// The sending host's own queue.
    LocalQueue,
    /// The receiver's CPU: too little of it, or all of it busy.
    ReceiverCpu,
    /// The receiver's socket buffer.
    ReceiverBuffer,
    /// The receiver's disk, or what reads from a stream.
    Destination,
    /// Round trips: the first and the last words of a short copy.
    RoundTrips,
}

/// Every limit.
const LIMITS: [Limit; 13] = [
    Limit::Source,
    Limit::SenderCpu,
    Limit::RateCap,
    Limit::Deadline,
    Limit::NarrowPath,
    Limit::Policer,
    Limit::RandomLoss,
    Limit::StartUp,
    Limit::LocalQueue,
    Limit::ReceiverCpu,
    Limit::ReceiverBuffer,
    Limit::Destination,
    Limit::RoundTrips,
];

/// What can be said of a transfer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// What limited it for the largest part of the time; `None` if nothing was measured.
    pub limit: Option<Limit>,
    /// For which part, 0 to 1.
    pub share: f64,
    /// The one sentence.
    pub sentence: String,
    /// What to do about it.
    pub fix: String,
    /// What the fix is predicted to make of the rate, at most, file bits per second; `None` where that cannot be told.
    pub predicted_bps: Option<f64>,
    /// File bits per second reached.
    pub goodput_bps: f64,
    /// Seconds by which the deadline was met, below 0 if it was missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_margin_s: Option<f64>,
    /// What tells, one sentence each.
    pub evidence: Vec<String>,
    /// Where the time went, in the order of a byte's way, without what took none.
    pub budget: Vec<Spent>,
    /// Whose the losses were; empty if there were none.
    pub losses: Vec<LossCause>,
    /// What was done about those of the receiver and what came of it, in order; empty if nothing was.
    pub remedies: Vec<String>,
}

/// Time of a stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spent {
    /// Which.
    pub stage: Stage,
    /// How long.
    pub seconds: f64,
    /// For which part of the time, 0 to 1.
    pub share: f64,
}

/// A cause of losses.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LossCause {
    /// Whose they were.
    pub cause: LossVerdict,
    /// How many packets.
    pub packets: u64,
    /// How probable the cause is by the pattern of the losses, 0 to 1; `None` where the pattern was not asked.
    pub probability: Option<f64>,
    /// What tells.
    pub evidence: String,
}

/// What is known, in one place.
struct Facts<'a> {
    trace: &'a Trace,
    budget: Budget,
    path: Path,
    goodput_bps: f64,
}

/// Explains a transfer: a pure function of its record.
pub fn explain(trace: &Trace) -> Explanation {
    let facts = Facts::of(trace);
    let shares = LIMITS.map(|limit| (limit, facts.share(limit)));
    let (top, share) = shares
        .into_iter()
        .fold((Limit::RoundTrips, 0.0), |best, next| if next.1 > best.1 { next } else { best });
    let limit = (share > 0.0).then_some(top);
    let predicted_bps = limit.and_then(|limit| facts.predicted(limit, share));
    let sentence = match limit {
        Some(limit) => {
            format!("{} of the time {}{}", percent(share), facts.phrase(limit), facts.spare(limit))
        }
        None => "Nothing was measured: the copy was over too soon.".to_owned(),
    };
    Explanation {
        limit,
        share,
        sentence,
        fix: limit.map_or_else(String::new, |limit| facts.fix(limit, predicted_bps)),
        predicted_bps,
        goodput_bps: facts.goodput_bps,
        deadline_margin_s: match trace.end {
            End::Done { deadline_margin_s, .. } => deadline_margin_s,
            End::Failed { .. } => None,
        },
        evidence: limit.map_or_else(Vec::new, |limit| facts.evidence(limit)),
        budget: STAGES
            .iter()
            .map(|&stage| Spent {
                stage,
                seconds: facts.budget.seconds(stage),
                share: facts.budget.share(stage),
            })
            .filter(|spent| spent.share >= SHARE_SHOWN)
            .collect(),
        losses: losses(&trace.journal),
        remedies: remedies::told(trace.journal.remedies()),
    }
}

/// A receiver whose threads wait for a CPU for less than this share of the time is not short of it. With both ends on two cores:
/// 0.01 to 0.07; with a quota of a fifth of a core: 0.2 and more.
const RECEIVER_SHORT: f64 = 0.1;
/// A sender of which one thread waits for a CPU for this share of the time is short of it.
const SENDER_SHORT: f64 = 0.2;
/// Less of the time than this is not listed.
const SHARE_SHOWN: f64 = 0.001;

impl Explanation {
    /// All of it for a person, in lines.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.sentence);
        if let Some(margin) = self.deadline_margin_s {
            let (verdict, side) = if margin < 0.0 { ("missed", "late") } else { ("met", "to spare") };
            text += &format!("The deadline was {verdict}, with {:.1} s {side}.\n", margin.abs());
        }
        if !self.fix.is_empty() {
            text += &format!("What would help: {}\n", self.fix);
        }
        if !self.evidence.is_empty() {
            text += &format!("Why we think so: {}.\n", self.evidence.join("; "));
        }
        if !self.budget.is_empty() {
            text += "Where the time went:\n";
        }
        for Spent { stage, seconds, share } in &self.budget {
            text += &format!("  {:26} {:>6} {seconds:9.2} s\n", stage.name(), percent(*share));
        }
        for loss in &self.losses {
            let probability = match loss.probability {
                Some(probability) => format!(" with probability {}", percent(probability)),
                None => String::new(),
            };
            let cause = match loss.cause {
                LossVerdict::Receiver => "the receiver's",
                LossVerdict::Network => "the network's",
                LossVerdict::Inconclusive => "of an unclear cause",
            };
            text += &format!("Lost packets: {} {cause}{probability} ({}).\n", loss.packets, loss.evidence);
        }
        if !self.remedies.is_empty() {
            text += "What was done about what the receiver lost:\n";
        }
        for remedy in &self.remedies {
            text += &format!("  {remedy}\n");
        }
        text
    }
}

impl<'a> Facts<'a> {
    fn of(trace: &'a Trace) -> Facts<'a> {
        let journal = &trace.journal;
        let all = intervals(journal);
        let charge: Vec<&Interval> = all.iter().filter(|i| i.brake == Brake::Network).collect();
        let path = Path::of(&all, &charge);
        let goodput_bps = match &trace.end {
            End::Done { bytes, seconds, .. } if *seconds > 0.0 => *bytes as f64 * 8.0 / seconds,
            End::Done { .. } => 0.0,
            End::Failed { .. } => match journal.sender() {
                [.., last] if last.what.time_us > 0 => {
                    last.what.bytes_acked as f64 * 8.0 / seconds(last.what.time_us)
                }
                _ => 0.0,
            },
        };
        let budget = Budget::of(journal);
        Facts { trace, budget, path, goodput_bps }
    }

    fn share(&self, limit: Limit) -> f64 {
        STAGES
            .iter()
            .filter(|&&stage| self.limit_of(stage) == limit)
            .map(|&stage| self.budget.share(stage))
            .sum()
    }

    fn limit_of(&self, stage: Stage) -> Limit {
        match stage {
            Stage::Reading => Limit::Source,
            Stage::Hashing | Stage::Sealing | Stage::SenderCpu => Limit::SenderCpu,
            Stage::RateCap => Limit::RateCap,
            Stage::Deadline => Limit::Deadline,
            Stage::Pacing | Stage::CongestionWindow => match self.path.kind {
                PathKind::Narrow => Limit::NarrowPath,
                PathKind::Policed => Limit::Policer,
                PathKind::Lossy => Limit::RandomLoss,
                PathKind::Untried => Limit::StartUp,
            },
            Stage::LocalSocket => Limit::LocalQueue,
            // What a receiver with CPU to spare drops, its buffer was too small for.
            Stage::ReceiverDrain if self.receiver_delay() < RECEIVER_SHORT => Limit::ReceiverBuffer,
            Stage::ReceiverDrain | Stage::ReceiverCpu => Limit::ReceiverCpu,
            Stage::ReceiverSocket => Limit::ReceiverBuffer,
            Stage::Writing | Stage::Syncing => Limit::Destination,
            Stage::Control => Limit::RoundTrips,
        }
    }

    /// File bits for each datagram bit: what a rate on the wire means to the user.
    fn payload(&self) -> f64 {
        let acked = self.trace.journal.sender().last().map_or(0, |s| s.what.bytes_acked);
        match &self.trace.end {
            End::Done { bytes, .. } if acked > 0 => (*bytes as f64 / acked as f64).min(1.0),
            _ => 1.0,
        }
    }

    /// The best rate that the path was seen to carry, file bits per second.
    fn best_bps(&self) -> f64 {
        self.path.best_bps * self.payload()
    }

    fn phrase(&self, limit: Limit) -> String {
        match limit {
            Limit::Source => {
                "the sender's source (its disk, or what writes into the stream) was the limit".to_owned()
            }
            Limit::SenderCpu if self.sender_delay() >= SENDER_SHORT => {
                "the sender's CPU was the limit: its threads wanted to run and had to wait".to_owned()
            }
            Limit::SenderCpu => "the sender's CPU was the limit".to_owned(),
            Limit::RateCap => format!("the rate was the limit that --rate set, {}", rate(self.cap_bps())),
            Limit::Deadline => "the rate was no higher than --deadline needed".to_owned(),
            Limit::NarrowPath => {
                format!(
                    "the network was the limit: the path carries {}",
                    rate(self.path.typical_bps * self.payload())
                )
            }
            Limit::Policer => format!(
                "a policer in the network was the limit: it drops what exceeds {}",
                rate(self.path.typical_bps)
            ),
            Limit::RandomLoss => format!(
                "packet loss was the limit: the network loses {} at any rate, and the congestion control ({}) slows down for it",
                percent(self.path.loss),
                self.controller()
            ),
            Limit::StartUp => {
                "the congestion control kept to its own rate, without a sign that the path has no more"
                    .to_owned()
            }
            Limit::LocalQueue => "the sender's own network interface was the limit".to_owned(),
            Limit::ReceiverCpu if self.receiver_delay() >= RECEIVER_SHORT => {
                "the receiver's CPU was the limit: its threads wanted to run and had to wait".to_owned()
            }
            Limit::ReceiverCpu => "the receiver's CPU was the limit".to_owned(),
            Limit::ReceiverBuffer => {
                format!("the receiver's socket buffer was the limit: it has {}", bytes(self.buffer_bytes()))
            }
            Limit::Destination => {
                "the receiver's disk (or what reads from the stream) was the limit".to_owned()
            }
            Limit::RoundTrips => "was spent on round trips before and after the data".to_owned(),
        }
    }

    /// What the network had left, where it was not the limit.
    fn spare(&self, limit: Limit) -> String {
        let network = matches!(
            limit,
            Limit::NarrowPath | Limit::Policer | Limit::RandomLoss | Limit::StartUp | Limit::LocalQueue
        );
        let spare = self.best_bps() - self.goodput_bps;
        match !network && spare > 0.1 * self.goodput_bps {
            true => format!("; the network had at least {} to spare.", rate(spare)),
            false => ".".to_owned(),
        }
    }

    /// The rate without this limit: its time would have gone to data, at no more than the path was seen to carry.
    fn predicted(&self, limit: Limit, share: f64) -> Option<f64> {
        let without = self.goodput_bps / (1.0 - share).max(0.01);
        let found = match limit {
            Limit::NarrowPath
            | Limit::StartUp
            | Limit::RoundTrips
            | Limit::LocalQueue
            | Limit::RateCap
            | Limit::Deadline => {
                return None;
            }
            // What it drops is sent twice now.
            Limit::Policer => self.path.typical_bps * self.payload(),
            _ => without.min(self.best_bps()),
        };
        (found > 1.02 * self.goodput_bps).then_some(found)
    }

    fn fix(&self, limit: Limit, predicted_bps: Option<f64>) -> String {
        let up_to = match predicted_bps {
            Some(predicted) => {
                format!("; predicted: up to {} instead of {}", rate(predicted), rate(self.goodput_bps))
            }
            None => String::new(),
        };
        let advice = match limit {
            Limit::Source => "read from a faster disk, or end what else uses it".to_owned(),
            Limit::SenderCpu if self.sender_delay() >= SENDER_SHORT => {
                "give the sender more CPU: end what else runs there, or raise its quota or priority"
                    .to_owned()
            }
            Limit::SenderCpu => "use a sender with a faster core, or run several copies at once".to_owned(),
            Limit::RateCap => {
                "raise --rate or leave it out; how much more the path carries was not tried".to_owned()
            }
            Limit::Deadline => "an earlier --deadline, or none".to_owned(),
            Limit::NarrowPath => "nothing at the two ends, except -C if the content compresses".to_owned(),
            Limit::Policer => format!(
                "ask whoever runs the network for a higher rate; until then --rate {} keeps what is sent from being dropped",
                word(self.path.typical_bps * BELOW_POLICER)
            ),
            Limit::RandomLoss if self.controller() != "auto" => {
                "--cc auto, which does not take such loss for congestion".to_owned()
            }
            Limit::RandomLoss => "look for the faulty line or radio link on the path".to_owned(),
            Limit::StartUp => "copy more at once: the rate was still being looked for".to_owned(),
            Limit::LocalQueue => "a faster network interface, or less other traffic on it".to_owned(),
            Limit::ReceiverCpu if self.receiver_delay() >= RECEIVER_SHORT => {
                "give the receiver more CPU: end what else runs there, or raise its quota or priority"
                    .to_owned()
            }
            Limit::ReceiverCpu => {
                "use a receiver with a faster core, or run several copies at once".to_owned()
            }
            Limit::ReceiverBuffer => {
                "a larger buffer: as root on the receiver, sysctl -w net.core.rmem_max=8388608".to_owned()
            }
            Limit::Destination if self.budget.share(Stage::Syncing) > self.budget.share(Stage::Writing) => {
                "leave out --fsync, or write to a faster disk".to_owned()
            }
            Limit::Destination => "write to a faster disk, or end what else uses it".to_owned(),
            Limit::RoundTrips => {
                "copy more at once: one copy of many files instead of many copies".to_owned()
            }
        };
        format!("{advice}{up_to}.")
    }

    fn evidence(&self, limit: Limit) -> Vec<String> {
        let Some(sender) = self.trace.journal.sender().last().map(|s| &s.what) else { return Vec::new() };
        let receiver = self.trace.journal.receiver().last().map(|s| &s.what);
        let mut found = Vec::new();
        match limit {
            Limit::Source => found.push(format!(
                "the reading thread was blocked for {:.2} s and had the CPU for {:.2} s",
                seconds(sender.reader.blocked_us()),
                seconds(sender.reader.cpu.run_us)
            )),
            Limit::SenderCpu => {
                found.push(format!(
                    "the sending thread ran for {} of the time and waited for a CPU for {}",
                    percent(share(sender.cpu.run_us, sender.time_us)),
                    percent(self.sender_delay())
                ));
            }
            Limit::RateCap => {
                found.push(format!("the pacer waited at the cap; {} packets were lost", sender.packets_lost))
            }
            Limit::Deadline => found.push(format!(
                "the pacer waited at the rate that the deadline asked for; {} packets were lost",
                sender.packets_lost
            )),
            Limit::NarrowPath | Limit::Policer | Limit::RandomLoss | Limit::StartUp => {
                found.push(format!("a queue stood for {} of the time", percent(self.path.queued)));
                if self.path.loss > 0.0 {
                    found.push(format!(
                        "{} of the packets were lost, {} of those while more was sent than usually arrives; the losses are spread with {:.1} times the variance of chance",
                        percent(self.path.loss),
                        percent(self.path.excess),
                        self.path.uneven
                    ));
                }
            }
            Limit::LocalQueue => {
                found.push(format!("this host refused {} packets", sender.packets_refused));
            }
            Limit::ReceiverCpu => {
                found.extend(receiver.map(|r| {
                    format!(
                        "the receiving thread waited for a CPU for {} of the time and the writing thread for {:.2} s",
                        percent(share(r.cpu.delay_us, r.time_us)),
                        seconds(r.writer.cpu.delay_us)
                    )
                }));
            }
            Limit::ReceiverBuffer => {
                let held_ms = self.buffer_bytes() as f64 * 8e3 / self.path.best_bps.max(1.0);
                found.push(format!(
                    "the receiver's kernel dropped at the full socket {} times, and its threads were not short of CPU",
                    receiver.map_or(sender.socket_drops, |r| r.socket_drops)
                ));
                found.push(format!("the buffer holds what arrives in {held_ms:.1} ms at the best rate"));
            }
            Limit::Destination => {
                found.extend(receiver.map(|r| {
                    format!(
                        "the writing thread was blocked for {:.2} s and had the CPU for {:.2} s",
                        seconds(r.writer.blocked_us()),
                        seconds(r.writer.cpu.run_us)
                    )
                }));
                found.extend(receiver.filter(|r| r.writer.syncing_us > 0).map(|r| {
                    format!("--fsync made it wait for the disk for {:.2} s", seconds(r.writer.syncing_us))
                }));
            }
            Limit::RoundTrips => {
                found.push(format!("a round trip takes {:.1} ms", sender.rtt_min_us as f64 / 1e3))
            }
        }
        found
    }

    fn controller(&self) -> &str {
        &self.trace.head.cc
    }

    fn cap_bps(&self) -> f64 {
        self.trace.journal.sender().last().map_or(0.0, |s| s.what.cap_bps as f64)
    }

    fn buffer_bytes(&self) -> u64 {
        self.trace.journal.receiver().last().map_or(0, |s| s.what.buffer_bytes)
    }

    fn sender_delay(&self) -> f64 {
        self.trace.journal.sender().last().map_or(0.0, |s| share(s.what.cpu.delay_us, s.what.time_us))
    }

    /// The larger of the receiving thread's and the writing thread's.
    fn receiver_delay(&self) -> f64 {
        self.trace.journal.receiver().last().map_or(0.0, |s| {
            let r = &s.what;
            share(r.cpu.delay_us.max(r.writer.cpu.delay_us), r.time_us)
        })
    }
}

/// How far below a policer's rate to stay: its bucket must refill after a burst.
const BELOW_POLICER: f64 = 0.97;

fn losses(journal: &Journal) -> Vec<LossCause> {
    let windows = journal.losses();
    let mut found = Vec::new();
    for cause in [LossVerdict::Receiver, LossVerdict::Network, LossVerdict::Inconclusive] {
        let of_cause: Vec<_> = windows.iter().map(|w| &w.what).filter(|w| w.verdict == cause).collect();
        let packets: u64 =
            of_cause.iter().map(|w| u64::from(w.network_lost) + u64::from(w.receiver_lost)).sum();
        if packets == 0 {
            continue;
        }
        let asked: Vec<f64> = of_cause.iter().filter_map(|w| w.p_receiver).collect();
        let p_receiver = (!asked.is_empty()).then(|| asked.iter().sum::<f64>() / asked.len() as f64);
        let model = match of_cause.iter().map(|w| w.learned_from).max() {
            _ if asked.is_empty() => String::new(),
            None | Some(0) => " by the shipped model".to_owned(),
            Some(count) => format!(" by a model that learned from {count} windows of this peer"),
        };
        // Never more than were lost: the host's counters are of everybody's packets.
        let host = match journal.receiver().last().map_or(0, |r| r.what.host_drops()).min(packets) {
            0 => String::new(),
            _ if cause == LossVerdict::Receiver => String::new(),
            up_to => format!("; its network card or backlog dropped packets, up to {up_to} of these"),
        };
        let counted: u64 = of_cause.iter().filter_map(|w| w.host_drops).map(u64::from).sum();
        found.push(LossCause {
            cause,
            packets,
            probability: match cause {
                LossVerdict::Receiver => p_receiver,
                LossVerdict::Network => p_receiver.map(|p| 1.0 - p),
                LossVerdict::Inconclusive => None,
            },
            evidence: format!(
                "{} windows judged{model}; the receiver's kernel counted {counted} drops in them{host}",
                of_cause.len()
            ),
        });
    }
    if let (true, Some(last)) = (found.is_empty(), journal.sender().last())
        && last.what.packets_lost > 0
    {
        let drops = last.what.socket_drops;
        found.push(LossCause {
            cause: if drops > 0 { LossVerdict::Inconclusive } else { LossVerdict::Network },
            packets: last.what.packets_lost,
            probability: None,
            evidence: format!("the receiver's kernel counted {drops} drops"),
        });
    }
    found
}
