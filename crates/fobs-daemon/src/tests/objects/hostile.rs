//! A server that has the expected key, keeps its channel, and lies.

use crate::served::content;
use fobs::direct::{DIRECT_LEN_MAX, Filled};
use fobs::{Session, keygen};
use fobs_channel::control::{ControlChannel, hello, tls};
use fobs_channel::secure::identity::Identity;
use fobs_model::cancel::CancelToken;
use fobs_model::error::ErrorKind;
use fobs_model::message::{Accept, Complete, Message};
use fobs_model::options::{Carrier, Remote, TransferOptions};
use fobs_store::{Source, seal};
use std::io::Cursor;
use std::net::TcpListener;
use std::thread;

fn accept(object: Vec<u8>) -> Message {
    Message::Accept(Accept {
        tcp_addresses: Vec::new(),
        lanes: None,
        late_lanes: None,
        udp_addresses: Vec::new(),
        secret: None,
        key_schedule: 1,
        cipher: String::new(),
        shape: None,
        chunk_limit: 0,
        survey: false,
        limit_bps: None,
        withholds: false,
        made: None,
        object: Some(object),
    })
}

/// A chunk with a stream of `len` bytes.
fn chunk(len: usize) -> Vec<u8> {
    let source = Source::from_stream(Box::new(Cursor::new(content(len))), false).unwrap();
    Filled::all_of(source, DIRECT_LEN_MAX).unwrap().unwrap().chunk
}

/// What `act` makes of a session whose server answers its first request so.
pub(super) fn with_answer<T>(
    answer: Message,
    act: impl FnOnce(&Session) -> fobs_model::error::Result<T>,
) -> fobs_model::error::Error {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = thread::spawn(move || {
        let socket = listener.accept().unwrap().0;
        drop(listener);
        let mut channel: ControlChannel = tls::accept_as(
            &[tls::ALPN],
            socket,
            std::time::Instant::now(),
            &Identity::generate(),
            &CancelToken::new(),
        )
        .unwrap();
        hello(&mut channel).unwrap();
        assert_eq!(channel.reader.recv(), Ok(Some(Message::Over)));
        assert!(matches!(channel.reader.recv(), Ok(Some(Message::Open(_) | Message::Files(_)))));
        channel.writer.send(&answer).unwrap();
        // Until the client is gone.
        while let Ok(Some(_)) = channel.reader.recv() {}
    });
    let remote = Remote {
        carrier: Carrier::Daemon,
        user: None,
        host: "127.0.0.1".to_owned(),
        port: Some(port),
        path: Vec::new(),
    };
    let options = TransferOptions {
        identity: Some(keygen(Some(&path("identity"))).unwrap().path),
        known_hosts: Some(path("known_hosts")),
        ..TransferOptions::default()
    };
    let session = Session::builder(remote).options(options).open().unwrap();
    let error = act(&session).err().expect("a lie is no success");
    drop(session);
    serving.join().unwrap();
    error
}

#[test]
fn an_object_that_is_not_what_was_asked_for_is_refused() {
    let mut forged = chunk(100);
    forged[50] ^= 1;
    for (object, kind, says) in [
        (b"no chunk".to_vec(), ErrorKind::Protocol, "not understood"),
        (vec![0; DIRECT_LEN_MAX + 1], ErrorKind::Protocol, "are allowed"),
        (forged, ErrorKind::Integrity, "did not verify"),
        (chunk(101), ErrorKind::Usage, "more bytes than the 100"),
        (seal(&[], &[]), ErrorKind::Protocol, "0 files"),
    ] {
        let answer = accept(object);
        let error = with_answer(answer.clone(), |session| session.recv("object", 100));
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(says), "{error}");
        let error = with_answer(answer, |session| session.read_range("object", 7, &mut [0; 100]));
        assert_eq!(error.kind, kind, "{error}");
    }
}

#[test]
fn an_answer_to_an_object_that_does_not_fit_is_refused() {
    let complete = Message::Complete(Complete { root: "00".to_owned(), ..Complete::default() });
    for (answer, kind, says) in [
        (complete, ErrorKind::Integrity, "roots of the transfer differ"),
        (accept(chunk(5)), ErrorKind::Protocol, "out of turn"),
        (Message::Rejected { chunk: 0, attempt: 0 }, ErrorKind::Protocol, "out of turn"),
    ] {
        let error = with_answer(answer, |session| session.send("object", b"content"));
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(says), "{error}");
    }
}

#[test]
fn an_object_that_nobody_made_room_for_is_out_of_turn() {
    let error = with_answer(accept(chunk(5)), |session| {
        // A rate is for the data plane.
        let options = TransferOptions { rate_limit: Some(1_000_000), ..TransferOptions::default() };
        session.call().options(options).recv("object", 100)
    });
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    assert!(error.message.contains("out of turn"), "{error}");
}
