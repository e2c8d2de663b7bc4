//! What `close` says of a file, which `std` drops.

use std::os::fd::{AsFd, IntoRawFd};

use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// Says of an open file what `close` would say, and leaves it open. File systems that take writes before
/// their server has them (NFS, FUSE, SMB) report then those that failed.
///
/// # Errors
/// What `close` fails with, or that there is no descriptor left.
pub fn try_close(file: impl AsFd) -> Result<(), Errno> {
    let copy = fcntl_dupfd_cloexec(file, 0)?.into_raw_fd();
    // SAFETY: the descriptor was made here, nothing else has it, and it is not used again: Linux closes it
    // whatever `close` returns.
    match unsafe { libc::close(copy) } {
        0 => Ok(()),
        _ => match std::io::Error::last_os_error().raw_os_error().map(Errno::from_raw_os_error) {
            // It is closed.
            None | Some(Errno::INTR) => Ok(()),
            Some(errno) => Err(errno),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_stays_open() {
        let mut file = tempfile::tempfile().expect("a file");
        for _ in 0..2000 {
            try_close(&file).expect("a local file system has written nothing that can fail");
        }
        file.write_all(b"more").expect("it is open");
    }
}
