mod exchange;
mod silence;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use super::super::hello;
use super::*;
use fobs_model::message::{Bytes, FEATURES, Hello, Message};

fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A server that answers one client with its channel or its error.
fn serve(identity: Identity) -> (u16, JoinHandle<Result<ControlChannel>>) {
    let (listener, port) = listen();
    (
        port,
        thread::spawn(move || {
            accept(listener.accept().unwrap().0, Instant::now(), &identity, &CancelToken::new())
        }),
    )
}

fn connect_to(port: u16, identity: &Identity) -> Result<ControlChannel> {
    connect("127.0.0.1", port, AddressFamily::Any, identity, &CancelToken::new(), |_| Ok(()))
}

fn channels() -> (ControlChannel, ControlChannel) {
    let (port, server) = serve(Identity::generate());
    let client = connect_to(port, &Identity::generate()).unwrap();
    (client, server.join().unwrap().unwrap())
}

fn rejected(chunk: u32) -> Message {
    Message::Rejected { chunk, attempt: 0 }
}

/// A TLS handshake on a socket with settings of its own.
fn bare_handshake(connection: impl Into<Connection>, socket: &TcpStream) -> bool {
    handshake(&mut connection.into(), socket, Instant::now() + HANDSHAKE_WAIT, |_| Ok(())).is_ok()
}

fn bare_client(config: ClientConfig) -> ClientConnection {
    ClientConnection::new(Arc::new(config), ServerName::try_from("fobs.invalid").unwrap()).unwrap()
}

#[test]
fn both_sides_know_each_other_and_share_a_secret() {
    let (server_identity, client_identity) = (Identity::generate(), Identity::generate());
    let (server_key, client_key) = (server_identity.public(), client_identity.public());
    let (port, server) = serve(server_identity);
    let mut client =
        connect("localhost", port, AddressFamily::V4, &client_identity, &CancelToken::new(), |key| {
            assert_eq!(*key, server_key);
            Ok(())
        })
        .unwrap();
    let mut server = server.join().unwrap().unwrap();
    assert_eq!(client.peer.key, Some(server_key));
    assert_eq!(server.peer.key, Some(client_key));
    assert_eq!(client.peer.description, "localhost via tls");
    assert_eq!(server.peer.description, "127.0.0.1 via tls");
    assert_eq!(server.peer.address, Some("127.0.0.1".parse().unwrap()));
    assert_eq!(client.carrier, Carrier::Daemon);

    let secret = |channel: &ControlChannel| *channel.exporter.as_ref().unwrap().as_bytes();
    assert_eq!(secret(&client), secret(&server));
    assert_ne!(secret(&client), [0; 32]);
    assert_ne!(secret(&client), secret(&channels().0));

    let answer = thread::spawn(move || hello(&mut server).map(|_| server));
    hello(&mut client).unwrap();
    answer.join().unwrap().unwrap();
}

#[test]
fn a_server_that_is_not_wanted_learns_nothing() {
    let (port, server) = serve(Identity::generate());
    let refusal = Error::new(ErrorKind::Denied, "the key has changed");
    let error =
        connect("127.0.0.1", port, AddressFamily::Any, &Identity::generate(), &CancelToken::new(), |_| {
            Err(refusal.clone())
        });
    assert_eq!(error.unwrap_err(), refusal);
    assert_eq!(server.join().unwrap().unwrap_err().kind, ErrorKind::Connect, "no client key was shown");
}

