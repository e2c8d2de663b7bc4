//! Whether ssh reaches a job's hosts without a person: tried at submission, while there is one.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fobs::options::{Remote, ShellGrammar, SshOptions};

/// How long ssh may take to connect, s.
const CONNECT_S: u32 = 10;
/// How long it may take together: a submission is to return.
const PATIENCE: Duration = Duration::from_secs(15);
/// ssh's own exit code: others are those of the command there.
const OF_SSH: i32 = 255;
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
    if reaches(remote, options, Agent::None) {
        return None;
    }
    if std::env::var_os("SSH_AUTH_SOCK").is_some() && reaches(remote, options, Agent::Own) {
        return Some(format!(
            "{host}: ssh gets there with your agent only, and the job cannot once that ends: keep the agent, or give \
             ssh a key file without a passphrase"
        ));
    }
    Some(format!(
        "{host}: ssh does not get there without a person (ssh -o BatchMode=yes {host}): the job needs a key file \
         without a passphrase or an agent that stays, and tries until then"
    ))
}

#[derive(Clone, Copy, PartialEq)]
enum Agent {
    Own,
    None,
}

fn reaches(remote: &Remote, options: &SshOptions, agent: Agent) -> bool {
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
    ssh.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if agent == Agent::None {
        ssh.env_remove("SSH_AUTH_SOCK");
    }
    let Ok(mut child) = ssh.spawn() else { return false };
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.code().is_some_and(|code| code != OF_SSH),
            Ok(None) if begin.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(20)),
            _ => {
                // It may have ended in this moment.
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}
