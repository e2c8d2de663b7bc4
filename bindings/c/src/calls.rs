//! The functions of the header.

#![expect(unsafe_code, reason = "arguments from C are pointers")]
#![expect(non_camel_case_types, reason = "names of the header")]

mod streams;

pub use streams::*;

use crate::handles::{self, OPTIONS, Opened, SESSIONS};
use fobs::{Entry, EntryKind, Error, ErrorKind, Result, Session, Summary, TransferOptions, location};
use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Done.
pub const FOBS_OK: c_int = 0;
/// An argument is not possible: a null pointer, a handle that is none, an option.
pub const FOBS_USAGE: c_int = 1;
/// What was named does not exist or cannot be read.
pub const FOBS_NO_SOURCE: c_int = 3;
/// The destination cannot be written, or exists already.
pub const FOBS_DESTINATION: c_int = 4;
/// The key or the user has no right to that.
pub const FOBS_DENIED: c_int = 5;
/// A bug in the library.
pub const FOBS_INTERNAL: c_int = 9;
/// The call was cancelled.
pub const FOBS_INTERRUPTED: c_int = 20;
/// Some files were not moved; fobs_last_error() says why the first was not.
pub const FOBS_PARTIAL: c_int = 23;

/// An entry that is a regular file.
pub const FOBS_FILE: c_int = 1;
/// An entry that is a directory.
pub const FOBS_DIRECTORY: c_int = 2;
/// An entry that is a symbolic link.
pub const FOBS_LINK: c_int = 3;
/// An entry that is something else.
pub const FOBS_OTHER: c_int = 4;

/// Figures of a transfer.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct fobs_summary {
    /// File bytes verified.
    pub bytes: u64,
    /// Those of them that an earlier attempt had verified.
    pub resumed_bytes: u64,
    /// Files complete.
    pub files: u64,
    /// Files that were not moved.
    pub failed: u64,
    /// Duration of the data phase, seconds.
    pub seconds: f64,
    /// Bits per second of file data.
    pub goodput_bps: f64,
}

/// A file, a directory or something else at the server.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct fobs_entry {
    /// Last component of its path; valid until the callback returns, null from fobs_stat().
    pub name: *const c_char,
    /// FOBS_FILE, FOBS_DIRECTORY, FOBS_LINK or FOBS_OTHER.
    pub kind: c_int,
    /// Permission bits.
    pub mode: u32,
    /// Bytes.
    pub size: u64,
    /// Time of the last change, seconds since 1970.
    pub mtime_s: i64,
    /// Nanoseconds after that second.
    pub mtime_ns: u32,
}

/// How a stream has ended.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct fobs_stream_end {
    /// Of the command: 128 and the number of a signal that ended it; 0 of what is no command.
    pub exit_code: c_int,
    /// Bytes that were written and are at the other end.
    pub sent: u64,
    /// Bytes that came from there.
    pub received: u64,
}

/// Receives the entries of a directory; anything but 0 ends the listing with FOBS_INTERRUPTED.
pub type fobs_entry_callback =
    Option<unsafe extern "C" fn(user: *mut c_void, entry: *const fobs_entry) -> c_int>;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Runs a call; its error becomes a code and the thread's last error.
fn call(act: impl FnOnce() -> Result<()>) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(act))
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a part of fobs failed; report this bug")));
    let Err(error) = outcome else { return FOBS_OK };
    let text = error.message.bytes().filter(|&byte| byte != 0).collect::<Vec<_>>();
    LAST_ERROR.with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
    error.kind.exit_code().into()
}

fn null(what: &str) -> Error {
    Error::new(ErrorKind::Usage, format!("{what} is a null pointer; give one that is valid"))
}

