//! The environment of one test: two hosts, a directory, a deadline, a seed, and a lock on the machine.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant, SystemTime};

use super::files::{self, Random};
use super::net::{Net, Side};
use super::process::{Finished, Running};

/// Longest duration of a test; its programs are killed then.
const TEST_TIME: Duration = Duration::from_secs(120);
/// Shortest time between two looks at a condition.
const POLL: Duration = Duration::from_millis(5);
/// Longest time between them.
const POLL_MAX: Duration = Duration::from_millis(60);
/// What a look takes is slept this many times: some looks start a program, and would slow the tests that do
/// not wait.
const SLEPT_PER_LOOK: u32 = 3;
/// A server that has not said by then that it listens is looked for in the kernel's tables.
const SAYS_WITHIN: Duration = Duration::from_secs(1);
/// A fixed seed for reproducing a failure, in decimal.
const SEED_VARIABLE: &str = "FOBS_TEST_SEED";
/// Set, the directories of the tests stay, to be looked at.
const KEEP_VARIABLE: &str = "FOBS_TEST_KEEP";
/// Another `fobs` than the one that cargo has built, on both sides.
const PROGRAM_VARIABLE: &str = "FOBS_TEST_BIN";
/// Another `fobs` at the server's side.
const PEER_VARIABLE: &str = "FOBS_TEST_PEER_BIN";

/// Tests share the machine; one that measures time holds it alone.
static MACHINE: RwLock<()> = RwLock::new(());

enum Turn {
    Shared(#[expect(dead_code, reason = "held, not read")] RwLockReadGuard<'static, ()>),
    Alone(#[expect(dead_code, reason = "held, not read")] RwLockWriteGuard<'static, ()>),
}

/// A test's own seed: what it plays does not change with each run, or a change is judged by its luck. A long
/// run takes the clock instead, and finds what no seed has shown.
fn seed_of(name: &str) -> u64 {
    name.bytes().fold(0, |seed: u64, letter| seed.wrapping_mul(31).wrapping_add(u64::from(letter)))
}

/// The environment; removed when dropped.
pub struct Case {
    /// The two hosts.
    pub net: Net,
    /// When the test's programs are killed.
    pub deadline: Instant,
    seed: u64,
    name: &'static str,
    directory: tempfile::TempDir,
    _turn: Turn,
}

impl Case {
    /// A case with its directory in the usual temporary place.
    pub fn new(name: &'static str) -> Case {
        Case::make(
            name,
            &std::env::temp_dir(),
            Turn::Shared(MACHINE.read().unwrap_or_else(PoisonError::into_inner)),
        )
    }

    /// A case with its directory in a given place.
    pub fn within(name: &'static str, parent: &Path) -> Case {
        Case::make(name, parent, Turn::Shared(MACHINE.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// A case that runs alone: for a test that bounds a duration.
    pub fn alone(name: &'static str) -> Case {
        Case::make(
            name,
            &std::env::temp_dir(),
            Turn::Alone(MACHINE.write().unwrap_or_else(PoisonError::into_inner)),
        )
    }

    fn make(name: &'static str, parent: &Path, turn: Turn) -> Case {
        let mut directory =
            tempfile::Builder::new().prefix("fobs-e2e-").tempdir_in(parent).expect("a directory");
        directory.disable_cleanup(std::env::var_os(KEEP_VARIABLE).is_some());
        let seed = match std::env::var(SEED_VARIABLE) {
            Ok(text) => text.parse().expect("the seed is a decimal number"),
            Err(_) if cfg!(feature = "long") => {
                SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_nanos() as u64
            }
            Err(_) => seed_of(name),
        };
        eprintln!("{name}: {SEED_VARIABLE}={seed}");
        let net = Net::new(name);
        let case = Case { net, deadline: Instant::now() + TEST_TIME, seed, name, directory, _turn: turn };
        case.make_directories();
        case
    }

    /// This case's seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A generator from this case's seed.
    pub fn random(&self) -> Random {
        Random::new(self.seed)
    }

    /// A path in the case's own directory.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(relative)
    }

    /// A path on the client's side.
    pub fn local(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.path("local").join(relative)
    }

    /// A command in this case's environment, without the user's own configuration.
    pub fn command(&self, side: Side, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.net.command(side, program);
        command
            .env("HOME", self.path("home"))
            .env("XDG_RUNTIME_DIR", self.path("home"))
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_STATE_HOME")
            .env_remove("SSH_AUTH_SOCK");
        // Nothing that this host or its user has set counts.
        let is_set = |name: &OsStr| name.as_bytes().starts_with(b"FOBS_");
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_set(name)) {
            command.env_remove(name);
        }
        command.env("FOBS_SYSTEM_CONFIG", "/dev/null").env("LC_ALL", "C");
        command
    }

    /// The `fobs` under test; on the server's side the other one, if there are two.
    pub fn fobs(&self, side: Side) -> Command {
        self.command(side, if side == Side::Server { peer_path() } else { fobs_path() })
    }

    /// Runs a command to its end under the test's deadline.
    #[track_caller]
    pub fn run(&self, command: &mut Command) -> Finished {
        Running::start(command, self.deadline, None).finish()
    }

    /// Runs a command with this standard input.
    #[track_caller]
    pub fn run_with_input(&self, command: &mut Command, input: Vec<u8>) -> Finished {
        Running::start(command, self.deadline, Some(input)).finish()
    }

    /// Starts a command in the background.
    #[track_caller]
    pub fn start(&self, command: &mut Command) -> Running {
        Running::start(command, self.deadline, None)
    }

    /// Starts a command as the foreground group of a terminal of its own; the file is its keyboard.
    #[track_caller]
    pub fn start_on_a_terminal(&self, command: &Command) -> (Running, std::fs::File) {
        Running::start_on_a_terminal(command, self.deadline)
    }

    /// Removes what servers and transfers have left in the case's directory, for another round in the same
    /// turn.
    pub fn start_over(&self) {
        for entry in std::fs::read_dir(self.directory.path()).expect("own directory").flatten() {
            let path = entry.path();
            let removed =
                if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.unwrap_or_else(|e| panic!("{path:?}: {e}"));
        }
        self.make_directories();
    }

    fn make_directories(&self) {
        for inner in ["local", "home"] {
            std::fs::create_dir(self.path(inner)).expect("a fresh directory");
        }
    }

    /// Waits for a condition that must hold before the deadline.
    #[track_caller]
    pub fn wait_for(&self, what: &str, mut come_true: impl FnMut() -> bool) {
        loop {
            let look = Instant::now();
            if come_true() {
                return;
            }
            assert!(Instant::now() < self.deadline, "in time: {what}");
            std::thread::sleep((look.elapsed() * SLEPT_PER_LOOK).clamp(POLL, POLL_MAX));
        }
    }

    /// Lets every user read what lies here and run `fobs`; returns a copy of it that any user may execute.
    /// For tests that give up root: the build directory may lie where another user cannot go.
    pub fn open_to_every_user(&self) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(self.directory.path(), PermissionsExt::from_mode(0o755))
            .expect("own directory");
        let copy = self.path("fobs");
        std::fs::copy(fobs_path(), &copy).expect("room for a copy of the binary");
        std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).expect("own file");
        copy
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: to see it again: {SEED_VARIABLE}={}", self.name, self.seed);
        }
        files::make_writable(self.directory.path());
    }
}

