//! `fobs serve` with keys of its own, over a directory of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::case::{Case, fobs_path, peer_path, wait_until_listening};
use super::net::Side;
use super::process::Running;

/// A user that owns nothing: root drops to it in tests of permissions.
pub const NOBODY: u32 = 65534;

/// A FOBS identity: its file and its public line (`fobs-ed25519 BASE64`).
pub struct Key {
    /// The private file, for `-i` or `--identity`.
    pub file: PathBuf,
    /// The public line.
    pub public: String,
}

impl Key {
    /// Makes one with `fobs keygen`.
    #[track_caller]
    pub fn generate(case: &Case, name: &str) -> Key {
        let file = case.path(name);
        let made = case.run(case.fobs(Side::Client).args(["keygen", "--out"]).arg(&file)).expect_success();
        let line = String::from_utf8(made.stdout).expect("the public line is text");
        // Without its comment: each test gives its own.
        let public = line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        assert!(public.starts_with("fobs-ed25519 "), "a public line: {public}");
        Key { file, public }
    }
}

/// How a daemon is started.
pub struct Spec<'a> {
    /// Rights before each key in the authorized-keys file, and the key.
    pub authorized: &'a [(&'a str, &'a Key)],
    /// `--read-only`.
    pub read_only: bool,
    /// `--sessions-max`.
    pub sessions_max: Option<u32>,
    /// The daemon's identity.
    pub identity: &'a Key,
    /// The served directory.
    pub root: PathBuf,
    /// Another user to run as, and a copy of the binary that this user may execute.
    pub user: Option<(u32, PathBuf)>,
    /// Which host it runs on.
    pub side: Side,
    /// The address, without port.
    pub listen: String,
    /// Most address space of its process, bytes (`prlimit --as`).
    pub address_space: Option<u64>,
    /// More options.
    pub options: &'a [&'a str],
    /// More variables of its environment.
    pub variables: &'a [(&'a str, &'a str)],
}

/// A running daemon; killed when dropped, its output shown if the test failed.
pub struct Daemon {
    running: Running,
    command: Command,
    port: u16,
    /// The served directory: the clients' `/`.
    pub root: PathBuf,
    client_key: PathBuf,
    known_hosts: PathBuf,
    authority: String,
}

impl Daemon {
    /// A daemon over a fresh directory whose one client key has these rights (`""`, `"read-write"`, ...).
    #[track_caller]
    pub fn start(case: &Case, rights: &str) -> Daemon {
        let (client, server) = (Key::generate(case, "client-key"), Key::generate(case, "server-key"));
        Daemon::start_with(case, Spec::new(case, &[(rights, &client)], &server))
    }

    /// A daemon of a given kind; the first authorized key is the client's.
    #[track_caller]
    pub fn start_with(case: &Case, spec: Spec<'_>) -> Daemon {
        fs::create_dir_all(&spec.root).expect("the served directory");
        let authorized = case.path("authorized_keys");
        let lines: String = spec
            .authorized
            .iter()
            .map(|(rights, key)| {
                format!("{rights}{}{} e2e\n", if rights.is_empty() { "" } else { " " }, key.public)
            })
            .collect();
        fs::write(&authorized, format!("# of one test\n\n{lines}")).expect("a file of ours");
        let port = case.net.tcp_port();
        let (first, last) = case.net.udp_ports();

        let mut command = match &spec.user {
            None => match spec.address_space {
                None => case.fobs(spec.side),
                Some(bytes) => {
                    let mut command = case.command(spec.side, "prlimit");
                    command.arg(format!("--as={bytes}")).arg(peer_path());
                    command
                }
            },
            Some((user, program)) => {
                for file in [&authorized, &spec.identity.file] {
                    std::os::unix::fs::chown(file, Some(*user), Some(*user))
                        .expect("root may give files away");
                }
                as_user(case.command(spec.side, "setpriv"), *user, program)
            }
        };
        command
            .arg("serve")
            .arg("--listen")
            .arg(format!("{}:{port}", spec.listen))
            .arg("--root")
            .arg(&spec.root);
        command.arg("--authorized-keys").arg(&authorized).arg("--identity").arg(&spec.identity.file);
        command.arg("--udp-ports").arg(format!("{first}-{last}"));
        if spec.read_only {
            command.arg("--read-only");
        }
        if let Some(count) = spec.sessions_max {
            command.arg("--sessions-max").arg(count.to_string());
        }
        command.args(spec.options).envs(spec.variables.iter().copied());
        let mut running = case.start(&mut command);
        wait_until_listening(case, &mut running, port);
        let client_key = spec.authorized.first().expect("a client").1.file.clone();
        let known_hosts = case.path("known_hosts");
        Daemon {
            running,
            command,
            port,
            root: spec.root,
            client_key,
            known_hosts,
            authority: format!("{}:{port}", spec.listen),
        }
    }

