//! What Python gives as text and bytes: options by name, and paths.

use crate::job::misuse;
use fobs::filter::{Action, Chain, Filter, NameKind, Side};
use fobs::{
    Call, Error, ErrorKind, PickedNames, Preserve, RelPath, Result, SshWords, Taken, TransferOptions,
};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// Options by name, as text.
pub(crate) type Named = Vec<(String, String)>;
/// Paths of any bytes.
pub(crate) type Paths = Vec<Vec<u8>>;

/// Names of one directory, what is kept of them (the members of [`Preserve`] as JSON), and whether files are
/// compared by their content.
pub(crate) type Picked = (Paths, String, bool);

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

/// A call about these names of its directory.
pub(crate) fn picking(call: Call<'_>, picked: Option<Picked>) -> Result<Call<'_>> {
    let Some((names, preserve, content)) = picked else { return Ok(call) };
    let wrong = |why: &str| Error::new(ErrorKind::Usage, format!("the names cannot be picked: {why}"));
    let preserve: Preserve = serde_json::from_str(&preserve).map_err(|error| wrong(&error.to_string()))?;
    let names = names.into_iter().map(RelPath::new).collect::<std::result::Result<_, _>>();
    Ok(call.picked(PickedNames { names: names.map_err(wrong)?, preserve, content }))
}

/// Which of these names rsync's patterns leave out, the first that matches deciding. Of each pattern whether
/// it includes, of each name whether it is a directory. What lies in one that is left out is for the caller.
#[pyfunction]
pub(crate) fn left_out(patterns: Vec<(bool, Vec<u8>)>, names: Vec<(Vec<u8>, bool)>) -> PyResult<Vec<bool>> {
    let mut filter = Filter::default();
    for (includes, pattern) in patterns {
        let action = if includes { Action::Include } else { Action::Exclude };
        filter.add_pattern(action, &pattern).map_err(|why| misuse(&why.to_string()))?;
    }
    let chain = Chain::new(Arc::new(filter), Side::Sender, b"");
    let judged = names.iter().map(|(name, is_directory)| {
        chain.excludes(name, if *is_directory { NameKind::Directory } else { NameKind::Other })
    });
    Ok(judged.collect())
}
