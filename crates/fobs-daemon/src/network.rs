//! Where a client comes from: what one person can easily have many addresses of counts as one.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bits of an IPv6 address that name a network: a host has all addresses of its /64 (RFC 4291, 2.5.1).
const V6_BITS: u32 = 64;

/// An IPv4 address, an IPv6 /64, or the smallest network around several of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Network {
    family: Family,
    /// The address from the highest bit down; zero after `prefix`.
    bits: u128,
    prefix: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Family {
    V4,
    V6,
}

impl Network {
    /// The network of one client.
    pub(super) fn of(address: IpAddr) -> Network {
        match address.to_canonical() {
            IpAddr::V4(v4) => Network::new(Family::V4, u128::from(v4.to_bits()) << 96, u32::BITS),
            IpAddr::V6(v6) => Network::new(Family::V6, v6.to_bits(), V6_BITS),
        }
    }

    fn new(family: Family, bits: u128, prefix: u32) -> Network {
        let mask = u128::MAX.checked_shl(u128::BITS - prefix).unwrap_or(0);
        Network { family, bits: bits & mask, prefix }
    }

    /// Of which family it is.
    pub(super) fn family(&self) -> Family {
        self.family
    }

    /// The smallest network around both, which are of one family.
    pub(super) fn around(self, other: Network) -> Network {
        let common = (self.bits ^ other.bits).leading_zeros();
        Network::new(self.family, self.bits, common.min(self.prefix).min(other.prefix))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.family {
            Family::V4 => Ipv4Addr::from_bits((self.bits >> 96) as u32).fmt(f)?,
            Family::V6 => Ipv6Addr::from_bits(self.bits).fmt(f)?,
        }
        match (self.family, self.prefix) {
            (Family::V4, u32::BITS) => Ok(()),
            (_, prefix) => write!(f, "/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(address: &str) -> Network {
        Network::of(address.parse().unwrap())
    }

    #[test]
    fn a_network_is_an_ipv4_address_or_an_ipv6_64() {
        assert_eq!(network("10.0.0.7"), network("::ffff:10.0.0.7"));
        assert_ne!(network("10.0.0.7"), network("10.0.0.8"));
        assert_eq!(network("fd00:1:2:3::1"), network("fd00:1:2:3:ffff::2"));
        assert_ne!(network("fd00:1:2:3::1"), network("fd00:1:2:4::1"));
        assert_eq!(network("10.0.0.7").to_string(), "10.0.0.7");
        assert_eq!(network("fd00:1:2:3::1").to_string(), "fd00:1:2:3::/64");
    }

    #[test]
    fn networks_are_joined_by_their_common_prefix() {
        let joined = |a, b| network(a).around(network(b)).to_string();
        assert_eq!(joined("10.0.0.7", "10.0.0.7"), "10.0.0.7");
        assert_eq!(joined("10.0.0.7", "10.0.0.200"), "10.0.0.0/24");
        assert_eq!(joined("10.0.0.7", "192.0.2.1"), "0.0.0.0/0");
        assert_eq!(joined("fd00:1:2:3::1", "fd00:1:3:3::"), "fd00:1:2::/47");
    }
}
