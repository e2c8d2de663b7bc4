//! The server under attack, a process of its own: what it uses is counted, and its death is seen.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::right::{Right, known};
use super::world::World;
use fobs::keygen;
use fobs_channel::secure::identity::{Identity, PublicKey};
use fobs_model::rights::Access;

/// Address space that a server may have, KiB: far above what it needs, so that one that would take the whole
/// machine's memory dies instead, which is a finding.
const SPACE_MAX_KIB: u64 = 3 << 20;
/// Longest file that a server may write, in units of 512 bytes: a client may announce any size.
const FILE_MAX_BLOCKS: u64 = 256 << 11;
/// How often the memory of a process that may end is looked at.
const WATCH_EVERY: Duration = Duration::from_millis(3);
/// Looks of 5 ms in which the number of threads must stay to be taken for that at rest.
const STEADY: usize = 40;
/// How long a server may take to listen.
const START_WAIT: Duration = Duration::from_secs(20);
/// UDP ports of one server: sessions that end keep theirs for a moment.
const PORTS: u16 = 16;
/// Below the kernel's ephemeral ports.
const PORTS_BEGIN: u16 = 20_000;
const PORTS_END: u16 = 32_000;
/// The key of the client that keeps the rules.
pub(super) const HONEST: &str = "honest";

/// What runs as the server.
#[derive(Debug, Clone)]
pub enum Program {
    /// A `fobs` of this path.
    Installed(PathBuf),
    /// This test binary, which serves where a variable says so.
    #[cfg(test)]
    ThisTest,
}

/// What [`Program`] is to do, for a test binary.
#[cfg(test)]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) enum Service {
    /// `fobs serve`.
    Daemon { port: u16, udp_ports: (u16, u16), root: PathBuf, state: PathBuf },
    /// `fobs server --restrict`.
    Login { root: PathBuf, word: String, privileged: bool },
}

/// The variable with a [`Service`].
#[cfg(test)]
pub(super) const SERVICE_VARIABLE: &str = "FOBS_HOSTILE_SERVICE";

impl Program {
    fn daemon(&self, world: &World, port: u16, udp_ports: (u16, u16)) -> Command {
        let (root, state) = (world.root(), world.state());
        match self {
            Program::Installed(path) => {
                let mut command = bounded(path, world);
                command.args(["serve", "--third-party", "--listen"]).arg(format!("127.0.0.1:{port}"));
                command.arg("--root").arg(root).arg("--authorized-keys").arg(state.join("authorized_keys"));
                command.arg("--identity").arg(state.join("server"));
                command.arg("--udp-ports").arg(format!("{}-{}", udp_ports.0, udp_ports.1));
                command
            }
            #[cfg(test)]
            Program::ThisTest => this_test(world, &Service::Daemon { port, udp_ports, root, state }),
        }
    }

    fn login(&self, world: &World, right: Right) -> Command {
        let root = world.root();
        let mut command = match self {
            Program::Installed(path) => {
                let mut command = bounded(path, world);
                command.args(["server", "--restrict"]).arg(root);
                if right.access != Access::ReadWrite {
                    command.arg(format!("--{}", right.word()));
                }
                if right.privileged {
                    command.arg("--privileged");
                }
                command
            }
            #[cfg(test)]
            Program::ThisTest => {
                let (word, privileged) = (right.word().to_owned(), right.privileged);
                this_test(world, &Service::Login { root, word, privileged })
            }
        };
        command.env("SSH_CONNECTION", "127.0.0.1 1 127.0.0.1 22").env("SSH_ORIGINAL_COMMAND", "fobs server");
        command
    }
}

/// A program with bounds that the kernel keeps, in an environment of its own.
fn bounded(program: &Path, world: &World) -> Command {
    let script = format!(
        "trap '' XFSZ; ulimit -c 0; ulimit -v {SPACE_MAX_KIB}; ulimit -f {FILE_MAX_BLOCKS}; exec \"$@\""
    );
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &script, "sh"]).arg(program).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("HOME", world.state()).env("RUST_BACKTRACE", "0");
    command
}

#[cfg(test)]
fn this_test(world: &World, service: &Service) -> Command {
    let mut command = bounded(&std::env::current_exe().expect("a test has a path"), world);
    command.args(["hostile::tests::child::serves_where_it_is_told_to", "--exact", "--nocapture"]);
    command.env(SERVICE_VARIABLE, serde_json::to_string(service).expect("it is text"));
    command
}

