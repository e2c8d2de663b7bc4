//! Watches another program that copies over TCP, without changing it, and records it as a transfer of ours
//! is recorded: then the same rules name its limit (docs/explain.md).
//!
//! ```text
//!   processes  the program and its children: threads, CPU, what they are blocked in, their sockets
//!   naps       whether what moves its data sleeps by its own choice
//!   tally      what the connections did between two looks
//!   account    looks to samples: where the time of the sending end went
//! ```
//!
//! The kernel tells all of it to the user whose processes they are (`/proc`, `NETLINK_SOCK_DIAG`). Of the far
//! end only what its TCP says is known.

mod account;
mod naps;
mod processes;
mod tally;

#[cfg(test)]
mod tests;

use account::Account;
pub use fobs_explain::journal::{At, Journal, Measured};
pub use fobs_explain::trace::{End, Head, Subject, Trace};
use fobs_sys::SocketDiag;
use processes::Processes;
use std::time::{Duration, Instant, SystemTime};
use tally::Tally;

/// Time between two looks: some in each sample, so that what stands still in a part of it is a part of it.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Time between two samples, as a transfer of ours takes them.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// A connection that carried less is no copy, bytes.
const COPIED_MIN: u64 = 64 << 10;

/// Why a program cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// There is no such process.
    #[error("there is no process {0}; ps lists those that run")]
    NoProcess(u32),
    /// Its files and sockets belong to another user.
    #[error(
        "process {0} belongs to another user, so its connections cannot be told from others; run fobs explain as that user, or as root"
    )]
    NotOurs(u32),
    /// The kernel does not report sockets.
    #[error("the kernel does not report TCP connections ({0}): it needs CONFIG_INET_DIAG")]
    NoDiag(std::io::Error),
    /// It ended before anything could be measured.
    #[error(
        "the program was over before anything could be measured ({0:.1} s); explain one that runs for a second or more"
    )]
    TooShort(f64),
    /// It moved its data by UDP.
    #[error(
        "the program uses UDP, of which the kernel keeps no account; fobs explain -- works for programs that use TCP (rsync, scp, sftp, curl)"
    )]
    Udp,
    /// None of its connections carried data.
    #[error(
        "the program and its children had no TCP connection that carried data; give the program that copies, not one that asks another to"
    )]
    NoConnection,
}

/// A program that is being watched.
#[derive(Debug)]
pub struct Watch {
    began: Instant,
    root: u32,
    diag: SocketDiag,
    processes: Processes,
    tally: Tally,
    account: Account,
    journal: Journal,
    sampled: Instant,
    tools: Vec<String>,
    /// When the watching began, seconds since 1970.
    began_unix_s: u64,
}

impl Watch {
    /// Watches a process and its children from now on.
    ///
    /// # Errors
    /// [`WatchError`], if it cannot be watched.
    pub fn new(root: u32) -> Result<Watch, WatchError> {
        let diag = SocketDiag::open().map_err(WatchError::NoDiag)?;
        let processes = Processes::of(root)?;
        if processes.denied() {
            return Err(WatchError::NotOurs(root));
        }
        let now = Instant::now();
        Ok(Watch {
            began: now,
            root,
            diag,
            processes,
            tally: Tally::default(),
            account: Account::default(),
            journal: Journal::new(),
            sampled: now,
            tools: Vec::new(),
            began_unix_s: SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()),
        })
    }

    /// Looks at it; to be called every [`LOOK_EVERY`]. Whether it still runs.
    ///
    /// # Errors
    /// If the kernel stops answering.
    pub fn look(&mut self) -> Result<bool, WatchError> {
        let now = Instant::now();
        let runs = self.processes.look(now);
        let connections = self.diag.connections().map_err(WatchError::NoDiag)?;
        self.tally.look(connections.iter().filter(|it| self.processes.carries(it.inode)));
        for name in self.processes.names() {
            if !self.tools.contains(name) && self.tools.len() < processes::PROCESSES_MAX {
                self.tools.push(name.clone());
            }
        }
        if now - self.sampled >= SAMPLE_EVERY || !runs {
            self.sample(now);
        }
        Ok(runs)
    }

    fn sample(&mut self, now: Instant) {
        let took = now - self.sampled;
        self.sampled = now;
        let worked = self.processes.take();
        let moved = self.tally.take();
        let ssh = self.tools.iter().any(|name| name == "ssh");
        self.account.add(
            took,
            &worked,
            &moved,
            if ssh { account::Carrier::Ssh } else { account::Carrier::Tcp },
        );
        let at_us = micros(now - self.began);
        self.journal.push(At { at_us, what: Measured::Sender(self.account.sender().clone()) });
        self.journal.push(At { at_us, what: Measured::Receiver(self.account.receiver().clone()) });
    }

    /// What was recorded, as a trace.
    ///
    /// # Errors
    /// [`WatchError`], if the program moved nothing by TCP.
    pub fn finish(mut self) -> Result<Trace, WatchError> {
        let now = Instant::now();
        if now > self.sampled {
            self.sample(now);
        }
        let (bytes, seconds) = (self.account.moved(), self.account.seconds());
        if bytes < COPIED_MIN {
            let seconds = (now - self.began).as_secs_f64();
            return Err(if self.processes.denied() {
                WatchError::NotOurs(self.root)
            } else if self.processes.has_udp() {
                WatchError::Udp
            } else if now - self.began < SAMPLE_EVERY {
                WatchError::TooShort(seconds)
            } else {
                WatchError::NoConnection
            });
        }
        let ssh = self.tools.iter().any(|name| name == "ssh");
        let tool = self.tools.first().cloned().unwrap_or_default();
        // Not its arguments, which may hold a password. Without a name the page says nothing of the host.
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let head = Head {
            subject: Subject::new(std::slice::from_ref(&tool), "", host.trim(), self.began_unix_s),
            control: if ssh { "ssh" } else { "tcp" }.to_owned(),
            transport: "tcp".to_owned(),
            cipher: String::new(),
            cc: tool,
        };
        let end = End::Done { bytes, seconds, packet_size: 0, deadline_margin_s: None };
        Ok(Trace { head, journal: self.journal, end })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
