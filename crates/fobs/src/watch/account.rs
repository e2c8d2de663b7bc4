//! Looks to samples: where the time of the sending end went.
//!
//! | share of the time | goes to |
//! |---|---|
//! | nothing waited unsent, and the program slept, or waited for its next turn | its own limit |
//! | nothing waited unsent, a thread of the program was busy | its CPU |
//! | nothing waited unsent, a thread was blocked in a disk | the source |
//! | nothing waited unsent, over ssh, a channel's window in each round trip | the channel's window |
//! | nothing waited unsent, and nearly nothing was moved so far | round trips: a handshake |
//! | nothing waited unsent, and little was moved in each round trip that the far end answered | round trips |
//! | nothing waited unsent otherwise | the far end, which takes no more |
//! | the far end's window was full, and had been larger | the far end, which does not read |
//! | the far end's window was full at its largest | that window |
//! | the send buffer was full | that buffer |
//! | the rest | the congestion window, and so the path |
//!
//! A program that receives shows its own disk and CPU; otherwise the path and the far end look alike from
//! here, and that is said.

use super::processes::Worked;
use super::tally::Moved;
use super::{COPIED_MIN, micros};
use fobs_model::sample::{ReceiverSample, SenderSample};
use fobs_model::units::{STREAMS_QUEUED, Wait};
use std::time::Duration;

/// Share of the time that a thread runs, or waits for a CPU, from which on it is busy.
const BUSY: f64 = 0.75;
/// Share of the looks at which a thread was blocked in a disk, from which on that holds the program up.
const BLOCKED: f64 = 0.15;
/// A window that went below this part of its largest is one that the far end does not empty. Measured: 0.52
/// with a program that reads 3 MB/s.
const WINDOW_CLOSES: f64 = 0.6;
/// Share of the looks with bytes that came and were not read, from which on the program reads too slowly.
const UNREAD: f64 = 0.3;
/// Window of a session's channel in OpenSSH (channels.h), and the part of it that a full one carries in each
/// round trip.
const CHANNEL_WINDOW: f64 = 2.0 * 1024.0 * 1024.0;
const CHANNEL_FULL: f64 = 0.5;
/// Bytes that a connection sends in its first round trip (RFC 6928). A program that sends no more in any, and
/// each time after an answer, waits for answers: one for each of many small files.
const FIRST_FLIGHT: f64 = 10.0 * SEGMENT as f64;
/// Share of the looks with a fresh answer from which on the far end answers each message.
const ANSWERED: f64 = 0.5;
/// A program that is stopped for this share of the looks stood still.
const STOPPED: f64 = 0.5;
/// Bytes of a full segment, where only counts of segments are known.
const SEGMENT: u64 = 1448;

/// What carries the program's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    Tcp,
    Ssh,
}

/// The samples so far.
#[derive(Debug, Default)]
pub(super) struct Account {
    sender: SenderSample,
    receiver: ReceiverSample,
    moved: u64,
    acked: u64,
    received: u64,
    /// Time from the first byte to the last, microseconds.
    first_us: Option<u64>,
    last_us: u64,
}

impl Account {
    pub(super) fn sender(&self) -> &SenderSample {
        &self.sender
    }

    pub(super) fn receiver(&self) -> &ReceiverSample {
        &self.receiver
    }

    /// Bytes in the direction in which more went.
    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    pub(super) fn seconds(&self) -> f64 {
        self.last_us.saturating_sub(self.first_us.unwrap_or(0)) as f64 / 1e6
    }

    /// Adds a stretch of time.
    pub(super) fn add(&mut self, took: Duration, worked: &Worked, moved: &Moved, carrier: Carrier) {
        let all_us = micros(took);
        let bytes = moved.acked.max(moved.received);
        if bytes > 0 {
            self.first_us.get_or_insert(self.sender.time_us);
            self.last_us = self.sender.time_us + all_us;
        }
        self.moved += bytes;
        self.acked += moved.acked;
        self.received += moved.received;
        self.count(all_us, worked, moved, bytes);
        if worked.stopped >= STOPPED {
            self.sender.stood_us += (all_us as f64 * worked.stopped) as u64;
        } else if self.received > self.acked && self.moved >= COPIED_MIN {
            self.receiving(all_us, worked, moved);
        } else {
            self.sending(all_us, worked, moved, carrier);
        }
    }

