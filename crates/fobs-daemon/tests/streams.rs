//! Byte streams of programs, through the public API and a real daemon.

mod served;

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use fobs::{Error, ErrorKind, Location, Remote, Stream, StreamBuilder};
use rustix::event::{PollFd, PollFlags, poll};
use served::{Served, content, wait_for};

/// How long a stream listens; only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

fn remote(served: &Served, path: &str) -> Remote {
    let Location::Remote(remote) = served.remote(path) else { panic!("a remote") };
    remote
}

fn to(served: &Served, name: &str) -> StreamBuilder {
    Stream::to(remote(served, name)).options(served.options())
}

fn listening(served: &Served, name: &str, wait: Duration) -> StreamBuilder {
    Stream::listen(remote(served, ""), name, wait).options(served.options())
}

/// The two ends of a stream: one that listened, and one that asked for it.
fn met(served: &Served) -> (Stream, Stream) {
    let listener = listening(served, "name", PATIENCE);
    let listener = thread::spawn(move || listener.open().unwrap());
    let caller = wait_for(|| to(served, "name").open().ok());
    (listener.join().unwrap(), caller)
}

fn names() -> Served {
    let served = Served::start(|_| ());
    served.authorize_client_with("pipe-names");
    served
}

/// The error of ours in one of the standard library.
fn inner(error: &io::Error) -> &Error {
    error.get_ref().and_then(|inner| inner.downcast_ref()).expect("an error of fobs")
}

#[test]
fn what_each_end_writes_the_other_one_reads() {
    let served = names();
    let (listener, caller) = met(&served);
    let (up, down) = (content(9_000_000), content(5_000_001));
    thread::scope(|scope| {
        for (stream, bytes) in [(&listener, &down), (&caller, &up)] {
            scope.spawn(move || {
                let mut writing: &Stream = stream;
                writing.write_all(bytes).unwrap();
                writing.shutdown_write().unwrap();
            });
        }
        for (stream, wanted) in [(&listener, &up), (&caller, &down)] {
            scope.spawn(move || {
                let (mut reading, mut got): (&Stream, _) = (stream, Vec::new());
                reading.read_to_end(&mut got).unwrap();
                assert!(got == *wanted);
            });
        }
    });
    let called = thread::spawn(move || caller.finish());
    let ended = listener.finish().unwrap();
    assert_eq!((ended.end.given, ended.end.came), (5_000_001, 9_000_000));
    let ended = called.join().unwrap().unwrap();
    assert_eq!((ended.sent.bytes, ended.received.bytes), (9_000_000, 5_000_001));
}

#[test]
fn one_direction_ends_while_the_other_goes_on() {
    let served = names();
    let (mut listener, mut caller) = met(&served);
    caller.write_all(b"asked").unwrap();
    caller.shutdown_write().unwrap();
    let mut asked = String::new();
    listener.read_to_string(&mut asked).unwrap();
    for part in ["answered ", "in ", "parts"] {
        listener.write_all(part.as_bytes()).unwrap();
        let mut got = vec![0; part.len()];
        caller.read_exact(&mut got).unwrap();
        assert!(asked == "asked" && got == part.as_bytes());
    }
    let error = caller.write(b"more").unwrap_err();
    assert!(error.kind() == io::ErrorKind::BrokenPipe && error.to_string().contains("ended here"), "{error}");
    listener.shutdown_write().unwrap();
    assert_eq!(caller.read(&mut [0; 9]).unwrap(), 0);
}

#[test]
fn a_stream_that_is_dropped_is_no_end_of_data() {
    let served = names();
    let (mut listener, mut caller) = met(&served);
    caller.write_all(b"half of it").unwrap();
    let mut got = [0; 10];
    listener.read_exact(&mut got).unwrap();
    drop(caller);
    let error = listener.read(&mut [0; 9]).unwrap_err();
    assert!(inner(&error).message.contains("gave up its end"), "{error}");
    assert!(error.to_string().contains("10 bytes had"), "{error}");
    let error = listener.finish().unwrap_err();
    assert!(error.message.contains("gave up its end"), "{error}");
}

#[test]
fn a_stream_that_is_aborted_ends_waits_at_both_ends_with_the_reason() {
    let served = names();
    let (mut listener, caller) = met(&served);
    thread::scope(|scope| {
        let reading = scope.spawn(|| (&caller).read(&mut [0; 9]).unwrap_err());
        caller.abort("the tape is torn");
        let error = reading.join().unwrap();
        assert!(error.kind() != io::ErrorKind::Interrupted, "callers would try again");
        assert!(error.to_string().contains("the tape is torn"), "{error}");
    });
    // Also where it is dropped at once.
    drop(caller);
    let error = listener.read(&mut [0; 9]).unwrap_err();
    assert!(error.to_string().contains("the tape is torn"), "{error}");
}

