//! Manual pages and completions, from the definitions in [`crate::args`], and keys.

use std::fs;
use std::io::{self, Write};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use fobs::{Access, Error, ErrorKind, Result};

use crate::args::{Cli, KeygenArgs, ManArgs};
use crate::output;

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
    let mut pages = pages()?;
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
        fobs::create_named(&path)
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
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(), NAME, &mut script);
    print(&script)
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

/// Every manual page: its name and its roff.
fn pages() -> Result<Vec<(String, Vec<u8>)>> {
    let mut root = visible().disable_help_subcommand(true);
    root.build();
    let commands = std::iter::once(&root).chain(root.get_subcommands());
    let page = |command: &Command| {
        let name = command.get_display_name().unwrap_or(NAME).to_owned();
        Ok((name, page(command).map_err(|error| failed("cannot render a manual page", &error))?))
    };
    commands.map(page).collect()
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let source = format!("{NAME} {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(source);
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    if let Some(after_help) = command.get_after_help() {
        table_section(&after_help.to_string()).to_writer(&mut text)?;
    }
    Ok(text)
}

/// The end of the help as a section: `Examples:` or `Exit codes:`, then lines that are kept as they are.
fn table_section(after_help: &str) -> Roff {
    let mut lines = after_help.lines();
    let heading = lines.next().unwrap_or_default().trim_end_matches(':').to_uppercase();
    let mut roff = Roff::new();
    roff.control("SH", [heading.as_str()]);
    roff.control("nf", []);
    for line in lines {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff
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
