//! A client that has a key with rights and lies, stalls or dies: what a server makes of it.

use std::fs;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use fobs_channel::control::{ControlChannel, hello, tls};
use fobs_channel::secure::identity::Identity;
use fobs_model::cancel::CancelToken;
use fobs_model::direction::TransferDirection;
use fobs_model::error::ErrorKind;
use fobs_model::message::{Accept, Message, Open, Resuming, Reuse, Sending};
use fobs_model::options::AddressFamily;
use fobs_store::SourceShape;

use crate::served::{Served, temporary_files, wait_for};

/// Longest wait for a server that gives up: it hears no datagram for 6 s (protocol 5.2); the rest is for a
/// slow machine.
const GIVES_UP: Duration = Duration::from_secs(30);

fn connected(served: &Served) -> ControlChannel {
    let identity = Identity::load(&served.client_key()).unwrap();
    let (host, port) = (served.address().ip().to_string(), served.address().port());
    tls::connect(&host, port, AddressFamily::Any, &identity, &CancelToken::new(), |_| Ok(())).unwrap()
}

fn open(direction: TransferDirection) -> Open {
    let shape = SourceShape::Paths { count: 1, contents: false };
    Open {
        sync: None,
        streams: false,
        direction,
        paths: vec![b"file".to_vec()],
        recursive: false,
        preserve: false,
        compress: false,
        fsync: false,
        cache: false,
        payload_size: None,
        ack_every: None,
        shape: (direction == TransferDirection::Push).then_some(shape),
        sending: Sending { cc: "auto".to_owned(), ..Sending::default() },
        udp_ports: None,
        probe: None,
        lanes: None,
        late_lanes: None,
        reuse: Reuse::default(),
        must: Vec::new(),
        timeout: None,
        resuming: Resuming::default(),
    }
}

