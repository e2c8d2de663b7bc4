//! The command that a job's program is started with: as this user, or, by a keeper of the host, as the job's.
//!
//! A program that becomes another user has the operator's rights until then, and must have nothing of that
//! user in its environment meanwhile: so a program of ours (`fobs jobs launch`) is started with an empty one,
//! reads all of it from its standard input, becomes the user, and then runs the command in its place.

use std::ffi::OsString;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, SealFlags, memfd_create};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::process::{Identity, MARK};
use crate::job::{Owner, Spec, Word};

/// How often it is looked whether a program that is asked has ended.
const SOON: Duration = Duration::from_millis(20);
/// Most that is read of an answer, bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Most that a program is launched with, bytes: the words of a job and its environment.
pub const LAUNCH_BYTES_MAX: u64 = 4 << 20;

/// What is run, and as whom.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Launch {
    /// As whom.
    pub owner: Owner,
    /// In which directory.
    pub directory: Word,
    /// With which umask.
    pub umask: u32,
    /// The program and its arguments.
    pub words: Vec<Word>,
    /// Its environment, whole; where it is empty, what a login of that user begins with.
    pub environment: Vec<(String, Word)>,
    /// What is added to it.
    pub added: Vec<(String, Word)>,
}

/// A command of a job.
#[derive(Debug)]
pub(super) struct Order<'a> {
    /// The program of this keeper.
    pub own_program: &'a Path,
    pub owner: Option<Owner>,
    pub spec: &'a Spec,
    /// The program that is run, and its arguments.
    pub words: Vec<OsString>,
    /// What is added to the environment.
    pub added: Vec<(String, OsString)>,
}

impl Order<'_> {
    /// The command, in a process group of its own and without input.
    pub(super) fn command(self) -> io::Result<Command> {
        let Order { own_program, owner, spec, words, added } = self;
        let Some(owner) = owner else {
            let mut words = words.into_iter();
            let mut command = Command::new(words.next().unwrap_or_default());
            command.args(words).env_clear();
            command.envs(spec.environment.iter().map(|(name, word)| (name, word.as_os_str())));
            command.envs(added).current_dir(spec.directory.as_os_str());
            command.stdin(Stdio::null()).process_group(0);
            return Ok(command);
        };
        let mut command = Command::new(own_program);
        command.args(["jobs", "launch"]).env_clear().current_dir("/").process_group(0);
        // By which the next keeper finds it.
        command.envs(added.iter().filter(|(name, _)| name == MARK).map(|(name, value)| (name, value)));
        let launch = Launch {
            owner,
            directory: spec.directory.clone(),
            umask: spec.umask,
            words: words.into_iter().map(Word::from).collect(),
            environment: spec.environment.clone(),
            added: added.into_iter().map(|(name, value)| (name, Word::from(value))).collect(),
        };
        let mut input = std::fs::File::from(memfd_create("fobs-launch", MemfdFlags::CLOEXEC)?);
        input.write_all(&serde_json::to_vec(&launch)?)?;
        input.rewind()?;
        command.stdin(input);
        Ok(command)
    }
}

/// A file in memory for what a program says: what is beyond it, the program cannot write.
fn memory() -> io::Result<std::fs::File> {
    let file = memfd_create("fobs-answer", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, ANSWER_BYTES_MAX)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK)?;
    Ok(file.into())
}

/// Runs a command to its end; what it has printed, or why it failed.
pub(super) fn ask(
    mut command: Command,
    boot: &str,
    patience: Duration,
    goes_on: impl Fn() -> bool,
) -> Result<String, String> {
    let failed = |error: io::Error| format!("cannot ask: {error}");
    // Not pipes: what ssh leaves behind may keep them open.
    let (mut said, mut complaint) = (memory().map_err(failed)?, memory().map_err(failed)?);
    let shared = |file: &std::fs::File| file.try_clone().map(Stdio::from).map_err(failed);
    command.stdout(shared(&said)?).stderr(shared(&complaint)?);
    let mut child = command.spawn().map_err(failed)?;
    let begin = Instant::now();
    let identity = i32::try_from(child.id()).ok().and_then(|pid| Identity::of(pid, boot));
    // One that has ended is not reaped meanwhile: so the number is still its own.
    let is_late = loop {
        match &identity {
            Some(identity) if identity.runs(boot) => {}
            _ => break false,
        }
        if begin.elapsed() > patience || !goes_on() {
            break true;
        }
        thread::sleep(SOON);
    };
    if let Some(identity) = identity.filter(|_| is_late) {
        identity.signal(Signal::KILL);
    }
    let status = child.wait().map_err(failed)?;
    if is_late {
        return Err(format!("no answer within {} s", patience.as_secs()));
    }
    if !status.success() {
        let text = read(&mut complaint);
        let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it ended without a word");
        return Err(last.trim_start_matches("fobs: ").to_owned());
    }
    Ok(read(&mut said))
}

fn read(file: &mut std::fs::File) -> String {
    let mut bytes = Vec::new();
    // What cannot be read is an answer that says nothing.
    let _ = file.rewind().and_then(|()| file.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(owner: Option<Owner>) -> Command {
        let environment = vec![("LD_PRELOAD".to_owned(), "/tmp/evil.so".into())];
        let spec =
            Spec { environment, ..Spec::new(vec!["cp".into(), "a".into(), "b".into()], "/tmp".into()) };
        let added = vec![(MARK.to_owned(), "m".into()), ("FOBS_JOB_ID".to_owned(), "1".into())];
        let words = ["fobs", "cp"].map(OsString::from).to_vec();
        Order { own_program: Path::new("/own"), owner, spec: &spec, words, added }
            .command()
            .expect("a command")
    }

    #[test]
    fn nothing_of_a_users_environment_is_with_the_operators_rights() {
        let names = |command: &Command| -> Vec<String> {
            command.get_envs().map(|(name, _)| name.to_string_lossy().into_owned()).collect()
        };
        let own = order(None);
        assert_eq!((own.get_program(), names(&own).len()), ("fobs".as_ref(), 3));
        let launched = order(Some(Owner { uid: 7, gid: 8 }));
        assert_eq!((launched.get_program(), names(&launched)), ("/own".as_ref(), vec![MARK.to_owned()]));
        assert_eq!(launched.get_current_dir(), Some(Path::new("/")));
        assert_eq!(launched.get_args().collect::<Vec<_>>(), ["jobs", "launch"]);
    }

    #[test]
    fn what_a_program_says_is_bounded_and_late_ones_are_ended() {
        let boot = super::super::process::boot_id();
        let run = |script: &str, patience| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).process_group(0);
            ask(command, &boot, patience, || true)
        };
        let long = Duration::from_secs(60);
        assert_eq!(run("echo 7", long), Ok("7\n".to_owned()));
        assert_eq!(run("echo no >&2; exit 3", long), Err("no".to_owned()));
        let said = run("yes 2>/dev/null; true", long).expect("it ends");
        assert!(said.len() as u64 <= ANSWER_BYTES_MAX && said.starts_with("y\ny\n"));
        assert!(run("sleep 600", Duration::from_millis(50)).is_err_and(|why| why.contains("no answer")));
    }
}
