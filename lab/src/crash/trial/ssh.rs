//! A private sshd on the loopback, and the process of FOBS that it started last.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{PATIENCE, Process};

/// Where distributions have it; it must be called by its full path.
const SSHD: [&str; 3] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"];
/// Set for every FOBS that this sshd starts, to its directory: so that no other process is ever killed.
const MARK: &str = "FOBS_CRASH_PLACE";

/// The server; ended when dropped.
pub(super) struct Ssh {
    directory: PathBuf,
    _sshd: Process,
}

impl Ssh {
    /// Starts it. `Ok(None)`: there is none here, or this user may start none.
    pub(super) fn start(directory: &Path, fobs: &Path) -> Result<Option<Ssh>, String> {
        let Some(sshd) = SSHD.iter().find(|path| Path::new(path).exists()) else { return Ok(None) };
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let directory = directory.join("ssh");
        let failed = |error: std::io::Error| format!("cannot prepare {}: {error}", directory.display());
        fs::create_dir_all(&directory).map_err(failed)?;
        for key in ["host-key", "user-key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(directory.join(key));
            let made = keygen.status().map_err(|error| format!("cannot run ssh-keygen: {error}"))?;
            if !made.success() {
                return Err("ssh-keygen made no key".to_owned());
            }
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_err(failed)?.port();
        let here = directory.display();
        let server = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {here}/host-key\nAuthorizedKeysFile {here}/user-key.pub\n\
             PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nUseDNS no\n\
             MaxStartups 100\nLogLevel ERROR\n"
        );
        let client = format!(
            "Host crash\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {here}/user-key\n  IdentitiesOnly yes\n  \
             BatchMode yes\n  StrictHostKeyChecking accept-new\n  UserKnownHostsFile {here}/known_hosts\n  \
             GlobalKnownHostsFile none\n  LogLevel ERROR\n"
        );
        // `exec` keeps the process, so the file names the FOBS that runs now.
        let remote = format!(
            "#!/bin/sh\n{MARK}={here} HOME={here}\nexport {MARK} HOME\necho $$ > {here}/pid.new && mv {here}/pid.new {here}/pid\nexec {} \"$@\"\n",
            fobs.display()
        );
        for (name, text) in [("sshd_config", server), ("config", client), ("fobs", remote)] {
            fs::write(directory.join(name), text).map_err(failed)?;
        }
        fs::set_permissions(directory.join("fobs"), PermissionsExt::from_mode(0o755)).map_err(failed)?;
        // Debian's sshd wants its privilege-separation directory, which a container may lack.
        let _ = fs::create_dir_all("/run/sshd");
        let mut command = Command::new(sshd);
        command.args(["-D", "-e", "-f"]).arg(directory.join("sshd_config"));
        let log = fs::File::create(directory.join("sshd.log")).map_err(failed)?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let sshd = Process(child.map_err(|error| format!("cannot start sshd: {error}"))?);
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begin.elapsed() > PATIENCE {
                let log = fs::read_to_string(directory.join("sshd.log")).unwrap_or_default();
                return Err(format!("sshd does not listen: {log}"));
            }
            sleep(Duration::from_millis(5));
        }
        Ok(Some(Ssh { directory, _sshd: sshd }))
    }

    /// Options of the client: its configuration, and FOBS on the other side.
    pub(super) fn options(&self) -> [PathBuf; 4] {
        ["-F", "config", "--fobs-path", "fobs"]
            .map(|word| if word.starts_with('-') { PathBuf::from(word) } else { self.directory.join(word) })
    }

    /// What a path is called by the client.
    pub(super) fn location(&self, path: &Path) -> String {
        format!("crash:{}", path.display())
    }

    /// Kills the FOBS that was started last; false where none runs.
    pub(super) fn kill_server(&self) -> bool {
        let Some(pid) = self.server() else { return false };
        kill_process(pid, Signal::KILL).is_ok()
    }

    fn server(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.directory.join("pid")).ok()?;
        let number: i32 = text.trim().parse().ok()?;
        let environment = fs::read(format!("/proc/{number}/environ")).ok()?;
        let mark = format!("{MARK}={}", self.directory.display());
        let is_ours = environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes());
        if is_ours { Pid::from_raw(number) } else { None }
    }
}
