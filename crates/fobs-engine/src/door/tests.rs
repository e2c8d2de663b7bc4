//! Doors at both ends of a control channel.

use super::*;
use crate::streams::{Door, DoorEvent, STREAMS_MAX, StreamIo};
use fobs_channel::control::ControlChannel;
use fobs_channel::control::pair::pair;
use fobs_channel::secure::schedule::pass_of;
use fobs_channel::secure::stream::StreamPass;
use fobs_model::message::Message;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

fn pass() -> StreamPass {
    pass_of([7; 32])
}

fn server(channel: &mut ControlChannel) -> (ServerDoor, SocketAddr) {
    let (lane, mailbox) = channel.open_lane().unwrap();
    let gate = Gate::new(pass(), STREAMS_MAX);
    let own = Listening::start(Ipv4Addr::LOCALHOST.into(), 0, 1..=1, gate.clone()).unwrap();
    let address = (Ipv4Addr::LOCALHOST, own.port).into();
    let writer = channel.writer.clone();
    let entrance: Option<Box<dyn Send>> = Some(Box::new(own));
    (ServerDoor { gate, lane: Some(lane), mailbox, writer, entrance, asked: 0 }, address)
}

fn client(channel: &mut ControlChannel, addresses: Vec<SocketAddr>) -> ClientDoor {
    let (lane, mailbox) = channel.open_lane().unwrap();
    let addresses = Box::new(move || addresses);
    let dialer = Dialer::start(Target { addresses, name: "there".to_owned(), pass: pass() }).unwrap();
    let writer = channel.writer.clone();
    ClientDoor { lane: Some(lane), dialer: Some(dialer), mailbox, writer, server_asks: true }
}

/// Reads a channel until it ends; what it brings for the door goes there.
fn read(mut channel: ControlChannel) {
    thread::spawn(move || while let Ok(Some(_)) = channel.reader.recv() {});
}

fn next(door: &mut dyn Door) -> DoorEvent {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match door.poll() {
            Some(event) => return event,
            None => assert!(Instant::now() < end, "nothing came"),
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn index(event: DoorEvent) -> (u16, bool) {
    match event {
        DoorEvent::Opened(stream) => (stream.index, matches!(stream.io, StreamIo::Channel(_))),
        DoorEvent::Failed(error) => panic!("{error}"),
    }
}

#[test]
fn a_server_gets_the_streams_that_it_asks_for() {
    let (mut left, mut right) = pair();
    let (mut server, address) = server(&mut left);
    let mut client = client(&mut right, vec![address]);
    read(left);
    read(right);
    assert_eq!((index(next(&mut server)), index(next(&mut client))), ((0, true), (0, true)), "the lane");
    server.want(2);
    server.want(2);
    let mut made = [index(next(&mut client)), index(next(&mut client))];
    let mut came = [index(next(&mut server)), index(next(&mut server))];
    made.sort_unstable();
    came.sort_unstable();
    assert_eq!((made, came), ([(1, false), (2, false)], [(1, false), (2, false)]));
}

#[test]
fn a_server_hears_why_it_gets_none() {
    let (mut left, mut right) = pair();
    let (mut server, _) = server(&mut left);
    let mut client = client(&mut right, Vec::new());
    read(left);
    read(right);
    let _lanes = (next(&mut server), next(&mut client));
    server.want(1);
    let DoorEvent::Failed(here) = next(&mut client) else { panic!("a stream opened") };
    let DoorEvent::Failed(there) = next(&mut server) else { panic!("a stream opened") };
    assert!(here.message.contains("no address is known"), "{here}");
    assert!(there.message.contains("the client says: no TCP connection for data to there"), "{there}");
}

#[test]
fn a_server_without_an_entrance_asks_for_nothing() {
    let (mut left, mut right) = pair();
    let (mut server, _) = server(&mut left);
    server.entrance = None;
    server.want(4);
    left.writer.send(&Message::Rejected { chunk: 1, attempt: 0 }).unwrap();
    assert_eq!(right.reader.recv(), Ok(Some(Message::Rejected { chunk: 1, attempt: 0 })));
}