/// The bytes of a C string.
fn bytes<'a>(text: *const c_char, what: &str) -> Result<&'a [u8]> {
    if text.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null; the caller promises a string that ends with NUL and stays until the call returns.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

fn word<'a>(text: *const c_char, what: &str) -> Result<&'a str> {
    std::str::from_utf8(bytes(text, what)?)
        .map_err(|_| Error::new(ErrorKind::Usage, format!("{what} is not UTF-8")))
}

/// Where a result goes.
fn place<'a, T>(to: *mut T, what: &str) -> Result<&'a mut T> {
    // SAFETY: null or, as the caller promises, a valid place of its own until the call returns.
    unsafe { to.as_mut() }.ok_or_else(|| null(what))
}

fn buffer<'a>(data: *mut c_void, len: usize) -> Result<&'a mut [u8]> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(null("the buffer")),
        _ if isize::try_from(len).is_err() => Err(Error::new(ErrorKind::Usage, "the buffer is too long")),
        // SAFETY: not null; the caller promises `len` bytes that nobody else uses until the call returns.
        (false, len) => Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), len) }),
    }
}

/// Fills a place that may be null.
fn tell<T>(to: *mut T, value: T) {
    // SAFETY: null or, as the caller promises, a valid place of its own until the call returns.
    if let Some(to) = unsafe { to.as_mut() } {
        *to = value;
    }
}

fn report(summary: &Summary, to: *mut fobs_summary) -> Result<()> {
    tell(
        to,
        fobs_summary {
            bytes: summary.bytes,
            resumed_bytes: summary.resumed_bytes,
            files: summary.files,
            failed: summary.errors.len() as u64,
            seconds: summary.seconds,
            goodput_bps: summary.goodput_bps,
        },
    );
    match summary.errors.first() {
        Some(failed) => Err(Error::new(ErrorKind::Partial, failed.message.clone())),
        None => Ok(()),
    }
}

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// One sentence: what failed in the calling thread's last call that failed, why, and what to do. Valid until
/// its next call.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_last_error() -> *const c_char {
    LAST_ERROR.with(|last| last.borrow().as_ptr())
}

/// Makes a set of options, as by default.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_options_new(options: *mut u64) -> c_int {
    call(|| {
        *place(options, "the place for the options")? = OPTIONS.add(TransferOptions::default())?;
        Ok(())
    })
}

/// Sets an option by its name on the command line, with _ for -: "rate", "500000000".
#[unsafe(no_mangle)]
pub extern "C" fn fobs_options_set(options: u64, name: *const c_char, value: *const c_char) -> c_int {
    call(|| {
        let (name, value) = (word(name, "the option's name")?, word(value, "the option's value")?);
        OPTIONS.change(options, |options| options.set(name, value))
    })
}

/// Frees a set of options. Sessions that were opened with it keep theirs.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_options_free(options: u64) -> c_int {
    call(|| OPTIONS.take(options).map(drop))
}

/// Opens a session with "host:path", "ssh://..." or "fobs://..."; options 0 are the default ones.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_session_open(url: *const c_char, options: u64, session: *mut u64) -> c_int {
    call(|| {
        let to = place(session, "the place for the session")?;
        let remote = location::host(OsStr::from_bytes(bytes(url, "the URL")?))?;
        let options = if options == 0 { TransferOptions::default() } else { OPTIONS.get(options)? };
        let opened = Session::builder(remote).options(options).open()?;
        *to = SESSIONS.add(Opened::new(opened))?;
        Ok(())
    })
}

/// Ends the transfer that runs on a session with FOBS_INTERRUPTED; from another thread.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_session_cancel(session: u64) -> c_int {
    call(|| {
        handles::session(session)?.cancel();
        Ok(())
    })
}

/// Closes a session, once calls of other threads that use it have ended.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_session_close(session: u64) -> c_int {
    call(|| handles::close(session))
}

/// Copies a file to the server.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_put(
    session: u64,
    path: *const c_char,
    name: *const c_char,
    summary: *mut fobs_summary,
) -> c_int {
    call(|| {
        let (session, name) = (handles::session(session)?, bytes(name, "the name")?);
        let path = PathBuf::from(OsStr::from_bytes(bytes(path, "the path")?));
        report(&session.put(&[path], name)?, summary)
    })
}

/// Copies a file from the server.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_get(
    session: u64,
    name: *const c_char,
    path: *const c_char,
    summary: *mut fobs_summary,
) -> c_int {
    call(|| {
        let (session, name) = (handles::session(session)?, bytes(name, "the name")?);
        let path = Path::new(OsStr::from_bytes(bytes(path, "the path")?));
        report(&session.get(&[name], path)?, summary)
    })
}

