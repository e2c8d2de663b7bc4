//! What keeps a sender from sending, as only the machine knows it. The driver measures for how long each
//! limit applies.

/// Why [`poll_transmit`](super::Sender::poll_transmit) gave no burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SendLimit {
    /// There is no unsent chunk; more of the object will come.
    #[default]
    Data,
    /// The next chunk lies beyond the receiver's credit.
    Credit,
    /// Everything was sent; acks and verdicts are outstanding.
    Answers,
    /// The pacer, at the rate that the user capped.
    Cap,
    /// The pacer, at the rate at which the receiver takes packets out of its socket.
    Drain,
    /// The pacer, at the rate that the deadline needs.
    Deadline,
    /// The pacer, at the rate that the controller chose.
    Pacer,
    /// The controller's window is full, or as many packets are unanswered as the machine can keep; where only
    /// frames carry data, no stream is free.
    Window,
    /// Nothing comes back: only the probe timeout admits packets.
    Silence,
}

#[cfg(test)]
mod tests {
    use super::super::{Sender, SenderConfig, Transmit};
    use super::SendLimit;
    use crate::congestion::{Auto, Controller, Fixed};
    use crate::{Rate, Timestamp};

    struct Case {
        name: &'static str,
        controller: Box<dyn Controller>,
        cap: Option<Rate>,
        chunks: u32,
        credit: u32,
        last: bool,
        /// Pacing pauses that are waited for.
        pauses: u32,
        expected: SendLimit,
    }

    impl Case {
        fn new(
            name: &'static str,
            controller: Box<dyn Controller>,
            chunks: u32,
            expected: SendLimit,
        ) -> Case {
            Case { name, controller, cap: None, chunks, credit: 8, last: false, pauses: 0, expected }
        }

        /// Sends from a fresh machine, without any ack, until it wants to wait; its limit then.
        fn run(self) -> SendLimit {
            let plain = SenderConfig::plain(self.controller, self.credit);
            let config = SenderConfig { rate_limit: self.cap, chunks_max: 8, ..plain };
            let (mut now, mut packets) = (Timestamp::ZERO, Vec::new());
            let mut sender = Sender::new(now, config);
            for chunk in 1..=self.chunks {
                sender.push_chunk(100_000, self.last && chunk == self.chunks);
            }
            let mut pauses = 0;
            loop {
                match sender.poll_transmit(now, &mut packets) {
                    Transmit::Burst => {}
                    Transmit::WaitUntil(at) if pauses < self.pauses => {
                        now = at;
                        pauses += 1;
                    }
                    Transmit::WaitUntil(_) | Transmit::Wait => return sender.limit(),
                }
            }
        }
    }

    #[test]
    fn a_waiting_sender_names_its_limit() {
        let fixed = |bits| -> Box<dyn Controller> { Box::new(Fixed::new(Rate::bits_per_second(bits))) };
        let auto = || -> Box<dyn Controller> { Box::new(Auto::new(1200)) };
        let (fast, slow) = (1 << 50, 80_000);
        let cap = |bits| Some(Rate::bits_per_second(bits));
        let table = [
            Case::new("no chunk yet", fixed(fast), 0, SendLimit::Data),
            Case::new("all of one chunk", fixed(fast), 1, SendLimit::Data),
            Case { last: true, ..Case::new("a final chunk", fixed(fast), 1, SendLimit::Answers) },
            Case { credit: 1, ..Case::new("no credit", fixed(fast), 2, SendLimit::Credit) },
            Case::new("its own rate", fixed(slow), 2, SendLimit::Pacer),
            Case { cap: cap(40_000), ..Case::new("a cap", fixed(slow), 2, SendLimit::Cap) },
            Case {
                cap: cap(1 << 40),
                ..Case::new("a cap that does not bind", fixed(slow), 2, SendLimit::Pacer)
            },
            Case { pauses: 1000, ..Case::new("the first train is out", auto(), 8, SendLimit::Window) },
        ];
        for case in table {
            let (name, expected) = (case.name, case.expected);
            assert_eq!(case.run(), expected, "{name}");
        }
    }
}
