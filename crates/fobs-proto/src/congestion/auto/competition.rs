//! Beside flows that fill the queue until it overflows, a flow that yields to the delay starves. There
//! `auto` is a CUBIC flow (RFC 9438), as Copa changes its mode (Arun, Balakrishnan 2018, section 2.2),
//! until sending less for a moment shows that the queue is its own.
//!
//! A greedy flow is a BBR flow (draft-ietf-ccwg-bbr) there, which knows the path already: it sends the most
//! that was delivered, and takes losses as a bound. One thing is neither's: losses that chance explains do
//! not count.

use super::super::bbr::Bbr;
use super::super::cubic::Cubic;
use super::super::{AckSample, BurstSent, Controller, LossEpisode, Priority};
use super::model::Losses;
use super::params::Params;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// How the flow sends beside flows that fill the queue.
#[derive(Debug)]
enum Law {
    /// Backs off at losses, as they do.
    Cubic(Cubic),
    /// A greedy flow goes on with what it had.
    Bbr(Bbr),
}

impl Law {
    /// A law that sends `rate` now, on a path whose base delay is `min_rtt`.
    fn at(ack: &AckSample, rate: Rate, min_rtt: Duration, priority: Priority) -> Law {
        match priority {
            Priority::Greedy => Law::Bbr(Bbr::at(ack, rate, min_rtt)),
            Priority::Scavenger | Priority::Fair => {
                let packets = rate.bytes_in(ack.latest_rtt) as f64 / f64::from(ack.packet_len.max(1));
                Law::Cubic(Cubic::at(ack.packet_len, packets))
            }
        }
    }

    /// Whether it sends almost nothing, for the base delay to show.
    fn probes_rtt(&self) -> bool {
        matches!(self, Law::Bbr(bbr) if bbr.probes_rtt())
    }

    fn controller(&mut self) -> &mut dyn Controller {
        match self {
            Law::Cubic(cubic) => cubic,
            Law::Bbr(bbr) => bbr,
        }
    }
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
    law: Law,
    test: Option<Test>,
    test_at: Timestamp,
    /// The queue went away in the last test: others may have backed off just then, so the next one decides.
    went_away: bool,
    /// Least rate of a test that shows a self-induced queue. A greedy flow keeps the queue as short as BBR
    /// does, so others have gone only where it has the path again.
    alone: Rate,
    /// Packets of the present round.
    acked: f64,
    lost: f64,
    last_loss: Option<LossEpisode>,
}

impl Competition {
    /// Begins with `rate`, on a path whose base delay is `min_rtt`.
    pub(crate) fn new(
        ack: &AckSample,
        rate: Rate,
        min_rtt: Duration,
        priority: Priority,
        params: &Params,
    ) -> Competition {
        Competition {
            params: *params,
            law: Law::at(ack, rate, min_rtt, priority),
            test: None,
            went_away: false,
            alone: match priority {
                Priority::Greedy => rate.scaled(params.resume_share * (1.0 - params.withheld_max)),
                Priority::Scavenger | Priority::Fair => Rate::ZERO,
            },
            test_at: ack.now + params.crowd_rounds * ack.latest_rtt,
            acked: 0.0,
            lost: 0.0,
            last_loss: None,
        }
    }

    /// A burst was sent.
    pub(crate) fn on_sent(&mut self, sent: &BurstSent) {
        self.law.controller().on_sent(sent);
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
        self.acked += ack.acked_packets as f64;
        if ack.round_start {
            self.end_round(losses);
        }
        self.law.controller().on_ack(ack);
        self.test_queue(ack, delivered, queue, target)
    }

