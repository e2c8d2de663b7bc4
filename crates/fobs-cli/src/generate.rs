//! Manual pages and completions, from the definitions in [`crate::args`], and keys.

use std::fs;
use std::io::{self, Write};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use fobs::{Access, Error, ErrorKind, Result};

use crate::args::{Cli, KeygenArgs, ManArgs};
use crate::output;
use script::script;

mod manual;
mod script;

/// Name of the program and of its main manual page.
const NAME: &str = "fobs";

/// `fobs keygen`.
///
/// # Errors
/// Those of [`fobs::keygen`] and [`fobs::show_key`], and `FileIo` if the public key cannot be printed.
pub fn key(args: &KeygenArgs) -> Result<()> {
    let key = match &args.show {
        None => fobs::keygen(args.out.as_deref())?,
        Some(path) => fobs::show_key(path.as_deref())?,
    };
    let right = args.for_upload.then_some(Access::AppendOnly);
    let comment = args.comment.clone().unwrap_or_else(fobs::comment_here);
    print(format!("{}\n", key.authorized_line(right, &comment)).as_bytes())?;
    output::note(&format!("the key is in {}, its fingerprint is {}", key.path.display(), key.fingerprint));
    Ok(())
}

/// `fobs man`.
///
/// # Errors
/// `Usage` for a page that does not exist, `FileIo` if the pages cannot be written.
pub fn man(args: &ManArgs) -> Result<()> {
    let mut pages =
        manual::pages(visible()).map_err(|error| failed("cannot render a manual page", &error))?;
    if let Some(wanted) = &args.page {
        let names: Vec<_> = pages.iter().map(|(name, _)| name.clone()).collect();
        pages.retain(|(name, _)| name == wanted || name.strip_prefix("fobs-") == Some(wanted));
        if pages.is_empty() {
            let message = format!("there is no manual page {wanted:?}: there are {}", names.join(", "));
            return Err(Error::new(ErrorKind::Usage, message));
        }
    }
    let Some(directory) = &args.out else {
        return pages.iter().try_for_each(|(_, text)| print(text));
    };
    fs::create_dir_all(directory)
        .map_err(|error| failed(&format!("cannot create {}", directory.display()), &error))?;
    for (name, text) in pages {
        let path = directory.join(format!("{name}.1"));
        fobs::named::create(&path, fobs::named::USUAL)
            .and_then(|mut file| file.write_all(text.as_ref()))
            .map_err(|error| failed(&format!("cannot write {}", path.display()), &error))?;
    }
    Ok(())
}

/// `fobs completions`.
///
/// # Errors
/// `FileIo` if the script cannot be printed.
pub fn completions(shell: Shell) -> Result<()> {
    print(script(shell).as_bytes())
}

/// The definition without hidden subcommands: clap would complete them, too.
fn visible() -> Command {
    let full = Cli::command();
    let shown = full.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let about = full.get_about().cloned().unwrap_or_default();
    let long_about = full.get_long_about().cloned().unwrap_or_default();
    let after_help = full.get_after_help().cloned().unwrap_or_default();
    Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .long_about(long_about)
        .after_help(after_help)
        .subcommands(shown)
        .subcommand_required(true)
}

/// Writes to standard output; a closed pipe is no error.
fn print(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(failed("cannot write to standard output", &error))
        }
        _ => Ok(()),
    }
}

fn failed(what: &str, error: &io::Error) -> Error {
    Error::new(ErrorKind::FileIo, format!("{what}: {error}"))
}
