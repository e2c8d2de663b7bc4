//! Packets that this host drops before they reach a socket: at a network interface, and between it and the
//! sockets.
//!
//! The counters are the host's, not a socket's: they count packets of all flows. Reading two small files of
//! `/proc` takes some microseconds. files of `/proc`, some microseconds a look.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Maximum size read of a file, bytes; a file has one line for each interface or CPU.
const FILE_MAX: u64 = 256 << 10;
/// Maximum number of addresses of this host that are searched.
const ADDRESSES_MAX: usize = 4096;
/// Columns of `/proc/net/dev` after the interface's name (net/core/net-procfs.c). DROPPED: packets that no
/// protocol handled or that had no buffer (`rx_dropped`, `rx_missed_errors`). FIFO: packets that did not fit
/// the ring, which some drivers count there and some in both.
const DEV_DROPPED: usize = 3;
const DEV_FIFO: usize = 4;
/// Column of `/proc/net/softnet_stat`, hexadecimal: packets that did not fit a CPU's backlog.
const SOFTNET_DROPPED: usize = 1;

/// Packets of all flows dropped since the meter was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostDrops {
    /// Dropped by the interface: the card had no room, or its driver no buffer. May include packets dropped
    /// by the backlog.
    pub interface: u64,
    /// Dropped by the backlogs of all CPUs, packets of all interfaces.
    pub backlog: u64,
}

/// Counts drops from its creation on.
#[derive(Debug, Clone)]
pub struct HostDropMeter {
    interface: String,
    before: HostDrops,
}

impl HostDropMeter {
    /// A meter for the interface that this host's route to `peer` uses. `None` if the route or the counters
    /// cannot be read.
    pub fn towards(peer: SocketAddr) -> Option<HostDropMeter> {
        let interface = interface_of(local_address(peer).ok()?)?;
        let before = totals(&interface)?;
        Some(HostDropMeter { interface, before })
    }

    /// Packets dropped so far; `None` if the counters cannot be read any more.
    pub fn read(&self) -> Option<HostDrops> {
        let now = totals(&self.interface)?;
        // A restarted driver starts its counter at 0.
        Some(HostDrops {
            interface: now.interface.saturating_sub(self.before.interface),
            backlog: now.backlog.saturating_sub(self.before.backlog),
        })
    }
}

/// The local address of packets to `peer`. Nothing is sent.
pub(crate) fn local_address(peer: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr =
        if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(peer)?;
    Ok(socket.local_addr()?.ip().to_canonical())
}

/// Name of the interface that has this address.
pub(crate) fn interface_of(address: IpAddr) -> Option<String> {
    local_addresses().into_iter().find(|(_, ip)| *ip == address).map(|(name, _)| name)
}

/// The addresses of this host, each with the name of its interface, in the kernel's order; none where it does
/// not tell.
pub fn local_addresses() -> Vec<(String, IpAddr)> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs stores a list in `first`; it is freed below.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = first;
    for _ in 0..ADDRESSES_MAX {
        // SAFETY: `next` is null or points to an entry of the list, which lives until it is freed below.
        let Some(entry) = (unsafe { next.as_ref() }) else { break };
        next = entry.ifa_next;
        // SAFETY: `ifa_addr` is null or points to an address of the family that it names (getifaddrs(3)).
        if let Some(ip) = unsafe { address_at(entry.ifa_addr) } {
            // SAFETY: the name of an entry is a string with a terminating zero.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found.extend(name.to_str().ok().map(|name| (name.to_owned(), ip)));
        }
    }
    // SAFETY: the list is the one that getifaddrs made, and nothing uses it any more.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// The address in a kernel socket address.
///
/// # Safety
/// `at` is null, or points to a socket address of the family that its first member names.
unsafe fn address_at(at: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: as the caller promises; every socket address begins with its family.
    match i32::from(unsafe { at.as_ref() }?.sa_family) {
        libc::AF_INET => {
            // SAFETY: as the caller promises, of this family; the bytes may lie anywhere.
            let v4 = unsafe { at.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as the caller promises, of this family; the bytes may lie anywhere.
            let v6 = unsafe { at.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Packets dropped since the host started.
fn totals(interface: &str) -> Option<HostDrops> {
    let dev = read("/proc/thread-self/net/dev")?;
    let softnet = read("/proc/net/softnet_stat").unwrap_or_default();
    Some(HostDrops { interface: dropped_by(&dev, interface)?, backlog: backlog(&softnet) })
}

fn read(path: &str) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(FILE_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

fn dropped_by(dev: &str, interface: &str) -> Option<u64> {
    let of = |line: &str| line.trim_start().strip_prefix(interface)?.strip_prefix(':').map(str::to_owned);
    let line = dev.lines().find_map(of)?;
    let columns: Vec<u64> = line.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    Some(*columns.get(DEV_DROPPED)?.max(columns.get(DEV_FIFO)?))
}

fn backlog(softnet: &str) -> u64 {
    let column =
        |line: &str| u64::from_str_radix(line.split_ascii_whitespace().nth(SOFTNET_DROPPED)?, 16).ok();
    softnet.lines().filter_map(column).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let dev = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame\n\
            \x20   lo: 7 8 0 9 0 0 0 0 1 2\n  eth0:126 4715 1 30 31 0 0 0 28 1\neth01: 1 2 3 4 5 6\n";
        assert_eq!(
            ["lo", "eth0", "eth01", "eth"].map(|name| dropped_by(dev, name)),
            [Some(9), Some(31), Some(5), None]
        );
        assert_eq!(dropped_by("eth0: 1 2 x 3 4\n", "eth0"), None);
        let softnet = "0079db46 0000000a 00000008 00000000\n00987b1a 00000010 00000000\n\nzz\n";
        assert_eq!(backlog(softnet), 26);
    }

    #[test]
    fn the_loopback_has_its_address() {
        let found = local_addresses();
        assert!(found.contains(&("lo".to_owned(), Ipv4Addr::LOCALHOST.into())), "{found:?}");
    }

    #[test]
    fn the_interface_to_this_host_itself_is_found() {
        let meter = HostDropMeter::towards("127.0.0.1:9".parse().expect("an address"))
            .expect("loopback has counters");
        assert_eq!(meter.interface, "lo");
        assert_eq!(meter.read().map(|drops| drops.interface), Some(0), "loopback drops nothing by itself");
        assert!(
            HostDropMeter::towards("[::ffff:127.0.0.1]:9".parse().expect("an address"))
                .is_none_or(|m| m.interface == "lo")
        );
    }
}
