//! Writes that raise no signal. A program in another language may have SIGPIPE at its default, which ends it.

use std::mem::MaybeUninit;
use std::ptr;

/// Calls `act`, whose writes to pipes without a reader fail with `EPIPE` and raise no signal. For what has
/// no `MSG_NOSIGNAL`: one system call where the program ignores the signal, as those of Rust do, else a few.
pub fn without_sigpipe<T>(act: impl FnOnce() -> T) -> T {
    let held = if is_ignored() { None } else { Held::take() };
    let done = act();
    drop(held);
    done
}

/// SIGPIPE is blocked in this thread until this is dropped.
struct Held {
    pipe: libc::sigset_t,
    before: libc::sigset_t,
    /// One that was pending is not ours to take.
    was_pending: bool,
}

impl Held {
    fn take() -> Option<Held> {
        let was_pending = is_pending();
        let (mut pipe, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the sets are written by the calls before they are read; the mask is this thread's own.
        unsafe {
            libc::sigemptyset(pipe.as_mut_ptr());
            libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE);
            if libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), before.as_mut_ptr()) != 0 {
                return None;
            }
            Some(Held { pipe: pipe.assume_init(), before: before.assume_init(), was_pending })
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        if !self.was_pending && is_pending() {
            // SAFETY: the set and the time live; no information is asked for. The signal is this thread's,
            // as write(2) raises it.
            unsafe { libc::sigtimedwait(&raw const self.pipe, ptr::null_mut(), &raw const none) };
        }
        // SAFETY: the mask that this thread had before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
    }
}

fn is_ignored() -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: no action is set; the call writes the present one before it is looked at.
    unsafe {
        libc::sigaction(libc::SIGPIPE, ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

fn is_pending() -> bool {
    let mut pending = MaybeUninit::uninit();
    // SAFETY: the call writes the set before it is looked at.
    unsafe {
        libc::sigpending(pending.as_mut_ptr()) == 0 && libc::sigismember(pending.as_ptr(), libc::SIGPIPE) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::Command;

    /// Set in the process that has SIGPIPE at its default.
    const ROLE: &str = "FOBS_SYS_SIGPIPE_ROLE";

    #[test]
    fn a_pipe_without_a_reader_ends_no_program() {
        if std::env::var_os(ROLE).is_some() {
            // SAFETY: no other handler is replaced in this process of its own.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
            let (reader, mut writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            let written = without_sigpipe(|| writer.write(b"x"));
            assert_eq!(written.expect_err("no reader").kind(), std::io::ErrorKind::BrokenPipe);
            std::process::exit(17);
        }
        let name = "signal::tests::a_pipe_without_a_reader_ends_no_program";
        let this = std::env::current_exe().expect("a path");
        let ended = Command::new(this).args([name, "--exact"]).env(ROLE, "1").status().expect("it runs");
        assert_eq!(ended.code(), Some(17));
    }
}
