//! A private sshd with its own keys, and a client configuration with it as `peer`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::case::{Case, peer_path, wait_until_listening};
use super::net::Side;
use super::process::Running;

/// Its name in the client's configuration; only `ssh` can resolve it.
pub const HOST: &str = "peer";

/// A running sshd; killed when dropped, its output shown if the test failed.
pub struct Sshd {
    running: Running,
    /// Directory of a test's remote files.
    pub root: PathBuf,
    /// The client's configuration file, for `-F`.
    pub config: PathBuf,
    udp_ports: (u16, u16),
}

impl Sshd {
    /// Starts one on the server's side.
    #[track_caller]
    pub fn start(case: &Case) -> Sshd {
        Sshd::start_as(case, |command| command)
    }

    /// Likewise, with its command changed.
    #[track_caller]
    pub fn start_as(case: &Case, changed: impl FnOnce(Command) -> Command) -> Sshd {
        let root = case.path("served");
        fs::create_dir_all(&root).expect("the remote directory");
        let directory = case.path("ssh");
        fs::create_dir(&directory).expect("a fresh directory");
        let file = |name: &str| directory.join(name);
        for key in ["host_key", "user_key"] {
            let mut keygen = case.command(Side::Client, "ssh-keygen");
            case.run(keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file(key))).expect_success();
        }
        fs::copy(file("user_key.pub"), file("authorized_keys")).expect("a copy");
        let (address, port) = (case.net.address(Side::Server), case.net.tcp_port());
        let show = |name: &str| file(name).display().to_string();
        // A shell below another one reads no start-up file of this host's user, and sessions are begun by the
        // thousand: the quickest exchange of keys.
        let server = format!(
            "ListenAddress {address}\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile {}\nStrictModes no\n\
             UsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nUseDNS no\nMaxStartups 100\nLogLevel VERBOSE\n\
             SetEnv SHLVL=1\nKexAlgorithms curve25519-sha256\n",
            show("host_key"),
            show("authorized_keys"),
            show("pid"),
        );
        fs::write(file("sshd_config"), server).expect("a file of ours");
        let config = file("config");
        let client = format!(
            "Host {HOST}\n  HostName {address}\n  Port {port}\n  IdentityFile {}\n  IdentitiesOnly yes\n  BatchMode yes\n  \
             StrictHostKeyChecking accept-new\n  UserKnownHostsFile {}\n  GlobalKnownHostsFile none\n  LogLevel ERROR\n",
            show("user_key"),
            show("known_hosts"),
        );
        fs::write(&config, client).expect("a file of ours");

        if rustix::process::geteuid().is_root() {
            // Debian's sshd wants its privilege-separation directory, which a container without the service
            // lacks.
            fs::create_dir_all("/run/sshd").expect("root may");
        }
        let mut command = case.command(Side::Server, sshd_path());
        command.args(["-D", "-e", "-f"]).arg(file("sshd_config"));
        let mut running = case.start(&mut changed(command));
        wait_until_listening(case, &mut running, port);
        Sshd { running, root, config, udp_ports: case.net.udp_ports() }
    }

    /// Logins so far.
    pub fn logins(&self) -> usize {
        self.running.stderr_so_far().matches("Accepted publickey").count()
    }

    /// The location of a path under the remote directory.
    pub fn location(&self, path: impl AsRef<std::ffi::OsStr>) -> std::ffi::OsString {
        let mut location = std::ffi::OsString::from(format!("{HOST}:{}/", self.root.display()));
        location.push(path);
        location
    }

    /// `fobs cp` with the options to reach this host, without `--json`.
    pub fn plain_cp(&self, case: &Case) -> Command {
        self.cp_with(case, peer_path())
    }

    /// `fobs doctor` with the options to reach this host.
    pub fn doctor(&self, case: &Case) -> Command {
        self.verb_with(case, "doctor", peer_path())
    }

    /// The same with another remote program.
    pub fn cp_with(&self, case: &Case, remote_program: &Path) -> Command {
        self.verb_with(case, "cp", remote_program)
    }

    /// `fobs pipe` with the options to reach this host.
    pub fn pipe(&self, case: &Case) -> Command {
        self.verb_with(case, "pipe", peer_path())
    }

    /// `fobs sync` with the options to reach this host.
    pub fn sync(&self, case: &Case) -> Command {
        self.verb_with(case, "sync", peer_path())
    }

    fn verb_with(&self, case: &Case, verb: &str, remote_program: &Path) -> Command {
        let (first, last) = self.udp_ports;
        let mut command = case.fobs(Side::Client);
        // The letter is another one's in rsync.
        command.args([verb, "--ssh-config"]).arg(&self.config).arg("--fobs-path").arg(remote_program);
        command.arg("--udp-ports").arg(format!("{first}-{last}"));
        command
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- sshd said:\n{}", self.running.stderr_so_far());
        }
    }
}

/// The full path, which sshd requires.
fn sshd_path() -> &'static str {
    let places = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"];
    places
        .into_iter()
        .find(|path| Path::new(path).exists())
        .expect("sshd (Debian: openssh-server) is installed")
}

/// The private sshd accepts a login and runs a command on the server's side, with plain `ssh`.
#[test]
fn the_private_sshd_runs_commands_on_the_other_host() {
    let case = Case::new("the_private_sshd_runs_commands_on_the_other_host");
    let sshd = Sshd::start(&case);
    let mut ssh = case.command(Side::Client, "ssh");
    let ran =
        case.run(ssh.arg("-F").arg(&sshd.config).args([HOST, "echo $SSH_CONNECTION; exit 7"])).expect_code(7);
    let words = String::from_utf8(ran.stdout).expect("addresses");
    let words: Vec<&str> = words.split_whitespace().collect();
    assert_eq!([words[0], words[2]], [case.net.address(Side::Client), case.net.address(Side::Server)]);
}