/// A session that the server has granted, once the seat of the one before is free.
fn granted(served: &Served, direction: TransferDirection) -> (ControlChannel, Accept) {
    let begun = Instant::now();
    loop {
        let mut channel = connected(served);
        hello(&mut channel).unwrap();
        channel.writer.send(&Message::Open(Box::new(open(direction)))).unwrap();
        match channel.reader.recv() {
            Ok(Some(Message::Accept(accept))) => return (channel, accept),
            answer => assert!(begun.elapsed() < GIVES_UP, "still: {answer:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn served_one() -> Served {
    let served = Served::start(|options| options.sessions_max = 1);
    fs::write(served.root().join("file"), "content").unwrap();
    served
}

/// The only seat is free again, and nothing is left.
#[track_caller]
fn expect_a_seat(served: &Served) {
    let here = served.directory("here");
    let begun = Instant::now();
    while let Err(error) = served.pull("file", &here, &served.options()) {
        assert!(begun.elapsed() < GIVES_UP, "still: {error}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(fs::read(here.join("file")).unwrap(), b"content");
    wait_for(|| temporary_files(&served.root()).is_empty().then_some(()));
}

#[test]
fn a_client_of_another_version_is_refused_by_name() {
    let served = served_one();
    for version in [0, 2, u32::MAX] {
        let mut channel = connected(&served);
        let json = format!(r#"{{"type":"hello","protocol":{version},"program":"old","features":[]}}"#);
        channel.writer.send_json(&json);
        assert!(matches!(channel.reader.recv(), Ok(Some(Message::Hello(_)))));
        let Ok(Some(Message::Abort { code, message, .. })) = channel.reader.recv() else {
            panic!("not refused")
        };
        assert_eq!(ErrorKind::from_code(&code), ErrorKind::Protocol);
        assert!(message.contains(&format!("speaks {version}")), "{message}");
    }
    let mut channel = connected(&served);
    channel.writer.send_json(r#"{"type":"hello","protocol":2,"newest":9,"program":"fobs 9.9"}"#);
    assert!(matches!(channel.reader.recv(), Ok(Some(Message::Hello(_)))));
    assert!(matches!(channel.reader.recv(), Ok(Some(Message::Abort { .. }))));
    expect_a_seat(&served);
}

#[test]
fn a_client_that_speaks_newer_versions_too_is_served() {
    let served = served_one();
    let mut channel = connected(&served);
    let hello = r#"{"type":"hello","protocol":1,"newest":9,"program":"fobs 9.9","features":["telepathy"]}"#;
    channel.writer.send_json(hello);
    channel.writer.send_json(r#"{"type":"telepathy"}"#);
    assert!(matches!(channel.reader.recv(), Ok(Some(Message::Hello(hello))) if hello.newest.is_none()));
    let mut asked = serde_json::to_value(Message::Open(Box::new(open(TransferDirection::Push)))).unwrap();
    asked["mood"] = "good".into();
    asked["sending"]["colour"] = "green".into();
    channel.writer.send_json(&asked.to_string());
    assert!(matches!(channel.reader.recv(), Ok(Some(Message::Accept(_)))));
    drop(channel);
    expect_a_seat(&served);
}

#[test]
fn transports_and_controllers_of_a_newer_version_are_refused_by_name() {
    // A refused session holds its seat for a moment.
    let served = Served::start(|options| options.sessions_max = 4);
    fs::write(served.root().join("file"), "content").unwrap();
    let asked = |transport: &str, cc: &str| {
        let sending =
            Sending { cc: cc.to_owned(), transport: Some(transport.to_owned()), ..Sending::default() };
        let mut channel = connected(&served);
        hello(&mut channel).unwrap();
        let open = Open { streams: true, sending, ..open(TransferDirection::Pull) };
        channel.writer.send(&Message::Open(Box::new(open))).unwrap();
        match channel.reader.recv() {
            Ok(Some(Message::Abort { code, message, .. })) => (ErrorKind::from_code(&code), message),
            answer => panic!("not refused: {answer:?}"),
        }
    };
    for (transport, cc, named) in [("pigeon", "auto", "pigeon"), ("udp", "clairvoyant", "clairvoyant")] {
        let (kind, message) = asked(transport, cc);
        assert!(kind == ErrorKind::Usage && message.contains(named), "{kind:?}: {message}");
    }
    expect_a_seat(&served);
}

#[test]
fn a_client_that_dies_frees_its_seat_whenever_it_does() {
    let served = served_one();
    drop(connected(&served));
    expect_a_seat(&served);
    for direction in [TransferDirection::Pull, TransferDirection::Push] {
        drop(granted(&served, direction));
        expect_a_seat(&served);
        granted(&served, direction).0.writer.close();
        expect_a_seat(&served);
    }
}

#[test]
fn a_client_that_is_silent_on_udp_is_given_up() {
    for direction in [TransferDirection::Pull, TransferDirection::Push] {
        let served = served_one();
        let (mut channel, _) = granted(&served, direction);
        let reason = loop {
            match channel.reader.recv() {
                Ok(Some(Message::Abort { code, .. })) => break ErrorKind::from_code(&code),
                Ok(Some(_)) => {}
                other => panic!("no reason: {other:?}"),
            }
        };
        assert_eq!(reason, ErrorKind::Connect);
        expect_a_seat(&served);
    }
}

#[test]
fn a_client_that_speaks_out_of_turn_is_passed_over_or_refused() {
    let served = served_one();
    let (channel, _) = granted(&served, TransferDirection::Push);
    // Known, and senseless from this side or at this time.
    for json in [
        r#"{"type":"open","direction":"pull","paths":["ZmlsZQ=="],"recursive":false,"preserve":false,"compress":false,"payload_size":0,"ack_every":0}"#,
        r#"{"type":"hello","protocol":7,"program":"again"}"#,
        r#"{"type":"rejected","chunk":4294967295,"attempt":255}"#,
        r#"{"type":"finished","packets_needed":0,"packets_sent":0,"packets_lost":0,"rtt_ms_min":0,"packet_size":0,"cc":""}"#,
    ] {
        channel.writer.send_json(json);
    }
    channel.writer.send_json("no JSON at all");
    let mut reader = channel.reader;
    let reason = loop {
        match reader.recv() {
            Ok(Some(Message::Abort { code, .. })) => break ErrorKind::from_code(&code),
            Ok(Some(_)) => {}
            other => panic!("no reason: {other:?}"),
        }
    };
    assert_eq!(reason, ErrorKind::Protocol);
    expect_a_seat(&served);
}

/// Datagrams of a stranger.
const STRAYS: usize = 5_000;

#[test]
fn a_server_sends_strangers_nothing() {
    for direction in [TransferDirection::Pull, TransferDirection::Push] {
        let served = served_one();
        let (channel, accept) = granted(&served, direction);
        let port = accept.udp_addresses[0].port;
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        stranger.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut random = fobs_rng::Rng::new(7);
        for number in 0..STRAYS {
            let len = random.range(1, 1400) as usize;
            let mut stray: Vec<u8> = (0..len).map(|_| random.bits() as u8).collect();
            stray[0] = (number as u8 % 4) << 5 | (random.bits() as u8 & 15);
            let _ = stranger.send_to(&stray, ("127.0.0.1", port));
        }
        let mut buffer = [0; 65_536];
        let answer = stranger.recv_from(&mut buffer);
        assert!(answer.is_err(), "{:?} bytes for a stranger", answer.map(|(len, _)| len));
        drop(channel);
        expect_a_seat(&served);
    }
}

#[test]
fn a_request_with_a_part_of_a_later_version_is_refused_by_name() {
    let served = served_one();
    let mut channel = connected(&served);
    hello(&mut channel).unwrap();
    let later = Open { must: vec!["max-size".to_owned()], ..open(TransferDirection::Pull) };
    channel.writer.send(&Message::Open(Box::new(later))).unwrap();
    let answer = channel.reader.recv();
    let says = matches!(&answer, Ok(Some(Message::Abort { message, .. })) if message.contains("max-size"));
    assert!(says, "{answer:?}");
    expect_a_seat(&served);
}
