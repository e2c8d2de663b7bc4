//! Other traffic at the bottleneck: what reacts to losses or comes in volleys, which the sources of worlds do
//! not.

use crate::rng::Rng;

/// When packets come.
#[derive(Debug, Clone, Copy)]
pub enum Pattern {
    /// At random.
    Poisson,
    /// Evenly, but for some jitter (share of the gap).
    Even {
        /// Share of the gap.
        jitter: f64,
    },
    /// Evenly for some time, then not at all; times are exponential, seconds.
    OnOff {
        /// Mean of sending.
        on: f64,
        /// Mean of silence.
        off: f64,
        /// What is left of sending.
        left: f64,
    },
    /// Faster by a packet each round trip, half as fast after a loss.
    Aimd {
        /// Seconds.
        rtt: f64,
        /// Losses until then belong to the last reaction.
        deaf_until: f64,
    },
    /// Many at once, again and again.
    Volley {
        /// Seconds.
        period: f64,
        /// Packets.
        size: u32,
        /// Of this volley.
        sent: u32,
    },
}

/// A sender of packets.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// When its next packet comes, seconds.
    pub next: f64,
    /// Seconds between packets, on average or while sending.
    pub gap: f64,
    pattern: Pattern,
}

impl Source {
    /// One that begins at once.
    pub fn new(pattern: Pattern, gap: f64) -> Source {
        Source { next: 0.0, gap, pattern }
    }

    /// Its packet was taken or dropped: sets the time of the next.
    pub fn step(&mut self, taken: bool, random: &mut Rng) {
        let now = self.next;
        let wait = match &mut self.pattern {
            Pattern::Poisson => random.exponential(self.gap),
            Pattern::Even { jitter } => self.gap * (1.0 + *jitter * random.uniform(-1.0, 1.0)),
            Pattern::OnOff { on, off, left } => {
                *left -= self.gap;
                if *left > 0.0 {
                    self.gap
                } else {
                    *left = random.exponential(*on);
                    self.gap + random.exponential(*off)
                }
            }
            Pattern::Aimd { rtt, deaf_until } => {
                // The window in packets is rtt / gap.
                if taken {
                    let window = *rtt / self.gap;
                    self.gap = *rtt / (window + 1.0 / window.max(1.0));
                } else if now > *deaf_until {
                    self.gap = (self.gap * 2.0).min(*rtt);
                    *deaf_until = now + *rtt;
                }
                self.gap * random.uniform(0.5, 1.5)
            }
            Pattern::Volley { period, size, sent } => {
                *sent += 1;
                if *sent < *size {
                    self.gap
                } else {
                    *sent = 0;
                    let volley = (now / *period).floor() + 1.0;
                    volley * *period + random.uniform(0.0, 0.05) * *period - now
                }
            }
        };
        // Time goes on for any numbers.
        self.next = now + wait.max(1e-9);
    }
}
