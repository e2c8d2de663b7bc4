//! Byte streams to programs at other hosts.

use std::ffi::{OsStr, c_char, c_int, c_void};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use super::{FOBS_INTERNAL, buffer, bytes, call, fobs_stream_end, place, tell, word};
use crate::handles::{self, OPTIONS, OpenStream, STREAMS};
use fobs::{Error, ErrorKind, Remote, Result, Stream, StreamBuilder, TransferOptions, location};

/// A read or write of a stream that does not block would wait; poll its descriptor.
pub const FOBS_AGAIN: c_int = -1;
/// The other end of the stream reads no more, which is no failure of the stream.
pub const FOBS_UNREAD: c_int = -2;

/// The direction of a stream that is read.
pub const FOBS_READ: c_int = 1;
/// The direction that is written.
pub const FOBS_WRITE: c_int = 2;

fn host(url: *const c_char) -> Result<Remote> {
    location::host(OsStr::from_bytes(bytes(url, "the URL")?))
}

fn with_options(builder: StreamBuilder, options: u64) -> Result<StreamBuilder> {
    let options = if options == 0 { TransferOptions::default() } else { OPTIONS.get(options)? };
    Ok(builder.options(options))
}

fn to(url: *const c_char, command: *const c_char) -> Result<StreamBuilder> {
    let remote = host(url)?;
    Ok(if command.is_null() {
        Stream::to(remote)
    } else {
        Stream::command(remote, bytes(command, "the command")?)
    })
}

fn listening(url: *const c_char, name: *const c_char, seconds: f64) -> Result<StreamBuilder> {
    let wait = Duration::try_from_secs_f64(seconds).map_err(|_| {
        Error::new(ErrorKind::Usage, "a stream listens for a number of seconds that is not negative")
    })?;
    Ok(Stream::listen(host(url)?, word(name, "the name")?, wait))
}

/// Opens a byte stream, and waits until its other end is there: at "fobs://host/NAME" the command of the
/// key's line or the program that accepts as NAME, with a null command; at "host:" or "ssh://host" the
/// command, for the shell there.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_stream_open(
    url: *const c_char,
    command: *const c_char,
    options: u64,
    stream: *mut u64,
) -> c_int {
    call(|| {
        let place = place(stream, "the place for the stream")?;
        *place = STREAMS.add(OpenStream::new(with_options(to(url, command)?, options)?.open()?))?;
        Ok(())
    })
}

/// Waits at the daemon "fobs://host" for the program that opens a stream to name, for the given seconds at
/// most.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_stream_accept(
    url: *const c_char,
    name: *const c_char,
    seconds: f64,
    options: u64,
    stream: *mut u64,
) -> c_int {
    call(|| {
        let place = place(stream, "the place for the stream")?;
        let builder = with_options(listening(url, name, seconds)?, options)?;
        *place = STREAMS.add(OpenStream::new(builder.open()?))?;
        Ok(())
    })
}

/// As fobs_stream_open() if name is null and else as fobs_stream_accept(), and does not wait: what is written
/// leaves once the other end is there, and a stream that cannot be opened is one that fails.
/// fobs_stream_abort() ends the wait.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_stream_start(
    url: *const c_char,
    command: *const c_char,
    name: *const c_char,
    seconds: f64,
    options: u64,
    stream: *mut u64,
) -> c_int {
    call(|| {
        let place = place(stream, "the place for the stream")?;
        let builder = match (command.is_null(), name.is_null()) {
            (_, true) => to(url, command)?,
            (true, false) => listening(url, name, seconds)?,
            (false, false) => {
                let message = "a stream leads to a command or listens; give one of both";
                return Err(Error::new(ErrorKind::Usage, message));
            }
        };
        *place = STREAMS.add(OpenStream::new(with_options(builder, options)?.start()?))?;
        Ok(())
    })
}

/// Waits until the other end of a stream that was started is there, or says why it will not be.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_stream_opened(stream: u64) -> c_int {
    call(|| handles::stream(stream)?.opened())
}

/// Says whether reads and writes return FOBS_AGAIN where they would wait: not 0 for yes. They wait at first.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_stream_nonblocking(stream: u64, nonblocking: c_int) -> c_int {
    call(|| {
        let stream = handles::stream(stream)?;
        stream.set_nonblocking(nonblocking != 0).map_err(of_fobs)
    })
}

