//! A limit on the rate of several sessions together, kept where chunks are read and stored: the peer cannot
//! evade it, because a chunk that is not stored yet leaves it no credit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a session that has ended may go on waiting for its turn.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The rate that sessions share.
#[derive(Debug)]
pub struct SharedRate {
    bits_per_second: u64,
    /// When the next chunk may pass.
    free_at: Mutex<Instant>,
}

impl SharedRate {
    /// `bits_per_second` of chunk data; 0 counts as 1.
    pub fn new(bits_per_second: u64) -> SharedRate {
        SharedRate { bits_per_second: bits_per_second.max(1), free_at: Mutex::new(Instant::now()) }
    }

    /// Bits per second.
    pub fn bits_per_second(&self) -> u64 {
        self.bits_per_second
    }

    /// When a chunk of this size may pass. Chunks pass one after the other, at the rate on average; time in
    /// which none came is not saved up.
    fn turn(&self, bytes: usize) -> Instant {
        let takes = Duration::from_secs_f64(bytes as f64 * 8.0 / self.bits_per_second as f64);
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = (*free_at).max(Instant::now());
        *free_at = turn + takes;
        turn
    }
}

/// One session's part in a [`SharedRate`]. The default is no limit.
#[derive(Debug, Clone, Default)]
pub struct Throttle {
    rate: Option<Arc<SharedRate>>,
    ended: Arc<AtomicBool>,
}

impl Throttle {
    /// That takes its part of this rate.
    pub fn of(rate: Arc<SharedRate>) -> Throttle {
        Throttle { rate: Some(rate), ended: Arc::default() }
    }

    /// Another part in the same rate, for a transfer beside this one.
    pub fn another(&self) -> Throttle {
        Throttle { rate: self.rate.clone(), ended: Arc::default() }
    }

    /// The lower of a chosen limit and this one, bits per second: a sender that keeps to it sends no bursts.
    pub fn cap(&self, chosen_bps: Option<u64>) -> Option<u64> {
        let ours = self.rate.as_ref().map(|rate| rate.bits_per_second);
        chosen_bps.into_iter().chain(ours).min()
    }

    /// Waits until a chunk of this size may pass, or until the session has ended.
    pub fn pass(&self, bytes: usize) {
        let Some(rate) = &self.rate else { return };
        let turn = rate.turn(bytes);
        while !self.ended.load(Ordering::SeqCst) {
            let left = turn.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    /// Ends the session's waits when it is dropped.
    pub fn end_on_drop(&self) -> ThrottleEnd {
        ThrottleEnd(self.ended.clone())
    }
}

/// See [`Throttle::end_on_drop`].
#[derive(Debug)]
pub struct ThrottleEnd(Arc<AtomicBool>);

impl Drop for ThrottleEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_all_sessions_pass_at_the_shared_rate() {
        let rate = SharedRate::new(8_000_000);
        let first = rate.turn(1_000_000);
        let turns = [rate.turn(500_000), rate.turn(1)].map(|turn| turn - first);
        assert_eq!(turns, [Duration::from_secs(1), Duration::from_millis(1500)]);
    }

    #[test]
    fn the_end_of_a_session_ends_its_wait() {
        let throttle = Throttle::of(Arc::new(SharedRate::new(1)));
        throttle.pass(1 << 30);
        let waiting = throttle.clone();
        let thread = std::thread::spawn(move || waiting.pass(1));
        drop(throttle.end_on_drop());
        // Else it would take centuries.
        thread.join().unwrap();
        Throttle::default().pass(usize::MAX);
    }
}
