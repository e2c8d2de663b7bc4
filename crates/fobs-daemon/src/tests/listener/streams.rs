//! Connections that claim to be streams of a session.

use super::{call, pull_of_file};
use crate::served::{Served, wait_for};
use fobs_channel::control::ControlChannel;
use fobs_channel::secure::schedule::pass_of;
use fobs_channel::secure::stream::{STREAM_HELLO_LEN, StreamPass};
use fobs_model::message::{Accept, Message, Open};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A session that waits for its client's first datagram, the client's end, and the pass of its streams.
fn session(served: &Served) -> (ControlChannel, Accept, StreamPass) {
    fs::write(served.root().join("file"), "content").unwrap();
    let mut channel = call(served);
    let open = Open { streams: true, ..pull_of_file() };
    channel.writer.send(&Message::Open(Box::new(open))).unwrap();
    let Ok(Some(Message::Accept(accept))) = channel.reader.recv() else { panic!("not accepted") };
    let secret = accept.secret.as_ref().expect("the server tells it").as_slice();
    let pass = pass_of(secret.try_into().expect("32 bytes"));
    (channel, accept, pass)
}

fn connect(served: &Served) -> TcpStream {
    let socket = TcpStream::connect(served.address()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket
}

/// Whether the server ends a connection that begins like this.
fn is_closed(served: &Served, bytes: &[u8]) -> bool {
    let mut socket = connect(served);
    socket.write_all(bytes).unwrap();
    // TLS says why first; a reset is an end too.
    let mut said = Vec::new();
    match socket.read_to_end(&mut said) {
        Ok(_) => true,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

/// Waits until this number of streams was refused.
fn refused(served: &Served, count: u32) {
    let line = format!("fobs_refused_total{{reason=\"stream\"}} {count}");
    wait_for(|| counted(served, &line).then_some(()));
}

fn counted(served: &Served, line: &str) -> bool {
    served.handle.metrics().lines().any(|other| other == line)
}

#[test]
fn what_belongs_to_no_session_is_closed_and_counted() {
    let served = Served::start(|_| ());
    let (channel, accept, pass) = session(&served);
    assert_eq!(accept.tcp_addresses.iter().map(|at| at.port).collect::<Vec<_>>(), [0], "the channel's port");
    let stranger = pass_of([1; 32]);
    assert!(is_closed(&served, &stranger.hello(1)));
    refused(&served, 1);
    served.wait_for_notice(|line| line.contains("refused a stream: no session has its tag"));
    assert!(is_closed(&served, &[b'F'; STREAM_HELLO_LEN]));
    refused(&served, 2);
    let mut forged = pass.hello(1);
    forged[STREAM_HELLO_LEN - 1] ^= 1;
    assert!(is_closed(&served, &forged));
    refused(&served, 3);
    // What a handshake says to anything but TLS, it says still.
    assert!(is_closed(&served, b"GET / HTTP/1.1\r\n\r\n"));
    served.wait_for_notice(|line| line.contains("protocol: "));
    // The true one is not closed, and not twice let in.
    let mut socket = connect(&served);
    socket.write_all(&pass.hello(1)).unwrap();
    wait_for(|| counted(&served, "fobs_streams_total 1").then_some(()));
    assert!(is_closed(&served, &pass.hello(1)));
    refused(&served, 4);
    drop((channel, socket));
    // Nor is one whose session has ended.
    wait_for(|| (served.handle.sessions() == 0).then_some(()));
    assert!(is_closed(&served, &pass.hello(2)));
    refused(&served, 5);
}

#[test]
fn silent_streams_keep_nobody_out() {
    let served = Served::start(|_| ());
    let (_channel, _, pass) = session(&served);
    let silent: Vec<_> = (0..200)
        .map(|_| {
            let mut socket = connect(&served);
            let _ = socket.write_all(&pass.hello(9)[..20]);
            socket
        })
        .collect();
    let mut socket = connect(&served);
    socket.write_all(&pass.hello(1)).unwrap();
    wait_for(|| counted(&served, "fobs_streams_total 1").then_some(()));
    drop(silent);
}
