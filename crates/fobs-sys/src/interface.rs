//! The network interface that this host uses towards a peer: frame size, line rate, offloads.

use std::fs;
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::host_drops::{interface_of, local_address};

/// Requests of `SIOCETHTOOL` that return one number (linux/ethtool.h).
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GGRO: u32 = 0x2b;
/// Any port: nothing is sent to it.
const DISCARD_PORT: u16 = 9;

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Largest IP packet, bytes; `None` if the kernel does not tell.
    pub mtu: Option<u32>,
    /// Line rate, Mbit/s; `None` if it is unknown, as for most virtual ones.
    pub speed_mbit: Option<u32>,
    /// Whether the kernel cuts super-packets as late as possible (`generic-segmentation-offload`).
    pub segments: Option<bool>,
    /// Whether packets that arrive are merged (`generic-receive-offload`).
    pub merges: Option<bool>,
}

impl Interface {
    /// The interface of this host's route to `peer`. Nothing is sent. `None` without a route.
    pub fn towards(peer: IpAddr) -> Option<Interface> {
        let name = interface_of(local_address(SocketAddr::new(peer, DISCARD_PORT)).ok()?)?;
        Some(Interface {
            mtu: number(&name, "mtu"),
            speed_mbit: number(&name, "speed").filter(|&mbit| mbit > 0),
            segments: offload(&name, ETHTOOL_GGSO),
            merges: offload(&name, ETHTOOL_GGRO),
            name,
        })
    }
}

/// A number in the interface's directory of sysfs; an unknown speed is -1 there.
fn number(name: &str, file: &str) -> Option<u32> {
    fs::read_to_string(format!("/sys/class/net/{name}/{file}")).ok()?.trim().parse().ok()
}

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    request: u32,
    value: u32,
}

/// Whether an offload is on; `None` if the driver or a sandbox does not tell.
fn offload(name: &str, request: u32) -> Option<bool> {
    let socket =
        rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    let mut asked = EthtoolValue { request, value: 0 };
    // SAFETY: an ifreq is a name, integers and a pointer, for which all zeroes is a value.
    let mut interface: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    if name.len() >= interface.ifr_name.len() {
        return None;
    }
    for (to, from) in interface.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    interface.ifr_ifru.ifru_data = (&raw mut asked).cast();
    debug_assert!(size_of::<EthtoolValue>() == 8, "as in linux/ethtool.h");
    // SAFETY: the request reads an ifreq with a terminated name, and for these two requests writes at most an
    // ethtool_value to `ifru_data`, which points to one. Both live through the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut interface) };
    (result == 0).then_some(asked.value != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_described() {
        let lo = Interface::towards(IpAddr::from([127, 0, 0, 1])).expect("a route to this host");
        assert_eq!(lo.name, "lo");
        assert!(lo.mtu.is_some_and(|mtu| mtu >= 1500), "{lo:?}");
        assert_eq!(lo.speed_mbit, None);
    }

    #[test]
    fn an_interface_that_does_not_exist_has_no_offloads() {
        for name in ["fobs-no-such-if", "", "a-name-longer-than-any-interface"] {
            assert_eq!(offload(name, ETHTOOL_GGRO), None, "{name:?}");
        }
    }
}
