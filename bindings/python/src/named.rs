//! What Python gives as text and bytes: options by name, and paths.

use fobs::{Result, SshWords, Taken, TransferOptions};
use std::path::PathBuf;

/// Options by name, as text.
pub(crate) type Named = Vec<(String, String)>;
/// Paths of any bytes.
pub(crate) type Paths = Vec<Vec<u8>>;

/// The name by which the package gives the program that was installed with it.
const OFFERED: &str = "_program";

/// The options with those that are named set.
pub(crate) fn with(mut options: TransferOptions, named: &Named) -> Result<TransferOptions> {
    for (name, value) in named {
        if name == OFFERED {
            options.ssh.programs.push(value.into());
        } else {
            options.set(name, value)?;
        }
    }
    // Who reads the exception does not see the terminal.
    options.ssh.words = SshWords::ShownAndKept;
    // Workers of one program fetch the same file into one cache.
    options.taken = Taken::Awaited;
    Ok(options)
}

/// A path of this host from its root: a call that waits for its turn, or goes on after a broken connection,
/// is about the same file when the directory of the process has changed.
pub(crate) fn from_root(path: PathBuf) -> PathBuf {
    match std::env::current_dir() {
        Ok(directory) if !path.as_os_str().is_empty() => directory.join(path),
        // There is none, or the directory was removed: the call says what that leads to.
        _ => path,
    }
}