    /// The key of its first client.
    pub fn client_key(&self) -> &Path {
        &self.client_key
    }

    /// The location of a path under the root, without its leading slash.
    pub fn url(&self, path: &str) -> String {
        format!("fobs://{}/{path}", self.authority)
    }

    /// `fobs cp` with the options for this daemon, without `--json`.
    pub fn plain_cp(&self, case: &Case) -> Command {
        self.add_arguments(case.fobs(Side::Client), &self.client_key)
    }

    /// `fobs cp --json` with the options for this daemon.
    pub fn cp(&self, case: &Case) -> Command {
        self.cp_with(case, &self.client_key)
    }

    /// The same with another client key.
    pub fn cp_with(&self, case: &Case, key: &Path) -> Command {
        let mut command = self.add_arguments(case.fobs(Side::Client), key);
        command.arg("--json");
        command
    }

    /// `fobs sync` with the options for this daemon.
    pub fn sync(&self, case: &Case) -> Command {
        self.sync_with(case, &self.client_key)
    }

    /// `fobs sync` with another key.
    pub fn sync_with(&self, case: &Case, key: &Path) -> Command {
        let mut command = case.fobs(Side::Client);
        command.args(["sync", "--identity"]).arg(key).arg("--known-hosts").arg(&self.known_hosts);
        command
    }

    /// `fobs doctor` with the options for this daemon.
    pub fn doctor(&self, case: &Case) -> Command {
        let mut command = case.fobs(Side::Client);
        command.args(["doctor", "-i"]).arg(&self.client_key).arg("--known-hosts").arg(&self.known_hosts);
        command
    }

    /// The same as another user, with a copy of the binary and of the key.
    pub fn cp_as(&self, case: &Case, user: u32, program: &Path) -> Command {
        let key = case.path("key-of-another-user");
        fs::copy(&self.client_key, &key).expect("a copy");
        std::os::unix::fs::chown(&key, Some(user), Some(user)).expect("root may give files away");
        let known_hosts = case.path("known-hosts-of-another-user");
        fs::write(&known_hosts, "").expect("a file of ours");
        std::os::unix::fs::chown(&known_hosts, Some(user), Some(user)).expect("root may give files away");
        let mut command = as_user(case.command(Side::Client, "setpriv"), user, program);
        command.args(["cp", "--json", "-i"]).arg(&key).arg("--known-hosts").arg(&known_hosts);
        command
    }

    fn add_arguments(&self, mut command: Command, key: &Path) -> Command {
        command.args(["cp", "-i"]).arg(key).arg("--known-hosts").arg(&self.known_hosts);
        command
    }

    /// The daemon's process id.
    pub fn id(&self) -> u32 {
        self.running.id()
    }

    /// Kills it with SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        self.running.kill();
    }

    /// Starts a killed one again, at the same address.
    #[track_caller]
    pub fn start_again(&mut self, case: &Case) {
        self.running = case.start(&mut self.command);
        wait_until_listening(case, &mut self.running, self.port);
    }

    /// Sends it a signal.
    pub fn signal(&mut self, signal: Signal) {
        self.running.signal(signal);
    }

    /// Waits for its end; its exit code.
    #[track_caller]
    pub fn exit_code(&mut self, case: &Case) -> Option<i32> {
        case.wait_for("the daemon's end", || self.running.exited().is_some());
        self.running.exited().and_then(|status| status.code())
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        self.running.stderr_so_far()
    }

    /// Kills it and starts it once more, `pause` later.
    pub fn restart(&mut self, case: &Case, pause: Duration) {
        self.kill();
        std::thread::sleep(pause);
        self.start_again(case);
    }

    /// Fails the test if the daemon is gone.
    #[track_caller]
    pub fn expect_alive(&mut self) {
        assert!(self.running.exited().is_none(), "the daemon ended: {}", self.running.stderr_so_far());
    }
}

impl<'a> Spec<'a> {
    /// A daemon for these keys over `served/`, as this user.
    pub fn new(case: &Case, authorized: &'a [(&'a str, &'a Key)], identity: &'a Key) -> Spec<'a> {
        let listen = case.net.address(Side::Server).to_owned();
        Spec {
            authorized,
            read_only: false,
            sessions_max: None,
            identity,
            root: case.path("served"),
            user: None,
            side: Side::Server,
            listen,
            address_space: None,
            options: &[],
            variables: &[],
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the daemon said:\n{}", self.running.stderr_so_far());
        }
    }
}

/// A program under another user id, with no groups: `setpriv` is the command's program.
pub fn as_user(mut setpriv: Command, user: u32, program: &Path) -> Command {
    debug_assert_ne!(program, fobs_path(), "the build directory may be closed to other users");
    setpriv
        .args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()])
        .arg(program);
    setpriv
}
