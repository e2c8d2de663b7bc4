//! A limit on the rate of several sessions together, kept where chunks are read and stored: the peer cannot
//! evade it, because a chunk that is not stored yet leaves it no credit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a session that has ended may go on waiting for its turn.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The rate that sessions share.
#[derive(Debug)]
pub(crate) struct SharedRate {
    /// 0 is no limit.
    bits_per_second: AtomicU64,
    /// When the next chunk may pass.
    free_at: Mutex<Instant>,
}

impl SharedRate {
    /// `bits_per_second` of chunk data; 0 counts as 1.
    pub(crate) fn new(bits_per_second: u64) -> SharedRate {
        let bits_per_second = AtomicU64::new(bits_per_second.max(1));
        SharedRate { bits_per_second, free_at: Mutex::new(Instant::now()) }
    }

    fn unlimited() -> SharedRate {
        SharedRate { bits_per_second: AtomicU64::new(0), free_at: Mutex::new(Instant::now()) }
    }

    /// Bits per second, if there is a limit.
    pub(crate) fn bits_per_second(&self) -> Option<u64> {
        Some(self.bits_per_second.load(Ordering::SeqCst)).filter(|rate| *rate > 0)
    }

    fn forget(&self) {
        *self.free_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// When a chunk of this size may pass. Chunks pass one after the other, at the rate on average; time in
    /// which none came is not saved up.
    fn turn(&self, bytes: usize, bits_per_second: u64) -> Instant {
        let takes = Duration::from_secs_f64(bytes as f64 * 8.0 / bits_per_second as f64);
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = (*free_at).max(Instant::now());
        *free_at = turn + takes;
        turn
    }
}

/// Changes the highest rate of transfers while they run. Clones are the same.
///
/// Of a transfer that sends, packets are paced at the rate. One that receives holds the sender back by its
/// credit: a lower rate applies after what is in flight, and the limit with which it began stays.
#[derive(Debug, Clone)]
pub struct RateControl(Arc<SharedRate>);

impl RateControl {
    /// Without a limit of its own.
    pub fn new() -> RateControl {
        RateControl(Arc::new(SharedRate::unlimited()))
    }

    /// The highest rate from now on, bits per second of file data; `None` is what the options say.
    pub fn set(&self, bits_per_second: Option<u64>) {
        let rate = bits_per_second.map_or(0, |rate| rate.max(1));
        self.0.bits_per_second.store(rate, Ordering::SeqCst);
    }

    /// The highest rate, if one was set.
    pub fn get(&self) -> Option<u64> {
        self.0.bits_per_second()
    }

    pub(crate) fn throttle(&self) -> Throttle {
        Throttle::of(self.0.clone())
    }
}

impl Default for RateControl {
    fn default() -> RateControl {
        RateControl::new()
    }
}

/// One session's part in a [`SharedRate`]. The default is no limit.
#[derive(Debug, Clone, Default)]
pub(crate) struct Throttle {
    rate: Option<Arc<SharedRate>>,
    ended: Arc<AtomicBool>,
}

impl Throttle {
    pub(crate) fn of(rate: Arc<SharedRate>) -> Throttle {
        Throttle { rate: Some(rate), ended: Arc::default() }
    }

    /// The lower of a chosen limit and this one, bits per second: a sender that keeps to it sends no bursts.
    pub(crate) fn cap(&self, chosen_bps: Option<u64>) -> Option<u64> {
        chosen_bps.into_iter().chain(self.limit()).min()
    }

    /// The rate that holds now, bits per second.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.rate.as_ref().and_then(|rate| rate.bits_per_second())
    }

    /// Waits until a chunk of this size may pass, or until the session has ended.
    pub(crate) fn pass(&self, bytes: usize) {
        let (Some(rate), Some(mut limit)) = (&self.rate, self.limit()) else { return };
        let mut turn = rate.turn(bytes, limit);
        while !self.ended.load(Ordering::SeqCst) {
            match rate.bits_per_second() {
                Some(same) if same == limit => {}
                None => return,
                // The turns that were given out are of another rate.
                Some(other) => {
                    rate.forget();
                    limit = other;
                    turn = rate.turn(bytes, limit);
                }
            }
            let left = turn.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    /// Ends the session's waits when it is dropped.
    pub(crate) fn end_on_drop(&self) -> ThrottleEnd {
        ThrottleEnd(self.ended.clone())
    }
}

/// See [`Throttle::end_on_drop`].
#[derive(Debug)]
pub(crate) struct ThrottleEnd(Arc<AtomicBool>);

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
        let bps = rate.bits_per_second().unwrap();
        let first = rate.turn(1_000_000, bps);
        let turns = [rate.turn(500_000, bps), rate.turn(1, bps)].map(|turn| turn - first);
        assert_eq!(turns, [Duration::from_secs(1), Duration::from_millis(1500)]);
    }

    #[test]
    fn a_new_rate_holds_for_what_waits_already() {
        let control = RateControl::new();
        control.throttle().pass(usize::MAX);
        control.set(Some(1));
        let waiting = control.throttle();
        let thread = std::thread::spawn(move || {
            waiting.pass(1 << 20);
            waiting.pass(1 << 20);
        });
        std::thread::sleep(LOOK_EVERY);
        assert!(!thread.is_finished());
        control.set(Some(1 << 40));
        // Else it would take months.
        thread.join().unwrap();
        assert_eq!(control.get(), Some(1 << 40));
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
