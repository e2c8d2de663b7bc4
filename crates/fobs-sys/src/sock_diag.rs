//! TCP connections of any process in this network namespace (`NETLINK_SOCK_DIAG`): no rights are needed, and
//! nothing about them changes.

use crate::tcp::TcpInfo;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with, sockopt,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Most bytes of an answer's part; the kernel fills pages of 8 to 32 KiB.
const PART_BYTES: usize = 64 << 10;
/// Most connections that are reported: a watched program opens some.
const CONNECTIONS_MAX: usize = 65_536;
/// The kernel answers at once.
const ANSWER: Duration = Duration::from_secs(2);

// From linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h and net/tcp_states.h.
const HEADER_LEN: usize = 16;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;
const REQUEST_LEN: usize = HEADER_LEN + 56;
const MESSAGE_LEN: usize = 72;
const WITH_INFO: u8 = 1 << (INET_DIAG_INFO - 1);
const INET_DIAG_INFO: u16 = 2;
const IPPROTO_TCP: u8 = 6;
/// Established, and both kinds of closing in which data may still leave.
const STATES: u32 = 1 << 1 | 1 << 4 | 1 << 8;
const FAMILIES: [u8; 2] = [2, 10];

/// A TCP connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Connection {
    /// Number of the socket, as in `/proc/PID/fd`.
    pub inode: u64,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// Bytes that came and that the program has not read.
    pub unread: u64,
    /// What the kernel reports of it.
    pub info: TcpInfo,
}

/// Asks the kernel about connections.
#[derive(Debug)]
pub struct SocketDiag {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl SocketDiag {
    /// Opens the kernel's interface.
    ///
    /// # Errors
    /// Of the kernel: it may be built without `CONFIG_INET_DIAG`.
    pub fn open() -> io::Result<SocketDiag> {
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(ANSWER))?;
        Ok(SocketDiag { socket, buffer: vec![0; PART_BYTES] })
    }

    /// The TCP connections of this network namespace that can carry data.
    ///
    /// # Errors
    /// Of the kernel.
    pub fn connections(&mut self) -> io::Result<Vec<Connection>> {
        let mut found = Vec::new();
        for family in FAMILIES {
            let request = request(family);
            sendto(&self.socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
            loop {
                let (len, _) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
                if take(&self.buffer[..len], &mut found)? == Part::Last || len == 0 {
                    break;
                }
            }
        }
        Ok(found)
    }
}

fn request(family: u8) -> [u8; REQUEST_LEN] {
    let mut bytes = [0; REQUEST_LEN];
    bytes[..4].copy_from_slice(&(REQUEST_LEN as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    bytes[HEADER_LEN..HEADER_LEN + 3].copy_from_slice(&[family, IPPROTO_TCP, WITH_INFO]);
    bytes[HEADER_LEN + 4..HEADER_LEN + 8].copy_from_slice(&STATES.to_ne_bytes());
    bytes
}

/// Whether more of an answer follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    More,
    Last,
}

/// Takes the messages of one part of an answer.
fn take(mut part: &[u8], found: &mut Vec<Connection>) -> io::Result<Part> {
    while let Some(len) = u32_at(part, 0).map(|len| len as usize).filter(|len| *len >= HEADER_LEN) {
        let Some(message) = part.get(HEADER_LEN..len) else { break };
        match u16_at(part, 4) {
            Some(NLMSG_DONE) => return Ok(Part::Last),
            Some(NLMSG_ERROR) => {
                let code = u32_at(message, 0).map_or(0, u32::cast_signed);
                return if code == 0 { Ok(Part::Last) } else { Err(io::Error::from_raw_os_error(-code)) };
            }
            Some(SOCK_DIAG_BY_FAMILY) if found.len() < CONNECTIONS_MAX => found.extend(connection(message)),
            _ => {}
        }
        part = part.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(Part::More)
}

/// One connection of an answer.
fn connection(message: &[u8]) -> Option<Connection> {
    let address = |port_at: usize, address_at: usize| {
        let port = u16::from_be_bytes(message.get(port_at..port_at + 2)?.try_into().ok()?);
        let bytes: [u8; 16] = message.get(address_at..address_at + 16)?.try_into().ok()?;
        let address = match message[0] {
            2 => IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
            _ => IpAddr::V6(Ipv6Addr::from(bytes)),
        };
        Some(SocketAddr::new(address, port))
    };
    let mut info = None;
    let mut attributes = message.get(MESSAGE_LEN..)?;
    while let (Some(len), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let len = usize::from(len).max(4);
        if kind == INET_DIAG_INFO {
            info = attributes.get(4..len).map(TcpInfo::of_bytes);
        }
        attributes = attributes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(Connection {
        local: address(4, 8)?,
        peer: address(6, 24)?,
        unread: u64::from(u32_at(message, 56)?),
        inode: u64::from(u32_at(message, 68)?),
        info: info?,
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_of_this_process_is_found_with_its_counters() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[7; 5000]).unwrap();
        far.read_exact(&mut [0; 3000]).unwrap();
        let connections = SocketDiag::open().unwrap().connections().unwrap();
        let of = |local: SocketAddr| connections.iter().find(|found| found.local == local).unwrap();
        let (sending, receiving) = (of(near.local_addr().unwrap()), of(far.local_addr().unwrap()));
        assert_eq!(sending.peer, receiving.local);
        assert_eq!((receiving.info.bytes_received, receiving.unread), (5000, 2000));
        let link = std::fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&near)));
        assert_eq!(link.unwrap().to_str().unwrap(), format!("socket:[{}]", sending.inode));
    }

    #[test]
    fn broken_answers_give_nothing_and_no_panic() {
        let mut found = Vec::new();
        for len in 0..120usize {
            let mut part = vec![0xff; len];
            assert!(take(&part, &mut found).is_ok());
            if len >= HEADER_LEN {
                part[..4].copy_from_slice(&(len as u32).to_ne_bytes());
                part[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
                assert!(take(&part, &mut found).is_ok());
            }
        }
        assert_eq!(found, []);
    }
}
