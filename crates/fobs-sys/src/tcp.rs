//! What TCP connections offer beside reading and writing: one begun and not waited for, how little waits
//! unsent, and what limits them.

use std::io;
use std::mem::{offset_of, size_of};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{self, SocketFlags, SocketType};

/// Begins to connect: the socket polls as writable when that is done or has failed. It does not block.
pub fn begin_connect(address: &SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { net::AddressFamily::INET } else { net::AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = TcpStream::from(net::socket_with(family, SocketType::STREAM, flags, None)?);
    match net::connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// What a connection reports of itself (`TCP_INFO`). Counters begin with the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Smallest round-trip time.
    pub rtt_min: Duration,
    /// Congestion window, bytes.
    pub congestion_window: u64,
    /// The peer's receive window, bytes; 0 where the kernel (before 5.5) does not say.
    pub peer_window: u64,
    /// Bytes sent and not acknowledged, about: whole segments.
    pub in_flight: u64,
    /// Bytes written and not sent.
    pub unsent: u64,
    /// Newest measured delivery rate, bytes per second.
    pub delivery_rate: u64,
    /// Bytes that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Time with something to send.
    pub busy: Duration,
    /// Of that, time in which the peer's window was full.
    pub window_limited: Duration,
    /// Of that, time in which the send buffer was full.
    pub buffer_limited: Duration,
    /// Bytes that came.
    pub bytes_received: u64,
    /// Time since data came, or since the connection was made.
    pub quiet: Duration,
    /// Segments with data sent, those sent again included.
    pub sent: u64,
    /// Round-trip time as the receiver of data estimates it.
    pub receiver_rtt: Duration,
    /// Times that acks showed reordering.
    pub reordered: u64,
}

/// The kernel's `struct tcp_info` (`linux/tcp.h`) up to the member that is used last. Kernels before 5.5
/// fill less of it.
#[repr(C)]
#[derive(Default)]
struct RawTcpInfo {
    bytes: [u8; 8],
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked_to_fackets: [u32; 4],
    /// Since data was sent, an ack was sent, data came, an ack came, ms.
    last_times: [u32; 4],
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
}

// As in `linux/tcp.h`.
const _: () = assert!(offset_of!(RawTcpInfo, rtt) == 68 && offset_of!(RawTcpInfo, pacing_rate) == 104);
const _: () = assert!(offset_of!(RawTcpInfo, delivery_rate) == 160 && size_of::<RawTcpInfo>() == 232);

/// Reads `TCP_INFO`.
///
/// # Errors
/// If the descriptor is no TCP socket.
pub fn tcp_info(socket: &impl AsFd) -> io::Result<TcpInfo> {
    let mut raw = RawTcpInfo::default();
    let mut len = size_of::<RawTcpInfo>() as libc::socklen_t;
    // SAFETY: `raw` is valid for `len` bytes of writing, and any bytes are a value of its integers; the
    // descriptor is open for the duration of the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut raw).cast(),
            &mut len,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(TcpInfo::of(&raw))
}

impl TcpInfo {
    /// From the bytes of a `struct tcp_info`, of which an older kernel gives fewer.
    pub(crate) fn of_bytes(bytes: &[u8]) -> TcpInfo {
        let mut raw = RawTcpInfo::default();
        let len = bytes.len().min(size_of::<RawTcpInfo>());
        // SAFETY: both are valid for `len` bytes and do not overlap; any bytes are a value of its integers.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut raw).cast::<u8>(), len) };
        TcpInfo::of(&raw)
    }

    fn of(raw: &RawTcpInfo) -> TcpInfo {
        let micros = |us: u32| Duration::from_micros(u64::from(us));
        let segment = u64::from(raw.snd_mss);
        TcpInfo {
            rtt: micros(raw.rtt),
            // Before the first sample the kernel reports "infinite".
            rtt_min: if raw.min_rtt == u32::MAX { Duration::ZERO } else { micros(raw.min_rtt) },
            congestion_window: u64::from(raw.snd_cwnd) * segment,
            peer_window: u64::from(raw.snd_wnd),
            in_flight: u64::from(raw.unacked) * segment,
            unsent: u64::from(raw.notsent_bytes),
            delivery_rate: raw.delivery_rate,
            bytes_acked: raw.bytes_acked,
            retransmitted: u64::from(raw.total_retrans),
            busy: Duration::from_micros(raw.busy_time),
            window_limited: Duration::from_micros(raw.rwnd_limited),
            buffer_limited: Duration::from_micros(raw.sndbuf_limited),
            bytes_received: raw.bytes_received,
            quiet: Duration::from_millis(u64::from(raw.last_times[2])),
            sent: u64::from(raw.data_segs_out),
            receiver_rtt: micros(raw.rcv_rtt),
            reordered: u64::from(raw.reord_seen),
        }
    }
}

/// A write takes no more, and the socket does not poll as writable, while this many bytes wait unsent
/// (`TCP_NOTSENT_LOWAT`).
///
/// # Errors
/// If the descriptor is no TCP socket.
pub fn set_unsent_max(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    set(socket, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// The largest window that a connection offers (`TCP_WINDOW_CLAMP`). The kernel fixes it by the receive
/// buffer when the connection is made; a buffer that is set later needs this beside it.
///
/// # Errors
/// If the descriptor is no TCP socket.
pub fn set_window_max(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    set(socket, libc::TCP_WINDOW_CLAMP, bytes)
}

fn set(socket: &impl AsFd, option: libc::c_int, value: u32) -> io::Result<()> {
    // SAFETY: the option's value is an unsigned integer of four bytes, which outlives the call; the
    // descriptor is open for its duration.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw const value).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn a_connection_tells_what_it_did() {
        let (mut near, mut far) = pair();
        near.write_all(&[1; 10_000]).unwrap();
        far.read_exact(&mut [0; 10_000]).unwrap();
        // The answer acknowledges all of it.
        far.write_all(&[1]).unwrap();
        near.read_exact(&mut [0]).unwrap();
        let info = tcp_info(&near).unwrap();
        assert!((10_000..20_000).contains(&info.bytes_acked), "{info:?}");
        assert!(info.rtt > Duration::ZERO && info.rtt_min <= info.rtt, "{info:?}");
        assert!(info.congestion_window > 0 && info.unsent == 0, "{info:?}");
    }

    /// Each member is read from the bytes of another socket's report as from one's own.
    #[test]
    fn a_report_in_bytes_has_every_member() {
        let bytes: Vec<u8> = (0..size_of::<RawTcpInfo>()).map(|at| (at * 37 % 251) as u8 | 1).collect();
        let info = TcpInfo::of_bytes(&bytes);
        let word = |at: usize| u64::from(u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap()));
        assert_eq!(info.quiet, Duration::from_millis(word(offset_of!(RawTcpInfo, last_times) + 8)));
        assert_eq!(info.peer_window, word(offset_of!(RawTcpInfo, snd_wnd)));
        let TcpInfo { rtt, rtt_min, receiver_rtt, busy, window_limited, buffer_limited, quiet, .. } = info;
        let times = [rtt, rtt_min, receiver_rtt, busy, window_limited, buffer_limited, quiet];
        assert!(times.iter().all(|time| *time > Duration::ZERO), "{info:?}");
        // An older kernel gives fewer, and none gives nothing; a newer one gives more.
        assert_eq!(TcpInfo::of_bytes(&bytes[..160]).delivery_rate, 0);
        assert_eq!(TcpInfo::of_bytes(&[]), TcpInfo::default());
        assert_eq!(TcpInfo::of_bytes(&[bytes.clone(), vec![9; 64]].concat()), info);
    }

    #[test]
    fn a_connection_tells_since_when_its_peer_is_quiet() {
        let (mut near, far) = pair();
        let quiet = || tcp_info(&far).unwrap().quiet;
        let while_it_exceeds = |least: Duration| while quiet() < least {};
        while_it_exceeds(Duration::from_millis(40));
        let before = quiet();
        near.write_all(&[1]).unwrap();
        while tcp_info(&far).unwrap().bytes_received == 0 {}
        assert!(quiet() < before, "data came");
        while_it_exceeds(Duration::from_millis(20));
    }

    #[test]
    fn a_full_window_is_the_reason_that_is_named() {
        let (mut near, _far) = pair();
        near.set_nonblocking(true).unwrap();
        set_unsent_max(&near, 64 << 10).unwrap();
        let mut written = 0;
        // Nobody reads: the peer's window fills, and then what may wait unsent.
        let info = loop {
            match near.write(&[0; 16 << 10]) {
                Ok(count) => written += count as u64,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            let info = tcp_info(&near).unwrap();
            if info.window_limited > Duration::from_millis(20) {
                break info;
            }
            std::thread::yield_now();
        };
        // One write more may begin below the bound.
        assert!((64 << 10..160 << 10).contains(&info.unsent), "{info:?}");
        assert!(info.unsent < written && info.busy >= info.window_limited, "{info:?}");
    }

    #[test]
    fn other_sockets_have_no_such_thing() {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(tcp_info(&socket).is_err() && set_unsent_max(&socket, 1).is_err());
    }
}
