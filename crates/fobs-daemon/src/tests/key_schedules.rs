//! Which key schedule two programs use, one of them written out: with one that knows no other the first,
//! over TLS from the exporter.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fobs_proto::session::Side;
use fobs_proto::wire::Header;
use fobs_sys::{Ecn, Interest, UdpSocket, Waker};

use super::secrets::Needle;
use crate::served::Served;
use fobs::session::{path_validation, udp_options};
use fobs::{Transfer, TransferBuilder, keygen};
use fobs_channel::control::{ControlChannel, tls};
use fobs_channel::secure::datagram::{Cipher, Direction};
use fobs_channel::secure::identity::Identity;
use fobs_channel::secure::schedule::{KeySchedule, SessionKeys, SessionSecret};
use fobs_engine::{Clock, Incoming, Link, LinkSetup};
use fobs_model::cancel::CancelToken;
use fobs_model::direction::TransferDirection;
use fobs_model::event::{Event, EventSink};
use fobs_model::message::{
    Accept, FEATURES, Hello, HostPort, KEYS2, LEVEL_2, Message, Open, Resuming, Reuse, SecretBytes, Sending,
};
use fobs_model::options::{AddressFamily, Carrier, Location, Remote, TransferOptions};

/// Longest wait; only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn hello_with(features: &[&str]) -> Hello {
    let features = features.iter().map(|&feature| feature.to_owned()).collect();
    Hello { protocol: 1, newest: None, program: "fobs 0.2.0".to_owned(), fast_aes: false, features }
}

/// The end of the data plane that emits `direction`.
fn link(keys: SessionKeys, direction: Direction, candidates: Vec<SocketAddr>) -> (Link, u16) {
    let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &udp_options(None)).unwrap();
    let port = socket.local_addr().port();
    let (waker, clock) = (Waker::new().unwrap(), Clock::start());
    let validation = path_validation(&hello_with(FEATURES), Some([127, 0, 0, 1].into()));
    let keys = keys.datagrams;
    (
        Link::new(LinkSetup {
            socket,
            waker,
            clock,
            keys,
            direction,
            side: if candidates.is_empty() { Side::Server } else { Side::Client },
            candidates,
            named: Vec::new(),
            validation,
        }),
        port,
    )
}

