//! `fobs jobs launch`: becomes the user of a job, and then runs it. A keeper of the host starts it with an
//! empty environment; what is the user's comes by standard input, and is used once the rights are those of
//! the user.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use fobs::{Account, Error, ErrorKind, Result};
use fobs_jobs::{LAUNCH_BYTES_MAX, Launch, Word};
use rustix::fs::Mode;
use rustix::process::{geteuid, umask};

/// Where a user's programs are, whose environment is not known.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Does not return but with what failed.
///
/// # Errors
/// Where it may not become the user, or the user may not run it there.
pub fn run() -> Result<()> {
    if !geteuid().is_root() {
        return Err(Error::new(ErrorKind::Usage, "only a keeper of the host launches jobs so"));
    }
    let mut bytes = Vec::new();
    let read = io::stdin().take(LAUNCH_BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(|error| Error::internal(format!("cannot read what to launch: {error}")))?;
    let launch: Launch = serde_json::from_slice(&bytes)
        .map_err(|error| Error::new(ErrorKind::Usage, format!("cannot read what to launch: {error}")))?;
    let Launch { owner, directory, umask: mask, words, environment, added } = launch;
    let account = fobs::become_user(owner.uid, owner.gid)?;
    umask(Mode::from_raw_mode(mask & 0o777));
    let environment = if environment.is_empty() { of_login(account) } else { environment };
    let (program, words) =
        words.split_first().ok_or_else(|| Error::new(ErrorKind::Usage, "there is no program to launch"))?;
    let mut command = Command::new(program.as_os_str());
    command.args(words.iter().map(Word::as_os_str)).env_clear();
    let variables = environment.iter().chain(&added);
    command.envs(variables.map(|(name, word)| (name, word.as_os_str())));
    let error = command.current_dir(directory.as_os_str()).stdin(Stdio::null()).exec();
    let message = format!("cannot start {} in {}: {error}", program.shown(), directory.shown());
    Err(Error::new(ErrorKind::Usage, message))
}

/// What a login begins with.
fn of_login(account: Option<Account>) -> Vec<(String, Word)> {
    let own = |name: &str, value: std::ffi::OsString| (name.to_owned(), Word::from(value));
    let mut variables = vec![own("PATH", USUAL_PATH.into())];
    if let Some(Account { name, home, shell }) = account {
        variables.push(own("HOME", home.into()));
        variables.push(own("SHELL", shell.into()));
        variables.push(own("USER", name.clone().into()));
        variables.push(own("LOGNAME", name.into()));
    }
    variables
}
