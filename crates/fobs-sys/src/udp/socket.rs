//! Opening a socket and querying its state.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{c_int, socklen_t};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

/// Maximum number of segments of one send: `UDP_MAX_SEGMENTS` of Linux before 6.9 (128 since). Measured: no
/// gain above 32 to 44.
pub(super) const SEGMENTS_MAX: usize = 64;
/// Maximum number of errors taken from the error queue at once, a bound against a flood of forged ICMP. The
/// queue is short, since each reader empties it.
const QUEUED_ERRORS_MAX: usize = 64;
/// Maximum buffer size in a request, bytes: the kernel doubles it into an `int`.
const BUFFER_LEN_MAX: usize = (c_int::MAX / 2) as usize;

/// Options of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpOptions {
    /// Receive buffer to request, bytes. The kernel grants twice that, for its own overhead (a datagram of
    /// 1472 bytes takes 2304), and without privilege at most twice `net.core.rmem_max`.
    pub recv_buffer: usize,
    /// Send buffer to request, bytes; likewise with `net.core.wmem_max`.
    pub send_buffer: usize,
    /// Whether the kernel may merge datagrams of one sender and size (`UDP_GRO`), which is many times
    /// cheaper; [`RecvBatch`](crate::udp::RecvBatch) splits them again. Merged datagrams also count as one in
    /// drop counters.
    pub gro: bool,
}

/// An unconnected, non-blocking UDP socket with don't-fragment set and the kernel's path MTU ignored (the
/// protocol discovers its own); each datagram carries traffic class, drop counter and arrival timestamp.
#[derive(Debug)]
pub struct UdpSocket {
    fd: OwnedFd,
    local_addr: SocketAddr,
    recv_buffer: AtomicUsize,
    send_buffer: usize,
    /// Segments per send: [`SEGMENTS_MAX`], or 1 permanently once the kernel or device has refused GSO.
    segments_max: AtomicUsize,
    counts_drops: bool,
}

impl UdpSocket {
    /// Opens a socket bound to `addr`; with port 0 the kernel chooses. An IPv6 socket does not receive IPv4.
    pub fn bind(addr: SocketAddr, options: &UdpOptions) -> io::Result<UdpSocket> {
        let fd = open(addr.ip(), options)?;
        rustix::net::bind(&fd, &addr).map_err(|errno| bind_error(addr, errno))?;
        UdpSocket::new(fd)
    }

