//! A server that has the expected key and lies, stalls or dies: what a client makes of it.

use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fs, io, iter};

use fobs_proto::wire::Header;

use fobs::{Transfer, keygen};
use fobs_channel::control::{ControlChannel, hello, tls};
use fobs_channel::secure::identity::Identity;
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind};
use fobs_model::event::{Event, EventSink, Outcome};
use fobs_model::message::{Accept, Hello, HostPort, LanesGrant, Message, SecretBytes};
use fobs_model::options::{Carrier, Location, Remote, TransferOptions, Transport};
use fobs_store::SourceShape;

/// Which way the client copies.
#[derive(Debug, Clone, Copy)]
enum Way {
    Push,
    Pull,
}

struct Silent;

impl EventSink for Silent {
    fn event(&self, _: Event) {}
}

/// Runs a client against a server that speaks TLS and then does as `script` says, before any hello.
fn copy_from(way: Way, script: impl FnOnce(ControlChannel) + Send + 'static) -> Outcome {
    copy_within(TransferOptions::default().timeout, way, script)
}

/// The same with another `--timeout`.
fn copy_within(timeout: Duration, way: Way, script: impl FnOnce(ControlChannel) + Send + 'static) -> Outcome {
    copy_with(TransferOptions { timeout, ..TransferOptions::default() }, way, script)
}

/// The same with these options.
fn copy_with(
    options: TransferOptions,
    way: Way,
    script: impl FnOnce(ControlChannel) + Send + 'static,
) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::create_dir(path("to")).unwrap();
    // Too large to travel in the request.
    fs::write(path("file"), vec![7; 20_000]).unwrap();
    let (port, server) = serve(script);
    let remote = Location::Remote(Remote {
        carrier: Carrier::Daemon,
        user: None,
        host: "127.0.0.1".to_owned(),
        port: Some(port),
        path: b"file".to_vec(),
    });
    let (source, destination) = match way {
        Way::Push => (Location::Local(path("file")), remote),
        Way::Pull => (remote, Location::Local(path("to"))),
    };
    let options = TransferOptions {
        identity: Some(keygen(Some(&path("identity"))).unwrap().path),
        known_hosts: Some(path("known_hosts")),
        ..options
    };
    let outcome = Transfer::builder([source], destination)
        .options(options)
        .events(Arc::new(Silent))
        .start()
        .unwrap()
        .wait();
    server.join().unwrap();
    expect_untouched(&path("to"));
    outcome
}

fn serve(script: impl FnOnce(ControlChannel) + Send + 'static) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = thread::spawn(move || {
        let socket = listener.accept().unwrap().0;
        script(
            tls::accept_as(
                &[tls::ALPN],
                socket,
                std::time::Instant::now(),
                &Identity::generate(),
                &CancelToken::new(),
            )
            .unwrap(),
        );
    });
    (port, serving)
}

#[track_caller]
fn expect_untouched(directory: &Path) {
    let names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.is_empty(), "{names:?}");
}

/// After the hellos and the client's request.
fn asked(script: impl FnOnce(&mut ControlChannel) + Send + 'static) -> impl FnOnce(ControlChannel) + Send {
    move |mut channel| {
        hello(&mut channel).unwrap();
        assert!(matches!(channel.reader.recv(), Ok(Some(Message::Open(_)))));
        script(&mut channel);
    }
}

/// The hello of a program without streams.
fn older_hello(channel: &ControlChannel) {
    let features = vec!["survey".to_owned(), "path-validation".to_owned()];
    let hello =
        Hello { protocol: 1, newest: None, program: "fobs 0.1.0".to_owned(), fast_aes: false, features };
    channel.writer.send(&Message::Hello(hello)).unwrap();
}

#[test]
fn a_server_without_streams_is_asked_for_none() {
    for (transport, refused) in [
        (Transport::Auto, false),
        (Transport::Udp, false),
        (Transport::Tcp { count: None }, true),
        (Transport::Channel, true),
    ] {
        for way in [Way::Push, Way::Pull] {
            let options = TransferOptions { transport, ..TransferOptions::default() };
            let outcome = copy_with(options, way, move |mut channel| {
                older_hello(&channel);
                assert!(matches!(channel.reader.recv(), Ok(Some(Message::Hello(_)))));
                match channel.reader.recv() {
                    Ok(Some(Message::Open(open))) => assert!(!open.streams && !refused, "{transport}"),
                    other => assert!(refused, "{transport}: {other:?}"),
                }
                let (code, message) = ("denied".to_owned(), "that was all".to_owned());
                let _ =
                    channel.writer.send(&Message::Abort { code, message, busy: false, sync: String::new() });
                hear_abort(&mut channel);
            });
            if refused {
                expect(outcome, ErrorKind::Protocol, &format!("leave out --transport {transport}"))
            } else {
                expect(outcome, ErrorKind::Denied, "that was all")
            }
        }
    }
}

