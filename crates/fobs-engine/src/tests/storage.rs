//! Storage that fails, stalls or panics.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::sync::mpsc;
use std::time::Duration;

use super::support::*;
use fobs_model::error::ErrorKind;
use fobs_model::message::Message;
use fobs_store::{Sink, Source, SourceShape};

/// One file's worth of a stream, into `writer`.
fn into(writer: impl Write + Send + 'static, client: End) -> Session {
    let content = content(3 << 20, 5);
    let source = Source::from_stream(Box::new(io::Cursor::new(content)), false).unwrap();
    let sink = Sink::to_stream(Box::new(writer), source.shape()).unwrap();
    Session::start(Spec {
        lanes: Vec::new(),
        late: 0,
        late_ports: LATE_PORTS,
        limit_bps: None,
        streams: None,
        source,
        sink,
        survey: None,
        client,
        endurance: Endurance::for_peer(None),
        of_server: None,
        validation: VALIDATION,
        datagrams: None,
        messages: None,
        pieces: None,
        cutting: fobs_store::delta::Cutting::ByContent,
    })
}

#[test]
fn an_output_that_nobody_reads_ends_both_sides() {
    for client in End::BOTH {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        for sentence in into(writer, client).expect_failure(ErrorKind::FileIo) {
            assert!(sentence.contains("output stream") && sentence.contains("pipe"), "{sentence}");
        }
    }
}

#[test]
fn a_full_device_ends_both_sides() {
    for client in End::BOTH {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        for sentence in into(full, client).expect_failure(ErrorKind::FileIo) {
            assert!(sentence.contains("No space left"), "{sentence}");
        }
    }
}

struct Failing;

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        panic!("this reader is meant to panic");
    }
}

impl Write for Failing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        panic!("this writer is meant to panic");
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_thread_that_panics_ends_both_sides() {
    for sentence in into(Failing, End::Sender).expect_failure(ErrorKind::Internal) {
        assert!(sentence.contains("fobs-write"), "{sentence}");
    }
    let source = Source::from_stream(Box::new(Failing), false).unwrap();
    let sink = Sink::to_stream(Box::new(io::sink()), source.shape()).unwrap();
    let session = Session::start(Spec {
        lanes: Vec::new(),
        late: 0,
        late_ports: LATE_PORTS,
        limit_bps: None,
        streams: None,
        source,
        sink,
        survey: None,
        client: End::Receiver,
        endurance: Endurance::for_peer(None),
        of_server: None,
        validation: VALIDATION,
        datagrams: None,
        messages: None,
        pieces: None,
        cutting: fobs_store::delta::Cutting::ByContent,
    });
    for sentence in session.expect_failure(ErrorKind::Internal) {
        assert!(sentence.contains("fobs-read"), "{sentence}");
    }
}

/// Enough for 3 MiB to cross this host. Where it is not, a test sees less and does not fail.
const SETTLING: Duration = Duration::from_millis(500);

/// Takes data until it must wait for `gate` to open.
struct Gated {
    gate: mpsc::Receiver<()>,
    begun: mpsc::Sender<()>,
}

impl Write for Gated {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.begun.send(());
        // An error: the gate is gone, and nothing waits any more.
        let _ = self.gate.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_output_that_stalls_holds_nobody_back_from_ending() {
    let (gate, wait) = mpsc::channel();
    let (begun, has_begun) = mpsc::channel();
    let session = into(Gated { gate: wait, begun }, End::Sender);
    has_begun.recv().unwrap();
    // Time for all other chunks to arrive and wait.
    std::thread::sleep(SETTLING);
    let abort = Message::Abort {
        code: "timeout".to_owned(),
        message: "no patience".to_owned(),
        busy: false,
        sync: String::new(),
    };
    session.control.say(End::Receiver, &abort);
    // Both end while the output still stalls.
    session.expect_failure(ErrorKind::Timeout);
    drop(gate);
    // The chunks that wait behind the one that stalled are not stored any more: the writer goes, and its
    // output with it.
    assert!(has_begun.recv().is_err());
}

#[test]
fn an_output_that_stalls_and_goes_on_loses_nothing() {
    let (gate, wait) = mpsc::channel();
    let (begun, has_begun) = mpsc::channel();
    let session = into(Gated { gate: wait, begun }, End::Receiver);
    has_begun.recv().unwrap();
    std::thread::sleep(SETTLING);
    drop(gate);
    let (sent, received) = session.join();
    assert_eq!(sent.unwrap().complete.bytes, 3 << 20);
    assert_eq!(received.unwrap().complete.files, 1);
}

#[test]
fn a_stream_takes_one_file_only() {
    let shape = SourceShape::Paths { count: 2, contents: false };
    assert_eq!(
        Sink::to_stream(Box::new(io::sink()), shape).err().map(|e| e.kind),
        Some(ErrorKind::Destination)
    );
}
