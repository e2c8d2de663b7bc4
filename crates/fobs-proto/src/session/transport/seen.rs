//! What is observed of both ways.

use super::super::stream_count::StreamBrake;
use crate::sender::{SendLimit, Sender};
use crate::{Rate, Timestamp};
use std::time::Duration;

/// Losses are heavy where [`WINDOWS_HEAVY`] of the last [`WINDOWS`] windows lost more than [`HEAVY`] of at
/// least [`PACKETS_MIN`] packets each. A full queue loses in one or two, a broken line in all; a policer in
/// most, as the controller holds its rate for a while after each loss.
const WINDOW: Duration = Duration::from_secs(1);
const WINDOWS: usize = 5;
const WINDOWS_HEAVY: usize = 3;
const HEAVY: f64 = 0.02;
const PACKETS_MIN: u64 = 50;

/// Both ways at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportSeen {
    /// When.
    pub now: Timestamp,
    /// Datagrams.
    pub datagrams: DatagramsSeen,
    /// Bytes of frames that the receiver has taken.
    pub frames_delivered: u64,
    /// Frames are outstanding.
    pub frames_waiting: bool,
    /// Streams.
    pub streams: StreamsOpen,
    /// Nothing waits to be sent: rates say nothing about the ways.
    pub idle: bool,
}

/// Datagrams, counted since the session began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DatagramsSeen {
    /// When the peer's newest one came.
    pub heard: Option<Timestamp>,
    /// Bytes of data acknowledged: small probes may pass where data does not.
    pub delivered: u64,
    /// Data packets sent, and those lost that were not the receiver's to drop.
    pub packets: u64,
    /// See [`packets`](Self::packets).
    pub lost: u64,
    /// Probes acknowledged.
    pub probes_acked: u64,
    /// Some are in flight, were refused by this host or wait for being sent again: an answer is due.
    pub waiting: bool,
    /// Smoothed round trip.
    pub round_trip: Duration,
}

/// Streams, as the driver has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamsOpen {
    /// Open.
    pub open: u32,
    /// Being opened.
    pub connecting: u32,
    /// A stream's smoothed round trip, as its kernel has it; of those open, the mean. Zero if it is not
    /// known.
    pub round_trip: Duration,
    /// What held them back since the driver looked before.
    pub brake: StreamBrake,
}

impl TransportSeen {
    /// What the machine knows, and what its driver adds: when the peer's newest datagram came, and its
    /// streams.
    pub fn of(
        machine: &Sender,
        now: Timestamp,
        heard: Option<Timestamp>,
        streams: StreamsOpen,
    ) -> TransportSeen {
        let (stats, rtt) = (machine.stats(), machine.rtt());
        let round_trip = rtt.smoothed();
        TransportSeen {
            now,
            datagrams: DatagramsSeen {
                heard,
                delivered: stats.data_bytes_acked,
                packets: stats.packets_sent,
                lost: stats.packets_lost.saturating_sub(stats.packets_late + stats.packets_spared),
                probes_acked: stats.probes_acked,
                waiting: machine.datagrams_owe_data(),
                round_trip,
            },
            frames_delivered: stats.bytes_frames_delivered,
            frames_waiting: machine.frames_outstanding().frames > 0,
            streams: StreamsOpen {
                round_trip: if streams.round_trip.is_zero() { round_trip } else { streams.round_trip },
                ..streams
            },
            idle: matches!(machine.limit(), SendLimit::Data | SendLimit::Credit | SendLimit::Answers),
        }
    }

    /// Counts up with each sign that datagrams reach the receiver.
    pub(super) fn answers(&self) -> u64 {
        self.datagrams.probes_acked.saturating_add(self.datagrams.delivered)
    }
}

/// Losses and rate of the last seconds.
#[derive(Debug, Default)]
pub(super) struct LossWindows {
    began: Option<(Timestamp, DatagramsSeen)>,
    /// Of the last windows, the newest last: whether it was heavy, and its rate.
    windows: Vec<(bool, Rate)>,
}

impl LossWindows {
    pub(super) fn observe(&mut self, now: Timestamp, seen: &DatagramsSeen) {
        let (began, before) = *self.began.get_or_insert((now, *seen));
        if now - began < WINDOW {
            return;
        }
        let packets = seen.packets.saturating_sub(before.packets);
        let lost = seen.lost.saturating_sub(before.lost);
        let heavy = packets >= PACKETS_MIN && lost as f64 > HEAVY * packets as f64;
        let delivered = seen.delivered.saturating_sub(before.delivered);
        if self.windows.len() == WINDOWS {
            self.windows.remove(0);
        }
        self.windows.push((heavy, Rate::of(delivered, now - began).unwrap_or_default()));
        self.began = Some((now, *seen));
    }

    /// Whether many packets were lost in most of the last windows.
    pub(super) fn are_heavy(&self) -> bool {
        self.windows.iter().filter(|(heavy, _)| *heavy).count() >= WINDOWS_HEAVY
    }

    /// The mean rate of the last windows.
    pub(super) fn rate(&self) -> Rate {
        let sum: u64 = self.windows.iter().map(|(_, rate)| rate.as_bytes()).sum();
        Rate::bytes_per_second(sum / (self.windows.len() as u64).max(1))
    }
}
