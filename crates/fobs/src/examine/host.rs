//! What this end finds out about itself.

use super::disk::DiskProbe;
use super::speed;
use crate::session::{memory_available, udp_options};
use fobs_channel::control::{features, program};
use fobs_model::budget::MemoryBudget;
use fobs_model::cancel::CancelToken;
use fobs_model::host_facts::{HostFacts, InterfaceFacts, MemoryFacts, SocketFacts};
use fobs_model::walls::Walls;
use fobs_sys::confine::{Errand, outside};
use fobs_sys::{Burst, Ecn, Interest, Interface, RecvBatch, UdpSocket, Waker, confine, wait};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};
use std::{fs, io};

/// Datagrams of the burst that shows segmentation, bytes of each: fewer than any kernel takes at once.
const BURST: usize = 16;
const DATAGRAM: usize = 1000;
/// How long the burst may take over the loopback interface.
const BURST_WAIT: Duration = Duration::from_millis(200);
/// Receives taken until the burst is there: one where it is merged.
const RECEIVES_MAX: usize = BURST;

/// The walls around a session of this process. The first call tries them, in threads that end.
pub fn walls_here() -> Walls {
    Walls { landlock: confine::landlock_here(), calls: confine::calls_here() }
}

/// Examines this end; `peer` is the address of the other one. Takes about a second, or twice as long as one
/// piece of the probe takes on a slow disk.
pub(crate) fn examine(peer: Option<IpAddr>, disk: &DiskProbe<'_>, cancel: &CancelToken) -> HostFacts {
    let ciphers = speed::ciphers();
    let hash_bps = speed::hash_bps();
    let disk = disk.run(cancel);
    HostFacts {
        program: program(),
        features: features(),
        kernel: line("/proc/sys/kernel/osrelease").unwrap_or_default(),
        cpus: u32::try_from(fobs_sys::cores()).unwrap_or(u32::MAX),
        sockets: sockets(),
        interface: interface(peer),
        ciphers,
        hash_bps,
        packets: super::packets::speed(),
        disk,
        memory: Some(memory(&MemoryBudget::default())),
        key: None,
        walls: Some(walls_here()),
        clock_s: clock_s(),
    }
}

/// How much memory one more copy of this session may hold.
pub(crate) fn memory(session: &MemoryBudget) -> MemoryFacts {
    let available = memory_available();
    MemoryFacts { available, copy: session.allot(available).bytes() }
}

/// This host's clock, seconds since 1970.
pub(crate) fn clock_s() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |time| time.as_secs_f64())
}

/// The interface towards a peer.
pub(crate) fn interface(peer: Option<IpAddr>) -> Option<InterfaceFacts> {
    let peer = peer?;
    let Interface { name, mtu, speed_mbit, segments, merges } =
        outside(Errand::Counters, move || Interface::towards(peer))?;
    Some(InterfaceFacts { name, mtu, speed_mbit, segments, merges })
}

fn line(path: &'static str) -> Option<String> {
    outside(Errand::Counters, move || fs::read_to_string(path)).ok().map(|text| text.trim().to_owned())
}

fn sockets() -> SocketFacts {
    let options = udp_options(None);
    let number = |path| line(path).and_then(|text| text.parse().ok());
    // A host without sockets shows zeroes; the session over the path fails with the reason.
    let socket = UdpSocket::bind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0), &options).ok();
    let (segments, merges) = burst().unwrap_or_default();
    SocketFacts {
        requested: options.recv_buffer as u64,
        receive: socket.as_ref().map_or(0, |socket| socket.recv_buffer() as u64),
        send: socket.as_ref().map_or(0, |socket| socket.send_buffer() as u64),
        rmem_max: number("/proc/sys/net/core/rmem_max"),
        wmem_max: number("/proc/sys/net/core/wmem_max"),
        segments,
        merges,
    }
}

/// Whether a burst over the loopback interface is cut by the kernel, and whether it arrives merged.
fn burst() -> io::Result<(bool, bool)> {
    let here = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let (from, to) = (UdpSocket::bind(here, &udp_options(None))?, UdpSocket::bind(here, &udp_options(None))?);
    let data = [0; BURST * DATAGRAM];
    let sent =
        from.send(&Burst { to: to.local_addr(), data: &data, segment_len: DATAGRAM, ecn: Ecn::NotEct });
    if sent.is_err() {
        return Ok((false, false));
    }
    let (waker, mut batch, mut merges) = (Waker::new()?, RecvBatch::default(), false);
    for _ in 0..RECEIVES_MAX {
        wait(&to, &waker, Some(BURST_WAIT), Interest::Readable)?;
        let mut arrived = 0;
        if to.recv(&mut batch)? > 0 {
            batch.for_each(|datagram| {
                arrived += 1;
                merges |= datagram.merged > 1;
            });
        }
        if arrived == 0 || merges {
            break;
        }
    }
    Ok((from.segments_max() > 1, merges))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_describes_itself() {
        let disk = DiskProbe::Refused("not here".to_owned());
        let facts = examine(Some(Ipv4Addr::LOCALHOST.into()), &disk, &CancelToken::new());
        assert!(facts.program.starts_with("fobs ") && !facts.kernel.is_empty(), "{facts:?}");
        assert!(facts.cpus >= 1 && facts.clock_s > 1.7e9, "{facts:?}");
        assert!(facts.sockets.receive > 0 && facts.sockets.requested == 8 << 20, "{facts:?}");
        assert!(facts.packets.is_some(), "{facts:?}");
        assert_eq!(facts.interface.as_ref().map(|interface| interface.name.as_str()), Some("lo"));
        let text = serde_json::to_string(&facts).unwrap();
        let back: HostFacts = serde_json::from_str(&text).unwrap();
        assert_eq!(back, facts, "it travels to the other end");
    }
}
