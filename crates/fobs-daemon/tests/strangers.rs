//! Connections that never authenticate, at a running server: they keep nobody with a known key out.

mod served;

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fobs::TransferOptions;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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

/// Both ends of each connection are in this process.
fn many_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
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
    many_descriptors();
    for (count, are_closed) in [(96, false), (500, false), (1500, true)] {
        let served = Served::start(|_| ());
        fs::write(served.root().join("file"), "content").unwrap();
        let other = idle(count, Ipv4Addr::new(127, 0, 0, 2), served.address());
        copies_soon(&served, "from-another-address");
        let same = idle(count, CLIENT, served.address());
        copies_soon(&served, "from-the-same-address");
        let lines = served.notices();
        assert!(lines.len() < 12, "{} lines for {count} connections: {lines:#?}", lines.len());
        let why = "127.0.0.2:";
        let closed = lines.iter().any(|line| line.starts_with(why) && line.contains("make room"));
        assert_eq!(closed, are_closed, "{lines:#?}");
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

#[test]
fn a_thousand_idle_connections_do_not_disturb_a_running_copy() {
    many_descriptors();
    let served = Served::start(|_| ());
    fs::write(served.root().join("file"), served::content(16 << 20)).unwrap();
    let options = TransferOptions { rate_limit: Some(60_000_000), ..served.options() };
    thread::scope(|scope| {
        let copy = scope.spawn(|| served.pull("file", &served.directory("slowly"), &options));
        served::wait_for(|| (served.handle.sessions() == 1).then_some(()));
        let held: Vec<_> =
            (1..=4).flat_map(|last| idle(250, Ipv4Addr::new(127, 0, 2, last), served.address())).collect();
        assert_eq!(copy.join().unwrap().unwrap().bytes, 16 << 20);
        drop(held);
    });
    assert!(served.notices().len() < 40, "{:#?}", served.notices());
}

#[test]
fn bytes_dripping_in_before_tls_hold_no_place_for_long() {
    let served = Served::start(|_| ());
    fs::write(served.root().join("file"), "content").unwrap();
    // A TLS record of 16 KiB that begins a handshake, byte by byte: no single wait is long.
    let record = [0x16, 0x03, 0x01, 0x40, 0x00, 0x01, 0x00, 0x3f, 0xfc];
    let drips: Vec<_> = (0..4)
        .map(|_| {
            let mut socket = connection(Ipv4Addr::new(127, 0, 0, 4), served.address());
            thread::spawn(move || {
                let mut bytes = record.iter().copied().chain(std::iter::repeat(0));
                while bytes.next().is_some_and(|byte| socket.write_all(&[byte]).is_ok()) {
                    thread::sleep(Duration::from_millis(20));
                }
            })
        })
        .collect();
    copies_soon(&served, "beside-dripping-clients");
    // They end because the server closes: else this test would not.
    drips.into_iter().for_each(|drip| drip.join().unwrap());
    served.wait_for_notice(|line| line.contains("did not complete the TLS handshake in 10 s"));
}

#[test]
fn hundreds_of_new_silent_connections_a_second_keep_no_key_out() {
    many_descriptors();
    let served = Served::start(|_| ());
    fs::write(served.root().join("file"), "content").unwrap();
    let (ended, to) = (AtomicBool::new(false), served.address());
    thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let mut held = VecDeque::new();
            let mut count = 0;
            while !ended.load(Ordering::SeqCst) {
                held.push_back(connection(CLIENT, to));
                count += 1;
                if held.len() > 2000 {
                    held.pop_front();
                }
                thread::sleep(Duration::from_millis(2));
            }
            count
        });
        for number in 0..20 {
            copies_soon(&served, &format!("in-the-flood-{number}"));
            thread::sleep(Duration::from_millis(100));
        }
        ended.store(true, Ordering::SeqCst);
        assert!(flood.join().unwrap() > 200, "it was one");
    });
}

#[test]
fn handshakes_that_are_begun_and_left_keep_no_key_out() {
    many_descriptors();
    let served = Served::start(|_| ());
    fs::write(served.root().join("file"), "content").unwrap();
    // Each says enough to be talked to: more than there are places.
    let begin = || {
        let mut socket = connection(CLIENT, served.address());
        socket.write_all(&[0x16, 0x03, 0x01]).unwrap();
        socket
    };
    let held: Vec<_> = std::iter::repeat_with(begin).take(300).collect();
    copies_soon(&served, "beside-begun-handshakes");
    drop(held);
}
