//! Socket addresses as the kernel lays them out (`sockaddr_in`, `sockaddr_in6`), without `unsafe`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Size of `sockaddr_in6`, the larger of the two, bytes.
const LEN_MAX: usize = 28;
/// Size of `sockaddr_in`, bytes.
const V4_LEN: usize = 16;

/// A buffer for a kernel socket address.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RawAddress {
    bytes: [u8; LEN_MAX],
    len: u8,
}

impl RawAddress {
    /// Bytes that the kernel may read or write at [`as_mut_ptr`](Self::as_mut_ptr).
    pub(super) const CAPACITY: u32 = LEN_MAX as u32;

    /// Encodes `address`: family (native), port (big-endian), then `address` or `flowinfo, address, scope`.
    pub(super) fn new(address: SocketAddr) -> RawAddress {
        let mut raw = RawAddress::default();
        raw.bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, len) = match address {
            SocketAddr::V4(v4) => {
                raw.bytes[4..8].copy_from_slice(&v4.ip().octets());
                (libc::AF_INET, V4_LEN)
            }
            SocketAddr::V6(v6) => {
                raw.bytes[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
                raw.bytes[8..24].copy_from_slice(&v6.ip().octets());
                raw.bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                (libc::AF_INET6, LEN_MAX)
            }
        };
        raw.bytes[..2].copy_from_slice(&(family as libc::sa_family_t).to_ne_bytes());
        raw.len = len as u8;
        raw
    }

    /// Length of the address in use, bytes.
    pub(super) fn len(&self) -> u32 {
        u32::from(self.len)
    }

    /// Pointer for the kernel, which reads [`len`](Self::len) or writes [`CAPACITY`](Self::CAPACITY) bytes.
    pub(super) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.bytes.as_mut_ptr().cast()
    }

    /// The address that the kernel wrote; `None` if it is not an Internet address of full length.
    pub(super) fn decode(&self, len: u32) -> Option<SocketAddr> {
        let family = libc::c_int::from(libc::sa_family_t::from_ne_bytes(self.array(0)));
        let port = u16::from_be_bytes(self.array(2));
        match (family, len as usize) {
            (libc::AF_INET, V4_LEN) => {
                Some(SocketAddrV4::new(Ipv4Addr::from(self.array::<4>(4)), port).into())
            }
            (libc::AF_INET6, LEN_MAX) => Some(
                SocketAddrV6::new(
                    Ipv6Addr::from(self.array::<16>(8)),
                    port,
                    u32::from_ne_bytes(self.array(4)),
                    u32::from_ne_bytes(self.array(24)),
                )
                .into(),
            ),
            _ => None,
        }
    }

    /// The `N` bytes at offset `at`; all callers stay within [`LEN_MAX`].
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|index| self.bytes[at + index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let addresses: [SocketAddr; 5] = [
            "192.0.2.7:45601".parse().unwrap(),
            "0.0.0.0:0".parse().unwrap(),
            "[::]:65535".parse().unwrap(),
            "[2001:db8:1:2:3:4:5:6]:1".parse().unwrap(),
            SocketAddrV6::new("fe80::1".parse().unwrap(), 258, 0x0102_0304, 42).into(),
        ];
        for address in addresses {
            let raw = RawAddress::new(address);
            assert_eq!(raw.decode(raw.len()), Some(address));
        }
    }

    #[test]
    fn other_families_and_lengths_are_none() {
        let raw = RawAddress::new("192.0.2.7:45601".parse().unwrap());
        for len in [0, 2, 15, 17, 28, u32::MAX] {
            assert_eq!(raw.decode(len), None, "{len} bytes");
        }
        assert_eq!(RawAddress::default().decode(16), None);
    }

    #[test]
    fn agrees_with_the_c_structs() {
        assert_eq!(size_of::<libc::sockaddr_in>(), V4_LEN);
        assert_eq!(size_of::<libc::sockaddr_in6>(), LEN_MAX);
        assert_eq!(std::mem::offset_of!(libc::sockaddr_in, sin_port), 2);
        assert_eq!(std::mem::offset_of!(libc::sockaddr_in, sin_addr), 4);
        assert_eq!(std::mem::offset_of!(libc::sockaddr_in6, sin6_flowinfo), 4);
        assert_eq!(std::mem::offset_of!(libc::sockaddr_in6, sin6_addr), 8);
        assert_eq!(std::mem::offset_of!(libc::sockaddr_in6, sin6_scope_id), 24);
        assert!(align_of::<RawAddress>() >= align_of::<libc::sockaddr_in6>());
    }
}
