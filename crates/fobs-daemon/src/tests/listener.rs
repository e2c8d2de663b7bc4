//! Clients that break the rules, at a running server.

mod streams;

use std::net::TcpStream;
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::served::{Served, wait_for};
use fobs_channel::control::{ControlChannel, hello, tls};
use fobs_channel::secure::identity::Identity;
use fobs_model::cancel::CancelToken;
use fobs_model::direction::TransferDirection;
use fobs_model::error::ErrorKind;
use fobs_model::message::{ByteRange, Message, Open, Resuming, Reuse, Sending};
use fobs_model::options::{AddressFamily, TransferOptions};

#[test]
fn sessions_are_as_many_as_allowed() {
    let served = Served::start(|options| options.sessions_max = 1);
    fs::write(served.root().join("file"), "content").unwrap();
    let here = served.directory("here");
    // Holds a seat without a request; it may for ten seconds.
    let held = call(&served);
    let impatient = TransferOptions { timeout: Duration::from_secs(1), ..served.options() };
    let error = served.pull("file", &here, &impatient).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connect);
    assert!(error.message.contains("this server is full: 1 sessions are running"), "{error}");
    // It is told so beside strangers, too, whose places it does not need.
    let strangers: Vec<_> = (0..96).map(|_| TcpStream::connect(served.address()).unwrap()).collect();
    let error = served.pull("file", &here, &impatient).unwrap_err();
    assert!(error.message.contains("this server is full"), "{error}");
    drop(strangers);
    drop(held);
    retry(|| served.pull("file", &here, &served.options()));
}

#[test]
fn seats_come_back_however_sessions_end() {
    let served = Served::start(|options| options.sessions_max = 1);
    fs::write(served.root().join("file"), "content").unwrap();
    let here = served.directory("here");
    // More than there is room for at once, counting those that may be shaking hands.
    for round in 0..12 {
        let stranger = TcpStream::connect(served.address()).unwrap();
        drop(stranger);
        drop(call(&served));
        call(&served).writer.close();
        retry(|| match served.pull("missing", &here, &served.options()) {
            Err(error) if error.kind == ErrorKind::NoSource => Ok(()),
            other => Err(format!("{other:?}")),
        });
        let target = here.join(round.to_string());
        retry(|| served.pull("file", &target, &served.options()));
    }
}

