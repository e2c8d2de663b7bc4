use super::*;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(50);

/// Both ends of `count` connections, the client's first.
fn connections(count: usize) -> Vec<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = || {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    };
    std::iter::repeat_with(connect).take(count).collect()
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

/// Says a word, which the other end reads.
fn speak((client, server): &mut (TcpStream, TcpStream)) {
    client.write_all(b"x").unwrap();
    server.read_exact(&mut [0]).unwrap();
}

fn is_closed(client: &TcpStream) -> bool {
    client.peek(&mut [0]).unwrap() == 0
}

#[test]
fn the_silent_make_room_before_those_that_spoke() {
    let (places, mut pairs) = (Places::new(3, Yields::Anybody), connections(6));
    let admit = |pair: &(TcpStream, TcpStream)| places.admit(&pair.1, address(1)).unwrap().unwrap();
    speak(&mut pairs[0]);
    let held: Vec<_> = pairs[..3].iter().map(admit).collect();
    let fourth = admit(&pairs[3]);
    assert!(held[0].is_held() && !held[1].is_held() && held[2].is_held(), "the longest silent one");
    assert!(is_closed(&pairs[1].0));
    let _fifth = admit(&pairs[4]);
    assert!(held[0].is_held() && !held[2].is_held());
    // With nobody silent, the one that has been quiet the longest.
    pairs[3..5].iter_mut().for_each(speak);
    thread::sleep(SHORT);
    speak(&mut pairs[0]);
    speak(&mut pairs[4]);
    let _sixth = admit(&pairs[5]);
    assert!(held[0].is_held() && !fourth.is_held());
    assert!(!fourth.leave() && held[0].leave() && !held[0].leave());
}

#[test]
fn one_that_gets_on_makes_room_for_nobody() {
    let idle = Yields::TheIdle { quiet: SHORT, age: LONG };
    let (places, mut pairs) = (Places::new(2, idle), connections(4));
    let admit = |pair: &(TcpStream, TcpStream)| places.admit(&pair.1, address(1)).unwrap();
    speak(&mut pairs[0]);
    // What we have not read is no silence of the peer.
    pairs[1].0.write_all(b"unread").unwrap();
    wait_until(|| ioctl_fionread(&pairs[1].1).unwrap() > 0);
    let held = [admit(&pairs[0]).unwrap(), admit(&pairs[1]).unwrap()];
    wait_until(|| admit(&pairs[2]).is_some());
    assert!(!held[0].is_held() && held[1].is_held(), "it had nothing more to say");
    drop(held);
    // However much it says, there is an end.
    let tired = Places::new(1, Yields::TheIdle { quiet: LONG, age: SHORT });
    let held = tired.admit(&pairs[1].1, address(1)).unwrap().unwrap();
    assert!(tired.admit(&pairs[3].1, address(1)).unwrap().is_none());
    thread::sleep(SHORT);
    assert!(tired.admit(&pairs[3].1, address(1)).unwrap().is_some());
    assert!(!held.is_held());
}

#[test]
fn the_largest_network_makes_room() {
    let (places, pairs) = (Places::new(8, Yields::Anybody), connections(10));
    let from = |index: usize| address(if index < 3 { index as u8 } else { 9 });
    let admit = |index: usize| places.admit(&pairs[index].1, from(index)).unwrap().unwrap();
    let held: Vec<_> = (0..8).map(admit).collect();
    let newest = [admit(8), admit(9)];
    assert!(newest.iter().all(Place::is_held) && held[..3].iter().all(Place::is_held));
    assert_eq!(held.iter().filter(|place| !place.is_held()).count(), 2);
    assert_eq!(places.by_network()[&Network::of(address(9))], 5);
    drop((held, newest));
    assert!(places.by_network().is_empty());
}

fn wait_until(come_true: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !come_true() {
        assert!(Instant::now() < end, "in time");
        thread::sleep(Duration::from_millis(2));
    }
}
