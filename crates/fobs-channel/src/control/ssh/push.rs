//! Sends the program to a host that has none, over the connection on which it then serves.
//!
//! A script for the far shell says which CPU it has and takes what it is given: lines of text until `exec`
//! makes the shell the server, frames from then on. It writes below the user's cache directory only.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::binary::{Machine, find, places};
use super::elsewhere::usual_places;
use super::{Patience, SshProcess, SshSession, Started};
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{Event, EventSink};
use fobs_model::options::{Remote, ShellGrammar, TransferOptions};
use fobs_model::text::printable;
use fobs_sys::{named, without_sigpipe};

/// First word of every line of the script.
const WORD: &str = "fobs-boot";
/// Longest line that is read, bytes, and most lines before the first of ours: start-up files of a shell may
/// print something.
const LINE_BYTES_MAX: usize = 1024;
const LINES_BEFORE_MAX: usize = 100;
/// Characters of the far side's words that are shown.
const SHOWN_CHARS: usize = 200;
/// Largest program that is sent, bytes: ours have about 10 MB.
const PROGRAM_BYTES_MAX: u64 = 256 << 20;
/// Bytes sent between two looks at what the far side says.
const PIECE_BYTES: usize = 256 << 10;

/// What the far shell runs, within quotes that every shell knows: no quote, backslash or new line is in it.
/// `true >` and not `: >`, whose failure would end the shell.
const SCRIPT: &str = concat!(
    r#"say() { echo "fobs-boot $*"; }; PATH="$PATH:"#,
    usual_places!(),
    r#"";
 d="${XDG_CACHE_HOME:-$HOME/.cache}/fobs/VERSION"; p="$d/fobs";
 if command -v fobs >/dev/null 2>&1 && fobs --version >/dev/null 2>&1; then say installed; exec fobs server; fi;
 say arch "$(uname -s)" "$(uname -m)"; read -r h n || exit 1; if [ "$h" = none ]; then exit 1; fi;
 if [ -x "$p" ] && "$p" self-check "$h" >/dev/null 2>&1; then say ready; exec "$p" server; fi;
 t="$d/.fobs.$$"; m=$( { umask 077; mkdir -p "$d" && true > "$t"; } 2>&1 ) || { say home "$m"; exit 1; };
 say send; m=$( { head -c "$n" > "$t"; } 2>&1 ); s=$(wc -c < "$t");
 if [ "$s" -ne "$n" ]; then rm -f "$t"; say full "$m"; exit 1; fi;
 chmod 700 "$t"; m=$( { "$t" self-check "$h"; } 2>&1 ); c=$?;
 if [ "$c" -eq 0 ]; then mv -f "$t" "$p" && say ready && exec "$p" server; rm -f "$t"; say home; exit 1; fi;
 rm -f "$t"; say unfit "$c" "$m"; exit 1"#
);

/// How every release's script begins; `exec` and the quote are those of [`command`].
const BEGINNING: &str = r#"exec sh -c 'say() { echo "fobs-boot $*"; }; "#;

/// Whether a command is the script, which may have more or less behind its beginning in another release.
pub fn is_sending(command: &str) -> bool {
    command.starts_with(BEGINNING)
}

/// What the script says where the program is there already: frames follow.
pub fn installed() -> String {
    format!("{WORD} installed\n")
}

/// Whether it may be sent: a shell reads a script there. This host itself and a container get words.
pub fn may_be_pushed(options: &TransferOptions) -> bool {
    options.ssh.grammar == ShellGrammar::Ssh
}

