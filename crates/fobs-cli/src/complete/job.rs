//! The command within `fobs submit`, and the numbers of jobs.

use std::ffi::OsString;

use clap::Command;
use fobs_jobs::words::title;

use super::{Candidate, place};
use crate::jobs;
use crate::output::printable;

/// The words of `fobs submit` up to its command become those of the command: `fobs cp ...`. None where the
/// command itself is being written.
pub(super) fn within_submit(program: &Command, words: &[OsString]) -> Option<Vec<OsString>> {
    let [name, submit, before @ ..] = words else { return None };
    let submit = program.find_subcommand(submit)?;
    let begin = place::first_argument(submit, before)?;
    Some([name.clone()].into_iter().chain(before[begin..].iter().cloned()).collect())
}

/// The long options of a command: the shell's script knows those of `submit` alone.
pub(super) fn options(command: &Command, typed: &[u8]) -> Vec<Candidate> {
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let named = shown.filter_map(|argument| {
        let text = format!("--{}", argument.get_long()?);
        let what = argument.get_help().map(|help| help.to_string()).unwrap_or_default();
        text.as_bytes().starts_with(typed).then(|| Candidate { text: text.into_bytes(), what })
    });
    named.collect()
}

/// The jobs of the keeper that runs: none is started for a key that is pressed.
pub(super) fn numbers() -> Vec<Candidate> {
    let of = |job: fobs_jobs::JobView| Candidate {
        text: job.id.to_string().into_bytes(),
        what: printable(&format!("{}: {}", job.standing.phase.name(), title(&job))),
    };
    jobs::known().into_iter().map(of).collect()
}
