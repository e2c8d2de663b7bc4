//! `fobs server --restrict DIR`: a session over ssh that sees one directory, as `command=` of a key in sshd's
//! authorized_keys runs it.

use fobs_channel::control::ssh;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::options::{Restriction, Rights};
use fobs_store::{Base, Links};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Longest part of a refused command that is shown, characters.
const COMMAND_CHARS_MAX: usize = 80;

/// The directory that a restricted session sees as `/`.
///
/// # Errors
/// `Denied` where ssh was asked for anything but `fobs server`, `Destination` for a directory that cannot be
/// opened.
pub(crate) fn restricted(restriction: &Restriction) -> Result<Base> {
    let asked = std::env::var_os("SSH_ORIGINAL_COMMAND");
    let asked = asked.as_ref().map(|command| command.to_string_lossy());
    if check_command(std::env::var_os("SSH_CONNECTION").is_some(), asked.as_deref())? == Asked::Script {
        let mut out = std::io::stdout().lock();
        let said = out.write_all(ssh::installed().as_bytes()).and_then(|()| out.flush());
        said.map_err(|error| Error::new(ErrorKind::Connect, format!("cannot answer the client: {error}")))?;
    }
    Ok(beneath(open_root(&restriction.directory)?, &restriction.rights))
}

/// What a key with these rights sees of a root. No link leads out: the kernel resolves every path beneath the
/// directory. A right to a subtree is checked by name, so none may lead elsewhere.
pub fn beneath(root: OwnedFd, rights: &Rights) -> Base {
    let links = if rights.paths().is_empty() { Links::Inside } else { Links::Refuse };
    Base::Beneath { root, links }
}

/// A directory that is served.
pub fn open_root(path: &Path) -> Result<OwnedFd> {
    fobs_sys::named::open_directory(path).map_err(|error| {
        let message =
            format!("cannot serve {}: {error}; name a directory that exists and can be read", path.display());
        Error::new(ErrorKind::Destination, message)
    })
}

/// What a key's user asked ssh for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// `fobs server`.
    Server,
    /// The script that sends the program where it is missing: the client has sent it to this host before, or
    /// with another key. It waits for a word.
    Script,
}

/// Refuses a key's user who asked ssh for anything but what `fobs cp` asks for. Without ssh around there is
/// nothing to check.
fn check_command(over_ssh: bool, asked: Option<&str>) -> Result<Asked> {
    let denied = |why: String| Err(Error::new(ErrorKind::Denied, why));
    match asked {
        None if !over_ssh => Ok(Asked::Server),
        None => {
            denied("this key gives no shell here: it is only for fobs (fobs cp FILE HOST:PATH)".to_owned())
        }
        Some(command) if is_server(command) => Ok(Asked::Server),
        Some(command) if ssh::is_sending(command) => Ok(Asked::Script),
        Some(command) => {
            let shown = fobs_model::text::printable(command, COMMAND_CHARS_MAX);
            denied(format!(
                "this key may run only 'fobs server' here, not '{shown}': use it with fobs, or use another key"
            ))
        }
    }
}

/// Whether a command is `fobs server`, by any path and a name that begins with `fobs`.
fn is_server(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let (program, verb) = (words.next().unwrap_or_default(), words.next());
    let name = program.trim_matches(['\'', '"']).rsplit('/').next().unwrap_or_default();
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    name.starts_with("fobs") && plain && verb == Some("server") && words.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_servers_own_command_is_taken() {
        for command in ["fobs server", "/opt/x/fobs server", " fobs  server ", "'~/bin/fobs-1.2' server"] {
            assert_eq!(check_command(true, Some(command)), Ok(Asked::Server), "{command}");
        }
        for command in [
            "",
            "fobs",
            "server",
            "fobs cp a b",
            "fobs server --restrict /",
            "rsync --server .",
            "sh -c fobs server",
            "fobs server; sh",
            "fobs;sh server",
            "fobs$(sh) server",
            "/bin/sh server",
            "scp -t x\u{1b}[2J",
        ] {
            let error = check_command(true, Some(command)).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Denied, "{command}");
            assert!(!error.message.contains(char::is_control), "{error:?}");
        }
        assert!(check_command(true, None).unwrap_err().message.contains("no shell"));
        assert_eq!(check_command(false, None), Ok(Asked::Server), "not run by ssh");
        let script = r#"exec sh -c 'say() { echo "fobs-boot $*"; }; PATH="$PATH:/usr/local/bin"; exit 1'"#;
        assert_eq!(check_command(true, Some(script)), Ok(Asked::Script));
        assert!(check_command(true, Some(&script[1..])).is_err());
        assert!(check_command(false, Some("sh")).is_err());
    }
}