    /// From time to time less is sent: a self-induced queue goes away then, each time.
    fn test_queue(&mut self, ack: &AckSample, delivered: Rate, queue: Duration, target: Duration) -> Course {
        let p = &self.params;
        if self.law.probes_rtt() {
            // It withholds more than a test: what it delivers says nothing of others, for a round trip more.
            self.test = None;
            self.test_at = self.test_at.max(ack.now + ack.latest_rtt);
            return Course::Continues;
        }
        if let Some(test) = self.test {
            let goes_away = queue <= test.ours;
            if !goes_away && ack.now < test.watch_until {
                return Course::Continues;
            }
            let ours = goes_away && test.rate >= self.alone;
            let went_away = std::mem::replace(&mut self.went_away, ours);
            self.test = None;
            self.test_at = ack.now + p.drain_cycle_min.max(p.patience_rounds * ack.latest_rtt);
            if ours && went_away {
                return Course::QueueOurs;
            }
            // A busy queue delivers more than the test's rate, by half of this flow's share of the link.
            if !goes_away && !ack.app_limited && delivered <= test.rate.scaled(1.0 + p.noise) {
                return Course::PathLonger;
            }
        } else if ack.now >= self.test_at {
            let low = queue.mul_f64(p.margin / p.withheld_max);
            let low_until = ack.now + low;
            let rate = delivered.scaled(1.0 - p.withheld_max);
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

    /// Losses of a round trip that chance does not explain are the law's.
    fn end_round(&mut self, losses: &Losses) {
        let (acked, lost) = (std::mem::take(&mut self.acked), std::mem::take(&mut self.lost));
        if let Some(loss) = self.last_loss.take()
            && losses.beyond(lost, acked + lost, &self.params)
        {
            let bytes = lost * loss.bytes as f64 / loss.packets.max(1) as f64;
            let all = LossEpisode { packets: lost as u64, bytes: bytes as u64, ..loss };
            self.law.controller().on_loss(&all);
        }
    }

    /// The rate of the running test.
    pub(crate) fn tests(&self, now: Timestamp) -> Option<Rate> {
        self.test.filter(|test| now < test.low_until).map(|test| test.rate)
    }

    /// The window, bytes.
    pub(crate) fn window(&self) -> u64 {
        match &self.law {
            Law::Cubic(cubic) => cubic.congestion_window(),
            Law::Bbr(bbr) => bbr.congestion_window(),
        }
    }

    /// The rate of departures.
    pub(crate) fn pacing(&self, now: Timestamp) -> Rate {
        let law = match &self.law {
            Law::Cubic(cubic) => cubic.pacing_rate(),
            Law::Bbr(bbr) => bbr.pacing_rate(),
        };
        self.tests(now).or(law).unwrap_or(Rate::ZERO)
    }

    /// The law in force, as traces name it.
    pub(crate) fn name(&self) -> &'static str {
        match &self.law {
            Law::Cubic(_) => "as cubic",
            Law::Bbr(_) => "as bbr",
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
    fn losses_beyond_chance_are_answered_once_a_round_trip() {
        let mut acks = Acks::new(40 * MS);
        let (losses, p) = (Losses::default(), Params::default());
        let mut compete = Competition::new(&acks.round(0), RATE, 40 * MS, Priority::Fair, &p);
        let before = compete.window();
        compete.on_loss(&acks.losses(2));
        compete.on_loss(&acks.losses(2));
        let ack = acks.round(compete.window());
        compete.on_ack(&ack, RATE, 20 * MS, TARGET, &losses);
        let share = compete.window() as f64 / before as f64;
        assert!((0.69..0.8).contains(&share), "{share}");
    }

    /// Plays ten seconds in which each test empties the queue. Returns the tests until the competition ended,
    /// if it did.
    fn tests_until_the_end(priority: Priority, delivered: Rate) -> Option<u32> {
        let mut acks = Acks::new(40 * MS);
        let (losses, p) = (Losses::default(), Params::default());
        let mut compete = Competition::new(&acks.round(0), RATE, 40 * MS, priority, &p);
        let (mut queue, mut tests, mut tested) = (20 * MS, 0, false);
        for _ in 0..2000 {
            let ack = acks.next(5 * MS, delivered);
            let testing = compete.tests(ack.now).is_some();
            assert!(!(testing && compete.law.probes_rtt()), "both withhold at {:?}", ack.now);
            tests += u32::from(testing && !tested);
            tested = testing;
            queue = if testing { queue.saturating_sub(3 * MS) } else { 20 * MS };
            if compete.on_ack(&ack, delivered, queue, TARGET, &losses) == Course::QueueOurs {
                assert!(queue <= TARGET, "{queue:?} in test {tests}, with packets of {PACKET} bytes");
                return Some(tests);
            }
        }
        assert!(tests >= 3, "{tests} tests in ten seconds");
        None
    }

    #[test]
    fn two_tests_that_empty_the_queue_end_it() {
        assert_eq!(tests_until_the_end(Priority::Fair, RATE), Some(2));
        assert_eq!(tests_until_the_end(Priority::Fair, RATE.scaled(0.5)), Some(2));
    }

    #[test]
    fn a_greedy_flow_ends_it_only_with_the_path_to_itself() {
        assert_eq!(tests_until_the_end(Priority::Greedy, RATE), Some(2));
        assert_eq!(tests_until_the_end(Priority::Greedy, RATE.scaled(0.8)), None);
    }

    #[test]
    fn losses_that_were_found_are_not_answered() {
        let mut acks = Acks::new(40 * MS);
        let (losses, p) = (Losses::default(), Params::default());
        let mut compete = Competition::new(&acks.round(0), RATE, 40 * MS, Priority::Fair, &p);
        let before = compete.window();
        compete.on_loss(&acks.losses(2));
        compete.on_found(2.0);
        let ack = acks.round(compete.window());
        compete.on_ack(&ack, RATE, 20 * MS, TARGET, &losses);
        assert!(compete.window() >= before, "{} of {before}", compete.window());
    }
}
