//! What a program's connections did between two looks, and how they stood at them.

use fobs_sys::{Connection, TcpInfo};
use std::collections::HashMap;
use std::time::Duration;

/// Most connections that are remembered.
const CONNECTIONS_MAX: usize = 1024;
/// Bytes that came and were not read, from which on the program is late to read them: more than a read takes,
/// and this part of what came since the last look, which it reads while it is looked at.
const UNREAD_MIN: u64 = 8 << 10;
const UNREAD_PART: u64 = 4;

/// Age of the far end's last data, in round trips, up to which it answers each message: one round trip, and
/// the time it takes to answer.
const ANSWER_ROUND_TRIPS: f64 = 1.5;
/// Part of the far end's window that is in flight where it is full: the kernel waits until a third of it is
/// free to send that at once (`tcp_tso_win_divisor`).
const WINDOW_FULL: f64 = 0.65;

/// What happened since the last sample, all connections together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Moved {
    /// Bytes that the far end acknowledged, and that came from it.
    pub(super) acked: u64,
    pub(super) received: u64,
    /// Segments sent, and of those sent again.
    pub(super) sent: u64,
    pub(super) retransmitted: u64,
    /// Of the connections that moved data: the mean time with something to send, and of that the time in
    /// which the far end's window and the send buffer were full.
    pub(super) busy: Duration,
    pub(super) window_limited: Duration,
    pub(super) buffer_limited: Duration,
    /// Share of the looks at which nothing waited unsent, and at which something waited unread, 0 to 1.
    pub(super) idle: f64,
    pub(super) unread: f64,
    /// Share of the looks at which the far end's last answer was no older than a round trip takes, and at
    /// which as much was in flight as its window lets pass, 0 to 1.
    pub(super) answered: f64,
    pub(super) window_full: f64,
    /// Round trip now, the smallest at a look, and the smallest ever; zero if unknown.
    pub(super) rtt: Duration,
    pub(super) rtt_low: Duration,
    pub(super) rtt_high: Duration,
    pub(super) rtt_min: Duration,
    /// Congestion windows and the far end's windows, bytes.
    pub(super) congestion_window: u64,
    pub(super) peer_window: u64,
    /// Smallest of the far end's windows as a part of the largest so far, 0 to 1.
    pub(super) window_left: f64,
    /// Connections that moved data.
    pub(super) open: u64,
}

#[derive(Debug, Default)]
struct Watched {
    /// At the last sample, and now.
    before: TcpInfo,
    now: TcpInfo,
    peer_window_max: u64,
    peer_window_min: u64,
    looks: u32,
    idle: u32,
    unread: u32,
    answered: u32,
    window_full: u32,
    rtt_low: Option<Duration>,
    rtt_high: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    connections: HashMap<u64, Watched>,
}

