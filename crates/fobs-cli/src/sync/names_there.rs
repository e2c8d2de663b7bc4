//! A file of names at the other host: `--files-from=host:FILE`, or `:FILE`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fobs::options::{Location, Remote};
use fobs::{Error, Result};

use super::{there, usage};
use crate::args::sync::SyncArgs;
use crate::location;

/// The text of a file that lies at the other host; `None` for one of this host.
///
/// # Errors
/// `Usage` for a host that is no end of the sync, and what keeps the file from being read there.
pub fn read(args: &SyncArgs, file: &OsStr, len_max: u64) -> Result<Option<Vec<u8>>> {
    let named = match file.as_bytes() {
        [b':', path @ ..] => Some((None, path.to_vec())),
        _ => match location::parse(file) {
            Ok(Location::Remote(remote)) => Some((Some(remote.clone()), remote.path)),
            _ => None,
        },
    };
    let Some((host, path)) = named else { return Ok(None) };
    let shown = file.to_string_lossy();
    let Some(end) = other_end(args)? else {
        return Err(usage(format!("--files-from={shown}: no source and no destination is on another host")));
    };
    if host.is_some_and(|host| !is_same_host(&host, &end)) {
        return Err(usage(format!(
            "--files-from={shown}: the file must lie on this host or on '{}'",
            end.host
        )));
    }
    let text = there::ask(args, &end, |session| session.recv(&path, len_max));
    text.map(Some).map_err(|why| Error::new(why.kind, format!("--files-from={shown}: {}", why.message)))
}

/// The other host of the sync.
fn other_end(args: &SyncArgs) -> Result<Option<Remote>> {
    for path in &args.paths {
        if let Location::Remote(remote) = location::parse(path)? {
            return Ok(Some(remote));
        }
    }
    Ok(None)
}

fn is_same_host(one: &Remote, other: &Remote) -> bool {
    (&one.user, &one.host, one.port, one.carrier) == (&other.user, &other.host, other.port, other.carrier)
}
