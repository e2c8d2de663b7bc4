//! What the user asks of the kernel's TCP for streams: its congestion control and its buffers.

use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::options::TcpTuning;
use fobs_sys::confine::{Errand, outside};
use rustix::net::{AddressFamily, SocketType, socket, sockopt};
use std::net::TcpStream;
use std::{fs, io};

/// The congestion controls that the kernel has loaded. A name that is not among them is not tried: for a
/// privileged process the kernel would load a module of that name, and a peer may have chosen it.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Characters of a name that are shown: the kernel's have at most 15 (`TCP_CA_NAME_MAX`).
const NAME_SHOWN: usize = 16;

/// Refuses a congestion control that this process may not use.
///
/// # Errors
/// `Usage`, with what there is instead.
pub fn permitted(name: &str) -> Result<()> {
    let available = outside(Errand::Counters, || fs::read_to_string(AVAILABLE).unwrap_or_default());
    let refusal = |why: &str| {
        let (name, available) = (fobs_model::text::printable(name, NAME_SHOWN), available.trim());
        Error::new(ErrorKind::Usage, format!("--tcp-cc {name}: {why}; this kernel has {available}"))
    };
    if !available.split_ascii_whitespace().any(|one| one == name) {
        return Err(refusal("the sender has no such congestion control for TCP"));
    }
    // One that is neither bound nor connected: a session may make no other.
    let tried = socket(AddressFamily::INET, SocketType::STREAM, None)
        .and_then(|socket| sockopt::set_tcp_congestion(&socket, name));
    tried.map_err(|errno| {
        let error = io::Error::from(errno);
        refusal(&format!("the sender may not use it ({error}; net.ipv4.tcp_allowed_congestion_control)"))
    })
}

/// Sets up a connection. The kernel cuts a buffer to its own limits (`net.core.wmem_max`, `rmem_max`).
pub(super) fn apply(tuning: &TcpTuning, socket: &TcpStream) -> io::Result<()> {
    if let Some(bytes) = tuning.buffer {
        sockopt::set_socket_send_buffer_size(socket, bytes as usize)?;
        sockopt::set_socket_recv_buffer_size(socket, bytes as usize)?;
        // The kernel doubled what it took, for its overhead.
        let taken = sockopt::socket_recv_buffer_size(socket)? / 2;
        fobs_sys::set_window_max(socket, u32::try_from(taken).unwrap_or(u32::MAX))?;
    }
    if let Some(name) = &tuning.congestion {
        sockopt::set_tcp_congestion(socket, name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn a_connection_gets_the_congestion_control_and_buffers() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        permitted("reno").unwrap();
        apply(&TcpTuning { congestion: Some("reno".to_owned()), buffer: Some(48 << 10) }, &socket).unwrap();
        assert_eq!(sockopt::tcp_congestion(&socket).unwrap(), "reno");
        // The kernel doubles what is asked, for its own overhead.
        assert_eq!(sockopt::socket_send_buffer_size(&socket).unwrap(), 96 << 10);
        assert_eq!(sockopt::socket_recv_buffer_size(&socket).unwrap(), 96 << 10);
        let before = sockopt::tcp_congestion(&listener).unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        apply(&TcpTuning::default(), &other).unwrap();
        assert_eq!(sockopt::tcp_congestion(&other).unwrap(), before);
    }

    #[test]
    fn a_larger_buffer_is_a_larger_window() {
        let window = |tuning: &TcpTuning| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut far, _) = listener.accept().unwrap();
            // As at the daemon, the receiver's connection is there before it is set up.
            apply(tuning, &far).unwrap();
            near.set_nonblocking(true).unwrap();
            far.set_nonblocking(true).unwrap();
            let (mut widest, mut bytes) = (0, vec![0; 64 << 10]);
            for _ in 0..2000 {
                let _ = near.write(&bytes);
                let _ = far.read(&mut bytes);
                widest = fobs_sys::tcp_info(&near).unwrap().peer_window.max(widest);
            }
            widest
        };
        let of = |bytes| window(&TcpTuning { congestion: None, buffer: Some(bytes) });
        let (small, large) = (of(64 << 10), of(1 << 20));
        assert!(small <= 128 << 10 && large > 300 << 10, "{small} and {large}");
    }

    #[test]
    fn what_the_kernel_has_not_is_refused_by_name() {
        for name in ["", "no such", "../x", "RENO", "reno bbr", &"x".repeat(100)] {
            let error = permitted(name).unwrap_err();
            assert!(error.kind == ErrorKind::Usage && error.message.contains("reno"), "{error}");
        }
    }
}