impl Tally {
    /// Takes what the kernel reports of the program's connections.
    pub(super) fn look<'a>(&mut self, connections: impl Iterator<Item = &'a Connection>) {
        for connection in connections {
            if self.connections.len() >= CONNECTIONS_MAX && !self.connections.contains_key(&connection.inode)
            {
                continue;
            }
            let it = self.connections.entry(connection.inode).or_default();
            let info = connection.info;
            let came = info.bytes_received.saturating_sub(it.now.bytes_received);
            it.now = info;
            it.looks += 1;
            it.idle += u32::from(info.unsent == 0);
            it.unread += u32::from(connection.unread >= UNREAD_MIN.max(came / UNREAD_PART));
            it.answered += u32::from(info.quiet <= info.rtt.mul_f64(ANSWER_ROUND_TRIPS));
            let full = info.in_flight as f64 >= WINDOW_FULL * info.peer_window as f64;
            let is_least = (1..info.congestion_window).contains(&info.peer_window);
            it.window_full += u32::from(full && is_least && info.unsent > 0);
            it.peer_window_max = it.peer_window_max.max(info.peer_window);
            it.peer_window_min = it.peer_window_min.min(info.peer_window);
            it.rtt_low = Some(it.rtt_low.map_or(info.rtt, |low| low.min(info.rtt)));
            it.rtt_high = it.rtt_high.max(info.rtt);
        }
    }

    /// What happened since the last call. Connections that are gone are forgotten.
    pub(super) fn take(&mut self) -> Moved {
        let mut moved = Moved::default();
        let (mut weights, mut window_left) = (0.0, 1.0f64);
        // Of connections that stand still: an answer not long ago, and what the program has not read.
        let (mut fresh, mut left) = (0.0f64, 0.0f64);
        let mut main = 0;
        for it in self.connections.values() {
            let (now, before) = (&it.now, &it.before);
            let acked = now.bytes_acked.saturating_sub(before.bytes_acked);
            let received = now.bytes_received.saturating_sub(before.bytes_received);
            moved.acked += acked;
            moved.received += received;
            moved.sent += now.sent.saturating_sub(before.sent);
            moved.retransmitted += now.retransmitted.saturating_sub(before.retransmitted);
            let busy = now.busy.saturating_sub(before.busy);
            let answered = f64::from(it.answered) / f64::from(it.looks.max(1));
            if acked.max(received) == 0 && busy.is_zero() {
                fresh = fresh.max(answered);
                left = left.max(f64::from(it.unread) / f64::from(it.looks.max(1)));
                continue;
            }
            moved.open += 1;
            moved.busy += busy;
            moved.window_limited += now.window_limited.saturating_sub(before.window_limited);
            moved.buffer_limited += now.buffer_limited.saturating_sub(before.buffer_limited);
            moved.congestion_window += now.congestion_window;
            moved.peer_window += now.peer_window;
            // A connection counts by what it moved, and a little if it tried.
            let weight = acked.max(received).max(1) as f64;
            weights += weight;
            moved.idle += weight * f64::from(it.idle) / f64::from(it.looks.max(1));
            moved.unread += weight * f64::from(it.unread) / f64::from(it.looks.max(1));
            moved.answered += weight * answered;
            moved.window_full += weight * f64::from(it.window_full) / f64::from(it.looks.max(1));
            if acked.max(received) >= main {
                main = acked.max(received);
                (moved.rtt, moved.rtt_min) = (now.rtt, now.rtt_min);
                (moved.rtt_low, moved.rtt_high) = (it.rtt_low.unwrap_or(now.rtt), it.rtt_high);
                let max = it.peer_window_max.max(1) as f64;
                window_left = it.peer_window_min as f64 / max;
            }
        }
        if weights > 0.0 {
            (moved.idle, moved.unread) = (moved.idle / weights, moved.unread / weights);
            (moved.answered, moved.window_full) = (moved.answered / weights, moved.window_full / weights);
        } else {
            (moved.idle, moved.answered, moved.unread) = (1.0, fresh, left);
        }
        let open = u32::try_from(moved.open).unwrap_or(u32::MAX).max(1);
        moved.busy /= open;
        moved.window_limited /= open;
        moved.buffer_limited /= open;
        moved.window_left = window_left;
        self.connections.retain(|_, it| it.looks > 0);
        for it in self.connections.values_mut() {
            *it = Watched {
                before: it.now,
                now: it.now,
                peer_window_max: it.peer_window_max,
                peer_window_min: it.now.peer_window,
                ..Watched::default()
            };
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr};

    /// Looks at one connection: `unread`, bytes that came so far, and since when the far end is quiet.
    fn look(tally: &mut Tally, unread: u64, bytes_received: u64, quiet_ms: u64) {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let rtt = Duration::from_millis(20);
        let info = TcpInfo {
            bytes_received,
            rtt,
            rtt_min: rtt,
            quiet: Duration::from_millis(quiet_ms),
            ..TcpInfo::default()
        };
        tally.look([Connection { inode: 1, local: any, peer: any, unread, info }].iter());
    }

    #[test]
    fn a_connection_that_stands_still_shows_what_is_unread() {
        let mut tally = Tally::default();
        (1..5).for_each(|turn| look(&mut tally, 2 << 20, turn << 20, 5));
        assert_eq!(tally.take().received, 4 << 20);
        (0..5).for_each(|_| look(&mut tally, 2 << 20, 4 << 20, 300));
        let moved = tally.take();
        assert_eq!((moved.received, moved.unread, moved.idle, moved.answered), (0, 1.0, 1.0, 0.0));
        (0..4).for_each(|turn| look(&mut tally, 0, 4 << 20, if turn < 2 { 25 } else { 35 }));
        let moved = tally.take();
        assert_eq!((moved.unread, moved.answered), (0.0, 0.5), "an answer is fresh for 1.5 round trips");
    }

    #[test]
    fn what_is_read_while_it_is_looked_at_is_not_left_unread() {
        let mut tally = Tally::default();
        for turn in 1..=10 {
            look(&mut tally, 60 << 10, turn * (250 << 10), 0);
        }
        assert_eq!(tally.take().unread, 0.0, "a quarter of what came since the last look");
        for turn in 1..=10 {
            look(&mut tally, 60 << 10, 10 * (250 << 10) + turn * (60 << 10), 0);
        }
        assert_eq!(tally.take().unread, 1.0);
    }
}
