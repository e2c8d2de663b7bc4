//! Beside flows that fill the queue until it overflows, a flow that yields to the delay starves. There
//! `auto` is a CUBIC flow (RFC 9438), as Copa changes its mode (Arun, Balakrishnan 2018, section 2.2),
//! until sending less for a moment shows that the queue is its own.
//!
//! One thing is not CUBIC's: losses that chance explains do not count. A greedy flow persists instead.

use super::super::cubic::Cubic;
use super::super::{AckSample, Controller, LossEpisode, Priority};
use super::model::Losses;
use super::params::Params;
use super::persist::Persist;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// How the flow sends beside flows that fill the queue.
#[derive(Debug)]
enum Law {
    /// Backs off at losses, as they do.
    Cubic(Cubic),
    /// A greedy flow goes on with what it had.
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
    law: Law,
    test: Option<Test>,
    test_at: Timestamp,
    /// The queue went away in the last test: others may have backed off just then, so the next one decides.
    went_away: bool,
    /// Packets of the present round.
    acked: f64,
    lost: f64,
    last_loss: Option<LossEpisode>,
    rtt: Duration,
}

/// CUBIC with the window that sends `rate` now.
fn as_cubic(ack: &AckSample, rate: Rate) -> Law {
    let packets = rate.bytes_in(ack.latest_rtt) as f64 / f64::from(ack.packet_len.max(1));
    Law::Cubic(Cubic::at(ack.packet_len, packets))
}

impl Competition {
    /// Begins with `rate`.
    pub(crate) fn new(ack: &AckSample, rate: Rate, priority: Priority, params: &Params) -> Competition {
        let p = params;
        let law = match priority {
            Priority::Greedy => Law::Persist(Persist::new(ack.now, rate, p)),
            Priority::Scavenger | Priority::Fair => as_cubic(ack, rate),
        };
        Competition {
            params: *params,
            law,
            test: None,
            went_away: false,
            test_at: ack.now + p.crowd_rounds * ack.latest_rtt,
            acked: 0.0,
            lost: 0.0,
            last_loss: None,
            rtt: ack.latest_rtt,
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
            self.end_round(losses);
        }
        match &mut self.law {
            Law::Cubic(cubic) => cubic.on_ack(ack),
            Law::Persist(persist) => persist.on_ack(ack, delivered),
        }
        self.test_queue(ack, delivered, queue, target)
    }

    /// From time to time less is sent: a self-induced queue goes away then, each time.
    fn test_queue(&mut self, ack: &AckSample, delivered: Rate, queue: Duration, target: Duration) -> Course {
        let p = &self.params;
        if let Some(test) = self.test {
            let goes_away = queue <= test.ours;
            if !goes_away && ack.now < test.watch_until {
                return Course::Continues;
            }
            let went_away = std::mem::replace(&mut self.went_away, goes_away);
            self.test = None;
            self.test_at = ack.now + p.drain_cycle_min.max(p.patience_rounds * ack.latest_rtt);
            if goes_away && went_away {
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

    /// Losses of a round trip that chance does not explain are CUBIC's.
    fn end_round(&mut self, losses: &Losses) {
        let (acked, lost) = (std::mem::take(&mut self.acked), std::mem::take(&mut self.lost));
        if let Some(loss) = self.last_loss.take()
            && losses.beyond(lost, acked + lost, &self.params)
            && let Law::Cubic(cubic) = &mut self.law
        {
            cubic.on_loss(&loss);
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
    fn losses_beyond_chance_are_answered_once_a_round_trip() {
        let mut acks = Acks::new(40 * MS);
        let (losses, p) = (Losses::default(), Params::default());
        let mut compete = Competition::new(&acks.round(0), RATE, Priority::Fair, &p);
        let before = compete.window();
        compete.on_loss(&acks.losses(2));
        compete.on_loss(&acks.losses(2));
        let ack = acks.round(compete.window());
        compete.on_ack(&ack, RATE, 20 * MS, TARGET, &losses);
        let share = compete.window() as f64 / before as f64;
        assert!((0.69..0.8).contains(&share), "{share}");
    }

    #[test]
    fn two_tests_that_empty_the_queue_end_it() {
        let mut acks = Acks::new(40 * MS);
        let (losses, p) = (Losses::default(), Params::default());
        let mut compete = Competition::new(&acks.round(0), RATE, Priority::Fair, &p);
        let (mut queue, mut tests, mut tested) = (20 * MS, 0, false);
        for _ in 0..2000 {
            let ack = acks.next(5 * MS, RATE);
            let testing = compete.tests(ack.now).is_some();
            tests += u32::from(testing && !tested);
            tested = testing;
            queue = if testing { queue.saturating_sub(3 * MS) } else { 20 * MS };
            if compete.on_ack(&ack, RATE, queue, TARGET, &losses) == Course::QueueOurs {
                assert!(queue <= TARGET && tests == 2, "{queue:?} in test {tests}");
                return;
            }
        }
        panic!("no end in ten seconds, with packets of {PACKET} bytes");
    }
}
