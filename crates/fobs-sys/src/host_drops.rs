//! What this host drops before any socket has it: at a network interface, and on the way from there to the
//! sockets.
//!
//! The counters are the host's, not a socket's: they say that packets were dropped, not whose. Two small
//! files of `/proc`, some microseconds a look.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// What is read of a file, bytes: a line for each interface, or each CPU.
const FILE_MAX: u64 = 256 << 10;
/// Addresses of this host that are looked through.
const ADDRESSES_MAX: usize = 4096;
/// Columns of `/proc/net/dev` after the interface's name (net/core/net-procfs.c): packets that nobody wanted
/// or that had no buffer (`rx_dropped` and `rx_missed_errors`), and those that the ring had no room for,
/// which some drivers count there and some in both.
const DEV_DROPPED: usize = 3;
const DEV_FIFO: usize = 4;
/// Column of `/proc/net/softnet_stat`, hexadecimal: packets that a CPU's backlog had no room for.
const SOFTNET_DROPPED: usize = 1;

/// Packets dropped since the counting began, of any flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostDrops {
    /// By the interface: its card had no room, or its driver no buffer. What the backlog dropped of it may be
    /// in it.
    pub interface: u64,
    /// By the backlogs of the CPUs, of all interfaces.
    pub backlog: u64,
}

/// Counts from its making on.
#[derive(Debug)]
pub struct HostDropMeter {
    interface: String,
    before: HostDrops,
}

impl HostDropMeter {
    /// For the interface at which packets from `peer` arrive, as far as the routes back there say. `None`
    /// where that or the counters cannot be read.
    pub fn towards(peer: SocketAddr) -> Option<HostDropMeter> {
        let interface = interface_of(local_address(peer).ok()?)?;
        let before = totals(&interface)?;
        Some(HostDropMeter { interface, before })
    }

    /// What was dropped; `None` where it cannot be read any more.
    pub fn read(&self) -> Option<HostDrops> {
        let now = totals(&self.interface)?;
        // A driver that begins anew has counted nothing yet.
        Some(HostDrops {
            interface: now.interface.saturating_sub(self.before.interface),
            backlog: now.backlog.saturating_sub(self.before.backlog),
        })
    }
}

/// The address from which this host would send to `peer`. Nothing is sent.
fn local_address(peer: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr =
        if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(peer)?;
    Ok(socket.local_addr()?.ip().to_canonical())
}

/// The name of the interface that has an address.
fn interface_of(address: IpAddr) -> Option<String> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the kernel's answer is put into a list that `first` is made to point to; it is freed below.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return None;
    }
    let mut found = None;
    let mut next = first;
    for _ in 0..ADDRESSES_MAX {
        // SAFETY: `next` is null or points to an entry of the list, which lives until it is freed below.
        let Some(entry) = (unsafe { next.as_ref() }) else { break };
        next = entry.ifa_next;
        // SAFETY: `ifa_addr` is null or points to an address of the family that it names, as getifaddrs(3)
        // has it.
        if unsafe { address_at(entry.ifa_addr) } == Some(address) {
            // SAFETY: a name of an entry is a string that ends with a zero.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found = name.to_str().ok().map(str::to_owned);
            break;
        }
    }
    // SAFETY: the list is what getifaddrs made, and nothing of it is used any more.
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

/// What was dropped since the host began.
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