/// A number of `/proc/PID/status`.
fn member(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A process of a server.
pub(super) struct Process {
    pub(super) child: Child,
    /// Where its standard error goes, and how much of it was looked at.
    log: (PathBuf, u64),
    /// Resident memory when its peak was last forgotten, bytes.
    resident: u64,
}

impl Process {
    fn start(mut command: Command, log: PathBuf) -> io::Result<Process> {
        let child = command.stderr(File::create(&log)?).spawn()?;
        Ok(Process { child, log: (log, 0), resident: 0 })
    }

    fn status(&self, name: &str) -> Option<u64> {
        member(&fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?, name)
    }

    pub(super) fn threads(&self) -> u64 {
        self.status("Threads").unwrap_or(0)
    }

    /// Watches the most resident memory of a process that may end by itself, until it ends.
    pub(super) fn watch(&self) -> Arc<AtomicU64> {
        let (peak, path) = (Arc::new(AtomicU64::new(0)), format!("/proc/{}/status", self.child.id()));
        let seen = peak.clone();
        thread::spawn(move || {
            while let Some(kib) = fs::read_to_string(&path).ok().and_then(|status| member(&status, "VmHWM")) {
                seen.fetch_max(kib * 1024, Ordering::Relaxed);
                thread::sleep(WATCH_EVERY);
            }
        });
        peak
    }

    /// Has the kernel forget the highest memory so far.
    pub(super) fn forget_peak(&mut self) {
        // Where that is not allowed, the peak is that of all cases so far.
        let _ = fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5");
        self.resident = self.status("VmRSS").unwrap_or(0) * 1024;
    }

    /// Most resident memory since then, beyond what there was; 0 for a process that has ended.
    pub(super) fn peak(&self) -> u64 {
        (self.status("VmHWM").unwrap_or(0) * 1024).saturating_sub(self.resident)
    }

    /// CPU time so far.
    pub(super) fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // Fields 14 and 15, in ticks of 10 ms; the name before them may hold anything up to its bracket.
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        let ticks: u64 =
            after.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// How it has ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// What it has written to its log since the last call.
    pub(super) fn said(&mut self) -> String {
        let mut said = Vec::new();
        let read = File::open(&self.log.0).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.log.1))?;
            file.read_to_end(&mut said)
        });
        self.log.1 += read.unwrap_or(0) as u64;
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A daemon with a key for each right.
pub(super) struct Daemon {
    pub(super) process: Process,
    pub(super) port: u16,
    pub(super) udp_ports: (u16, u16),
    /// Its key.
    pub(super) key: PublicKey,
    keys: BTreeMap<String, Identity>,
    /// Threads while it serves nobody.
    pub(super) threads_at_rest: u64,
}

impl Daemon {
    /// Starts one, and waits until it listens.
    pub(super) fn start(program: &Program, world: &World) -> io::Result<Daemon> {
        let state = world.state();
        let failed = |error: fobs_model::error::Error| io::Error::other(error.message);
        let _ = fs::remove_file(state.join("server"));
        keygen(Some(&state.join("server"))).map_err(failed)?;
        let key = Identity::load(&state.join("server")).map_err(failed)?.public();
        let (mut keys, mut lines) = (BTreeMap::new(), String::new());
        let honest = std::iter::once((HONEST.to_owned(), "read-write".to_owned()));
        for (name, options) in known().into_iter().map(|right| (right.name(), right.options())).chain(honest)
        {
            let identity = Identity::generate();
            lines.push_str(&format!("{options} {} {name}\n", identity.public()));
            keys.insert(name, identity);
        }
        let authorized = state.join("authorized_keys");
        fs::write(&authorized, lines)?;
        fs::set_permissions(&authorized, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        // Free when asked; another process may take it meanwhile, which is seen.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let udp_ports = ports_of_one();
        let mut command = program.daemon(world, port, udp_ports);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut process = Process::start(command, state.join("daemon.log"))?;
        let begun = Instant::now();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        while TcpStream::connect_timeout(&address, START_WAIT).is_err() {
            if process.ended().is_some() || begun.elapsed() > START_WAIT {
                return Err(io::Error::other(format!("the daemon does not listen: {}", process.said())));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(Daemon { process, port, udp_ports, key, keys, threads_at_rest: 0 })
    }

    /// The key with a right, by its name.
    pub(super) fn identity(&self, name: &str) -> Option<&Identity> {
        self.keys.get(name)
    }

    /// Takes the threads that it has now, once their number stays, for those that it has at rest.
    pub(super) fn take_rest(&mut self) {
        let (mut same, begun) = (0, Instant::now());
        while same < STEADY && begun.elapsed() < START_WAIT {
            let now = self.process.threads();
            same = if now == self.threads_at_rest { same + 1 } else { 0 };
            self.threads_at_rest = now;
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Starts `fobs server --restrict` with pipes, and a log of its own.
pub(super) fn login(program: &Program, world: &World, right: Right) -> io::Result<Process> {
    let mut command = program.login(world, right);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Process::start(command, world.state().join("login.log"))
}

/// A range of UDP ports for a server of this process.
pub(super) fn ports_of_one() -> (u16, u16) {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let ranges = u32::from((PORTS_END - PORTS_BEGIN) / PORTS);
    let number = (std::process::id() * 7 + STARTED.fetch_add(1, Ordering::Relaxed)) % ranges;
    let first = PORTS_BEGIN + number as u16 * PORTS;
    (first, first + PORTS - 1)
}
