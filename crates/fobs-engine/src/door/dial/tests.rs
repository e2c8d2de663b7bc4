use super::super::{Gate, Listening};
use super::*;
use fobs_channel::secure::schedule::pass_of;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};

/// A wait that only a broken program exceeds.
const LONG: Duration = Duration::from_secs(30);

fn pass() -> StreamPass {
    pass_of([7; 32])
}

fn dialer(addresses: Vec<SocketAddr>) -> Dialer {
    let addresses = Box::new(move || addresses);
    Dialer::start(Target { addresses, name: "the server".to_owned(), pass: pass() }).unwrap()
}

fn listening() -> (Listening, Gate, SocketAddr) {
    let gate = Gate::new(pass(), STREAMS_MAX);
    let ip = Ipv4Addr::LOCALHOST.into();
    let listening = Listening::start(ip, 0, 1..=1, gate.clone()).unwrap();
    let address = (ip, listening.port).into();
    (listening, gate, address)
}

/// A port on which nothing listens.
fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn wait_for<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        match poll() {
            Some(found) => return found,
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(2)),
            None => panic!("nothing came"),
        }
    }
}

fn opened(dialer: &Dialer) -> NewStream {
    match wait_for(|| dialer.poll()) {
        DoorEvent::Opened(stream) => stream,
        DoorEvent::Failed(error) => panic!("{error}"),
    }
}

fn failed(dialer: &Dialer) -> Error {
    match wait_for(|| dialer.poll()) {
        DoorEvent::Opened(stream) => panic!("stream {} opened", stream.index),
        DoorEvent::Failed(error) => error,
    }
}

#[test]
fn as_many_streams_are_made_as_are_wanted() {
    let (_listening, gate, address) = listening();
    let dialer = dialer(vec![address]);
    assert!(dialer.poll().is_none(), "nobody wants any");
    dialer.want(STREAMS_MAX + 7);
    let streams: Vec<_> = (0..STREAMS_MAX).map(|_| opened(&dialer)).collect();
    let indices = |streams: &[NewStream]| streams.iter().map(|stream| stream.index).collect::<BTreeSet<_>>();
    assert_eq!(indices(&streams), (1..=STREAMS_MAX as u16).collect());
    let there: Vec<_> = (0..STREAMS_MAX).map(|_| wait_for(|| gate.poll())).collect();
    assert_eq!(indices(&there), indices(&streams));
    // One that is too many may go without another in its place.
    dialer.want(STREAMS_MAX - 1);
    dialer.closed(5);
    dialer.closed(5);
    assert_eq!(dialer.shared.state().missing(), 0);
    assert!(dialer.poll().is_none());
}

#[test]
fn a_stream_that_ends_at_once_is_replaced_after_a_pause() {
    let (_listening, _gate, address) = listening();
    let dialer = dialer(vec![address]);
    dialer.want(1);
    let first = opened(&dialer);
    let before = Instant::now();
    dialer.closed(first.index);
    assert_eq!(opened(&dialer).index, 2);
    // A lower bound is no race.
    assert!(before.elapsed() >= PAUSE_FIRST, "{:?}", before.elapsed());
}

#[test]
fn of_several_addresses_the_one_that_answers_is_used() {
    let (_listening, _gate, address) = listening();
    let dialer = dialer(vec![closed_port(), address]);
    dialer.want(3);
    for _ in 0..3 {
        let stream = opened(&dialer);
        let StreamIo::Tcp(socket) = stream.io else { panic!("it is a connection") };
        assert_eq!(socket.peer_addr().unwrap(), address);
    }
}

#[test]
fn a_failure_names_the_server_and_the_reason() {
    let refusing = dialer(vec![closed_port()]);
    refusing.want(2);
    let error = failed(&refusing);
    assert_eq!(error.kind, ErrorKind::Connect);
    for part in ["the server", "refused", "firewalls"] {
        assert!(error.message.contains(part), "{part}: {error}");
    }
    let nowhere = dialer(Vec::new());
    nowhere.want(1);
    assert!(failed(&nowhere).message.contains("no address is known"));
}

#[test]
fn the_thread_ends_with_the_dialer() {
    let (_listening, _gate, address) = listening();
    let dialer = dialer(vec![address]);
    dialer.want(1);
    opened(&dialer);
    let shared = Arc::downgrade(&dialer.shared);
    drop(dialer);
    wait_for(|| shared.upgrade().is_none().then_some(()));
}
