//! Connections that never authenticate, at a running server: they keep nobody with a known key out.

mod served;

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use served::Served;

/// The address that the authorized client uses.
const CLIENT: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Far less than the 10 s that an idle connection may stay.
const SOON: Duration = Duration::from_secs(5);

/// A connection from another address of this host.
fn connection(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    connect(&socket, &to).unwrap();
    TcpStream::from(socket)
}

fn idle(count: usize, from: Ipv4Addr, to: SocketAddr) -> Vec<TcpStream> {
    std::iter::repeat_with(|| connection(from, to)).take(count).collect()
}

/// Copies with the known key, from [`CLIENT`].
#[track_caller]
fn copies_soon(served: &Served, name: &str) {
    let began = Instant::now();
    served.pull("file", &served.directory("here").join(name), &served.options()).unwrap();
    assert!(began.elapsed() < SOON, "{name} took {:?}", began.elapsed());
}

#[test]
fn idle_connections_from_one_address_keep_no_key_out() {
    for count in [96, 500] {
        let served = Served::start(|_| ());
        fs::write(served.root().join("file"), "content").unwrap();
        let other = idle(count, Ipv4Addr::new(127, 0, 0, 2), served.address());
        copies_soon(&served, "from-another-address");
        let same = idle(count, CLIENT, served.address());
        copies_soon(&served, "from-the-same-address");
        let lines = served.notices();
        assert!(lines.len() < 12, "{} lines for {count} connections: {lines:#?}", lines.len());
        let why = "127.0.0.2:";
        assert!(lines.iter().any(|line| line.starts_with(why) && line.contains("make room")), "{lines:#?}");
        drop((other, same));
    }
}

#[test]
fn idle_connections_from_many_addresses_keep_no_key_out() {
    let served = Served::start(|_| ());
    fs::write(served.root().join("file"), "content").unwrap();
    let address = |last: u8| Ipv4Addr::new(127, 0, 1, last);
    let held: Vec<_> = (1..=250).map(|last| connection(address(last), served.address())).collect();
    copies_soon(&served, "beside-strangers-of-many-addresses");
    assert!(served.notices().len() < 20, "{:#?}", served.notices());
    drop(held);
}

#[test]
fn bad_handshakes_are_counted_and_not_repeated_in_the_log() {
    let mut served = Served::start(|_| ());
    fs::write(served.root().join("file"), "content").unwrap();
    for _ in 0..1000 {
        let mut stranger = connection(Ipv4Addr::new(127, 0, 0, 3), served.address());
        // The server may have closed it already.
        let _ = stranger.write_all(b"GET / HTTP/1.1\r\n\r\n");
    }
    copies_soon(&served, "after-the-noise");
    served.cancel.cancel();
    served.thread.take().unwrap().join().unwrap().unwrap_err();
    let lines = served.notices();
    assert!(lines.len() < 12, "{} lines: {lines:#?}", lines.len());
    let count = |line: &String| {
        let (_, rest) = line.split_once("; and ")?;
        let (count, rest) = rest.split_once(" more like it from 127.0.0.3, in the last ")?;
        rest.ends_with(" s").then(|| count.replace(',', "").parse::<usize>().unwrap())
    };
    let counted: usize = lines.iter().filter_map(count).sum();
    assert!(counted > 900, "{lines:#?}");
}
