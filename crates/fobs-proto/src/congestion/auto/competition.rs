//! Beside flows that fill the queue until it overflows, a flow that yields to the delay starves. There
//! `auto` is a CUBIC flow (RFC 9438), as Copa changes its mode (Arun, Balakrishnan 2018, section 2.2),
//! until sending less for a moment shows that the queue is its own.
//!
//! Two things are not CUBIC's. Losses that chance explains do not count. And where losses go on after the
//! flow backed off, others do not back off (BBR version 1 does not): there it backs off no further than its
//! bound of losses demands.

use super::super::cubic::Cubic;
use super::super::{AckSample, Controller, LossEpisode, ModeReason};
use super::model::Losses;
use super::params::Params;
use super::persist::Persist;
use super::priority::Priority;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// How the flow sends beside flows that fill the queue.
#[derive(Debug)]
enum Law {
    /// Others back off at losses.
    Cubic(Cubic),
    /// They do not.
    Persist(Persist),
}

/// How a competition goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Course {
    /// Others fill the queue.
    Continues,
    /// The queue went away when less was sent: it was self-induced, or it has gone.
    QueueOurs,
    /// There is no queue: the base delay is longer than was known.
    PathLonger,
}

/// A test whether the queue is self-induced: less is sent until the first moment, and the queue is watched
/// until the second.
#[derive(Debug, Clone, Copy)]
struct Test {
    low_until: Timestamp,
    watch_until: Timestamp,
    rate: Rate,
    /// The longest queue that shows that it was self-induced.
    ours: Duration,
}

/// A competition in progress.
#[derive(Debug)]
pub(crate) struct Competition {
    params: Params,
    priority: Priority,
    law: Law,
    /// What the path gave before it had to be shared, as far as known.
    proven: Rate,
    /// Loss episodes in a row that came although the last was answered.
    unanswered: u32,
    test: Option<Test>,
    test_at: Timestamp,
    calm_since: Option<Timestamp>,
    /// Packets of the present round.
    acked: f64,
    lost: f64,
    last_loss: Option<LossEpisode>,
    answered: Option<Timestamp>,
    lost_last: Option<Timestamp>,
    rtt: Duration,
    /// Why the law changed, until it is taken.
    change: Option<ModeReason>,
}

/// CUBIC with the window that sends `rate` now.
fn as_cubic(ack: &AckSample, rate: Rate) -> Law {
    let packets = rate.bytes_in(ack.latest_rtt) as f64 / f64::from(ack.packet_len.max(1));
    Law::Cubic(Cubic::at(ack.packet_len, packets))
}

impl Competition {
    /// Begins with `rate` where the path gave `proven` before.
    pub(crate) fn new(
        ack: &AckSample,
        rate: Rate,
        proven: Rate,
        priority: Priority,
        params: &Params,
    ) -> Competition {
        let p = params;
        let law = match priority {
            Priority::Greedy => Law::Persist(Persist::new(ack.now, rate, p)),
            Priority::Scavenger | Priority::Fair => as_cubic(ack, rate),
        };
        Competition {
            params: *params,
            priority,
            law,
            proven,
            unanswered: 0,
            test: None,
            test_at: ack.now + p.test_first * ack.latest_rtt,
            calm_since: None,
            acked: 0.0,
            lost: 0.0,
            last_loss: None,
            answered: None,
            lost_last: None,
            rtt: ack.latest_rtt,
            change: None,
        }
    }

    /// Takes an ack, the delivery rate, the standing queue and the queue that this flow would leave.
    pub(crate) fn on_ack(
        &mut self,
        ack: &AckSample,
        delivered: Rate,
        queue: Duration,
        target: Duration,
        losses: &Losses,
    ) -> Course {
        self.rtt = ack.latest_rtt;
        self.acked += ack.acked_packets as f64;
        if ack.round_start {
            self.end_round(ack, losses);
        }
        match &mut self.law {
            Law::Cubic(cubic) => cubic.on_ack(ack),
            Law::Persist(persist) => persist.on_ack(ack, delivered),
        }
        self.choose_law(ack, delivered);
        if queue > target {
            self.calm_since = None;
        }
        let calm = *self.calm_since.get_or_insert(ack.now);
        let quiet = queue <= target && ack.now - calm >= self.params.quiet_rounds * ack.latest_rtt;
        match self.test_queue(ack, delivered, queue, target) {
            Course::Continues if quiet => Course::QueueOurs,
            course => course,
        }
    }

    /// From time to time less is sent: a self-induced queue goes away then.
    fn test_queue(&mut self, ack: &AckSample, delivered: Rate, queue: Duration, target: Duration) -> Course {
        let p = &self.params;
        if let Some(test) = self.test {
            if queue <= test.ours {
                return Course::QueueOurs;
            }
            if ack.now >= test.watch_until {
                self.test = None;
                self.test_at = ack.now + p.test_every.max(p.test_rounds * ack.latest_rtt);
                // A busy queue delivers more than the test's rate, by half of this flow's share of the link.
                if !ack.app_limited && delivered <= test.rate.scaled(p.test_no_queue) {
                    return Course::PathLonger;
                }
            }
        } else if ack.now >= self.test_at {
            let low = queue.mul_f64(p.test_margin / p.test_yields);
            let low_until = ack.now + low;
            let rate = delivered.scaled(1.0 - p.test_yields);
            let ours = target.min(queue.mul_f64(p.test_left));
            self.test = Some(Test { low_until, watch_until: low_until + ack.latest_rtt, rate, ours });
        }
        Course::Continues
    }

