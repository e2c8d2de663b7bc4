//! From this host to itself: the other end is this program, started beside this one, and data goes through
//! its pipes.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use fobs::named::LinkOwners;
use fobs::options::{Carrier, Location, Remote, ShellGrammar, SshOptions, TransferOptions, Transport};
use fobs::{Error, ErrorKind, Result};

/// The name of this host in messages.
const HOST: &str = "localhost";
/// Starts what is its first word, instead of a host's command.
const SCRIPT: &str = "exec \"$0\" server";
/// Likewise, where links of every user are followed.
const FOLLOWING: &str = "exec \"$0\" server --insecure-links";

/// Makes a destination on this host one that a second program serves.
///
/// # Errors
/// This program or the current directory cannot be found.
pub fn served(destination: &mut Location, options: &mut TransferOptions, links: LinkOwners) -> Result<()> {
    let Location::Local(path) = destination else { return Ok(()) };
    let program = std::env::current_exe().map_err(|error| lost("this program", &error))?;
    let path = absolute(path)?;
    let script = match links {
        LinkOwners::Trusted => SCRIPT,
        LinkOwners::Anyone => FOLLOWING,
    };
    *destination = Location::Remote(Remote {
        carrier: Carrier::Ssh,
        user: None,
        host: HOST.to_owned(),
        port: None,
        path,
    });
    options.ssh = SshOptions {
        program: Some("/bin/sh".into()),
        arguments: ["-c", script].map(OsString::from).into_iter().chain([program.into()]).collect(),
        grammar: ShellGrammar::HostAndCommand,
        ..options.ssh.clone()
    };
    options.transport = Transport::Channel;
    Ok(())
}

/// What to write where nothing is on another host and the destination of a copy looks like one: scp makes a
/// file of that name. A sync makes it too, as rsync does: lines that people have rely on it.
pub fn forgotten_colon(destination: &Location) -> Option<String> {
    let Location::Local(path) = destination else { return None };
    let name = path.as_os_str().as_bytes();
    let (user, host) = name.split_at_checked(name.iter().position(|&byte| byte == b'@')?)?;
    let is_host = !user.is_empty() && host.len() > 1 && !name.contains(&b'/');
    let is_there = || path.symlink_metadata().is_ok();
    let shown = path.display();
    (is_host && !is_there()).then(|| {
        format!(
            "'{shown}' without a ':' would be a file here: for that host write {shown}:, for the file ./{shown}"
        )
    })
}

/// A path from the root, with the slash at its end if it has one.
fn absolute(path: &Path) -> Result<Vec<u8>> {
    let given = path.as_os_str().as_bytes();
    if given.starts_with(b"/") {
        return Ok(given.to_vec());
    }
    let here = std::env::current_dir().map_err(|error| lost("the current directory", &error))?;
    Ok([here.into_os_string().into_vec(), given.to_vec()].join(&b'/'))
}

fn lost(what: &str, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::FileIo, format!("cannot find {what}: {error}; start it again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_its_colon_is_no_new_file() {
        for (name, is_told) in [
            ("ann@host", true),
            ("ann@192.0.2.1", true),
            ("./icon@2x.png", false),
            ("ann@host/", false),
            ("@host", false),
            ("ann@", false),
            ("host", false),
        ] {
            let told = forgotten_colon(&Location::Local(name.into()));
            assert_eq!(told.is_some(), is_told, "{name}: {told:?}");
        }
    }
}
