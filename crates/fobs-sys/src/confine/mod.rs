//! The walls that the kernel keeps around a session (docs/security.md, "Walls"): Landlock for what it
//! reaches, seccomp for what it calls.
//!
//! Behind every check of a name stands one that knows no names: a thread that serves a client is in a domain
//! of the kernel, so a check that was forgotten is an error message and no escape.
//!
//! ```text
//!   `serving`      a thread that cannot make certain system calls, nor can those that it starts
//!     a clerk        waits, and does what the domain forbids but a session needs (`outside`)
//!       `within`       a thread in its domain, and every thread that it starts (`spawn`)
//! ```
//!
//! Domains and filters belong to threads, so one process has many. Where the kernel lacks a wall, its
//! function calls what it is given and does nothing else.

mod calls;
mod clerk;
mod domain;
#[cfg(feature = "testing")]
pub mod drill;
mod errand;
mod kernel;

pub use clerk::outside;
pub use domain::{Access, Domain, Grant, Tcp};
pub use errand::Errand;
pub use kernel::{calls_here, landlock_here};

use std::io;
use std::panic::resume_unwind;
use std::thread::{self, Builder, JoinHandle};

use clerk::Clerk;
use landlock::RulesetError;

/// Calls `body` in a thread of this name in this domain, and does for it what the domain forbids but the
/// program needs; returns what it returned.
///
/// # Errors
/// One sentence, where the thread cannot be started, or cannot enter the domain that this kernel offers: then
/// nothing is done.
pub fn within<T: Send>(domain: Domain, name: &str, body: impl FnOnce() -> T + Send) -> io::Result<T> {
    let landlock = landlock_here();
    if !domain.holds_under(landlock) {
        return Ok(body());
    }
    // Inside another domain it is the one outside of both that can do something.
    let (clerk, works_here) = match Clerk::of_this_thread() {
        Some(clerk) => (clerk, false),
        None => (Clerk::new(), true),
    };
    thread::scope(|scope| {
        let closer = works_here.then(|| Closer(clerk.clone()));
        let (adopted, mark) = (clerk.clone(), crate::thread::mark());
        let confined = move || -> std::result::Result<T, RulesetError> {
            let _closer = closer;
            crate::thread::set_mark(mark);
            adopted.adopt();
            domain.enter(landlock)?;
            #[cfg(feature = "testing")]
            drill::at_start();
            Ok(body())
        };
        let thread = Builder::new().name(name.to_owned()).spawn_scoped(scope, confined).map_err(no_thread)?;
        if works_here {
            clerk.work();
        }
        match thread.join() {
            Ok(Ok(returned)) => Ok(returned),
            Ok(Err(error)) => Err(io::Error::other(format!(
                "cannot confine the session to what it may reach: {error}; try again later"
            ))),
            Err(panic) => resume_unwind(panic),
        }
    })
}

/// Calls `body` in a thread of this name that cannot make the system calls that no session needs, as far as
/// the kernel can refuse some, and waits for it. The kernel takes 0.2 ms to prepare that, so a daemon does it
/// once for all of its sessions.
///
/// # Errors
/// One sentence, where the thread cannot be started.
pub fn serving<T: Send>(name: &str, body: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let filtered = move || {
            calls::refuse();
            body()
        };
        let thread = Builder::new().name(name.to_owned()).spawn_scoped(scope, filtered).map_err(no_thread)?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Closes the clerk when the confined thread ends, by a panic too.
struct Closer(Clerk);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Starts a thread in the domain of the calling one, with its clerk.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(inherited(body))
}

/// What a thread calls that is started in another way and has the clerk of the calling one.
pub fn inherited<T>(body: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let (clerk, mark) = (Clerk::of_this_thread(), crate::thread::mark());
    move || {
        crate::thread::set_mark(mark);
        if let Some(clerk) = clerk {
            clerk.adopt();
            #[cfg(feature = "testing")]
            drill::at_start();
        }
        body()
    }
}

fn no_thread(error: io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!(
            "cannot start a thread: {error}; raise the limit of processes (ulimit -u) or try again later"
        ),
    )
}

#[cfg(test)]
mod tests;
