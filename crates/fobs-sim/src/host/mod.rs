//! Hosts: what they add to the network. A thread of a flow has a core of its own, shared with as many
//! competitors as the host has; sockets and disks belong to one flow each.

mod cpu;
mod disk;
mod socket;

pub(crate) use cpu::Cpu;
pub use cpu::CpuConfig;
pub(crate) use disk::{Disk, StoreError};
pub use disk::{DiskConfig, Sync};
pub(crate) use socket::Socket;

use crate::time::{MS, Nanos, SEC, US};
use fobs_proto::sender::Refusal;
use fobs_proto::session::PACE_GRAIN;

/// What a host is.
#[derive(Debug, Clone, PartialEq)]
pub struct HostConfig {
    /// Name, for tables and schedules.
    pub name: String,
    /// Its cores.
    pub cpu: CpuConfig,
    /// CPU time that a datagram costs, sent or received, with sealing and system calls.
    pub packet_cost: Nanos,
    /// How late a sleeping thread wakes: from, to.
    pub wake: (Nanos, Nanos),
    /// Shortest sleep between bursts; the engine's is [`PACE_GRAIN`].
    pub pace_grain: Nanos,
    /// Arrival stamps are rounded up to a multiple of this: interrupts are held back and merge what arrives.
    pub stamp_grain: Nanos,
    /// Socket receive buffer as the kernel counts it, bytes.
    pub receive_buffer: u64,
    /// Bytes that a sender may have waiting at its own interface before its socket pushes back.
    pub send_buffer: u64,
    /// What its own interface does when its queue is full.
    pub full_queue: FullQueue,
    /// The device, where it takes less than what is sent.
    pub device: Option<DeviceConfig>,
    /// Where received data goes, and where sent data comes from.
    pub disk: DiskConfig,
    /// Hashing, bytes per second; 0 for no time.
    pub hash_rate: u64,
    /// When the host crashes.
    pub crash: Option<Nanos>,
}

/// What a host's own interface does with a packet that its queue has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FullQueue {
    /// The socket waits.
    Waits,
    /// The packet is dropped and the sender is told (`ENOBUFS`), as behind a shaper with a queue shorter than
    /// the socket's buffer.
    Refuses,
}

/// A device that refuses large packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceConfig {
    /// The largest IP packet that it takes, bytes.
    pub mtu: u32,
    /// What it says of larger ones.
    pub says: Refusal,
}

impl HostConfig {
    /// A host that adds next to nothing: 50 ns a packet, so that no moment holds endless work.
    pub fn ideal(name: &str) -> HostConfig {
        HostConfig {
            name: name.to_owned(),
            cpu: CpuConfig::default(),
            packet_cost: 50,
            wake: (0, 0),
            pace_grain: 0,
            stamp_grain: 0,
            receive_buffer: 64 << 20,
            send_buffer: 8 << 20,
            full_queue: FullQueue::Waits,
            device: None,
            disk: DiskConfig::default(),
            hash_rate: 0,
            crash: None,
        }
    }

    /// A machine like the one of docs/simulator.md: 1.75 us a packet (6.7 Gbit/s of 1472-byte datagrams on
    /// one core, measured), wake-ups up to 0.1 ms late, 8 MiB of socket buffer, hashing at 1.9 GB/s, storing
    /// at 1 GB/s.
    pub fn ordinary(name: &str) -> HostConfig {
        HostConfig {
            packet_cost: 1_750,
            wake: (0, 100 * US),
            pace_grain: PACE_GRAIN.as_nanos() as Nanos,
            stamp_grain: 50 * US,
            receive_buffer: 8 << 20,
            disk: DiskConfig { rate: 1_000_000_000, ..DiskConfig::default() },
            hash_rate: 1_900_000_000,
            ..HostConfig::ideal(name)
        }
    }
}

/// Time that `bytes` take at `rate` bytes per second; none at rate 0.
pub(crate) fn work_time(bytes: u64, rate: u64) -> Nanos {
    (u128::from(bytes) * u128::from(SEC)).checked_div(u128::from(rate)).map_or(0, |ns| ns as Nanos)
}

/// How the scheduler of the machine of docs/simulator.md cuts time: 4 ms (HZ=250; competitors kept a thread
/// from its CPU for 3 to 4.2 ms each, measured).
pub(crate) const SLICE: Nanos = 4 * MS;