#[test]
fn pins_hold_over_a_changed_server_key() {
    use crate::secure::known_hosts::{KnownHosts, Pin};

    let directory = tempfile::tempdir().unwrap();
    let hosts = KnownHosts::at(directory.path().join("known_hosts"));
    let client = Identity::generate();
    let (old, new) = (Identity::generate(), Identity::generate());
    let (old_key, new_key) = (old.public(), new.public());
    // One port for all servers: a pin is of a host and port.
    let (listener, port) = listen();
    let (identities, inbox) = mpsc::channel::<Arc<Identity>>();
    let server = thread::spawn(move || {
        for identity in inbox {
            drop(accept(listener.accept().unwrap().0, Instant::now(), &identity, &CancelToken::new()));
        }
    });
    let old = Arc::new(old);
    for (identity, expected) in
        [(old.clone(), Ok(Pin::PinnedNow)), (old, Ok(Pin::Known)), (Arc::new(new), Err(ErrorKind::Denied))]
    {
        identities.send(identity).unwrap();
        let seen = std::cell::Cell::new(None);
        let outcome = connect("127.0.0.1", port, AddressFamily::Any, &client, &CancelToken::new(), |key| {
            let pin = hosts.check("127.0.0.1", port, key)?;
            seen.set(Some(pin));
            Ok(())
        });
        match outcome {
            Ok(_) => assert_eq!(seen.get().map(Ok), Some(expected)),
            Err(error) => {
                assert_eq!(Err(error.kind), expected, "{error}");
                assert!(error.message.contains(&old_key.fingerprint()), "{error}");
                assert!(error.message.contains(&new_key.fingerprint()), "{error}");
            }
        }
    }
    drop(identities);
    server.join().unwrap();
}

#[test]
fn both_halves_work_at_once() {
    const MESSAGES: u32 = 300;
    let (client, server) = channels();
    let large = |chunk: u32| Message::Failed {
        path: Bytes(vec![chunk as u8; 3 * chunk as usize * 100]),
        reason: chunk.to_string(),
    };
    // Each side sends more than socket buffers hold and reads at the same time; if a lock were held while a
    // socket blocks, both would stand still.
    let sides: Vec<_> = [client, server]
        .into_iter()
        .flat_map(|channel| {
            let (writer, mut reader) = (channel.writer, channel.reader);
            [
                thread::spawn(move || {
                    for chunk in 0..MESSAGES {
                        writer.send(&large(chunk)).unwrap();
                    }
                }),
                thread::spawn(move || {
                    for chunk in 0..MESSAGES {
                        assert_eq!(reader.recv(), Ok(Some(large(chunk))));
                    }
                }),
            ]
        })
        .collect();
    for side in sides {
        side.join().unwrap();
    }
}

#[test]
fn a_message_larger_than_all_buffers_arrives() {
    let (client, mut server) = channels();
    let message = Message::Failed { path: Bytes(vec![7; 700_000]), reason: String::new() };
    let sent = message.clone();
    let sender = thread::spawn(move || client.writer.send(&sent));
    assert_eq!(server.reader.recv(), Ok(Some(message)));
    sender.join().unwrap().unwrap();
}

#[test]
fn close_ends_both_readers_cleanly() {
    let (client, mut server) = channels();
    let mut reader = client.reader;
    let (waiting, begun) = mpsc::channel();
    let blocked = thread::spawn(move || {
        waiting.send(()).unwrap();
        reader.recv()
    });
    begun.recv().unwrap();
    client.writer.send(&rejected(1)).unwrap();
    client.writer.close();
    client.writer.close();
    assert_eq!(blocked.join().unwrap(), Ok(None), "our own close ends our own wait");
    assert_eq!(server.reader.recv(), Ok(Some(rejected(1))), "what was sent before arrives");
    assert_eq!(server.reader.recv(), Ok(None));
    assert!(client.writer.send(&rejected(2)).is_err());
}

#[test]
fn a_silent_peer_is_waited_for_until_the_deadline() {
    let (client, mut server) = channels();
    server.set_read_deadline(Some(Instant::now() + Duration::from_millis(30)));
    assert_eq!(server.reader.recv().unwrap_err().kind, ErrorKind::Timeout);
    server.set_read_deadline(Some(Instant::now()));
    assert_eq!(server.reader.recv().unwrap_err().kind, ErrorKind::Timeout);
    server.set_read_deadline(None);
    client.writer.send(&rejected(1)).unwrap();
    assert_eq!(server.reader.recv(), Ok(Some(rejected(1))), "waiting in vain breaks nothing");
}

