//! Standard output and output files.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::{EXIT_FILE_IO, Failure};

/// Standard output. When its reader has closed the pipe, which is no error, further output is discarded.
pub enum Stdout {
    /// Bytes are written.
    Open,
    /// The reader is gone.
    Closed,
}

impl Stdout {
    fn ignore_broken_pipe<T>(&mut self, done: io::Result<T>, otherwise: T) -> io::Result<T> {
        match done {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                *self = Stdout::Closed;
                Ok(otherwise)
            }
            done => done,
        }
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stdout::Open => {
                let done = io::stdout().write(bytes);
                self.ignore_broken_pipe(done, bytes.len())
            }
            Stdout::Closed => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = io::stdout().flush();
        self.ignore_broken_pipe(done, ())
    }
}

/// Prints to standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = Stdout::Open;
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(unwritable)
}

/// The failure of a write to standard output.
pub fn unwritable(error: io::Error) -> Failure {
    let message = format!("cannot write to standard output: {error}; check where it goes");
    Failure::with_code(EXIT_FILE_IO, message)
}

/// What a command prints for people: nothing where one of its files is `-`, standard output, so that a
/// program reads that file alone.
#[derive(Debug, Clone, Copy)]
pub struct People {
    listen: bool,
}

impl People {
    /// Beside these files.
    pub fn beside(files: &[&Option<PathBuf>]) -> People {
        People { listen: !files.iter().copied().flatten().any(|path| is_stdout(path)) }
    }

    /// Prints to standard output, unless a file goes there.
    pub fn print(self, text: &str) -> Result<(), Failure> {
        if self.listen { print(text) } else { Ok(()) }
    }
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes a file, replacing an existing one; `-` is standard output.
pub fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    if is_stdout(path) {
        return print(text);
    }
    fs::write(path, text).map_err(|error| {
        let message = format!("cannot write {}: {error}; check the path", path.display());
        Failure::with_code(EXIT_FILE_IO, message)
    })
}