/// As [`connect`](super::connect), of a host that may have no program.
///
/// # Errors
/// `RemoteMissing` where none can be sent or run there, with what to do.
pub fn connect_pushing(
    remote: &Remote,
    options: &TransferOptions,
    events: &Arc<dyn EventSink>,
    cancel: &CancelToken,
) -> Result<SshSession> {
    let mut started = Started::start(remote, options, &command())?;
    let _hook = cancel.on_cancel(started.process.killer());
    let watch = started.process.watch(Patience::of(options), events.clone());
    let words = heard(&mut started);
    // How long sending takes is the path's affair.
    drop(watch);
    let offered = |machine| places(&options.ssh.programs, machine);
    match words.and_then(|words| converse(&mut started, &words, events, &offered)) {
        Ok(()) => Ok(started.into_session()),
        Err(error) => Err(cancel.explain(started.process.blame(error, cancel))),
    }
}

/// The script for a shell of any kind.
fn command() -> String {
    let script = SCRIPT.replace("VERSION", env!("CARGO_PKG_VERSION")).replace('\n', "");
    format!("exec sh -c '{script}'")
}

/// From the first words of the script up to the last line before frames.
fn converse(
    started: &mut Started,
    words: &[String],
    events: &Arc<dyn EventSink>,
    places: &dyn Fn(Machine) -> Vec<PathBuf>,
) -> Result<()> {
    let host = started.process.host.clone();
    let machine = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["installed"] => return Ok(()),
        ["arch", "Linux", word] => Machine::named(word),
        _ => None,
    };
    let found = machine.and_then(|machine| Some((machine, find(machine, &places(machine))?)));
    let Some((machine, program)) = found else {
        // The shell there ends with this; whether it hears it does not matter.
        let _ = without_sigpipe(|| started.stdin.write_all(b"none 0\n"));
        return Err(no_program(&host, words, machine));
    };
    let (bytes, hash) = measure(&program)?;
    let asked = format!("{hash} {bytes}\n");
    said(without_sigpipe(|| started.stdin.write_all(asked.as_bytes())), started)?;
    let answer = heard(started)?;
    match first(&answer) {
        "ready" => return Ok(()),
        "send" => {}
        "home" => return Err(unusable_home(&host, &answer)),
        _ => return Err(refused(&host)),
    }
    // A far side that gives up says why: that explains more than the failed write.
    let sent = send(&program, bytes, started);
    let answer = heard(started)?;
    match first(&answer) {
        "ready" => {}
        "home" => return Err(unusable_home(&host, &answer)),
        "full" => return Err(full_home(&host, &answer)),
        "unfit" => return Err(unfit(&host, &answer)),
        _ => return sent.and(Err(refused(&host))),
    }
    let cpu = machine.file_name().trim_start_matches("fobs-").split('-').next().unwrap_or_default();
    events.event(Event::Notice(format!(
        "{host} had no fobs: sent {} for {cpu} ({:.1} MB) into ~/.cache/fobs/{} there",
        crate::control::program(),
        bytes as f64 / 1e6,
        env!("CARGO_PKG_VERSION"),
    )));
    Ok(())
}

/// The words of the next line of the script. Lines of a shell's start-up files before it are skipped.
fn heard(started: &mut Started) -> Result<Vec<String>> {
    for _ in 0..LINES_BEFORE_MAX {
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            match started.stdout.stream.read(&mut byte) {
                Ok(1) if byte[0] == b'\n' => break,
                Ok(1) if line.len() < LINE_BYTES_MAX => line.push(byte[0]),
                Ok(1) => {}
                Ok(_) | Err(_) => return Err(ended(&mut started.process)),
            }
        }
        let text = String::from_utf8_lossy(&line);
        let mut words = text.split_whitespace();
        if words.next() == Some(WORD) {
            return Ok(words.map(|word| printable(word, SHOWN_CHARS)).collect());
        }
    }
    Err(refused(&started.process.host))
}

fn first(words: &[String]) -> &str {
    words.first().map_or("", String::as_str)
}

fn said(written: io::Result<()>, started: &mut Started) -> Result<()> {
    written.map_err(|_| ended(&mut started.process))
}

/// Size and hash of a program.
fn measure(program: &Path) -> Result<(u64, String)> {
    let hashed = named::open(program).and_then(|file| {
        let mut hasher = blake3::Hasher::new();
        let bytes = io::copy(&mut file.take(PROGRAM_BYTES_MAX), &mut hasher)?;
        Ok((bytes, hasher.finalize().to_hex().to_string()))
    });
    hashed.map_err(|error| unreadable(program, &error))
}