#[test]
fn a_connection_that_breaks_is_no_clean_end() {
    let (client, mut server) = channels();
    drop(client);
    let error = server.reader.recv().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connect);
    assert!(error.message.contains("127.0.0.1 via tls"), "{error}");
}

#[test]
fn changed_bytes_on_the_way_are_refused() {
    let (listener, port) = listen();
    let (server_port, server) = serve(Identity::generate());
    // A relay that flips a bit of the client's data after the handshake, on request.
    let (flip, flips) = mpsc::channel::<()>();
    let relay = thread::spawn(move || {
        let mut client = listener.accept().unwrap().0;
        let mut server = TcpStream::connect(("127.0.0.1", server_port)).unwrap();
        let (mut back_from, mut back_to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || io::copy(&mut back_from, &mut back_to));
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = client.read(&mut buffer) {
            if flips.try_recv().is_ok() {
                buffer[count - 1] ^= 1;
            }
            if server.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
    });
    let client = connect_to(port, &Identity::generate()).unwrap();
    let mut server = server.join().unwrap().unwrap();
    client.writer.send(&rejected(1)).unwrap();
    assert_eq!(server.reader.recv(), Ok(Some(rejected(1))));
    flip.send(()).unwrap();
    client.writer.send(&rejected(2)).unwrap();
    assert_eq!(server.reader.recv().unwrap_err().kind, ErrorKind::Protocol);
    drop((client, server));
    relay.join().unwrap();
}

#[test]
fn a_server_refuses_what_is_no_client() {
    for garbage in
        ["GET / HTTP/1.1\r\nHost: x\r\n\r\n".as_bytes(), &[0; 600], &[0x16, 0x03, 0x01, 0xff, 0xff, 1, 2]]
    {
        let (port, server) = serve(Identity::generate());
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.write_all(garbage).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let error = server.join().unwrap().unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Protocol | ErrorKind::Connect), "{error}");
        assert!(error.message.contains("127.0.0.1"), "{error}");
    }
}

#[test]
fn a_client_refuses_what_is_no_server() {
    for (greeting, kind) in
        [("HTTP/1.1 400 Bad Request\r\n\r\n", ErrorKind::Protocol), ("", ErrorKind::Connect)]
    {
        let (listener, port) = listen();
        let server = thread::spawn(move || {
            let mut socket = listener.accept().unwrap().0;
            let _ = socket.read(&mut [0; 4096]).unwrap();
            socket.write_all(greeting.as_bytes()).unwrap();
        });
        let error = connect_to(port, &Identity::generate()).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        for part in ["127.0.0.1", &port.to_string(), "fobs serve"] {
            assert!(error.message.contains(part), "{part} is missing: {error}");
        }
        server.join().unwrap();
    }
}

