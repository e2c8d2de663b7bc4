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
/// Starts what is its first word, instead of a host's command; the next ones are of its command line.
const SCRIPT: &str = "exec \"$0\" server";
/// Has links of every user followed.
const FOLLOWING: &str = " --insecure-links";
/// Most sources whose directories the other end is told.
const SOURCES_MAX: usize = 16;

/// Makes a destination on this host one that a second program serves, which reads large sources itself.
///
/// # Errors
/// This program or the current directory cannot be found.
pub fn served(
    sources: &[Location],
    destination: &mut Location,
    options: &mut TransferOptions,
    links: LinkOwners,
) -> Result<()> {
    let Location::Local(path) = destination else { return Ok(()) };
    let program = std::env::current_exe().map_err(|error| lost("this program", &error))?;
    let path = absolute(path)?;
    let mut script = SCRIPT.to_owned();
    if links == LinkOwners::Anyone {
        script += FOLLOWING;
    }
    // A limit is for what both programs read and write.
    let is_unlimited = options.rate_limit.is_none() && !options.delta;
    let directories = if is_unlimited { directories(sources)? } else { Vec::new() };
    // Else nothing that the other end has is used.
    options.delta |= !directories.is_empty();
    for number in 1..=directories.len() {
        script += &format!(" --sources-in=\"${{{number}}}\"");
    }
    let words = ["-c".into(), script.into(), program.into_os_string()].into_iter().chain(directories);
    *destination = Location::Remote(Remote {
        carrier: Carrier::Ssh,
        user: None,
        host: HOST.to_owned(),
        port: None,
        path,
    });
    options.ssh = SshOptions {
        program: Some("/bin/sh".into()),
        arguments: words.collect(),
        grammar: ShellGrammar::HostAndCommand,
        ..options.ssh.clone()
    };
    options.transport = Transport::Channel;
    Ok(())
}

/// The directories to which paths of the transfer are relative, each once; none of too many sources. Where an
/// option makes other paths, nothing is found there, or what the digest of a chunk refutes.
fn directories(sources: &[Location]) -> Result<Vec<OsString>> {
    let mut directories: Vec<OsString> = Vec::new();
    for source in sources.iter().take(SOURCES_MAX + 1) {
        let Location::Local(path) = source else { continue };
        let whole = absolute(path)?;
        let has_contents = whole.ends_with(b"/") || whole.ends_with(b"/.");
        let parent = whole.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let directory = if has_contents { &whole } else { &whole[..parent] };
        let directory = OsString::from_vec(directory.to_vec());
        if !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    let are_few = sources.len() <= SOURCES_MAX;
    Ok(if are_few { directories } else { Vec::new() })
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
    fn sources_lie_in_directories_that_are_named_once() {
        let found = |sources: &[&str]| {
            let sources: Vec<Location> = sources.iter().map(|path| Location::Local(path.into())).collect();
            directories(&sources).expect("there is a current directory")
        };
        assert_eq!(found(&["/a/b", "/a/c", "/d/", "/e/."]), ["/a/", "/d/", "/e/."]);
        assert_eq!(found(&["/a"]), ["/"]);
        let here = std::env::current_dir().expect("it exists");
        assert_eq!(found(&["a", "b/c"]), [here.join(""), here.join("b/")]);
        let many: Vec<String> = (0..=SOURCES_MAX).map(|number| format!("/{number}/")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!((found(&many[1..]).len(), found(&many).len()), (SOURCES_MAX, 0));
    }

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
