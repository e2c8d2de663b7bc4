//! Ports, port ranges and listening addresses of the command line.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fobs::options::DEFAULT_TCP_PORT;

/// An inclusive range of UDP ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    /// The first port, at least 1.
    pub first: u16,
    /// The last port, not below `first`.
    pub last: u16,
}

impl PortRange {
    /// Number of ports.
    pub fn count(self) -> usize {
        usize::from(self.last - self.first) + 1
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Parses `A-B`, or `A` for one port.
pub fn parse_range(text: &str) -> Result<PortRange, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (parse_port(first), parse_port(last)) {
        (Some(first), Some(last)) if 0 < first && first <= last => Ok(PortRange { first, last }),
        _ => Err("write two ports between 1 and 65535, the smaller one first, as in 45601-45664".to_owned()),
    }
}

/// A value of `--listen`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// A port on all addresses of this host.
    Port(u16),
    /// One address; `0.0.0.0` and `::` are all addresses of their family.
    Address(SocketAddr),
}

impl Listen {
    /// The addresses of the sockets to open.
    pub fn addresses(self) -> Vec<SocketAddr> {
        match self {
            Listen::Port(port) => {
                vec![(Ipv4Addr::UNSPECIFIED, port).into(), (Ipv6Addr::UNSPECIFIED, port).into()]
            }
            Listen::Address(address) => vec![address],
        }
    }
}

/// Parses `ADDR:PORT`, `PORT` or `ADDR` (with [`DEFAULT_TCP_PORT`]); an IPv6 address without a port may be in
/// brackets. Port 0 is one that the system chooses.
pub fn parse_listen(text: &str) -> Result<Listen, String> {
    if let Some(port) = parse_port(text) {
        return Ok(Listen::Port(port));
    }
    let text = with_zone_number(text)?;
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Listen::Address(address));
    }
    let bare = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(&text);
    match format!("[{bare}]:{DEFAULT_TCP_PORT}")
        .parse::<SocketAddr>()
        .or_else(|_| bare.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DEFAULT_TCP_PORT)))
    {
        Ok(address) => Ok(Listen::Address(address)),
        Err(_) => {
            Err("write an address, a port or both, as in 192.0.2.1:45600, [::1]:45600 or 45600".to_owned())
        }
    }
}

/// The address with the number of the interface whose name follows a link-local one.
fn with_zone_number(text: &str) -> Result<String, String> {
    let Some((address, rest)) = text.split_once('%') else { return Ok(text.to_owned()) };
    let end = rest.find(']').unwrap_or(rest.len());
    let (zone, rest) = rest.split_at(end);
    if zone.is_empty() || zone.contains('/') || zone.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(text.to_owned());
    }
    let number = std::fs::read_to_string(format!("/sys/class/net/{zone}/ifindex"));
    match number.ok().and_then(|number| number.trim().parse::<u32>().ok()) {
        Some(number) => Ok(format!("{address}%{number}{rest}")),
        None => Err(format!("this host has no interface {zone:?}; `ip link` lists them")),
    }
}

/// Parses `ADDR:PORT`, or `PORT` on the loopback address: counters are not for everyone unless said so.
pub fn parse_metrics(text: &str) -> Result<SocketAddr, String> {
    match (parse_port(text), text.parse()) {
        (Some(port), _) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        (None, Ok(address)) => Ok(address),
        (None, Err(_)) => Err("write a port, or an address and a port, as in 9464 or [::1]:9464".to_owned()),
    }
}

/// A port in digits only (`u16::from_str` would take a sign).
fn parse_port(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_local_unless_an_address_is_given() {
        let table = [("9464", "127.0.0.1:9464"), ("0.0.0.0:1", "0.0.0.0:1"), ("[::1]:9", "[::1]:9")];
        for (text, address) in table {
            assert_eq!(parse_metrics(text), Ok(address.parse().expect("an address")), "{text}");
        }
        for text in ["", "host:1", "127.0.0.1", "-1", "65536"] {
            parse_metrics(text).expect_err(text);
        }
    }

    #[test]
    fn link_local_addresses_keep_their_interface() {
        for (text, expected) in [
            ("[fe80::1%lo]:7", "[fe80::1%1]:7"),
            ("[fe80::1%1]:7", "[fe80::1%1]:7"),
            ("[fe80::1%lo]", "[fe80::1%1]:45600"),
            ("fe80::1%lo", "[fe80::1%1]:45600"),
        ] {
            let Ok(Listen::Address(address)) = parse_listen(text) else { panic!("{text}") };
            assert_eq!(address.to_string(), expected, "{text}");
        }
        assert!(parse_listen("[fe80::1%no-such]:7").expect_err("no such interface").contains("no-such"));
    }

    #[test]
    fn port_ranges_are_parsed_or_refused() {
        let table = [
            ("45601-45664", Some((45_601, 45_664, 64))),
            ("1-65535", Some((1, 65_535, 65_535))),
            ("7", Some((7, 7, 1))),
            ("7-7", Some((7, 7, 1))),
            ("8-7", None),
            ("0-7", None),
            ("0", None),
            ("", None),
            ("-", None),
            ("7-", None),
            ("-7", None),
            ("+7-8", None),
            ("1-2-3", None),
            ("1-65536", None),
            ("a-b", None),
        ];
        for (text, expected) in table {
            let range = parse_range(text).ok().map(|range| (range.first, range.last, range.count()));
            assert_eq!(range, expected, "{text}");
        }
    }

    #[test]
    fn listen_addresses_are_parsed_or_refused() {
        let table: [(&str, &[&str]); 14] = [
            ("45600", &["0.0.0.0:45600", "[::]:45600"]),
            ("0", &["0.0.0.0:0", "[::]:0"]),
            ("127.0.0.1", &["127.0.0.1:45600"]),
            ("127.0.0.1:9", &["127.0.0.1:9"]),
            ("::", &["[::]:45600"]),
            ("[::1]", &["[::1]:45600"]),
            ("[::1]:9", &["[::1]:9"]),
            ("", &[]),
            ("localhost:9", &[]),
            ("65536", &[]),
            ("+9", &[]),
            ("127.0.0.1:", &[]),
            (":9", &[]),
            ("[::1", &[]),
        ];
        for (text, expected) in table {
            let addresses = parse_listen(text).map(Listen::addresses).unwrap_or_default();
            let expected: Vec<SocketAddr> =
                expected.iter().map(|text| text.parse().expect("an address")).collect();
            assert_eq!(addresses, expected, "{text}");
        }
    }
}
