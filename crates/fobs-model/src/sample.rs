//! What each end measures of itself while a transfer runs: counters that only grow, so the difference of any
//! two samples is what happened between them, and samples may be dropped.
//!
//! Times are microseconds. A peer's figures are only shown; whatever they are, all that is computed stays
//! finite.

use fobs_proto::session::{Wait, WaitTimes};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// What the sending end measured, since its session began.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SenderSample {
    /// Its clock.
    pub time_us: u64,
    /// How long its sending thread waited, by what it waited for.
    pub waits: SenderWaits,
    /// The scheduler's account of the sending thread.
    pub cpu: Cpu,
    /// The reading thread.
    pub reader: Work,
    /// Data packets sent.
    pub packets_sent: u64,
    /// Data packets declared lost, less those that arrived late.
    pub packets_lost: u64,
    /// Packets that arrived with a congestion mark (ECN CE).
    pub packets_marked: u64,
    /// Packets that this host refused to send.
    pub packets_refused: u64,
    /// Datagrams that the receiver's kernel dropped at the socket, as last reported.
    pub socket_drops: u64,
    /// Datagram bytes of data packets sent.
    pub bytes_sent: u64,
    /// Datagram bytes acknowledged.
    pub bytes_acked: u64,
    /// Newest round-trip time, 0 if unknown.
    pub rtt_us: u64,
    /// Smallest so far, 0 if unknown.
    pub rtt_min_us: u64,
    /// Smallest and largest of about the last 0.1 s, 0 if unknown.
    pub rtt_low_us: u64,
    /// Likewise.
    pub rtt_high_us: u64,
    /// Delay on the way there beyond the smallest so far: smallest and largest of about the last 0.1 s.
    pub forward_low_us: u64,
    /// Likewise.
    pub forward_high_us: u64,
    /// Acks that came in datagrams, or by streams.
    pub acks: u64,
    /// Data packets that arrived after they had been declared lost.
    pub packets_late: u64,
    /// Time that the process or its host stood still: its thread neither ran nor was ready to run, and had
    /// not asked to wait.
    pub stood_us: u64,
    /// Time that nothing at this end accounts for: of programs of another make that receive.
    #[serde(skip_serializing_if = "is_zero")]
    pub unseen_us: u64,
    /// Pacing rate at present, bits per second; 0 if nothing paces.
    pub pacing_bps: u64,
    /// The cap, bits per second; 0 for none.
    pub cap_bps: u64,
    /// The far end's cap, bits per second, where that is the one in force; 0 for none.
    pub cap_far_bps: u64,
    /// The controller's window, datagram bytes.
    pub window_bytes: u64,
    /// The controller's state, a word of its own.
    pub state: String,
    /// Bytes of the records of frames that left on streams.
    pub bytes_framed: u64,
    /// Of those, what the receiver has taken.
    pub bytes_frames_delivered: u64,
    /// The streams; left out where there was none.
    #[serde(skip_serializing_if = "StreamsSample::is_empty")]
    pub streams: StreamsSample,
}

/// Exclusive times of the sending thread by what it waits for. The rest of its time it works: it seals and
/// sends.
///
/// Times are whole microseconds: in memory as in JSON, so that a trace repeats what was measured. The JSON is
/// an object with a member for each [`Wait`]: `cap_us`, `drain_us` and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderWaits(WaitTimes);

impl SenderWaits {
    /// Time spent on one wait, microseconds.
    pub fn us(&self, wait: Wait) -> u64 {
        u64::try_from(self.0[wait].as_micros()).unwrap_or(u64::MAX)
    }

    /// Adds to one wait, microseconds.
    pub fn add_us(&mut self, wait: Wait, us: u64) {
        self.0[wait] = self.0[wait].saturating_add(Duration::from_micros(us));
    }

    fn since(&self, earlier: &SenderWaits) -> SenderWaits {
        let mut since = WaitTimes::default();
        for &wait in Wait::ALL {
            since[wait] = self.0[wait].saturating_sub(earlier.0[wait]);
        }
        SenderWaits(since)
    }
}

impl From<WaitTimes> for SenderWaits {
    fn from(times: WaitTimes) -> SenderWaits {
        let mut waits = SenderWaits::default();
        for &wait in Wait::ALL {
            let us = u64::try_from(times[wait].as_micros()).unwrap_or(u64::MAX);
            waits.add_us(wait, us);
        }
        waits
    }
}

/// The member of the JSON object that holds a wait.
fn member(wait: Wait) -> String {
    format!("{}_us", wait.name())
}

