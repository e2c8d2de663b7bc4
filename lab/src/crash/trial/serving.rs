//! The server of a copy: a daemon, in this host's boot or in one that it takes for another.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{PATIENCE, Place, Process, Route};

/// Where the kernel shows the id of its boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

impl Place {
    /// Daemons that start from now on find themselves in another boot: a file is mounted over the kernel's,
    /// in a mount namespace of theirs. Needs root.
    pub(super) fn boot_anew(&mut self) -> Result<(), String> {
        let digits = format!("{:016x}{:016x}", self.random.next(), self.random.next());
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
        let path = self.directory.join("boot_id");
        fs::write(&path, format!("{}\n", parts.join("-"))).map_err(|error| error.to_string())?;
        self.boot = Some(path);
        Ok(())
    }

    /// Starts the daemon unless it runs, or none is needed.
    pub(super) fn serve(&mut self, route: Route) -> Result<(), String> {
        if self.daemon.is_some() || route.ssh {
            return Ok(());
        }
        let mut command = self.in_its_boot(&["serve", "--listen"]);
        command.arg(format!("127.0.0.1:{}", self.port)).arg("--root").arg(self.directory.join("served"));
        command.arg("--authorized-keys").arg(self.directory.join("keys"));
        command.arg("--identity").arg(self.directory.join("server-key"));
        let log = File::options().create(true).append(true).open(self.directory.join("daemon.log"));
        command.stdout(Stdio::null()).stderr(log.map_or(Stdio::null(), Stdio::from));
        let child = command.spawn().map_err(|error| format!("cannot start the daemon: {error}"))?;
        let daemon = self.daemon.insert(Process(child));
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if begin.elapsed() > PATIENCE || !matches!(daemon.0.try_wait(), Ok(None)) {
                return Err(self.said("the daemon does not listen"));
            }
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Kills the server; false where none runs.
    pub(super) fn kill_server(&mut self, route: Route) -> bool {
        match &self.ssh {
            Some(ssh) if route.ssh => ssh.kill_server(),
            _ => self.daemon.take().is_some(),
        }
    }

    /// A command of the program in the boot that is pretended; it keeps the process.
    fn in_its_boot(&self, args: &[&str]) -> Command {
        let Some(boot) = &self.boot else { return self.command(args) };
        let script = format!("mount --bind \"$0\" {BOOT_ID} && exec \"$@\"");
        let mut inside = Command::new("unshare");
        inside.args(["--mount", "--", "sh", "-c", &script]).arg(boot).arg(&self.fobs);
        self.environment(inside.args(args));
        inside
    }

    /// Bytes that the journals in `to` say are kept, once no transfer uses them, as the pretended boot sees
    /// them: by `fobs clean -n`, which rounds to three digits.
    pub(super) fn kept(&self, to: &Path) -> Result<u64, String> {
        let begin = Instant::now();
        loop {
            let found = self.in_its_boot(&["clean", "-n"]).arg(to).output();
            let found = found.map_err(|error| format!("cannot run fobs clean: {error}"))?;
            let text = String::from_utf8_lossy(&found.stdout).into_owned();
            if !text.contains("a running copy uses it") {
                return Ok(text.lines().filter_map(kept_of).sum());
            }
            if begin.elapsed() > PATIENCE {
                return Err(self.said(&format!("the destination stays in use: {text}")));
            }
            sleep(Duration::from_millis(20));
        }
    }
}

/// Bytes in a line of `fobs clean -n`: `..., 1.50 MB kept; ...`.
fn kept_of(line: &str) -> Option<u64> {
    let text = line.split(" kept;").next()?.rsplit(", ").next()?;
    let (number, unit) = text.split_once(' ')?;
    let scale = match unit {
        "byte" | "bytes" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * scale) as u64)
}