#[test]
fn another_application_protocol_is_refused_by_both_sides() {
    for alpn in [&[b"h2".as_slice()][..], &[]] {
        let (port, server) = serve(Identity::generate());
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let client = bare_client(client_config(&Identity::generate(), alpn).unwrap());
        assert!(!bare_handshake(client, &socket));
        drop(socket);
        assert_eq!(server.join().unwrap().unwrap_err().kind, ErrorKind::Protocol);

        let (listener, port) = listen();
        let config = server_config(&Identity::generate(), alpn).unwrap();
        let server = thread::spawn(move || {
            let socket = listener.accept().unwrap().0;
            bare_handshake(ServerConnection::new(Arc::new(config)).unwrap(), &socket)
        });
        let error = connect_to(port, &Identity::generate()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
        assert!(!server.join().unwrap());
    }
}

#[test]
fn a_client_without_a_key_is_refused() {
    let (port, server) = serve(Identity::generate());
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let provider = provider();
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(RawKeyVerifier::new(&provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    bare_handshake(bare_client(config), &socket);
    drop(socket);
    assert_eq!(server.join().unwrap().unwrap_err().kind, ErrorKind::Protocol);
}

#[test]
fn a_key_that_is_not_owned_is_refused() {
    // The client shows another's public key and signs with its own.
    let (own, other) = (Identity::generate(), Identity::generate());
    let provider = provider();
    let private = PrivatePkcs8KeyDer::from(own.pkcs8_der().to_vec());
    let key = provider.key_provider.load_private_key(private.into()).unwrap();
    let forged = CertifiedKey::new(vec![CertificateDer::from(other.public().to_spki_der())], key);
    let mut config = client_config(&own, &[ALPN]).unwrap();
    config.client_auth_cert_resolver = Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::new(forged)));

    let (port, server) = serve(Identity::generate());
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    bare_handshake(bare_client(config), &socket);
    assert_eq!(server.join().unwrap().unwrap_err().kind, ErrorKind::Protocol);
}

#[test]
fn what_cannot_be_reached_is_explained() {
    let identity = Identity::generate();
    let (listener, port) = listen();
    drop(listener);
    let error = connect_to(port, &identity).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connect);
    for part in ["127.0.0.1", &port.to_string(), "nothing listens there", "fobs serve"] {
        assert!(error.message.contains(part), "{part} is missing: {error}");
    }
    let error =
        connect("no-such-host.invalid", 1, AddressFamily::Any, &identity, &CancelToken::new(), |_| Ok(()))
            .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connect);
    assert!(error.message.contains("no-such-host.invalid"), "{error}");
    let error = connect("127.0.0.1", port, AddressFamily::V6, &identity, &CancelToken::new(), |_| Ok(()))
        .unwrap_err();
    assert!(error.message.contains("no IPv6 address"), "{error}");
}

#[test]
fn a_handshake_has_a_deadline_however_bytes_drip() {
    let (listener, port) = listen();
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let socket = listener.accept().unwrap().0;
    let config = server_config(&Identity::generate(), &[ALPN]).unwrap();
    let mut connection = ServerConnection::new(Arc::new(config)).unwrap().into();
    // A record header that promises more, then a byte at a time.
    client.write_all(&[0x16, 0x03, 0x01, 0x20, 0x00]).unwrap();
    let drip = thread::spawn(move || {
        while client.write_all(&[1]).is_ok() {
            thread::sleep(Duration::from_millis(2))
        }
    });
    let outcome =
        handshake(&mut connection, &socket, Instant::now() + Duration::from_millis(100), |_| Ok(()));
    assert!(matches!(outcome, Err(HandshakeFailure::Io(error)) if is_timeout(&error)));
    drop(socket);
    drip.join().unwrap();
}

/// A server that offers these application protocols; its one client's channel is handed to `speak`.
fn serve_as(
    alpn: &'static [&'static [u8]],
    speak: impl FnOnce(ControlChannel) + Send + 'static,
) -> (u16, JoinHandle<()>) {
    let (listener, port) = listen();
    let serving = thread::spawn(move || {
        let config = server_config(&Identity::generate(), alpn).unwrap();
        let connection = ServerConnection::new(Arc::new(config)).unwrap();
        let socket = listener.accept().unwrap().0;
        let deadline = Instant::now() + HANDSHAKE_WAIT;
        let cancel = CancelToken::new();
        let name = "a client".to_owned();
        let explain = |_| panic!("no handshake");
        speak(establish(connection.into(), socket, name, deadline, &cancel, |_| Ok(()), explain).unwrap());
    });
    (port, serving)
}

