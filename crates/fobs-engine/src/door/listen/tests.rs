use super::*;
use crate::streams::STREAMS_MAX;
use fobs_channel::secure::schedule::pass_of;
use fobs_channel::secure::stream::StreamPass;
use std::io::{Read, Write};
use std::net::Ipv4Addr;

/// A wait that only a broken program exceeds.
const LONG: Duration = Duration::from_secs(30);

fn pass() -> StreamPass {
    pass_of([7; 32])
}

/// A port of any number, and its gate.
fn listening() -> (Listening, Gate) {
    let gate = Gate::new(pass(), STREAMS_MAX);
    let ip = Ipv4Addr::LOCALHOST.into();
    (Listening::start(ip, 0, 1..=1, gate.clone()).unwrap(), gate)
}

fn connect(listening: &Listening) -> TcpStream {
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, listening.port)).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

/// The index of the next stream that the gate admits.
fn admitted(gate: &Gate) -> u16 {
    let end = Instant::now() + LONG;
    loop {
        match gate.poll() {
            Some(stream) => return stream.index,
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(2)),
            None => panic!("no stream was admitted"),
        }
    }
}

fn is_closed(mut socket: TcpStream) -> bool {
    // A reset is an end too: the other side had not read everything.
    matches!(socket.read(&mut [0]), Ok(0) | Err(_))
}

#[test]
fn a_stream_is_admitted_however_its_first_bytes_are_cut() {
    let (listening, gate) = listening();
    let mut socket = connect(&listening);
    for byte in pass().hello(3) {
        socket.write_all(&[byte]).unwrap();
    }
    socket.write_all(b"a record").unwrap();
    assert_eq!(admitted(&gate), 3);
}

#[test]
fn what_is_no_stream_of_the_session_is_closed() {
    let (listening, gate) = listening();
    let other = pass_of([8; 32]);
    let mut forged = pass().hello(1);
    forged[30] ^= 1;
    let table: [&[u8]; 4] =
        [&[b'G'; 42], &other.hello(1), &forged, b"FOBSTRM1 and silence, with this side closed"];
    for bytes in table {
        let mut socket = connect(&listening);
        socket.write_all(bytes).unwrap();
        assert!(is_closed(socket), "{bytes:?}");
    }
    let mut cut = connect(&listening);
    cut.write_all(&pass().hello(1)[..20]).unwrap();
    cut.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(is_closed(cut));
    assert!(gate.poll().is_none());
}

#[test]
fn the_silent_give_way_to_those_who_speak() {
    let (listening, gate) = listening();
    let mut silent: Vec<_> = (0..=PENDING_MAX).map(|_| connect(&listening)).collect();
    // Half of the first bytes is as good as none.
    silent[0].write_all(&pass().hello(1)[..21]).ok();
    let mut socket = connect(&listening);
    socket.write_all(&pass().hello(2)).unwrap();
    assert_eq!(admitted(&gate), 2);
    assert!(is_closed(silent.remove(0)), "the oldest made room");
}

#[test]
fn the_port_is_closed_with_the_session() {
    let (listening, gate) = listening();
    let port = listening.port;
    let held = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    assert!(held.is_err(), "it is taken");
    let other = Listening::start(Ipv4Addr::LOCALHOST.into(), port, 20_000..=60_000, gate).unwrap();
    assert_ne!(other.port, port, "another one of the range");
    drop(listening);
    let end = Instant::now() + LONG;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
        assert!(Instant::now() < end, "it still listens");
        std::thread::sleep(Duration::from_millis(5));
    }
}
