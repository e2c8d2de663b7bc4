//! Pipes between programs of one host.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Has a pipe hold this number of bytes, if it holds fewer.
///
/// # Errors
/// Where it is no pipe, or the kernel gives its user no more.
pub fn widen_pipe(pipe: impl AsFd, bytes: u32) -> io::Result<()> {
    let pipe = pipe.as_fd().as_raw_fd();
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    // SAFETY: the descriptor is open for as long as it is borrowed; both calls take numbers only.
    let done = unsafe {
        match libc::fcntl(pipe, libc::F_GETPIPE_SZ) {
            has if has < 0 || has >= bytes => has,
            _ => libc::fcntl(pipe, libc::F_SETPIPE_SZ, bytes),
        }
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;

    #[test]
    fn a_wider_pipe_takes_more_at_once() {
        let (_reader, mut writer) = io::pipe().unwrap();
        widen_pipe(&writer, 256 << 10).unwrap();
        writer.write_all(&[0; 256 << 10]).unwrap();
        widen_pipe(&writer, 4096).unwrap();
        assert!(widen_pipe(File::open("/dev/null").unwrap(), 4096).is_err());
    }
}