#[test]
fn requests_that_make_no_sense_are_refused_with_a_reason() {
    let served = Served::start(|_| ());
    fs::write(served.root().join("file"), "content").unwrap();
    let (first, last) = served.udp_ports();
    let good = pull_of_file();
    let push = Open { direction: TransferDirection::Push, ..good.clone() };
    let sending = |cc: &str| Sending { cc: cc.to_owned(), ..Sending::default() };
    let usage = ErrorKind::Usage;
    for (open, kind, says) in [
        (Open { paths: Vec::new(), ..good.clone() }, usage, "1 to 100000 paths"),
        (Open { paths: vec![Vec::new(); 100_001], ..good.clone() }, ErrorKind::Protocol, "values"),
        (Open { paths: vec![b"a".to_vec(); 2], ..push.clone() }, usage, "one destination"),
        (Open { sending: sending("warp \u{1b}"), ..good.clone() }, usage, "\"warp \""),
        (Open { sending: sending(&"x".repeat(500_000)), ..good.clone() }, usage, "xxx"),
        (Open { sending: sending("fixed"), ..good.clone() }, usage, "--rate"),
        (Open { payload_size: Some(511), ..good.clone() }, usage, "511"),
        (Open { payload_size: Some(u16::MAX), ..good.clone() }, usage, "65535"),
        (Open { udp_ports: Some((first - 9, first - 1)), ..good.clone() }, usage, "UDP ports"),
        (Open { udp_ports: Some((last + 1, last + 9)), ..good.clone() }, usage, "UDP ports"),
        (Open { udp_ports: Some((last, first)), ..good.clone() }, usage, "UDP ports"),
        (Open { udp_ports: Some((0, 0)), ..good.clone() }, usage, "UDP ports"),
        (Open { paths: vec![b"../file".to_vec()], ..good.clone() }, ErrorKind::Denied, "no right"),
        (Open { paths: vec![b"nothing".to_vec()], ..good.clone() }, ErrorKind::NoSource, "nothing"),
        (Open { paths: vec![b"a/b".to_vec()], ..push.clone() }, ErrorKind::Destination, "a/b"),
        (Open { reuse: with_object(b"no chunk"), ..push.clone() }, ErrorKind::Protocol, "not understood"),
        (Open { reuse: with_object(&[0; 90_000]), ..push.clone() }, ErrorKind::Protocol, "81920 are allowed"),
        (Open { reuse: with_object(b"no chunk"), ..good.clone() }, usage, "only a push"),
        (Open { reuse: part(), ..push }, usage, "of one file"),
        (Open { reuse: part(), paths: vec![b"file".to_vec(); 2], ..good.clone() }, usage, "of one file"),
    ] {
        let mut channel = call(&served);
        channel.writer.send(&Message::Open(Box::new(open.clone()))).unwrap();
        let Ok(Some(Message::Abort { code, message, .. })) = channel.reader.recv() else {
            panic!("{says}: not refused");
        };
        assert_eq!(ErrorKind::from_code(&code), kind, "{message}");
        assert!(message.contains(says) && message.len() < 1000, "{says}: {message}");
        assert!(!message.contains(char::is_control), "{message:?}");
    }
    // What all of the above deviate from.
    let mut channel = call(&served);
    let udp_ports = Some((first, u16::MAX));
    channel
        .writer
        .send(&Message::Open(Box::new(Open { udp_ports, payload_size: Some(512), ..good })))
        .unwrap();
    let Ok(Some(Message::Accept(accept))) = channel.reader.recv() else { panic!("not accepted") };
    assert!((first..=last).contains(&accept.udp_addresses[0].port));
    assert!(accept.secret.is_some(), "what TLS yields could be had again later");
}

#[test]
fn messages_out_of_turn_end_a_session_with_a_reason() {
    let served = Served::start(|_| ());
    for message in [Message::Rejected { chunk: 0, attempt: 0 }, Message::Finished(Default::default())] {
        let mut channel = call(&served);
        channel.writer.send(&message).unwrap();
        let Ok(Some(Message::Abort { code, .. })) = channel.reader.recv() else { panic!("not refused") };
        assert_eq!(code, "protocol");
    }
    // Whatever a client sends as its reason is one line of the log.
    let channel = call(&served);
    let message = "over\nand\u{1b}[2J out".to_owned();
    channel
        .writer
        .send(&Message::Abort { code: "interrupted".to_owned(), message, busy: false, sync: String::new() })
        .unwrap();
    let line = served.wait_for_notice(|line| line.contains("interrupted"));
    assert!(!line.contains(char::is_control), "{line:?}");
}