fn send(program: &Path, bytes: u64, started: &mut Started) -> Result<()> {
    let mut file = named::open(program).map_err(|error| unreadable(program, &error))?.take(bytes);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece).map_err(|error| unreadable(program, &error))? {
            0 => return started.stdin.flush().map_err(|error| unreadable(program, &error)),
            count => {
                if without_sigpipe(|| started.stdin.write_all(&piece[..count])).is_err() {
                    return Ok(());
                }
            }
        }
    }
}

fn unreadable(program: &Path, error: &io::Error) -> Error {
    let message = format!("cannot send {}: {error}; install it again", program.display());
    Error::new(ErrorKind::RemoteMissing, message)
}

/// `ssh` ended, or the far shell did, before it said anything of ours.
fn ended(process: &mut SshProcess) -> Error {
    /// How long `ssh` may take to end after its output did.
    const WAIT: Duration = Duration::from_secs(3);
    if let Some(silence) = process.silence() {
        return silence;
    }
    let host = &process.host;
    let code = super::wait(&process.child, WAIT).ok().flatten().and_then(|status| status.code());
    match code {
        Some(super::SSH_FAILED) | None => Error::new(
            ErrorKind::Ssh,
            format!("ssh to {host} failed, see its own message above; try: ssh {host} true"),
        ),
        Some(_) => refused(host),
    }
}

fn refused(host: &str) -> Error {
    Error::new(
        ErrorKind::RemoteMissing,
        format!(
            "the shell on {host} does not run what sends fobs there (a restricted shell or a forced command?); \
             have fobs installed there"
        ),
    )
}

fn no_program(host: &str, words: &[String], machine: Option<Machine>) -> Error {
    let found = words.get(1..).unwrap_or_default().join(" ");
    let message = match machine {
        None => {
            format!("{host} runs {found:?}, for which there is no fobs to send; build and install it there")
        }
        Some(machine) => {
            let directories = places(&[], machine);
            let directories: Vec<String> = directories
                .iter()
                .skip(1)
                .filter_map(|path| Some(path.parent()?.display().to_string()))
                .collect();
            format!(
                "{host} is {found}, and this fobs is no static program for it: put {} into one of {}, or install fobs \
                 there",
                machine.file_name(),
                directories.join(", ")
            )
        }
    };
    Error::new(ErrorKind::RemoteMissing, message)
}

fn unusable_home(host: &str, words: &[String]) -> Error {
    let why = words.get(1..).unwrap_or_default().join(" ");
    Error::new(
        ErrorKind::RemoteMissing,
        format!(
            "cannot store fobs in ~/.cache on {host} ({why}); make the home directory writable, or set XDG_CACHE_HOME there \
             to a directory that is"
        ),
    )
}

fn full_home(host: &str, words: &[String]) -> Error {
    let why = words.get(1..).unwrap_or_default().join(" ");
    Error::new(
        ErrorKind::RemoteMissing,
        format!(
            "{host} could not store fobs in ~/.cache ({why}); make room there, or install fobs elsewhere there"
        ),
    )
}

fn unfit(host: &str, words: &[String]) -> Error {
    let why = words.get(2..).unwrap_or_default().join(" ");
    let message = match words.get(1).map(String::as_str) {
        // Shells end with 126 for a program that they cannot run.
        Some("126") => format!(
            "{host} does not run programs in ~/.cache ({why}): its file system is mounted noexec, or the CPU is \
             another one; set XDG_CACHE_HOME there to a directory that is not, or have fobs installed"
        ),
        _ => format!(
            "fobs arrived damaged on {host} ({why}), and was removed there; try again, then check its disk"
        ),
    };
    Error::new(ErrorKind::RemoteMissing, message)
}

#[cfg(test)]
mod tests;
