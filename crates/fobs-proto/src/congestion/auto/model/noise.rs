//! The noise of a path: by how much delays vary while no queue of the flow moves them.
//!
//! Packets that overtake each other, links that hold them up, acks that come together and the hosts' own
//! wake-ups all make a delay longer for a moment. What is shorter than that noise is no queue.

use std::time::Duration;

/// Least delays that a deviation is taken of: a line through two leaves nothing.
const DELAYS_MIN: f64 = 4.0;
/// Quiet phases of which the median counts.
const PHASES: usize = 3;
/// Part of the difference that a phase with less noise takes off where it was not quiet.
const LESS: f64 = 8.0;

/// Whether the flow adds nothing to the queue in a phase, so that delays show the path alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quiet {
    Yes,
    No,
}

/// Delays of a phase: their count, and sums over them in seconds, over their squares and over their products
/// with their place.
#[derive(Debug, Default)]
struct Delays {
    count: f64,
    sum: f64,
    squares: f64,
    products: f64,
    least: f64,
}

impl Delays {
    fn add(&mut self, delay: f64) {
        self.sum += delay;
        self.squares += delay * delay;
        self.least = if self.count > 0.0 { self.least.min(delay) } else { delay };
        self.products += delay * self.count;
        self.count += 1.0;
    }

    /// Their standard deviation around the line through them: what grows or shrinks evenly is a queue.
    fn deviation(&self) -> Option<f64> {
        let n = self.count;
        if n < DELAYS_MIN {
            return None;
        }
        let (mean, middle) = (self.sum / n, (n - 1.0) / 2.0);
        let (spread, places) = (self.squares - n * mean * mean, n * (n * n - 1.0) / 12.0);
        let slope = (self.products - n * mean * middle) / places;
        Some(((spread - slope * slope * places).max(0.0) / (n - 2.0)).sqrt())
    }
}

/// What delays vary by.
#[derive(Debug, Default)]
pub(crate) struct Noise {
    phase: Delays,
    /// Seconds; 0 before the first quiet phase with enough delays.
    deviation: f64,
    /// Of the newest quiet phases: what one of them alone has seen may be the beginning of another's burst.
    quiet: [Option<f64>; PHASES],
}

impl Noise {
    /// A phase begins to measure.
    pub(crate) fn begin_phase(&mut self) {
        self.phase = Delays::default();
    }

    /// Takes the delay of an ack.
    pub(crate) fn on_delay(&mut self, delay: Duration) {
        self.phase.add(delay.as_secs_f64());
    }

    /// The phase is over. More noise is believed only of a quiet one, because the flow's own queue varies
    /// too, and in which the least delay was within `clear` deviations: else a queue of others stood, and it
    /// varies as they do. Less is always believed.
    pub(crate) fn end_phase(&mut self, quiet: Quiet, clear: f64) {
        let Some(deviation) = self.phase.deviation() else { return };
        if quiet == Quiet::Yes && self.phase.least <= clear * deviation {
            self.quiet.rotate_right(1);
            self.quiet[0] = Some(deviation);
            let mut seen: Vec<f64> = self.quiet.iter().copied().flatten().collect();
            seen.sort_by(f64::total_cmp);
            self.deviation = seen[(seen.len() - 1) / 2];
        } else if deviation < self.deviation {
            // The least of many phases is none's: it counts little.
            self.deviation += (deviation - self.deviation) / LESS;
        }
    }

    /// This multiple of the deviation.
    pub(crate) fn of(&self, deviations: f64) -> Duration {
        Duration::from_secs_f64(self.deviation * deviations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAR: f64 = 3.0;

    type Phase = (Quiet, fn(u32) -> f64);

    /// The noise in ms after these phases of delays in ms.
    fn after(phases: &[Phase]) -> f64 {
        let mut noise = Noise::default();
        for (quiet, delay) in phases {
            noise.begin_phase();
            (0..20).for_each(|n| noise.on_delay(Duration::from_secs_f64(delay(n) / 1e3)));
            noise.end_phase(*quiet, CLEAR);
        }
        noise.of(1.0).as_secs_f64() * 1e3
    }

    fn still(_: u32) -> f64 {
        0.0
    }

    fn little(n: u32) -> f64 {
        f64::from(n % 2)
    }

    fn much(n: u32) -> f64 {
        f64::from(n % 2) * 10.0
    }

    #[test]
    fn a_queue_that_grows_evenly_is_no_noise() {
        assert!(after(&[(Quiet::Yes, |n| f64::from(n))]) < 1e-6);
        let found = after(&[(Quiet::Yes, |n| f64::from(n) + much(n))]);
        assert!((5.0..5.5).contains(&found), "{found}");
    }

    #[test]
    fn only_quiet_phases_show_more_noise() {
        use Quiet::{No, Yes};
        assert_eq!(after(&[(No, much)]), 0.0, "nothing is known yet");
        assert!(after(&[(Yes, little), (No, much), (No, much)]) < 0.6);
        assert!(after(&[(Yes, little), (Yes, much)]) < 0.6, "a burst of others");
        assert!(after(&[(Yes, little), (Yes, much), (Yes, much)]) > 5.0);
    }

    #[test]
    fn a_queue_of_others_that_varies_is_no_noise() {
        use Quiet::Yes;
        let sawtooth = |n: u32| 40.0 + f64::from(n % 10);
        assert_eq!(after(&[(Yes, sawtooth)]), 0.0);
        assert!(after(&[(Yes, little), (Yes, sawtooth), (Yes, sawtooth)]) < 0.6);
    }

    #[test]
    fn less_noise_is_believed_of_any_phase() {
        use Quiet::{No, Yes};
        let (at_first, later) = (after(&[(Yes, much)]), after(&[(Yes, much), (No, still)]));
        assert!(later < at_first && later > at_first / 2.0, "{later} of {at_first}");
        assert!(after(&[(Yes, much), (Yes, still)]) < 1e-6);
    }

    #[test]
    fn few_delays_show_nothing() {
        let mut noise = Noise::default();
        noise.begin_phase();
        for ms in [0, 9, 0] {
            noise.on_delay(Duration::from_millis(ms));
        }
        noise.end_phase(Quiet::Yes, CLEAR);
        assert_eq!(noise.of(1.0), Duration::ZERO);
    }
}
