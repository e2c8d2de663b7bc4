//! What a sender is made with.

use super::ScheduleKind;
use crate::congestion::Controller;
use crate::loss_cause::Judge;
use crate::{ChunkId, Rate};
use std::time::Duration;

/// Most packets of one burst. The kernel takes 64 as one GSO super-packet, of which 65,507 bytes leave 44 at
/// 1472 bytes; the measured rate over the burst flattens between 32 and 44.
pub const BURST_MAX: u32 = 44;
/// Most datagram bytes of one burst: what UDP over IPv4 carries, which the kernel takes as one GSO
/// super-packet.
pub const BURST_BYTES_MAX: u64 = 65_507;

/// Configuration of a sender.
#[derive(Debug)]
pub struct SenderConfig {
    /// Congestion control algorithm.
    pub controller: Box<dyn Controller>,
    /// What attributes losses to the network or to the receiver.
    pub judge: Judge,
    /// In what order packets leave.
    pub schedule: ScheduleKind,
    /// Upper bound of the sending rate, datagram bytes per second.
    pub rate_limit: Option<Rate>,
    /// Data bytes per packet, within [`PAYLOAD_MIN`](crate::object::PAYLOAD_MIN) and
    /// [`PAYLOAD_MAX`](crate::object::PAYLOAD_MAX); `None` probes the path.
    pub payload_size: Option<u16>,
    /// Bytes of IP and UDP headers: 28 (IPv4) or 48 (IPv6).
    pub ip_overhead: u16,
    /// Maximum packets per burst; `None` for [`BURST_MAX`].
    pub burst: Option<u32>,
    /// Credit before the first ack.
    pub chunk_limit: ChunkId,
    /// Chunks held at once.
    pub chunks_max: usize,
    /// Longest time that the receiver holds an ack back, unless it is asked for rarer ones.
    pub ack_delay_max: Duration,
}

#[cfg(test)]
impl SenderConfig {
    /// One for a path of 1200-byte datagrams, with this credit and without a limit.
    pub fn plain(controller: Box<dyn Controller>, credit: ChunkId) -> SenderConfig {
        SenderConfig {
            controller,
            judge: Judge::Off,
            schedule: ScheduleKind::LossDriven,
            rate_limit: None,
            payload_size: Some(1172),
            ip_overhead: 28,
            burst: None,
            chunk_limit: credit,
            chunks_max: credit as usize,
            ack_delay_max: Duration::from_millis(5),
        }
    }
}
