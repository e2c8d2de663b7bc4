//! What may stand next on a command line where that is no option: hosts, names there and here, running
//! copies.
//! The shells' scripts ask with `fobs complete` (hidden); options are in the scripts themselves.
//!
//! ```text
//!   words    the line of a shell to words, and back
//!   place    which argument is being written
//!   job      the command within `fobs submit`, numbers of jobs
//!   hosts    names of hosts, from the files of ssh and of this program
//!   names    of files here and over there
//! ```
//!
//! A key that is pressed must not hang, ask or change anything: files are read up to a bound, another host is
//! asked without a prompt and for three seconds, and no key is pinned.

mod hosts;
mod job;
mod names;
mod place;
mod words;

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Cli, CompleteArgs};
use crate::live;
use place::Wanted;
use words::{Line, Unfinished};

/// Most candidates that are printed: more is not read.
const CANDIDATES_MAX: usize = 2000;
/// Commands of a job.
const SUBMITTED: &[&str] = &["cp", "sync"];
/// The code that has a script complete options and subcommands itself.
const NOT_MINE: u8 = 1;

/// Something that may stand there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// The whole word, without quotes.
    pub text: Vec<u8>,
    /// What it is, for shells that show that.
    pub what: String,
}

impl Candidate {
    fn new(text: impl Into<Vec<u8>>) -> Candidate {
        Candidate { text: text.into(), what: String::new() }
    }
}

/// `fobs complete`; the code says whether the word was this program's to complete.
pub fn run(args: &CompleteArgs) -> u8 {
    let line = Line::parse(&args.line);
    let Some(mut found) = candidates(&line, args.shell) else { return NOT_MINE };
    found.sort();
    found.dedup();
    let quotes = words::Quotes { shell: args.shell, breaks: args.breaks.clone().unwrap_or_default() };
    let mut text = Vec::new();
    for candidate in found.iter().take(CANDIDATES_MAX) {
        let Some(word) = quotes.write(&candidate.text, &line.last) else { continue };
        text.extend_from_slice(&word);
        if args.shell == Shell::Fish && !candidate.what.is_empty() {
            text.push(b'\t');
            text.extend_from_slice(candidate.what.as_bytes());
        }
        text.push(b'\n');
    }
    // The shell may have lost interest.
    let _ = io::stdout().write_all(&text);
    crate::exit::SUCCESS
}

/// What may stand there; `None` where the script knows better.
fn candidates(line: &Line, shell: Shell) -> Option<Vec<Candidate>> {
    let mut program = Cli::command();
    program.build();
    let within = line.words.get(1).is_some_and(|name| name == "submit");
    let within = if within { job::within_submit(&program, &line.words) } else { None };
    if let Some(words) = within {
        let command = program.find_subcommand(words.get(1)?)?;
        if !SUBMITTED.contains(&command.get_name()) {
            return Some(Vec::new());
        }
        if line.last.text.starts_with(b"-") && place::is_option(command, words.get(2..)?) {
            return Some(job::options(command, &line.last.text));
        }
        return candidates(&Line { words, last: line.last.clone() }, shell);
    }
    let [_, name, before @ ..] = line.words.as_slice() else { return None };
    let command = program.find_subcommand(name).filter(|command| !command.is_hide_set())?;
    let Unfinished { text: typed, expands, .. } = &line.last;
    let wanted = place::wanted(command, before, typed);
    if wanted == Wanted::Nothing || *expands {
        // What a variable holds is the shell's.
        return None;
    }
    Some(match wanted {
        Wanted::Place => {
            let far = names::over_there(&line.words, typed);
            let mut found = far.unwrap_or_else(|| hosts::places(&line.words, typed));
            // fish writes `~` itself.
            if shell != Shell::Fish {
                found.extend(names::here(typed));
            }
            found
        }
        Wanted::File => names::here(typed),
        Wanted::Directory => {
            let mut found = names::here(typed);
            found.retain(|candidate| candidate.text.ends_with(b"/"));
            found
        }
        Wanted::Host => hosts::bare(&line.words, typed),
        Wanted::Copy => beginning(typed, live::all().into_iter().map(of_copy)),
        Wanted::Job => beginning(typed, job::numbers().into_iter()),
        Wanted::Change => beginning(typed, live::Change::forms().into_iter().map(Candidate::new)),
        Wanted::Word(words) => beginning(typed, words.into_iter().map(Candidate::new)),
        Wanted::Page => {
            let shown = program.get_subcommands().filter(|command| !command.is_hide_set());
            beginning(typed, shown.map(|command| Candidate::new(command.get_name())))
        }
        Wanted::Anything | Wanted::Nothing => Vec::new(),
    })
}

fn of_copy(copy: live::Snapshot) -> Candidate {
    let what = crate::output::printable(&copy.title());
    Candidate { text: copy.id.to_string().into_bytes(), what }
}

/// Those that begin as what is typed.
fn beginning(typed: &[u8], all: impl Iterator<Item = Candidate>) -> Vec<Candidate> {
    all.filter(|candidate| candidate.text.starts_with(typed)).collect()
}
