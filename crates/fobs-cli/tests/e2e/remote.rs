//! The remote end over either carrier, and a transfer to or from it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::case::Case;
use super::daemon::Daemon;
use super::sshd::Sshd;

/// The carrier of the control channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// `fobs://`.
    Daemon,
    /// `host:path`.
    Ssh,
}

/// The direction of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Client to server.
    Push,
    /// Server to client.
    Pull,
}

/// A carrier and a direction, with both ends up.
pub struct Route<'a> {
    case: &'a Case,
    direction: Direction,
    end: End,
}

enum End {
    Daemon(Box<Daemon>),
    Ssh(Sshd),
}

impl<'a> Route<'a> {
    /// Starts the other end, with every right.
    #[track_caller]
    pub fn open(case: &'a Case, carrier: Carrier, direction: Direction) -> Route<'a> {
        let end = match carrier {
            Carrier::Daemon => End::Daemon(Box::new(Daemon::start(case, "read-write,privileged"))),
            Carrier::Ssh => End::Ssh(Sshd::start(case)),
        };
        Route { case, direction, end }
    }

    /// To a daemon that runs.
    pub fn to(case: &'a Case, daemon: Daemon, direction: Direction) -> Route<'a> {
        Route { case, direction, end: End::Daemon(Box::new(daemon)) }
    }

    /// Which way it leads.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    fn remote_root(&self) -> &Path {
        match &self.end {
            End::Daemon(daemon) => &daemon.root,
            End::Ssh(sshd) => &sshd.root,
        }
    }

    /// The real path of something at the source's end.
    pub fn source_path(&self, relative: impl AsRef<Path>) -> PathBuf {
        match self.direction {
            Direction::Push => self.case.local(relative),
            Direction::Pull => self.remote_root().join(relative),
        }
    }

    /// The real path of something at the target's end.
    pub fn target_path(&self, relative: impl AsRef<Path>) -> PathBuf {
        match self.direction {
            Direction::Push => self.remote_root().join(relative),
            Direction::Pull => self.case.local(relative),
        }
    }

    /// The argument that names something at the source's end. A trailing slash stays.
    pub fn source(&self, relative: impl AsRef<OsStr>) -> OsString {
        self.argument(relative.as_ref(), self.direction == Direction::Pull)
    }

    /// The argument that names something at the target's end.
    pub fn target(&self, relative: impl AsRef<OsStr>) -> OsString {
        self.argument(relative.as_ref(), self.direction == Direction::Push)
    }

    fn argument(&self, relative: &OsStr, remote: bool) -> OsString {
        match (&self.end, remote) {
            (_, false) => {
                let mut path = self.case.path("local").into_os_string();
                path.push("/");
                path.push(relative);
                path
            }
            (End::Daemon(daemon), true) => {
                let mut location = OsString::from(daemon.url(""));
                location.push(relative);
                location
            }
            (End::Ssh(sshd), true) => sshd.location(relative),
        }
    }

    /// `fobs cp --json` over this carrier with more flags, but without sources and destination.
    pub fn cp(&self, flags: &[&str]) -> Command {
        let mut command = self.plain_cp(flags);
        command.arg("--json");
        command
    }

    /// The same without `--json`.
    pub fn plain_cp(&self, flags: &[&str]) -> Command {
        let mut command = match &self.end {
            End::Daemon(daemon) => daemon.plain_cp(self.case),
            End::Ssh(sshd) => sshd.plain_cp(self.case),
        };
        command.args(flags);
        command
    }

    /// `fobs sync` over this carrier, without sources and destination.
    pub fn sync(&self, options: &[String]) -> Command {
        let mut command = match &self.end {
            End::Daemon(daemon) => daemon.sync(self.case),
            End::Ssh(sshd) => sshd.sync(self.case),
        };
        command.args(options);
        command
    }

    /// The whole command for one source and one target.
    pub fn copy(&self, flags: &[&str], source: impl AsRef<OsStr>, target: impl AsRef<OsStr>) -> Command {
        let mut command = self.cp(flags);
        command.arg(self.source(source)).arg(self.target(target));
        command
    }

    /// The daemon at the other end.
    pub fn daemon(&mut self) -> &mut Daemon {
        match &mut self.end {
            End::Daemon(daemon) => daemon,
            End::Ssh(_) => panic!("this route has no daemon"),
        }
    }
}
