//! Consent to send the program to a host that has none, and the memory of it.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use fobs::options::{Carrier, PushBinary, Remote, ShellGrammar, TransferOptions};
use fobs::{Error, ErrorKind, Result};

use crate::flags::{Consent, Line};
use crate::output::printable;

/// Most hosts that are remembered; the oldest are forgotten.
const HOSTS_MAX: usize = 1000;
/// Largest file of hosts that is read, bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Runs something that reaches `remotes`, and again, with the program sent, where a host has none and the
/// user says yes: by `--push-binary`, by an earlier yes for the host, or now, on the terminal.
///
/// # Errors
/// Those of `run`.
pub fn with_consent<T>(
    line: &Line,
    remotes: &[Remote],
    options: TransferOptions,
    mut run: impl FnMut(TransferOptions) -> Result<T>,
) -> Result<T> {
    let memory = Memory::default_location();
    let names: Vec<String> = remotes.iter().filter(|it| it.carrier == Carrier::Ssh).map(name).collect();
    let with = |push| {
        let mut options = options.clone();
        options.ssh.push = push;
        options
    };
    // Of this host itself and of a container nothing is remembered: nothing is sent there.
    let is_ssh = options.ssh.grammar == ShellGrammar::Ssh;
    if line.consent() == Consent::Refused || names.is_empty() || !is_ssh {
        return run(with(PushBinary::Never));
    }
    if names.iter().all(|name| memory.has(name)) && !line.has("fobs-path") {
        return run(with(PushBinary::Expected));
    }
    if line.consent() == Consent::Given {
        let done = run(with(PushBinary::IfMissing))?;
        names.iter().for_each(|name| memory.add(name));
        return Ok(done);
    }
    match run(options.clone()) {
        Err(error) if error.kind == ErrorKind::RemoteMissing => {
            if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
                let message = format!("{}; --push-binary sends it there", error.message);
                return Err(error.reworded(message));
            }
            if !asked(&error.message, &mut io::stdin().lock(), &mut io::stderr()) {
                return Err(error);
            }
            let done = run(with(PushBinary::Expected))?;
            names.iter().for_each(|name| memory.add(name));
            Ok(done)
        }
        done => done,
    }
}

/// Asks whether to send the program.
fn asked(why: &str, answers: &mut impl BufRead, out: &mut impl Write) -> bool {
    let version = env!("CARGO_PKG_VERSION");
    let question = format!(
        "fobs: {}.\nfobs: send fobs {version} to ~/.cache/fobs/{version}/fobs there and run it, now and later? [y/N] ",
        printable(why)
    );
    let mut answer = String::new();
    let heard = out.write_all(question.as_bytes()).and_then(|()| out.flush());
    heard.and_then(|()| answers.read_line(&mut answer)).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// `user@host:port`, as far as given.
fn name(remote: &Remote) -> String {
    let user = remote.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
    let port = remote.port.map(|port| format!(":{port}")).unwrap_or_default();
    format!("{user}{}{port}", remote.host)
}

/// The hosts for which the user has said yes, one a line.
struct Memory {
    file: Option<PathBuf>,
}

impl Memory {
    /// `$XDG_STATE_HOME/fobs/pushed-hosts`; nothing is remembered where there is no home.
    fn default_location() -> Memory {
        let base = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let base = base.or_else(|| std::env::home_dir().map(|home| home.join(".local/state")));
        Memory { file: base.map(|base| base.join("fobs/pushed-hosts")) }
    }

    fn names(&self) -> Vec<String> {
        let small = |file: &&Path| fs::metadata(file).is_ok_and(|it| it.len() <= FILE_BYTES_MAX);
        let file = self.file.as_deref().filter(small).and_then(|file| fobs::named::open(file).ok());
        let text = file.and_then(|file| io::read_to_string(file.take(FILE_BYTES_MAX)).ok());
        text.unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn has(&self, name: &str) -> bool {
        self.names().iter().any(|known| known == name)
    }

    /// Adds a host. Where that fails, the question comes again.
    fn add(&self, name: &str) {
        let (Some(file), false) = (&self.file, self.has(name)) else { return };
        let mut names = self.names();
        names.push(name.to_owned());
        let first = names.len().saturating_sub(HOSTS_MAX);
        let text: String = names[first..].iter().map(|name| format!("{name}\n")).collect();
        let fresh = file.with_extension(format!("{}.tmp", std::process::id()));
        let made = file.parent().map_or(Ok(()), fs::create_dir_all);
        let written =
            made.and_then(|()| fobs::named::create(&fresh, fobs::named::USUAL)?.write_all(text.as_bytes()));
        // Without the note a later command asks once more.
        let _ = written.and_then(|()| fs::rename(&fresh, file));
    }
}

/// `fobs self-check HASH`.
///
/// # Errors
/// `Integrity` where this program has another hash, `FileIo` where it cannot be read.
pub fn self_check(hash: &str) -> Result<()> {
    let found = fobs::program_hash()?;
    if found == hash {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::Integrity, "this program is not the one that was sent"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_sent_only_after_a_yes() {
        for (answer, yes) in
            [("y\n", true), ("yes\n", true), ("Y\n", true), ("\n", false), ("", false), ("no\n", false)]
        {
            let mut out = Vec::new();
            assert_eq!(
                asked("far has no \x1b[2Jprogram", &mut answer.as_bytes(), &mut out),
                yes,
                "{answer:?}"
            );
            let question = String::from_utf8(out).expect("text");
            assert!(question.contains("~/.cache/fobs/") && !question.contains('\x1b'), "{question}");
        }
    }

    #[test]
    fn hosts_are_remembered_as_they_are_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let memory = Memory { file: Some(directory.path().join("state/fobs/pushed-hosts")) };
        assert!(!memory.has("far"));
        for host in ["far", "ann@far", "far"] {
            memory.add(host);
        }
        assert!(memory.has("far") && memory.has("ann@far") && !memory.has("ann@far:22"));
        assert_eq!(memory.names().len(), 2);
        (0..HOSTS_MAX).for_each(|number| memory.add(&format!("h{number}")));
        assert!(!memory.has("far") && memory.has("h0") && memory.names().len() == HOSTS_MAX);
        Memory { file: None }.add("far");
    }
}
