//! What a user changes of a transfer that runs.

use super::Sender;
use crate::congestion::{Claim, PathShare, Priority};
use crate::pacing::LimitShare;
use crate::recovery::BASE_DATAGRAM;
use crate::{Rate, Timestamp};

impl Sender {
    /// From now on the sending rate has this upper bound.
    pub fn set_rate_limit(&mut self, now: Timestamp, limit: Option<Rate>) {
        self.pace.set_cap(now, limit);
    }

    /// From now on the senders that have a share of the same limit send no more than that together. The upper
    /// bound of this one's own rate is to be the same limit, by its configuration or
    /// [`set_rate_limit`](Self::set_rate_limit).
    pub fn share_rate_limit(&mut self, share: LimitShare) {
        self.pace.share_cap(share);
    }

    /// The upper bound of the sending rate that the user set.
    pub fn rate_limit(&self) -> Option<Rate> {
        self.pace.cap()
    }

    /// From now on other senders use the path too: this one's controller is shared with theirs.
    pub fn share_path(&mut self, now: Timestamp) -> PathShare {
        let load = (self.bytes_in_flight(), BASE_DATAGRAM);
        PathShare::around(&mut self.controller, now, load)
    }

    /// From now on the flow claims this much of a shared path. Only `auto` supports that.
    pub fn set_priority(&mut self, now: Timestamp, priority: Priority) {
        if let Some(deadline) = &mut self.deadline {
            deadline.set_most(priority);
            self.claim(now, 0, 0);
        } else if let Some(adaptive) = self.controller.as_adaptive() {
            adaptive.claim(now, Claim { priority, ceiling: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SendLimit, Sender, SenderConfig, Transmit};
    use crate::congestion::{Auto, Controller, Fixed, Priority};
    use crate::{Rate, Timestamp};
    use std::time::Duration;

    fn sender(controller: Box<dyn Controller>) -> Sender {
        let config = SenderConfig::plain(controller, 8);
        let mut sender = Sender::new(Timestamp::ZERO, config);
        for _ in 0..8 {
            sender.push_chunk(4_000_000, false);
        }
        sender
    }

    /// Datagram bytes a second that leave within 60 ms from `now`: long before silence matters.
    fn sent_in_a_second(sender: &mut Sender, now: &mut Timestamp) -> u64 {
        let (end, mut packets, before) =
            (*now + Duration::from_millis(60), Vec::new(), sender.stats().packets_sent);
        loop {
            match sender.poll_transmit(*now, &mut packets) {
                Transmit::Burst => packets.clear(),
                Transmit::WaitUntil(at) if at < end => *now = at,
                Transmit::WaitUntil(_) | Transmit::Wait => break,
            }
        }
        *now = end;
        (sender.stats().packets_sent - before) * 1200 * 1000 / 60
    }

    #[test]
    fn a_new_cap_applies_from_the_next_burst() {
        let mut now = Timestamp::ZERO;
        let mut sender = sender(Box::new(Fixed::new(Rate::bits_per_second(40_000_000))));
        let free = sent_in_a_second(&mut sender, &mut now);
        sender.set_rate_limit(now, Some(Rate::bits_per_second(8_000_000)));
        let capped = sent_in_a_second(&mut sender, &mut now);
        assert_eq!(sender.limit(), SendLimit::Cap);
        sender.set_rate_limit(now, None);
        let freed = sent_in_a_second(&mut sender, &mut now);
        for (bytes, expected) in [(free, 5e6), (capped, 1e6), (freed, 5e6)] {
            assert!((bytes as f64 / expected - 1.0).abs() < 0.2, "{bytes} bytes a second, not {expected}");
        }
    }

    #[test]
    fn a_cap_that_is_raised_ends_the_wait_of_the_old_one() {
        let now = Timestamp::ZERO;
        let mut sender = sender(Box::new(Fixed::new(Rate::bits_per_second(40_000_000))));
        sender.set_rate_limit(now, Some(Rate::bits_per_second(1000)));
        let mut packets = Vec::new();
        assert_eq!(sender.poll_transmit(now, &mut packets), Transmit::Burst);
        packets.clear();
        let Transmit::WaitUntil(at) = sender.poll_transmit(now, &mut packets) else { panic!("no wait") };
        assert!(at - now > Duration::from_secs(1), "{at:?}");
        let later = now + Duration::from_millis(1);
        sender.set_rate_limit(later, Some(Rate::bits_per_second(8_000_000)));
        assert_eq!(sender.poll_transmit(later, &mut packets), Transmit::Burst);
    }

    #[test]
    fn a_new_priority_reaches_the_controller_that_knows_any() {
        let mut auto = sender(Box::new(Auto::new(1200)));
        auto.set_priority(Timestamp::ZERO, Priority::Scavenger);
        assert_eq!(auto.controller.as_adaptive().expect("auto is").priority(), Priority::Scavenger);
        let mut fixed = sender(Box::new(Fixed::new(Rate::bits_per_second(1_000_000))));
        fixed.set_priority(Timestamp::ZERO, Priority::Scavenger);
        assert!(fixed.controller.as_adaptive().is_none());
    }
}