/// The binary under test: what cargo has built, or that of a package.
pub fn fobs_path() -> &'static Path {
    static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
        std::env::var_os(PROGRAM_VARIABLE).map_or_else(|| env!("CARGO_BIN_EXE_fobs").into(), PathBuf::from)
    });
    &PATH
}

/// The binary at the other end: the same, unless two releases are tried with each other.
pub fn peer_path() -> &'static Path {
    static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
        std::env::var_os(PEER_VARIABLE).map_or_else(|| fobs_path().to_owned(), PathBuf::from)
    });
    &PATH
}

/// Waits until a process's host listens on a TCP port, or fails with the process's output. It takes 10 ms of
/// CPU to read the kernel's tables, so the server's own word comes first.
#[track_caller]
pub fn wait_until_listening(case: &Case, server: &mut Running, port: u16) {
    let started = Instant::now();
    loop {
        let said = server.stderr_so_far().contains("listening");
        if (said || started.elapsed() > SAYS_WITHIN) && listens(server.id(), port) {
            return;
        }
        assert!(server.exited().is_none(), "the server ended early: {}", server.stderr_so_far());
        assert!(Instant::now() < case.deadline, "nothing listens on {port}: {}", server.stderr_so_far());
        std::thread::sleep(if said { POLL_MAX } else { POLL });
    }
}

/// Whether the network namespace of a process has a listening TCP socket at a port.
fn listens(pid: u32, port: u16) -> bool {
    let needle = format!(":{port:04X} ");
    ["tcp", "tcp6"].iter().any(|table| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        // The local address is the first to carry the port; state 0A is LISTEN.
        text.lines().any(|line| line.contains(&needle) && line.contains(" 0A "))
    })
}
