//! Where the installed binaries are, and their versions.

use std::env;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where administrators' programs are that a user's `PATH` may lack (sshd, sysctl).
const MORE: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin"];
/// Longest time for a version: some programs probe the system first.
const ANSWER: Duration = Duration::from_secs(10);
/// Bytes of an answer that are looked at: the help of the largest is a tenth of it.
const ANSWER_BYTES: u64 = 256 << 10;

/// Finds installed binaries.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The FOBS to use, if it was named.
    fobs: Option<PathBuf>,
    search: Vec<PathBuf>,
}

impl Programs {
    /// Looks beside this program (where cargo puts both), then in `PATH` and where administrators' programs
    /// are; `fobs` is a FOBS to use instead of the one that would be found.
    pub fn new(fobs: Option<&Path>) -> Programs {
        let beside = env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
        let path = env::var_os("PATH").unwrap_or_default();
        let search = beside.into_iter().chain(env::split_paths(&path)).chain(MORE.iter().map(PathBuf::from));
        Programs { fobs: fobs.map(Path::to_owned), search: search.collect() }
    }

    /// Knows the programs of one folder only.
    #[cfg(test)]
    pub fn only_in(folder: &Path) -> Programs {
        Programs { fobs: None, search: vec![folder.to_owned()] }
    }

    /// The program of that name, or an error with `how` to get it.
    pub fn find(&self, name: &str, how: &str) -> Result<PathBuf, String> {
        if let ("fobs", Some(fobs)) = (name, &self.fobs) {
            let found = std::path::absolute(fobs).ok().filter(|path| path.is_file());
            return found
                .ok_or_else(|| format!("{} is no program: name another with --fobs", fobs.display()));
        }
        let found = self.search.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        found.ok_or_else(|| format!("{name} is not installed: {how}"))
    }

    /// What a program prints on both outputs when it is run to its end; an error if it cannot be run, fails
    /// or takes longer than ten seconds.
    pub fn ask<W: AsRef<OsStr>>(&self, words: &[W]) -> Result<String, String> {
        let Some((program, arguments)) = words.split_first() else { return Ok(String::new()) };
        let name = Path::new(program).display().to_string();
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot run {name}: {error}"))?;
        let read = |from: Option<Box<dyn Read + Send>>| {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                let _ = from.map(|from| from.take(ANSWER_BYTES).read_to_end(&mut text));
                String::from_utf8_lossy(&text).into_owned()
            })
        };
        let out = read(child.stdout.take().map(|pipe| Box::new(pipe) as _));
        let err = read(child.stderr.take().map(|pipe| Box::new(pipe) as _));
        let deadline = Instant::now() + ANSWER;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                _ => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(format!("{name} does not answer"));
                }
            }
        };
        let text = out.join().unwrap_or_default() + &err.join().unwrap_or_default();
        if status.success() { Ok(text) } else { Err(format!("{name} failed ({status}): {}", text.trim())) }
    }
}

/// The first line that is not blank, without surrounding blanks.
pub fn first_line(text: &str) -> String {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_fobs_wins_and_what_is_missing_is_named() {
        let named = Programs::new(Some(Path::new("/bin/sh")));
        assert_eq!(named.find("fobs", "build it").unwrap(), Path::new("/bin/sh"));
        assert!(named.find("sh", "").is_ok());
        let error = named.find("no-such-program", "apt-get install it").unwrap_err();
        assert_eq!(error, "no-such-program is not installed: apt-get install it");
        let error = Programs::new(Some(Path::new("/no/fobs"))).find("fobs", "").unwrap_err();
        assert!(error.contains("/no/fobs") && error.contains("--fobs"), "{error}");
    }

    #[test]
    fn both_outputs_are_heard_and_failures_are_told() {
        let programs = Programs::new(None);
        let text = programs.ask(&["sh", "-c", "echo one; echo two >&2"]).unwrap();
        assert_eq!(text, "one\ntwo\n");
        let error = programs.ask(&["sh", "-c", "echo why; exit 3"]).unwrap_err();
        assert!(error.contains("why") && error.contains('3'), "{error}");
        assert!(programs.ask(&["/no/such/program"]).unwrap_err().contains("/no/such/program"));
        assert_eq!(first_line("\n  iperf 3.12 \nmore"), "iperf 3.12");
    }
}
