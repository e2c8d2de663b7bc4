//! A private ssh server and the client's configuration for it, for the tools that need one.
//!
//! The server has its own host key and accepts one user key, both made for the flow; nothing of the system's
//! configuration or of the user's home is read.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::{After, Program, Ready, Server, Side, Task};

/// What the client's configuration calls the server's host.
pub const PEER: &str = "peer";
/// The fastest of OpenSSH's ciphers where the processor has AES instructions, and as safe as the others.
pub const FASTEST_CIPHER: &str = "aes128-gcm@openssh.com";
/// Port of the first flow's server: not the system's own.
const PORT: u16 = 2222;
/// How to get what is missing.
const HOW: &str = "apt-get install openssh-server openssh-client";
/// Where distributions have the program that old scp and sftp need, most usual first.
const SFTP: [&str; 3] =
    ["/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server"];

/// A private ssh server and how to reach it.
pub struct Ssh {
    /// To be started first.
    pub server: Server,
    /// For `ssh -F`: then the host `peer` is the server's.
    pub config: PathBuf,
}

/// Whether ssh and its server are installed; the line that ssh calls its version.
pub fn version(programs: &super::Programs) -> Result<String, String> {
    programs.find("sshd", HOW)?;
    programs.find("ssh-keygen", HOW)?;
    let ssh = programs.find("ssh", HOW)?;
    programs.ask(&[ssh.into_os_string(), "-V".into()]).map(|text| super::first_line(&text))
}

/// Makes keys and configuration in the task's directory, with [`FASTEST_CIPHER`]; the server is to run on
/// `side`.
pub fn prepare(task: &Task, side: Side) -> Result<Ssh, String> {
    prepare_with(task, side, FASTEST_CIPHER)
}

/// The same with a cipher of the caller's choice.
pub fn prepare_with(task: &Task, side: Side, cipher: &str) -> Result<Ssh, String> {
    let folder = task.directory.join("ssh");
    let io = |what: &str, error: std::io::Error| format!("cannot {what} in {}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(|error| io("make a directory", error))?;
    let keygen = task.programs.find("ssh-keygen", HOW)?;
    let (host_key, user_key) = (folder.join("host_key"), folder.join("user_key"));
    for key in [&host_key, &user_key] {
        let words = ["-q", "-t", "ed25519", "-N", "", "-f"].map(OsString::from);
        let words: Vec<OsString> =
            [keygen.clone().into()].into_iter().chain(words).chain([key.into()]).collect();
        task.programs.ask(&words)?;
    }
    let authorized = folder.join("authorized_keys");
    fs::copy(user_key.with_extension("pub"), &authorized).map_err(|error| io("copy a key", error))?;

    let (address, port) = (&task.host(side).address, task.port(PORT));
    let sftp = SFTP.into_iter().find(|path| fs::exists(path).unwrap_or(false)).unwrap_or("internal-sftp");
    let server_config = folder.join("sshd_config");
    // A shell below another one reads no start-up file of this host's user, whose time is no program's.
    let text = format!(
        "ListenAddress {address}\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
         UsePAM no\nPermitRootLogin yes\nUseDNS no\nPrintMotd no\nSetEnv SHLVL=1\nSubsystem sftp {sftp}\n",
        host_key.display(),
        authorized.display(),
    );
    fs::write(&server_config, text).map_err(|error| io("write the server's configuration", error))?;
    let config = folder.join("config");
    let text = format!(
        "Host {PEER}\n  HostName {address}\n  Port {port}\n  User {}\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
         BatchMode yes\n  Compression no\n  Ciphers {cipher}\n  StrictHostKeyChecking accept-new\n  \
         UserKnownHostsFile {}\n  GlobalKnownHostsFile none\n  ConnectTimeout 30\n  LogLevel ERROR\n",
        user()?,
        user_key.display(),
        folder.join("known_hosts").display(),
    );
    fs::write(&config, text).map_err(|error| io("write the client's configuration", error))?;

    // OpenSSH separates privileges in this directory and will not start without it; distributions make it at
    // boot. If it cannot be made, sshd's own error names it.
    let _ = fs::create_dir_all("/run/sshd");
    let sshd = task.programs.find("sshd", HOW)?;
    let program = Program::new([sshd]).args(["-D", "-e", "-f"]).arg(server_config);
    Ok(Ssh { server: Server { side, program, ready: Ready::Tcp(port), after: After::Stopped }, config })
}

/// Name of the user that this process runs as.
fn user() -> Result<String, String> {
    let uid =
        fs::metadata("/proc/self").map_err(|error| format!("cannot look at /proc/self: {error}"))?.uid();
    let text =
        fs::read_to_string("/etc/passwd").map_err(|error| format!("cannot read /etc/passwd: {error}"))?;
    let name = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid.to_string()).then(|| name.to_owned())
    });
    name.ok_or_else(|| format!("user {uid} has no name in /etc/passwd, and ssh needs one"))
}