impl Serialize for SenderWaits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Wait::ALL.iter().map(|&wait| (member(wait), self.us(wait))))
    }
}

impl<'de> Deserialize<'de> for SenderWaits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SenderWaits, D::Error> {
        deserializer.deserialize_map(WaitsVisitor)
    }
}

struct WaitsVisitor;

impl<'de> Visitor<'de> for WaitsVisitor {
    type Value = SenderWaits;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of waiting times in microseconds")
    }

    /// Members of an unknown name are those of a newer program, and are skipped.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SenderWaits, A::Error> {
        let mut waits = SenderWaits::default();
        while let Some(name) = map.next_key::<String>()? {
            match Wait::ALL.iter().copied().find(|&wait| member(wait) == name) {
                Some(wait) => waits.0[wait] = Duration::from_micros(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(waits)
    }
}

/// What the receiving end measured, since its session began.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReceiverSample {
    /// Its clock.
    pub time_us: u64,
    /// How long the receiving thread waited for packets.
    pub wait_us: u64,
    /// The scheduler's account of the receiving thread.
    pub cpu: Cpu,
    /// The writing thread.
    pub writer: Work,
    /// Packets authenticated.
    pub packets: u64,
    /// Their datagram bytes.
    pub bytes: u64,
    /// Datagrams that the kernel dropped at the socket.
    pub socket_drops: u64,
    /// Receive buffer granted by the kernel, its overhead included, bytes.
    pub buffer_bytes: u64,
    /// Chunks complete and not stored at present.
    pub backlog: u64,
    /// Packets of any program that the network interface towards the sender dropped, as last read.
    pub interface_drops: u64,
    /// Packets of any program that the backlogs of the host's CPUs dropped, as last read; the interface may
    /// count the same packets.
    pub backlog_drops: u64,
    /// Acks sent in datagrams.
    pub acks: u64,
    /// Packets that came after later ones.
    pub reordered: u64,
    /// Longest time that one came after a later one, microseconds.
    pub behind_max_us: u64,
    /// As [`SenderSample::stood_us`].
    pub stood_us: u64,
}

/// What the kernel reports of the streams that carry data (`TCP_INFO`), all together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamsSample {
    /// Streams that are open at present.
    pub open: u64,
    /// Bytes that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Segments sent again.
    pub segments_retransmitted: u64,
    /// Time with something to send, summed over the streams.
    pub busy_us: u64,
    /// Of that, time in which the receiver's window was full.
    pub peer_window_us: u64,
    /// Of that, time in which the send buffer was full.
    pub send_buffer_us: u64,
    /// Congestion windows at present, together, bytes.
    pub congestion_window_bytes: u64,
    /// The receiver's windows at present, together, bytes.
    pub peer_window_bytes: u64,
    /// Delivery rates that the kernel measured last, together, bits per second.
    pub delivery_bps: u64,
    /// Bytes that wait in the host, unsent.
    pub unsent_bytes: u64,
    /// Longest of the streams' smoothed round-trip times, 0 if unknown.
    pub rtt_us: u64,
    /// Smallest round-trip time of the open streams, 0 if unknown.
    pub rtt_min_us: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(us: &u64) -> bool {
    *us == 0
}

/// The scheduler's account of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// On a CPU.
    pub run_us: u64,
    /// Ready to run, without a CPU.
    pub delay_us: u64,
}

/// A thread that works on chunks: it reads and hashes, or verifies and stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// Time with work to do.
    pub active_us: u64,
    /// The scheduler's account of it.
    pub cpu: Cpu,
    /// CPU time in its own code: hashing, compression.
    pub user_us: u64,
    /// CPU time in the kernel for it: copying to and from files.
    pub system_us: u64,
    /// Time spent waiting until the device had what was written.
    pub syncing_us: u64,
    /// Time spent waiting for the rate that a daemon gives its clients.
    pub throttled_us: u64,
}

impl SenderSample {
    /// Whether it is of a later session than `earlier`: each counts from its own beginning.
    pub fn is_anew(&self, earlier: &SenderSample) -> bool {
        self.time_us < earlier.time_us || self.packets_sent < earlier.packets_sent
    }