#[test]
fn a_reader_that_reads_no_more_is_a_broken_pipe_to_the_writer() {
    let served = names();
    let (listener, mut caller) = met(&served);
    listener.shutdown_read().unwrap();
    assert_eq!((&listener).read(&mut [0; 9]).unwrap(), 0);
    let bytes = content(1_000_000);
    let error = loop {
        if let Err(error) = caller.write(&bytes) {
            break error;
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{error}");
    let called = thread::spawn(move || caller.finish());
    listener.finish().unwrap();
    called.join().unwrap().unwrap();
}

#[test]
fn a_program_may_poll() {
    let served = names();
    let (mut listener, mut caller) = met(&served);
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.read(&mut [0; 9]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    caller.write_all(b"now").unwrap();
    poll(&mut [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)], None).unwrap();
    assert_eq!(listener.read(&mut [0; 9]).unwrap(), 3);
    // A peer that reads nothing holds up this one within a bound.
    caller.set_nonblocking(true).unwrap();
    let (bytes, mut written) = (content(1_000_000), 3);
    wait_for(|| match caller.write(&bytes) {
        Ok(count) => {
            written += count as u64;
            None
        }
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            let before = caller.verified();
            thread::sleep(Duration::from_millis(500));
            (caller.verified() == before).then_some(())
        }
    });
    assert!(caller.verified() <= written, "{} of {written}", caller.verified());
    drop(listener);
    poll(&mut [PollFd::from_borrowed_fd(caller.as_fd(), PollFlags::IN)], None).unwrap();
    let error = caller.read(&mut [0; 9]).unwrap_err();
    assert!(inner(&error).message.contains("gave up"), "{error:?}");
}

#[test]
fn a_stream_to_a_command_tells_how_that_ended() {
    let served = Served::start(|_| ());
    let script = served.directory("programs").join("script");
    fs::write(&script, "cat; echo wrong >&2; exit 7").unwrap();
    served.authorize_client_with(&format!("pipe=\"sh {}\"", script.display()));
    let (mut said, errors) = io::pipe().unwrap();
    let mut stream = to(&served, "").errors(errors).open().unwrap();
    stream.write_all(b"given").unwrap();
    stream.shutdown_write().unwrap();
    let mut got = String::new();
    stream.read_to_string(&mut got).unwrap();
    assert_eq!((got.as_str(), stream.finish().unwrap().end.exit_code()), ("given", 7));
    let mut errors = String::new();
    said.read_to_string(&mut errors).unwrap();
    assert_eq!(errors, "wrong\n");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let served = names();
    let kind = |builder: StreamBuilder| builder.open().err().unwrap().kind;
    assert_eq!(kind(to(&served, "nobody")), ErrorKind::NoSource);
    assert_eq!(kind(to(&served, "../x")), ErrorKind::Denied);
    assert_eq!(kind(listening(&served, "alone", Duration::from_millis(50))), ErrorKind::Timeout);
    assert_eq!(kind(Stream::command(remote(&served, ""), "id")), ErrorKind::Usage);
    let cancel = fobs::CancelToken::new();
    let listener = listening(&served, "alone", PATIENCE).cancel_token(cancel.clone());
    let waiting = thread::spawn(move || kind(listener));
    wait_for(|| (served.handle.sessions() == 1).then_some(()));
    cancel.cancel();
    assert_eq!(waiting.join().unwrap(), ErrorKind::Interrupted);
    served.authorize_client_with("read-write");
    assert_eq!(kind(to(&served, "name")), ErrorKind::Denied);
}

#[test]
fn a_daemon_that_ends_is_an_error_at_both_ends() {
    let served = names();
    let (mut listener, mut caller) = met(&served);
    caller.write_all(b"some").unwrap();
    served.cancel.cancel();
    let mut got = Vec::new();
    listener.read_to_end(&mut got).unwrap_err();
    caller.read_to_end(&mut Vec::new()).unwrap_err();
    assert!(b"some".starts_with(&got[..]));
    assert!(listener.finish().is_err() && caller.finish().is_err());
}

#[cfg(feature = "tokio")]
mod of_tasks {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, split};

    #[test]
    fn tasks_read_and_write_a_stream() {
        let served = names();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::spawn(listening(&served, "name", PATIENCE).open_async());
            let caller = loop {
                match to(&served, "name").open_async().await {
                    Ok(caller) => break caller,
                    Err(error) => assert_eq!(error.kind, ErrorKind::NoSource),
                }
            };
            let listener = listener.await.unwrap().unwrap();
            let (up, down) = (content(7_000_000), content(3_000_000));
            let (wanted_up, wanted_down) = (up.clone(), down.clone());
            let called = tokio::spawn(async move {
                let (mut reading, mut writing) = split(caller);
                let mut got = Vec::new();
                let (wrote, read) = tokio::join!(
                    async {
                        writing.write_all(&up).await.unwrap();
                        writing.shutdown().await
                    },
                    reading.read_to_end(&mut got)
                );
                wrote.unwrap();
                read.unwrap();
                assert!(got == wanted_down);
                reading.unsplit(writing).finish().await
            });
            let (mut reading, mut writing) = split(listener);
            writing.write_all(&down).await.unwrap();
            writing.shutdown().await.unwrap();
            let mut got = Vec::new();
            reading.read_to_end(&mut got).await.unwrap();
            assert!(got == wanted_up);
            reading.unsplit(writing).finish().await.unwrap();
            called.await.unwrap().unwrap();
        });
    }

    #[test]
    fn a_task_hears_of_a_stream_that_was_dropped() {
        let served = names();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (listener, caller) = met(&served);
        runtime.block_on(async {
            let mut listener = fobs::AsyncStream::new(listener).unwrap();
            let dropped = tokio::task::spawn_blocking(move || drop(caller));
            let error = listener.read(&mut [0; 9]).await.unwrap_err();
            assert!(inner(&error).message.contains("gave up its end"), "{error}");
            dropped.await.unwrap();
        });
    }
}