/// Waits for an authentic packet; what else comes fails the test.
fn hear(link: &mut Link, mut meanwhile: impl FnMut(&mut Link)) -> Header {
    let end = Instant::now() + PATIENCE;
    loop {
        meanwhile(link);
        let mut heard = None;
        link.receive(&mut |_, packet: Incoming<'_>| heard = Some(packet.header)).unwrap();
        if let Some(header) = heard {
            return header;
        }
        assert_eq!(link.rejected(), 0, "its keys are others");
        assert!(Instant::now() < end, "nothing came");
        link.wait(Duration::from_millis(20), Interest::Readable).unwrap();
    }
}

pub(super) fn push_to(path: &str) -> Open {
    Open {
        direction: TransferDirection::Push,
        paths: vec![path.into()],
        recursive: false,
        preserve: false,
        sync: None,
        streams: false,
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

/// A client with these features at our daemon; the schedule that the daemon chose, and that both ends
/// understand.
fn client_with(served: &Served, features: &[&str]) -> (u8, bool) {
    let identity = Identity::load(&served.client_key()).unwrap();
    let (host, port) = (served.address().ip().to_string(), served.address().port());
    let connected = tls::connect(&host, port, AddressFamily::Any, &identity, &CancelToken::new(), |_| Ok(()));
    let mut channel: ControlChannel = connected.unwrap();
    channel.writer.send(&Message::Hello(hello_with(features))).unwrap();
    channel.writer.send(&Message::Open(Box::new(push_to("file")))).unwrap();
    let Ok(Some(Message::Hello(hello))) = channel.reader.recv() else { panic!("no hello") };
    assert!(hello.has(KEYS2), "it says what it can");
    let Ok(Some(Message::Accept(mut accept))) = channel.reader.recv() else { panic!("not accepted") };
    let exported = channel.exporter.take().expect("TLS yields one");
    let told = accept.secret.as_ref().map(|told| SessionSecret::told(told.as_slice()).unwrap());
    assert!(told.as_ref().is_none_or(|told| told.as_bytes() != exported.as_bytes()));
    let is_told = told.is_some();
    let needle = Needle::of(told.as_ref().unwrap_or(&exported).as_bytes());
    drop(accept.secret.take());
    let schedule = KeySchedule::from_number(accept.key_schedule).expect("a schedule of ours");
    let cipher = Cipher::from_name(&accept.cipher).unwrap();
    let keys = SessionKeys::derive(told.unwrap_or(exported), schedule, cipher);
    let at = SocketAddr::new(served.address().ip(), accept.udp_addresses[0].port);
    let (mut link, _) = link(keys, Direction::Sender, vec![at]);
    let mut number = 0;
    let header = hear(&mut link, |link| {
        let mut ping = link.seal_body(number, Header::Probe, &[]);
        link.send(&mut ping, Ecn::Ect0).unwrap();
        number += 1;
    });
    assert!(matches!(header, Header::Ack | Header::Challenge), "{header:?}");
    assert_eq!(needle.count(), 0, "what the session was made of is gone");
    (accept.key_schedule, is_told)
}

#[test]
fn a_daemon_uses_the_newest_schedule_that_its_client_knows() {
    let served = Served::start(|_| ());
    assert_eq!(client_with(&served, FEATURES), (2, true));
    assert_eq!(client_with(&served, LEVEL_2.features), (1, false), "0.2.0: from the exporter");
    assert_eq!(client_with(&served, &[]), (1, false));
}

struct Silent;

impl EventSink for Silent {
    fn event(&self, _: Event) {}
}

/// A push to a server on this host, with an identity beside the file.
fn push_over_tls(file: &Path, port: u16) -> TransferBuilder {
    let destination = Location::Remote(Remote {
        carrier: Carrier::Daemon,
        user: None,
        host: "127.0.0.1".to_owned(),
        port: Some(port),
        path: b"file".to_vec(),
    });
    let options = TransferOptions {
        identity: Some(keygen(Some(&file.with_file_name("identity"))).unwrap().path),
        known_hosts: Some(file.with_file_name("known_hosts")),
        ..TransferOptions::default()
    };
    Transfer::builder([Location::Local(file.to_owned())], destination).options(options)
}

/// Our client pushes to a daemon that says this hello and gives this answer; whether it is understood.
fn server_with(alpn: &'static [&'static [u8]], features: &'static [&'static str], schedule: KeySchedule) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("file"), vec![7; 200_000]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = thread::spawn(move || {
        let socket = listener.accept().unwrap().0;
        let identity = Identity::generate();
        let mut channel =
            tls::accept_as(alpn, socket, Instant::now(), &identity, &CancelToken::new()).unwrap();
        let Ok(Some(Message::Hello(hello))) = channel.reader.recv() else { panic!("no hello") };
        assert!(hello.has(KEYS2), "it says what it can");
        // One that is foretold is not waited for.
        channel.writer.send(&Message::Hello(hello_with(features))).unwrap();
        let Ok(Some(Message::Open(_))) = channel.reader.recv() else { panic!("no request") };
        let exported = channel.exporter.take().expect("TLS yields one");
        let (secret, told) = match schedule {
            KeySchedule::First => (exported, None),
            KeySchedule::Second => {
                let secret = SessionSecret::random();
                let told = SecretBytes::new(secret.as_bytes());
                (secret, Some(told))
            }
        };
        let needle = Needle::of(secret.as_bytes());
        let cipher = Cipher::ChaCha20Poly1305;
        let (mut link, port) =
            link(SessionKeys::derive(secret, schedule, cipher), Direction::Receiver, vec![]);
        let answer = Accept {
            udp_addresses: vec![HostPort { host: None, port }],
            tcp_addresses: Vec::new(),
            lanes: None,
            late_lanes: None,
            secret: told,
            key_schedule: schedule.number(),
            cipher: cipher.name().to_owned(),
            shape: None,
            chunk_limit: 40,
            survey: false,
            limit_bps: None,
            withholds: false,
            made: None,
            object: None,
        };
        channel.writer.send(&Message::Accept(answer)).unwrap();
        let header = hear(&mut link, |_| ());
        assert!(matches!(header, Header::Data(_) | Header::Probe), "{header:?}");
        // An ack that says nothing, so that the client does not lose patience.
        let mut ack = link.seal_body(0, Header::Ack, &[]);
        link.send(&mut ack, Ecn::Ect0).unwrap();
        // With the first schedule the client keeps what streams need.
        assert_eq!(needle.count() > 0, schedule == KeySchedule::First, "what is left of the secret");
        let (code, message) = ("denied".to_owned(), "that was all".to_owned());
        channel.writer.send(&Message::Abort { code, message, busy: false, sync: String::new() }).unwrap();
        while let Ok(Some(_)) = channel.reader.recv() {}
    });
    let transfer = push_over_tls(&path("file"), port);
    let error = transfer.events(Arc::new(Silent)).start().unwrap().wait().unwrap_err();
    serving.join().expect("the client's packets are understood");
    assert!(error.message.contains("that was all"), "{error}");
}

#[test]
fn a_client_uses_the_schedule_that_its_server_names() {
    for alpn in [&[tls::ALPN][..], &[LEVEL_2.alpn]] {
        server_with(alpn, LEVEL_2.features, KeySchedule::First);
        server_with(alpn, FEATURES, KeySchedule::Second);
    }
}
