//! Whether ssh reaches a job's hosts without a person: tried at submission, while there is one.

use std::ffi::OsString;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fobs::options::{Remote, ShellGrammar, SshOptions};

use crate::output::printable;

/// How long ssh may take to connect, s.
const CONNECT_S: u32 = 10;
/// How long it may take together: a submission is to return.
const PATIENCE: Duration = Duration::from_secs(15);
/// ssh's own exit code: others are those of the command there.
const OF_SSH: i32 = 255;
/// Most that is read of what it says, bytes.
const SAID_MAX: u64 = 4096;
/// Most hosts that are tried.
const HOSTS_MAX: usize = 4;

/// Sentences about hosts that ssh does not reach without a person.
pub fn try_all(remotes: &[Remote], options: &SshOptions) -> Vec<String> {
    // Another program than ssh is asked for by words that only its user knows.
    if options.program.is_some() || options.grammar != ShellGrammar::default() {
        return Vec::new();
    }
    remotes.iter().take(HOSTS_MAX).filter_map(|remote| try_one(remote, options)).collect()
}

fn try_one(remote: &Remote, options: &SshOptions) -> Option<String> {
    let host = &remote.host;
    let Err(why) = reach(remote, options, Agent::None) else { return None };
    if std::env::var_os("SSH_AUTH_SOCK").is_some() && reach(remote, options, Agent::Own).is_ok() {
        return Some(format!(
            "{host}: ssh gets there with your agent only, and the job cannot once that ends: keep the agent, or give \
             ssh a key file without a passphrase"
        ));
    }
    Some(match why {
        Why::NeedsPerson => format!(
            "{host}: ssh does not get there without a person (ssh -o BatchMode=yes {host}): the job needs a key file \
             without a passphrase or an agent that stays, and tries until then"
        ),
        Why::Said(words) => {
            format!("{host}: ssh does not get there now ({words}); the job is taken, and tries again")
        }
    })
}

/// Why ssh does not get there.
#[derive(Debug, PartialEq)]
enum Why {
    /// It would ask for a password, a passphrase or whether to trust a host key.
    NeedsPerson,
    /// Its last words.
    Said(String),
}

impl Why {
    fn of(said: &str) -> Why {
        let asks = ["Permission denied", "Host key verification failed", "Too many authentication failures"];
        match said.lines().map(str::trim).rfind(|line| !line.is_empty()) {
            Some(line) if !asks.iter().any(|words| said.contains(words)) => Why::Said(printable(line)),
            _ => Why::NeedsPerson,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Agent {
    Own,
    None,
}

fn reach(remote: &Remote, options: &SshOptions, agent: Agent) -> Result<(), Why> {
    let mut words: Vec<OsString> = options.arguments.clone();
    words.extend([
        "-o".into(),
        "BatchMode=yes".into(),
        "-o".into(),
        format!("ConnectTimeout={CONNECT_S}").into(),
    ]);
    if let Some(file) = &options.config_file {
        words.extend(["-F".into(), file.into()]);
    }
    if let Some(jump) = &options.jump {
        words.extend(["-J".into(), jump.into()]);
    }
    options.options.iter().for_each(|option| words.extend(["-o".into(), option.into()]));
    if let Some(port) = remote.port {
        words.extend(["-p".into(), port.to_string().into()]);
    }
    if let Some(user) = &remote.user {
        words.extend(["-l".into(), user.into()]);
    }
    words.extend(["--".into(), OsString::from(&remote.host), "true".into()]);
    let mut ssh = Command::new("ssh");
    ssh.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    if agent == Agent::None {
        ssh.env_remove("SSH_AUTH_SOCK");
    }
    let mut child = ssh.spawn().map_err(|error| Why::Said(error.to_string()))?;
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.code().is_some_and(|code| code != OF_SSH) => return Ok(()),
            Ok(Some(_)) => {
                let mut said = Vec::new();
                if let Some(pipe) = child.stderr.take() {
                    // A master connection that stays may hold the pipe open: what is there is enough.
                    let _ = rustix::io::ioctl_fionbio(&pipe, true);
                    // It ends with the error that there is no more.
                    let _ = pipe.take(SAID_MAX).read_to_end(&mut said);
                }
                return Err(Why::of(&String::from_utf8_lossy(&said)));
            }
            Ok(None) if begin.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(20)),
            _ => {
                // It may have ended in this moment.
                let _ = child.kill();
                let _ = child.wait();
                return Err(Why::Said(format!("no answer in {} s", PATIENCE.as_secs())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_says_tells_whether_a_person_helps() {
        for said in [
            "",
            "me@host: Permission denied (publickey,password).\r\n",
            "No ED25519 host key is known for host and you have requested strict checking.\nHost key verification failed.\n",
            "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures\nDisconnected\n",
        ] {
            assert_eq!(Why::of(said), Why::NeedsPerson, "{said}");
        }
        for (said, words) in [
            (
                "ssh: Could not resolve hostname h: Name or service not known\r\n",
                "ssh: Could not resolve hostname h: Name or service not known",
            ),
            (
                "banner\nssh: connect to host h port 22: Connection refused\n\n",
                "ssh: connect to host h port 22: Connection refused",
            ),
            ("\x1b[2Jx", "\\u{1b}[2Jx"),
        ] {
            assert_eq!(Why::of(said), Why::Said(words.to_owned()), "{said}");
        }
    }
}