/// Stores bytes as an object.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_put_bytes(
    session: u64,
    name: *const c_char,
    data: *const c_void,
    size: usize,
) -> c_int {
    call(|| {
        let (session, name) = (handles::session(session)?, bytes(name, "the name")?);
        // Only read.
        let data: &[u8] = buffer(data.cast_mut(), size)?;
        report(&session.send(name, data)?, std::ptr::null_mut())
    })
}

/// Fills the front of a buffer with a whole object; a longer one is refused with FOBS_USAGE.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_get_into(
    session: u64,
    name: *const c_char,
    data: *mut c_void,
    size: usize,
    filled: *mut usize,
) -> c_int {
    call(|| {
        let (session, name) = (handles::session(session)?, bytes(name, "the name")?);
        let filled = place(filled, "the place for the length")?;
        *filled = session.recv_into(name, buffer(data, size)?)?;
        Ok(())
    })
}

/// Fills the front of a buffer with the bytes of a file from start on; fewer where it ends.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_get_range(
    session: u64,
    name: *const c_char,
    start: u64,
    data: *mut c_void,
    size: usize,
    filled: *mut usize,
) -> c_int {
    call(|| {
        let (session, name) = (handles::session(session)?, bytes(name, "the name")?);
        let filled = place(filled, "the place for the length")?;
        *filled = session.read_range(name, start, buffer(data, size)?)?;
        Ok(())
    })
}

fn entry_of(entry: &Entry, name: *const c_char) -> fobs_entry {
    fobs_entry {
        name,
        kind: match entry.kind {
            EntryKind::File => FOBS_FILE,
            EntryKind::Directory => FOBS_DIRECTORY,
            EntryKind::Link => FOBS_LINK,
            EntryKind::Other => FOBS_OTHER,
        },
        mode: entry.mode,
        size: entry.size,
        mtime_s: entry.mtime_s,
        mtime_ns: entry.mtime_ns,
    }
}

fn told(
    callback: unsafe extern "C" fn(*mut c_void, *const fobs_entry) -> c_int,
    user: *mut c_void,
    entry: &fobs_entry,
) -> c_int {
    // SAFETY: a function of the caller, with a pointer that is valid during the call.
    unsafe { callback(user, entry) }
}

/// Says what a name stands for; FOBS_NO_SOURCE where it stands for nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_stat(session: u64, name: *const c_char, entry: *mut fobs_entry) -> c_int {
    call(|| {
        let (session, name) = (handles::session(session)?, bytes(name, "the name")?);
        *place(entry, "the place for the entry")? = entry_of(&session.stat(name)?, std::ptr::null());
        Ok(())
    })
}

/// Calls back with each entry of a directory.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_list(
    session: u64,
    name: *const c_char,
    callback: fobs_entry_callback,
    user: *mut c_void,
) -> c_int {
    call(|| {
        let (session, name) = (handles::session(session)?, bytes(name, "the name")?);
        let callback = callback.ok_or_else(|| null("the callback"))?;
        for entry in session.list(name)? {
            let last = CString::new(entry.name.clone()).unwrap_or_default();
            let entry = entry_of(&entry, last.as_ptr());
            if told(callback, user, &entry) != 0 {
                return Err(Error::new(ErrorKind::Interrupted, "the callback ended the listing"));
            }
        }
        Ok(())
    })
}

/// Removes a file, a link or an empty directory; a directory with all that is in it if tree is not 0.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_remove(session: u64, name: *const c_char, tree: c_int) -> c_int {
    call(|| {
        let (session, name) = (handles::session(session)?, bytes(name, "the name")?);
        if tree != 0 { session.remove_tree(name) } else { session.remove(name) }
    })
}

/// Makes a directory; with those above it, and none where it exists, if parents is not 0.
#[unsafe(no_mangle)]
pub extern "C" fn fobs_mkdir(session: u64, name: *const c_char, parents: c_int) -> c_int {
    call(|| {
        let (session, name) = (handles::session(session)?, bytes(name, "the name")?);
        if parents != 0 { session.make_directories(name) } else { session.make_directory(name) }
    })
}