#[test]
fn a_client_that_drips_bytes_after_tls_gives_its_seat_back() {
    let served = Served::start(|options| {
        options.sessions_max = 1;
        // The next client gets the seat, however long that takes.
        options.queue_wait = Duration::from_secs(600);
    });
    fs::write(served.root().join("file"), "content").unwrap();
    for greets_first in [false, true] {
        let channel = if greets_first { call(&served) } else { connect(&served) };
        // The start of a frame of 64 KiB, then its bytes one by one: none of them ends a wait.
        channel.writer.send_bytes(&(64_u32 << 10).to_be_bytes()).unwrap();
        let drips = thread::spawn(move || {
            while channel.writer.send_bytes(b" ").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        wait_for(|| (served.handle.sessions() == 1).then_some(()));
        served.pull("file", &served.directory("here"), &served.options()).unwrap();
        drips.join().unwrap();
        served.wait_for_notice(|line| line.contains("timeout: "));
    }
}

#[test]
fn a_client_that_comes_again_takes_the_place_of_its_session() {
    let served = Served::start(|options| options.queue_wait = Duration::from_secs(600));
    served.authorize_client_with("read-write,sessions=1");
    fs::write(served.root().join("file"), "content").unwrap();
    let ask = |id: u8| {
        let channel = call(&served);
        let resuming = Resuming { transfer_id: Some([id; 16]), ..Resuming::default() };
        channel.writer.send(&Message::Open(Box::new(Open { resuming, ..pull_of_file() }))).unwrap();
        channel
    };
    let accepted = |channel: &mut ControlChannel| {
        std::iter::from_fn(|| channel.reader.recv().unwrap()).find_map(|message| match message {
            Message::Accept(_) => Some(()),
            Message::Abort { message, .. } => panic!("refused: {message}"),
            _ => None,
        })
    };
    // A session whose client has gone without a word, as far as the daemon knows.
    let mut silent = ask(1);
    accepted(&mut silent).unwrap();
    // Another transfer of the key would wait for ten minutes.
    let mut again = ask(1);
    accepted(&mut again).unwrap();
    let end = std::iter::from_fn(|| silent.reader.recv().unwrap()).find_map(|message| match message {
        Message::Abort { code, message, .. } => Some((code, message)),
        _ => None,
    });
    let (code, message) = end.unwrap();
    assert_eq!((code.as_str(), message.contains("a newer session")), ("connect", true), "{message}");
}

/// A request that is granted.
fn with_object(object: &[u8]) -> Reuse {
    Reuse { object: Some(object.to_vec()), ..Reuse::default() }
}

fn part() -> Reuse {
    Reuse { range: Some(ByteRange { start: 0, len: 1, whole: false, stamp: None }), ..Reuse::default() }
}

fn pull_of_file() -> Open {
    Open {
        sync: None,
        streams: false,
        direction: TransferDirection::Pull,
        paths: vec![b"file".to_vec()],
        recursive: false,
        preserve: false,
        compress: false,
        fsync: false,
        cache: false,
        payload_size: None,
        ack_every: None,
        shape: None,
        sending: Sending { cc: "auto".to_owned(), ..Sending::default() },
        udp_ports: None,
        probe: None,
        lanes: None,
        late_lanes: None,
        reuse: Reuse::default(),
        must: Vec::new(),
        resuming: Resuming::default(),
        timeout: None,
    }
}

/// A client that has exchanged hellos and sent nothing else.
fn call(served: &Served) -> ControlChannel {
    let mut channel = connect(served);
    hello(&mut channel).unwrap();
    channel
}

/// A client whose TLS handshake is complete.
fn connect(served: &Served) -> ControlChannel {
    let identity = Identity::load(&served.client_key()).unwrap();
    let address = served.address();
    let (host, port) = (address.ip().to_string(), address.port());
    tls::connect(&host, port, AddressFamily::Any, &identity, &CancelToken::new(), |_| Ok(())).unwrap()
}

/// Tries again while the daemon has not noticed yet that a seat is free.
fn retry<T, E: std::fmt::Debug>(mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) => assert!(Instant::now() < end, "still: {error:?}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_client_that_went_away_while_it_waited_has_no_session() {
    let served = Served::start(|options| {
        options.sessions_max = 1;
        options.queue_wait = Duration::from_secs(600);
    });
    fs::create_dir(served.root().join("directory")).unwrap();
    let held = call(&served);
    wait_for(|| (served.handle.sessions() == 1).then_some(()));
    let waiting = call(&served);
    let open =
        Open { direction: TransferDirection::Push, paths: vec![b"directory/new".to_vec()], ..pull_of_file() };
    waiting.writer.send(&Message::Open(Box::new(open))).unwrap();
    served.wait_for_notice(|line| line.contains("push to 'directory/new' (key exchange "));
    drop(waiting);
    // Its end has arrived, for this connection comes after it.
    drop(call(&served));
    drop(held);
    served.wait_for_notice(|line| {
        line.contains("push to 'directory/new': connect: the client went away while it waited")
    });
    assert_eq!(fs::read_dir(served.root().join("directory")).unwrap().count(), 0);
}