    /// Packets were lost.
    pub(crate) fn on_loss(&mut self, loss: &LossEpisode) {
        self.lost += loss.packets as f64;
        self.last_loss = Some(*loss);
    }

    /// Packets declared lost have arrived.
    pub(crate) fn on_found(&mut self, packets: f64) {
        self.lost = (self.lost - packets).max(0.0);
    }

    fn end_round(&mut self, ack: &AckSample, losses: &Losses) {
        let p = &self.params;
        let (acked, lost) = (std::mem::take(&mut self.acked), std::mem::take(&mut self.lost));
        let Some(loss) = self.last_loss.take() else { return };
        if !losses.beyond(lost, acked + lost, p) {
            return;
        }
        let round = ack.latest_rtt.as_secs_f64();
        let rounds_since = |at: Option<Timestamp>| {
            at.map_or(f64::INFINITY, |at| (ack.now - at).as_secs_f64() / round.max(1e-6))
        };
        let Law::Cubic(cubic) = &mut self.law else { return };
        let packets = cubic.congestion_window() as f64 / f64::from(ack.packet_len.max(1));
        let alone = rounds_since(self.lost_last) >= (p.alone_share * packets).min(p.alone_rounds);
        self.unanswered =
            if rounds_since(self.lost_last) >= p.alone_rounds { 0 } else { self.unanswered + 1 };
        self.lost_last = Some(ack.now);
        let heavy = lost > (p.compete_loss_max + losses.share(p)) * (acked + lost)
            && rounds_since(self.answered) >= 2.0;
        if alone || heavy {
            self.answered = Some(ack.now);
            cubic.on_loss(&LossEpisode { now: ack.now, sent: (ack.now, ack.now), ..loss });
        }
    }

    fn choose_law(&mut self, ack: &AckSample, delivered: Rate) {
        let p = &self.params;
        if self.priority == Priority::Greedy {
            return;
        }
        match &self.law {
            Law::Cubic(_)
                if self.unanswered >= p.deaf_losses && delivered < self.proven.scaled(p.deaf_share) =>
            {
                self.law = Law::Persist(Persist::new(ack.now, self.proven.scaled(p.persist_share), p));
                self.change = Some(ModeReason::LossesStay { rounds: self.unanswered, proven: self.proven });
            }
            Law::Persist(_) if delivered > self.proven.scaled(p.heard_share) => {
                self.law = as_cubic(ack, delivered);
                self.unanswered = 0;
                self.change = Some(ModeReason::LossesAnswered { proven: self.proven });
            }
            _ => {}
        }
    }

    /// Why the law changed since the last call.
    pub(crate) fn take_change(&mut self) -> Option<ModeReason> {
        self.change.take()
    }

    /// The rate of the running test.
    pub(crate) fn tests(&self, now: Timestamp) -> Option<Rate> {
        self.test.filter(|test| now < test.low_until).map(|test| test.rate)
    }

    /// The window, bytes.
    pub(crate) fn window(&self) -> u64 {
        match &self.law {
            Law::Cubic(cubic) => cubic.congestion_window(),
            Law::Persist(persist) => persist.window(self.rtt),
        }
    }

    /// The rate of departures.
    pub(crate) fn pacing(&self, now: Timestamp) -> Rate {
        let law = match &self.law {
            Law::Cubic(cubic) => cubic.pacing_rate().unwrap_or(Rate::ZERO),
            Law::Persist(persist) => persist.pacing(),
        };
        self.tests(now).unwrap_or(law)
    }

    /// The law in force, as traces name it.
    pub(crate) fn name(&self) -> &'static str {
        match &self.law {
            Law::Cubic(_) => "as cubic",
            Law::Persist(_) => "persists",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Acks, PACKET};
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const TARGET: Duration = Duration::from_millis(2);
    const RATE: Rate = Rate::bits_per_second(50_000_000);

    #[test]
    fn losses_in_a_row_are_answered_once_then_others_are_deaf() {
        let mut acks = Acks::new(40 * MS);
        let (losses, p) = (Losses::default(), Params::default());
        let proven = Rate::bits_per_second(400_000_000);
        let mut compete = Competition::new(&acks.round(0), RATE, proven, Priority::Fair, &p);
        let before = compete.window();
        for round in 0..6 {
            compete.on_loss(&acks.losses(2));
            let ack = acks.round(compete.window());
            compete.on_ack(&ack, RATE, 20 * MS, TARGET, &losses);
            if round == 2 {
                let share = compete.window() as f64 / before as f64;
                assert!((0.69..0.8).contains(&share), "one answer to three losses: {share}");
                assert_eq!(compete.name(), "as cubic");
                assert_eq!(compete.take_change(), None);
            }
        }
        assert_eq!(compete.name(), "persists");
        assert_eq!(compete.take_change(), Some(ModeReason::LossesStay { rounds: p.deaf_losses, proven }));
        assert!(compete.window() > before, "and takes its part of what the path gave");
    }

    #[test]
    fn a_test_that_empties_the_queue_ends_it() {
        let mut acks = Acks::new(40 * MS);
        let (losses, p) = (Losses::default(), Params::default());
        let mut compete = Competition::new(&acks.round(0), RATE, RATE, Priority::Fair, &p);
        let mut queue = 20 * MS;
        for _ in 0..200 {
            let ack = acks.next(5 * MS, RATE);
            if compete.tests(ack.now).is_some() {
                queue = queue.saturating_sub(3 * MS);
            }
            if compete.on_ack(&ack, RATE, queue, TARGET, &losses) == Course::QueueOurs {
                assert!(queue <= TARGET, "{queue:?}");
                return;
            }
        }
        panic!("no test in a second, with packets of {PACKET} bytes");
    }
}