#[test]
fn a_server_that_takes_no_connections_is_named_where_tcp_is_wanted() {
    let options =
        TransferOptions { transport: Transport::Tcp { count: Some(2) }, ..TransferOptions::default() };
    let outcome = copy_with(
        options,
        Way::Push,
        asked(|channel| {
            channel.writer.send(&Message::Accept(accept_at(9))).unwrap();
            hear_abort(channel);
        }),
    );
    expect(outcome, ErrorKind::Connect, "takes no TCP connections");
}

/// An answer that fits, with its UDP port at `port`.
fn accept_at(port: u16) -> Accept {
    Accept {
        udp_addresses: vec![HostPort { host: None, port }],
        tcp_addresses: Vec::new(),
        lanes: None,
        late_lanes: None,
        secret: None,
        key_schedule: 1,
        cipher: "AES-128-GCM".to_owned(),
        shape: Some(SourceShape::Paths { count: 1, contents: false }),
        chunk_limit: 40,
        survey: false,
        limit_bps: None,
        withholds: false,
        made: None,
        object: None,
    }
}

/// Waits until the client has ended the session; its reason.
fn hear_abort(channel: &mut ControlChannel) -> Option<Error> {
    loop {
        match channel.reader.recv() {
            Ok(Some(Message::Abort { code, message, .. })) => {
                return Some(Error::new(ErrorKind::from_code(&code), message));
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return None,
        }
    }
}

#[track_caller]
fn expect(outcome: Outcome, kind: ErrorKind, says: &str) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.message.contains(says), "{says:?} is missing: {error}");
    assert!(error.message.len() < 2000 && !error.message.contains(char::is_control), "{error:?}");
}

#[test]
fn a_server_of_another_version_is_refused_by_name() {
    for version in [0, 2, u32::MAX] {
        let json = format!(
            r#"{{"type":"hello","protocol":{version},"program":"fobs 9.9","features":["telepathy"],"new":{{}}}}"#
        );
        let outcome = copy_from(Way::Push, move |mut channel| {
            channel.writer.send_json(&json);
            let reason = hear_abort(&mut channel).expect("the client says why");
            assert_eq!(reason.kind, ErrorKind::Protocol);
        });
        expect(outcome, ErrorKind::Protocol, &format!("speaks {version}"));
    }
}

