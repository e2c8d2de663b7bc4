//! Why there is no fobs at the other end of an `ssh`: from its exit status and what came.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::SSH_FAILED;
use fobs_model::error::{Error, ErrorKind, SyncEnd};

/// Shells end with 127 for a command that does not exist, cmd.exe with 9009.
const MISSING: &[i32] = &[127, 9009];

/// Whether this is the end of a shell that has no such command.
pub(super) fn is_missing(status: ExitStatus) -> bool {
    status.code().is_some_and(|code| MISSING.contains(&code))
}

/// The other side's output before its hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FirstWords {
    None,
    /// The start of a frame: fobs runs there.
    Frame,
    /// Something else, as far as it can be printed.
    Text(String),
}

/// What is said of a host that may be a drive: `C:/Users` is a host for every program of this kind.
fn drive(host: &str) -> String {
    match host.as_bytes() {
        [letter] if letter.is_ascii_alphabetic() => {
            let letter = host.to_ascii_lowercase();
            format!("; a drive of Windows is /mnt/{letter} within WSL, and ./{host}:x a file here")
        }
        _ => String::new(),
    }
}

/// The error that fits the exit status of `ssh`, or `None` if the original error is more precise.
pub(super) fn explanation(
    host: &str,
    fobs_path: &str,
    status: Option<ExitStatus>,
    said: FirstWords,
) -> Option<Error> {
    let error = |kind, message| Some(Error::new(kind, message));
    // Shells end with 126 for a command that cannot run.
    match (status.and_then(|status| status.code()), said) {
        (_, FirstWords::Frame) => None,
        (Some(code), _) if MISSING.contains(&code) => error(
            ErrorKind::RemoteMissing,
            format!(
                "{host} has no program {fobs_path:?}; install fobs there, or say where it is with --fobs-path PATH"
            ),
        ),
        (Some(126), _) => error(
            ErrorKind::RemoteMissing,
            format!(
                "{host} cannot run {fobs_path:?}; make it executable there, or name another with --fobs-path PATH"
            ),
        ),
        (_, FirstWords::Text(text)) => error(
            ErrorKind::Protocol,
            format!(
                "{host} says something and fobs does not begin to speak there: {text:?}; see what this prints: \
                 ssh {host} {fobs_path} --version"
            ),
        ),
        (Some(SSH_FAILED), FirstWords::None) => error(
            ErrorKind::Ssh,
            format!("ssh to {host} failed, see its own message above; try: ssh {host} true{}", drive(host)),
        ),
        (Some(code), FirstWords::None) => error(
            ErrorKind::Protocol,
            format!(
                "the command {fobs_path:?} on {host} ended with status {code} before it said a word; \
                 try: ssh {host} {fobs_path} --version"
            ),
        )
        .map(|error| error.ends_sync(SyncEnd::Stream)),
        (None, FirstWords::None) => {
            let signal = status?.signal()?;
            error(
                ErrorKind::Ssh,
                format!("ssh to {host} was ended by signal {signal}; run the command again"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::drive;

    #[test]
    fn a_host_that_may_be_a_drive_is_told_so() {
        assert!(drive("C").contains("/mnt/c within WSL"));
        for host in ["cc", "1", "", "\u{e9}"] {
            assert_eq!(drive(host), "", "{host}");
        }
    }
}
