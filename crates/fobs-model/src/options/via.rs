//! The paths that a transfer uses, and its lanes.

use fobs_proto::session::LANES_MAX;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Longest name of an interface, bytes (`IFNAMSIZ` less its zero).
const INTERFACE_MAX: usize = 15;

/// A path to the other host, by one of its ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Via {
    /// An address of this host, or of the other one.
    Address(IpAddr),
    /// An interface of this host.
    Interface(String),
}

impl FromStr for Via {
    type Err = String;

    fn from_str(text: &str) -> Result<Via, String> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Via::Address(address.to_canonical()));
        }
        let is_name = (1..=INTERFACE_MAX).contains(&text.len())
            && !text
                .bytes()
                .any(|byte| byte == b'/' || byte.is_ascii_whitespace() || byte.is_ascii_control());
        if is_name && text != "." && text != ".." {
            Ok(Via::Interface(text.to_owned()))
        } else {
            Err("give an IP address of this host or of the other one, or an interface of this host"
                .to_owned())
        }
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Via::Address(address) => address.fmt(f),
            Via::Interface(name) => f.write_str(name),
        }
    }
}

/// How many lanes a transfer has, and by which paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lanes {
    /// `--via`, in order; empty for the one path that routes give.
    pub via: Vec<Via>,
    /// `--lanes`: lanes of each path; `None` is one.
    pub each: Option<u8>,
}

impl Lanes {
    /// The path of each lane. The first lanes of all paths come first.
    pub fn paths(&self) -> Vec<u8> {
        let (paths, each) = (self.via.len().max(1), usize::from(self.each.unwrap_or(1)));
        let numbers = (0..each).flat_map(|_| 0..paths);
        numbers.map(|path| u8::try_from(path).unwrap_or(u8::MAX)).collect()
    }

    /// Whether the user chose anything.
    pub fn are_chosen(&self) -> bool {
        *self != Lanes::default()
    }

    /// Whether there are more than a session can have.
    pub fn are_too_many(&self) -> bool {
        self.paths().len() > LANES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_an_address_or_an_interface() {
        let read = |text: &str| text.parse::<Via>();
        assert_eq!(read("10.0.2.1"), Ok(Via::Address("10.0.2.1".parse().expect("an address"))));
        assert_eq!(read("::ffff:10.0.2.1"), read("10.0.2.1"));
        assert_eq!(read("fd00::1").map(|via| via.to_string()), Ok("fd00::1".to_owned()));
        for name in ["wlan0", "enp3s0f1", "eth0.7", "br-1"] {
            assert_eq!(read(name), Ok(Via::Interface(name.to_owned())));
        }
        for wrong in ["", ".", "..", "a/b", "a name", "sixteen-letters.", "10.0.2.1/24"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lanes_of_paths_are_numbered_path_by_path() {
        let via = |count: usize| vec![Via::Interface("x".to_owned()); count];
        assert_eq!(Lanes::default().paths(), [0]);
        assert_eq!(Lanes { via: via(2), each: None }.paths(), [0, 1]);
        assert_eq!(Lanes { via: via(2), each: Some(2) }.paths(), [0, 1, 0, 1]);
        assert_eq!(Lanes { via: Vec::new(), each: Some(3) }.paths(), [0, 0, 0]);
        assert!(Lanes { via: via(9), each: Some(2) }.are_too_many());
        assert!(!Lanes { via: via(8), each: Some(2) }.are_too_many());
    }
}