    fn count(&mut self, all_us: u64, worked: &Worked, moved: &Moved, bytes: u64) {
        let sender = &mut self.sender;
        sender.time_us += all_us;
        sender.bytes_acked += bytes;
        let packets = moved.sent.max(bytes.div_ceil(SEGMENT));
        sender.packets_sent += packets;
        sender.bytes_sent += packets * SEGMENT;
        sender.packets_lost += moved.retransmitted;
        sender.cpu.run_us += worked.run_us;
        sender.cpu.delay_us += worked.delay_us;
        if !moved.rtt.is_zero() {
            sender.rtt_us = micros(moved.rtt);
            sender.rtt_low_us = micros(moved.rtt_low);
            sender.rtt_high_us = micros(moved.rtt_high);
        }
        let least = micros(moved.rtt_min);
        if least > 0 && (sender.rtt_min_us == 0 || least < sender.rtt_min_us) {
            sender.rtt_min_us = least;
        }
        // The kernel's round trip is smoothed, and an ack may be held back: only a longer one shows a queue.
        if (sender.rtt_low_us as f64) < STREAMS_QUEUED * sender.rtt_min_us as f64 {
            sender.rtt_low_us = sender.rtt_min_us;
        }
        sender.window_bytes = moved.congestion_window;
        sender.streams.open = moved.open;
        sender.streams.bytes_acked += moved.acked;
        sender.streams.segments_retransmitted += moved.retransmitted;
        sender.streams.congestion_window_bytes = moved.congestion_window;
        sender.streams.peer_window_bytes = moved.peer_window;
        (sender.streams.rtt_us, sender.streams.rtt_min_us) = (sender.rtt_us, sender.rtt_min_us);
        self.receiver.time_us += all_us;
        self.receiver.wait_us += all_us;
    }

    fn sending(&mut self, all_us: u64, worked: &Worked, moved: &Moved, carrier: Carrier) {
        let sender = &mut self.sender;
        let part = |us: u64, share: f64| (us as f64 * share.clamp(0.0, 1.0)) as u64;
        // The kernel counts no time in which a window that is nearly full lets a segment pass now and then.
        let window_us = micros(moved.window_limited).max(part(all_us, moved.window_full)).min(all_us);
        let buffer_us = micros(moved.buffer_limited).min(all_us - window_us);
        let rest_us = all_us - window_us - buffer_us;
        let idle_us = part(rest_us, moved.idle);
        let path_us = rest_us - idle_us;
        let turns = if moved.acked > 0 { worked.turns } else { 0.0 };
        let slept_us = part(all_us, worked.slept.max(turns)).min(idle_us);
        let idle_us = idle_us - slept_us;
        sender.waits.add_us(Wait::Cap, slept_us);
        let busy = (worked.run_us + worked.delay_us) as f64 >= BUSY * all_us as f64;
        let bytes_a_round = moved.acked as f64 * micros(moved.rtt) as f64 / all_us.max(1) as f64;
        let asks = moved.answered >= ANSWERED && bytes_a_round < FIRST_FLIGHT;
        let channel_full = carrier == Carrier::Ssh && bytes_a_round >= CHANNEL_FULL * CHANNEL_WINDOW;
        if busy {
            // No wait: the time is that of computing, or of waiting for a CPU.
        } else if worked.blocked >= BLOCKED {
            sender.waits.add_us(Wait::Source, idle_us);
            sender.reader.active_us += idle_us;
        } else if channel_full {
            sender.waits.add_us(Wait::Streams, idle_us);
            sender.bytes_frames_delivered += moved.acked;
            sender.bytes_acked -= moved.acked;
        } else if self.moved >= COPIED_MIN && !asks {
            // Nothing to send, and no answer that allows more: the far end does something else.
            sender.waits.add_us(Wait::Storage, idle_us);
        } else {
            sender.waits.add_us(Wait::Answers, idle_us);
        }
        if moved.window_left < WINDOW_CLOSES {
            sender.waits.add_us(Wait::Storage, window_us);
        } else {
            sender.waits.add_us(Wait::Streams, window_us);
            sender.streams.peer_window_us += window_us;
        }
        sender.waits.add_us(Wait::Streams, buffer_us);
        sender.streams.send_buffer_us += buffer_us;
        sender.streams.busy_us += window_us + buffer_us;
        sender.waits.add_us(Wait::Window, path_us);
    }

    fn receiving(&mut self, all_us: u64, worked: &Worked, moved: &Moved) {
        let writer = &mut self.receiver.writer;
        let busy = (worked.run_us + worked.delay_us) as f64 >= BUSY * all_us as f64;
        let blocked = worked.blocked >= BLOCKED;
        // What waits for data sleeps as well: not where there is some to read.
        let turns = if moved.unread >= UNREAD { worked.turns } else { 0.0 };
        let slept_us = (all_us as f64 * worked.slept.max(turns).clamp(0.0, 1.0)) as u64;
        self.sender.waits.add_us(Wait::Cap, slept_us);
        let all_us = all_us - slept_us;
        if busy || blocked || moved.unread >= UNREAD {
            self.sender.waits.add_us(Wait::Storage, all_us);
            writer.active_us += all_us;
            if busy {
                writer.cpu.run_us += worked.run_us;
                writer.cpu.delay_us += worked.delay_us;
                writer.user_us += worked.run_us;
            }
        } else {
            self.sender.unseen_us += all_us;
        }
    }
}