/// The descriptor of a stream, to be polled and not to be read, written or closed: readable where there are
/// bytes or the end, writable where there is room, both at a failure.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_stream_descriptor(stream: u64, descriptor: *mut c_int) -> c_int {
    call(|| {
        *place(descriptor, "the place for the descriptor")? = handles::stream(stream)?.as_raw_fd();
        Ok(())
    })
}

/// Fills the front of a buffer with what has come, waiting where nothing has: filled is 0 at the end of
/// everything that was written to the other end. FOBS_AGAIN where the stream does not block.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_stream_read(stream: u64, data: *mut c_void, size: usize, filled: *mut usize) -> c_int {
    moved(|| {
        let (stream, filled) = (handles::stream(stream)?, place(filled, "the place for the length")?);
        *filled = 0;
        let room = buffer(data, size)?;
        Ok(again(|| (&*stream).read(room)).map(|count| *filled = count))
    })
}

/// Writes some bytes of a buffer, at least one, waiting where there is no room. FOBS_AGAIN where the stream
/// does not block, FOBS_UNREAD where the other end reads no more.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_stream_write(
    stream: u64,
    data: *const c_void,
    size: usize,
    written: *mut usize,
) -> c_int {
    moved(|| {
        let (stream, written) = (handles::stream(stream)?, place(written, "the place for the length")?);
        *written = 0;
        // Only read.
        let data: &[u8] = buffer(data.cast_mut(), size)?;
        Ok(again(|| (&*stream).write(data)).map(|count| *written = count))
    })
}

/// Ends directions of a stream, FOBS_READ, FOBS_WRITE or both: after the last byte that was written the other
/// end reads an end, and one that writes more than is read is told so.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_stream_shutdown(stream: u64, directions: c_int) -> c_int {
    call(|| {
        let stream = handles::stream(stream)?;
        if directions & !(FOBS_READ | FOBS_WRITE) != 0 || directions == 0 {
            let message = "the directions of a stream are FOBS_READ, FOBS_WRITE and both";
            return Err(Error::new(ErrorKind::Usage, message));
        }
        if directions & FOBS_WRITE != 0 {
            stream.shutdown_write().map_err(of_fobs)?;
        }
        if directions & FOBS_READ != 0 {
            stream.shutdown_read().map_err(of_fobs)?;
        }
        Ok(())
    })
}

/// Bytes that were written and are verified at the server so far.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_stream_verified(stream: u64, verified: *mut u64) -> c_int {
    call(|| {
        *place(verified, "the place for the count")? = handles::stream(stream)?.verified();
        Ok(())
    })
}

/// Fails a stream at both ends, and tells the other one why; from any thread. It is still to be closed.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_stream_abort(stream: u64, why: *const c_char) -> c_int {
    call(|| {
        let why = if why.is_null() { "the program ended the stream" } else { word(why, "the reason")? };
        handles::stream(stream)?.abort(why);
        Ok(())
    })
}

/// Ends both directions of a stream, waits until everything that was written is at the other end, and frees
/// the handle whatever comes of it. An error where not everything arrived; the exit code of a command, in end
/// if that is not null, is none.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_stream_close(stream: u64, end: *mut fobs_stream_end) -> c_int {
    call(|| {
        let stream = handles::take_stream(stream)?;
        let ended = Arc::try_unwrap(stream).map_or_else(|shared| shared.end(), Stream::finish);
        let piped = ended?;
        tell(
            end,
            fobs_stream_end {
                exit_code: piped.end.exit_code().into(),
                sent: piped.sent.bytes,
                received: piped.received.bytes,
            },
        );
        Ok(())
    })
}

/// A read or write that a signal did not end.
fn again(mut act: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// A call that may have moved something.
fn moved(act: impl FnOnce() -> Result<io::Result<()>>) -> c_int {
    let mut code = FOBS_INTERNAL;
    let outcome = call(|| {
        let error = match act()? {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        code = match error.kind() {
            io::ErrorKind::WouldBlock => FOBS_AGAIN,
            io::ErrorKind::BrokenPipe => FOBS_UNREAD,
            _ => return Err(of_fobs(error)),
        };
        Err(of_fobs(error))
    });
    if outcome != super::FOBS_OK && code != FOBS_INTERNAL { code } else { outcome }
}

/// The error of a stream, which the standard library's carries.
fn of_fobs(error: io::Error) -> Error {
    let text = error.to_string();
    let inner = error.into_inner().and_then(|inner| inner.downcast::<Error>().ok());
    inner.map_or_else(|| Error::new(ErrorKind::Socket, text), |inner| *inner)
}