/// One that speaks after it has heard two messages.
fn late_server(alpn: &'static [&'static [u8]], says: Message) -> (u16, JoinHandle<()>) {
    serve_as(alpn, move |mut channel| {
        assert!(matches!(channel.reader.recv().unwrap(), Some(Message::Hello(_))));
        assert_eq!(channel.reader.recv().unwrap(), Some(rejected(1)));
        channel.writer.send(&says).unwrap();
        channel.writer.send(&rejected(2)).unwrap();
    })
}

fn told(features: &[&str]) -> Message {
    let features = features.iter().map(|&name| name.to_owned()).collect();
    Message::Hello(Hello {
        protocol: 1,
        newest: None,
        program: "fobs 9".to_owned(),
        fast_aes: true,
        features,
    })
}

#[test]
fn a_request_does_not_wait_for_a_hello_that_was_foretold() {
    for (level, alpn) in [(LEVEL_3, &[LEVEL_3.alpn, ALPN]), (LEVEL_2, &[LEVEL_2.alpn, ALPN])] {
        let (port, server) = late_server(alpn, told(FEATURES));
        let mut client = connect_to(port, &Identity::generate()).unwrap();
        assert!(hello(&mut client).unwrap().features == level.features);
        client.writer.send(&rejected(1)).unwrap();
        assert_eq!(client.reader.recv().unwrap(), Some(rejected(2)));
        server.join().unwrap();
    }
}

#[test]
fn a_hello_that_breaks_what_was_foretold_is_refused() {
    let no_version = Message::Hello(Hello {
        protocol: 7,
        newest: None,
        program: String::new(),
        fast_aes: false,
        features: FEATURES.iter().map(|&name| name.to_owned()).collect(),
    });
    for broken in [told(&FEATURES[1..]), no_version, rejected(0)] {
        let (port, server) = late_server(&[LEVEL_2.alpn], broken);
        let mut client = connect_to(port, &Identity::generate()).unwrap();
        hello(&mut client).unwrap();
        client.writer.send(&rejected(1)).unwrap();
        assert_eq!(client.reader.recv().unwrap_err().kind, ErrorKind::Protocol);
        server.join().unwrap();
    }
}

#[test]
fn a_refusal_in_place_of_a_foretold_hello_is_passed_on() {
    let refusal = Message::Abort {
        code: "denied".to_owned(),
        message: "full".to_owned(),
        busy: false,
        sync: String::new(),
    };
    let (port, server) = late_server(&[LEVEL_2.alpn], refusal.clone());
    let mut client = connect_to(port, &Identity::generate()).unwrap();
    hello(&mut client).unwrap();
    client.writer.send(&rejected(1)).unwrap();
    assert_eq!(client.reader.recv().unwrap(), Some(refusal));
    server.join().unwrap();
}

#[test]
fn a_server_that_foretells_nothing_is_waited_for() {
    let (port, server) = serve_as(&[ALPN], |mut channel| {
        hello(&mut channel).unwrap();
    });
    let mut client = connect_to(port, &Identity::generate()).unwrap();
    assert_eq!(client.foretold, None);
    assert_eq!(hello(&mut client).unwrap().program, super::super::program());
    server.join().unwrap();
}

#[test]
fn a_server_that_ends_before_its_first_word_is_busy() {
    // Seen by the hello that cannot be sent, or by the answer that does not come.
    for is_seen_at_once in [true, false] {
        let (port, server) = serve(Identity::generate());
        let mut client = connect_to(port, &Identity::generate()).unwrap();
        drop(server.join().unwrap().unwrap());
        if is_seen_at_once {
            // What comes back for it ends the connection for good.
            client.writer.send_bytes(b"x").unwrap();
            while client.writer.send_bytes(b"x").is_ok() {
                thread::yield_now();
            }
        }
        let heard = hello(&mut client).and_then(|_| client.reader.recv());
        let error = heard.unwrap_err();
        assert_eq!((error.kind, error.busy()), (ErrorKind::Connect, Some(Busy::Closed)), "{error}");
        assert!(error.message.contains("127.0.0.1 via tls is busy"), "{error}");
    }
}
