//! Pipes whose connections break: they go on over new ones while both ends live, or both are told.
//! `random_pipes.rs` has whatever else may happen to them.

mod relay;
mod served;

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use fobs::options::Transport;
use fobs::{ErrorKind, Stream, TransferOptions};
use relay::Behind;
use served::{content, wait_for};

/// How long anything may take; only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads `count` bytes.
fn read(mut stream: &Stream, count: usize) -> Vec<u8> {
    let mut got = vec![0; count];
    stream.read_exact(&mut got).unwrap();
    got
}

#[test]
fn a_command_goes_on_where_its_connection_broke() {
    let behind = Behind::start("pipe=\"cat\"");
    for transport in [Transport::Auto, Transport::Udp, Transport::Tcp { count: None }, Transport::Channel] {
        let options = TransferOptions { transport, ..behind.options() };
        let stream = behind.to("").options(options).open().unwrap();
        let bytes = content(3_000_000);
        for (round, piece) in bytes.chunks(1_000_000).enumerate() {
            (&stream).write_all(&piece[..500_000]).unwrap();
            assert!(read(&stream, 500_000) == piece[..500_000], "{transport:?}, round {round}");
            behind.relay.cut();
            (&stream).write_all(&piece[500_000..]).unwrap();
            assert!(read(&stream, 500_000) == piece[500_000..], "{transport:?}, round {round}");
        }
        stream.shutdown_write().unwrap();
        behind.relay.cut();
        let mut rest = Vec::new();
        (&stream).read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
        let ended = stream.finish().unwrap();
        assert_eq!((ended.sent.bytes, ended.received.bytes), (3_000_000, 3_000_000));
        assert_eq!(ended.end.exit_code(), 0);
    }
    behind.expect_nothing_left();
}

#[test]
fn two_programs_that_met_go_on_where_either_broke() {
    let behind = Behind::start("pipe-names");
    let listener = Stream::listen(behind.remote(""), "name", PATIENCE).options(behind.options());
    let listener = thread::spawn(move || listener.open().unwrap());
    let caller = wait_for(|| behind.to("name").open().ok());
    let listener = listener.join().unwrap();
    for round in 0..3_u8 {
        (&caller).write_all(&[round; 70_000]).unwrap();
        assert_eq!(read(&listener, 70_000), [round; 70_000]);
        behind.relay.cut();
        (&listener).write_all(&[round; 30_000]).unwrap();
        assert_eq!(read(&caller, 30_000), [round; 30_000]);
    }
    for stream in [&caller, &listener] {
        stream.shutdown_write().unwrap();
    }
    let others = thread::spawn(move || listener.finish().unwrap());
    caller.finish().unwrap();
    others.join().unwrap();
    behind.expect_nothing_left();
}

#[test]
fn without_a_window_a_pipe_ends_with_its_connection() {
    let behind = Behind::start("pipe=\"cat\"");
    let options = TransferOptions { resume_window: 0, ..behind.options() };
    let stream = behind.to("").options(options).open().unwrap();
    (&stream).write_all(b"half").unwrap();
    assert_eq!(read(&stream, 4), b"half");
    behind.relay.cut();
    let error = stream.wait().unwrap_err();
    assert!(error.kind == ErrorKind::Connect && error.message.contains("4 bytes had come"), "{error}");
    behind.expect_nothing_left();
}

#[test]
fn a_pipe_whose_server_is_gone_is_told_with_its_bytes() {
    let behind = Behind::start("pipe=\"cat\"");
    let options = TransferOptions { timeout: Duration::from_secs(3), ..behind.options() };
    let stream = behind.to("").options(options).open().unwrap();
    (&stream).write_all(b"half").unwrap();
    assert_eq!(read(&stream, 4), b"half");
    behind.relay.refuse();
    behind.relay.cut();
    let error = stream.wait().unwrap_err();
    assert!(error.kind == ErrorKind::Timeout && error.message.contains("4 bytes had come"), "{error}");
}

#[test]
fn a_server_that_shuts_down_ends_the_pipes_that_wait() {
    let mut behind = Behind::start("pipe=\"cat\"");
    let stream = behind.to("").open().unwrap();
    (&stream).write_all(b"half").unwrap();
    assert_eq!(read(&stream, 4), b"half");
    behind.relay.refuse();
    behind.relay.cut();
    behind.served.wait_for_notice(|line| line.contains("waits 60 s for its client"));
    behind.served.handle.drain();
    behind.served.thread.take().unwrap().join().unwrap().unwrap();
    stream.abort("enough");
    assert!(stream.wait().is_err());
}

#[test]
#[cfg_attr(not(feature = "long"), ignore = "takes as long as a silence must last")]
fn a_connection_that_falls_silent_is_replaced() {
    let behind = Behind::start("pipe=\"cat\"");
    for transport in [Transport::Channel, Transport::Udp] {
        let options = TransferOptions { transport, ..behind.options() };
        let stream = behind.to("").options(options).open().unwrap();
        (&stream).write_all(&[1; 500_000]).unwrap();
        assert_eq!(read(&stream, 500_000), [1; 500_000]);
        // As at a NAT that forgot it: no end is heard of.
        behind.relay.fall_silent();
        (&stream).write_all(&[2; 500_000]).unwrap();
        stream.shutdown_write().unwrap();
        assert_eq!(read(&stream, 500_000), [2; 500_000]);
        assert_eq!(stream.finish().unwrap().end.exit_code(), 0);
    }
    behind.expect_nothing_left();
}