    /// What this session and earlier ones did. Members that are not counters keep their newest value.
    pub fn after(&self, earlier: &SenderSample) -> SenderSample {
        let a = u64::saturating_add;
        let mut waits = self.waits;
        Wait::ALL.iter().copied().for_each(|wait| waits.add_us(wait, earlier.waits.us(wait)));
        SenderSample {
            time_us: a(self.time_us, earlier.time_us),
            waits,
            cpu: self.cpu.after(&earlier.cpu),
            reader: self.reader.after(&earlier.reader),
            packets_sent: a(self.packets_sent, earlier.packets_sent),
            packets_lost: a(self.packets_lost, earlier.packets_lost),
            packets_marked: a(self.packets_marked, earlier.packets_marked),
            packets_refused: a(self.packets_refused, earlier.packets_refused),
            socket_drops: a(self.socket_drops, earlier.socket_drops),
            bytes_sent: a(self.bytes_sent, earlier.bytes_sent),
            bytes_acked: a(self.bytes_acked, earlier.bytes_acked),
            acks: a(self.acks, earlier.acks),
            packets_late: a(self.packets_late, earlier.packets_late),
            stood_us: a(self.stood_us, earlier.stood_us),
            unseen_us: a(self.unseen_us, earlier.unseen_us),
            bytes_framed: a(self.bytes_framed, earlier.bytes_framed),
            bytes_frames_delivered: a(self.bytes_frames_delivered, earlier.bytes_frames_delivered),
            ..self.clone()
        }
    }

    /// A part of what happened between two samples: this share of the time, and this of what data moved.
    pub fn part(&self, of_time: f64, of_data: f64) -> SenderSample {
        let time = |us: u64| (us as f64 * of_time) as u64;
        let data = |count: u64| (count as f64 * of_data) as u64;
        let mut waits = SenderWaits::default();
        Wait::ALL.iter().copied().for_each(|wait| waits.add_us(wait, time(self.waits.us(wait))));
        let cpu = |cpu: Cpu| Cpu { run_us: time(cpu.run_us), delay_us: time(cpu.delay_us) };
        SenderSample {
            time_us: time(self.time_us),
            waits,
            cpu: cpu(self.cpu),
            reader: Work {
                active_us: time(self.reader.active_us),
                cpu: cpu(self.reader.cpu),
                user_us: time(self.reader.user_us),
                system_us: time(self.reader.system_us),
                syncing_us: time(self.reader.syncing_us),
                throttled_us: time(self.reader.throttled_us),
            },
            packets_sent: data(self.packets_sent),
            packets_lost: data(self.packets_lost),
            packets_marked: data(self.packets_marked),
            packets_refused: data(self.packets_refused),
            socket_drops: data(self.socket_drops),
            bytes_sent: data(self.bytes_sent),
            bytes_acked: data(self.bytes_acked),
            acks: data(self.acks),
            packets_late: data(self.packets_late),
            stood_us: time(self.stood_us),
            unseen_us: time(self.unseen_us),
            bytes_framed: data(self.bytes_framed),
            bytes_frames_delivered: data(self.bytes_frames_delivered),
            ..self.clone()
        }
    }

    /// What happened since an earlier sample. Members that are not counters keep their newest value.
    pub fn since(&self, earlier: &SenderSample) -> SenderSample {
        let d = u64::saturating_sub;
        SenderSample {
            time_us: d(self.time_us, earlier.time_us),
            waits: self.waits.since(&earlier.waits),
            cpu: self.cpu.since(&earlier.cpu),
            reader: self.reader.since(&earlier.reader),
            packets_sent: d(self.packets_sent, earlier.packets_sent),
            packets_lost: d(self.packets_lost, earlier.packets_lost),
            packets_marked: d(self.packets_marked, earlier.packets_marked),
            packets_refused: d(self.packets_refused, earlier.packets_refused),
            socket_drops: d(self.socket_drops, earlier.socket_drops),
            bytes_sent: d(self.bytes_sent, earlier.bytes_sent),
            bytes_acked: d(self.bytes_acked, earlier.bytes_acked),
            acks: d(self.acks, earlier.acks),
            packets_late: d(self.packets_late, earlier.packets_late),
            stood_us: d(self.stood_us, earlier.stood_us),
            unseen_us: d(self.unseen_us, earlier.unseen_us),
            bytes_framed: d(self.bytes_framed, earlier.bytes_framed),
            bytes_frames_delivered: d(self.bytes_frames_delivered, earlier.bytes_frames_delivered),
            streams: self.streams.since(&earlier.streams),
            ..self.clone()
        }
    }
}

impl SenderSample {
    /// Bytes that reached the receiver, in datagrams and in frames.
    pub fn bytes_delivered(&self) -> u64 {
        self.bytes_acked.saturating_add(self.bytes_frames_delivered)
    }
}

impl StreamsSample {
    fn is_empty(&self) -> bool {
        *self == StreamsSample::default()
    }