    /// Opens a socket bound to the lowest free port of `ports` on `ip`.
    pub fn bind_in_range(
        ip: IpAddr,
        ports: RangeInclusive<u16>,
        options: &UdpOptions,
    ) -> io::Result<UdpSocket> {
        let (first, last) = (*ports.start(), *ports.end());
        if ports.is_empty() {
            let message = format!("the UDP port range {first}-{last} is empty: put the lower port first");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let fd = open(ip, options)?;
        for port in ports {
            let addr = SocketAddr::new(ip, port);
            match rustix::net::bind(&fd, &addr) {
                Ok(()) => return UdpSocket::new(fd),
                Err(Errno::ADDRINUSE) => {}
                Err(errno) => return Err(bind_error(addr, errno)),
            }
        }
        let message =
            format!("all UDP ports {first}-{last} of {ip} are taken: end what holds them or widen the range");
        Err(io::Error::new(io::ErrorKind::AddrInUse, message))
    }

    /// From now on datagrams leave and arrive by this interface alone, whatever the routes say. Linux before
    /// 5.7 wants a privilege for that.
    ///
    /// # Errors
    /// There is no such interface, or this process may not choose one.
    pub fn bind_to_interface(&self, name: &str) -> io::Result<()> {
        // SAFETY: the kernel reads as many bytes as the name has.
        let result = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_BINDTODEVICE,
                name.as_ptr().cast(),
                name.len() as socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Reads the options that the kernel set on a bound socket.
    fn new(fd: OwnedFd) -> io::Result<UdpSocket> {
        let local_addr = SocketAddr::try_from(rustix::net::getsockname(&fd)?)?;
        let recv_buffer = AtomicUsize::new(sockopt::socket_recv_buffer_size(&fd)?);
        let send_buffer = sockopt::socket_send_buffer_size(&fd)?;
        // A kernel without this option would send a whole burst as one datagram. 0 changes nothing elsewhere.
        let segments = match set_int(fd.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, 0) {
            Ok(()) => SEGMENTS_MAX,
            Err(_) => 1,
        };
        let counts_drops = set_int(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1).is_ok();
        let segments_max = AtomicUsize::new(segments);
        Ok(UdpSocket { fd, local_addr, recv_buffer, send_buffer, segments_max, counts_drops })
    }

    /// The bound address and port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Size of the receive buffer that the kernel granted, bytes, including its overhead (`SO_RCVBUF`).
    pub fn recv_buffer(&self) -> usize {
        self.recv_buffer.load(Ordering::Relaxed)
    }

    /// Requests a receive buffer of `bytes`; returns the size granted, as [`recv_buffer`](Self::recv_buffer).
    pub fn set_recv_buffer(&self, bytes: usize) -> io::Result<usize> {
        ask_recv_buffer(self.fd.as_fd(), bytes)?;
        let granted = sockopt::socket_recv_buffer_size(&self.fd)?;
        self.recv_buffer.store(granted, Ordering::Relaxed);
        Ok(granted)
    }

    /// Size of the send buffer that the kernel granted, bytes, including its overhead (`SO_SNDBUF`).
    pub fn send_buffer(&self) -> usize {
        self.send_buffer
    }

    /// Maximum number of datagrams per system call: 64, or 1 if the kernel is known not to support GSO.
    pub fn segments_max(&self) -> usize {
        self.segments_max.load(Ordering::Relaxed)
    }

    /// Disables GSO permanently, as [`send`](Self::send) does when GSO fails. For paths that break GSO, and
    /// for tests.
    pub fn disable_segmentation(&self) {
        self.segments_max.store(1, Ordering::Relaxed);
    }

    /// Whether the kernel attaches its drop counter to datagrams (`SO_RXQ_OVFL`); a sandbox may not.
    pub fn counts_drops(&self) -> bool {
        self.counts_drops
    }

    /// Datagrams dropped at this socket since it was opened, modulo 2^32: receive buffer full or checksum
    /// wrong (`SK_MEMINFO_DROPS`). Merged datagrams (GRO) count once. One system call.
    pub fn socket_drops(&self) -> io::Result<u32> {
        let mut info = [0u32; libc::SK_MEMINFO_DROPS as usize + 1];
        let mut len = size_of_val(&info) as socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `info`, which is that long.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MEMINFO,
                info.as_mut_ptr().cast(),
                &mut len,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        if (len as usize) < size_of_val(&info) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel counts no socket drops"));
        }
        Ok(info[libc::SK_MEMINFO_DROPS as usize])
    }

    /// Discards queued errors (see [`set_options`]).
    pub(crate) fn drain_error_queue(&self) {
        for _ in 0..QUEUED_ERRORS_MAX {
            let flags = RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT;
            match rustix::net::recv(&self.fd, &mut [0u8; 0], flags) {
                Ok(_) => {}
                // EAGAIN: empty. Any other error returns where it can be reported.
                Err(_) => return,
            }
        }
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens a socket for the family of `ip` with all options set, not bound.
fn open(ip: IpAddr, options: &UdpOptions) -> io::Result<OwnedFd> {
    let failed = |errno: Errno| {
        let reason = io::Error::from(errno);
        let message = format!(
            "could not open a UDP socket for {ip}: {reason}; check that the kernel has this address \
             family and that the process may open more files"
        );
        io::Error::new(reason.kind(), message)
    };
    let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(family, SocketType::DGRAM, flags, None).map_err(failed)?;
    set_options(fd.as_fd(), ip, options).map_err(failed)?;
    Ok(fd)
}

fn set_options(fd: BorrowedFd<'_>, ip: IpAddr, options: &UdpOptions) -> Result<(), Errno> {
    // RECVERR: without it, a datagram dropped by this host's own queue (ENOBUFS) counts as sent, and its loss
    // as network loss. In return, ICMP errors are queued and must be drained.
    match ip {
        IpAddr::V4(_) => {
            sockopt::set_ip_mtu_discover(fd, Ipv4PathMtuDiscovery::PROBE)?;
            sockopt::set_ip_recvtos(fd, true)?;
            set_int(fd, libc::IPPROTO_IP, libc::IP_RECVERR, 1)?;
        }
        IpAddr::V6(_) => {
            sockopt::set_ipv6_v6only(fd, true)?;
            sockopt::set_ipv6_mtu_discover(fd, Ipv6PathMtuDiscovery::PROBE)?;
            sockopt::set_ipv6_recvtclass(fd, true)?;
            set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
        }
    }
    set_int(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    if options.gro {
        // Older kernels do not merge; datagrams arrive nevertheless.
        let _ = set_int(fd, libc::SOL_UDP, libc::UDP_GRO, 1);
    }
    ask_recv_buffer(fd, options.recv_buffer)?;
    // As for the receive buffer.
    let send_buffer = options.send_buffer.min(BUFFER_LEN_MAX);
    sockopt::set_socket_send_buffer_size_force(fd, send_buffer)
        .or_else(|_| sockopt::set_socket_send_buffer_size(fd, send_buffer))
}

/// SO_RCVBUFFORCE ignores net.core.rmem_max but needs CAP_NET_ADMIN.
fn ask_recv_buffer(fd: BorrowedFd<'_>, bytes: usize) -> Result<(), Errno> {
    let bytes = bytes.min(BUFFER_LEN_MAX);
    sockopt::set_socket_recv_buffer_size_force(fd, bytes)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(fd, bytes))
}

/// Sets an option that rustix does not support.
pub(super) fn set_int(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> Result<(), Errno> {
    // SAFETY: the kernel reads the size of an int from a valid int.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<c_int>() as socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// The error of the last libc call.
pub(super) fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Whether an error is transient: it concerns an earlier datagram (an ICMP error) or the route to a peer, not
/// the socket. EMSGSIZE and EOPNOTSUPP may be such errors, too.
pub(super) fn is_transient(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::CONNREFUSED
            | Errno::HOSTUNREACH
            | Errno::NETUNREACH
            | Errno::HOSTDOWN
            | Errno::NETDOWN
            | Errno::NONET
            | Errno::NOPROTOOPT
            | Errno::PROTO
    )
}

fn bind_error(addr: SocketAddr, errno: Errno) -> io::Error {
    let reason = io::Error::from(errno);
    let remedy = match errno {
        Errno::ADDRINUSE => "choose another port",
        Errno::ACCESS => "choose a port from 1024 on",
        Errno::ADDRNOTAVAIL => "choose an address of this host",
        _ => "choose another address",
    };
    io::Error::new(reason.kind(), format!("could not bind UDP {addr}: {reason}; {remedy}"))
}
