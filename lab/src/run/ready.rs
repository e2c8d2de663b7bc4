//! When a server may be called: once its socket stands in the kernel's tables.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::process::Process;
use crate::tool::Ready;

/// A server that is not ready by then has failed.
const READY: Duration = Duration::from_secs(10);

/// Waits until a server listens; an error if it ends before, or takes too long.
pub fn wait_ready(server: &mut Process, ready: Ready) -> Result<(), String> {
    let (tables, port, state): (_, _, &[&str]) = match ready {
        // State 0A is LISTEN; an unconnected UDP socket is in 07 (include/net/tcp_states.h).
        Ready::Tcp(port) => (["tcp", "tcp6"], port, &["0A"]),
        Ready::Udp(port) => (["udp", "udp6"], port, &["07"]),
    };
    let deadline = Instant::now() + READY;
    loop {
        for table in tables {
            let path = Path::new("/proc").join(server.pid().to_string()).join("net").join(table);
            if fs::read_to_string(path).is_ok_and(|text| has_socket(&text, port, state)) {
                return Ok(());
            }
        }
        if server.ended().is_some() {
            let output = server.output(Instant::now());
            let why = output.complaint().or(output.lines.last().map(|(_, line)| line.as_str()));
            return Err(format!(
                "{} ended before it was ready: {}",
                server.name(),
                why.unwrap_or("it said nothing")
            ));
        }
        if Instant::now() >= deadline {
            return Err(format!("{} does not listen on port {port}", server.name()));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a table of `/proc/net` has a socket with this local port in one of these states.
fn has_socket(table: &str, port: u16, states: &[&str]) -> bool {
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, state) = (fields.next(), fields.nth(1));
        local.is_some_and(|local| local.ends_with(&suffix))
            && state.is_some_and(|state| states.contains(&state))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_found_by_port_and_state() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n   \
            0: 01004D0A:B220 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n   \
            1: 01004D0A:1451 02004D0A:B221 01 00000000:00000000 00:00000000 00000000     0\n";
        assert!(has_socket(table, 0xb220, &["0A"]));
        assert!(!has_socket(table, 0x1451, &["0A"]), "an open connection does not listen");
        assert!(!has_socket(table, 0xb221, &["0A"]), "the other end's port is not this one's");
        assert!(!has_socket("", 1, &["0A"]));
    }
}
