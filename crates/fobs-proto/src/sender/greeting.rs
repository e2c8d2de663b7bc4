//! A peer that may be somewhere else: its address is only named, so the driver may send it few bytes. A ping
//! leaves, and what probe timeouts admit; data waits for the first answer. Otherwise most of the first train
//! would be lost, and its dispersion would show a rate that the path has not.

use super::Sender;

impl Sender {
    /// Until the first ack only a ping and the packets of probe timeouts leave. To be called before anything
    /// has left.
    pub fn greet_first(&mut self) {
        self.greets = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SendLimit, Sender, SenderConfig, Transmit};
    use crate::congestion::Auto;
    use crate::wire::{Ack, Header};
    use crate::{Rate, Timestamp};
    use std::time::Duration;

    const RTT: Duration = Duration::from_millis(20);

    fn sender() -> Sender {
        let config = SenderConfig::plain(Box::new(Auto::new(1200)), 8);
        Sender::new(Timestamp::ZERO, config)
    }

    /// Packets that leave now, pings last.
    fn leave(sender: &mut Sender, now: Timestamp) -> (usize, usize) {
        let (mut packets, mut data, mut pings) = (Vec::new(), 0, 0);
        while sender.poll_transmit(now, &mut packets) == Transmit::Burst {
            let of_data = packets.iter().filter(|packet| matches!(packet.header, Header::Data(_))).count();
            (data, pings) = (data + of_data, pings + packets.len() - of_data);
        }
        (data, pings)
    }

    fn answer(sender: &mut Sender, at: Timestamp) {
        let ack = Ack { largest: Some(0), ranges: vec![(0, 0)], chunk_limit: 8, ..Ack::default() };
        sender.handle_ack(at, &ack);
    }

    #[test]
    fn data_waits_for_the_answer_to_a_ping() {
        let (mut sender, now) = (sender(), Timestamp::ZERO);
        sender.greet_first();
        sender.push_chunk(4_000_000, false);
        assert_eq!(leave(&mut sender, now), (0, 1));
        assert_eq!(sender.limit(), SendLimit::Silence);
        let answered = now + RTT;
        assert_eq!(leave(&mut sender, answered), (0, 0));
        answer(&mut sender, answered);
        let (data, pings) = leave(&mut sender, answered);
        assert!(data > 20 && pings == 0, "the train leaves whole: {data} and {pings}");
        assert_eq!(sender.controller().state(), "train");
    }

    #[test]
    fn what_no_ping_answers_gets_the_few_packets_of_probe_timeouts() {
        let (mut sender, mut now, mut all) = (sender(), Timestamp::ZERO, 0);
        sender.greet_first();
        sender.push_chunk(4_000_000, false);
        while now < Timestamp::ZERO + Duration::from_secs(2) {
            let (data, pings) = leave(&mut sender, now);
            assert!(data + pings <= 3, "{data} and {pings}");
            all += data + pings;
            let Some(at) = sender.poll_timeout() else { panic!("nothing is tried again") };
            now = now.max(at);
            sender.handle_timeout(now);
        }
        assert!((2..200).contains(&all), "{all}");
    }

    #[test]
    fn the_answer_to_a_ping_before_any_data_is_no_answer_to_the_train() {
        let mut sender = sender();
        assert_eq!(leave(&mut sender, Timestamp::ZERO), (0, 1));
        let answered = Timestamp::ZERO + RTT;
        answer(&mut sender, answered);
        assert_eq!(sender.controller().state(), "train");
        assert!(sender.rtt().latest().is_some());
        let most = Rate::bits_per_second(100_000_000_000);
        assert!(sender.controller().congestion_window() < most.bytes_in(RTT), "it is still the train's");
        sender.push_chunk(4_000_000, false);
        assert!(leave(&mut sender, answered + RTT).0 > 20);
    }
}
