//! What the kernel reports of all streams of a session together.

use fobs_model::sample::StreamsSample;
use fobs_sys::TcpInfo;
use std::collections::BTreeMap;
use std::time::Duration;

/// Sums over the streams; those of closed ones stay in the counters.
#[derive(Debug, Default)]
pub(super) struct StreamTotals {
    closed: StreamsSample,
    open: BTreeMap<u16, TcpInfo>,
}

impl StreamTotals {
    /// A stream tells of itself.
    pub(super) fn update(&mut self, index: u16, info: TcpInfo) {
        self.open.insert(index, info);
    }

    /// A stream has ended.
    pub(super) fn close(&mut self, index: u16) {
        if let Some(info) = self.open.remove(&index) {
            count(&mut self.closed, &info);
        }
    }

    /// All of it; `open` is the number of streams, with the one in the control channel.
    pub(super) fn sample(&self, open: u32) -> StreamsSample {
        let mut sample = StreamsSample { open: u64::from(open), ..self.closed.clone() };
        for info in self.open.values() {
            count(&mut sample, info);
            sample.congestion_window_bytes += info.congestion_window;
            sample.peer_window_bytes += info.peer_window;
            sample.delivery_bps += info.delivery_rate.saturating_mul(8);
            sample.unsent_bytes += info.unsent;
            sample.rtt_us = sample.rtt_us.max(micros(info.rtt));
        }
        let fastest = self.open.values().map(|info| micros(info.rtt_min)).filter(|us| *us > 0).min();
        sample.rtt_min_us = fastest.unwrap_or(0);
        sample
    }
}

/// Adds the counters of a stream.
fn count(sample: &mut StreamsSample, info: &TcpInfo) {
    sample.bytes_acked += info.bytes_acked;
    sample.segments_retransmitted += info.retransmitted;
    sample.busy_us += micros(info.busy);
    sample.peer_window_us += micros(info.window_limited);
    sample.send_buffer_us += micros(info.buffer_limited);
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_never_fall_when_streams_end() {
        let info = |acked, window| TcpInfo {
            bytes_acked: acked,
            congestion_window: window,
            busy: Duration::from_millis(acked),
            rtt_min: Duration::from_micros(window),
            ..TcpInfo::default()
        };
        let mut totals = StreamTotals::default();
        totals.update(1, info(5, 10));
        totals.update(2, info(7, 20));
        totals.update(1, info(6, 30));
        let sample = totals.sample(2);
        assert_eq!((sample.open, sample.bytes_acked, sample.busy_us), (2, 13, 13_000));
        assert_eq!((sample.congestion_window_bytes, sample.rtt_min_us), (50, 20));
        totals.close(2);
        totals.close(2);
        let sample = totals.sample(1);
        assert_eq!((sample.open, sample.bytes_acked, sample.busy_us), (1, 13, 13_000));
        assert_eq!((sample.congestion_window_bytes, sample.rtt_min_us), (30, 30));
    }
}