    /// As [`SenderSample::since`].
    pub fn since(&self, earlier: &StreamsSample) -> StreamsSample {
        let d = u64::saturating_sub;
        StreamsSample {
            bytes_acked: d(self.bytes_acked, earlier.bytes_acked),
            segments_retransmitted: d(self.segments_retransmitted, earlier.segments_retransmitted),
            busy_us: d(self.busy_us, earlier.busy_us),
            peer_window_us: d(self.peer_window_us, earlier.peer_window_us),
            send_buffer_us: d(self.send_buffer_us, earlier.send_buffer_us),
            ..self.clone()
        }
    }
}

impl ReceiverSample {
    /// As [`SenderSample::is_anew`].
    pub fn is_anew(&self, earlier: &ReceiverSample) -> bool {
        self.time_us < earlier.time_us || self.packets < earlier.packets
    }

    /// As [`SenderSample::after`]. What the host drops is counted from its start, not from the session's.
    pub fn after(&self, earlier: &ReceiverSample) -> ReceiverSample {
        let a = u64::saturating_add;
        ReceiverSample {
            time_us: a(self.time_us, earlier.time_us),
            wait_us: a(self.wait_us, earlier.wait_us),
            cpu: self.cpu.after(&earlier.cpu),
            writer: self.writer.after(&earlier.writer),
            packets: a(self.packets, earlier.packets),
            bytes: a(self.bytes, earlier.bytes),
            socket_drops: a(self.socket_drops, earlier.socket_drops),
            acks: a(self.acks, earlier.acks),
            reordered: a(self.reordered, earlier.reordered),
            stood_us: a(self.stood_us, earlier.stood_us),
            ..self.clone()
        }
    }

    /// As [`SenderSample::since`].
    pub fn since(&self, earlier: &ReceiverSample) -> ReceiverSample {
        let d = u64::saturating_sub;
        ReceiverSample {
            time_us: d(self.time_us, earlier.time_us),
            wait_us: d(self.wait_us, earlier.wait_us),
            cpu: self.cpu.since(&earlier.cpu),
            writer: self.writer.since(&earlier.writer),
            packets: d(self.packets, earlier.packets),
            bytes: d(self.bytes, earlier.bytes),
            socket_drops: d(self.socket_drops, earlier.socket_drops),
            buffer_bytes: self.buffer_bytes,
            backlog: self.backlog,
            interface_drops: d(self.interface_drops, earlier.interface_drops),
            backlog_drops: d(self.backlog_drops, earlier.backlog_drops),
            acks: d(self.acks, earlier.acks),
            reordered: d(self.reordered, earlier.reordered),
            behind_max_us: self.behind_max_us,
            stood_us: d(self.stood_us, earlier.stood_us),
        }
    }
}

impl ReceiverSample {
    /// Packets of any program that the host dropped before a socket had them.
    pub fn host_drops(&self) -> u64 {
        self.interface_drops.max(self.backlog_drops)
    }
}

impl Cpu {
    fn after(&self, earlier: &Cpu) -> Cpu {
        Cpu {
            run_us: self.run_us.saturating_add(earlier.run_us),
            delay_us: self.delay_us.saturating_add(earlier.delay_us),
        }
    }

    fn since(&self, earlier: &Cpu) -> Cpu {
        Cpu {
            run_us: self.run_us.saturating_sub(earlier.run_us),
            delay_us: self.delay_us.saturating_sub(earlier.delay_us),
        }
    }
}

impl Work {
    fn after(&self, earlier: &Work) -> Work {
        Work {
            active_us: self.active_us.saturating_add(earlier.active_us),
            cpu: self.cpu.after(&earlier.cpu),
            user_us: self.user_us.saturating_add(earlier.user_us),
            system_us: self.system_us.saturating_add(earlier.system_us),
            syncing_us: self.syncing_us.saturating_add(earlier.syncing_us),
            throttled_us: self.throttled_us.saturating_add(earlier.throttled_us),
        }
    }

    fn since(&self, earlier: &Work) -> Work {
        Work {
            active_us: self.active_us.saturating_sub(earlier.active_us),
            cpu: self.cpu.since(&earlier.cpu),
            user_us: self.user_us.saturating_sub(earlier.user_us),
            system_us: self.system_us.saturating_sub(earlier.system_us),
            syncing_us: self.syncing_us.saturating_sub(earlier.syncing_us),
            throttled_us: self.throttled_us.saturating_sub(earlier.throttled_us),
        }
    }

    /// Time with work to do in which the thread neither had nor wanted a CPU: it waited for the disk or the
    /// stream.
    pub fn blocked_us(&self) -> u64 {
        self.active_us.saturating_sub(self.cpu.run_us).saturating_sub(self.cpu.delay_us)
    }
}
