//! One job: how it stands, its attempts, and what they have said.

use std::fmt::Write;

use fobs::Result;
use fobs_jobs::words::{does, title};
use fobs_jobs::{Attempt, Client, JobId, JobView};
use serde_json::json;

use super::{print, print_json, reach};
use crate::output::printable;
use crate::times::shown;
use crate::units::show_bytes;

/// Attempts that are shown: the last ones.
const ATTEMPTS_SHOWN: usize = 10;

/// Prints a job.
///
/// # Errors
/// Where there is none, or the keeper does not answer.
pub fn run(client: &Client, id: JobId, json: bool) -> Result<()> {
    let job = reach::asked(client.job(id))?;
    if json {
        return print_json(&serde_json::to_value(&job).unwrap_or_default());
    }
    print(&text(&job))
}

fn text(job: &JobView) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<11}{}", printable(value));
    };
    let standing = &job.standing;
    line("job", &format!("{}  {}", job.id, title(job)));
    line("command", &format!("fobs {}", job.spec.command()));
    line("directory", &job.spec.directory.shown());
    line("submitted", &shown(job.submitted_ms));
    line("phase", &format!("{}  {}", standing.phase.name(), does(job)));
    if let Some(limit) = job.figures.as_ref().and_then(|figures| figures.limit.as_ref()) {
        line("limit", limit);
    }
    let chosen = [
        ("label", job.spec.label.clone()),
        ("priority", if job.spec.priority == 0 { String::new() } else { job.spec.priority.to_string() }),
        ("between", job.spec.between.map(|window| window.to_string()).unwrap_or_default()),
        ("deadline", job.spec.deadline_ms.map(shown).unwrap_or_default()),
        ("key", job.spec.key.clone().unwrap_or_default()),
    ];
    chosen.iter().filter(|(_, value)| !value.is_empty()).for_each(|(name, value)| line(name, value));
    if job.spec.every_ms.is_some() {
        let left_out =
            if standing.skipped > 0 { format!(", {} left out", standing.skipped) } else { String::new() };
        line("runs", &format!("{}{left_out}; the next is due at {}", standing.runs, shown(standing.slot_ms)));
    }
    let hidden = job.attempts.len().saturating_sub(ATTEMPTS_SHOWN);
    job.attempts.iter().skip(hidden).for_each(|one| line("attempt", &attempt(one)));
    text
}

fn attempt(attempt: &Attempt) -> String {
    let number = attempt.number;
    let began = shown(attempt.began_ms);
    let Some(ended_ms) = attempt.ended_ms else {
        let process = attempt.process.map(|process| format!(", process {process}")).unwrap_or_default();
        return format!("{number}  since {began}{process}");
    };
    let how = match &attempt.ending {
        None => "ended with its keeper or its host".to_owned(),
        Some(ending) => match (ending.exit_code, &ending.message) {
            (Some(0), _) => format!("done, {}", show_bytes(attempt.bytes)),
            (code, message) => {
                let code = code.map_or("killed".to_owned(), |code| format!("exit code {code}"));
                format!("{code}: {}", message.as_deref().unwrap_or("it said nothing"))
            }
        },
    };
    format!("{number}  {began} to {}: {how}", shown(ended_ms))
}

/// Prints what a job's attempts have said.
///
/// # Errors
/// As [`run`].
pub fn log(client: &Client, id: JobId, json: bool) -> Result<()> {
    for line in reach::asked(client.log(id))? {
        if json {
            print_json(&json!({"at_ms": line.at_ms, "attempt": line.attempt, "text": line.text}))?;
        } else {
            let by =
                if line.attempt == 0 { "keeper".to_owned() } else { format!("attempt {}", line.attempt) };
            print(&format!("{}  {by}: {}\n", shown(line.at_ms), printable(&line.text)))?;
        }
    }
    Ok(())
}