#[test]
fn features_and_members_that_are_not_known_are_passed_over() {
    let outcome = copy_from(Way::Push, |mut channel| {
        let hello = r#"{"type":"hello","protocol":1,"program":"fobs 9.9","features":["telepathy"],"new":{"deep":[1]}}"#;
        channel.writer.send_json(hello);
        channel.writer.send_json(r#"{"type":"telepathy"}"#);
        assert!(matches!(channel.reader.recv(), Ok(Some(Message::Hello(_)))));
        assert!(matches!(channel.reader.recv(), Ok(Some(Message::Open(_)))));
        let abort = r#"{"type":"abort","code":"destination","message":"heard you","new":1}"#;
        channel.writer.send_json(abort);
    });
    expect(outcome, ErrorKind::Destination, "heard you");
}

#[test]
fn a_server_that_dies_is_named_whenever_it_does() {
    for way in [Way::Push, Way::Pull] {
        expect(copy_from(way, drop), ErrorKind::Connect, "127.0.0.1");
        let closes = |channel: ControlChannel| channel.writer.close();
        expect(copy_from(way, closes), ErrorKind::Protocol, "ended before a hello");
        let dies = |mut channel: ControlChannel| drop(hello(&mut channel));
        expect(copy_from(way, dies), ErrorKind::Connect, "127.0.0.1");
        let closes = asked(|channel| channel.writer.close());
        expect(copy_from(way, closes), ErrorKind::Connect, "instead of answering");
        let dies = asked(|channel| channel.writer.send(&Message::Accept(accept_at(1))).unwrap());
        expect(copy_from(way, dies), ErrorKind::Connect, "127.0.0.1");
    }
}

#[test]
fn a_server_that_never_answers_is_given_up_after_the_timeout() {
    for way in [Way::Push, Way::Pull] {
        let script = asked(|channel| {
            hear_abort(channel);
        });
        let error = copy_within(Duration::from_secs(1), way, script).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
    }
}

#[test]
fn a_server_that_speaks_out_of_turn_is_refused() {
    for json in [
        r#"{"type":"finished","packets_needed":0,"packets_sent":0,"packets_lost":0,"rtt_ms_min":0,"packet_size":0,"cc":""}"#,
        r#"{"type":"hello","protocol":1,"program":"again"}"#,
        r#"{"type":"complete","root":"","files":0,"bytes":0,"seconds":0}"#,
        r#"{"type":"rejected","chunk":0,"attempt":0}"#,
    ] {
        let script = asked(move |channel| {
            channel.writer.send_json(json);
            hear_abort(channel);
        });
        expect(copy_from(Way::Pull, script), ErrorKind::Protocol, "out of turn");
    }
    let script = asked(|channel| channel.writer.send_json(r#"{"type":"accept"}"#));
    expect(copy_from(Way::Pull, script), ErrorKind::Protocol, "not understood");
}

#[test]
fn reasons_of_a_server_are_shown_without_its_tricks() {
    let kinds =
        [("denied", ErrorKind::Denied), ("no_source", ErrorKind::NoSource), ("lunar", ErrorKind::Protocol)];
    for (code, kind) in kinds {
        let script = asked(move |channel| {
            let message = format!("\u{1b}[2Jno\nentry {}", "x".repeat(100_000));
            let abort = Message::Abort { code: code.to_owned(), message, busy: false, sync: String::new() };
            channel.writer.send(&abort).unwrap();
        });
        expect(copy_from(Way::Pull, script), kind, "[2Jnoentry xxx");
    }
}

#[test]
fn answers_that_cannot_be_are_refused_with_a_reason() {
    let cases: Vec<(Accept, ErrorKind, &str)> = vec![
        (Accept { cipher: "ROT13\u{1b}".to_owned(), ..accept_at(1) }, ErrorKind::Protocol, "cipher"),
        (Accept { udp_addresses: Vec::new(), ..accept_at(1) }, ErrorKind::Connect, "no address"),
        (
            Accept { lanes: Some(LanesGrant { ports: vec![9], window: 7 }), ..accept_at(1) },
            ErrorKind::Protocol,
            "2 lanes where 1 were asked for",
        ),
        (Accept { key_schedule: 3, ..accept_at(1) }, ErrorKind::Protocol, "derives keys in a way"),
        (Accept { key_schedule: 2, ..accept_at(1) }, ErrorKind::Protocol, "sent no session secret"),
        (
            Accept { key_schedule: 2, secret: Some(SecretBytes::new(&[7; 31])), ..accept_at(1) },
            ErrorKind::Protocol,
            "secret of a wrong length",
        ),
    ];
    for (accept, kind, says) in cases {
        let script = asked(move |channel| {
            channel.writer.send(&Message::Accept(accept)).unwrap();
            let reason = hear_abort(channel).expect("the client says why");
            assert_eq!(reason.kind, kind, "{reason}");
        });
        expect(copy_from(Way::Push, script), kind, says);
    }
}

#[test]
fn addresses_that_take_no_datagrams_end_in_a_clear_error() {
    // Broadcast, multicast, nobody, port 0: errors of the kernel, or silence.
    thread::scope(|scope| {
        for (host, port) in [("255.255.255.255", 9), ("224.0.0.1", 9), ("127.0.0.1", 0), ("0.0.0.0", 9)] {
            scope.spawn(move || {
                let udp_addresses = vec![HostPort { host: Some(host.to_owned()), port }];
                let script = asked(move |channel| {
                    let accept = Accept { udp_addresses, ..accept_at(1) };
                    channel.writer.send(&Message::Accept(accept)).unwrap();
                    hear_abort(channel);
                });
                let error = copy_from(Way::Push, script).unwrap_err();
                assert!(matches!(error.kind, ErrorKind::Connect | ErrorKind::Socket), "{host}: {error}");
            });
        }
    });
}

/// Most bytes that all hosts together may get which have proven nothing (`NAMED_BYTES_MAX` of the engine).
const UNPROVEN_BYTES_MAX: usize = 16 << 10;

/// Hosts that are no party to the copy, on one port; what came to each is counted.
struct Bystanders {
    udp: Vec<UdpSocket>,
    tcp: Vec<TcpListener>,
    port: u16,
}

impl Bystanders {
    fn start() -> Bystanders {
        let first = UdpSocket::bind("127.0.0.2:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let hosts = (3..10).map(|host| format!("127.0.0.{host}:{port}"));
        let udp: Vec<_> = iter::once(first).chain(hosts.map(|at| UdpSocket::bind(at).unwrap())).collect();
        let tcp = udp.iter().map(|socket| TcpListener::bind(socket.local_addr().unwrap()).unwrap()).collect();
        Bystanders { udp, tcp, port }
    }

    /// As a server names them, again and again.
    fn named(&self, times: usize) -> Vec<HostPort> {
        let hosts = (2..10).map(|host| Some(format!("127.0.0.{host}")));
        let once: Vec<_> = hosts.map(|host| HostPort { host, port: self.port }).collect();
        iter::repeat_n(once, times).flatten().collect()
    }

    /// Bytes that came as datagrams, and as connections.
    fn got(&self) -> (usize, usize) {
        let (mut datagrams, mut streams) = (0, 0);
        let mut buf = vec![0; 1 << 16];
        for socket in &self.udp {
            socket.set_nonblocking(true).unwrap();
            while let Ok(len) = socket.recv(&mut buf) {
                datagrams += len;
            }
        }
        for listener in &self.tcp {
            listener.set_nonblocking(true).unwrap();
            while let Ok((mut stream, _)) = listener.accept() {
                stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                streams += io::copy(&mut stream, &mut io::sink()).unwrap_or(0) as usize;
            }
        }
        (datagrams, streams)
    }
}

#[test]
fn hosts_that_only_the_server_names_get_no_more_than_a_greeting() {
    for transport in [Transport::Udp, Transport::Auto, Transport::Tcp { count: Some(4) }] {
        for (way, times) in [(Way::Push, 600), (Way::Pull, 1)] {
            let bystanders = Bystanders::start();
            let (udp_addresses, tcp_addresses) = (bystanders.named(times), bystanders.named(times));
            let script = asked(move |channel| {
                let accept = Accept { udp_addresses, tcp_addresses, ..accept_at(1) };
                // A client that takes no answer of such a length has ended the session.
                let _ = channel.writer.send(&Message::Accept(accept));
                hear_abort(channel);
            });
            let options =
                TransferOptions { transport, timeout: Duration::from_secs(3), ..TransferOptions::default() };
            copy_with(options, way, script).expect_err("nobody serves it");
            let (datagrams, streams) = bystanders.got();
            assert!(
                datagrams + streams <= UNPROVEN_BYTES_MAX,
                "{transport} {way:?}: {datagrams} bytes of datagrams, {streams} of streams"
            );
        }
    }
}

#[test]
fn a_server_that_is_silent_on_udp_is_named_soon() {
    for way in [Way::Push, Way::Pull] {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let script = asked(move |channel| {
            channel.writer.send(&Message::Accept(accept_at(port))).unwrap();
            let reason = hear_abort(channel).expect("the client says why");
            assert_eq!(reason.kind, ErrorKind::Connect);
            drop(socket);
        });
        // With streams, the client first tries those too.
        let udp_alone = TransferOptions { transport: Transport::Udp, ..TransferOptions::default() };
        expect(copy_with(udp_alone, way, script), ErrorKind::Connect, &format!("open UDP port {port}"));
    }
}

/// Datagrams of a stranger.
const STRAYS: usize = 2_000;

#[test]
fn a_client_sends_strangers_nothing() {
    for way in [Way::Push, Way::Pull] {
        let here = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = here.local_addr().unwrap().port();
        let script = asked(move |channel| {
            channel.writer.send(&Message::Accept(accept_at(port))).unwrap();
            let mut buffer = [0; 65_536];
            let (len, client) = here.recv_from(&mut buffer).unwrap();
            let genuine = buffer[..len].to_vec();
            let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
            stranger.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            for number in 0..STRAYS {
                // Noise, headers of all kinds, and the client's own packet: nothing authenticates.
                let mut stray = genuine.clone();
                stray[0] = (number as u8 % 3) << 5;
                stray[1] = number as u8;
                let cut = number % stray.len() + 1;
                let stray = if number % 5 == 0 { &genuine[..] } else { &stray[..cut] };
                let _ = stranger.send_to(stray, client);
            }
            let answer = stranger.recv_from(&mut buffer);
            assert!(answer.is_err(), "{:?} bytes for a stranger", answer.map(|(len, _)| len));
            assert!(Header::decode(&genuine).is_ok());
            channel.writer.close();
        });
        expect(copy_from(way, script), ErrorKind::Connect, "ended the connection");
    }
}
