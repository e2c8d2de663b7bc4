//! The frames on a stream: when the receiver has taken them, and which of them are late.

use fobs_proto::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

/// A frame is late after this many times the stream's own delivery time, and no sooner than [`LATE_MIN`]: a
/// path whose round trip grows fourfold is still no dead one.
const LATE_FACTOR: u32 = 8;
const LATE_MIN: Duration = Duration::from_secs(1);
/// Weight of the newest delivery time, as a divisor: that of RFC 6298.
const SMOOTHING: u32 = 8;

/// What a sender keeps of a stream.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    sent: VecDeque<SentFrame>,
    delivered: u64,
    /// Smoothed time from a frame's departure to the report of it.
    time: Option<Duration>,
    /// No frames any more; it is closed when all that it has are delivered.
    pub(super) retiring: bool,
    /// A frame waits that it may take.
    pub(super) offered: bool,
}

#[derive(Debug, Clone, Copy)]
struct SentFrame {
    id: u64,
    at: Timestamp,
    bytes: u32,
    late: bool,
}

/// The peer reports frames that were not sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NeverSent;

impl Deliveries {
    /// A frame leaves.
    pub(super) fn on_sent(&mut self, now: Timestamp, id: u64, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.sent.push_back(SentFrame { id, at: now, bytes, late: false });
    }

    /// Takes the number of frames of this stream that the receiver has taken in all; their ids and bytes are
    /// handed to `each`.
    pub(super) fn on_report(
        &mut self,
        now: Timestamp,
        delivered: u64,
        mut each: impl FnMut(u64, u32),
    ) -> Result<(), NeverSent> {
        // An older count says nothing.
        let news = delivered.saturating_sub(self.delivered);
        if news > self.sent.len() as u64 {
            return Err(NeverSent);
        }
        for frame in self.sent.drain(..news as usize) {
            let took = now - frame.at;
            let time = self.time.get_or_insert(took);
            *time = (*time * (SMOOTHING - 1) + took) / SMOOTHING;
            each(frame.id, frame.bytes);
        }
        self.delivered += news;
        Ok(())
    }

    /// Whether no frame waits for its report.
    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// The stream has ended: the frames that it had.
    pub(super) fn lost(self) -> impl Iterator<Item = u64> {
        self.sent.into_iter().map(|frame| frame.id)
    }

    /// Names the frames that are late now; each once.
    pub(super) fn late(&mut self, now: Timestamp, mut each: impl FnMut(u64)) {
        let patience = self.patience();
        let late = self.sent.iter_mut().take_while(|frame| now - frame.at >= patience);
        for frame in late {
            if !std::mem::replace(&mut frame.late, true) {
                each(frame.id);
            }
        }
    }

    /// When the next frame will be late.
    pub(super) fn late_at(&self) -> Option<Timestamp> {
        self.sent.iter().find(|frame| !frame.late).map(|frame| frame.at + self.patience())
    }

    fn patience(&self) -> Duration {
        (self.time.unwrap_or_default() * LATE_FACTOR).max(LATE_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn reports_name_the_frames_in_order_and_no_others() {
        let mut deliveries = Deliveries::default();
        (0..4).for_each(|id| deliveries.on_sent(at(id), id, 10));
        let mut taken = Vec::new();
        assert_eq!(deliveries.on_report(at(9), 2, |id, _| taken.push(id)), Ok(()));
        assert_eq!(deliveries.on_report(at(9), 1, |id, _| taken.push(id)), Ok(()), "an old count");
        assert_eq!(deliveries.on_report(at(9), 5, |id, _| taken.push(id)), Err(NeverSent));
        assert_eq!(deliveries.on_report(at(9), u64::MAX, |_, _| {}), Err(NeverSent));
        assert_eq!((taken, deliveries.lost().collect::<Vec<_>>()), (vec![0, 1], vec![2, 3]));
    }

    #[test]
    fn a_frame_is_late_once_and_by_the_measure_of_its_stream() {
        let late = |deliveries: &mut Deliveries, ms| {
            let mut ids = Vec::new();
            deliveries.late(at(ms), |id| ids.push(id));
            ids
        };
        let mut fresh = Deliveries::default();
        fresh.on_sent(at(0), 1, 10);
        fresh.on_sent(at(500), 2, 10);
        assert_eq!(fresh.late_at(), Some(at(1000)));
        assert_eq!((late(&mut fresh, 999), late(&mut fresh, 1000)), (vec![], vec![1]));
        assert_eq!(fresh.late_at(), Some(at(1500)));
        assert_eq!((late(&mut fresh, 1499), late(&mut fresh, 1500)), (vec![], vec![2]));
        assert_eq!(fresh.late_at(), None);

        let mut slow = Deliveries::default();
        slow.on_sent(at(0), 1, 10);
        slow.on_report(at(500), 1, |_, _| {}).unwrap();
        slow.on_sent(at(500), 2, 10);
        assert_eq!((late(&mut slow, 4499), late(&mut slow, 4500)), (vec![], vec![2]));
    }
}
